/* SPDX-License-Identifier: Apache-2.0 */
/* Networks whose first dimension is fixed: samples go through in parts of that size, and nothing else is different. */
#include "support/lab.h"

#include "intact/inspect.h"

static intact_context *context;

/* conv without bias -> relu -> flatten -> linear; batch < 0: open. */
static lab network(int64_t batch) {
  lab l = lab_create(context);
  const int64_t dims[] = {batch < 0 ? intact__graph_symbol(l.graph, "N") : batch, 3, 4, 4};
  intact_value *x, *operands[2];
  l.random = 7; /* the same weights each time */
  assert_ok(context, intact__graph_add_input(l.graph, "x", INTACT_F32, 4, dims, &x));
  operands[0] = x;
  operands[1] = lab_constant(&l, "w", lab_random(&l, -0.5f, 0.5f, LAB_DIMS(6, 3, 3, 3)));
  intact_value *h = lab_unary(&l, &intact_op_relu, NULL, lab_infer(&l, lab_node(&l, &intact_op_conv2d, "conv", 2, operands)));
  intact_node *flat = lab_node(&l, &intact_op_reshape, "flat", 1, &h);
  assert_ok(context, intact__attr_set_ints(flat, "shape", 2, (const int64_t[]){batch < 0 ? -1 : batch, 24}));
  h = lab_linear(&l, "fc", lab_infer(&l, flat), 5);
  lab_outputs(&l, 1, &h);
  for (intact_node *node = l.graph->first; node; node = node->next) node->source = node->name;
  return l;
}

static intact_graph *quantize(const intact_graph *graph, const intact_tensor *samples, intact_quantize_notes *notes) {
  intact_quantize_options options = intact_quantize_default_options();
  intact_graph *q;
  options.batch = 4; /* what the fixed ones take too */
  options.observer = "min_max";
  intact_data *data = lab_data(graph, samples);
  assert_ok(context, intact_quantize(graph, data, &options, &q, notes));
  intact_data_close(data);
  return q;
}

static void expect_same_constants(const intact_graph *a, const intact_graph *b, const char *node) {
  const intact_node *x = lab_find(a, node), *y = lab_find(b, node);
  assert_int_equal(x->n_operands, 3); /* bias correction has given conv one */
  for (int i = 1; i < 3; i++) {
    const intact_tensor *u = x->operands[i]->producer->operands[0]->constant, *v = y->operands[i]->producer->operands[0]->constant;
    assert_int_equal(u->count, v->count);
    assert_memory_equal(u->data, v->data, intact_tensor_bytes(u));
  }
}

static void test_same_network(void **state) {
  (void)state;
  lab open = network(-1);
  assert_int_equal(intact_graph_batch(open.graph), 0);
  intact_tensor *samples = lab_random(&open, -1, 1, LAB_DIMS(32, 3, 4, 4));
  intact_quantize_notes notes;
  intact_graph *wanted = quantize(open.graph, samples, &notes);
  assert_true(lab_noted(&notes, "bias correction:"));
  for (int64_t batch = 1; batch <= 4; batch += 3) {
    intact_quantize_notes own;
    lab l = network(batch);
    assert_int_equal(intact_graph_batch(l.graph), batch);
    intact_graph *got = quantize(l.graph, samples, &own);
    assert_int_equal(own.n, notes.n);
    for (int i = 0; i < own.n; i++) assert_string_equal(own.lines[i], notes.lines[i]);
    expect_same_constants(wanted, got, "conv");
    expect_same_constants(wanted, got, "fc");
    intact_quantize_notes_destroy(context, &own);
    intact_graph_destroy(got);
    intact_graph_destroy(l.graph);
  }
  intact_quantize_notes_destroy(context, &notes);
  intact_graph_destroy(wanted);
  intact_tensor_destroy(samples);
  intact_graph_destroy(open.graph);
}

/* Samples that do not fill the last batch: all are evaluated, comparing leaves them out; fewer than a batch are refused. */
static void test_left_over(void **state) {
  (void)state;
  lab open = network(-1), four = network(4);
  intact_tensor *samples = lab_random(&open, -1, 1, LAB_DIMS(10, 3, 4, 4)), *exact = lab_run(open.graph, samples), *labels;
  const int64_t n = 10;
  assert_ok(context, intact_tensor_create(context, INTACT_S64, 1, &n, &labels));
  for (int64_t i = 0; i < n; i++) { /* right but for the last sample, which must count once */
    int64_t best = 0;
    for (int64_t k = 1; k < 5; k++)
      if (intact__f32(exact)[i * 5 + k] > intact__f32(exact)[i * 5 + best]) best = k;
    ((int64_t *)labels->data)[i] = i == n - 1 ? (best + 1) % 5 : best;
  }
  intact_data *data = lab_data(four.graph, samples);
  intact_evaluation e, bare;
  assert_ok(context, intact_evaluate(four.graph, INTACT_ENGINE_FLOAT, data, labels, 32, &e));
  assert_int_equal(e.samples, 10);
  assert_true(fabs(e.accuracy - 90.0) < 1e-9);
  assert_ok(context, intact_evaluate(four.graph, INTACT_ENGINE_INT, data, NULL, 32, &bare));
  double sum = 0;
  for (int64_t i = 0; i < exact->count; i++) sum += (double)intact__f32(exact)[i];
  assert_true(fabs(bare.mean - sum / (double)exact->count) < 1e-5);
  intact_report *report;
  assert_ok(context, intact_compare(four.graph, INTACT_ENGINE_FLOAT, four.graph, INTACT_ENGINE_INT, data, 10, &report));
  assert_true(intact_report_output(report, 0)->cosine > 0.999999);
  intact_report_destroy(report);
  intact_data_close(data);
  intact_tensor *few = lab_random(&open, -1, 1, LAB_DIMS(3, 3, 4, 4));
  data = lab_data(four.graph, few);
  intact_graph *q;
  assert_int_equal(intact_quantize(four.graph, data, NULL, &q, NULL), INTACT_SIZE_MISMATCH);
  assert_int_equal(intact_compare(four.graph, INTACT_ENGINE_FLOAT, four.graph, INTACT_ENGINE_FLOAT, data, 3, &report),
                   INTACT_SIZE_MISMATCH);
  intact_data_close(data);
  intact_tensor_destroy(few);
  intact_tensor_destroy(labels);
  intact_tensor_destroy(exact);
  intact_tensor_destroy(samples);
  intact_graph_destroy(four.graph);
  intact_graph_destroy(open.graph);
}

static int setup(void **state) {
  (void)state;
  context = test_context(2);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_network),
      cmocka_unit_test(test_left_over),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
