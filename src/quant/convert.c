/* SPDX-License-Identifier: Apache-2.0 */
/* Observed graph -> q/dq graph: observe nodes become quantize and dequantize, constants become integers. */
#include <math.h>

#include "kernels/affine/choose_qparams.h"
#include "ops/ops.h"
#include "graph/fake_quantizer.h"
#include "quant/annotate.h"
#include "quant/batch_norm_fold.h"
#include "quant/bias.h"
#include "quant/useful_range.h"

typedef struct converter {
  intact_graph *graph;
  const intact_op *quantize, *dequantize;
  intact_note_list *notes;
} converter;

static bool is_observe(const intact_node *node) {
  return node && node->observation && (intact__is_op(node, "observe") || intact__is_op(node, "fake_quantize"));
}

/* The qparams of an observation: those of its statistics, or, trained, those that the last forward quantized with. */
static intact_status observed_qparams(const converter *c, const intact_node *node, intact_qparams **qparams) {
  const intact_observation *observation = node->observation;
  const intact_fake_quantizer *fake = observation->fake;
  intact_arena *arena = &c->graph->arena;
  if (!fake) return intact__observation_qparams(observation, arena, qparams);
  const char *value = node->operands[0]->name;
  if (!fake->initialized) {
    INTACT_TRY(intact__note(c->notes, "fake quantize %s: it was never switched on; its scale is that of the observed range", value));
    return intact__observation_qparams(observation, arena, qparams);
  }
  if (fake->stale)
    INTACT_TRY(intact__note(c->notes, "fake quantize %s: it was observed further while switched off; trained was with another scale", value));
  return intact__fake_quantizer_qparams(observation, arena, qparams);
}

static const char *suffixed(intact_graph *graph, const char *name, const char *suffix) {
  const char *base = intact__arena_format(&graph->arena, "%s_%s", name, suffix);
  return base ? intact__graph_fresh_name(graph, base) : NULL;
}

static intact_status add_unary(intact_graph *graph, const intact_op *op, intact_value *value, const char *base,
                               const char *suffix, intact_node *before, intact_node **node) {
  const char *name = suffixed(graph, base, suffix);
  if (!name) return intact__no_memory(graph->context, 0);
  return intact__graph_add_node(graph, op, name, 1, &value, 1, NULL, before, node);
}

/* value -> quantize -> dequantize before `before`; the two new nodes. */
static intact_status add_pair(const converter *c, intact_value *value, const intact_qparams *qparams, intact_node *before,
                              intact_node **quantize, intact_node **dequantize) {
  INTACT_TRY(add_unary(c->graph, c->quantize, value, value->name, "quantize", before, quantize));
  INTACT_TRY(intact__value_set_qparams(c->graph, (*quantize)->results[0], qparams));
  INTACT_TRY(intact__node_infer(*quantize));
  INTACT_TRY(add_unary(c->graph, c->dequantize, (*quantize)->results[0], value->name, "dequantize", before, dequantize));
  return intact__node_infer(*dequantize);
}

/* An integer constant and the dequantize node that reads it; takes `codes` over. */
static intact_status add_integer_constant(const converter *c, const char *name, intact_tensor *codes,
                                          const intact_qparams *qparams, intact_node *before, intact_node **dequantize) {
  intact_value *value = NULL;
  const char *fresh = suffixed(c->graph, name, "quantized");
  if (!fresh) {
    intact_tensor_destroy(codes);
    return intact__no_memory(c->graph->context, 0);
  }
  INTACT_TRY(intact__graph_add_constant(c->graph, fresh, codes, qparams, &value));
  INTACT_TRY(add_unary(c->graph, c->dequantize, value, name, "dequantize", before, dequantize));
  return intact__node_infer(*dequantize);
}

/* qparams of a value that comes out of dequantize; NULL: it does not. */
static const intact_qparams *dequantized_qparams(const intact_value *value) {
  if (!value || !intact__is_op(value->producer, "dequantize")) return NULL;
  return value->producer->operands[0]->qparams;
}

/* ---- activations ---- */

static bool wishes_integer(const intact_value *observed) {
  const intact_value *value = observed->producer->operands[0];
  const intact_annotation *produced = value->producer ? value->producer->annotation : NULL;
  if (observed->is_output && produced && produced->results[value->result].keep_integer) return true;
  if (value->is_input)
    for (const intact_use *use = observed->uses; use; use = use->next)
      if (use->node->annotation && use->node->annotation->operands[use->operand].keep_integer) return true;
  return false;
}

static intact_status check_observed(const converter *c, const intact_node *node) {
  const intact_observation *observation = node->observation;
  if (!observation->spec.observer) return INTACT_OK;
  intact_observer_counts counts = {0};
  observation->spec.observer->counts(observation->state, &counts);
  const char *value = node->operands[0]->name;
  if (counts.batches == 0)
    INTACT_FAIL(c->graph->context, WRONG_USE, value, "value %s was never observed: calibrate with samples before convert", value);
  if (counts.values > 0 && counts.non_finite == counts.values)
    INTACT_FAIL(c->graph->context, INVALID_VALUE, value,
                "convert: none of the %lld elements of value %s that calibration saw is finite: there is no range; look at the samples and "
                "at what normalises them",
                (long long)counts.values, value);
  if (counts.non_finite > 0)
    return intact__note(c->notes, "observe %s: %lld of %lld elements were not finite and are ignored", value,
                        (long long)counts.non_finite, (long long)counts.values);
  return INTACT_OK;
}

/* The group's qparams; of a value that stands alone and is read by unary maps only, without the part they can't tell apart. */
static intact_status activation_qparams(const converter *c, const intact_node *node, intact_qparams **qparams) {
  const intact_observation *observation = node->observation;
  intact_arena *arena = &c->graph->arena;
  INTACT_TRY(observed_qparams(c, node, qparams));
  const intact_qparams *q = *qparams;
  if (observation->fake || observation->uses != 1 || !observation->spec.observer || q->scheme != INTACT_PER_TENSOR_AFFINE) return INTACT_OK;
  float low = (float)(q->quant_min - q->zero_point[0]) * q->scale[0];
  float high = (float)(q->quant_max - q->zero_point[0]) * q->scale[0];
  float cut_low = low, cut_high = high;
  INTACT_TRY(intact__useful_range(node->results[0], &cut_low, &cut_high));
  if (!(cut_low - low + (high - cut_high) > q->scale[0])) return INTACT_OK; /* less than a step */
  float scale;
  int32_t zero_point;
  intact_qparams_rule rule =
      intact__qparams_rule(q->scheme, q->dtype, q->quant_min, q->quant_max, false, observation->spec.eps);
  intact__qparams_from_range(&rule, cut_low, cut_high, &scale, &zero_point);
  if (observation->spec.scale_bits > 0) intact__qparams_shorten(&rule, observation->spec.scale_bits, &scale, &zero_point);
  *qparams =
      intact__qparams_create(arena, q->scheme, q->dtype, q->quant_min, q->quant_max, -1, 1, &scale, &zero_point);
  if (!*qparams) return intact__no_memory(c->graph->context, sizeof **qparams);
  return intact__note(c->notes, "range of %s cut from %.3g..%.3g to %.3g..%.3g: its readers don't change outside",
                      node->operands[0]->name, (double)low, (double)high, (double)fminf(cut_low, 0.0f), (double)fmaxf(cut_high, 0.0f));
}

static intact_status convert_activation(const converter *c, intact_node *node) {
  INTACT_TRY(check_observed(c, node));
  intact_graph *graph = c->graph;
  intact_qparams *qparams = NULL;
  INTACT_TRY(activation_qparams(c, node, &qparams));
  intact_value *value = node->operands[0], *observed = node->results[0];
  bool integer = wishes_integer(observed);
  if (integer && value->is_input) {
    intact_node *dequantize = NULL;
    INTACT_TRY(intact__value_set_qparams(graph, value, qparams));
    INTACT_TRY(add_unary(graph, c->dequantize, value, value->name, "dequantize", node, &dequantize));
    INTACT_TRY(intact__node_infer(dequantize));
    intact__value_replace_uses(observed, dequantize->results[0]);
    return INTACT_OK;
  }
  intact_node *quantize = NULL, *dequantize = NULL;
  INTACT_TRY(add_pair(c, value, qparams, node, &quantize, &dequantize));
  if (!integer) {
    intact__value_replace_uses(observed, dequantize->results[0]);
    return INTACT_OK;
  }
  /* The output is the integers; who reads inside goes on through dequantize. */
  intact_value *stored = quantize->results[0];
  intact__value_replace_uses(observed, stored);
  for (intact_use *use = stored->uses, *next; use; use = next) {
    next = use->next;
    if (use->node != dequantize) intact__node_set_operand(use->node, use->operand, dequantize->results[0]);
  }
  return INTACT_OK;
}

/* A result that shares the qparams of an operand without having been observed. Constants become integers later. */
static intact_status convert_passive(const converter *c, intact_node *node, int result) {
  const intact_wish *wish = &node->annotation->results[result];
  const intact_value *shared = intact__edge_value(wish->shared);
  const intact_qparams *qparams = dequantized_qparams(shared);
  intact_value *value = node->results[result];
  if (!qparams && shared && is_observe(shared->producer) && shared->producer->operands[0]->constant) {
    intact_qparams *observed = NULL;
    INTACT_TRY(observed_qparams(c, shared->producer, &observed));
    qparams = observed;
  }
  if (!qparams) return INTACT_OK;
  intact_node *quantize = NULL, *dequantize = NULL;
  INTACT_TRY(add_pair(c, value, qparams, node->next, &quantize, &dequantize));
  bool integer = wish->keep_integer && value->is_output;
  intact__value_replace_uses(value, integer ? quantize->results[0] : dequantize->results[0]);
  intact__node_set_operand(quantize, 0, value);
  if (!integer) return INTACT_OK;
  for (intact_use *use = quantize->results[0]->uses, *next; use; use = next) {
    next = use->next;
    if (use->node != dequantize) intact__node_set_operand(use->node, use->operand, dequantize->results[0]);
  }
  return INTACT_OK;
}

/* ---- constants ---- */

/* The reader's float bias that is derived from this weight, with the qparams of the activation beside it. */
static const intact_tensor *derived_bias(const intact_use *use, const intact_qparams **x) {
  const intact_node *node = use->node;
  if (!node->annotation) return NULL;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_wish *wish = &node->annotation->operands[i];
    if (wish->kind != INTACT_WISH_DERIVED || !node->operands[i] || !node->operands[i]->constant) continue;
    if (wish->from[1].node != node || wish->from[1].slot != use->operand) continue;
    *x = dequantized_qparams(intact__edge_value(wish->from[0]));
    return *x ? node->operands[i]->constant : NULL;
  }
  return NULL;
}

static intact_status convert_constant(const converter *c, intact_node *node) {
  intact_graph *graph = c->graph;
  intact_qparams *observed = NULL;
  INTACT_TRY(observed_qparams(c, node, &observed));
  const intact_qparams *qparams = observed;
  const intact_value *value = node->operands[0];
  for (const intact_use *use = node->results[0]->uses; use; use = use->next) {
    const intact_qparams *x = NULL;
    const intact_tensor *bias = derived_bias(use, &x);
    if (!bias) continue;
    int64_t raised = 0;
    INTACT_TRY(intact__fit_weight_scales(&graph->arena, value->constant, qparams, bias, x, &qparams, &raised));
    if (raised > 0)
      INTACT_TRY(intact__note(c->notes, "weight scale of %s raised in %lld of %lld channels so that the bias fits int32",
                              use->node->name, (long long)raised, (long long)qparams->n));
  }
  intact_tensor *codes = NULL;
  INTACT_TRY(intact__quantize_tensor(value->constant, qparams, &codes));
  intact_node *dequantize = NULL;
  INTACT_TRY(add_integer_constant(c, value->name, codes, qparams, node, &dequantize));
  intact__value_replace_uses(node->results[0], dequantize->results[0]);
  return INTACT_OK;
}

static intact_status convert_bias(const converter *c, intact_node *node, int operand) {
  const intact_wish *wish = &node->annotation->operands[operand];
  intact_value *value = node->operands[operand];
  const intact_qparams *x = dequantized_qparams(intact__edge_value(wish->from[0]));
  const intact_qparams *weight = dequantized_qparams(intact__edge_value(wish->from[1]));
  if (!value || !value->constant || !x || !weight) return INTACT_OK;
  const intact_qparams *qparams = NULL;
  INTACT_TRY(intact__bias_qparams(&c->graph->arena, value->constant, x, weight, &qparams));
  if (!qparams) return INTACT_OK;
  intact_tensor *codes = NULL;
  INTACT_TRY(intact__quantize_bias_tensor(value->constant, qparams, &codes));
  intact_node *dequantize = NULL;
  INTACT_TRY(add_integer_constant(c, value->name, codes, qparams, node, &dequantize));
  intact__node_set_operand(node, operand, dequantize->results[0]);
  return INTACT_OK;
}

/* ---- the graph ---- */

static intact_status convert_graph(intact_graph *graph, intact_note_list *notes) {
  converter c = {graph, intact__find_op("quantize"), intact__find_op("dequantize"), notes};
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (is_observe(node) && !node->operands[0]->constant) {
      INTACT_TRY(convert_activation(&c, node));
      intact__node_remove(node);
    } else if (node->annotation) {
      for (int r = 0; r < node->n_results; r++)
        if (node->annotation->results[r].passive) INTACT_TRY(convert_passive(&c, node, r));
    }
  }
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (!is_observe(node)) continue;
    INTACT_TRY(convert_constant(&c, node));
    intact__node_remove(node);
  }
  for (intact_node *node = graph->first; node; node = node->next) {
    for (int i = 0; node->annotation && i < node->n_operands; i++)
      if (node->annotation->operands[i].kind == INTACT_WISH_DERIVED) INTACT_TRY(convert_bias(&c, node, i));
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(convert_graph(node->bodies[b], notes));
  }
  intact__graph_remove_dead(graph);
  graph->stage = INTACT_STAGE_QDQ;
  return INTACT_OK;
}

intact_status intact__convert(intact_graph *graph, intact_note_list *notes) {
  if (graph->stage != INTACT_STAGE_OBSERVED)
    INTACT_FAIL(graph->context, WRONG_USE, graph->name, "convert needs an observed network; this one is at stage %s",
                intact_stage_text(graph->stage));
  INTACT_TRY(intact__refold_norms(graph));
  INTACT_TRY(convert_graph(graph, notes));
  return intact_graph_verify(graph);
}

intact_status intact_convert(intact_graph *graph) {
  intact_note_list notes;
  intact__notes_init(&notes, graph->context);
  intact_status status = intact__convert(graph, &notes);
  intact__notes_fini(&notes);
  return status;
}
