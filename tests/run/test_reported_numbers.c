/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of published reports: each network as an ONNX file, by the definitions and by the integer program, on every
   instruction set. What a report prints is expected; where it prints nothing, the formula is restated in double. */
#include "support/onnx_lab.h"

#include <math.h>

#include "graph/graph.h"
#include "intact/run.h"

static intact_context *context;

static intact_tensor *tensor_of(intact_dtype dtype, int rank, const int64_t *dims, const double *values) {
  intact_tensor *tensor;
  assert_ok(context, intact_tensor_create(context, dtype, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__tensor_set_f64(tensor, i, values[i]);
  return tensor;
}

static void check_values(const char *engine, const char *name, const intact_tensor *got, const double *wanted, double tolerance) {
  for (int64_t i = 0; i < got->count; i++) {
    double value = intact__tensor_get_f64(got, i);
    if (!(fabs(value - wanted[i]) <= tolerance))
      print_error("%s of %s: element %lld is %.9g, expected %.9g\n", engine, name, (long long)i, value, wanted[i]);
    assert_true(fabs(value - wanted[i]) <= tolerance);
  }
}

/* Output 0 for the inputs x (and x2) by both engines. The inputs go. Gives the float steps of the program. */
static int expect_of(intact_graph *graph, intact_tensor *x, intact_tensor *x2, const double *wanted, double tolerance) {
  const intact_tensor *inputs[] = {x, x2};
  intact_tensor *outputs[4] = {NULL};
  intact_program *program;
  int n_outputs = intact_graph_output_count(graph), floats = 0;
  const char *name = intact_graph_output(graph, 0).name;
  for (int engine = 0; engine < 2; engine++) {
    if (engine == 0) {
      assert_ok(context, intact_graph_interpret(graph, inputs, false, outputs));
    } else {
      assert_ok(context, intact_program_create(graph, &program));
      assert_ok(context, intact_program_run(program, inputs, outputs));
    }
    check_values(engine == 0 ? "definitions" : "program", name, outputs[0], wanted, tolerance);
    for (int i = 0; i < n_outputs; i++) intact_tensor_destroy(outputs[i]);
  }
  for (int i = 0; i < intact_program_step_count(program); i++) floats += !intact_program_step(program, i).integer;
  intact_program_destroy(program);
  intact_tensor_destroy(x);
  intact_tensor_destroy(x2);
  return floats;
}

static int expect(onnx_lab *o, intact_tensor *x, intact_tensor *x2, const double *wanted, double tolerance) {
  intact_graph *graph = onnx_lab_read(o);
  int floats = expect_of(graph, x, x2, wanted, tolerance);
  intact_graph_destroy(graph);
  onnx_lab_close(o);
  return floats;
}

/* ---- quantize and dequantize ---- */

/* P03, tract 2672: the zero point is added after the rounding. */
static void dynamic_quantize(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(3));
  onnx_lab_node(&o, "y s z", "DynamicQuantizeLinear", "x", "");
  onnx_lab_output(&o, "y", INTACT_U8);
  expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(3), ONNX_VALUES(-127, 128, 0.5)), NULL, ONNX_VALUES(0, 255, 127), 0);
}

/* P04, onnxruntime 32452; P14, onnxruntime 32719: half x, with a half scale and, since opset 23, with a float one. */
static void half_inputs(void **state) {
  (void)state;
  for (int wide = 0; wide < 2; wide++) {
    onnx_lab o;
    onnx_lab_open(&o, context, wide ? 23 : 21);
    onnx_lab_input(&o, "x", INTACT_F16, ONNX_DIMS(4));
    onnx_lab_initializer(&o, "s", wide ? INTACT_F32 : INTACT_F16, ONNX_DIMS(1), ONNX_VALUES(0.0999755859375));
    onnx_lab_initializer(&o, "z", INTACT_S8, ONNX_DIMS(1), ONNX_VALUES(0));
    onnx_lab_node(&o, "y", "QuantizeLinear", "x s z", "");
    onnx_lab_output(&o, "y", INTACT_S8);
    expect(&o, tensor_of(INTACT_F16, ONNX_DIMS(4), ONNX_VALUES(0.050018310546875, -0.050018310546875, 1, -100)), NULL,
           ONNX_VALUES(1, -1, 10, -128), 0);
  }
}

/* P12, onnx 6067: one scale for a tensor of rank 1, and of rank 0. P39, executorch 20655: 127 - -128 is 255. */
static void dequantize_one_scale(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_S8, ONNX_DIMS(3));
  onnx_lab_number(&o, "s", INTACT_F32, 0.5);
  onnx_lab_number(&o, "z", INTACT_S8, -128);
  onnx_lab_node(&o, "y", "DequantizeLinear", "x s z", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_S8, ONNX_DIMS(3), ONNX_VALUES(127, -128, 0)), NULL, ONNX_VALUES(127.5, 0, 64), 0);
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_U8, ONNX_SCALAR);
  onnx_lab_number(&o, "s", INTACT_F32, 0.5);
  onnx_lab_node(&o, "y", "DequantizeLinear", "x s", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_U8, ONNX_SCALAR, ONNX_VALUES(7)), NULL, ONNX_VALUES(3.5), 0);
}

/* P55, onnxruntime 28491: negative constants stay negative through dequantize and reshape. */
static void reshaped_constant(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(2, 2));
  onnx_lab_initializer(&o, "c", INTACT_S8, ONNX_DIMS(4), ONNX_VALUES(12, -45, 7, -3));
  onnx_lab_number(&o, "s", INTACT_F32, 0.02);
  onnx_lab_initializer(&o, "shape", INTACT_S64, ONNX_DIMS(2), ONNX_VALUES(2, 2));
  onnx_lab_node(&o, "d", "DequantizeLinear", "c s", "");
  onnx_lab_node(&o, "r", "Reshape", "d shape", "");
  onnx_lab_node(&o, "y", "Add", "x r", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(2, 2), ONNX_VALUES(0, 0, 0, 0)), NULL, ONNX_VALUES(0.24, -0.9, 0.14, -0.06), 1e-7);
}

/* ---- products of integers ---- */

/* P34, onnxruntime 27897: a zero point per row. P35, iree 24583: both zero points are subtracted. */
static void matmul_integer(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "a", INTACT_U8, ONNX_DIMS(2, 2));
  onnx_lab_initializer(&o, "b", INTACT_S8, ONNX_DIMS(2, 2), ONNX_VALUES(1, 2, 3, 4));
  onnx_lab_initializer(&o, "az", INTACT_U8, ONNX_DIMS(2), ONNX_VALUES(10, 20));
  onnx_lab_node(&o, "y", "MatMulInteger", "a b az", "");
  onnx_lab_output(&o, "y", INTACT_S32);
  expect(&o, tensor_of(INTACT_U8, ONNX_DIMS(2, 2), ONNX_VALUES(10, 10, 20, 20)), NULL, ONNX_VALUES(0, 0, 0, 0), 0);
  static const int sizes[][3] = {{8, 16, 17}, {7, 8, 9}};
  uint64_t random = test_random_start();
  for (int k = 0; k < 2; k++) {
    double a[8 * 16], b[16 * 17], wanted[8 * 17];
    int m = sizes[k][0], inner = sizes[k][1], n = sizes[k][2];
    for (int i = 0; i < m * inner; i++) a[i] = test_random(&random) % 256;
    for (int i = 0; i < inner * n; i++) b[i] = (int)(test_random(&random) % 256) - 128;
    for (int i = 0; i < m * n; i++) {
      wanted[i] = 0;
      for (int j = 0; j < inner; j++) wanted[i] += (a[i / n * inner + j] - 131) * (b[j * n + i % n] + 5);
    }
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "a", INTACT_U8, ONNX_DIMS(m, inner));
    onnx_lab_initializer(&o, "b", INTACT_S8, ONNX_DIMS(inner, n), b);
    onnx_lab_number(&o, "az", INTACT_U8, 131);
    onnx_lab_number(&o, "bz", INTACT_S8, -5);
    onnx_lab_node(&o, "y", "MatMulInteger", "a b az bz", "");
    onnx_lab_output(&o, "y", INTACT_S32);
    expect(&o, tensor_of(INTACT_U8, ONNX_DIMS(m, inner), a), NULL, wanted, 0);
  }
}

/* A quantized operator of two inputs with one element each. */
static void expect_pair(const char *op, intact_dtype dtype, const double *a, const double *b, const double *y, double a_code,
                        double b_code, double wanted) {
  static const char *const names[] = {"as", "az", "bs", "bz", "ys", "yz"};
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "a", dtype, ONNX_DIMS(1, 1));
  onnx_lab_input(&o, "b", dtype, ONNX_DIMS(1, 1));
  const double *const numbers[] = {a, b, y};
  for (int i = 0; i < 6; i++) onnx_lab_number(&o, names[i], i % 2 ? dtype : INTACT_F32, numbers[i / 2][i % 2]);
  onnx_lab_node(&o, "y", op, "a as az b bs bz ys yz", "");
  onnx_lab_output(&o, "y", dtype);
  expect(&o, tensor_of(dtype, ONNX_DIMS(1, 1), &a_code), tensor_of(dtype, ONNX_DIMS(1, 1), &b_code), &wanted, 0);
}

/* P36, onnx 7835: results beyond the type saturate. */
static void matmul_saturates(void **state) {
  (void)state;
  expect_pair("QLinearMatMul", INTACT_U8, ONNX_VALUES(1, 0), ONNX_VALUES(1, 0), ONNX_VALUES(0.2, 0), 100, 100, 255);
  expect_pair("QLinearMatMul", INTACT_S8, ONNX_VALUES(1, 0), ONNX_VALUES(1, 0), ONNX_VALUES(0.5, 0), -100, 100, -128);
}

/* onnxruntime 25512 (of the kind of P49): float32 and NumPy give -112.50000794, that is -113. */
static void add_near_a_tie(void **state) {
  (void)state;
  expect_pair("com.microsoft.QLinearAdd", INTACT_S8, ONNX_VALUES(0.02534690499305725, -106),
              ONNX_VALUES(0.035809919238090515, -120), ONNX_VALUES(0.0365859717130661, -105), -114, -122, -113);
}

/* All 65536 pairs of codes give what float32, operation by operation, gives by ONNX's rule, which divides. */
static void add_all_pairs(float sa, int za, float sb, int zb, float sy, int zy) {
  enum { N = 65536 };
  static double a[N], b[N], wanted[N];
  for (int i = 0; i < N; i++) {
    a[i] = i / 256 - 128, b[i] = i % 256 - 128;
    float x = (float)(a[i] - za) * sa, y = (float)(b[i] - zb) * sb, sum = x + y;
    wanted[i] = fmin(fmax((double)nearbyintf(sum / sy) + zy, -128), 127);
  }
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "a", INTACT_S8, ONNX_DIMS(256, 256));
  onnx_lab_input(&o, "b", INTACT_S8, ONNX_DIMS(256, 256));
  onnx_lab_number(&o, "as", INTACT_F32, (double)sa), onnx_lab_number(&o, "az", INTACT_S8, za);
  onnx_lab_number(&o, "bs", INTACT_F32, (double)sb), onnx_lab_number(&o, "bz", INTACT_S8, zb);
  onnx_lab_number(&o, "ys", INTACT_F32, (double)sy), onnx_lab_number(&o, "yz", INTACT_S8, zy);
  onnx_lab_node(&o, "y", "com.microsoft.QLinearAdd", "a as az b bs bz ys yz", "");
  onnx_lab_output(&o, "y", INTACT_S8);
  int floats = expect(&o, tensor_of(INTACT_S8, ONNX_DIMS(256, 256), a), tensor_of(INTACT_S8, ONNX_DIMS(256, 256), b), wanted, 0);
  assert_int_equal(floats, 0);
}

/* P48, onnxruntime 23202: its scales. P73, onnxruntime 32132: scales whose sums lie on ties, as that report found them. */
static void add_on_ties(void **state) {
  (void)state;
  static const float ties[] = {0.38f, 0.28f, 0.18f, 0.16f, 0.3f, 0.7f};
  add_all_pairs(0.008010663092136383f, 7, 0.00622713053599f, -128, 0.006873490754514933f, -128);
  for (int i = 0; i < 6; i++) add_all_pairs(ties[i] / 2, 3, ties[i] / 2, -5, ties[i], 1);
  for (int i = 0; i < 6; i++) add_all_pairs(ties[i], 3, ties[i] / 4, -5, ties[i] / 2, 1);
}

/* The same of a map of one value: all 256 codes through q/dq, an operator and q/dq. */
static void map_on_ties(void **state) {
  (void)state;
  static const float scales[] = {0.38f, 0.28f, 0.18f, 0.16f, 0.3f, 0.7f, 0.01f};
  static const char *const ops[] = {"Relu", "Neg", "Abs"};
  static double x[256], wanted[256];
  for (int i = 0; i < 3 * 7; i++) {
    const float scale = scales[i % 7], half = scale / 2;
    for (int k = 0; k < 256; k++) {
      const float value = (float)(k - 128) * half;
      x[k] = (double)value;
      const float y = i / 7 == 0 ? fmaxf(value, 0) : i / 7 == 1 ? -value : fabsf(value);
      wanted[k] = (double)((float)fmin(fmax(nearbyint((double)(y / scale)), -128), 127) * scale);
    }
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(256));
    onnx_lab_pair(&o, "xd", "x", INTACT_S8, (double)half, 0);
    onnx_lab_node(&o, "f", ops[i / 7], "xd", "");
    onnx_lab_pair(&o, "y", "f", INTACT_S8, (double)scale, 0);
    onnx_lab_output(&o, "y", INTACT_F32);
    expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(256), x), NULL, wanted, 0);
  }
}

/* ---- convolutions ---- */

/* A convolution x:u8 or s8, w:s8, y of the same type as x, as QLinearConv, no bias. */
typedef struct conv {
  intact_dtype dtype;
  const int64_t *x, *w;
  double x_scale, w_scale, y_scale;
  int x_zero, y_zero;
  const char *attributes;
} conv;

static int expect_conv(const conv *c, const double *x, const double *w, const double *wanted, double tolerance) {
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", c->dtype, 4, c->x);
  onnx_lab_initializer(&o, "w", INTACT_S8, 4, c->w, w);
  onnx_lab_number(&o, "xs", INTACT_F32, c->x_scale), onnx_lab_number(&o, "xz", c->dtype, c->x_zero);
  onnx_lab_number(&o, "ws", INTACT_F32, c->w_scale), onnx_lab_number(&o, "wz", INTACT_S8, 0);
  onnx_lab_number(&o, "ys", INTACT_F32, c->y_scale), onnx_lab_number(&o, "yz", c->dtype, c->y_zero);
  onnx_lab_node(&o, "y", "QLinearConv", "x xs xz w ws wz ys yz", c->attributes);
  onnx_lab_output(&o, "y", c->dtype);
  return expect(&o, tensor_of(c->dtype, 4, c->x, x), NULL, wanted, tolerance);
}

/* The same sum over a padded window, exact in double; pads before: top, left. */
static void convolve(const conv *c, int64_t groups, int64_t top, int64_t left, int64_t rows, int64_t columns, const double *x,
                     const double *w, double *y) {
  const int64_t *xd = c->x, *wd = c->w;
  const double m = (double)(float)c->x_scale * (double)(float)c->w_scale / (double)(float)c->y_scale;
  const int64_t low = intact_dtype_min(c->dtype), high = intact_dtype_max(c->dtype);
  for (int64_t i = 0; i < wd[0] * rows * columns; i++) {
    int64_t out = i / columns / rows, row = i / columns % rows, column = i % columns, first = out / (wd[0] / groups) * wd[1];
    double sum = 0;
    for (int64_t k = 0; k < wd[1] * wd[2] * wd[3]; k++) {
      int64_t in = k / wd[3] / wd[2], r = row + k / wd[3] % wd[2] - top, s = column + k % wd[3] - left;
      if (r < 0 || r >= xd[2] || s < 0 || s >= xd[3]) continue; /* padding is real 0 */
      sum += (x[((first + in) * xd[2] + r) * xd[3] + s] - c->x_zero) * w[out * wd[1] * wd[2] * wd[3] + k];
    }
    y[i] = fmin(fmax(nearbyint(sum * m) + c->y_zero, (double)low), (double)high);
  }
}

/* P30 and P32, onnxruntime 16105 and PyTorch 44939: pairs of products beyond 16 bits. P33, PyTorch 56331: -62.9 steps are 0
   for a type without a sign and -63 for one with it. P31: the report's network is not public; every kernel is exact there. */
static void conv_sums(void **state) {
  (void)state;
  const conv three = {INTACT_U8, (const int64_t[]){1, 3, 1, 1}, (const int64_t[]){1, 3, 1, 1}, 0.01, 0.01, 0.0313, 0, 128, ""};
  expect_conv(&three, ONNX_VALUES(210, 198, 234), ONNX_VALUES(-81, -80, 127), ONNX_VALUES(118), 0); /* -0.3132 / 0.0313 = -10 */
  const conv two = {INTACT_U8, (const int64_t[]){1, 2, 1, 1}, (const int64_t[]){1, 2, 1, 1}, 1, 1, 256, 0, 0, ""};
  expect_conv(&two, ONNX_VALUES(211, 171), ONNX_VALUES(71, 107), ONNX_VALUES(130), 0); /* 33278 / 256 = 129.99 */
  conv nine = {INTACT_U8, (const int64_t[]){1, 1, 3, 3}, (const int64_t[]){1, 1, 3, 3}, 1, 1, 32, 0, 0, ""};
  static const double x[] = {3, 9, 30, 14, 4, 22, 11, 7, 5}, w[] = {17, 21, -59, -4, -10, -31, 2, -3, 59};
  expect_conv(&nine, x, w, ONNX_VALUES(0), 0);
  nine.y_zero = 63;
  expect_conv(&nine, x, w, ONNX_VALUES(0), 0);
  nine.dtype = INTACT_S8, nine.y_zero = 0;
  expect_conv(&nine, x, w, ONNX_VALUES(-63), 0);
}

static void fill(double *values, int64_t n, int low, int high, uint64_t *random) {
  for (int64_t i = 0; i < n; i++) values[i] = low + (int)(test_random(random) % (uint32_t)(high - low + 1));
}

/* P40, PyTorch 36253: a multiplier of 4.6369. P42, ncnn 1304, 1234: groups that are neither one nor all channels.
   P46, XNNPACK 1922: s8, 2 x 2 x 4 x 1, scale 0.5, zero point -1. */
static void conv_shapes(void **state) {
  (void)state;
  static double x[4096], w[4096], y[4096];
  uint64_t random = test_random_start();
  const conv large = {INTACT_U8, (const int64_t[]){1, 3, 5, 4}, (const int64_t[]){7, 3, 1, 1}, 0.6145506, 1.624538, 0.2153073, 9, 120, ""};
  fill(x, 60, 5, 13, &random), fill(w, 21, -3, 3, &random);
  convolve(&large, 1, 0, 0, 5, 4, x, w, y);
  assert_int_equal(expect_conv(&large, x, w, y, 0), 0);
  for (int s8 = 0; s8 < 2; s8++)
    for (int64_t groups = 2; groups <= 4; groups *= 2) {
      const conv grouped = {s8 ? INTACT_S8 : INTACT_U8, (const int64_t[]){1, 16, 6, 5}, (const int64_t[]){24, 16 / groups, 3, 3}, 0.021, 0.0083,
                            0.151, s8 ? -11 : 117, s8 ? 3 : 131, groups == 2 ? "group=2 pads=[1,1,1,1]" : "group=4 pads=[1,1,1,1]"};
      fill(x, 16 * 30, s8 ? -128 : 0, s8 ? 127 : 255, &random), fill(w, 24 * 16 / groups * 9, -127, 127, &random);
      convolve(&grouped, groups, 1, 1, 6, 5, x, w, y);
      assert_int_equal(expect_conv(&grouped, x, w, y, 0), 0);
    }
  for (int kernel = 1; kernel <= 2; kernel++) {
    const conv small = {INTACT_S8, (const int64_t[]){1, 2, 4, 1}, (const int64_t[]){2, 2, kernel, 1}, 0.5, 0.25, 0.5, -1, -1, ""};
    fill(x, 8, -128, 127, &random), fill(w, 8, -127, 127, &random);
    convolve(&small, 1, 0, 0, 5 - kernel, 1, x, w, y);
    expect_conv(&small, x, w, y, 0);
  }
}

/* P41, executorch 20517: an even kernel with padding "same" is padded unevenly, with the zero point; then ReLU. */
static void uneven_padding(void **state) {
  (void)state;
  static double x[256], w[512], y[16 * 256];
  uint64_t random = test_random_start();
  const conv c = {INTACT_U8, (const int64_t[]){1, 1, 256, 1}, (const int64_t[]){16, 1, 32, 1}, 0.03, 0.004, 0.0631, 77, 0, "auto_pad=SAME_UPPER"};
  fill(x, 256, 0, 255, &random), fill(w, 512, -127, 127, &random);
  convolve(&c, 1, 15, 0, 256, 1, x, w, y); /* 15 before, 16 after */
  expect_conv(&c, x, w, y, 0);
  conv lower = c;
  lower.attributes = "auto_pad=SAME_LOWER";
  convolve(&lower, 1, 16, 0, 256, 1, x, w, y);
  expect_conv(&lower, x, w, y, 0);
}

/* P54, onnxruntime 24711, 28229: an int32 bias of 100 at 0.05 is 5, whatever the scales of x and w. P39: it is added to the sum. */
static void conv_bias(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 1, 1, 2));
  onnx_lab_pair(&o, "xd", "x", INTACT_U8, 0.1, 0);
  onnx_lab_number(&o, "s", INTACT_F32, 0.1);
  onnx_lab_number(&o, "bs", INTACT_F32, 0.05);
  onnx_lab_initializer(&o, "w", INTACT_S8, ONNX_DIMS(1, 1, 1, 1), ONNX_VALUES(10));
  onnx_lab_initializer(&o, "b", INTACT_S32, ONNX_DIMS(1), ONNX_VALUES(100));
  onnx_lab_node(&o, "wd", "DequantizeLinear", "w s", "");
  onnx_lab_node(&o, "bd", "DequantizeLinear", "b bs", "");
  onnx_lab_node(&o, "c", "Conv", "xd wd bd", "");
  onnx_lab_pair(&o, "y", "c", INTACT_U8, 0.5, 0);
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, 1, 1, 2), ONNX_VALUES(0, 3)), NULL, ONNX_VALUES(5, 8), 1e-6);
}

/* P52, onnxruntime 11660, 9425: with a symmetric output the ReLU stays: -1 becomes 0. P53, onnxruntime 22580: a clip that the
   codes reach beyond stays, one at or beyond their ends may go. */
static void conv_then_clamp(void **state) {
  (void)state;
  static const struct {
    const char *op, *inputs;
    double wanted[3];
  } cases[] = {{"Relu", "c", {0, 0, 20}}, {"Clip", "c low high", {-0.5, 0, 6}}, {"Identity", "c", {-1, 0, 20}}};
  for (int i = 0; i < 3; i++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 1, 1, 3));
    onnx_lab_pair(&o, "xd", "x", INTACT_S8, 0.25, 0);
    onnx_lab_number(&o, "s", INTACT_F32, 0.1);
    onnx_lab_number(&o, "low", INTACT_F32, -0.5);
    onnx_lab_number(&o, "high", INTACT_F32, 6);
    onnx_lab_initializer(&o, "w", INTACT_S8, ONNX_DIMS(1, 1, 1, 1), ONNX_VALUES(10));
    onnx_lab_node(&o, "wd", "DequantizeLinear", "w s", "");
    onnx_lab_node(&o, "c", "Conv", "xd wd", "");
    onnx_lab_node(&o, "r", cases[i].op, cases[i].inputs, "");
    onnx_lab_pair(&o, "y", "r", INTACT_S8, 0.25, 0);
    onnx_lab_output(&o, "y", INTACT_F32);
    int floats = expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, 1, 1, 3), ONNX_VALUES(-1, 0, 20)), NULL, cases[i].wanted, 1e-6);
    assert_int_equal(floats, 0);
  }
}

/* ---- the rest ---- */

/* q/dq -> an op -> q/dq of one input, all with the same qparams. */
static int expect_unary(const char *op, const char *inputs, const char *attributes, intact_dtype dtype, double scale, int zero,
                        intact_tensor *x, const double *wanted, double tolerance) {
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, x->rank, x->dims);
  onnx_lab_initializer(&o, "double_last", INTACT_F32, ONNX_DIMS(4), ONNX_VALUES(1, 1, 1, 2));
  onnx_lab_pair(&o, "xd", "x", dtype, scale, zero);
  onnx_lab_node(&o, "f", op, inputs, attributes);
  onnx_lab_pair(&o, "y", "f", dtype, scale, zero);
  onnx_lab_output(&o, "y", INTACT_F32);
  return expect(&o, x, NULL, wanted, tolerance);
}

/* P38, executorch 10961. */
static void relu_of_s8(void **state) {
  (void)state;
  intact_tensor *x = tensor_of(INTACT_F32, ONNX_DIMS(5), ONNX_VALUES(-128, -127, -126, -10, 5));
  int floats = expect_unary("Relu", "xd", "", INTACT_S8, 1, 0, x, ONNX_VALUES(0, 0, 0, 0, 5), 0);
  assert_int_equal(floats, 0);
}

/* P37, onnxruntime 29727: softmax with one dominant logit, scale 1/256 and zero point -128: its end is 127, not -128. */
static void dominant_softmax(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_S8, ONNX_DIMS(1, 4));
  onnx_lab_number(&o, "xs", INTACT_F32, 0.5), onnx_lab_number(&o, "xz", INTACT_S8, 0);
  onnx_lab_number(&o, "ys", INTACT_F32, 1.0 / 256), onnx_lab_number(&o, "yz", INTACT_S8, -128);
  onnx_lab_node(&o, "y", "com.microsoft.QLinearSoftmax", "x xs xz ys yz", "axis=-1 opset=13");
  onnx_lab_output(&o, "y", INTACT_S8);
  expect(&o, tensor_of(INTACT_S8, ONNX_DIMS(1, 4), ONNX_VALUES(127, -128, -128, -128)), NULL, ONNX_VALUES(127, -128, -128, -128), 0);
}

/* P44, TensorFlow 33588: the mean over the last axis; within a step of 8 / 255. */
static void mean_of_rows(void **state) {
  (void)state;
  intact_tensor *x = tensor_of(INTACT_F32, ONNX_DIMS(3, 3), ONNX_VALUES(7, 7, 3, 0, 2, 3, 6, 3, 8));
  expect_unary("ReduceMean", "xd", "axes=[-1] keepdims=0", INTACT_S8, 8.0 / 255, -128, x, ONNX_VALUES(5.667, 1.667, 5.667), 8.0 / 255);
}

/* P45, PyTorch 108924: means at a half go to the even number, of positive and negative codes. */
static void average_pool_ties(void **state) {
  (void)state;
  intact_tensor *x = tensor_of(INTACT_F32, ONNX_DIMS(1, 1, 1, 8), ONNX_VALUES(1, 2, 0, 1, 4, 7, -1, -2));
  int floats = expect_unary("AveragePool", "xd", "kernel_shape=[1,2] strides=[1,2]", INTACT_S8, 1, 0, x, ONNX_VALUES(2, 0, 6, -2), 0);
  assert_int_equal(floats, 0);
  x = tensor_of(INTACT_F32, ONNX_DIMS(1, 1, 1, 2), ONNX_VALUES(1, 2));
  expect_unary("GlobalAveragePool", "xd", "", INTACT_U8, 1, 3, x, ONNX_VALUES(2), 0); /* the zero point is added after rounding */
}

/* A number that padding fills in and that x's integers cannot say stays what it is; on the way to integers of the same kind
   it is clipped as quantize clips it. */
static void padded_numbers(void **state) {
  (void)state;
  static const struct {
    double fill, scale, wanted; /* scale of the output; 0: a float output */
  } cases[] = {{5, 0, 5}, {-1, 0, -1}, {1.25, 0, 1.25}, {1.234, 0, 1.234}, {5, 0.5, 5}, {5, 0.25, 5}, {0.3, 0.25, 0.25}, {-INFINITY, 0.25, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 2));
    onnx_lab_initializer(&o, "pads", INTACT_S64, ONNX_DIMS(4), ONNX_VALUES(0, 1, 0, 0));
    onnx_lab_number(&o, "fill", INTACT_F32, cases[i].fill);
    onnx_lab_pair(&o, "xd", "x", INTACT_U8, cases[i].scale == 0.25 ? 0.25 : 0.0078125, 0);
    onnx_lab_node(&o, cases[i].scale > 0 ? "f" : "y", "Pad", "xd pads fill", "");
    if (cases[i].scale > 0) onnx_lab_pair(&o, "y", "f", INTACT_U8, cases[i].scale, 0);
    onnx_lab_output(&o, "y", INTACT_F32);
    expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, 2), ONNX_VALUES(0.5, 1)), NULL, ONNX_VALUES((double)(float)cases[i].wanted, 0.5, 1), 0);
  }
}

/* Padding of integers: what it fills in is an integer too, 0 where nothing is said, whatever that means on their grid. */
static void padded_codes(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 2));
    onnx_lab_initializer(&o, "pads", INTACT_S64, ONNX_DIMS(4), ONNX_VALUES(0, 1, 0, 0));
    onnx_lab_number(&o, "s", INTACT_F32, 0.5), onnx_lab_number(&o, "z", INTACT_U8, 100), onnx_lab_number(&o, "fill", INTACT_U8, 103);
    onnx_lab_node(&o, "q", "QuantizeLinear", "x s z", "");
    onnx_lab_node(&o, "f", "Pad", given ? "q pads fill" : "q pads", "");
    onnx_lab_node(&o, "y", "DequantizeLinear", "f s z", "");
    onnx_lab_output(&o, "y", INTACT_F32);
    expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, 2), ONNX_VALUES(0.5, 1)), NULL, ONNX_VALUES(given ? 1.5 : -50, 0.5, 1), 0);
  }
}

/* Integers joined with plain integers stay the integers that they are. */
static void joined_codes(void **state) {
  (void)state;
  static const char *const ops[] = {"Concat", "Max", "Concat", "Concat"}, *const inputs[] = {"q more", "q more", "more q", "q other"};
  static const double wanted[][4] = {{0.5, 1, 1.5}, {1.5, 1.5}, {1.5, 0.5, 1}, {0.5, 1, 1, 2}};
  for (int i = 0; i < 4; i++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 2));
    onnx_lab_number(&o, "s", INTACT_F32, 0.5), onnx_lab_number(&o, "z", INTACT_U8, 100);
    onnx_lab_initializer(&o, "more", INTACT_U8, ONNX_DIMS(1, 1), ONNX_VALUES(103));
    onnx_lab_node(&o, "q", "QuantizeLinear", "x s z", "");
    onnx_lab_number(&o, "s2", INTACT_F32, 0.25);
    onnx_lab_node(&o, "other", "QuantizeLinear", "x s2 z", "");
    onnx_lab_node(&o, "f", ops[i], inputs[i], i == 1 ? "" : "axis=1");
    onnx_lab_node(&o, "y", "DequantizeLinear", "f s z", "");
    onnx_lab_output(&o, "y", INTACT_F32);
    expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, 2), ONNX_VALUES(0.5, 1)), NULL, wanted[i], 0);
  }
}

/* P56, onnxruntime 28448: linear resizing of [2, 7, 4] rounds 3.25, 5.75, 6.25 and 4.75. */
static void linear_resize(void **state) {
  (void)state;
  intact_tensor *x = tensor_of(INTACT_F32, ONNX_DIMS(1, 1, 1, 3), ONNX_VALUES(2, 7, 4));
  expect_unary("Resize", "xd _ double_last", "mode=linear coordinate_transformation_mode=half_pixel", INTACT_U8, 1, 0, x,
               ONNX_VALUES(2, 3, 6, 6, 5, 4), 0);
}

/* P43, onnxruntime 29853: 4-bit blocks of 32 with zero points, 1 x 256 times 256 x 96. */
static void four_bit_blocks(void **state) {
  (void)state;
  enum { K = 256, N = 96, BLOCK = 32, BLOCKS = K / BLOCK };
  static double x[K], packed[N * K / 2], scale[N * BLOCKS], zero[N * BLOCKS / 2], wanted[N];
  uint64_t random = test_random_start();
  for (int i = 0; i < K; i++) x[i] = (double)(float)test_uniform(&random, -1, 1);
  fill(packed, N * K / 2, 0, 255, &random), fill(zero, N * BLOCKS / 2, 0, 255, &random);
  for (int i = 0; i < N * BLOCKS; i++) scale[i] = (double)(float)test_uniform(&random, 0.01f, 0.1f);
  for (int n = 0; n < N; n++) {
    wanted[n] = 0;
    for (int k = 0; k < K; k++) {
      int code = (int)packed[(n * K + k) / 2] >> (k % 2 * 4) & 15, block = n * BLOCKS + k / BLOCK;
      int z = (int)zero[block / 2] >> (block % 2 * 4) & 15;
      wanted[n] += x[k] * (code - z) * scale[block];
    }
  }
  onnx_lab o;
  onnx_lab_open(&o, context, 21);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, K));
  onnx_lab_initializer(&o, "w", INTACT_U8, ONNX_DIMS(N, BLOCKS, BLOCK / 2), packed);
  onnx_lab_initializer(&o, "s", INTACT_F32, ONNX_DIMS(N * BLOCKS), scale);
  onnx_lab_initializer(&o, "z", INTACT_U8, ONNX_DIMS(N * BLOCKS / 2), zero);
  onnx_lab_node(&o, "y", "com.microsoft.MatMulNBits", "x w s z", "K=256 N=96 bits=4 block_size=32");
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(1, K), x), NULL, wanted, 1e-4);
}

/* P72, onnxsim 749: 4-bit weights [K, N] in blocks along K (axis 0) of a plain MatMul. */
static void four_bit_axis_0(void **state) {
  (void)state;
  enum { K = 64, N = 24, BLOCK = 16, BLOCKS = K / BLOCK };
  static double x[3 * K], w[K * N], scale[BLOCKS * N], wanted[3 * N];
  uint64_t random = test_random_start();
  for (int i = 0; i < 3 * K; i++) x[i] = (double)(float)test_uniform(&random, -1, 1);
  fill(w, K * N, -8, 7, &random);
  for (int i = 0; i < BLOCKS * N; i++) scale[i] = (double)(float)test_uniform(&random, 0.01f, 0.1f);
  for (int i = 0; i < 3 * N; i++) {
    wanted[i] = 0;
    for (int k = 0; k < K; k++) wanted[i] += x[i / N * K + k] * w[k * N + i % N] * scale[k / BLOCK * N + i % N];
  }
  onnx_lab o;
  onnx_lab_open(&o, context, 21);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(3, K));
  onnx_lab_initializer(&o, "w", INTACT_S4, ONNX_DIMS(K, N), w);
  onnx_lab_initializer(&o, "s", INTACT_F32, ONNX_DIMS(BLOCKS, N), scale);
  onnx_lab_node(&o, "wd", "DequantizeLinear", "w s", "axis=0 block_size=16");
  onnx_lab_node(&o, "y", "MatMul", "x wd", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  expect(&o, tensor_of(INTACT_F32, ONNX_DIMS(3, K), x), NULL, wanted, 1e-4);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dynamic_quantize), cmocka_unit_test(half_inputs),
      cmocka_unit_test(dequantize_one_scale), cmocka_unit_test(reshaped_constant),
      cmocka_unit_test(matmul_integer), cmocka_unit_test(matmul_saturates),
      cmocka_unit_test(add_near_a_tie), cmocka_unit_test(add_on_ties),
      cmocka_unit_test(map_on_ties), cmocka_unit_test(conv_sums),
      cmocka_unit_test(conv_shapes), cmocka_unit_test(uneven_padding),
      cmocka_unit_test(conv_bias), cmocka_unit_test(conv_then_clamp),
      cmocka_unit_test(relu_of_s8), cmocka_unit_test(dominant_softmax),
      cmocka_unit_test(mean_of_rows), cmocka_unit_test(average_pool_ties),
      cmocka_unit_test(linear_resize), cmocka_unit_test(padded_numbers),
      cmocka_unit_test(padded_codes), cmocka_unit_test(joined_codes),
      cmocka_unit_test(four_bit_blocks), cmocka_unit_test(four_bit_axis_0),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
