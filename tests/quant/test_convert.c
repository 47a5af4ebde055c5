/* SPDX-License-Identifier: Apache-2.0 */
/* Prepare, calibrate, convert: shared ranges, weights, biases with headroom, names, integer borders. */
#include "support/lab.h"

#include "graph/observer.h"

static intact_context *context;

static intact_quantize_options plain_options(void) {
  intact_quantize_options options = intact_quantize_default_options();
  options.equalize = options.bias_correction = false;
  options.observer = "min_max";
  return options;
}

static intact_graph *quantize(const intact_graph *graph, const intact_tensor *samples, const intact_quantize_options *options,
                              intact_quantize_notes *notes) {
  intact_graph *result;
  intact_data *data = lab_data(graph, samples);
  assert_ok(context, intact_quantize(graph, data, options, &result, notes));
  intact_data_close(data);
  assert_int_equal(intact_graph_stage(result), INTACT_STAGE_QDQ);
  return result;
}

static bool same_grid(const intact_qparams *a, const intact_qparams *b) {
  return a->dtype == b->dtype && memcmp(a->scale, b->scale, sizeof *a->scale) == 0 && a->zero_point[0] == b->zero_point[0];
}

static const intact_qparams *output_qparams(const intact_node *node) {
  const intact_node *reader = intact__value_single_user(node->results[0]);
  assert_true(intact__is_op(reader, "quantize"));
  return reader->results[0]->qparams;
}

/* PyTorch's formulas on ranges that are known: u8 affine scale (hi - lo) / 255, s8 symmetric max|w| / 127 per row. P69,
   onnxruntime#13328: a network that ends in a layer has qparams for its output. */
static void test_qparams(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 2));
  const float w[] = {1.27f, -0.635f, -0.254f, 0.127f}, b[] = {0.5f, -0.25f};
  intact_value *operands[] = {x, lab_constant(&l, "w", lab_tensor(&l, w, LAB_DIMS(2, 2))),
                              lab_constant(&l, "b", lab_tensor(&l, b, LAB_DIMS(2)))};
  intact_value *y = lab_infer(&l, lab_node(&l, &intact_op_linear, "linear", 3, operands));
  lab_outputs(&l, 1, &y);
  const float samples[] = {-1.0f, 4.1f, 0.5f, 0.25f};
  intact_tensor *data = lab_tensor(&l, samples, LAB_DIMS(2, 2));
  intact_quantize_options options = plain_options();
  options.quantizer = "default:scale_bits=0";
  intact_graph *q = quantize(l.graph, data, &options, NULL);
  const intact_node *linear = lab_find(q, "linear");
  const intact_qparams *qx = lab_operand_qparams(linear, 0), *qw = lab_operand_qparams(linear, 1),
                       *qb = lab_operand_qparams(linear, 2);
  assert_float_equal(qx->scale[0], 5.1 / 255, 1e-8);
  assert_int_equal(qx->zero_point[0], 50);
  assert_int_equal(qw->axis, 0);
  assert_float_equal(qw->scale[0], 0.01, 1e-8);
  assert_float_equal(qw->scale[1], 0.002, 1e-8);
  const int8_t *codes = linear->operands[1]->producer->operands[0]->constant->data;
  assert_int_equal(codes[0], 127);
  assert_int_equal(codes[1], -64); /* -63.5 to even */
  assert_int_equal(codes[2], -127);
  assert_int_equal(codes[3], 64); /* 63.5 to even */
  float product = qx->scale[0] * qw->scale[1];
  assert_memory_equal(&product, &qb->scale[1], sizeof product);
  const int32_t *bias = linear->operands[2]->producer->operands[0]->constant->data;
  assert_int_equal(bias[0], (int)nearbyint(0.5 / (double)qb->scale[0]));
  assert_int_equal(bias[1], (int)nearbyint(-0.25 / (double)qb->scale[1]));
  assert_non_null(output_qparams(linear)); /* a network that ends in a layer has qparams for its output */
  assert_string_equal(intact_graph_output(q, 0).name, intact_graph_output(l.graph, 0).name);
  assert_int_equal(intact_graph_output(q, 0).dtype, INTACT_F32);
  intact_graph_destroy(q);
  /* Without the option: at most 12 bits, upwards, and the product of two scales is no longer rounded. */
  options.quantizer = NULL;
  q = quantize(l.graph, data, &options, NULL);
  linear = lab_find(q, "linear");
  qx = lab_operand_qparams(linear, 0), qw = lab_operand_qparams(linear, 1), qb = lab_operand_qparams(linear, 2);
  const double exact[] = {5.1 / 255, 0.01, 0.002}, got[] = {(double)qx->scale[0], (double)qw->scale[0], (double)qw->scale[1]};
  for (int i = 0; i < 3; i++) {
    int exponent;
    double steps = ldexp(frexp(got[i], &exponent), 12);
    assert_true(steps == floor(steps));
    assert_true(got[i] >= exact[i] * (1 - 1e-6) && got[i] <= exact[i] * (1 + 1.0 / 2048));
  }
  assert_int_equal(qx->zero_point[0], 50);
  for (int c = 0; c < 2; c++) assert_true((double)qb->scale[c] == got[0] * got[1 + c]);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* P57, onnxruntime#22020: x scale 0.5, weight scale 7.843e-10, bias [5, -4.5]. The codes would be 1.3e10; the weight scale has to
   rise to at least 5 / (0.5 * (2^31 - 1)) = 4.657e-9, and the bias has to stay. */
static void test_bias_headroom(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 2));
  const float small = 7.843e-10f * 127, w[] = {small, -small, small / 2, small, 0.5f, -0.25f}, b[] = {5.0f, -4.5f, 1.0f};
  intact_value *operands[] = {x, lab_constant(&l, "w", lab_tensor(&l, w, LAB_DIMS(3, 2))),
                              lab_constant(&l, "b", lab_tensor(&l, b, LAB_DIMS(3)))};
  intact_value *y = lab_infer(&l, lab_node(&l, &intact_op_linear, "linear", 3, operands));
  lab_outputs(&l, 1, &y);
  const float samples[] = {0.0f, 127.5f};
  intact_tensor *data = lab_tensor(&l, samples, LAB_DIMS(1, 2));
  intact_quantize_options options = plain_options();
  options.quantizer = "default:scale_bits=0";
  intact_quantize_notes notes;
  intact_graph *q = quantize(l.graph, data, &options, &notes);
  const intact_node *linear = lab_find(q, "linear");
  const intact_qparams *qx = lab_operand_qparams(linear, 0), *qw = lab_operand_qparams(linear, 1),
                       *qb = lab_operand_qparams(linear, 2);
  assert_float_equal(qx->scale[0], 0.5, 1e-7);
  const int8_t *codes = linear->operands[1]->producer->operands[0]->constant->data;
  const int32_t *bias = linear->operands[2]->producer->operands[0]->constant->data;
  for (int c = 0; c < 3; c++) {
    assert_float_equal(bias[c] * (double)qb->scale[c], b[c], 1e-6);
    double sum = (abs(codes[2 * c]) + abs(codes[2 * c + 1])) * 255.0;
    assert_true(fabs((double)bias[c]) + sum <= 2147483647.0);
  }
  for (int c = 0; c < 2; c++) {
    assert_true((double)qw->scale[c] >= fabs((double)b[c]) / (0.5 * 2147483647.0));
    /* smallest: one float less would not do (255 * 254 is the most that the weights can add) */
    assert_true((double)qw->scale[c] <= fabs((double)b[c]) / (0.5 * (2147483647.0 - 255 * 254 - 1)) * (1 + 2e-7));
  }
  assert_float_equal(qw->scale[2], 0.5 / 127, 1e-9);
  assert_true(lab_noted(&notes, "raised in 2 of 3 channels"));
  intact_quantize_notes_destroy(context, &notes);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* P66 to P68, onnxruntime#11242, tensorflow/model-optimization#1053, executorch#19836: concat (of one operand too), pooling, permutes and
   slices keep the qparams of what they move; all operands of a concat and its result have one grid. */
static void test_shared_ranges(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 8, 8));
  intact_value *a = lab_max_pool(&l, "pool", lab_conv(&l, "a", x, 4, 3, 1)), *b = lab_conv(&l, "b", a, 2, 1, 1);
  intact_node *cat = lab_node(&l, &intact_op_cat, "cat", 2, (intact_value *[]){a, b});
  intact__attr_set_int(cat, "dim", 1);
  intact_value *both = lab_infer(&l, cat);
  intact_node *permute = lab_node(&l, &intact_op_permute, "permute", 1, &both);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 4, (const int64_t[]){0, 2, 3, 1}));
  intact_value *y = lab_linear(&l, "last", lab_infer(&l, permute), 3);
  lab_outputs(&l, 1, &y);
  intact_tensor *data = lab_random(&l, -1, 2, LAB_DIMS(8, 3, 8, 8));
  intact_quantize_options options = plain_options();
  intact_graph *q = quantize(l.graph, data, &options, NULL);
  const intact_qparams *grid = output_qparams(lab_find(q, "a"));
  assert_true(same_grid(grid, output_qparams(lab_find(q, "pool"))));
  assert_true(same_grid(grid, output_qparams(lab_find(q, "b"))));
  assert_true(same_grid(grid, output_qparams(lab_find(q, "cat"))));
  assert_true(same_grid(grid, output_qparams(lab_find(q, "permute"))));
  assert_true(same_grid(grid, lab_operand_qparams(lab_find(q, "last"), 0)));
  intact_tensor *exact = lab_run(l.graph, data), *got = lab_run(q, data);
  assert_true(lab_sqnr(exact, got) > 25);
  intact_tensor_destroy(exact);
  intact_tensor_destroy(got);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* A fixed range (sigmoid: 1/256, zero point 0) does not become the range of what it is concatenated with. */
static void test_fixed_range(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *a = lab_linear(&l, "a", x, 4), *s = lab_unary(&l, &intact_op_sigmoid, "sigmoid", a);
  intact_node *cat = lab_node(&l, &intact_op_cat, "cat", 2, (intact_value *[]){s, a});
  intact__attr_set_int(cat, "dim", 1);
  intact_value *y = lab_linear(&l, "last", lab_infer(&l, cat), 3);
  lab_outputs(&l, 1, &y);
  intact_tensor *data = lab_random(&l, -4, 4, LAB_DIMS(16, 6));
  intact_quantize_options options = plain_options();
  intact_graph *q = quantize(l.graph, data, &options, NULL);
  const intact_qparams *fixed = output_qparams(lab_find(q, "sigmoid"));
  assert_float_equal(fixed->scale[0], 1.0 / 256, 0);
  assert_int_equal(fixed->zero_point[0], 0);
  assert_true(same_grid(output_qparams(lab_find(q, "a")), output_qparams(lab_find(q, "cat"))));
  intact_graph_destroy(q);
  options.activations = INTACT_S8;
  q = quantize(l.graph, data, &options, NULL);
  fixed = output_qparams(lab_find(q, "sigmoid"));
  assert_int_equal(fixed->dtype, INTACT_S8);
  assert_int_equal(fixed->zero_point[0], -128);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* Two layers on one weight read one integer constant. */
static void test_shared_weight(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *w = lab_constant(&l, "w", lab_random(&l, -1, 1, LAB_DIMS(6, 6)));
  intact_value *b = lab_constant(&l, "b0", lab_random(&l, -1, 1, LAB_DIMS(6)));
  intact_value *h = lab_infer(&l, lab_node(&l, &intact_op_linear, "first", 3, (intact_value *[]){x, w, b}));
  intact_value *y = lab_infer(&l, lab_node(&l, &intact_op_linear, "second", 3, (intact_value *[]){h, w, b}));
  lab_outputs(&l, 1, &y);
  intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(8, 6));
  intact_quantize_options options = plain_options();
  intact_graph *q = quantize(l.graph, data, &options, NULL);
  assert_ptr_equal(lab_find(q, "first")->operands[1], lab_find(q, "second")->operands[1]);
  assert_ptr_not_equal(lab_find(q, "first")->operands[2], lab_find(q, "second")->operands[2]);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* Also with the biases corrected, where samples run through the quantized network. */
static void check_integer_borders(bool corrected) {
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *y = lab_linear(&l, "layer", x, 4);
  lab_outputs(&l, 1, &y);
  intact_tensor *data = lab_random(&l, -1, 1, LAB_DIMS(16, 6)), *codes, *exact = lab_run(l.graph, data), *real;
  intact_quantize_options options = plain_options();
  options.io_integer = true;
  options.bias_correction = corrected;
  intact_graph *q = quantize(l.graph, data, &options, NULL);
  intact_value_info in = intact_graph_input(q, 0), out = intact_graph_output(q, 0);
  assert_int_equal(in.dtype, INTACT_U8);
  assert_int_equal(out.dtype, INTACT_U8);
  assert_non_null(in.qparams);
  assert_non_null(out.qparams);
  assert_string_equal(in.name, "x");
  assert_string_equal(out.name, intact_graph_output(l.graph, 0).name);
  assert_ok(context, intact__quantize_tensor(data, in.qparams, &codes));
  intact_tensor *result = lab_run(q, codes);
  assert_ok(context, intact__dequantize_tensor(result, out.qparams, &real));
  assert_true(lab_sqnr(exact, real) > 30);
  intact_tensor_destroy(real);
  intact_tensor_destroy(result);
  assert_ok(context, intact_to_integer(q));
  assert_int_equal(q->n_nodes, 1);
  result = lab_run(q, codes);
  assert_ok(context, intact__dequantize_tensor(result, intact_graph_output(q, 0).qparams, &real));
  assert_true(lab_sqnr(exact, real) > 30);
  intact_tensor_destroy(real);
  intact_tensor_destroy(result);
  intact_tensor_destroy(codes);
  intact_tensor_destroy(exact);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

static void test_integer_borders(void **state) {
  (void)state;
  check_integer_borders(false);
  check_integer_borders(true);
}

/* Not-a-number in a sample is left out of the statistics, counted, and noted. */
static void test_non_finite_samples(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3));
  intact_value *y = lab_linear(&l, "layer", x, 2);
  lab_outputs(&l, 1, &y);
  const float samples[] = {-1, 2, 0.5f, NAN, 1, INFINITY};
  intact_tensor *data = lab_tensor(&l, samples, LAB_DIMS(2, 3));
  intact_quantize_options options = plain_options();
  options.observer = "histogram";
  intact_quantize_notes notes;
  intact_graph *q = quantize(l.graph, data, &options, &notes);
  const intact_qparams *qx = lab_operand_qparams(lab_find(q, "layer"), 0);
  assert_true(qx->scale[0] > 0 && qx->scale[0] < 3.01f / 255);
  assert_true(lab_noted(&notes, "2 of 6 elements were not finite"));
  intact_quantize_notes_destroy(context, &notes);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(data);
}

/* Samples without one finite number give no range: an error, not a network. */
static void test_nothing_finite(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 2));
  intact_value *operands[] = {x, lab_constant(&l, "w", lab_random(&l, -1, 1, LAB_DIMS(2, 2))), NULL};
  intact_value *y = lab_infer(&l, lab_node(&l, &intact_op_linear, "linear", 3, operands));
  lab_outputs(&l, 1, &y);
  const float samples[] = {NAN, INFINITY, -INFINITY, NAN};
  intact_tensor *values = lab_tensor(&l, samples, LAB_DIMS(2, 2));
  intact_data *data = lab_data(l.graph, values);
  const intact_quantize_options options = plain_options();
  intact_graph *q = NULL;
  assert_fails(intact_quantize(l.graph, data, &options, &q, NULL), INTACT_INVALID_VALUE);
  assert_null(q);
  intact_data_close(data);
  intact_graph_destroy(l.graph);
  intact_tensor_destroy(values);
}

/* Rows picked from a constant table lie on the table's grid: the layer behind is integer. */
static void test_picked_from_constant(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *ids, *table = lab_constant(&l, "table", lab_random(&l, -1, 1, LAB_DIMS(20, 6)));
  const int64_t dims[] = {intact__graph_symbol(l.graph, "N"), 3};
  assert_ok(context, intact__graph_add_input(l.graph, "ids", INTACT_S64, 2, dims, &ids));
  intact_node *pick = lab_node(&l, intact__find_op("take_along"), "pick", 2, (intact_value *[]){table, ids});
  intact__attr_set_int(pick, "dim", 0);
  intact_value *y = lab_linear(&l, "layer", lab_infer(&l, pick), 4);
  lab_outputs(&l, 1, &y);
  const int64_t sample_dims[] = {12, 3};
  intact_tensor *samples;
  assert_ok(context, intact_tensor_create(context, INTACT_S64, 2, sample_dims, &samples));
  for (int64_t i = 0; i < samples->count; i++) ((int64_t *)samples->data)[i] = i * 7 % 20;
  intact_quantize_options options = plain_options();
  intact_graph *q = quantize(l.graph, samples, &options, NULL);
  intact_tensor *exact = lab_run(l.graph, samples), *got = lab_run(q, samples);
  assert_true(lab_sqnr(exact, got) > 30);
  assert_ok(context, intact_to_integer(q));
  const intact_node *layer = lab_find(q, "layer");
  assert_null(layer->why_float);
  assert_non_null(layer->operands[0]->qparams);
  intact_tensor_destroy(exact);
  intact_tensor_destroy(got);
  intact_tensor_destroy(samples);
  intact_graph_destroy(q);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_qparams),       cmocka_unit_test(test_bias_headroom),   cmocka_unit_test(test_shared_ranges),
      cmocka_unit_test(test_fixed_range),   cmocka_unit_test(test_shared_weight),   cmocka_unit_test(test_integer_borders),
      cmocka_unit_test(test_picked_from_constant),
      cmocka_unit_test(test_non_finite_samples), cmocka_unit_test(test_nothing_finite),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
