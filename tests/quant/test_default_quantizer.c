/* SPDX-License-Identifier: Apache-2.0 */
/* What the default quantizer wishes, and what it refuses. */
#include "support/lab.h"

#include "graph/quantizer.h"

static intact_context *context;

static const intact_wish *operand_wish(const intact_graph *graph, const char *name, int operand) {
  return &lab_find(graph, name)->annotation->operands[operand];
}
static const intact_wish *result_wish(const intact_graph *graph, const char *name) {
  return &lab_find(graph, name)->annotation->results[0];
}

/* A clamp goes into the range of the layer before it: nothing is quantized between them. */
static void test_layer_and_clamp(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 8, 8));
  intact_value *y = lab_unary(&l, &intact_op_relu, "relu", lab_conv(&l, "conv", x, 4, 3, 1));
  lab_outputs(&l, 1, &y);
  assert_ok(context, intact_annotate(l.graph, NULL));
  assert_int_equal(operand_wish(l.graph, "conv", 0)->kind, INTACT_WISH_OWN);
  assert_int_equal(operand_wish(l.graph, "conv", 0)->spec.dtype, INTACT_U8);
  const intact_wish *weight = operand_wish(l.graph, "conv", 1);
  assert_int_equal(weight->kind, INTACT_WISH_OWN);
  assert_int_equal(weight->spec.dtype, INTACT_S8);
  assert_int_equal(weight->spec.quant_min, -127);
  assert_int_equal(weight->spec.quant_max, 127);
  assert_int_equal(weight->spec.scheme, INTACT_PER_CHANNEL_SYMMETRIC);
  assert_int_equal(weight->spec.axis, 0);
  const intact_wish *bias = operand_wish(l.graph, "conv", 2);
  assert_int_equal(bias->kind, INTACT_WISH_DERIVED);
  assert_int_equal(bias->spec.dtype, INTACT_S32);
  assert_int_equal(bias->from[0].slot, 0);
  assert_int_equal(bias->from[1].slot, 1);
  assert_int_equal(result_wish(l.graph, "conv")->kind, INTACT_WISH_NONE);
  assert_int_equal(operand_wish(l.graph, "relu", 0)->kind, INTACT_WISH_NONE);
  assert_int_equal(result_wish(l.graph, "relu")->kind, INTACT_WISH_OWN);
  intact_graph_destroy(l.graph);
}

/* A clamp whose operand is read elsewhere too has a range of its own. */
static void test_clamp_beside_other_reader(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 8, 8));
  intact_value *c = lab_conv(&l, "conv", x, 4, 3, 1);
  intact_value *y = lab_binary(&l, &intact_op_add, "add", lab_unary(&l, &intact_op_relu, "relu", c), c);
  lab_outputs(&l, 1, &y);
  assert_ok(context, intact_annotate(l.graph, NULL));
  assert_int_equal(result_wish(l.graph, "conv")->kind, INTACT_WISH_OWN);
  assert_int_equal(result_wish(l.graph, "relu")->kind, INTACT_WISH_OWN);
  assert_int_equal(operand_wish(l.graph, "add", 0)->kind, INTACT_WISH_OWN);
  assert_int_equal(operand_wish(l.graph, "add", 1)->kind, INTACT_WISH_OWN);
  intact_graph_destroy(l.graph);
}

/* Data movement takes part where its neighbours are quantized, and only there. */
static void test_data_movement(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 3, 8, 8));
  intact_value *pooled = lab_max_pool(&l, "pool", lab_conv(&l, "conv", x, 4, 3, 1));
  intact_value *other = lab_input(&l, "z", LAB_DIMS(1, 4, 4, 8));
  intact_node *permute = lab_node(&l, &intact_op_permute, "permute", 1, &other);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 4, (const int64_t[]){0, 1, 3, 2}));
  intact_value *moved = lab_infer(&l, permute);
  intact_value *outputs[] = {pooled, lab_unary(&l, &intact_op_exp, "exp", moved)};
  lab_outputs(&l, 2, outputs);
  intact_quantize_options options = intact_quantize_default_options();
  options.keep_float = (const char *const[]){"exp"};
  options.n_keep_float = 1;
  assert_ok(context, intact_annotate(l.graph, &options));
  assert_int_equal(result_wish(l.graph, "pool")->kind, INTACT_WISH_SHARED);
  assert_true(result_wish(l.graph, "pool")->passive);
  assert_int_equal(operand_wish(l.graph, "pool", 0)->kind, INTACT_WISH_SHARED);
  assert_null(lab_find(l.graph, "permute")->annotation);
  intact_graph_destroy(l.graph);
}

static void test_products_of_activations(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *a = lab_input(&l, "a", LAB_DIMS(1, 6, 8)), *b = lab_input(&l, "b", LAB_DIMS(1, 8, 5));
  intact_value *y = lab_binary(&l, &intact_op_matmul, "matmul", a, b);
  intact_value *w = lab_constant(&l, "w", lab_random(&l, -1, 1, LAB_DIMS(5, 7)));
  intact_value *z = lab_binary(&l, &intact_op_matmul, "weights", y, w);
  lab_outputs(&l, 1, &z);
  assert_ok(context, intact_annotate(l.graph, NULL));
  assert_int_equal(operand_wish(l.graph, "matmul", 1)->spec.scheme, INTACT_PER_TENSOR_AFFINE);
  assert_int_equal(operand_wish(l.graph, "weights", 1)->spec.scheme, INTACT_PER_CHANNEL_SYMMETRIC);
  assert_int_equal(operand_wish(l.graph, "weights", 1)->spec.axis, 1);
  intact_graph_destroy(l.graph);
}

static lab small_net(void) {
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 6));
  intact_value *y = lab_linear(&l, "second", lab_unary(&l, &intact_op_relu, "relu", lab_linear(&l, "first", x, 5)), 4);
  lab_outputs(&l, 1, &y);
  return l;
}

static void test_keep_float(void **state) {
  (void)state;
  lab l = small_net();
  lab_find(l.graph, "first")->source = "block/gemm+block/relu";
  intact_quantize_options options = intact_quantize_default_options();
  options.keep_float = (const char *const[]){"block/ge*"};
  options.n_keep_float = 1;
  assert_ok(context, intact_annotate(l.graph, &options));
  assert_int_equal(operand_wish(l.graph, "first", 0)->kind, INTACT_WISH_FLOAT);
  assert_int_equal(result_wish(l.graph, "first")->kind, INTACT_WISH_FLOAT);
  assert_int_equal(operand_wish(l.graph, "second", 0)->kind, INTACT_WISH_OWN);
  intact_graph_destroy(l.graph);
}

static void expect_refused(const intact_quantize_options *options, intact_status status, const char *part) {
  lab l = small_net();
  assert_fails(intact_annotate(l.graph, options), status);
  if (!strstr(intact_context_message(context), part)) print_error("%s\n", intact_context_message(context));
  assert_non_null(strstr(intact_context_message(context), part));
  intact_graph_destroy(l.graph);
}

static void test_refusals(void **state) {
  (void)state;
  intact_quantize_options options = intact_quantize_default_options();
  options.keep_float = (const char *const[]){"nowhere*"};
  options.n_keep_float = 1;
  expect_refused(&options, INTACT_WRONG_USE, "nowhere*");
  options = intact_quantize_default_options();
  options.quantizer = "default+best";
  expect_refused(&options, INTACT_WRONG_USE, "'best'");
  options.quantizer = "default:speed=high";
  expect_refused(&options, INTACT_WRONG_USE, "speed");
  options = intact_quantize_default_options();
  options.observer = "median";
  expect_refused(&options, INTACT_WRONG_USE, "median");
  options.observer = "histogram:buckets=3";
  expect_refused(&options, INTACT_WRONG_USE, "buckets");
  options = intact_quantize_default_options();
  options.activations = INTACT_S16; /* P63, ONNX Runtime 21346: refused, never written with other widths than asked for */
  expect_refused(&options, INTACT_UNSUPPORTED_TYPE, "s16");
  options = intact_quantize_default_options();
  options.weight_observer = "histogram"; /* takes no channels */
  lab l = small_net();
  assert_true(intact_annotate(l.graph, &options) != INTACT_OK);
  l.graph->stage = INTACT_STAGE_QDQ;
  assert_fails(intact_annotate(l.graph, NULL), INTACT_WRONG_USE);
  intact_graph_destroy(l.graph);
}

static void test_order_of_steps(void **state) {
  (void)state;
  lab l = small_net();
  intact_tensor *x = lab_random(&l, -1, 1, LAB_DIMS(4, 6));
  intact_data *data = lab_data(l.graph, x);
  assert_fails(intact_calibrate(l.graph, data, 2), INTACT_WRONG_USE);
  assert_fails(intact_convert(l.graph), INTACT_WRONG_USE);
  assert_fails(intact_to_integer(l.graph), INTACT_WRONG_USE);
  assert_ok(context, intact_annotate(l.graph, NULL));
  assert_ok(context, intact_prepare(l.graph));
  assert_fails(intact_prepare(l.graph), INTACT_WRONG_USE);
  assert_fails(intact_convert(l.graph), INTACT_WRONG_USE); /* nothing was observed */
  intact_data_close(data);
  intact_tensor_destroy(x);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layer_and_clamp),         cmocka_unit_test(test_clamp_beside_other_reader),
      cmocka_unit_test(test_data_movement),           cmocka_unit_test(test_products_of_activations),
      cmocka_unit_test(test_keep_float),              cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_order_of_steps),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
