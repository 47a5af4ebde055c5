/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that cut a range: relu, relu6, hardtanh, clamp. A quantizer can move them into the range of what they follow. */
#include "ops/elementwise.h"

#define CLAMP_ROW(op, text, attributes, ...)                                                                         \
  const intact_op intact_op_##op = {                                                                                 \
      .name = #op,                                                                                                   \
      .doc = text,                                                                                                   \
      .schema = {INTACT_X attributes},                                                                               \
      .infer = op##_infer,                                                                                           \
      .eval_f32 = op##_eval,                                                                                         \
      .grad = op##_grad,                                                                                             \
      .quant = {.result = INTACT_RESULT_SAME_AS, .is_clamp = true, .clamp_range = op##_range, .is_unary_map = true}, \
      .int_layout = INTACT_INT_ANY,                                                                                  \
      .check_int = intact__check_unary,                                                                              \
      .lower_int = intact__lower_unary,                                                                              \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                        \
  };
#define NOTHING
#define ATTRIBUTES(...) , INTACT_ATTRS(__VA_ARGS__)

/* NaN stays NaN; the upper bound wins when the bounds are crossed. */
#define CUT(x, low, high) ((x) < (low) ? ((low) > (high) ? (high) : (low)) : (x) > (high) ? (high) : (x))

INTACT_FLOAT_LOOPS(1, relu, v < 0 ? 0 : v)
INTACT_INT_LOOP(1, relu, v < 0 ? 0 : v)
INTACT_GRAD_1(relu, r <= 0 ? 0 : d)
INTACT_ELEMENTWISE_WITH_GRAD(relu, 1, .s64 = relu_s64)
static void relu_range(const intact_node *node, double *low, double *high) {
  (void)node;
  *low = 0;
  *high = (double)INFINITY;
}
CLAMP_ROW(relu, "y = max(x, 0); gradient 0 at 0.", NOTHING, INTACT_ATEN("relu"), INTACT_ATEN("relu_"), INTACT_ONNX("Relu"),
          INTACT_OPENVINO("ReLU"))

INTACT_FLOAT_LOOPS(1, relu6, CUT(v, 0, 6))
INTACT_INT_LOOP(1, relu6, CUT(v, 0, 6))
INTACT_GRAD_1(relu6, v <= 0 || v >= 6 ? 0 : d)
INTACT_ELEMENTWISE_WITH_GRAD(relu6, 1, .s64 = relu6_s64)
static void relu6_range(const intact_node *node, double *low, double *high) {
  (void)node;
  *low = 0;
  *high = 6;
}
CLAMP_ROW(relu6, "y = min(max(x, 0), 6); gradient 0 at the bounds.", NOTHING, INTACT_QUANTIZED("quantized::relu6", NULL),
          INTACT_ATEN("relu6"), INTACT_ATEN("relu6_"))

INTACT_FLOAT_LOOPS(1, hardtanh, CUT(v, P(0), P(1)))
INTACT_GRAD_1(hardtanh, v <= P(0) || v >= P(1) ? 0 : d)
INTACT_ELEMENTWISE_WITH_GRAD(hardtanh, 1)
static void hardtanh_range(const intact_node *node, double *low, double *high) {
  *low = (double)(float)intact__attr_float(node, "min_val");
  *high = (double)(float)intact__attr_float(node, "max_val");
}
CLAMP_ROW(hardtanh, "y = min(max(x, min_val), max_val); gradient 0 at the bounds.",
          ATTRIBUTES(INTACT_A_FLOAT("min_val", -1.0), INTACT_A_FLOAT("max_val", 1.0)), INTACT_ATEN("hardtanh"),
          INTACT_ATEN("hardtanh_"))

/* An absent bound is NAN, against which every comparison is false. */
INTACT_FLOAT_LOOPS(1, clamp, CUT(v, P(0), P(1)))
INTACT_LOOP_1(, clamp_wide, int64_t, int64_t,
              (double)v<p[0] ? (p[0] > p[1] ? (T)p[1] : (T)p[0]) : (double)v> p[1] ? (T)p[1] : v)
INTACT_GRAD_1(clamp, v != v || v < P(0) || v > P(1) ? 0 : d)
/* Bounds beyond what int64_t holds cut nothing. */
static void clamp_s64(void *y, const void *const *x, const int64_t *step, int64_t n, const double *p) {
  double bounds[2];
  for (int k = 0; k < 2; k++) bounds[k] = fabs(p[k]) < 9.2e18 ? p[k] : NAN;
  clamp_wide(y, x, step, n, bounds);
}
INTACT_ELEMENTWISE_WITH_GRAD(clamp, 1, .s64 = clamp_s64)
static void clamp_range(const intact_node *node, double *low, double *high) {
  const intact_attr *min = intact__attr(node, "min"), *max = intact__attr(node, "max");
  *low = min->present ? (double)(float)min->f : -(double)INFINITY;
  *high = max->present ? (double)(float)max->f : (double)INFINITY;
}
CLAMP_ROW(clamp, "y = min(max(x, min), max), absent bounds open; gradient passes at the bounds.",
          ATTRIBUTES(INTACT_A_FLOAT_OR_NONE("min"), INTACT_A_FLOAT_OR_NONE("max")), INTACT_QUANTIZED("quantized::clamp", NULL), INTACT_ATEN("clamp"),
          INTACT_ATEN("clamp_"), INTACT_ATEN_AS("clamp_min", "min=min", NULL), INTACT_ATEN_AS("clamp_max", "max=max", NULL),
          /* clip_bounds: constant bounds of operands 1, 2 become min, max; others become maximum and minimum nodes */
          INTACT_ONNX_AS("Clip", "min=min,max=max", "clip_bounds"), INTACT_OPENVINO_AS("Clamp", "min=min,max=max", NULL))
