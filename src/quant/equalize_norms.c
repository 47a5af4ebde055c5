/* SPDX-License-Identifier: Apache-2.0 */
/* Equalization of a network that keeps its batch norms: found on a folded copy, carried over by layer. */
#include "quant/equalize_norms.h"

#include <math.h>

#include "graph/pass.h"
#include "quant/annotate.h"
#include "quant/quant_layer.h"

typedef struct carry {
  intact_graph *graph;             /* with norms */
  intact_graph *folded, *equal;    /* copies: folded; folded and equalized */
  intact_arena arena;
} carry;

/* The norm that folding takes into the layer; NULL: none. */
static intact_node *norm_behind(const carry *c, const intact_node *layer) {
  intact_node *next = intact__value_single_user(layer->results[0]);
  return intact__is_op(next, "batch_norm") && !intact__graph_find_node(c->folded, next->name) ? next : NULL;
}

/* Operand i of a norm times factor, as a constant of its own. */
static intact_status scale_operand(intact_node *node, int i, const float *factor) {
  intact_tensor *tensor;
  intact_value *value;
  INTACT_TRY(intact_tensor_copy(node->operands[i]->constant, &tensor));
  for (int64_t k = 0; k < tensor->count; k++) intact__f32(tensor)[k] *= factor[k];
  const char *name = intact__graph_fresh_name(node->graph, node->operands[i]->name);
  if (!name) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(node->graph->context, 0);
  }
  INTACT_TRY(intact__graph_add_constant(node->graph, name, tensor, NULL, &value));
  intact__node_set_operand(node, i, value);
  return INTACT_OK;
}

/* What the readers' side of equalization did to each input channel of a layer: between the two folded copies weights differ by
   (input factor) x (output factor), both powers of two. */
static void input_factors(const intact_layer *before, const intact_layer *after, const intact_equalization *out, float *factor) {
  const intact_tensor *a = before->node->operands[before->weight]->constant, *b = after->node->operands[after->weight]->constant;
  for (int64_t c = 0; c < before->in_channels; c++) factor[c] = 1;
  for (int64_t i = 0; i < a->count; i++) {
    const float was = intact__f32(a)[i], is = intact__f32(b)[i];
    if (!(fabsf(was) >= 0x1p-100f) || !(fabsf(is) >= 0x1p-100f)) continue;
    const int64_t row = intact__layer_out_channel(before, a, i);
    factor[intact__layer_in_channel(before, a, i)] = ldexpf(is / was, out->n > 0 ? -out->exponents[row] : 0);
  }
}

static intact_status carry_layer(carry *c, intact_node *node) {
  intact_layer layer, before, after;
  intact_node *in_folded = intact__graph_find_node(c->folded, node->name), *in_equal = intact__graph_find_node(c->equal, node->name);
  if (!in_folded || !in_equal || !intact__layer_describe(node, &layer)) return INTACT_OK;
  if (!intact__layer_describe(in_folded, &before) || !intact__layer_describe(in_equal, &after)) return INTACT_OK;
  intact_equalization out = {0};
  INTACT_TRY(intact__equalization_find(c->equal, in_equal->source, &c->arena, &out));
  const size_t n = (size_t)(layer.in_channels > layer.out_channels ? layer.in_channels : layer.out_channels);
  float *factor = intact__arena_alloc(&c->arena, n, sizeof *factor);
  int64_t *same = intact__arena_alloc(&c->arena, n, sizeof *same);
  if (!factor || !same) return intact__no_memory(c->graph->context, n * sizeof *same);
  for (size_t i = 0; i < n; i++) same[i] = (int64_t)i;
  input_factors(&before, &after, &out, factor);
  INTACT_TRY(intact__layer_scale_inputs(&layer, factor, same));
  if (out.n != layer.out_channels) return INTACT_OK;
  for (int64_t i = 0; i < out.n; i++) factor[i] = ldexpf(1, out.exponents[i]);
  intact_node *norm = norm_behind(c, node);
  if (!norm) return intact__layer_scale_outputs(&layer, factor);
  INTACT_TRY(scale_operand(norm, 1, factor));
  return scale_operand(norm, 2, factor);
}

/* Norms without weight or bias have nowhere to put a factor. */
static bool can_carry(const intact_graph *graph) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    if (node->n_bodies > 0) return false;
    if (!intact__is_op(node, "batch_norm")) continue;
    if (!node->operands[1] || !node->operands[1]->constant || !node->operands[2] || !node->operands[2]->constant) return false;
  }
  return true;
}

static intact_status carry_over(carry *c) {
  for (intact_node *node = c->graph->first; node; node = node->next) {
    if (node->op->quant.weight_axis) INTACT_TRY(carry_layer(c, node));
  }
  for (int i = 0; i < c->equal->n_meta; i++) {
    const char *const *pair = c->equal->meta + 2 * i;
    if (intact__equalization_source(pair[0])) INTACT_TRY(intact__graph_add_meta(c->graph, pair[0], pair[1]));
  }
  intact__graph_remove_dead(c->graph);
  return intact__graph_infer(c->graph);
}

intact_status intact__equalize_with_norms(intact_graph *graph, const intact_quantize_options *options, intact_data *data,
                                          intact_note_list *notes) {
  carry c = {.graph = graph};
  if (!can_carry(graph)) return INTACT_OK;
  intact__arena_init(&c.arena, graph->context);
  intact_status status = intact_graph_copy(graph, &c.folded);
  if (status == INTACT_OK) status = intact__run_passes(c.folded, INTACT_STAGE_FLOAT, INTACT_STAGE_FLOAT);
  if (status == INTACT_OK) status = intact_graph_copy(c.folded, &c.equal);
  if (status == INTACT_OK) status = intact__annotate(c.equal, options, notes);
  if (status == INTACT_OK) status = intact__equalize(c.equal, data, options->batch, notes);
  if (status == INTACT_OK) status = carry_over(&c);
  intact_graph_destroy(c.equal);
  intact_graph_destroy(c.folded);
  intact__arena_fini(&c.arena);
  return status;
}
