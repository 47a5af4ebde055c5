/* SPDX-License-Identifier: Apache-2.0 */
/* If, loop and scan on graphs built by hand: which body runs, carried values, collected outputs, shapes told beforehand. */
#include <string.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/test.h"

static intact_context *context;

static int start(void **state) {
  (void)state;
  context = test_context(1);
  return 0;
}

static int stop(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

static intact_graph *new_graph(void) {
  intact_graph *graph = NULL;
  assert_ok(context, intact__graph_create(context, "main", &graph));
  return graph;
}

static intact_value *input(intact_graph *graph, const char *name, intact_dtype dtype, int rank, const int64_t *dims) {
  intact_value *value = NULL;
  assert_ok(context, intact__graph_add_input(graph, name, dtype, rank, dims, &value));
  return value;
}

/* Result 0 of a new node. */
static intact_value *apply(intact_graph *graph, const intact_op *op, int n, intact_value **operands) {
  intact_node *node = NULL;
  assert_ok(context, intact__graph_add_node(graph, op, op->name, n, operands, 1, NULL, NULL, &node));
  assert_ok(context, intact__node_infer(node));
  return node->results[0];
}

static intact_value *number(intact_graph *graph, const char *name, intact_dtype dtype, double value) {
  intact_tensor *tensor = NULL;
  intact_value *constant = NULL;
  assert_ok(context, intact_tensor_create(context, dtype, 0, NULL, &tensor));
  intact__tensor_set_f64(tensor, 0, value);
  assert_ok(context, intact__graph_add_constant(graph, name, tensor, NULL, &constant));
  return constant;
}

static intact_tensor *floats(int rank, const int64_t *dims, const float *values) {
  intact_tensor *tensor = NULL;
  assert_ok(context, intact_tensor_create(context, INTACT_F32, rank, dims, &tensor));
  memcpy(tensor->data, values, intact_tensor_bytes(tensor));
  return tensor;
}

static intact_tensor *scalar(intact_dtype dtype, double value) {
  intact_tensor *tensor = NULL;
  assert_ok(context, intact_tensor_create(context, dtype, 0, NULL, &tensor));
  intact__tensor_set_f64(tensor, 0, value);
  return tensor;
}

static void expect(const intact_tensor *got, int rank, const int64_t *dims, const float *values) {
  assert_int_equal(got->rank, rank);
  for (int k = 0; k < rank; k++) assert_int_equal(got->dims[k], dims[k]);
  for (int64_t i = 0; i < got->count; i++) assert_true(intact__tensor_get_f64(got, i) == (double)values[i]);
}

/* y = condition ? a + b : a[.., 0:1] */
static void test_if(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3}, narrow[] = {2, 1};
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30, 40, 50, 60}, sum[] = {11, 22, 33, 44, 55, 66}, part[] = {1, 4};
  intact_graph *graph = new_graph(), *body = NULL;
  intact_value *operands[] = {input(graph, "c", INTACT_BOOL, 0, NULL), input(graph, "a", INTACT_F32, 2, dims),
                              input(graph, "b", INTACT_F32, 2, dims)};
  intact_node *node = NULL;
  assert_ok(context, intact__graph_add_node(graph, &intact_op_if, "if", 3, operands, 1, NULL, NULL, &node));
  for (int way = 0; way < 2; way++) {
    assert_ok(context, intact__node_add_body(node, way == 0 ? "then" : "else", &body));
    intact_value *inner[] = {input(body, "a", INTACT_F32, 2, dims), input(body, "b", INTACT_F32, 2, dims)};
    intact_value *result = NULL;
    if (way == 0) {
      result = apply(body, &intact_op_add, 2, inner);
    } else {
      intact_node *slice = NULL;
      const int64_t axis[] = {1}, from[] = {0}, to[] = {1};
      assert_ok(context, intact__graph_add_node(body, &intact_op_slice, "slice", 1, inner, 1, NULL, NULL, &slice));
      assert_ok(context, intact__attr_set_ints(slice, "dim", 1, axis));
      assert_ok(context, intact__attr_set_ints(slice, "start", 1, from));
      assert_ok(context, intact__attr_set_ints(slice, "end", 1, to));
      result = slice->results[0];
    }
    assert_ok(context, intact__graph_set_outputs(body, 1, &result));
  }
  assert_ok(context, intact__graph_set_outputs(graph, 1, node->results));
  assert_ok(context, intact__graph_infer(graph));
  assert_int_equal(node->results[0]->rank, 2);
  assert_int_equal(node->results[0]->dims[0], 2);
  assert_true(node->results[0]->dims[1] < 0); /* 3 or 1 */
  assert_ok(context, intact_graph_verify(graph));
  for (int way = 0; way < 2; way++) {
    intact_tensor *inputs[] = {scalar(INTACT_BOOL, way == 0), floats(2, dims, a), floats(2, dims, b)}, *y = NULL;
    assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const *)inputs, false, &y));
    expect(y, 2, way == 0 ? dims : narrow, way == 0 ? sum : part);
    intact_tensor_destroy(y);
    for (int i = 0; i < 3; i++) intact_tensor_destroy(inputs[i]);
  }
  intact_graph_destroy(graph);
}

/* Loop: s = s + i * step while s < limit, at most `count` rounds; collects s. step is captured. */
static intact_graph *counting_loop(void) {
  intact_graph *graph = new_graph(), *body = NULL;
  intact_value *operands[] = {input(graph, "count", INTACT_S64, 0, NULL), number(graph, "yes", INTACT_BOOL, 1),
                              input(graph, "s", INTACT_F32, 0, NULL), input(graph, "step", INTACT_F32, 0, NULL)};
  intact_node *node = NULL;
  assert_ok(context, intact__graph_add_node(graph, &intact_op_loop, "loop", 4, operands, 2, NULL, NULL, &node));
  intact__attr_set_int(node, "carried", 1);
  assert_ok(context, intact__node_add_body(node, "body", &body));
  intact_value *i = input(body, "i", INTACT_S64, 0, NULL);
  (void)input(body, "go", INTACT_BOOL, 0, NULL);
  intact_value *s = input(body, "s", INTACT_F32, 0, NULL), *step = input(body, "step", INTACT_F32, 0, NULL);
  intact_value *moved = apply(body, &intact_op_mul, 2, (intact_value *[]){i, step});
  intact_value *next = apply(body, &intact_op_add, 2, (intact_value *[]){s, moved});
  intact_value *goes = apply(body, &intact_op_lt, 2, (intact_value *[]){next, number(body, "limit", INTACT_F32, 10)});
  assert_ok(context, intact__graph_set_outputs(body, 3, (intact_value *[]){goes, next, next}));
  assert_ok(context, intact__graph_set_outputs(graph, 2, node->results));
  assert_ok(context, intact__graph_infer(graph));
  assert_ok(context, intact_graph_verify(graph));
  return graph;
}

static void run_loop(const intact_graph *graph, int64_t count, int rounds, const float *collected, float last) {
  intact_tensor *inputs[] = {scalar(INTACT_S64, (double)count), scalar(INTACT_F32, 1), scalar(INTACT_F32, 2)},
                *y[2] = {NULL};
  const int64_t dims[] = {rounds};
  assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const *)inputs, false, y));
  expect(y[0], 0, NULL, &last);
  expect(y[1], 1, dims, collected);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(y[i]);
  for (int i = 0; i < 3; i++) intact_tensor_destroy(inputs[i]);
}

static void test_loop(void **state) {
  (void)state;
  intact_graph *graph = counting_loop();
  const float collected[] = {1, 3, 7, 13};
  assert_int_equal(graph->outputs[1]->rank, 1);
  run_loop(graph, 3, 3, collected, 7);
  run_loop(graph, 100, 4, collected, 13); /* the condition ends it */
  run_loop(graph, 0, 0, collected, 1);
  intact_graph_destroy(graph);
}

/* A carried tensor that grows: its length is a symbol afterwards. */
static void test_loop_that_grows(void **state) {
  (void)state;
  const int64_t dims[] = {1}, grown[] = {8};
  const float one[] = {5}, all[] = {5, 5, 5, 5, 5, 5, 5, 5};
  intact_graph *graph = new_graph(), *body = NULL;
  intact_value *operands[] = {number(graph, "count", INTACT_S64, 3), NULL, input(graph, "x", INTACT_F32, 1, dims)};
  intact_node *node = NULL;
  assert_ok(context, intact__graph_add_node(graph, &intact_op_loop, "loop", 3, operands, 1, NULL, NULL, &node));
  intact__attr_set_int(node, "carried", 1);
  assert_ok(context, intact__node_add_body(node, "body", &body));
  (void)input(body, "i", INTACT_S64, 0, NULL);
  intact_value *go = input(body, "go", INTACT_BOOL, 0, NULL), *x = input(body, "x", INTACT_F32, 1, dims);
  intact_value *twice = apply(body, &intact_op_cat, 2, (intact_value *[]){x, x});
  assert_ok(context, intact__graph_set_outputs(body, 2, (intact_value *[]){go, twice}));
  assert_ok(context, intact__graph_set_outputs(graph, 1, node->results));
  assert_ok(context, intact__graph_infer(graph));
  assert_true(node->results[0]->rank == 1 && node->results[0]->dims[0] < 0);
  intact_tensor *in = floats(1, dims, one), *y = NULL;
  assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const *)&in, false, &y));
  expect(y, 1, grown, all);
  intact_tensor_destroy(in);
  intact_tensor_destroy(y);
  intact_graph_destroy(graph);
}

/* The example of the ONNX operator Scan: running sums of rows, [3,2]. */
static void test_scan(void **state) {
  (void)state;
  const int64_t dims[] = {3, 2}, row[] = {2};
  const float zero[] = {0, 0}, x[] = {1, 2, 3, 4, 5, 6}, last[] = {9, 12}, all[] = {1, 2, 4, 6, 9, 12},
              back[] = {9, 12, 8, 10, 5, 6};
  for (int way = 0; way < 2; way++) {
    const int64_t reverse[] = {way};
    intact_graph *graph = new_graph(), *body = NULL;
    intact_value *operands[] = {input(graph, "s", INTACT_F32, 1, row), input(graph, "x", INTACT_F32, 2, dims)};
    intact_node *node = NULL;
    assert_ok(context, intact__graph_add_node(graph, &intact_op_scan, "scan", 2, operands, 2, NULL, NULL, &node));
    intact__attr_set_int(node, "states", 1);
    intact__attr_set_int(node, "scanned", 1);
    assert_ok(context, intact__attr_set_ints(node, "input_directions", 1, reverse));
    assert_ok(context, intact__attr_set_ints(node, "output_directions", 1, reverse));
    assert_ok(context, intact__node_add_body(node, "body", &body));
    intact_value *inner[] = {input(body, "s", INTACT_F32, 1, row), input(body, "x", INTACT_F32, 1, row)};
    intact_value *sum = apply(body, &intact_op_add, 2, inner);
    assert_ok(context, intact__graph_set_outputs(body, 2, (intact_value *[]){sum, sum}));
    assert_ok(context, intact__graph_set_outputs(graph, 2, node->results));
    assert_ok(context, intact__graph_infer(graph));
    assert_int_equal(node->results[1]->rank, 2);
    assert_int_equal(node->results[1]->dims[0], 3);
    intact_tensor *inputs[] = {floats(1, row, zero), floats(2, dims, x)}, *y[2] = {NULL};
    assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const *)inputs, false, y));
    expect(y[0], 1, row, last);
    expect(y[1], 2, dims, way == 0 ? all : back);
    for (int i = 0; i < 2; i++) intact_tensor_destroy(y[i]);
    for (int i = 0; i < 2; i++) intact_tensor_destroy(inputs[i]);
    intact_graph_destroy(graph);
  }
}

static void test_refusals(void **state) {
  (void)state;
  intact_graph *graph = new_graph();
  intact_value *operands[] = {input(graph, "c", INTACT_BOOL, 0, NULL)};
  intact_node *node = NULL;
  assert_ok(context, intact__graph_add_node(graph, &intact_op_if, "if", 1, operands, 1, NULL, NULL, &node));
  assert_fails(intact__node_infer(node), INTACT_MISSING_FIELD); /* no bodies */
  assert_non_null(strstr(intact_context_message(context), "bodies"));
  assert_ok(context,
            intact__graph_add_node(graph, &intact_op_loop, "loop", 2, (intact_value *[]){NULL, NULL}, 1, NULL, NULL, &node));
  intact__attr_set_int(node, "carried", 7);
  assert_fails(intact__node_infer(node), INTACT_OUT_OF_RANGE);
  intact_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_if),   cmocka_unit_test(test_loop),     cmocka_unit_test(test_loop_that_grows),
      cmocka_unit_test(test_scan), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
