/* SPDX-License-Identifier: Apache-2.0 */
/* Networks made by hand for tests of planning and running: integer graphs with random weights. */
#ifndef INTACT_TESTS_RUN_NET_H
#define INTACT_TESTS_RUN_NET_H

#include "support/test.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct net {
  intact_context *context;
  intact_graph *graph;
  uint64_t random;
} net;

static inline net net_create(intact_context *context, intact_stage stage) {
  net n = {.context = context, .random = test_random_start()};
  assert_ok(context, intact__graph_create(context, "net", &n.graph));
  n.graph->stage = stage;
  return n;
}

static inline intact_qparams net_qparams(intact_dtype dtype, const float *scale, const int32_t *zero) {
  return (intact_qparams){.scheme = INTACT_PER_TENSOR_AFFINE,
                          .dtype = dtype,
                          .quant_min = intact_dtype_min(dtype),
                          .quant_max = intact_dtype_max(dtype),
                          .axis = -1,
                          .n = 1,
                          .scale = scale,
                          .zero_point = zero};
}

static inline intact_value *net_input(net *n, const char *name, int rank, const int64_t *dims) {
  intact_value *x;
  assert_ok(n->context, intact__graph_add_input(n->graph, name, INTACT_F32, rank, dims, &x));
  return x;
}

/* A node of one result; its qparams are u8 when scale > 0, s8 when scale < 0 (of -scale), none when 0. */
static inline intact_node *net_node(net *n, const intact_op *op, int n_operands, intact_value *const *operands, float scale,
                                    int32_t zero) {
  intact_node *node;
  assert_ok(n->context, intact__graph_add_node(n->graph, op, NULL, n_operands, operands, 1, NULL, NULL, &node));
  const float size = fabsf(scale);
  const intact_qparams q = net_qparams(scale < 0 ? INTACT_S8 : INTACT_U8, &size, &zero);
  if (scale != 0) assert_ok(n->context, intact__value_set_qparams(n->graph, node->results[0], &q));
  return node;
}

static inline intact_value *net_infer(net *n, intact_node *node) {
  assert_ok(n->context, intact__node_infer(node));
  return node->results[0];
}

static inline intact_value *net_quantize(net *n, intact_value *x, float scale, int32_t zero) {
  return net_infer(n, net_node(n, &intact_op_quantize, 1, &x, scale, zero));
}

static inline intact_value *net_dequantize(net *n, intact_value *x) {
  return net_infer(n, net_node(n, &intact_op_dequantize, 1, &x, 0, 0));
}

static inline intact_value *net_unary(net *n, const intact_op *op, intact_value *x, float scale, int32_t zero) {
  return net_infer(n, net_node(n, op, 1, &x, scale, zero));
}

static inline intact_value *net_binary(net *n, const intact_op *op, intact_value *a, intact_value *b, float scale, int32_t zero) {
  return net_infer(n, net_node(n, op, 2, (intact_value *[]){a, b}, scale, zero));
}

/* Random s8 weights per output channel (axis 0), and an s32 bias of scale sx * sw. */
static inline void net_weights(net *n, const intact_value *x, int rank, const int64_t *dims, intact_value **w, intact_value **bias) {
  float scale[256], bias_scale[256];
  int32_t zero[256] = {0};
  intact_tensor *weights, *biases;
  assert_true(dims[0] <= 256);
  assert_ok(n->context, intact_tensor_create(n->context, INTACT_S8, rank, dims, &weights));
  assert_ok(n->context, intact_tensor_create(n->context, INTACT_S32, 1, dims, &biases));
  for (int64_t i = 0; i < weights->count; i++) ((int8_t *)weights->data)[i] = (int8_t)(test_random(&n->random) % 255 - 127);
  for (int64_t i = 0; i < dims[0]; i++) {
    ((int32_t *)biases->data)[i] = (int32_t)(test_random(&n->random) % 4001) - 2000;
    scale[i] = test_uniform(&n->random, 0.001f, 0.01f);
    bias_scale[i] = scale[i] * x->qparams->scale[0];
  }
  const intact_qparams qw = {INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S8, -127, 127, 0, 0, dims[0], scale, zero, NULL};
  const intact_qparams qb = {INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S32, INT32_MIN, INT32_MAX, 0, 0, dims[0], bias_scale, zero, NULL};
  const char *name = intact__graph_fresh_name(n->graph, "w");
  assert_ok(n->context, intact__graph_add_constant(n->graph, name, weights, &qw, w));
  name = intact__graph_fresh_name(n->graph, "b");
  assert_ok(n->context, intact__graph_add_constant(n->graph, name, biases, &qb, bias));
}

static inline intact_value *net_conv(net *n, intact_value *x, int64_t out, int64_t k, int64_t stride, int64_t groups, float scale,
                                     int32_t zero) {
  intact_value *operands[3] = {x};
  net_weights(n, x, 4, (const int64_t[]){out, x->dims[1] / groups, k, k}, &operands[1], &operands[2]);
  intact_node *node = net_node(n, &intact_op_conv2d, 3, operands, scale, zero);
  assert_ok(n->context, intact__attr_set_ints(node, "stride", 2, (const int64_t[]){stride, stride}));
  assert_ok(n->context, intact__attr_set_ints(node, "padding", 2, (const int64_t[]){k / 2, k / 2}));
  intact__attr_set_int(node, "groups", groups);
  return net_infer(n, node);
}

static inline intact_value *net_linear(net *n, intact_value *x, int64_t out, float scale, int32_t zero) {
  intact_value *operands[3] = {x};
  net_weights(n, x, 2, (const int64_t[]){out, x->dims[x->rank - 1]}, &operands[1], &operands[2]);
  return net_infer(n, net_node(n, &intact_op_linear, 3, operands, scale, zero));
}

static inline intact_value *net_max_pool(net *n, intact_value *x) {
  intact_node *node = net_node(n, &intact_op_max_pool2d, 1, &x, 0, 0);
  assert_ok(n->context, intact__attr_set_ints(node, "kernel_size", 2, (const int64_t[]){2, 2}));
  assert_ok(n->context, intact__value_set_qparams(n->graph, node->results[0], x->qparams));
  return net_infer(n, node);
}

static inline void net_outputs(net *n, int count, intact_value *const *outputs) {
  assert_ok(n->context, intact__graph_set_outputs(n->graph, count, outputs));
  assert_ok(n->context, intact_graph_verify(n->graph));
}

static inline intact_tensor *net_random_tensor(net *n, int rank, const int64_t *dims, float low, float high) {
  intact_tensor *tensor;
  assert_ok(n->context, intact_tensor_create(n->context, INTACT_F32, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__f32(tensor)[i] = test_uniform(&n->random, low, high);
  return tensor;
}

#endif
