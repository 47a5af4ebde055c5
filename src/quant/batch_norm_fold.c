/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms that are folded while they are trained. */
#include "quant/batch_norm_fold.h"

#include <assert.h>

#include "ops/ops.h"

enum { WEIGHT, GAMMA, BETA, MEAN, VAR, LAYER_BIAS };

static intact_value *operand_of(const intact_node *node, int i) { return i >= 0 && i < node->n_operands ? node->operands[i] : NULL; }

/* ---- remember ---- */

static intact_status remember(intact_norm_memories *memories, const intact_node *layer, const intact_node *norm) {
  void *array = memories->items;
  INTACT_TRY(intact__reserve(memories->context, &array, &memories->capacity, memories->n + 1, sizeof *memories->items));
  memories->items = array;
  intact_norm_memory *m = &memories->items[memories->n++];
  *m = (intact_norm_memory){.layer = layer->name, .norm = norm->name, .eps = intact__attr_float(norm, "eps"),
                            .momentum = intact__attr_float(norm, "momentum")};
  const intact_value *values[6] = {operand_of(layer, intact__operand_with_role(layer->op, INTACT_ROLE_WEIGHT)),
                                   operand_of(norm, 1),
                                   operand_of(norm, 2),
                                   operand_of(norm, 3),
                                   operand_of(norm, 4),
                                   operand_of(layer, intact__operand_with_role(layer->op, INTACT_ROLE_BIAS))};
  for (int i = 0; i < 6; i++) {
    if (!values[i] || !values[i]->constant) continue;
    m->names[i] = values[i]->name;
    INTACT_TRY(intact_tensor_share(values[i]->constant, 0, NULL, &m->tensors[i]));
  }
  return INTACT_OK;
}

intact_status intact__remember_norms(const intact_graph *graph, intact_norm_memories *memories) {
  memories->context = graph->context;
  for (const intact_node *node = graph->first; node; node = node->next) {
    const intact_node *layer = intact__is_op(node, "batch_norm") ? node->operands[0]->producer : NULL;
    if (layer && layer->op->quant.weight_axis) INTACT_TRY(remember(memories, layer, node));
  }
  return INTACT_OK;
}

void intact__forget_norms(intact_norm_memories *memories) {
  for (size_t k = 0; k < memories->n; k++)
    for (int i = 0; i < 6; i++) intact_tensor_destroy(memories->items[k].tensors[i]);
  intact__free(memories->context, memories->items);
  *memories = (intact_norm_memories){.context = memories->context};
}

/* ---- unfold ---- */

/* A constant under the name it had, if no value of the graph bears it now. */
static intact_status add_constant(intact_graph *graph, const char *name, const intact_tensor *tensor, intact_value **value) {
  intact_tensor *copy;
  int64_t id;
  const char *fresh = intact__graph_fresh_name(graph, name);
  if (!fresh) return intact__no_memory(graph->context, 0);
  INTACT_TRY(intact_tensor_copy(tensor, &copy));
  INTACT_TRY(intact__graph_add_constant(graph, fresh, copy, NULL, value));
  if (intact__map_get(&graph->value_names, name, &id) && !graph->values[id]) {
    INTACT_TRY(intact__map_set(&graph->value_names, name, (*value)->id));
    (*value)->name = name;
  }
  return INTACT_OK;
}

static intact_status filled(intact_context *context, int64_t n, float value, intact_tensor **tensor) {
  INTACT_TRY(intact__tensor_create_raw(context, INTACT_F32, 1, &n, tensor));
  for (int64_t i = 0; i < n; i++) intact__f32(*tensor)[i] = value;
  return INTACT_OK;
}

/* gamma and beta that the norm does not have are 1 and 0. */
static intact_status complete(intact_graph *graph, intact_norm_memory *m) {
  for (int i = GAMMA; i <= BETA; i++) {
    if (m->tensors[i]) continue;
    const char *name = intact__arena_format(&graph->arena, "%s_%s", m->norm, i == GAMMA ? "weight" : "bias");
    if (!name) return intact__no_memory(graph->context, 0);
    m->names[i] = name;
    INTACT_TRY(filled(graph->context, m->tensors[VAR]->count, i == GAMMA ? 1.0f : 0.0f, &m->tensors[i]));
  }
  return INTACT_OK;
}

/* The node that reads the layer's weight constant: its fake quantizer, or the layer itself. */
static intact_use *weight_use(const intact_node *layer, int weight) {
  intact_value *value = operand_of(layer, weight);
  if (value && value->producer && intact__is_op(value->producer, "fake_quantize") && value->n_uses == 1) {
    intact_node *fake = value->producer;
    return fake->operands[0]->constant && fake->operands[0]->n_uses == 1 ? &fake->uses[0] : NULL;
  }
  return value && value->constant && value->n_uses == 1 ? &layer->uses[weight] : NULL;
}

static intact_status add_fold_weight(intact_node *layer, const intact_use *use, intact_value *const *v, const intact_norm_memory *m, bool divide) {
  intact_graph *graph = layer->graph;
  intact_node *fold;
  intact_value *const operands[3] = {v[WEIGHT], v[GAMMA], v[VAR]};
  int groups = 1;
  const char *base = intact__arena_format(&graph->arena, "%s_fold_weight", layer->name);
  const char *name = base ? intact__graph_fresh_name(graph, base) : NULL;
  if (!name) return intact__no_memory(graph->context, 0);
  INTACT_TRY(intact__graph_add_node(graph, intact__find_op("fold_weight"), name, 3, operands, 1, NULL, use->node, &fold));
  intact__attr_set_int(fold, "axis", layer->op->quant.weight_axis(layer, &groups));
  intact__attr_set_int(fold, "groups", groups);
  intact__attr_set_int(fold, "divide", divide);
  intact__attr_set_float(fold, "eps", m->eps);
  INTACT_TRY(intact__node_infer(fold));
  intact__node_set_operand(use->node, use->operand, fold->results[0]);
  return INTACT_OK;
}

static intact_status add_norm(intact_node *layer, intact_value *const *v, const intact_norm_memory *m, bool divide) {
  intact_graph *graph = layer->graph;
  intact_value *y = layer->results[0], *const operands[6] = {y, v[GAMMA], v[BETA], v[MEAN], v[VAR], v[LAYER_BIAS]};
  intact_node *norm;
  int64_t taken;
  const char *name = intact__map_get(&graph->node_names, m->norm, &taken) ? intact__graph_fresh_name(graph, m->norm) : m->norm;
  if (!name) return intact__no_memory(graph->context, 0);
  INTACT_TRY(intact__graph_add_node(graph, intact__find_op("folded_batch_norm"), name, v[LAYER_BIAS] ? 6 : 5, operands, 1, NULL, layer->next, &norm));
  intact__attr_set_float(norm, "eps", m->eps);
  intact__attr_set_float(norm, "momentum", m->momentum);
  intact__attr_set_int(norm, "divide", divide);
  INTACT_TRY(intact__node_infer(norm));
  intact__value_replace_uses(y, norm->results[0]);
  intact__node_set_operand(norm, 0, y);
  return INTACT_OK;
}

static intact_status unfold(intact_graph *graph, intact_norm_memory *m, bool divide) {
  intact_node *layer = intact__graph_find_node(graph, m->layer);
  if (!layer || intact__graph_find_node(graph, m->norm) || !m->tensors[WEIGHT] || !m->tensors[VAR]) return INTACT_OK;
  const int weight = intact__operand_with_role(layer->op, INTACT_ROLE_WEIGHT), bias = intact__operand_with_role(layer->op, INTACT_ROLE_BIAS);
  const intact_use *use = weight_use(layer, weight);
  if (!use) return INTACT_OK;
  intact_value *v[6] = {NULL};
  INTACT_TRY(complete(graph, m));
  if (operand_of(layer, bias)) intact__node_set_operand(layer, bias, NULL);
  for (int i = 0; i < 6; i++)
    if (m->tensors[i]) INTACT_TRY(add_constant(graph, m->names[i], m->tensors[i], &v[i]));
  INTACT_TRY(add_fold_weight(layer, use, v, m, divide));
  return add_norm(layer, v, m, divide);
}

intact_status intact__unfold_norms(intact_graph *graph, const intact_norm_memories *memories, bool divide) {
  for (size_t i = 0; i < memories->n; i++) INTACT_TRY(unfold(graph, &memories->items[i], divide));
  intact__graph_remove_dead(graph);
  return intact__graph_infer(graph);
}

/* ---- refold ---- */

/* The folded weights: what the layer saw; 0 where gamma is 0, as the result does not depend on the layer there. */
static intact_status folded_weight(const intact_node *fold, intact_tensor **weight) {
  const intact_tensor *operands[3], *gamma = fold->operands[1]->constant;
  for (int i = 0; i < 3; i++) operands[i] = fold->operands[i]->constant;
  INTACT_TRY(intact__eval_node(fold, operands, false, weight));
  const int axis = (int)intact__attr_int(fold, "axis");
  int64_t inner = 1, along = (*weight)->dims[axis], per_group = (*weight)->count / intact__attr_int(fold, "groups");
  for (int i = axis + 1; i < (*weight)->rank; i++) inner *= (*weight)->dims[i];
  for (int64_t i = 0; i < (*weight)->count; i++)
    if (intact__f32(gamma)[i / per_group * along + i / inner % along] == 0) intact__f32(*weight)[i] = 0;
  return INTACT_OK;
}

/* The folded bias: what the norm gives for x = 0 with its running statistics. */
static intact_status folded_bias(const intact_node *norm, intact_tensor **bias) {
  enum { OPERANDS = 6, RESULTS = 5 }; /* in training a norm has all of its row's: the batch's statistics, too */
  const intact_tensor *operands[OPERANDS] = {NULL};
  intact_tensor *zeros, *results[RESULTS] = {NULL};
  const int64_t n = norm->operands[VAR]->constant->count, dims[2] = {1, n};
  for (int i = 1; i < norm->n_operands; i++) operands[i] = norm->operands[i] ? norm->operands[i]->constant : NULL;
  INTACT_TRY(intact_tensor_create(norm->graph->context, INTACT_F32, 2, dims, &zeros));
  operands[0] = zeros;
  assert(norm->n_operands <= OPERANDS && norm->n_results <= RESULTS);
  intact_status status = intact__eval_node(norm, operands, true, results);
  if (status == INTACT_OK) status = intact_tensor_share(results[0], 1, &n, bias);
  for (int i = 0; i < RESULTS; i++) intact_tensor_destroy(results[i]);
  intact_tensor_destroy(zeros);
  return status;
}

static bool all_constant(const intact_node *node, int first) {
  for (int i = first; i < node->n_operands; i++)
    if (node->operands[i] && !node->operands[i]->constant) return false;
  return true;
}

static intact_status refold(intact_node *norm) {
  intact_graph *graph = norm->graph;
  intact_node *layer = norm->operands[0]->producer;
  const int bias = layer ? intact__operand_with_role(layer->op, INTACT_ROLE_BIAS) : -1;
  if (bias < 0 || !all_constant(norm, 1))
    INTACT_FAIL(graph->context, WRONG_USE, norm->name, "folded_batch_norm '%s' does not stand behind a layer with constants: it can't be folded",
                norm->name);
  intact_tensor *tensor;
  intact_value *value;
  const char *base = intact__arena_format(&graph->arena, "%s_bias", layer->name);
  const char *name = base ? intact__graph_fresh_name(graph, base) : NULL;
  if (!name) return intact__no_memory(graph->context, 0);
  intact__attr_set_int(norm, "training", 0);
  INTACT_TRY(folded_bias(norm, &tensor));
  INTACT_TRY(intact__graph_add_constant(graph, name, tensor, NULL, &value));
  INTACT_TRY(intact__node_extend(layer, bias + 1));
  intact__node_set_operand(layer, bias, value);
  intact__node_set_operand(norm, 0, NULL);
  intact__value_replace_uses(norm->results[0], layer->results[0]);
  intact__node_remove(norm);
  return INTACT_OK;
}

intact_status intact__refold_norms(intact_graph *graph) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (intact__is_op(node, "folded_batch_norm")) INTACT_TRY(refold(node));
    if (!intact__is_op(node, "fold_weight") || !all_constant(node, 0)) continue;
    intact_tensor *weight;
    intact_value *value;
    const char *name = intact__graph_fresh_name(graph, node->operands[0]->name);
    if (!name) return intact__no_memory(graph->context, 0);
    INTACT_TRY(folded_weight(node, &weight));
    INTACT_TRY(intact__graph_add_constant(graph, name, weight, NULL, &value));
    intact__value_replace_uses(node->results[0], value);
    intact__node_remove(node);
  }
  return INTACT_OK;
}
