/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of elementary functions: y = f(x) per element. */
#include "ops/elementwise.h"

/* INTACT_ELEMENTWISE takes further fields; these have none beyond the loops. */
#define SIMPLE(op, text, formula, gradient, ...) \
  INTACT_FLOAT_LOOPS(1, op, formula)             \
  INTACT_GRAD_1(op, gradient)                    \
  INTACT_UNARY(op, text, __VA_ARGS__)

SIMPLE(acos, "y = arc cosine of x.", acos(v), -d / sqrt(1 - v * v), INTACT_ATEN("acos"), INTACT_ONNX("Acos"),
       INTACT_OPENVINO("Acos"))
SIMPLE(acosh, "y = area hyperbolic cosine of x.", acosh(v), d / sqrt(v * v - 1), INTACT_ATEN("acosh"), INTACT_ONNX("Acosh"),
       INTACT_OPENVINO("Acosh"))
SIMPLE(asin, "y = arc sine of x.", asin(v), d / sqrt(1 - v * v), INTACT_ATEN("asin"), INTACT_ONNX("Asin"),
       INTACT_OPENVINO("Asin"))
SIMPLE(asinh, "y = area hyperbolic sine of x.", asinh(v), d / sqrt(v * v + 1), INTACT_ATEN("asinh"), INTACT_ONNX("Asinh"),
       INTACT_OPENVINO("Asinh"))
SIMPLE(atan, "y = arc tangent of x.", atan(v), d / (v * v + 1), INTACT_ATEN("atan"), INTACT_ONNX("Atan"),
       INTACT_OPENVINO("Atan"))
SIMPLE(atanh, "y = area hyperbolic tangent of x.", atanh(v), d / (1 - v * v), INTACT_ATEN("atanh"), INTACT_ONNX("Atanh"),
       INTACT_OPENVINO("Atanh"))
SIMPLE(cos, "y = cosine of x.", cos(v), -d *sin(v), INTACT_ATEN("cos"), INTACT_ONNX("Cos"), INTACT_OPENVINO("Cos"))
SIMPLE(cosh, "y = hyperbolic cosine of x.", cosh(v), d *sinh(v), INTACT_ATEN("cosh"), INTACT_ONNX("Cosh"),
       INTACT_OPENVINO("Cosh"))
SIMPLE(erf, "y = error function of x.", erf(v), d *(T)1.1283791670955126 * exp(-v * v), INTACT_ATEN("erf"),
       INTACT_ONNX("Erf"), INTACT_OPENVINO("Erf"))
SIMPLE(exp, "y = e to the power of x.", exp(v), d *r, INTACT_ATEN("exp"), INTACT_ONNX("Exp"), INTACT_OPENVINO("Exp"))
SIMPLE(expm1, "y = e to the power of x, minus 1.", expm1(v), d *(r + 1), INTACT_ATEN("expm1"))
SIMPLE(log, "y = natural logarithm of x.", log(v), d / v, INTACT_ATEN("log"), INTACT_ONNX("Log"), INTACT_OPENVINO("Log"))
SIMPLE(log10, "y = logarithm of x to base 10.", log10(v), d / (v * (T)2.302585092994046), INTACT_ATEN("log10"))
SIMPLE(log1p, "y = natural logarithm of 1 + x.", log1p(v), d / (v + 1), INTACT_ATEN("log1p"))
SIMPLE(log2, "y = logarithm of x to base 2.", log2(v), d / (v * (T)0.6931471805599453), INTACT_ATEN("log2"))
SIMPLE(reciprocal, "y = 1 / x.", 1 / v, -d *(r * r), INTACT_ATEN("reciprocal"), INTACT_ONNX("Reciprocal"))
SIMPLE(rsqrt, "y = 1 / square root of x.", 1 / sqrt(v), (T)-0.5 * d * r * r * r, INTACT_ATEN("rsqrt"))
SIMPLE(sin, "y = sine of x.", sin(v), d *cos(v), INTACT_ATEN("sin"), INTACT_ONNX("Sin"), INTACT_OPENVINO("Sin"))
SIMPLE(sinh, "y = hyperbolic sine of x.", sinh(v), d *cosh(v), INTACT_ATEN("sinh"), INTACT_ONNX("Sinh"),
       INTACT_OPENVINO("Sinh"))
SIMPLE(sqrt, "y = square root of x.", sqrt(v), d / (2 * r), INTACT_ATEN("sqrt"), INTACT_ONNX("Sqrt"),
       INTACT_OPENVINO("Sqrt"))
SIMPLE(tan, "y = tangent of x.", tan(v), d *(1 + r * r), INTACT_ATEN("tan"), INTACT_ONNX("Tan"), INTACT_OPENVINO("Tan"))

/* ---- those that keep integers ---- */
#define WITH_INTEGERS(op, text, formula, integer, gradient, ...) \
  INTACT_FLOAT_LOOPS(1, op, formula)                             \
  INTACT_INT_LOOP(1, op, integer)                                \
  INTACT_GRAD_1(op, gradient)                                    \
  INTACT_ELEMENTWISE_WITH_GRAD(op, 1, .s64 = op##_s64)           \
  INTACT_UNARY_ROW(op, text, op##_grad, __VA_ARGS__)

WITH_INTEGERS(abs, "y = |x|; gradient 0 at 0.", fabs(v),
              v<0 ? (T)(0 - (uint64_t)v) : v, v> 0 ? d
              : v < 0 ? -d
                      : 0 * d,
              INTACT_ATEN("abs"), INTACT_ONNX("Abs"), INTACT_OPENVINO("Abs"))
WITH_INTEGERS(neg, "y = -x.", -v, (T)(0 - (uint64_t)v), -d, INTACT_ATEN("neg"), INTACT_ONNX("Neg"),
              INTACT_OPENVINO("Negative"))
WITH_INTEGERS(square, "y = x * x.", v *v, (T)((uint64_t)v *(uint64_t)v), d *(2 * v), INTACT_ATEN("square"))
WITH_INTEGERS(ceil, "y = the smallest integer not below x; gradient 0.", ceil(v), v, 0, INTACT_ATEN("ceil"),
              INTACT_ONNX("Ceil"), INTACT_OPENVINO("Ceiling"))
WITH_INTEGERS(floor, "y = the largest integer not above x; gradient 0.", floor(v), v, 0, INTACT_ATEN("floor"),
              INTACT_ONNX("Floor"), INTACT_OPENVINO("Floor"))
WITH_INTEGERS(round, "y = x rounded to the nearest integer, half to even; gradient 0.", nearbyint(v), v, 0,
              INTACT_ATEN("round"), INTACT_ONNX("Round"), INTACT_OPENVINO_AS("Round", "mode=", "round_mode"))
WITH_INTEGERS(sign, "y = -1, 0 or 1, the sign of x; 0 for NaN; gradient 0.",
              (v > 0) - (v < 0),
              (v > 0) - (v < 0), 0, INTACT_ATEN("sign"), INTACT_ATEN("sgn"), INTACT_ONNX("Sign"), INTACT_OPENVINO("Sign"))
WITH_INTEGERS(trunc, "y = x without its fraction; gradient 0.", trunc(v), v, 0, INTACT_ATEN("trunc"), INTACT_ATEN("fix"))

/* ---- tests of a number ---- */
#define NUMBER_TEST(op, text, formula, integer, ...)                                              \
  INTACT_BOOL_LOOPS(1, op, formula)                                                               \
  INTACT_INT_BOOL_LOOP(1, op, integer)                                                            \
  INTACT_ELEMENTWISE(op, 1, .s64 = op##_s64, .to_bool = true)                                     \
  const intact_op intact_op_##op = {.name = #op,                                                  \
                                    .doc = text,                                                  \
                                    .schema = {INTACT_X},                                         \
                                    .infer = op##_infer,                                          \
                                    .eval_f32 = op##_eval,                                        \
                                    .grad = intact__grad_none,                                    \
                                    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true}, \
                                    .int_layout = INTACT_INT_ANY,                                 \
                                    .aliases = INTACT_ALIASES(__VA_ARGS__)};

NUMBER_TEST(isinf, "y = whether x is infinite.", v == (T)INFINITY || v == -(T)INFINITY, 0 * v, INTACT_ATEN("isinf"),
            INTACT_ONNX_AS("IsInf", "detect_negative=,detect_positive=", "is_inf"))
NUMBER_TEST(isnan, "y = whether x is not a number.", v != v, 0 * v, INTACT_ATEN("isnan"), INTACT_ONNX("IsNaN"))
NUMBER_TEST(logical_not, "y = not x.", v == 0, v == 0, INTACT_ATEN("logical_not"), INTACT_ONNX("Not"),
            INTACT_OPENVINO("LogicalNot"))
