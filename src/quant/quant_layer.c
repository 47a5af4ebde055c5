/* SPDX-License-Identifier: Apache-2.0 */
/* A layer (convolution, linear, product with constant weights) seen through its op row: where its channels are. */
#include "quant/quant_layer.h"

/* The only operand of a role; -1: none, or several. */
static int only_operand(const intact_op *op, intact_role role) {
  int found = -1;
  for (int i = 0; i < op->schema.n_operands; i++) {
    if (op->schema.operands[i].role != role) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

intact_value *intact__layer_constant(const intact_node *node, int operand) {
  if (operand < 0 || operand >= node->n_operands || !node->operands[operand]) return NULL;
  intact_value *value = node->operands[operand];
  if (intact__is_op(value->producer, "dequantize")) value = value->producer->operands[0];
  return value->constant ? value : NULL;
}

static bool find_axes(intact_layer *l, const intact_tensor *weight) {
  const intact_node *node = l->node;
  const intact_value *x = node->operands[l->x], *y = node->results[0];
  int groups = 1;
  l->out_axis = node->op->quant.weight_axis(node, &groups);
  if (weight->rank < 2 || l->out_axis < 0 || l->out_axis > 1 || x->rank < 2 || y->rank < 2) return false;
  l->in_axis = 1 - l->out_axis;
  bool spatial = node->op->int_layout == INTACT_INT_CHANNELS_LAST;
  if (!spatial && weight->rank != 2) return false;
  l->x_axis = spatial ? 1 : x->rank - 1;
  l->y_axis = spatial ? 1 : y->rank - 1;
  l->in_channels = x->dims[l->x_axis];
  l->out_groups = groups;
  l->out_channels = weight->dims[l->out_axis] * groups;
  int64_t along = weight->dims[l->in_axis];
  if (l->in_channels <= 0 || along <= 0 || l->in_channels % along != 0 || l->out_channels <= 0) return false;
  l->in_groups = l->in_channels / along;
  return l->out_channels % l->in_groups == 0 && y->dims[l->y_axis] == l->out_channels;
}

bool intact__layer_describe(intact_node *node, intact_layer *layer) {
  const intact_op *op = node->op;
  if (!op->quant.weight_axis || !op->macs || node->n_results != 1) return false;
  intact_layer l = {.node = node};
  l.x = only_operand(op, INTACT_ROLE_ACTIVATION);
  l.weight = only_operand(op, INTACT_ROLE_WEIGHT);
  l.bias = only_operand(op, INTACT_ROLE_BIAS);
  if (l.x < 0 || l.weight < 0 || l.x >= node->n_operands || !node->operands[l.x]) return false;
  const intact_value *weight = intact__layer_constant(node, l.weight);
  if (!weight || !find_axes(&l, weight->constant)) return false;
  if (l.bias >= 0 && l.bias < node->n_operands && node->operands[l.bias]) {
    const intact_value *bias = intact__layer_constant(node, l.bias);
    if (!bias || bias->constant->count != l.out_channels) return false;
  }
  *layer = l;
  return true;
}

static int64_t along_axis(const intact_tensor *tensor, int axis, int64_t i) {
  int64_t inner = 1;
  for (int k = axis + 1; k < tensor->rank; k++) inner *= tensor->dims[k];
  return i / inner % tensor->dims[axis];
}

int64_t intact__layer_out_channel(const intact_layer *layer, const intact_tensor *weight, int64_t i) {
  int64_t channel = along_axis(weight, layer->out_axis, i);
  if (layer->out_groups == 1) return channel;
  int64_t per_group = weight->dims[layer->in_axis] / layer->out_groups;
  return along_axis(weight, layer->in_axis, i) / per_group * weight->dims[layer->out_axis] + channel;
}

int64_t intact__layer_in_channel(const intact_layer *layer, const intact_tensor *weight, int64_t i) {
  int64_t channel = along_axis(weight, layer->in_axis, i);
  if (layer->in_groups == 1) return channel;
  int64_t group = along_axis(weight, layer->out_axis, i) / (layer->out_channels / layer->in_groups);
  return group * weight->dims[layer->in_axis] + channel;
}

/* Puts a new constant in the place of the operand; takes the tensor over. */
static intact_status set_constant(intact_node *node, int operand, intact_tensor *tensor) {
  intact_graph *graph = node->graph;
  const char *name = intact__graph_fresh_name(graph, node->operands[operand]->name);
  if (!name) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(graph->context, 0);
  }
  intact_value *value = NULL;
  INTACT_TRY(intact__graph_add_constant(graph, name, tensor, NULL, &value));
  intact__node_set_operand(node, operand, value);
  return INTACT_OK;
}

intact_status intact__layer_scale_outputs(const intact_layer *layer, const float *factor) {
  intact_node *node = layer->node;
  intact_tensor *weight = NULL, *bias = NULL;
  INTACT_TRY(intact_tensor_copy(node->operands[layer->weight]->constant, &weight));
  for (int64_t i = 0; i < weight->count; i++) intact__f32(weight)[i] *= factor[intact__layer_out_channel(layer, weight, i)];
  INTACT_TRY(set_constant(node, layer->weight, weight));
  if (layer->bias < 0 || layer->bias >= node->n_operands || !node->operands[layer->bias]) return INTACT_OK;
  INTACT_TRY(intact_tensor_copy(node->operands[layer->bias]->constant, &bias));
  for (int64_t i = 0; i < bias->count; i++) intact__f32(bias)[i] *= factor[i];
  return set_constant(node, layer->bias, bias);
}

intact_status intact__layer_scale_inputs(const intact_layer *layer, const float *factor, const int64_t *map) {
  intact_tensor *weight = NULL;
  INTACT_TRY(intact_tensor_copy(layer->node->operands[layer->weight]->constant, &weight));
  for (int64_t i = 0; i < weight->count; i++)
    intact__f32(weight)[i] *= factor[map[intact__layer_in_channel(layer, weight, i)]];
  return set_constant(layer->node, layer->weight, weight);
}
