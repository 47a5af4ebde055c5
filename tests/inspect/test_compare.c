/* SPDX-License-Identifier: Apache-2.0 */
/* Two networks layer by layer: what must be equal is reported as equal, errors that nobody can see are not reported. */
#include "support/lab.h"

#include "intact/inspect.h"

static intact_context *context;

static const intact_layer_report *layer(const intact_report *report, const char *name) {
  for (int i = 0; i < intact_report_layer_count(report); i++)
    if (strcmp(intact_report_layer(report, i)->name, name) == 0) return intact_report_layer(report, i);
  return NULL;
}

static intact_report *compare(const intact_graph *a, intact_engine engine_a, const intact_graph *b, intact_engine engine_b,
                              const intact_tensor *samples) {
  intact_data *data = lab_data(a, samples);
  intact_report *report;
  assert_ok(context, intact_compare(a, engine_a, b, engine_b, data, samples->dims[0], &report));
  intact_data_close(data);
  return report;
}

static intact_graph *quantize(const intact_graph *model, const intact_tensor *samples, bool equalize, intact_graph **reference) {
  intact_quantize_options options = intact_quantize_default_options();
  options.equalize = equalize;
  intact_data *data = lab_data(model, samples);
  intact_graph *result;
  assert_ok(context, intact_quantize_with_reference(model, data, &options, reference, &result, NULL));
  intact_data_close(data);
  return result;
}

/* conv -> relu -> pool -> flatten -> linear; channels of conv differ by 2^12. */
static lab uneven_network(void) {
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 4, 4));
  intact_value *h = lab_max_pool(&l, "pool", lab_unary(&l, &intact_op_relu, "relu", lab_conv(&l, "conv", x, 6, 3, 1)));
  intact_node *flat = lab_node(&l, &intact_op_reshape, "flatten", 1, &h);
  assert_ok(context, intact__attr_set_ints(flat, "shape", 2, (const int64_t[]){-1, 24}));
  h = lab_linear(&l, "fc", lab_infer(&l, flat), 5);
  lab_outputs(&l, 1, &h);
  const intact_node *conv = lab_find(l.graph, "conv"), *fc = lab_find(l.graph, "fc");
  for (int64_t c = 0; c < 6; c++) {
    const float s = exp2f((float)(c * 5 % 13) - 6.0f);
    for (int64_t i = 0; i < 27; i++) intact__f32(conv->operands[1]->constant)[c * 27 + i] *= s;
    intact__f32(conv->operands[2]->constant)[c] *= s;
  }
  for (int64_t i = 0; i < 24 * 5; i++) intact__f32(fc->operands[1]->constant)[i] /= exp2f((float)(i % 24 / 4 * 5 % 13) - 6.0f);
  for (intact_node *node = l.graph->first; node; node = node->next) node->source = node->name; /* as imported */
  return l;
}

/* Equalization multiplies channels by powers of two: known to the report, in both directions, through pooling. */
static void test_equalized_layers_are_the_same(void **state) {
  (void)state;
  lab l = uneven_network();
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(8, 3, 4, 4));
  intact_graph *reference, *quantized = quantize(l.graph, samples, true, &reference);
  const intact_tensor *before = lab_find(l.graph, "conv")->operands[1]->constant;
  assert_memory_not_equal(before->data, lab_find(reference, "conv")->operands[1]->constant->data, intact_tensor_bytes(before));
  for (int turn = 0; turn < 2; turn++) {
    const intact_graph *a = turn ? reference : l.graph, *b = turn ? l.graph : reference;
    intact_report *report = compare(a, INTACT_ENGINE_FLOAT, b, INTACT_ENGINE_FLOAT, samples);
    assert_int_equal(intact_report_layer_count(report), 4);
    for (int i = 0; i < 4; i++) {
      assert_true(isinf(intact_report_layer(report, i)->sqnr_here_db) && intact_report_layer(report, i)->sqnr_here_db > 0);
      assert_true(isinf(intact_report_layer(report, i)->sqnr_acc_db) && intact_report_layer(report, i)->sqnr_acc_db > 0);
    }
    intact_report_destroy(report);
  }
  /* the integer network against the original says the same as against the network that was quantized */
  intact_report *own = compare(reference, INTACT_ENGINE_FLOAT, quantized, INTACT_ENGINE_INT, samples);
  intact_report *original = compare(l.graph, INTACT_ENGINE_FLOAT, quantized, INTACT_ENGINE_INT, samples);
  assert_int_equal(intact_report_layer_count(own), intact_report_layer_count(original));
  for (int i = 0; i < intact_report_layer_count(own); i++) {
    const intact_layer_report *x = intact_report_layer(own, i), *y = intact_report_layer(original, i);
    assert_string_equal(x->name, y->name);
    assert_true(x->sqnr_here_db > 25 && fabs(x->sqnr_here_db - y->sqnr_here_db) < 1e-9);
    assert_true(fabs(x->sqnr_acc_db - y->sqnr_acc_db) < 1e-9);
  }
  intact_report_destroy(own);
  intact_report_destroy(original);
  intact_graph_destroy(quantized);
  intact_graph_destroy(reference);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

/* Either side can be the integer program; a layer with relu inside is not compared with one before the relu. */
static void test_engines(void **state) {
  (void)state;
  lab l = uneven_network();
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(8, 3, 4, 4));
  intact_graph *quantized = quantize(l.graph, samples, true, NULL), *integer;
  assert_ok(context, intact_graph_copy(quantized, &integer));
  assert_ok(context, intact_to_integer(integer));
  intact_report *report = compare(quantized, INTACT_ENGINE_INT, integer, INTACT_ENGINE_INT, samples);
  assert_int_equal(intact_report_layer_count(report), 3); /* conv with relu, pool, fc */
  for (int i = 0; i < 3; i++) assert_true(isinf(intact_report_layer(report, i)->sqnr_acc_db));
  assert_true(isinf(intact_report_output(report, 0)->sqnr_db));
  intact_report_destroy(report);
  report = compare(integer, INTACT_ENGINE_INT, l.graph, INTACT_ENGINE_FLOAT, samples);
  assert_null(layer(report, "conv"));
  assert_true(layer(report, "relu")->sqnr_acc_db > 25);
  assert_true(layer(report, "pool")->sqnr_acc_db > 25);
  assert_true(layer(report, "fc")->sqnr_here_db > 25);
  intact_report_destroy(report);
  /* another arithmetic: at most one step apart, and not the very same */
  report = compare(quantized, INTACT_ENGINE_FLOAT, quantized, INTACT_ENGINE_INT, samples);
  assert_true(intact_report_output(report, 0)->max_steps < 1.01);
  assert_true(layer(report, "conv")->sqnr_acc_db < 80); /* float relu against quantized */
  intact_report_destroy(report);
  intact_graph_destroy(integer);
  intact_graph_destroy(quantized);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

/* hardswish is 0 below -3: a range that ends there clips nothing that counts. */
static void test_useless_range_is_no_error(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4));
  intact_value *h = lab_linear(&l, "wide", x, 8);
  const intact_node *wide = lab_find(l.graph, "wide");
  for (int64_t i = 0; i < 32; i++) intact__f32(wide->operands[1]->constant)[i] *= 8;
  h = lab_unary(&l, &intact_op_hardswish, "act", h);
  h = lab_linear(&l, "fc", h, 3);
  lab_outputs(&l, 1, &h);
  for (intact_node *node = l.graph->first; node; node = node->next) node->source = node->name;
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(64, 4));
  intact_graph *quantized = quantize(l.graph, samples, false, NULL);
  intact_report *report = compare(l.graph, INTACT_ENGINE_FLOAT, quantized, INTACT_ENGINE_INT, samples);
  const intact_layer_report *found = layer(report, "wide");
  assert_true(found->range_low > -3.2); /* it was cut: a third of the values lies below */
  assert_true(found->clipped < 0.005 && found->sqnr_here_db > 30);
  assert_int_equal(intact_report_advice_count(report), 0);
  intact_report_destroy(report);
  intact_graph_destroy(quantized);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
}

/* Several nodes that one imported node became: each is compared with its own, not with the last. */
static void test_nodes_of_one_source(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *h = lab_linear(&l, "fc", x, 8);
  intact_value *squares = lab_binary(&l, &intact_op_mul, "squares", h, h);
  h = lab_linear(&l, "out", lab_binary(&l, &intact_op_add, "sum", squares, h), 3);
  lab_outputs(&l, 1, &h);
  for (intact_node *node = l.graph->first; node; node = node->next)
    node->source = strcmp(node->name, "squares") == 0 ? "sum" : node->name;
  intact_tensor *samples = lab_random(&l, -1, 1, LAB_DIMS(32, 6));
  intact_graph *quantized = quantize(l.graph, samples, false, NULL);
  intact_report *report = compare(l.graph, INTACT_ENGINE_FLOAT, quantized, INTACT_ENGINE_INT, samples);
  assert_int_equal(intact_report_layer_count(report), 4);
  for (int i = 0; i < 4; i++) assert_true(intact_report_layer(report, i)->sqnr_here_db > 25);
  intact_report_destroy(report);
  intact_graph_destroy(quantized);
  intact_tensor_destroy(samples);
  intact_graph_destroy(l.graph);
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
      cmocka_unit_test(test_equalized_layers_are_the_same),
      cmocka_unit_test(test_engines),
      cmocka_unit_test(test_useless_range_is_no_error),
      cmocka_unit_test(test_nodes_of_one_source),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
