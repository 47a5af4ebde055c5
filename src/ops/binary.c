/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of arithmetic on two broadcast operands; the second may be the scalar attribute `other` instead. */
#include <string.h>

#include "ops/elementwise.h"

#define OTHER INTACT_A_FLOAT_OR_NONE("other")
#define TWO(second) \
  INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {second, INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL}), INTACT_RESULTS("y")

/* traits and attributes stand in parentheses; the rest are aliases. */
#define BINARY_ROW(op, text, attributes, gradient, traits, ...) \
  const intact_op intact_op_##op = {                            \
      .name = #op,                                              \
      .doc = text,                                              \
      .schema = {TWO("b"), INTACT_ATTRS attributes},            \
      .infer = op##_infer,                                      \
      .eval_f32 = op##_eval,                                    \
      .grad = gradient,                                         \
      .quant = traits,                                          \
      .int_layout = INTACT_INT_ANY,                             \
      .check_int = intact__check_binary,                        \
      .lower_int = intact__lower_binary,                        \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                   \
  };
#define OWN_RANGE \
  { .result = INTACT_RESULT_OWN }
#define FUSES_CLAMP \
  { .may_fuse_clamp = true }
#define SHARED_RANGE \
  { .result = INTACT_RESULT_SAME_AS, .share_operands = true }

/* ---- sums and products; integers wrap ---- */

#define WRAP(a, sign, b) ((T)((uint64_t)(a)sign(uint64_t)(b)))

INTACT_FLOAT_LOOPS(2, add, v + P(1) * w)
INTACT_INT_LOOP(2, add, WRAP(v, +, WRAP(w, *, WHOLE(1))))
INTACT_GRAD_2(add, d, d *P(1))
INTACT_ELEMENTWISE_WITH_GRAD(add, 2, .s64 = add_s64, .scalar = "other")
/* Where nothing is broadcast or scaled the gradient of y is that of the operands too. */
static intact_status add_sharing(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  bool shares = dy != NULL && dy->dtype == INTACT_F32 && grad->n_operands == 2 && intact__attr_float(grad->node, "alpha") == 1;
  for (int k = 0; shares && k < 2; k++) {
    const intact_tensor *x = grad->operands[k];
    shares = x != NULL && intact__shape_equal(x->rank, x->dims, dy->rank, dy->dims);
  }
  if (!shares) return add_grad(grad);
  for (int k = 0; k < 2; k++)
    if (grad->needed[k]) INTACT_TRY(intact_tensor_share(dy, 0, NULL, &grad->d_operands[k]));
  return INTACT_OK;
}
BINARY_ROW(add, "y = a + alpha * b.", (OTHER, INTACT_A_FLOAT("alpha", 1.0)), add_sharing, FUSES_CLAMP, INTACT_ATEN("add"),
           INTACT_ATEN("add.Tensor"), INTACT_ATEN("add.Scalar"), INTACT_ATEN("add_"), INTACT_ATEN("add_.Tensor"),
           /* scalar_operand: on export attribute other becomes a constant operand */
           INTACT_ONNX_AS("Add", "", "scalar_operand"),
           /* fold_operands: any number of operands becomes a chain of nodes with two */
           INTACT_ONNX_AS("Sum", "", "fold_operands"), INTACT_OPENVINO_AS("Add", "auto_broadcast=", "scalar_operand"))

INTACT_FLOAT_LOOPS(2, sub, v - P(1) * w)
INTACT_INT_LOOP(2, sub, WRAP(v, -, WRAP(w, *, WHOLE(1))))
INTACT_GRAD_2(sub, d, -d *P(1))
INTACT_ELEMENTWISE_WITH_GRAD(sub, 2, .s64 = sub_s64, .scalar = "other")
BINARY_ROW(sub, "y = a - alpha * b.", (OTHER, INTACT_A_FLOAT("alpha", 1.0)), sub_grad, FUSES_CLAMP, INTACT_ATEN("sub"),
           INTACT_ATEN("sub.Tensor"), INTACT_ATEN("sub.Scalar"), INTACT_ATEN("sub_"), INTACT_ATEN("sub_.Tensor"),
           INTACT_ONNX_AS("Sub", "", "scalar_operand"), INTACT_OPENVINO_AS("Subtract", "auto_broadcast=", "scalar_operand"))

INTACT_FLOAT_LOOPS(2, rsub, w - P(1) * v)
INTACT_INT_LOOP(2, rsub, WRAP(w, -, WRAP(v, *, WHOLE(1))))
INTACT_GRAD_2(rsub, -d *P(1), d)
INTACT_ELEMENTWISE_WITH_GRAD(rsub, 2, .s64 = rsub_s64, .scalar = "other")
BINARY_ROW(rsub, "y = b - alpha * a.", (OTHER, INTACT_A_FLOAT("alpha", 1.0)), rsub_grad, FUSES_CLAMP, INTACT_ATEN("rsub"),
           INTACT_ATEN("rsub.Tensor"), INTACT_ATEN("rsub.Scalar"))

INTACT_FLOAT_LOOPS(2, mul, v *w)
INTACT_INT_LOOP(2, mul, WRAP(v, *, w))
INTACT_GRAD_2(mul, d *w, d *v)
INTACT_ELEMENTWISE_WITH_GRAD(mul, 2, .s64 = mul_s64, .scalar = "other")
BINARY_ROW(mul, "y = a * b.", (OTHER), mul_grad, FUSES_CLAMP, INTACT_ATEN("mul"), INTACT_ATEN("mul.Tensor"),
           INTACT_ATEN("mul.Scalar"), INTACT_ATEN("mul_"), INTACT_ATEN("mul_.Tensor"),
           INTACT_ONNX_AS("Mul", "", "scalar_operand"), INTACT_OPENVINO_AS("Multiply", "auto_broadcast=", "scalar_operand"))

/* ---- division: by zero gives 0 for integers ---- */

/* Quotient cut towards zero; the one overflow wraps. */
static inline int64_t quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return quotient(a, b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* PyTorch's floor division: exact where a / b rounds across an integer. */
#define FLOOR_DIVIDE(T, name, fmod_, floor_, copysign_)      \
  static inline T name(T a, T b) {                           \
    if (b == 0) return a / b;                                \
    T rest = fmod_(a, b), whole = (a - rest) / b;            \
    if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;      \
    if (whole == 0) return copysign_(0, a / b);              \
    T floored = floor_(whole);                               \
    return whole - floored > (T)0.5 ? floored + 1 : floored; \
  }
FLOOR_DIVIDE(float, floor_divide_real_f, fmodf, floorf, copysignf)
FLOOR_DIVIDE(double, floor_divide_real, fmod, floor, copysign)
#define FLOOR_QUOTIENT(a, b)                                                   \
  (sizeof(T) == sizeof(float) ? (T)floor_divide_real_f((float)(a), (float)(b)) \
                              : (T)floor_divide_real((double)(a), (double)(b)))

INTACT_FLOAT_LOOPS(2, div, v / w)
INTACT_FLOAT_LOOPS(2, div_trunc, trunc(v / w))
INTACT_INT_LOOP(2, div_trunc, quotient(v, w))
INTACT_FLOAT_LOOPS(2, floor_divide, FLOOR_QUOTIENT(v, w))
INTACT_INT_LOOP(2, floor_divide, floor_quotient(v, w))
INTACT_GRAD_2(div, d / w, -d *((v / w) / w))
INTACT_GRAD_2(div_trunc, 0, 0)
/* forms of div: true, trunc, floor */
static const intact_elementwise div_forms[] = {
    {.n = 2, .f32 = div_f32, .f64 = div_f64, .grad = div_d, .scalar = "other"},
    {.n = 2, .f32 = div_trunc_f32, .f64 = div_trunc_f64, .s64 = div_trunc_s64, .grad = div_trunc_d, .scalar = "other"},
    {.n = 2,
     .f32 = floor_divide_f32,
     .f64 = floor_divide_f64,
     .s64 = floor_divide_s64,
     .grad = div_trunc_d,
     .scalar = "other"},
};

static const intact_elementwise *div_form(const intact_node *node) {
  const intact_attr *mode = intact__attr(node, "rounding_mode");
  if (!mode->present || mode->s == NULL || mode->s[0] == 0) return &div_forms[0];
  if (strcmp(mode->s, "trunc") == 0) return &div_forms[1];
  return strcmp(mode->s, "floor") == 0 ? &div_forms[2] : NULL;
}

static intact_status div_infer(intact_infer *infer) {
  const intact_elementwise *form = div_form(infer->node);
  if (form == NULL) {
    INTACT_FAIL(infer->context, INVALID_VALUE, infer->node->name,
                "div '%s': rounding_mode is '%s'; it must be trunc, floor or "
                "absent",
                infer->node->name, intact__attr_string(infer->node, "rounding_mode"));
  }
  return intact__elementwise_infer(infer, form);
}
static intact_status div_eval(const intact_call *call) {
  return intact__elementwise_eval(call, div_form(call->node));
}
static intact_status div_grad(intact_grad *grad) {
  return intact__elementwise_grad(grad, div_form(grad->node));
}

BINARY_ROW(div, "y = a / b, cut (rounding_mode trunc) or floored (floor) if asked for.",
           (OTHER, {.name = "rounding_mode", .type = INTACT_ATTR_STRING, .nullable = true}), div_grad, OWN_RANGE,
           INTACT_ATEN("div"), INTACT_ATEN("div.Tensor"), INTACT_ATEN("div.Scalar"), INTACT_ATEN("div.Tensor_mode"),
           INTACT_ATEN("div.Scalar_mode"), INTACT_ATEN("div_"), INTACT_ATEN("div_.Tensor"), INTACT_ATEN("true_divide"),
           /* integer_division: on integers rounding_mode is trunc; and as scalar_operand */
           INTACT_ONNX_AS("Div", "", "integer_division"),
           /* quotients in the end: the sum of the operands over their number, x over its neighbours' or its own spread */
           INTACT_ONNX_AS("Mean", "", "mean_of_operands"), INTACT_ONNX_AS("LRN", "", "local_response_norm"),
           INTACT_ONNX_AS("MeanVarianceNormalization", "", "mean_variance_norm"),
           INTACT_OPENVINO_AS("Divide", "auto_broadcast=,m_pythondiv=", "integer_division"))

INTACT_ELEMENTWISE(floor_divide, 2, .s64 = floor_divide_s64, .scalar = "other")
BINARY_ROW(floor_divide, "y = floor(a / b).", (OTHER), intact__grad_none, OWN_RANGE, INTACT_ATEN("floor_divide"),
           INTACT_ATEN("floor_divide.Scalar"))

/* Remainder with the divisor's sign. */
#define REMAINDER(a, b) (fmod(a, b) != 0 && ((b) < 0) != (fmod(a, b) < 0) ? fmod(a, b) + (b) : fmod(a, b))
INTACT_FLOAT_LOOPS(2, remainder, REMAINDER(v, w))
INTACT_INT_LOOP(2, remainder, WRAP(v, -, WRAP(floor_quotient(v, w), *, w)))
INTACT_GRAD_2(remainder, d, -d *floor_divide_real_f(v, w))
INTACT_ELEMENTWISE_WITH_GRAD(remainder, 2, .s64 = remainder_s64, .scalar = "other")
BINARY_ROW(remainder, "y = a - b * floor(a / b): the remainder with the sign of b.", (OTHER), remainder_grad, OWN_RANGE,
           INTACT_ATEN("remainder"), INTACT_ATEN("remainder.Tensor"), INTACT_ATEN("remainder.Scalar"),
           /* mod_kind: fmod = 1 makes it the row fmod */
           INTACT_ONNX_AS("Mod", "fmod=", "mod_kind"), INTACT_OPENVINO_AS("FloorMod", "auto_broadcast=", "scalar_operand"))

INTACT_FLOAT_LOOPS(2, fmod, fmod(v, w))
INTACT_INT_LOOP(2, fmod, WRAP(v, -, WRAP(quotient(v, w), *, w)))
INTACT_GRAD_2(fmod, d, -d *trunc(v / w))
INTACT_ELEMENTWISE_WITH_GRAD(fmod, 2, .s64 = fmod_s64, .scalar = "other")
BINARY_ROW(fmod, "y = a - b * trunc(a / b): the remainder with the sign of a.", (OTHER), fmod_grad, OWN_RANGE,
           INTACT_ATEN("fmod"), INTACT_ATEN("fmod.Tensor"), INTACT_ATEN("fmod.Scalar"),
           INTACT_OPENVINO_AS("Mod", "auto_broadcast=", "scalar_operand"))

/* ---- choices: NaN wins; a tie splits the gradient in two ---- */

INTACT_FLOAT_LOOPS(2, maximum, v != v ? v : w != w ? w : v < w ? w : v)
INTACT_INT_LOOP(2, maximum, v < w ? w : v)
INTACT_GRAD_2(maximum, v == w ? d / 2 : v < w ? 0 : d, v == w ? d / 2 : v > w ? 0 : d)
INTACT_ELEMENTWISE_WITH_GRAD(maximum, 2, .s64 = maximum_s64, .scalar = "other")
BINARY_ROW(maximum, "y = the larger of a and b.", (OTHER), maximum_grad, SHARED_RANGE, INTACT_ATEN("maximum"),
           INTACT_ATEN("max.other"), INTACT_ONNX_AS("Max", "", "fold_operands"),
           INTACT_OPENVINO_AS("Maximum", "auto_broadcast=", "scalar_operand"))

INTACT_FLOAT_LOOPS(2, minimum, v != v ? v : w != w ? w : v > w ? w : v)
INTACT_INT_LOOP(2, minimum, v > w ? w : v)
INTACT_GRAD_2(minimum, v == w ? d / 2 : v > w ? 0 : d, v == w ? d / 2 : v < w ? 0 : d)
INTACT_ELEMENTWISE_WITH_GRAD(minimum, 2, .s64 = minimum_s64, .scalar = "other")
BINARY_ROW(minimum, "y = the smaller of a and b.", (OTHER), minimum_grad, SHARED_RANGE, INTACT_ATEN("minimum"),
           INTACT_ATEN("min.other"), INTACT_ONNX_AS("Min", "", "fold_operands"),
           INTACT_OPENVINO_AS("Minimum", "auto_broadcast=", "scalar_operand"))

/* ---- powers and angles ---- */

/* Integer power; negative exponents give 0 but for bases 1 and -1. */
static int64_t integer_power(int64_t base, int64_t exponent) {
  uint64_t result = 1, factor = (uint64_t)base;
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return (int64_t)result;
}

/* PyTorch's way of the common exponents; of the two roots where the exponent is the attribute. */
#define RAISED(v, w)                                \
  ((w) == 2                             ? (v) * (v) \
   : (w) == (T)0.5 && p[0] == p[0]      ? sqrt(v)   \
   : (w) == (T)-0.5 && p[0] == p[0]     ? 1 / sqrt(v) \
                                        : pow(v, w))
INTACT_FLOAT_LOOPS(2, pow, RAISED(v, w))
INTACT_INT_LOOP(2, pow, integer_power(v, w))
INTACT_GRAD_2(pow, w == 0 ? 0 : d * (w * RAISED(v, w - 1)), v == 0 && w >= 0 ? 0 : d * (r * log(v)))
INTACT_ELEMENTWISE_WITH_GRAD(pow, 2, .s64 = pow_s64, .scalar = "exponent")
const intact_op intact_op_pow = {
    .name = "pow",
    .doc = "y = a to the power of b (or of the scalar exponent).",
    .schema = {TWO("b"), INTACT_ATTRS(INTACT_A_FLOAT_OR_NONE("exponent"))},
    .infer = pow_infer,
    .eval_f32 = pow_eval,
    .grad = pow_grad,
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_binary,
    .lower_int = intact__lower_binary,
    .aliases = INTACT_ALIASES(
        INTACT_ATEN("pow"), INTACT_ATEN("pow.Tensor_Tensor"), INTACT_ATEN("pow.Tensor_Scalar"),
        /* typed_exponent: the exponent may have another type than the base; the result has the base's */
        INTACT_ONNX_AS("Pow", "", "typed_exponent"), INTACT_OPENVINO_AS("Power", "auto_broadcast=", "scalar_operand")),
};

INTACT_FLOAT_LOOPS(2, atan2, atan2(v, w))
INTACT_GRAD_2(atan2, v * v + w * w == 0 ? 0 : d * (w / (v * v + w * w)), v * v + w * w == 0 ? 0 : d * (-v / (v * v + w * w)))
INTACT_ELEMENTWISE_WITH_GRAD(atan2, 2)
const intact_op intact_op_atan2 = {
    .name = "atan2",
    .doc = "y = the angle of the point (b, a).",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")},
    .infer = atan2_infer,
    .eval_f32 = atan2_eval,
    .grad = atan2_grad,
    .int_layout = INTACT_INT_ANY,
    .aliases = INTACT_ALIASES(INTACT_ATEN("atan2")),
};

INTACT_FLOAT_LOOPS(2, squared_difference, (v - w) * (v - w))
INTACT_GRAD_2(squared_difference, 2 * d * (v - w), -2 * d * (v - w))
INTACT_ELEMENTWISE_WITH_GRAD(squared_difference, 2, .scalar = "other")
BINARY_ROW(squared_difference, "y = (a - b)^2.", (OTHER), squared_difference_grad, OWN_RANGE,
           INTACT_OPENVINO_AS("SquaredDifference", "auto_broadcast=", "scalar_operand"))
