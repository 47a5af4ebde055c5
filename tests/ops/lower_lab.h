/* SPDX-License-Identifier: Apache-2.0 */
/* One integer node at a time: its lowering against the op's own float definition between dequantize and quantize. */
#ifndef INTACT_TESTS_OPS_LOWER_LAB_H
#define INTACT_TESTS_OPS_LOWER_LAB_H

#include <math.h>
#include <string.h>

#include "graph/step.h"
#include "ops/ops.h"
#include "support/test.h"

typedef struct lab {
  intact_context *context;
  intact_graph *graph;
  uint64_t random;
  const char *rule;
  int inputs;
} lab;

static inline void lab_open(lab *l, int threads) {
  *l = (lab){.context = test_context(threads), .random = test_random_start(), .rule = "f32_rne"};
}

static inline void lab_new_graph(lab *l) {
  intact_graph_destroy(l->graph);
  l->graph = NULL;
  assert_ok(l->context, intact__graph_create(l->context, "lab", &l->graph));
}

static inline void lab_close(lab *l) {
  intact_graph_destroy(l->graph);
  intact_context_destroy(l->context);
}

static inline int lab_random(lab *l, int n) { return (int)(test_random(&l->random) % (uint32_t)n); }

static inline void lab_set_qparams(lab *l, intact_value *value, intact_dtype dtype, int axis, int64_t n, const float *scale,
                                   const int32_t *zero, int64_t low, int64_t high) {
  intact_qparams q = {.scheme = axis < 0 ? INTACT_PER_TENSOR_AFFINE : INTACT_PER_CHANNEL_AFFINE,
                      .dtype = dtype,
                      .quant_min = low,
                      .quant_max = high,
                      .axis = axis,
                      .n = n,
                      .scale = scale,
                      .zero_point = zero};
  assert_ok(l->context, intact__value_set_qparams(l->graph, value, &q));
}

static inline void lab_per_tensor(lab *l, intact_value *value, intact_dtype dtype, float scale, int32_t zero) {
  lab_set_qparams(l, value, dtype, -1, 1, &scale, &zero, intact_dtype_min(dtype), intact_dtype_max(dtype));
}

static inline intact_value *lab_input(lab *l, intact_dtype dtype, float scale, int32_t zero, int rank, const int64_t *dims) {
  char name[16];
  intact_value *value;
  snprintf(name, sizeof name, "x%d", l->inputs++);
  assert_ok(l->context, intact__graph_add_input(l->graph, name, dtype, rank, dims, &value));
  if (dtype != INTACT_F32) lab_per_tensor(l, value, dtype, scale, zero);
  return value;
}

static inline void lab_fill(lab *l, intact_tensor *tensor) {
  for (int64_t i = 0; i < tensor->count; i++) {
    if (tensor->dtype == INTACT_F32)
      intact__f32(tensor)[i] = test_uniform(&l->random, -4, 4);
    else if (tensor->dtype == INTACT_S32)
      ((int32_t *)tensor->data)[i] = lab_random(l, 4001) - 2000;
    else
      intact__tensor_set_s64(tensor, i, intact_dtype_min(tensor->dtype) + (int64_t)(test_random(&l->random) % 256));
  }
}

/* A constant with random elements; qparams are for the caller to set. */
static inline intact_value *lab_constant(lab *l, intact_dtype dtype, int rank, const int64_t *dims) {
  char name[16];
  intact_tensor *tensor;
  intact_value *value;
  snprintf(name, sizeof name, "c%d", l->inputs++);
  assert_ok(l->context, intact_tensor_create(l->context, dtype, rank, dims, &tensor));
  lab_fill(l, tensor);
  assert_ok(l->context, intact__graph_add_constant(l->graph, name, tensor, NULL, &value));
  return value;
}

static inline intact_node *lab_node(lab *l, const char *op, int n, intact_value *const *operands, int n_results) {
  intact_node *node;
  const intact_op *row = intact__find_op(op);
  assert_non_null(row);
  assert_ok(l->context, intact__graph_add_node(l->graph, row, NULL, n, operands, n_results, NULL, NULL, &node));
  return node;
}

/* Elements from logical to physical order, or back. */
static inline void lab_reorder(const intact_tensor *from, intact_tensor *to, bool to_last) {
  int64_t channels = from->dims[1], pixels = 1, size = intact_dtype_bits(from->dtype) / 8;
  for (int i = 2; i < from->rank; i++) pixels *= from->dims[i];
  for (int64_t n = 0; n < from->dims[0]; n++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < pixels; p++) {
        int64_t first = (n * channels + c) * pixels + p, last = (n * pixels + p) * channels + c;
        memcpy((char *)to->data + (to_last ? last : first) * size, (const char *)from->data + (to_last ? first : last) * size,
               (size_t)size);
      }
}

static inline bool lab_last(const intact_value *value, bool channels_last) {
  return channels_last && value->rank >= 3 && value->qparams != NULL;
}

/* Lowers and runs the node on the operands (logical order) and gives result 0 in logical order. */
static inline intact_tensor *lab_run(lab *l, intact_node *node, const intact_tensor *const *operands, bool channels_last) {
  intact_arena arena;
  intact__arena_init(&arena, l->context);
  intact_step step = {.node = node};
  intact_lower lower = {l->context, &arena, node, l->rule, intact__isa_set(l->context), channels_last, &step};
  assert_ok(l->context, node->op->lower_int(&lower));
  intact_tensor *kept[8] = {NULL}, *y[4] = {NULL}, *result;
  const void *in[8] = {NULL};
  void *out[4] = {NULL};
  for (int i = 0; i < node->n_operands; i++) {
    if (operands[i] == NULL || (node->operands[i]->constant != NULL && step.packed >> i & 1)) continue;
    assert_ok(l->context, intact_tensor_copy(operands[i], &kept[i]));
    if (lab_last(node->operands[i], channels_last)) lab_reorder(operands[i], kept[i], true);
    in[i] = kept[i]->data;
  }
  for (int r = 0; r < node->n_results; r++) {
    const intact_value *value = node->results[r];
    assert_ok(l->context, intact_tensor_create(l->context, value->dtype, value->rank, value->dims, &y[r]));
    out[r] = y[r]->data;
  }
  void *scratch = step.scratch_bytes > 0 ? intact__alloc(l->context, step.scratch_bytes, 1) : NULL;
  intact_step_call call = {l->context, &step, in, out, scratch};
  assert_ok(l->context, step.run(&call));
  assert_ok(l->context, intact_tensor_copy(y[0], &result));
  if (lab_last(node->results[0], channels_last)) lab_reorder(y[0], result, false);
  for (int i = 0; i < 8; i++) intact_tensor_destroy(kept[i]);
  for (int i = 0; i < 4; i++) intact_tensor_destroy(y[i]);
  intact__free(l->context, scratch);
  intact__arena_fini(&arena);
  return result;
}

/* How many elements of result 0 differ from the definition, and by how much at most (in units of the stored type). */
static inline int64_t lab_compare(lab *l, intact_node *node, bool channels_last, double *most) {
  intact_tensor *made[8] = {NULL}, *want[4] = {NULL};
  const intact_tensor *operands[8] = {NULL};
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL) continue;
    operands[i] = value->constant;
    if (operands[i] != NULL) continue;
    assert_ok(l->context, intact_tensor_create(l->context, value->dtype, value->rank, value->dims, &made[i]));
    lab_fill(l, made[i]);
    operands[i] = made[i];
  }
  assert_ok(l->context, intact__eval_node(node, operands, false, want));
  assert_null(node->op->check_int != NULL ? node->op->check_int(node) : NULL);
  intact_tensor *got = lab_run(l, node, operands, channels_last);
  assert_int_equal(got->count, want[0]->count);
  assert_int_equal(got->dtype, want[0]->dtype);
  int64_t differ = 0;
  *most = 0;
  for (int64_t i = 0; i < got->count; i++) {
    double d = fabs(intact__tensor_get_f64(got, i) - intact__tensor_get_f64(want[0], i));
    differ += d > 0;
    *most = d > *most ? d : *most;
  }
  intact_tensor_destroy(got);
  for (int i = 0; i < 8; i++) intact_tensor_destroy(made[i]);
  for (int i = 0; i < 4; i++) intact_tensor_destroy(want[i]);
  return differ;
}

#endif
