/* SPDX-License-Identifier: Apache-2.0 */
/* A batch norm after convolution or linear goes into weights and bias. */
#include <math.h>

#include "graph/pass.h"

typedef struct place {
  intact_node *layer, *norm;
  int weight, bias; /* operands of the layer */
  int axis, groups; /* output channels of the weight: groups x dims[axis] */
  int64_t channels;
} place;

static const intact_tensor *constant_of(const intact_node *node, int operand) {
  return operand < node->n_operands && node->operands[operand] ? node->operands[operand]->constant : NULL;
}

/* gamma, beta, mean, variance: constants of one value per channel; gamma and beta may be missing. */
static bool norm_is_constant(const intact_node *norm, int64_t channels) {
  if (intact__attr_int(norm, "training")) return false;
  for (int i = 1; i <= 4; i++) {
    const intact_tensor *tensor = constant_of(norm, i);
    bool missing = i >= norm->n_operands || !norm->operands[i];
    if (missing ? i >= 3 : !tensor || tensor->count != channels) return false;
  }
  for (int r = 1; r < norm->n_results; r++)
    if (norm->results[r]->n_uses || norm->results[r]->is_output) return false;
  return true;
}

static bool find_place(intact_node *norm, place *found) {
  if (!intact__is_op(norm, "batch_norm") || norm->annotation) return false;
  intact_node *layer = norm->operands[0]->producer;
  if (!layer || layer->annotation || intact__value_single_user(layer->results[0]) != norm || !layer->op->quant.weight_axis)
    return false;
  place p = {.layer = layer, .norm = norm};
  p.weight = intact__operand_with_role(layer->op, INTACT_ROLE_WEIGHT);
  p.bias = intact__operand_with_role(layer->op, INTACT_ROLE_BIAS);
  if (p.weight < 0 || p.bias != layer->op->schema.n_operands - 1) return false;
  const intact_tensor *weight = constant_of(layer, p.weight), *bias = constant_of(layer, p.bias);
  bool no_bias = p.bias >= layer->n_operands || !layer->operands[p.bias];
  if (!weight || weight->dtype != INTACT_F32 || (!no_bias && (!bias || bias->dtype != INTACT_F32))) return false;
  p.groups = 1;
  p.axis = layer->op->quant.weight_axis(layer, &p.groups);
  if (p.axis < 0 || p.axis >= weight->rank) return false;
  p.channels = weight->dims[p.axis] * p.groups;
  if (!no_bias && bias->count != p.channels) return false;
  /* The norm's channels are axis 1; so must be the layer's. A linear over more than two dimensions has them last. */
  const intact_value *y = layer->results[0];
  bool spatial = layer->op->int_layout == INTACT_INT_CHANNELS_LAST;
  if (y->rank < 2 || (!spatial && y->rank != 2) || !norm_is_constant(norm, p.channels)) return false;
  *found = p;
  return true;
}

static double at(const intact_node *norm, int operand, int64_t c, double otherwise) {
  const intact_tensor *tensor = constant_of(norm, operand);
  return tensor ? intact__tensor_get_f64(tensor, c) : otherwise;
}

static intact_status set_constant(place *p, int operand, const char *base, intact_tensor *tensor) {
  intact_graph *graph = p->layer->graph;
  const char *name = intact__graph_fresh_name(graph, base);
  if (!name) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(graph->context, 0);
  }
  intact_value *value = NULL;
  INTACT_TRY(intact__graph_add_constant(graph, name, tensor, NULL, &value));
  INTACT_TRY(intact__node_extend(p->layer, operand + 1));
  intact__node_set_operand(p->layer, operand, value);
  return INTACT_OK;
}

/* w' = w * gamma / sqrt(var + eps), b' = (b - mean) * gamma / sqrt(var + eps) + beta; double, rounded once. */
static intact_status fold(place *p) {
  intact_context *context = p->layer->graph->context;
  const intact_tensor *old_weight = constant_of(p->layer, p->weight), *old_bias = constant_of(p->layer, p->bias);
  intact_tensor *weight = NULL, *bias = NULL;
  double eps = intact__attr_float(p->norm, "eps");
  INTACT_TRY(intact_tensor_copy(old_weight, &weight));
  intact_status status = intact__tensor_create_raw(context, INTACT_F32, 1, &p->channels, &bias);
  if (status != INTACT_OK) {
    intact_tensor_destroy(weight);
    return status;
  }
  int64_t inner = 1, along = weight->dims[p->axis], per_group = weight->count / p->groups;
  for (int i = p->axis + 1; i < weight->rank; i++) inner *= weight->dims[i];
  float *w = intact__f32(weight);
  for (int64_t i = 0; i < weight->count; i++) {
    int64_t c = i / per_group * along + i / inner % along;
    w[i] = (float)((double)w[i] * (at(p->norm, 1, c, 1.0) / sqrt(at(p->norm, 4, c, 1.0) + eps)));
  }
  for (int64_t c = 0; c < p->channels; c++) {
    double factor = at(p->norm, 1, c, 1.0) / sqrt(at(p->norm, 4, c, 1.0) + eps);
    double b = old_bias ? intact__tensor_get_f64(old_bias, c) : 0.0;
    intact__f32(bias)[c] = (float)((b - at(p->norm, 3, c, 0.0)) * factor + at(p->norm, 2, c, 0.0));
  }
  const char *weight_name = p->layer->operands[p->weight]->name;
  const char *bias_name = old_bias ? p->layer->operands[p->bias]->name
                                   : intact__arena_format(&p->layer->graph->arena, "%s_bias", p->layer->name);
  if (!bias_name) bias_name = "bias";
  status = set_constant(p, p->weight, weight_name, weight);
  if (status != INTACT_OK) {
    intact_tensor_destroy(bias);
    return status;
  }
  INTACT_TRY(set_constant(p, p->bias, bias_name, bias));
  INTACT_TRY(intact__node_add_source(p->layer, p->norm->source));
  intact__value_replace_uses(p->norm->results[0], p->layer->results[0]);
  intact__node_remove(p->norm);
  return INTACT_OK;
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    place p;
    if (!find_place(node, &p)) continue;
    INTACT_TRY(fold(&p));
    ++*changed;
  }
  return INTACT_OK;
}

const intact_pass intact_pass_fold_batch_norm = {
    .name = "fold_batch_norm",
    .doc = "Multiplies the statistics of a batch norm into the weights and bias of the layer before it",
    .precondition = "the norm is in inference mode with constant statistics and is the only reader of a layer with constant float "
                    "weights and bias, whose channels are axis 1",
    .needs = INTACT_STAGE_FLOAT,
    .gives = INTACT_STAGE_FLOAT,
    .numerics = "float rounding: each new weight and bias is rounded once",
    .run = run,
};
