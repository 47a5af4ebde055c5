/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are read as several nodes, or none: against the formulas of the ONNX specification. */
#include "support/onnx_lab.h"

#include <math.h>

#include "graph/graph.h"

static intact_context *context;

enum { N = 2, C = 7, S = 6, COUNT = N * C * S };
static float x[COUNT];

static void fill(void) {
  uint64_t random = test_random_start();
  for (int i = 0; i < COUNT; i++) x[i] = test_uniform(&random, -2, 2);
}

/* y of a model with one input x [N, C, 2, 3] and one node. */
static intact_tensor *run(int64_t opset, const char *op, const char *inputs, const char *attributes) {
  onnx_lab o;
  onnx_lab_open(&o, context, opset);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(-1, C, 2, 3));
  onnx_lab_number(&o, "two", INTACT_F32, 2);
  onnx_lab_node(&o, "y", op, inputs, attributes);
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_graph *graph = onnx_lab_read(&o);
  const int64_t dims[] = {N, C, 2, 3};
  intact_tensor *in, *out;
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 4, dims, x, &in));
  assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const[]){in}, false, &out));
  assert_int_equal(out->count, COUNT);
  intact_tensor_destroy(in);
  intact_graph_destroy(graph);
  onnx_lab_close(&o);
  return out;
}

static void expect(intact_tensor *out, const double *wanted) {
  for (int i = 0; i < COUNT; i++) assert_true(fabs((double)intact__f32(out)[i] - wanted[i]) <= 2e-6 * (1 + fabs(wanted[i])));
  intact_tensor_destroy(out);
}

/* square_sum[n, c] = sum of x^2 over channels c - floor((size-1)/2) .. c + ceil((size-1)/2) */
static void test_lrn(void **state) {
  (void)state;
  const int sizes[] = {1, 3, 4, 5};
  for (int k = 0; k < 4; k++) {
    const int size = sizes[k], before = (size - 1) / 2, after = size / 2;
    double wanted[COUNT];
    char attributes[80];
    for (int i = 0; i < COUNT; i++) {
      const int c = i / S % C;
      double sum = 0;
      for (int j = c - before; j <= c + after; j++) {
        const double v = j < 0 || j >= C ? 0 : (double)x[i + (j - c) * S];
        sum += v * v;
      }
      wanted[i] = (double)x[i] / pow(2.0 + 0.5 / size * sum, 0.25);
    }
    snprintf(attributes, sizeof attributes, "size=%d alpha=0.5 beta=0.25 bias=2.0", size);
    expect(run(13, "LRN", "x", attributes), wanted);
  }
}

static void test_mean_variance(void **state) {
  (void)state;
  double wanted[COUNT];
  for (int plane = 0; plane < N * C; plane++) {
    double sum = 0, squares = 0;
    for (int i = 0; i < S; i++) sum += (double)x[plane * S + i], squares += (double)x[plane * S + i] * (double)x[plane * S + i];
    const double mean = sum / S, deviation = sqrt(squares / S - mean * mean);
    for (int i = 0; i < S; i++) wanted[plane * S + i] = ((double)x[plane * S + i] - mean) / (deviation + 1e-9);
  }
  expect(run(13, "MeanVarianceNormalization", "x", "axes=[2,3]"), wanted);
  for (int c = 0; c < C; c++) { /* without axes: over all but the channels */
    double sum = 0, squares = 0;
    for (int n = 0; n < N; n++)
      for (int i = 0; i < S; i++) {
        const double v = (double)x[(n * C + c) * S + i];
        sum += v, squares += v * v;
      }
    const double mean = sum / (N * S), deviation = sqrt(squares / (N * S) - mean * mean);
    for (int n = 0; n < N; n++)
      for (int i = 0; i < S; i++) wanted[(n * C + c) * S + i] = ((double)x[(n * C + c) * S + i] - mean) / (deviation + 1e-9);
  }
  expect(run(9, "MeanVarianceNormalization", "x", ""), wanted);
}

static void test_mean_and_dropout(void **state) {
  (void)state;
  double wanted[COUNT];
  for (int i = 0; i < COUNT; i++) wanted[i] = (2.0 * (double)x[i] + 2) / 3;
  expect(run(8, "Mean", "x two x", ""), wanted);
  for (int i = 0; i < COUNT; i++) wanted[i] = (double)x[i];
  expect(run(8, "Mean", "x", ""), wanted);
  expect(run(7, "Dropout", "x", "ratio=0.5"), wanted);
  expect(run(13, "Dropout", "x two", ""), wanted);
}

/* Dropout that is switched on, or whose mask is read, is no inference. */
static void test_dropout_in_training(void **state) {
  (void)state;
  for (int mask = 0; mask < 2; mask++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(-1, 4));
    onnx_lab_number(&o, "ratio", INTACT_F32, 0.5);
    onnx_lab_number(&o, "training", INTACT_BOOL, 1);
    onnx_lab_node(&o, mask ? "y m" : "y", "Dropout", mask ? "x" : "x ratio training", "");
    onnx_lab_output(&o, mask ? "m" : "y", mask ? INTACT_BOOL : INTACT_F32);
    intact_graph *graph;
    assert_int_equal(onnx_lab_try(&o, &graph), INTACT_UNSUPPORTED_OP);
    assert_null(graph);
    assert_non_null(strstr(intact_context_message(context), mask ? "mask" : "training_mode"));
    onnx_lab_close(&o);
  }
}

static int setup(void **state) {
  (void)state;
  context = test_context(1);
  fill();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lrn),
      cmocka_unit_test(test_mean_variance),
      cmocka_unit_test(test_mean_and_dropout),
      cmocka_unit_test(test_dropout_in_training),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
