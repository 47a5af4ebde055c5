/* SPDX-License-Identifier: Apache-2.0 */
/* The default quantizer: reads what the op rows say of their operands and results; it knows no op by name. */
#include <stdlib.h>
#include <string.h>

#include "graph/quantizer.h"
#include "quant/settings.h"

/* Costs at most 1/2048 of a range; the product of two scales is exact in float32: intact__qparams_shorten. */
enum { SCALE_BITS = 12 };

/* What becomes of a node. Light nodes (elementwise, pooling, data movement) are worth quantizing only next to quantized ones;
   heavy ones (with weights, or products of activations) always. */
typedef enum fate { FATE_FLOAT, FATE_LIGHT, FATE_QUANTIZED } fate;

typedef struct walk {
  intact_graph *graph;
  const intact_quantizer_settings *settings;
  int scale_bits;
  intact_map index; /* node name -> position */
  fate *fates;
} walk;

static fate *fate_of(const walk *w, const intact_node *node) {
  int64_t position = 0;
  intact__map_get(&w->index, node->name, &position);
  return &w->fates[position];
}

static bool is_float_operand(const intact_node *node, int operand, intact_role role) {
  const intact_value *value = node->operands[operand];
  return value && value->dtype == INTACT_F32 && intact__operand_spec(node->op, operand)->role == role;
}

/* An activation: by its role, or as what stands where weights usually stand (products of activations). */
static bool is_data_operand(const intact_node *node, int operand) {
  return is_float_operand(node, operand, INTACT_ROLE_ACTIVATION) ||
         (is_float_operand(node, operand, INTACT_ROLE_WEIGHT) && !node->operands[operand]->constant);
}

static bool has_role(const intact_node *node, intact_role role) {
  for (int i = 0; i < node->n_operands; i++)
    if (is_float_operand(node, i, role)) return true;
  return false;
}

/* Clamps do not count: a range of their own is finer, and a table makes the change of scale exact. Nor does padding with a
   number, which may lie outside of the range of what it surrounds. */
static bool moves_data(const intact_node *node) {
  double value;
  if (node->op->quant.fill_value && node->op->quant.fill_value(node, &value)) return false;
  return node->op->quant.result == INTACT_RESULT_SAME_AS && !node->op->quant.is_clamp && !has_role(node, INTACT_ROLE_WEIGHT);
}

/* Whether the node can be quantized at all. */
static bool is_candidate(const intact_node *node) {
  const intact_quant_traits *traits = &node->op->quant;
  if (node->annotation || traits->no_quantize || traits->result == INTACT_RESULT_NONE || node->n_bodies > 0) return false;
  if (!node->op->lower_int && !node->op->on_integers) return false;
  if (node->n_results < 1 || node->results[0]->dtype != INTACT_F32 || !has_role(node, INTACT_ROLE_ACTIVATION)) return false;
  return true;
}

static bool is_heavy(const intact_node *node) {
  return has_role(node, INTACT_ROLE_WEIGHT) || (node->op->macs && !moves_data(node));
}

/* The clamp that goes into the node's own quantized range: its only reader, monotone, claimed by nobody else. */
static intact_node *fused_clamp(const intact_node *node) {
  if (!node->op->quant.may_fuse_clamp || node->n_results != 1) return NULL;
  intact_node *reader = intact__value_single_user(node->results[0]);
  if (!reader || !reader->op->quant.is_clamp || reader->operands[0] != node->results[0]) return NULL;
  return is_candidate(reader) ? reader : NULL;
}

static bool producer_quantized(const walk *w, const intact_node *node) {
  for (int i = 0; i < node->n_operands; i++)
    if (is_data_operand(node, i) && node->operands[i]->producer &&
        *fate_of(w, node->operands[i]->producer) == FATE_QUANTIZED)
      return true;
  return false;
}

static bool reader_quantized(const walk *w, const intact_node *node) {
  for (int r = 0; r < node->n_results; r++)
    for (const intact_use *use = node->results[r]->uses; use; use = use->next)
      if (is_data_operand(use->node, use->operand) && *fate_of(w, use->node) == FATE_QUANTIZED)
        return true;
  return false;
}

static intact_status decide_fates(walk *w) {
  int64_t position = 0;
  for (intact_node *node = w->graph->first; node; node = node->next, position++) {
    INTACT_TRY(intact__map_set(&w->index, node->name, position));
    w->fates[position] = !is_candidate(node) ? FATE_FLOAT : is_heavy(node) ? FATE_QUANTIZED : FATE_LIGHT;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (intact_node *node = w->graph->first; node; node = node->next) {
      if (*fate_of(w, node) != FATE_LIGHT || !producer_quantized(w, node)) continue;
      *fate_of(w, node) = FATE_QUANTIZED;
      changed = true;
    }
    for (intact_node *node = w->graph->last; node; node = node->prev) {
      if (*fate_of(w, node) != FATE_LIGHT || !reader_quantized(w, node)) continue;
      *fate_of(w, node) = FATE_QUANTIZED;
      changed = true;
    }
  }
  return INTACT_OK;
}

/* ---- writing the wishes ---- */

static intact_wish activation_wish(const walk *w, const intact_value *value) {
  const intact_quant_spec *spec = value->constant ? w->settings->constant : w->settings->activation;
  intact_wish wish = {.kind = INTACT_WISH_OWN, .spec = *spec};
  wish.spec.scale_bits = w->scale_bits;
  return wish;
}

static intact_wish weight_wish(const walk *w, const intact_node *node) {
  intact_wish wish = {.kind = INTACT_WISH_OWN, .spec = *w->settings->weight};
  int groups = 1;
  int axis = node->op->quant.weight_axis ? node->op->quant.weight_axis(node, &groups) : -1;
  /* Channels that lie as groups x axis have no scale of their own along one axis. */
  if (wish.spec.axis < 0 || axis < 0 || groups > 1)
    wish.spec = *w->settings->weight_tensor;
  else
    wish.spec.axis = axis;
  wish.spec.scale_bits = w->scale_bits;
  return wish;
}

/* A node that moves data takes the qparams of what it moves, a fixed range included. */
static intact_wish moved_wish(const walk *w, const intact_value *value) {
  intact_node *producer = value->producer;
  const intact_wish *produced = producer ? intact__edge_wish(intact__result_edge(producer, value->result)) : NULL;
  if (produced && produced->kind != INTACT_WISH_FLOAT)
    return (intact_wish){.kind = INTACT_WISH_SHARED, .shared = intact__result_edge(producer, value->result)};
  return activation_wish(w, value);
}

static void wish_operands(const walk *w, intact_node *node, intact_annotation *annotation) {
  const intact_quant_traits *traits = &node->op->quant;
  bool moves = moves_data(node);
  for (int i = 0; i < node->n_operands; i++) {
    intact_wish *wish = &annotation->operands[i];
    if (is_data_operand(node, i)) {
      if (moves && !traits->share_operands && i == traits->same_as)
        *wish = moved_wish(w, node->operands[i]);
      else if (moves && traits->share_operands && i != traits->same_as)
        *wish = (intact_wish){.kind = INTACT_WISH_SHARED, .shared = intact__operand_edge(node, traits->same_as)};
      else
        *wish = activation_wish(w, node->operands[i]);
      wish->keep_integer = w->settings->io_integer && node->operands[i]->is_input;
    } else if (is_float_operand(node, i, INTACT_ROLE_WEIGHT)) {
      *wish = weight_wish(w, node);
    } else if (is_float_operand(node, i, INTACT_ROLE_BIAS) && node->operands[i]->constant) {
      wish->kind = INTACT_WISH_DERIVED;
      wish->spec = (intact_quant_spec){.dtype = INTACT_S32, .scheme = INTACT_PER_CHANNEL_SYMMETRIC, .axis = 0};
      wish->from[0] = intact__operand_edge(node, traits->bias_of[0]);
      wish->from[1] = intact__operand_edge(node, traits->bias_of[1]);
    }
  }
}

static intact_wish result_wish(const walk *w, intact_node *node, const intact_value *result) {
  const intact_quant_traits *traits = &node->op->quant;
  intact_wish wish = activation_wish(w, result);
  if (moves_data(node)) {
    wish = (intact_wish){.kind = INTACT_WISH_SHARED, .shared = intact__operand_edge(node, traits->same_as), .passive = true};
  } else if (traits->result == INTACT_RESULT_FIXED) {
    wish.kind = INTACT_WISH_FIXED;
    wish.spec.observer = NULL;
    wish.spec.options = NULL;
    wish.fixed_scale = traits->fixed_scale;
    wish.fixed_zero_point = traits->fixed_zero_point - (wish.spec.dtype == INTACT_S8 ? 128 : 0);
  }
  wish.keep_integer = w->settings->io_integer && result->is_output;
  return wish;
}

static intact_status annotate_node(const walk *w, intact_node *node) {
  intact_node *clamp = fused_clamp(node);
  intact_annotation *annotation = intact__node_annotate(node, "default");
  if (!annotation) return intact__no_memory(w->graph->context, sizeof *annotation);
  wish_operands(w, node, annotation);
  if (clamp) {
    /* Nothing between the two: the range is the clamp's. */
    annotation = intact__node_annotate(clamp, "default");
    if (!annotation) return intact__no_memory(w->graph->context, sizeof *annotation);
    annotation->results[0] = result_wish(w, clamp, clamp->results[0]);
    return INTACT_OK;
  }
  for (int r = 0; r < node->n_results; r++)
    if (node->results[r]->dtype == INTACT_F32) annotation->results[r] = result_wish(w, node, node->results[r]);
  return INTACT_OK;
}

static intact_status read_scale_bits(intact_context *context, const char *options, int *bits) {
  char text[16];
  *bits = SCALE_BITS;
  if (!intact__option_find(options, "scale_bits", text, sizeof text)) return INTACT_OK;
  char *end = text;
  long n = strtol(text, &end, 10);
  if (end == text || *end || n < 0 || n > 24 || n == 1)
    INTACT_FAIL(context, WRONG_USE, "default", "option scale_bits of quantizer default is '%s': 2 to 24, or 0 for scales as they come",
                text);
  *bits = (int)n;
  return INTACT_OK;
}

static intact_status annotate(intact_graph *graph, const intact_quantizer_settings *settings) {
  walk w = {.graph = graph, .settings = settings};
  INTACT_TRY(read_scale_bits(graph->context, settings->options, &w.scale_bits));
  w.fates = intact__alloc_zeroed(graph->context, (size_t)graph->n_nodes + 1, sizeof *w.fates);
  if (!w.fates) return intact__no_memory(graph->context, (size_t)graph->n_nodes * sizeof *w.fates);
  intact__map_init(&w.index, graph->context);
  intact_status status = decide_fates(&w);
  for (intact_node *node = graph->first; node && status == INTACT_OK; node = node->next)
    if (*fate_of(&w, node) == FATE_QUANTIZED && !node->annotation) status = annotate_node(&w, node);
  intact__map_fini(&w.index);
  intact__free(graph->context, w.fates);
  return status;
}

const intact_quantizer intact_quantizer_default = {
    .name = "default",
    .doc = "Per-tensor activations, per-channel symmetric s8 weights, s32 biases, everywhere an integer kernel exists",
    .options = "scale_bits=12",
    .annotate = annotate,
};
