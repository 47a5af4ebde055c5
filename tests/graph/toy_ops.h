/* SPDX-License-Identifier: Apache-2.0 */
/* Small op rows for tests of the graph: y = x + c per element, y = max(x, 0), pass-through and shape arithmetic. */
#ifndef INTACT_TESTS_GRAPH_TOY_OPS_H
#define INTACT_TESTS_GRAPH_TOY_OPS_H

#include <string.h>

#include "graph/graph.h"

static inline intact_status toy_infer_same(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  for (int i = 1; i < node->n_operands; i++) {
    const intact_value *other = node->operands[i];
    if (other != NULL && !intact__shape_equal(x->rank, x->dims, other->rank, other->dims))
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "toy shapes differ at %s", node->name);
  }
  node->results[0]->dtype = x->dtype;
  node->results[0]->rank = x->rank;
  memcpy(node->results[0]->dims, x->dims, sizeof x->dims);
  return INTACT_OK;
}

static inline intact_status toy_eval_add(const intact_call *call) {
  const intact_tensor *a = call->operands[0], *b = call->operands[1];
  intact_tensor *y;
  INTACT_TRY(intact__call_result(call, 0, a->dtype, a->rank, a->dims, &y));
  for (int64_t i = 0; i < y->count; i++)
    intact__tensor_set_f64(y, i, intact__tensor_get_f64(a, i) + (b != NULL ? intact__tensor_get_f64(b, i) : 0));
  return INTACT_OK;
}

static inline intact_status toy_eval_relu(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y;
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  for (int64_t i = 0; i < y->count; i++) {
    const double value = intact__tensor_get_f64(x, i);
    intact__tensor_set_f64(y, i, value > 0 ? value : 0);
  }
  return INTACT_OK;
}

static inline intact_status toy_infer_shape(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  intact_value *y = infer->node->results[0];
  y->dtype = INTACT_S64;
  y->rank = 1;
  y->dims[0] = x->rank;
  int64_t elements[INTACT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) elements[i] = intact__element_from_dim(x->dims[i]);
  return intact__infer_set_elements(infer, 0, x->rank, elements);
}

static inline intact_status toy_eval_shape(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y;
  const int64_t rank = x->rank;
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, 1, &rank, &y));
  for (int64_t i = 0; i < rank; i++) intact__tensor_set_s64(y, i, x->dims[i]);
  return INTACT_OK;
}

static inline intact_status toy_infer_pick(intact_infer *infer) {
  intact_value *y = infer->node->results[0];
  y->dtype = infer->node->operands[0]->dtype;
  y->rank = 0;
  return INTACT_OK;
}

/* y = x[index], moving the element whatever it is. */
static inline intact_status toy_eval_pick(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y;
  INTACT_TRY(intact__call_result(call, 0, x->dtype, 0, NULL, &y));
  intact__tensor_set_s64(y, 0, intact__tensor_get_s64(x, intact__attr_int(call->node, "index")));
  return INTACT_OK;
}

/* A tensor of as many zeros as the operand's element says. */
static inline intact_status toy_infer_zeros(intact_infer *infer) {
  const intact_value *n = infer->node->operands[0];
  intact_value *y = infer->node->results[0];
  y->dtype = INTACT_F32;
  y->rank = 1;
  y->dims[0] = n->elements != NULL ? intact__dim_from_element(n->elements[0]) : intact__infer_unknown_dim(infer);
  return INTACT_OK;
}

static inline intact_status toy_eval_zeros(const intact_call *call) {
  const int64_t n = intact__tensor_get_s64(call->operands[0], 0);
  if (n < 0) INTACT_FAIL(call->context, INVALID_VALUE, call->node->name, "negative size");
  return intact_tensor_create(call->context, INTACT_F32, 1, &n, &call->results[0]);
}

static const intact_op toy_add = {
    .name = "toy_add",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "alpha", .type = INTACT_ATTR_FLOAT, .f = 1},
                            {.name = "sizes", .type = INTACT_ATTR_INTS, .i = 7, .n = 2},
                            {.name = "mode", .type = INTACT_ATTR_STRING, .s = "plain"})},
    .infer = toy_infer_same,
    .eval_f32 = toy_eval_add,
    .grad = intact__grad_none};
static const intact_op toy_relu = {.name = "toy_relu",
                                   .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")},
                                   .infer = toy_infer_same,
                                   .eval_f32 = toy_eval_relu,
                                   .grad = intact__grad_none};
static const intact_op toy_shape = {.name = "toy_shape",
                                    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y")},
                                    .infer = toy_infer_shape,
                                    .eval_f32 = toy_eval_shape,
                                    .grad = intact__grad_none};
static const intact_op toy_pick = {
    .name = "toy_pick",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "index", .type = INTACT_ATTR_INT, .required = true})},
    .infer = toy_infer_pick,
    .eval_f32 = toy_eval_pick,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true};
static const intact_op toy_zeros = {.name = "toy_zeros",
                                    .schema = {INTACT_OPERANDS({"n", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y")},
                                    .infer = toy_infer_zeros,
                                    .eval_f32 = toy_eval_zeros,
                                    .grad = intact__grad_none};

#endif
