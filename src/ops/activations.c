/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of activation functions that bend: y = f(x) per element, with PyTorch's gradients. */
#include <string.h>

#include "ops/elementwise.h"

#define SIMPLE(op, text, formula, gradient, ...) \
  INTACT_FLOAT_LOOPS(1, op, formula)             \
  INTACT_GRAD_1(op, gradient)                    \
  INTACT_UNARY(op, text, __VA_ARGS__)

/* A row with attributes, given in parentheses. */
#define WITH_ATTRS(op, text, attributes, ...)        \
  INTACT_ELEMENTWISE_WITH_GRAD(op, 1)                \
  const intact_op intact_op_##op = {                 \
      .name = #op,                                   \
      .doc = text,                                   \
      .schema = {INTACT_X, INTACT_ATTRS attributes}, \
      .infer = op##_infer,                           \
      .eval_f32 = op##_eval,                         \
      .grad = op##_grad,                             \
      .quant = {.is_unary_map = true},               \
      .int_layout = INTACT_INT_ANY,                  \
      .check_int = intact__check_unary,              \
      .lower_int = intact__lower_unary,              \
      .aliases = INTACT_ALIASES(__VA_ARGS__),        \
  };

/* ---- exponential family ---- */

#define LOGISTIC(x) (1 / (1 + exp(-(x))))

INTACT_FLOAT_LOOPS(1, sigmoid, LOGISTIC(v))
INTACT_GRAD_1(sigmoid, d *(1 - r) * r)
INTACT_ELEMENTWISE_WITH_GRAD(sigmoid, 1)
const intact_op intact_op_sigmoid = {
    .name = "sigmoid",
    .doc = "y = 1 / (1 + exp(-x)).",
    .schema = {INTACT_X},
    .infer = sigmoid_infer,
    .eval_f32 = sigmoid_eval,
    .grad = sigmoid_grad,
    .quant = {.result = INTACT_RESULT_FIXED, .fixed_scale = 1.0f / 256, .is_unary_map = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_unary,
    .lower_int = intact__lower_unary,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::sigmoid", INTACT_OUTPUT), INTACT_ATEN("sigmoid"),
                              INTACT_ONNX("Sigmoid"), INTACT_OPENVINO("Sigmoid")),
};

INTACT_FLOAT_LOOPS(1, tanh, tanh(v))
INTACT_GRAD_1(tanh, d *(1 - r * r))
INTACT_ELEMENTWISE_WITH_GRAD(tanh, 1)
const intact_op intact_op_tanh = {
    .name = "tanh",
    .doc = "y = hyperbolic tangent of x.",
    .schema = {INTACT_X},
    .infer = tanh_infer,
    .eval_f32 = tanh_eval,
    .grad = tanh_grad,
    .quant = {.result = INTACT_RESULT_FIXED, .fixed_scale = 2.0f / 256, .fixed_zero_point = 128, .is_unary_map = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_unary,
    .lower_int = intact__lower_unary,
    .aliases = INTACT_ALIASES(INTACT_ATEN("tanh"), INTACT_ONNX("Tanh"), INTACT_OPENVINO("Tanh")),
};

SIMPLE(silu, "y = x / (1 + exp(-x)).", v / (1 + exp(-v)), d *LOGISTIC(v) * (1 + v * (1 - LOGISTIC(v))), INTACT_ATEN("silu"),
       INTACT_ATEN("swish"), INTACT_OPENVINO("Swish"))
SIMPLE(log_sigmoid, "y = log(1 / (1 + exp(-x))).", (v < 0 ? v : 0) - log1p(exp(-fabs(v))),
       v < 0 ? d * (1 - exp(v) / (1 + exp(v))) : d * (exp(-v) / (1 + exp(-v))), INTACT_ATEN("log_sigmoid"))
SIMPLE(softsign, "y = x / (1 + |x|).", v / (1 + fabs(v)), d / ((1 + fabs(v)) * (1 + fabs(v))), INTACT_ATEN("softsign"),
       INTACT_ONNX("Softsign"), INTACT_OPENVINO("SoftSign"))

/* log(1 + exp(x)) that neither overflows nor loses small values. */
#define SOFTPLUS(x) (((x) > 0 ? (x) : 0) + log1p(exp(-fabs(x))))
SIMPLE(mish, "y = x * tanh(log(1 + exp(x))).", v *tanh(SOFTPLUS(v)),
       d *(tanh(SOFTPLUS(v)) + v * LOGISTIC(v) * (1 - tanh(SOFTPLUS(v)) * tanh(SOFTPLUS(v)))), INTACT_ATEN("mish"),
       INTACT_ONNX("Mish"), INTACT_OPENVINO("Mish"))

INTACT_FLOAT_LOOPS(1, softplus, v *P(0) > P(1) ? v : log1p(exp(v * P(0))) / P(0))
INTACT_GRAD_1(softplus, v *P(0) > P(1) ? d : d * exp(v * P(0)) / (exp(v * P(0)) + 1))
WITH_ATTRS(softplus, "y = log(1 + exp(beta x)) / beta, x itself where beta x is above the threshold.",
           (INTACT_A_FLOAT("beta", 1.0), INTACT_A_FLOAT("threshold", 20.0)), INTACT_ATEN("softplus"),
           INTACT_ONNX("Softplus"), INTACT_OPENVINO("SoftPlus"))

INTACT_FLOAT_LOOPS(1, elu, v <= 0 ? expm1(v * P(2)) * (P(0) * P(1)) : v * P(1))
INTACT_GRAD_1(elu, v <= 0 ? d * P(2) * (P(0) * P(1)) * exp(v * P(2)) : d * P(1))
WITH_ATTRS(elu, "y = scale * x above 0, scale * alpha * (exp(input_scale x) - 1) below.",
           (INTACT_A_FLOAT("alpha", 1.0), INTACT_A_FLOAT("scale", 1.0), INTACT_A_FLOAT("input_scale", 1.0)),
           INTACT_QUANTIZED("quantized::elu", INTACT_OUTPUT), INTACT_ATEN("elu"),
           INTACT_ONNX_AS("Elu", "alpha=alpha", NULL), INTACT_OPENVINO_AS("Elu", "alpha=alpha", NULL))

INTACT_FLOAT_LOOPS(1, celu, v <= 0 ? expm1(v * (1 / P(0))) * P(0) : v)
INTACT_GRAD_1(celu, v <= 0 ? d * exp(v * (1 / P(0))) : d)
WITH_ATTRS(celu, "y = x above 0, alpha * (exp(x / alpha) - 1) below.", (INTACT_A_FLOAT("alpha", 1.0)),
           INTACT_QUANTIZED("quantized::celu", INTACT_OUTPUT), INTACT_ATEN("celu"), INTACT_ONNX_AS("Celu", "alpha=alpha", NULL))

INTACT_FLOAT_LOOPS(1, selu, v <= 0 ? expm1(v) * (P(0) * P(1)) : v * P(1))
INTACT_GRAD_1(selu, v <= 0 ? d * (P(0) * P(1)) * exp(v) : d * P(1))
WITH_ATTRS(selu, "y = gamma * x above 0, gamma * alpha * (exp(x) - 1) below.",
           (INTACT_A_FLOAT("alpha", 1.6732632423543772), INTACT_A_FLOAT("gamma", 1.0507009873554805)), INTACT_ATEN("selu"),
           INTACT_ONNX_AS("Selu", "alpha=alpha,gamma=gamma", NULL),
           /* selu_constants: alpha and lambda are operands 1 and 2 */
           INTACT_OPENVINO_AS("Selu", "", "selu_constants"))

#define GELU_TANH(x) tanh((T)0.7978845608028654 * ((x) + (T)0.044715 * (x) * (x) * (x)))
INTACT_FLOAT_LOOPS(1, gelu, (T)0.5 * v * (1 + erf(v * (T)0.7071067811865476)))
INTACT_FLOAT_LOOPS(1, gelu_tanh, (T)0.5 * v * (1 + GELU_TANH(v)))
INTACT_GRAD_1(gelu, d *((T)0.5 * (1 + erf(v * (T)0.7071067811865476)) + v * (T)0.3989422804014327 * exp((T)-0.5 * v * v)))
INTACT_GRAD_1(gelu_tanh, d *((T)0.5 * (1 + GELU_TANH(v)) + (T)0.5 * v * (1 - GELU_TANH(v) * GELU_TANH(v)) *
                                                               ((T)0.7978845608028654 * (1 + 3 * (T)0.044715 * v * v))))
static const intact_elementwise gelu_forms[] = {{.n = 1, .f32 = gelu_f32, .f64 = gelu_f64, .grad = gelu_d},
                                                {.n = 1, .f32 = gelu_tanh_f32, .f64 = gelu_tanh_f64, .grad = gelu_tanh_d}};

static const intact_elementwise *gelu_form(const intact_node *node) {
  const char *approximate = intact__attr_string(node, "approximate");
  if (approximate == NULL || strcmp(approximate, "none") == 0) return &gelu_forms[0];
  return strcmp(approximate, "tanh") == 0 ? &gelu_forms[1] : NULL;
}

static intact_status gelu_infer(intact_infer *infer) {
  const intact_elementwise *form = gelu_form(infer->node);
  if (form == NULL) {
    INTACT_FAIL(infer->context, INVALID_VALUE, infer->node->name, "gelu '%s': approximate is '%s'; it must be none or tanh",
                infer->node->name, intact__attr_string(infer->node, "approximate"));
  }
  return intact__elementwise_infer(infer, form);
}

static intact_status gelu_eval(const intact_call *call) {
  return intact__elementwise_eval(call, gelu_form(call->node));
}
static intact_status gelu_grad(intact_grad *grad) {
  return intact__elementwise_grad(grad, gelu_form(grad->node));
}

const intact_op intact_op_gelu = {
    .name = "gelu",
    .doc = "y = x * Phi(x), Phi the normal distribution, or its tanh approximation.",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_STRING("approximate", "none"))},
    .infer = gelu_infer,
    .eval_f32 = gelu_eval,
    .grad = gelu_grad,
    .quant = {.is_unary_map = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_unary,
    .lower_int = intact__lower_unary,
    .aliases = INTACT_ALIASES(INTACT_ATEN("gelu"), INTACT_ONNX_AS("Gelu", "approximate=approximate", NULL),
                              INTACT_ONNX("com.microsoft::Gelu"),
                              /* gelu_mode: approximation_mode ERF or TANH */
                              INTACT_OPENVINO_AS("Gelu", "approximation_mode=", "gelu_mode")),
};

/* ---- piecewise linear ---- */

INTACT_FLOAT_LOOPS(1, leaky_relu, v > 0 ? v : v * P(0))
INTACT_GRAD_1(leaky_relu, v > 0 ? d : d * P(0))
WITH_ATTRS(leaky_relu, "y = x above 0, negative_slope * x below.", (INTACT_A_FLOAT("negative_slope", 0.01)),
           INTACT_QUANTIZED("quantized::leaky_relu", INTACT_OUTPUT), INTACT_ATEN("leaky_relu"), INTACT_ONNX_AS("LeakyRelu", "alpha=negative_slope", NULL))

INTACT_FLOAT_LOOPS(1, threshold, v <= P(0) ? P(1) : v)
INTACT_GRAD_1(threshold, v <= P(0) ? 0 : d)
WITH_ATTRS(threshold, "y = x above the threshold, value elsewhere.",
           (INTACT_A_FLOAT("threshold", 0.0), INTACT_A_FLOAT("value", 0.0)), INTACT_QUANTIZED("quantized::threshold", NULL),
           INTACT_ATEN("threshold"),
           /* threshold_default: alpha's default is 1 */
           INTACT_ONNX_AS("ThresholdedRelu", "alpha=threshold", "threshold_default"))

INTACT_FLOAT_LOOPS(1, hardshrink, v >= -P(0) && v <= P(0) ? 0 : v)
INTACT_GRAD_1(hardshrink, v >= -P(0) && v <= P(0) ? 0 : d)
WITH_ATTRS(hardshrink, "y = 0 where |x| <= lambd, else x.", (INTACT_A_FLOAT("lambd", 0.5)), INTACT_ATEN("hardshrink"))

#define SHIFT (p[1] != p[1] ? P(0) : P(1))
INTACT_FLOAT_LOOPS(1, softshrink, v > P(0) ? v - SHIFT : v < -P(0) ? v + SHIFT : v != v ? v : 0)
INTACT_GRAD_1(softshrink, v >= -P(0) && v <= P(0) ? 0 : d)
WITH_ATTRS(softshrink, "y = x moved by bias (lambd when absent) towards 0 where |x| > lambd, else 0.",
           (INTACT_A_FLOAT("lambd", 0.5), INTACT_A_FLOAT_OR_NONE("bias")), INTACT_ATEN("softshrink"),
           /* shrink_default: bias' default is 0 */
           INTACT_ONNX_AS("Shrink", "lambd=lambd,bias=bias", "shrink_default"))

#define UNIT_CUT(x) ((x) < 0 ? 0 : (x) > 1 ? 1 : (x))
INTACT_FLOAT_LOOPS(1, hardsigmoid, UNIT_CUT(v *P(0) + P(1)))
INTACT_GRAD_1(hardsigmoid, v *P(0) + P(1) > 0 && v * P(0) + P(1) < 1 ? d * P(0) : 0)
INTACT_ELEMENTWISE_WITH_GRAD(hardsigmoid, 1)
const intact_op intact_op_hardsigmoid = {
    .name = "hardsigmoid",
    .doc = "y = clamp(alpha * x + beta, 0, 1).",
    .schema = {INTACT_X, INTACT_ATTRS(INTACT_A_FLOAT("alpha", 1.0 / 6), INTACT_A_FLOAT("beta", 0.5))},
    .infer = hardsigmoid_infer,
    .eval_f32 = hardsigmoid_eval,
    .grad = hardsigmoid_grad,
    .quant = {.result = INTACT_RESULT_FIXED, .fixed_scale = 1.0f / 256, .is_unary_map = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_unary,
    .lower_int = intact__lower_unary,
    .aliases = INTACT_ALIASES(INTACT_ATEN("hardsigmoid"),
                              /* hardsigmoid_default: alpha's default is 0.2 */
                              INTACT_ONNX_AS("HardSigmoid", "alpha=alpha,beta=beta", "hardsigmoid_default"),
                              INTACT_OPENVINO("HSigmoid")),
};

#define SIX_CUT(x) ((x) < 0 ? 0 : (x) > 6 ? 6 : (x))
SIMPLE(hardswish, "y = x * clamp(x + 3, 0, 6) / 6.", v *SIX_CUT(v + 3) / 6,
       v <= -3 ? 0
       : v < 3 ? d * (v / 3 + (T)0.5)
               : d,
       INTACT_QUANTIZED("quantized::hardswish", INTACT_OUTPUT), INTACT_ATEN("hardswish"), INTACT_ONNX("HardSwish"), INTACT_OPENVINO("HSwish"))
