/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of arithmetic on quantized tensors: add and mul of two tensors, of a tensor and a number. */
#include <string.h>

#include "ops/quantized/quantized.h"

static intact_status infer_two(intact_infer *infer, const intact_op *row) {
  INTACT_TRY(intact__infer_quantized(infer, 0, true));
  INTACT_TRY(intact__infer_quantized(infer, 1, true));
  return intact__twin_infer(infer, row, 2);
}

/* Both operands as steps, multiplied by a factor each, into row `row`; in double where the row adds integers. */
static intact_status combine(const intact_call *call, const intact_op *row, intact_dtype dtype, const double *factors,
                             intact_tensor **result) {
  intact_tensor *operands[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  for (int i = 0; i < 2; i++) {
    intact_tensor *steps;
    INTACT_TRY_TO(done, intact__steps(call, i, &steps));
    status = intact__as_dtype(steps, dtype, &operands[i]);
    intact_tensor_destroy(steps);
    if (status != INTACT_OK) goto done;
    for (int64_t k = 0; k < operands[i]->count; k++)
      intact__tensor_set_f64(operands[i], k, intact__tensor_get_f64(operands[i], k) * factors[i]);
  }
  status = intact__eval_as(call, row, 2, (const intact_tensor *const *)operands, result);
done:
  intact_tensor_destroy(operands[0]);
  intact_tensor_destroy(operands[1]);
  return status;
}

static double scale_of(const intact_node *node, int operand) {
  return (double)intact__operand_qparams(node, operand)->scale[0];
}

/* ---- add ---- */

static intact_status infer_add(intact_infer *infer) {
  intact_engine engine;
  INTACT_TRY(intact__engine_of(infer->context, infer->node, &engine));
  return infer_two(infer, &intact_op_add);
}

/* v / 2^bits rounded to the nearest integer, halves away from zero. */
static int64_t shift_half_away(int64_t v, int bits) {
  const int64_t half = bits > 0 ? INT64_C(1) << (bits - 1) : 0, magnitude = (v < 0 ? -v : v) + half;
  const int64_t shifted = magnitude >> bits;
  return v < 0 ? -shifted : shifted;
}

/* QNNPACK: 22-bit integer factors. */
static intact_status add_fixed_point(const intact_call *call, const intact_qparams *to) {
  const float so = to->scale[0];
  const float a = (float)scale_of(call->node, 0) / so, b = (float)scale_of(call->node, 1) / so, larger = a > b ? a : b;
  int exponent;
  frexp((double)larger, &exponent);
  const int shift = 21 - (exponent - 1);
  if (shift < 0 || shift > 40)
    INTACT_FAIL(
        call->context, OUT_OF_RANGE, call->node->name,
        "%s '%s': the operands' scales are up to %g times the result's; engine qnnpack adds with factors of 2^-19 to 2^21",
        call->node->op->name, call->node->name, (double)larger);
  const double factors[2] = {nearbyint(ldexp((double)a, shift)), nearbyint(ldexp((double)b, shift))};
  intact_tensor *sum = NULL, *q = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY(combine(call, &intact_op_add, INTACT_F64, factors, &sum));
  INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, to->dtype, sum->rank, sum->dims, &q));
  for (int64_t i = 0; i < sum->count; i++) {
    const int64_t code = shift_half_away((int64_t)intact__tensor_get_f64(sum, i), shift) + to->zero_point[0];
    intact__tensor_set_s64(q, i, intact__clamp_s64(code, to->quant_min, to->quant_max));
  }
  status = intact__give_result(call, 0, to->dtype, q);
done:
  intact_tensor_destroy(sum);
  return status;
}

static intact_status eval_add(const intact_call *call) {
  const intact_qparams *to;
  intact_engine engine;
  INTACT_TRY(intact__result_grid(call, &to));
  INTACT_TRY(intact__engine_of(call->context, call->node, &engine));
  if (engine == INTACT_ENGINE_QNNPACK) return add_fixed_point(call, to);
  const double factors[2] = {scale_of(call->node, 0), scale_of(call->node, 1)};
  intact_tensor *sum = NULL, *q = NULL;
  INTACT_TRY(combine(call, &intact_op_add, INTACT_F32, factors, &sum));
  const intact_status status = intact__quantize_tensor(sum, to, &q);
  intact_tensor_destroy(sum);
  INTACT_TRY(status);
  return intact__give_result(call, 0, to->dtype, q);
}

#define TWO INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")

const intact_op intact_op_quantized_add = {
    .name = "quantized_add",
    .doc =
        "clamp(rne((sa(a - za) + sb(b - zb)) / sy) + zy) in float32; engine qnnpack: in 22-bit fixed point, halves away "
        "from zero.",
    .schema = {TWO, INTACT_ATTRS(INTACT_ENGINE_ATTR)},
    .infer = infer_add,
    .eval_f32 = eval_add,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::add", INTACT_OUTPUT),
                              INTACT_QUANTIZED("quantized::add_relu", INTACT_OUTPUT ",=@relu:1")),
};

/* ---- mul ---- */

static intact_status infer_mul(intact_infer *infer) {
  return infer_two(infer, &intact_op_mul);
}

static intact_status eval_mul(const intact_call *call) {
  const intact_qparams *to;
  const double ones[2] = {1, 1};
  intact_tensor *product = NULL;
  INTACT_TRY(intact__result_grid(call, &to));
  const float scale = (float)scale_of(call->node, 0) * (float)scale_of(call->node, 1), multiplier = scale / to->scale[0];
  INTACT_TRY(combine(call, &intact_op_mul, INTACT_F32, ones, &product));
  for (int64_t i = 0; i < product->count; i++) intact__f32(product)[i] *= multiplier;
  return intact__give_rounded(call, product, false);
}

const intact_op intact_op_quantized_mul = {
    .name = "quantized_mul",
    .doc = "clamp(rne(f32((a - za)(b - zb)) * f32(sa sb / sy)) + zy).",
    .schema = {TWO},
    .infer = infer_mul,
    .eval_f32 = eval_mul,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::mul", INTACT_OUTPUT),
                              INTACT_QUANTIZED("quantized::mul_relu", INTACT_OUTPUT ",=@relu:1")),
};

/* ---- a tensor and a number: the result's qparams follow from both ---- */

typedef struct scalar_rule {
  double scale; /* of the result */
  int64_t zero; /* of the result */
  int64_t add;  /* code = rne(f32((q - zero of a) + add) * factor) + zero, clamped */
  float factor;
} scalar_rule;

static scalar_rule add_rule(const intact_qparams *a, double c) {
  const int64_t low = intact_dtype_min(a->dtype), high = intact_dtype_max(a->dtype), limit = INT64_C(1) << 40;
  const double s = (double)a->scale[0], range = (double)(high - low);
  const int64_t steps = intact__clamp_s64(intact__round_s64(c / s), -limit, limit), zero = a->zero_point[0] - steps;
  scalar_rule rule = {.scale = s, .zero = zero, .add = steps, .factor = 1};
  if (zero < low) {
    rule.scale = (double)(high - zero) / range * s;
    rule.zero = low;
  } else if (zero > high) {
    rule.scale = (double)(zero - low) / range * s;
    rule.zero = high;
  }
  if (rule.zero != zero) rule.factor = a->scale[0] * (1.0f / (float)rule.scale);
  return rule;
}

static scalar_rule mul_rule(const intact_qparams *a, double c) {
  const int64_t low = intact_dtype_min(a->dtype), high = intact_dtype_max(a->dtype);
  const double s = (double)a->scale[0];
  scalar_rule rule = {.scale = s * fabs(c), .zero = a->zero_point[0], .factor = 1};
  if (c == 0) return (scalar_rule){.scale = 1, .zero = 0, .factor = 0};
  if (c < 0) {
    rule.zero = high - (a->zero_point[0] - low);
    rule.factor = -1;
  }
  return rule;
}

static bool is_add(const intact_node *node) {
  return strcmp(node->op->name, "quantized_add_scalar") == 0;
}

static scalar_rule rule_of(const intact_node *node) {
  const intact_qparams *a = intact__operand_qparams(node, 0);
  const double c = intact__attr_float(node, "other");
  return is_add(node) ? add_rule(a, c) : mul_rule(a, c);
}

static intact_status infer_scalar(intact_infer *infer) {
  const intact_node *node = infer->node;
  const double c = intact__attr_float(node, "other");
  INTACT_TRY(intact__infer_quantized(infer, 0, true));
  const intact_dtype dtype = node->operands[0]->qparams->dtype;
  const scalar_rule rule = rule_of(node);
  const float scale = (float)rule.scale;
  if (!isfinite(c) || !(scale > 0) || !isfinite(scale))
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                "%s '%s': other is %g and the result's scale would be %g; both must be finite, "
                "the scale above 0",
                node->op->name, node->name, c, (double)scale);
  INTACT_TRY(intact__infer_like_first(infer));
  const int64_t low = intact__attr_int(node, "relu") != 0 ? rule.zero : intact_dtype_min(dtype);
  return intact__infer_qparams(infer, dtype, rule.scale, rule.zero, low);
}

static intact_status eval_scalar(const intact_call *call) {
  const scalar_rule rule = rule_of(call->node);
  const intact_tensor *a = call->operands[0];
  const int64_t from = intact__operand_qparams(call->node, 0)->zero_point[0];
  const int64_t low = intact__attr_int(call->node, "relu") != 0 ? rule.zero : intact_dtype_min(a->dtype);
  intact_tensor *y;
  INTACT_TRY(intact__call_result(call, 0, a->dtype, a->rank, a->dims, &y));
  for (int64_t i = 0; i < a->count; i++) {
    const float steps = (float)(intact__tensor_get_s64(a, i) - from + rule.add);
    const int64_t code = intact__round_s64((double)(steps * rule.factor)) + rule.zero;
    intact__tensor_set_s64(y, i, intact__clamp_s64(code, low, intact_dtype_max(a->dtype)));
  }
  return INTACT_OK;
}

#define SCALAR_ROW(op, text)                                                                         \
  const intact_op intact_op_quantized_##op = {                                                       \
      .name = "quantized_" #op,                                                                      \
      .doc = text,                                                                                   \
      .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),             \
                 INTACT_ATTRS({.name = "other", .type = INTACT_ATTR_FLOAT, .required = true},        \
                              INTACT_BOOL_ATTR("relu", 0))},                                         \
      .infer = infer_scalar,                                                                         \
      .eval_f32 = eval_scalar,                                                                       \
      INTACT_QUANTIZED_TRAITS,                                                                       \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::" #op, "other=other"),                  \
                                INTACT_QUANTIZED("quantized::" #op "_relu", "other=other,=relu:1")), \
  };
SCALAR_ROW(add_scalar, "a + other: the zero point moves; where it would leave the type's range, the scale grows instead.")
SCALAR_ROW(mul_scalar, "a * other: the scale takes |other|; a negative one mirrors the integers, 0 makes all of them 0.")
