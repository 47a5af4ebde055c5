/* SPDX-License-Identifier: Apache-2.0 */
/* A layer (convolution, linear, product with constant weights) seen through its op row: where its channels are. */
#ifndef INTACT_QUANT_LAYER_H
#define INTACT_QUANT_LAYER_H

#include "graph/graph.h"

typedef struct intact_layer {
  intact_node *node;
  int x, weight, bias;         /* operands; bias -1: the op takes none */
  int out_axis, in_axis;       /* of the weights */
  int64_t out_groups;          /* output channel = group * dims[out_axis] + index (transposed convolution), else 1 */
  int64_t in_groups;           /* input channel = group * dims[in_axis] + index (grouped convolution), else 1 */
  int64_t out_channels, in_channels;
  int x_axis, y_axis;          /* channel axis of what it reads and gives */
} intact_layer;

/* False when the node is no layer with constant float weights and a constant float bias or none, or its channels are unknown. */
bool intact__layer_describe(intact_node *node, intact_layer *layer);
/* The constant behind an operand, dequantize looked through; NULL: none. */
intact_value *intact__layer_constant(const intact_node *node, int operand);
/* Weights (and bias) with every output channel multiplied by factor[channel]; set as new constants of the node. */
intact_status intact__layer_scale_outputs(const intact_layer *layer, const float *factor);
/* Weights with every input channel multiplied by factor[map[channel]]. */
intact_status intact__layer_scale_inputs(const intact_layer *layer, const float *factor, const int64_t *map);
/* Output and input channel of weight element i. */
int64_t intact__layer_out_channel(const intact_layer *layer, const intact_tensor *weight, int64_t i);
int64_t intact__layer_in_channel(const intact_layer *layer, const intact_tensor *weight, int64_t i);

#endif
