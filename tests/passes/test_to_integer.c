/* SPDX-License-Identifier: Apache-2.0 */
/* From q/dq to integers: results against the unrewritten graph, and places that stay float with their reason. */
#include "support/lab.h"

#include "graph/pass.h"

static intact_context *context;

static intact_value *quantize(lab *l, intact_value *x, float scale, int32_t zero, int low, int high) {
  const intact_qparams q = {.scheme = INTACT_PER_TENSOR_AFFINE, .dtype = INTACT_U8, .quant_min = low, .quant_max = high,
                            .axis = -1, .n = 1, .scale = &scale, .zero_point = &zero};
  intact_node *node = lab_node(l, &intact_op_quantize, NULL, 1, &x);
  assert_ok(context, intact__value_set_qparams(l->graph, node->results[0], &q));
  return lab_infer(l, node);
}

static intact_value *pair(lab *l, intact_value *x, float scale, int32_t zero) {
  return lab_unary(l, &intact_op_dequantize, NULL, quantize(l, x, scale, zero, 0, 255));
}

/* s8 weights per row and, with bias_factor > 0, an s32 bias of scale sx * sw * bias_factor; 0: a float bias. */
static intact_value *linear(lab *l, const char *name, intact_value *x, int64_t out, float x_scale, float bias_factor) {
  int64_t in = x->dims[x->rank - 1];
  intact_tensor *w, *b;
  float scale[16], bias_scale[16];
  int32_t zero[16] = {0};
  assert_ok(context, intact_tensor_create(context, INTACT_S8, 2, (const int64_t[]){out, in}, &w));
  for (int64_t i = 0; i < w->count; i++) ((int8_t *)w->data)[i] = (int8_t)(test_random(&l->random) % 255 - 127);
  for (int64_t c = 0; c < out; c++) {
    scale[c] = test_uniform(&l->random, 0.002f, 0.01f);
    bias_scale[c] = x_scale * scale[c] * (bias_factor > 0 ? bias_factor : 1.0f);
  }
  const intact_qparams qw = {.scheme = INTACT_PER_CHANNEL_SYMMETRIC, .dtype = INTACT_S8, .quant_min = -127, .quant_max = 127,
                             .axis = 0, .n = out, .scale = scale, .zero_point = zero};
  const intact_qparams qb = {.scheme = INTACT_PER_CHANNEL_SYMMETRIC, .dtype = INTACT_S32, .quant_min = INT32_MIN,
                             .quant_max = INT32_MAX, .axis = 0, .n = out, .scale = bias_scale, .zero_point = zero};
  intact_value *operands[3] = {x};
  assert_ok(context, intact__graph_add_constant(l->graph, intact__graph_fresh_name(l->graph, "w"), w, &qw, &operands[1]));
  operands[1] = lab_unary(l, &intact_op_dequantize, NULL, operands[1]);
  if (bias_factor > 0) {
    assert_ok(context, intact_tensor_create(context, INTACT_S32, 1, &out, &b));
    for (int64_t c = 0; c < out; c++) ((int32_t *)b->data)[c] = (int32_t)(test_random(&l->random) % 4000) - 2000;
    assert_ok(context, intact__graph_add_constant(l->graph, intact__graph_fresh_name(l->graph, "b"), b, &qb, &operands[2]));
    operands[2] = lab_unary(l, &intact_op_dequantize, NULL, operands[2]);
  } else {
    operands[2] = lab_constant(l, "b", lab_random(l, -1, 1, 1, &out));
  }
  return lab_infer(l, lab_node(l, &intact_op_linear, name, 3, operands));
}

static void finish(lab *l, intact_value *y) {
  l->graph->stage = INTACT_STAGE_QDQ;
  lab_outputs(l, 1, &y);
}

/* The integer graph gives what the q/dq graph gave, within `steps` of `step`. */
static void expect_same(lab *l, const intact_tensor *x, double step, double steps) {
  intact_tensor *before = lab_run(l->graph, x);
  assert_ok(context, intact_to_integer(l->graph));
  assert_int_equal(intact_graph_stage(l->graph), INTACT_STAGE_INTEGER);
  intact_tensor *after = lab_run(l->graph, x);
  for (int64_t i = 0; i < before->count; i++)
    assert_true(fabs((double)intact__f32(before)[i] - (double)intact__f32(after)[i]) <= (steps + 1e-3) * step);
  intact_tensor_destroy(before);
  intact_tensor_destroy(after);
}

/* linear -> relu -> quantize is one node whose range starts at the zero point. */
static void test_fused_clamp(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 0.02f, 100);
  intact_value *y = lab_unary(&l, &intact_op_relu, "relu", linear(&l, "linear", x, 5, 0.02f, 1));
  finish(&l, pair(&l, y, 0.05f, 17));
  lab_find(l.graph, "linear")->source = "a";
  lab_find(l.graph, "relu")->source = "b";
  intact_tensor *data = lab_random(&l, -3, 3, LAB_DIMS(32, 12));
  expect_same(&l, data, 0.05, 0);
  assert_int_equal(l.graph->n_nodes, 3);
  const intact_node *node = lab_find(l.graph, "linear");
  assert_string_equal(node->source, "a+b");
  assert_null(node->why_float);
  assert_int_equal(node->operands[0]->dtype, INTACT_U8);
  assert_int_equal(node->operands[1]->dtype, INTACT_S8);
  assert_int_equal(node->operands[2]->dtype, INTACT_S32);
  assert_int_equal(node->results[0]->qparams->quant_min, 17);
  assert_int_equal(node->results[0]->qparams->quant_max, 255);
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* P53, onnxruntime#22580: relu6 with a scale that reaches beyond 6 stays as a limit of the codes. */
static void test_fused_relu6(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 0.02f, 100);
  intact_value *y = lab_unary(&l, &intact_op_relu6, NULL, linear(&l, "linear", x, 5, 0.02f, 1));
  finish(&l, pair(&l, y, 0.03f, 0));
  intact_tensor *data = lab_random(&l, -30, 30, LAB_DIMS(32, 12));
  expect_same(&l, data, 0.03, 0);
  assert_int_equal(lab_find(l.graph, "linear")->results[0]->qparams->quant_max, 200);
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* P54, onnxruntime#24711: a bias on a scale that is not x * w is put on it, not taken for it. Float biases too. */
static void test_bias_on_other_scale(void **state) {
  (void)state;
  const float factors[] = {0.5f, 3.0f, 0.0f};
  for (int i = 0; i < 3; i++) {
    lab l = lab_create(context);
    intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 0.02f, 100);
    finish(&l, pair(&l, linear(&l, "linear", x, 5, 0.02f, factors[i]), 0.05f, 17));
    intact_tensor *data = lab_random(&l, -3, 3, LAB_DIMS(32, 12));
    expect_same(&l, data, 0.05, 1); /* a bias rounds by half of x_scale * w_scale */
    const intact_node *node = lab_find(l.graph, "linear");
    assert_int_equal(node->results[0]->dtype, INTACT_U8);
    for (int c = 0; c < 5; c++) {
      float scale = 0.02f * node->operands[1]->qparams->scale[c];
      assert_memory_equal(&scale, &node->operands[2]->qparams->scale[c], sizeof scale);
    }
    intact_tensor_destroy(data);
    intact_graph_destroy(l.graph);
  }
}

static void expect_float(lab *l, const char *name, const char *part) {
  const intact_node *node = lab_find(l->graph, name);
  assert_non_null(node->why_float);
  if (!strstr(node->why_float, part)) print_error("%s\n", node->why_float);
  assert_non_null(strstr(node->why_float, part));
  assert_int_equal(node->results[0]->dtype, INTACT_F32);
}

static void test_what_stays_float(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 0.02f, 100);
  intact_value *normal = lab_infer(&l, lab_node(&l, &intact_op_linear, "no_q", 2,
                                                (intact_value *[]){x, linear(&l, "unused", x, 12, 0.02f, 1)->producer->operands[1]}));
  intact_node *norm = lab_node(&l, &intact_op_layer_norm, "norm", 1, &normal);
  assert_ok(context, intact__attr_set_ints(norm, "normalized_shape", 1, (const int64_t[]){12}));
  intact_value *f = lab_infer(&l, norm);
  intact_value *y = lab_binary(&l, &intact_op_add, "add", f, x);
  finish(&l, pair(&l, y, 0.1f, 128));
  intact_tensor *data = lab_random(&l, -3, 3, LAB_DIMS(32, 12));
  expect_same(&l, data, 0.1, 0);
  expect_float(&l, "no_q", "read as float");
  expect_float(&l, "norm", "no integer kernel for layer_norm");
  expect_float(&l, "add", "operand a is float");
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* A bias that cannot be an int32 at this scale is not clipped: the node stays float. */
static void test_bias_overflow(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 1e-9f, 0);
  intact_value *h = linear(&l, "linear", x, 5, 1e-9f, 0);
  intact__f32(h->producer->operands[2]->constant)[3] = 500.0f;
  finish(&l, pair(&l, h, 2.0f, 0));
  intact_tensor *data = lab_random(&l, 0, 1e-7f, LAB_DIMS(4, 12));
  expect_same(&l, data, 2, 0);
  expect_float(&l, "linear", "overflows int32");
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* Movement works on the integers; q/dq pairs on one grid go; on different grids they become requantize: all exact. */
static void test_movement_and_absorption(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 3, 4)), 0.02f, 100);
  intact_node *permute = lab_node(&l, &intact_op_permute, "permute", 1, &x);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 3, (const int64_t[]){0, 2, 1}));
  intact_value *y = pair(&l, lab_infer(&l, permute), 0.02f, 100);
  y = pair(&l, pair(&l, y, 0.03f, 90), 0.03f, 90);
  intact_node *softmax = lab_node(&l, &intact_op_softmax, "softmax", 1, &y);
  intact__attr_set_int(softmax, "dim", 1);
  finish(&l, lab_infer(&l, softmax));
  intact_tensor *data = lab_random(&l, -3, 3, LAB_DIMS(5, 3, 4));
  expect_same(&l, data, 1, 0);
  assert_int_equal(lab_find(l.graph, "permute")->results[0]->dtype, INTACT_U8);
  assert_int_equal(lab_count(l.graph, "quantize"), 1);
  assert_int_equal(lab_count(l.graph, "requantize"), 1);
  assert_int_equal(lab_count(l.graph, "dequantize"), 1);
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

/* Transposed integer weights of a matrix product, with scales along the axis that moves. */
static void test_folded_weights(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = pair(&l, lab_input(&l, "x", LAB_DIMS(1, 12)), 0.02f, 100);
  intact_value *w = linear(&l, "unused", x, 5, 0.02f, 1)->producer->operands[1];
  intact_node *permute = lab_node(&l, &intact_op_permute, NULL, 1, &w);
  assert_ok(context, intact__attr_set_ints(permute, "dims", 2, (const int64_t[]){1, 0}));
  finish(&l, pair(&l, lab_binary(&l, &intact_op_matmul, "matmul", x, lab_infer(&l, permute)), 0.05f, 17));
  intact_tensor *data = lab_random(&l, -3, 3, LAB_DIMS(32, 12));
  expect_same(&l, data, 0.05, 0);
  const intact_node *matmul = lab_find(l.graph, "matmul");
  assert_int_equal(lab_count(l.graph, "permute"), 0);
  assert_int_equal(matmul->operands[1]->qparams->axis, 1);
  assert_int_equal(matmul->operands[1]->dims[1], 5);
  assert_int_equal(matmul->results[0]->dtype, INTACT_U8);
  intact_tensor_destroy(data);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fused_clamp),         cmocka_unit_test(test_fused_relu6),
      cmocka_unit_test(test_bias_on_other_scale), cmocka_unit_test(test_what_stays_float),
      cmocka_unit_test(test_bias_overflow),       cmocka_unit_test(test_movement_and_absorption),
      cmocka_unit_test(test_folded_weights),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
