/* SPDX-License-Identifier: Apache-2.0 */
/* Bias correction: the mean error of a layer's output goes; ranges that readers can't tell apart are cut. */
#include "support/lab.h"

#include "graph/quantizer.h"
#include "quant/useful_range.h"

static intact_context *context;

/* Largest mean error of a channel of the last layer. */
static double mean_error(const intact_tensor *exact, const intact_tensor *got) {
  int64_t n = exact->dims[exact->rank - 1];
  double most = 0;
  for (int64_t c = 0; c < n; c++) {
    double sum = 0;
    for (int64_t i = c; i < exact->count; i += n) sum += (double)intact__f32(exact)[i] - (double)intact__f32(got)[i];
    most = fmax(most, fabs(sum / (double)(exact->count / n)));
  }
  return most;
}

static void test_mean_error_shrinks(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 32));
  /* Inputs of one sign and many weights that all round the same way: a systematic error. */
  intact_tensor *w = lab_random(&l, 0.0f, 0.0f, LAB_DIMS(4, 32));
  for (int64_t i = 0; i < w->count; i++) intact__f32(w)[i] = i % 32 == 0 ? 1.27f : 0.0147f;
  intact_value *operands[] = {x, lab_constant(&l, "w", w), lab_constant(&l, "b", lab_random(&l, -1, 1, LAB_DIMS(4)))};
  intact_value *h = lab_unary(&l, &intact_op_relu, NULL, lab_infer(&l, lab_node(&l, &intact_op_linear, "first", 3, operands)));
  intact_value *y = lab_linear(&l, "second", h, 3);
  lab_outputs(&l, 1, &y);
  intact_tensor *samples = lab_random(&l, 0, 1, LAB_DIMS(64, 32)), *exact = lab_run(l.graph, samples);
  double errors[2];
  for (int on = 0; on < 2; on++) {
    intact_quantize_options options = intact_quantize_default_options();
    options.bias_correction = on;
    intact_quantize_notes notes;
    intact_data *data = lab_data(l.graph, samples);
    intact_graph *q;
    assert_ok(context, intact_quantize(l.graph, data, &options, &q, &notes));
    assert_int_equal(lab_noted(&notes, "bias correction"), on);
    intact_tensor *got = lab_run(q, samples);
    errors[on] = mean_error(exact, got);
    intact_tensor_destroy(got);
    intact_quantize_notes_destroy(context, &notes);
    intact_data_close(data);
    intact_graph_destroy(q);
  }
  print_message("mean error %g -> %g\n", errors[0], errors[1]);
  assert_true(errors[1] < errors[0] / 3);
  intact_tensor_destroy(samples);
  intact_tensor_destroy(exact);
  intact_graph_destroy(l.graph);
}

/* A layer without a bias gets one; too few samples are said to be too few. */
static void test_new_bias_and_few_samples(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 32));
  intact_tensor *w = lab_random(&l, 0, 0, LAB_DIMS(4, 32));
  for (int64_t i = 0; i < w->count; i++) intact__f32(w)[i] = i % 32 == 0 ? 1.27f : 0.0147f;
  intact_value *operands[] = {x, lab_constant(&l, "w", w)};
  intact_value *y = lab_infer(&l, lab_node(&l, &intact_op_linear, "layer", 2, operands));
  lab_outputs(&l, 1, &y);
  const int counts[] = {64, 4};
  for (int i = 0; i < 2; i++) {
    intact_tensor *samples = lab_random(&l, 0, 1, LAB_DIMS(counts[i], 32)), *exact = lab_run(l.graph, samples);
    intact_data *data = lab_data(l.graph, samples);
    intact_quantize_notes notes;
    intact_graph *q;
    assert_ok(context, intact_quantize(l.graph, data, NULL, &q, &notes));
    const intact_node *layer = lab_find(q, "layer");
    assert_int_equal(layer->n_operands, i == 0 ? 3 : 2);
    /* what the quantizer wished of operands and result still stands beside them */
    assert_int_equal(layer->annotation->operands[0].kind, INTACT_WISH_OWN);
    assert_int_equal(layer->annotation->operands[layer->n_operands - 1].kind, i == 0 ? INTACT_WISH_NONE : INTACT_WISH_OWN);
    assert_int_equal(layer->annotation->results[0].kind, INTACT_WISH_OWN);
    intact_graph *copy;
    assert_ok(context, intact_graph_copy(q, &copy));
    intact_graph_destroy(copy);
    assert_true(lab_noted(&notes, i == 0 ? "bias correction: 4 channels of 1 layers" : "at least 8 samples"));
    intact_tensor *got = lab_run(q, samples);
    if (i == 0) assert_true(mean_error(exact, got) < 0.01);
    intact_tensor_destroy(got);
    assert_ok(context, intact_to_integer(q));
    assert_int_equal(lab_count(q, "linear"), 1);
    intact_quantize_notes_destroy(context, &notes);
    intact_graph_destroy(q);
    intact_data_close(data);
    intact_tensor_destroy(samples);
    intact_tensor_destroy(exact);
  }
  intact_graph_destroy(l.graph);
}

/* hardswish is 0 up to -3 and x from 3 on; hardsigmoid is flat outside of -3..3. */
static void test_useful_range(void **state) {
  (void)state;
  const struct {
    const intact_op *op;
    float low, high;
  } cases[] = {{&intact_op_hardswish, -3, 9}, {&intact_op_hardsigmoid, -3, 3}, {&intact_op_relu, 0, 9}, {&intact_op_exp, -9, 9}};
  for (int i = 0; i < 3; i++) {
    lab l = lab_create(context);
    intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 2));
    intact_value *y = lab_unary(&l, cases[i].op, NULL, x);
    lab_outputs(&l, 1, &y);
    float low = -8, high = 9;
    assert_ok(context, intact__useful_range(x, &low, &high));
    /* cut on the safe side, by at most an eighth of a step and a grid part */
    assert_true(low <= cases[i].low + 0.2f && low >= cases[i].low - 0.02f);
    assert_true(high >= cases[i].high - 0.2f && high <= cases[i].high + 0.02f);
    y = lab_binary(&l, &intact_op_add, NULL, x, x); /* a reader that sees everything */
    low = -8;
    high = 9;
    assert_ok(context, intact__useful_range(x, &low, &high));
    assert_float_equal(low, -8, 0);
    assert_float_equal(high, 9, 0);
    intact_graph_destroy(l.graph);
  }
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mean_error_shrinks),
      cmocka_unit_test(test_new_bias_and_few_samples),
      cmocka_unit_test(test_useful_range),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
