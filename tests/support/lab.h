/* SPDX-License-Identifier: Apache-2.0 */
/* Float networks made by hand, samples for them, and running them: for tests of quantization and passes. */
#ifndef INTACT_TESTS_SUPPORT_LAB_H
#define INTACT_TESTS_SUPPORT_LAB_H

#include "support/test.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/data.h"
#include "intact/io.h"
#include "intact/quant.h"
#include "ops/ops.h"

#define LAB_DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef struct lab {
  intact_context *context;
  intact_graph *graph;
  uint64_t random;
} lab;

static inline lab lab_create(intact_context *context) {
  lab l = {.context = context, .random = test_random_start()};
  assert_ok(context, intact__graph_create(context, "net", &l.graph));
  return l;
}

static inline intact_tensor *lab_random(lab *l, float low, float high, int rank, const int64_t *dims) {
  intact_tensor *tensor;
  assert_ok(l->context, intact_tensor_create(l->context, INTACT_F32, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__f32(tensor)[i] = test_uniform(&l->random, low, high);
  return tensor;
}

static inline intact_tensor *lab_tensor(lab *l, const float *values, int rank, const int64_t *dims) {
  intact_tensor *tensor;
  assert_ok(l->context, intact_tensor_create(l->context, INTACT_F32, rank, dims, &tensor));
  memcpy(tensor->data, values, intact_tensor_bytes(tensor));
  return tensor;
}

/* The first dimension is left open. */
static inline intact_value *lab_input(lab *l, const char *name, int rank, const int64_t *dims) {
  int64_t open[INTACT_MAX_RANK];
  intact_value *x;
  memcpy(open, dims, (size_t)rank * sizeof *dims);
  open[0] = intact__graph_symbol(l->graph, "N");
  assert_ok(l->context, intact__graph_add_input(l->graph, name, INTACT_F32, rank, open, &x));
  return x;
}

static inline intact_value *lab_constant(lab *l, const char *name, intact_tensor *tensor) {
  intact_value *value;
  const char *fresh = intact__graph_fresh_name(l->graph, name);
  assert_ok(l->context, intact__graph_add_constant(l->graph, fresh, tensor, NULL, &value));
  return value;
}

/* A node named `name` (NULL: by its op) whose shapes are inferred after `attributes` are set by the caller with lab_infer. */
static inline intact_node *lab_node(lab *l, const intact_op *op, const char *name, int n, intact_value *const *operands) {
  intact_node *node;
  assert_ok(l->context, intact__graph_add_node(l->graph, op, name, n, operands, 1, NULL, NULL, &node));
  return node;
}

static inline intact_value *lab_infer(lab *l, intact_node *node) {
  assert_ok(l->context, intact__node_infer(node));
  return node->results[0];
}

static inline intact_value *lab_unary(lab *l, const intact_op *op, const char *name, intact_value *x) {
  return lab_infer(l, lab_node(l, op, name, 1, &x));
}

static inline intact_value *lab_binary(lab *l, const intact_op *op, const char *name, intact_value *a, intact_value *b) {
  return lab_infer(l, lab_node(l, op, name, 2, (intact_value *[]){a, b}));
}

/* Stride 1, padding k/2, random weights and bias. */
static inline intact_value *lab_conv(lab *l, const char *name, intact_value *x, int64_t out, int64_t k, int64_t groups) {
  intact_value *operands[3] = {x};
  operands[1] = lab_constant(l, "w", lab_random(l, -0.5f, 0.5f, LAB_DIMS(out, x->dims[1] / groups, k, k)));
  operands[2] = lab_constant(l, "b", lab_random(l, -0.2f, 0.2f, LAB_DIMS(out)));
  intact_node *node = lab_node(l, &intact_op_conv2d, name, 3, operands);
  assert_ok(l->context, intact__attr_set_ints(node, "padding", 2, (const int64_t[]){k / 2, k / 2}));
  intact__attr_set_int(node, "groups", groups);
  return lab_infer(l, node);
}

static inline intact_value *lab_linear(lab *l, const char *name, intact_value *x, int64_t out) {
  intact_value *operands[3] = {x};
  operands[1] = lab_constant(l, "w", lab_random(l, -0.5f, 0.5f, LAB_DIMS(out, x->dims[x->rank - 1])));
  operands[2] = lab_constant(l, "b", lab_random(l, -0.2f, 0.2f, LAB_DIMS(out)));
  return lab_infer(l, lab_node(l, &intact_op_linear, name, 3, operands));
}

static inline intact_value *lab_max_pool(lab *l, const char *name, intact_value *x) {
  intact_node *node = lab_node(l, &intact_op_max_pool2d, name, 1, &x);
  assert_ok(l->context, intact__attr_set_ints(node, "kernel_size", 2, (const int64_t[]){2, 2}));
  return lab_infer(l, node);
}

static inline void lab_outputs(lab *l, int n, intact_value *const *values) {
  assert_ok(l->context, intact__graph_set_outputs(l->graph, n, values));
  assert_ok(l->context, intact_graph_verify(l->graph));
}

static inline intact_node *lab_find(const intact_graph *graph, const char *name) {
  intact_node *node = intact__graph_find_node(graph, name);
  if (!node) print_error("no node named %s\n", name);
  assert_non_null(node);
  return node;
}

static inline int lab_count(const intact_graph *graph, const char *op) {
  int n = 0;
  for (const intact_node *node = graph->first; node; node = node->next) n += intact__is_op(node, op);
  return n;
}

/* Output 0 by the definitions. */
static inline intact_tensor *lab_run(const intact_graph *graph, const intact_tensor *x) {
  intact_tensor *outputs[8] = {NULL};
  assert_true(graph->n_outputs <= 8);
  assert_ok(graph->context, intact_graph_interpret(graph, &x, false, outputs));
  for (int i = 1; i < graph->n_outputs; i++) intact_tensor_destroy(outputs[i]);
  return outputs[0];
}

/* Samples for a network of one input, through a file. */
static inline intact_data *lab_data(const intact_graph *graph, const intact_tensor *samples) {
  intact_context *context = graph->context;
  char path[] = "/tmp/intact_lab_XXXXXX.npy";
  int file = mkstemps(path, 4);
  assert_true(file >= 0);
  close(file);
  intact_tensor_set *set;
  intact_tensor *shared;
  intact_data *data;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, intact_tensor_share(samples, samples->rank, NULL, &shared));
  assert_ok(context, intact_tensor_set_add(set, graph->inputs[0]->name, shared));
  assert_ok(context, intact_tensors_write(context, path, set));
  intact_tensor_set_destroy(set);
  assert_ok(context, intact_data_open(context, path, graph, NULL, &data));
  unlink(path);
  return data;
}

static inline double lab_sqnr(const intact_tensor *exact, const intact_tensor *got) {
  double signal = 0, noise = 0;
  assert_int_equal(exact->count, got->count);
  for (int64_t i = 0; i < exact->count; i++) {
    double x = (double)intact__f32(exact)[i], d = x - (double)intact__f32(got)[i];
    signal += x * x;
    noise += d * d;
  }
  return noise > 0 ? 10 * log10(signal / noise) : 999.0;
}

/* qparams of the integers behind a dequantized operand. */
static inline const intact_qparams *lab_operand_qparams(const intact_node *node, int operand) {
  const intact_value *value = node->operands[operand];
  if (value->qparams) return value->qparams;
  assert_true(intact__is_op(value->producer, "dequantize"));
  return value->producer->operands[0]->qparams;
}

static inline bool lab_noted(const intact_quantize_notes *notes, const char *part) {
  for (int i = 0; i < notes->n; i++)
    if (strstr(notes->lines[i], part)) return true;
  return false;
}

#endif
