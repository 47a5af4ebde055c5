/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on quantized tensors beside the reference suite: the integer kernels against the definition, cases of bug
   reports, refusals. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "intact/run.h"
#include "ops/quantized/quantized.h"
#include "support/test.h"

static intact_context *context;
static uint64_t random_state;

/* One node called by its foreign name. */
typedef struct call {
  intact_graph *graph;
  intact_node *node;
  int n;
  const intact_tensor *operands[4];
  intact_value *values[4];
  intact_tensor *made[4];
  const intact_alias *alias;
} call;

static void open_call(call *c) {
  memset(c, 0, sizeof *c);
  assert_ok(context, intact__graph_create(context, "call", &c->graph));
}

static void close_call(call *c) {
  intact_graph_destroy(c->graph);
  for (int i = 0; i < c->n; i++) intact_tensor_destroy(c->made[i]);
}

/* Operand of whole numbers; scale 0: plain f32 of these values. */
static void operand(call *c, intact_dtype dtype, float scale, int32_t zero, int rank, const int64_t *dims,
                    const int *values) {
  char name[8];
  snprintf(name, sizeof name, "in%d", c->n);
  const intact_dtype stored = scale > 0 ? dtype : INTACT_F32;
  assert_ok(context, intact_tensor_create(context, stored, rank, dims, &c->made[c->n]));
  for (int64_t i = 0; i < c->made[c->n]->count; i++)
    intact__tensor_set_f64(c->made[c->n], i, values != NULL ? values[i] : 0);
  assert_ok(context, intact__graph_add_input(c->graph, name, stored, rank, dims, &c->values[c->n]));
  const intact_qparams q = {.dtype = dtype,
                            .quant_min = intact_dtype_min(dtype),
                            .quant_max = intact_dtype_max(dtype),
                            .axis = -1,
                            .n = 1,
                            .scale = &scale,
                            .zero_point = &zero};
  if (scale > 0) assert_ok(context, intact__value_set_qparams(c->graph, c->values[c->n], &q));
  c->operands[c->n] = c->made[c->n];
  c->n++;
}

static void fill(call *c, int i) {
  intact_tensor *t = c->made[i];
  for (int64_t k = 0; k < t->count; k++) {
    if (t->dtype == INTACT_F32)
      intact__f32(t)[k] = test_uniform(&random_state, -2, 2);
    else
      ((uint8_t *)t->data)[k] = (uint8_t)test_random(&random_state);
  }
}

static void name_call(call *c, const char *name) {
  const intact_op *op = intact__find_quantized(name, &c->alias);
  assert_non_null(op);
  assert_ok(context, intact__graph_add_node(c->graph, op, "node", c->n, c->values, 1, NULL, NULL, &c->node));
  assert_ok(context, intact__set_alias_constants(c->node, c->alias));
}

static intact_status try_call(call *c, double scale, int64_t zero, bool fast, intact_tensor **y) {
  const intact_result_qparams result = {.given = scale > 0, .dtype = -1, .scale = scale, .zero_point = zero};
  *y = NULL;
  INTACT_TRY(intact__set_result_qparams(c->node, &result));
  return intact__eval_node(c->node, c->operands, fast, y);
}

static void expect_values(call *c, double scale, int64_t zero, int n, const int *want) {
  for (int fast = 0; fast < 2; fast++) {
    intact_tensor *y;
    assert_ok(context, try_call(c, scale, zero, fast != 0, &y));
    assert_int_equal(y->count, n);
    for (int i = 0; i < n; i++) assert_int_equal(intact__tensor_get_s64(y, i), want[i]);
    intact_tensor_destroy(y);
  }
}

static void set_ints(call *c, const char *name, int n, const int64_t *values) {
  assert_ok(context, intact__attr_set_ints(c->node, name, n, values));
}

/* ---- the integer kernels give what the definition gives ---- */

static void compare_forms(call *c) {
  static const char *const engines[] = {"x86", "fbgemm", "qnnpack", "onednn"};
  const bool symmetric = c->values[1]->qparams->zero_point[0] == 0;
  for (int e = 0; e < (symmetric ? 4 : 3); e++) {
    intact_tensor *y[2];
    assert_ok(context, intact__attr_set_string(c->node, "engine", engines[e]));
    for (int fast = 0; fast < 2; fast++) assert_ok(context, try_call(c, 40, 7, fast != 0, &y[fast]));
    assert_int_equal(y[0]->count, y[1]->count);
    if (y[0]->count > 0) assert_memory_equal(y[0]->data, y[1]->data, intact_tensor_bytes(y[0]));
    intact_tensor_destroy(y[0]);
    intact_tensor_destroy(y[1]);
  }
}

static int between(int low, int high) {
  return low + (int)(test_random(&random_state) % (uint32_t)(high - low + 1));
}

static void test_products(void **state) {
  (void)state;
  random_state = test_random_start();
  for (int k = 0; k < 40; k++) {
    call c;
    const int64_t m = between(0, 5), in = between(1, 70), out = between(1, 40);
    const bool matrix = k % 3 == 0, is_signed = k % 2 == 0;
    const int64_t x[2] = {m, in}, w[2] = {matrix ? in : out, matrix ? out : in};
    open_call(&c);
    operand(&c, is_signed ? INTACT_S8 : INTACT_U8, 0.5f, is_signed ? -3 : 120, 2, x, NULL);
    operand(&c, matrix ? INTACT_U8 : INTACT_S8, 0.25f, matrix ? 128 : 0, 2, w, NULL);
    if (!matrix) operand(&c, INTACT_F32, 0, 0, 1, &out, NULL);
    for (int i = 0; i < c.n; i++) fill(&c, i);
    name_call(&c, matrix ? "quantized::matmul" : "quantized::linear");
    compare_forms(&c);
    close_call(&c);
  }
}

static void test_convolutions(void **state) {
  (void)state;
  random_state = test_random_start();
  for (int k = 0; k < 40; k++) {
    call c;
    const int rank = 1 + k % 3;
    const int64_t groups = between(1, 3), in = groups * between(1, 5), out = groups * between(1, 9);
    int64_t x[5] = {between(0, 2), in}, w[5] = {out, in / groups}, stride[3], padding[3], dilation[3];
    for (int i = 0; i < rank; i++) {
      stride[i] = between(1, 2), padding[i] = between(0, 2), dilation[i] = between(1, 2);
      x[2 + i] = between(5, 8), w[2 + i] = between(1, 3);
    }
    const char *const names[] = {"quantized::conv1d", "quantized::conv2d", "quantized::conv3d"};
    open_call(&c);
    operand(&c, k % 2 == 0 ? INTACT_U8 : INTACT_S8, 0.5f, 11, rank + 2, x, NULL);
    operand(&c, INTACT_S8, 0.125f, 0, rank + 2, w, NULL);
    operand(&c, INTACT_F32, 0, 0, 1, &out, NULL);
    for (int i = 0; i < c.n; i++) fill(&c, i);
    name_call(&c, names[rank - 1]);
    set_ints(&c, "stride", rank, stride);
    set_ints(&c, "padding", rank, padding);
    set_ints(&c, "dilation", rank, dilation);
    intact__attr_set_int(c.node, "groups", groups);
    compare_forms(&c);
    close_call(&c);
  }
}

/* ---- cases of bug reports ---- */

/* ONNX Runtime 16105 and PyTorch 44939: a pair of products beyond 16 bits. The sums are -3132 and 33278. */
static void test_pairs_are_exact(void **state) {
  (void)state;
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 0.01f, 0, 2, (const int64_t[]){1, 3}, (const int[]){210, 198, 234});
  operand(&c, INTACT_S8, 0.01f, 0, 2, (const int64_t[]){1, 3}, (const int[]){-81, -80, 127});
  name_call(&c, "quantized::linear");
  expect_values(&c, 0.01, 100, 1, (const int[]){100 - 31}); /* -0.3132 / 0.01 */
  close_call(&c);
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, (const int64_t[]){1, 2}, (const int[]){211, 171});
  operand(&c, INTACT_S8, 1, 0, 2, (const int64_t[]){1, 2}, (const int[]){71, 107});
  name_call(&c, "quantized::linear");
  expect_values(&c, 256, 0, 1, (const int[]){130}); /* 33278 / 256 = 129.99; 32767 / 256 would be 128 */
  close_call(&c);
}

/* PyTorch 56331: -2012 in steps of 32 is -62.9; u8 with zero point 0 holds 0, a zero point of 63 makes it representable. */
static void test_unsigned_results_saturate(void **state) {
  (void)state;
  static const int x[] = {3, 9, 30, 14, 4, 22, 11, 7, 5}, w[] = {17, 21, -59, -4, -10, -31, 2, -3, 59};
  const int64_t dims[4] = {1, 1, 3, 3};
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 4, dims, x);
  operand(&c, INTACT_S8, 1, 0, 4, dims, w);
  name_call(&c, "quantized::conv2d");
  expect_values(&c, 32, 0, 1, (const int[]){0});
  expect_values(&c, 32, 63, 1, (const int[]){0});
  expect_values(&c, 32, 70, 1, (const int[]){7});
  close_call(&c);
}

/* IREE 24583: both zero points are subtracted, also where no size is a multiple of anything. */
static void test_both_zero_points(void **state) {
  (void)state;
  static const int64_t sizes[2][3] = {{8, 16, 17}, {7, 8, 9}};
  for (int k = 0; k < 2; k++) {
    const int64_t m = sizes[k][0], in = sizes[k][1], out = sizes[k][2];
    int want[8 * 17];
    call c;
    open_call(&c);
    operand(&c, INTACT_U8, 1, 3, 2, (const int64_t[]){m, in}, NULL);
    operand(&c, INTACT_S8, 1, -2, 2, (const int64_t[]){in, out}, NULL);
    for (int i = 0; i < 2; i++)
      for (int64_t e = 0; e < c.made[i]->count; e++) intact__tensor_set_s64(c.made[i], e, between(0, 9) - 4 * i);
    for (int64_t i = 0; i < m * out; i++) {
      int64_t sum = 0;
      for (int64_t e = 0; e < in; e++)
        sum += (intact__tensor_get_s64(c.made[0], i / out * in + e) - 3) *
               (intact__tensor_get_s64(c.made[1], e * out + i % out) + 2);
      want[i] = (int)(sum + 60 < 0 ? 0 : sum + 60 > 255 ? 255 : sum + 60);
    }
    name_call(&c, "quantized::matmul");
    expect_values(&c, 1, 60, (int)(m * out), want);
    close_call(&c);
  }
}

/* ONNX 7835: saturated, never wrapped. */
static void test_results_do_not_wrap(void **state) {
  (void)state;
  const int64_t one[2] = {1, 1};
  const int plus = 100, minus = -100;
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, one, &plus);
  operand(&c, INTACT_U8, 1, 0, 2, one, &plus);
  name_call(&c, "quantized::matmul");
  expect_values(&c, 0.2, 0, 1, (const int[]){255});
  close_call(&c);
  open_call(&c);
  operand(&c, INTACT_S8, 1, 0, 2, one, &minus);
  operand(&c, INTACT_S8, 1, 0, 2, one, &plus);
  name_call(&c, "quantized::matmul");
  expect_values(&c, 0.5, 0, 1, (const int[]){-128});
  close_call(&c);
}

/* ONNX Runtime 29727: one dominant logit; softmax in steps of 1/256 from -128 on. ExecuTorch 10961: relu on integers.
   ExecuTorch 20655: 127 with zero point -128 is 255 steps. */
static void test_elementwise(void **state) {
  (void)state;
  call c;
  open_call(&c);
  operand(&c, INTACT_S8, 1, 0, 2, (const int64_t[]){1, 4}, (const int[]){100, -100, -100, -100});
  name_call(&c, "quantized::softmax");
  expect_values(&c, 1.0 / 256, -128, 4, (const int[]){127, -128, -128, -128});
  close_call(&c);
  open_call(&c);
  operand(&c, INTACT_S8, 0.05f, 0, 1, (const int64_t[]){5}, (const int[]){-128, -127, -126, -10, 5});
  name_call(&c, "aten::relu");
  expect_values(&c, 0, 0, 5, (const int[]){0, 0, 0, 0, 5});
  close_call(&c);
  open_call(&c);
  operand(&c, INTACT_S8, 1, -128, 1, (const int64_t[]){2}, (const int[]){127, -128});
  name_call(&c, "aten::dequantize");
  expect_values(&c, 0, 0, 2, (const int[]){255, 0});
  close_call(&c);
}

/* PyTorch 36253: a multiplier of 4.636909. acc 3 * 5 = 15 gives 69.55. */
static void test_large_multiplier(void **state) {
  (void)state;
  const int64_t one[4] = {1, 1, 1, 1};
  static const char *const engines[] = {"x86", "fbgemm", "qnnpack", "onednn"};
  const int three = 3, five = 5;
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 0.6145506f, 0, 4, one, &three);
  operand(&c, INTACT_S8, 1.624538f, 0, 4, one, &five);
  name_call(&c, "quantized::conv2d");
  for (int e = 0; e < 4; e++) {
    assert_ok(context, intact__attr_set_string(c.node, "engine", engines[e]));
    expect_values(&c, 0.2153073, 0, 1, (const int[]){70});
  }
  close_call(&c);
}

/* ExecuTorch 20517: an even kernel of 32 with uneven padding; where x is its zero point everywhere, the result is its own.
 */
static void test_uneven_padding(void **state) {
  (void)state;
  const int64_t dims[4] = {1, 1, 256, 1}, kernel[4] = {16, 1, 32, 1}, padding[4] = {15, 0, 16, 0};
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 0.1f, 77, 4, dims, NULL);
  operand(&c, INTACT_S8, 0.1f, 0, 4, kernel, NULL);
  memset(c.made[0]->data, 77, (size_t)c.made[0]->count);
  random_state = 1;
  fill(&c, 1);
  name_call(&c, "quantized::conv2d_relu");
  set_ints(&c, "padding", 4, padding);
  for (int fast = 0; fast < 2; fast++) {
    intact_tensor *y;
    assert_ok(context, try_call(&c, 0.2, 9, fast != 0, &y));
    assert_int_equal(y->dims[2], 256);
    for (int64_t i = 0; i < y->count; i++) assert_int_equal(intact__tensor_get_s64(y, i), 9);
    intact_tensor_destroy(y);
  }
  close_call(&c);
}

/* TensorFlow 33588: means of the last axis, [7,7,3] [0,2,3] [6,3,8], within one step. PyTorch 108924: 1.5 gives 2, 0.5 gives
 * 0. */
static void test_means(void **state) {
  (void)state;
  static const double want[] = {17.0 / 3, 5.0 / 3, 17.0 / 3};
  int q[9];
  static const int x[9] = {7, 7, 3, 0, 2, 3, 6, 3, 8};
  const float scale = 8.0f / 255;
  const int64_t last = -1;
  call c;
  for (int i = 0; i < 9; i++) q[i] = (int)lrint((double)x[i] / (double)scale);
  open_call(&c);
  operand(&c, INTACT_U8, scale, 0, 2, (const int64_t[]){3, 3}, q);
  name_call(&c, "aten::mean.dim");
  set_ints(&c, "dim", 1, &last);
  intact_tensor *y;
  assert_ok(context, try_call(&c, 0, 0, false, &y));
  for (int i = 0; i < 3; i++)
    assert_true(fabs((double)scale * (double)intact__tensor_get_s64(y, i) - want[i]) <= (double)scale);
  intact_tensor_destroy(y);
  close_call(&c);
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 4, (const int64_t[]){1, 1, 2, 2}, (const int[]){1, 2, 0, 1});
  name_call(&c, "aten::avg_pool2d");
  set_ints(&c, "kernel_size", 2, (const int64_t[]){1, 2});
  expect_values(&c, 0, 0, 2, (const int[]){2, 0});
  close_call(&c);
}

/* Adding a number keeps the scale unless the zero point leaves the type. 10 of scale 0.5 is 20 steps. */
static void test_numbers_move_the_zero_point(void **state) {
  (void)state;
  const int x[2] = {0, 255};
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 0.5f, 100, 1, (const int64_t[]){2}, x);
  name_call(&c, "quantized::add_scalar");
  intact__attr_set_float(c.node, "other", 10);
  expect_values(&c, 0, 0, 2, x);
  assert_int_equal(c.node->results[0]->qparams->zero_point[0], 80);
  intact__attr_set_float(c.node, "other", 100); /* zero point -100: the range 50..177.5 becomes 0..177.5 */
  expect_values(&c, 0, 0, 2, (const int[]){72, 255});
  assert_int_equal(c.node->results[0]->qparams->zero_point[0], 0);
  assert_true(fabs((double)c.node->results[0]->qparams->scale[0] - 177.5 / 255) < 1e-7);
  close_call(&c);
}

/* ---- a network of such operators: as text and back, interpreted and planned ---- */

static intact_value *add_to(call *c, const char *name, int n, intact_value **operands, double scale, int64_t zero) {
  const intact_alias *alias;
  const intact_op *op = intact__find_quantized(name, &alias);
  const intact_result_qparams result = {.given = scale > 0, .dtype = -1, .scale = scale, .zero_point = zero};
  intact_node *node;
  assert_ok(context, intact__graph_add_node(c->graph, op, intact__graph_fresh_name(c->graph, op->name), n, operands, 1, NULL,
                                            NULL, &node));
  assert_ok(context, intact__set_alias_constants(node, alias));
  if (strcmp(op->name, "quantized_mul_scalar") == 0) intact__attr_set_float(node, "other", -1.5);
  assert_ok(context, intact__set_result_qparams(node, &result));
  return node->results[0];
}

static void test_networks(void **state) {
  (void)state;
  const int64_t x[4] = {2, 4, 6, 5}, w[4] = {8, 4, 3, 3}, bias = 8;
  call c;
  open_call(&c);
  c.graph->stage = INTACT_STAGE_INTEGER;
  operand(&c, INTACT_U8, 0.05f, 120, 4, x, NULL);
  operand(&c, INTACT_S8, 0.02f, 0, 4, w, NULL);
  operand(&c, INTACT_F32, 0, 0, 1, &bias, NULL);
  random_state = 7;
  for (int i = 0; i < c.n; i++) fill(&c, i);
  intact_value *conv = add_to(&c, "quantized::conv2d_relu", 3, c.values, 0.1, 20), *pair[2] = {conv, NULL};
  pair[1] = add_to(&c, "quantized::mul_scalar", 1, &conv, 0, 0);
  intact_value *sum = add_to(&c, "quantized::add", 2, pair, 0.1, 90),
               *swish = add_to(&c, "quantized::hardswish", 1, &sum, 0.06, 8);
  intact_value *y = add_to(&c, "aten::dequantize", 1, &swish, 0, 0);
  assert_ok(context, intact__graph_set_outputs(c.graph, 1, &y));
  assert_ok(context, intact_graph_verify(c.graph));
  char *text, *again;
  intact_graph *read;
  assert_ok(context, intact_graph_print(c.graph, &text));
  assert_ok(context, intact_graph_parse(context, text, &read));
  assert_ok(context, intact_graph_print(read, &again));
  assert_string_equal(text, again);
  intact_text_destroy(context, text);
  intact_text_destroy(context, again);
  intact_program *program;
  intact_tensor *interpreted, *planned;
  assert_ok(context, intact_graph_interpret(read, c.operands, false, &interpreted));
  assert_ok(context, intact_program_create(read, &program));
  assert_ok(context, intact_program_run(program, c.operands, &planned));
  assert_int_equal(planned->count, 2 * 8 * 4 * 3);
  assert_memory_equal(planned->data, interpreted->data, intact_tensor_bytes(planned));
  intact_program_destroy(program);
  intact_tensor_destroy(interpreted);
  intact_tensor_destroy(planned);
  intact_graph_destroy(read);
  close_call(&c);
}

/* ---- refusals ---- */

static void refused(call *c, double scale, int64_t zero, intact_status status, const char *part) {
  intact_tensor *y = NULL;
  assert_fails(try_call(c, scale, zero, false, &y), status);
  assert_null(y);
  if (strstr(intact_context_message(context), part) == NULL) {
    print_error("message \"%s\" lacks \"%s\"\n", intact_context_message(context), part);
    fail();
  }
  close_call(c);
}

static void test_refusals(void **state) {
  (void)state;
  const int64_t two[2] = {2, 2}, three[2] = {2, 3};
  call c;
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_S8, 1, 0, 2, three, NULL);
  name_call(&c, "quantized::linear");
  refused(&c, 1, 0, INTACT_SIZE_MISMATCH, "[2,3]");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_S8, 1, 0, 2, two, NULL);
  name_call(&c, "quantized::linear");
  refused(&c, 1, 300, INTACT_OUT_OF_RANGE, "300");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_F32, 0, 0, 2, two, NULL);
  name_call(&c, "quantized::linear");
  refused(&c, 1, 0, INTACT_TYPE_MISMATCH, "operand w is plain f32");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_S8, 1, 3, 2, two, NULL);
  name_call(&c, "quantized::linear");
  assert_ok(context, intact__attr_set_string(c.node, "engine", "onednn"));
  refused(&c, 1, 0, INTACT_UNSUPPORTED_TYPE, "symmetric");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  name_call(&c, "quantized::add");
  assert_ok(context, intact__attr_set_string(c.node, "engine", "xnnpack"));
  refused(&c, 1, 0, INTACT_INVALID_VALUE, "xnnpack");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  operand(&c, INTACT_U8, 1, 0, 2, two, NULL);
  name_call(&c, "quantized::mul");
  refused(&c, 0, 0, INTACT_MISSING_FIELD, "output_scale");
  open_call(&c);
  operand(&c, INTACT_U8, 1, 0, 1, two, NULL);
  name_call(&c, "quantized::mul_scalar");
  intact__attr_set_float(c.node, "other", (double)INFINITY);
  refused(&c, 0, 0, INTACT_OUT_OF_RANGE, "inf");
}

static int start(void **state) {
  (void)state;
  context = test_context(2);
  return 0;
}

static int stop(void **state) {
  (void)state;
  intact_context_destroy(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_pairs_are_exact),
      cmocka_unit_test(test_unsigned_results_saturate),
      cmocka_unit_test(test_both_zero_points),
      cmocka_unit_test(test_results_do_not_wrap),
      cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_large_multiplier),
      cmocka_unit_test(test_uneven_padding),
      cmocka_unit_test(test_means),
      cmocka_unit_test(test_numbers_move_the_zero_point),
      cmocka_unit_test(test_networks),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
