/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's eager quantize_per_tensor and quantize_per_channel, with qparams as operands and plain integers as result. */
#include "kernels/affine/affine.h"
#include "ops/common.h"

static intact_status fail_type(const intact_call *call, const char *what, intact_dtype dtype, const char *wanted) {
  INTACT_FAIL(call->context, TYPE_MISMATCH, call->node->name, "%s '%s': %s is %s; it must be %s", call->node->op->name,
              call->node->name, what, intact_dtype_text(dtype), wanted);
}

static intact_status check_types(const intact_call *call, intact_dtype *dtype) {
  *dtype = (intact_dtype)intact__attr_int(call->node, "dtype");
  if (call->operands[0]->dtype != INTACT_F32) return fail_type(call, "x", call->operands[0]->dtype, "f32");
  if (!intact_dtype_is_integer(*dtype) || intact_dtype_bits(*dtype) > 32)
    return fail_type(call, "dtype", *dtype, "an integer type of up to 32 bits");
  return INTACT_OK;
}

static intact_status check_zero_point(const intact_call *call, intact_dtype dtype, int64_t zero) {
  if (zero < intact_dtype_min(dtype) || zero > intact_dtype_max(dtype))
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "%s '%s': zero point %lld is not within %lld..%lld, the values of %s",
                call->node->op->name, call->node->name, (long long)zero, (long long)intact_dtype_min(dtype),
                (long long)intact_dtype_max(dtype), intact_dtype_text(dtype));
  return INTACT_OK;
}

/* ---- per tensor ---- */

static intact_status eval_per_tensor(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_dtype dtype;
  INTACT_TRY(check_types(call, &dtype));
  if (call->operands[1]->count != 1 || call->operands[2]->count != 1)
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': scale and zero_point must have one element each",
                call->node->op->name, call->node->name);
  float scale = (float)intact__tensor_get_f64(call->operands[1], 0);
  int64_t zero = intact__tensor_get_s64(call->operands[2], 0);
  INTACT_TRY(check_zero_point(call, dtype, zero));
  int32_t z = (int32_t)zero;
  intact_qparams qparams = {.scheme = INTACT_PER_TENSOR_AFFINE,
                            .dtype = dtype,
                            .quant_min = intact_dtype_min(dtype),
                            .quant_max = intact_dtype_max(dtype),
                            .axis = -1,
                            .n = 1,
                            .scale = &scale,
                            .zero_point = &z};
  intact_tensor *q;
  INTACT_TRY(intact__quantize_tensor(x, &qparams, &q));
  return intact__give_result(call, 0, dtype, q);
}

static intact_status infer_codes(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  return intact__infer_result(infer, 0, (intact_dtype)intact__attr_int(infer->node, "dtype"), x->rank, x->dims);
}

const intact_op intact_op_quantize_per_tensor = {
    .name = "quantize_per_tensor",
    .doc = "clamp(zero_point + rne(x * (1/scale))) over the whole range of dtype.",
    .schema = {INTACT_OPERANDS({"self", INTACT_ROLE_ACTIVATION, 0}, {"scale", INTACT_ROLE_NONE, 0},
                               {"zero_point", INTACT_ROLE_NONE, 0}),
               INTACT_RESULTS("q"), INTACT_ATTRS({.name = "dtype", .type = INTACT_ATTR_DTYPE, .required = true})},
    .infer = infer_codes,
    .eval_f32 = eval_per_tensor,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = (const intact_alias[]){{"aten", "aten::quantize_per_tensor", 0, 0, "dtype=dtype", NULL}, {0}},
};

/* ---- per channel ---- */

static intact_status check_channels(const intact_call *call, int64_t *axis) {
  const intact_tensor *x = call->operands[0], *scales = call->operands[1], *zeros = call->operands[2];
  const intact_node *node = call->node;
  *axis = intact__attr_int(node, "axis");
  if (*axis < 0 || *axis >= x->rank)
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': axis %lld is not one of the %d axes of x", node->op->name, node->name,
                (long long)*axis, x->rank);
  if (!intact_dtype_is_float(scales->dtype)) return fail_type(call, "scales", scales->dtype, "a floating-point type");
  if (scales->count != zeros->count || scales->count != x->dims[*axis])
    INTACT_FAIL(call->context, SIZE_MISMATCH, node->name, "%s '%s': %lld scales and %lld zero points for %lld channels", node->op->name,
                node->name, (long long)scales->count, (long long)zeros->count, (long long)x->dims[*axis]);
  return INTACT_OK;
}

/* Real zero points: q = clamp(rne(x * (1/s) + z)), the sum rounded to float32; 1/s is 1 for s = 0. */
static intact_status quantize_real_zero_points(const intact_call *call, intact_dtype dtype, int64_t axis) {
  const intact_tensor *x = call->operands[0], *scales = call->operands[1], *zeros = call->operands[2];
  intact_tensor *q;
  INTACT_TRY(intact__call_result(call, 0, dtype, x->rank, x->dims, &q));
  int64_t inner = 1, length = x->dims[axis];
  for (int i = (int)axis + 1; i < x->rank; i++) inner *= x->dims[i];
  for (int64_t i = 0; i < x->count; i++) {
    int64_t channel = i / inner % length;
    float s = (float)intact__tensor_get_f64(scales, channel), z = (float)intact__tensor_get_f64(zeros, channel);
    float inverse = s == 0.0f ? 1.0f : 1.0f / s, steps = intact__f32(x)[i] * inverse;
    int64_t code = intact__round_s64((double)(steps + z));
    intact__tensor_set_s64(q, i, intact__clamp_s64(code, intact_dtype_min(dtype), intact_dtype_max(dtype)));
  }
  return INTACT_OK;
}

static intact_status eval_per_channel(const intact_call *call) {
  const intact_tensor *scales = call->operands[1], *zeros = call->operands[2];
  intact_dtype dtype;
  int64_t axis;
  INTACT_TRY(check_types(call, &dtype));
  INTACT_TRY(check_channels(call, &axis));
  if (intact_dtype_is_float(zeros->dtype)) return quantize_real_zero_points(call, dtype, axis);
  for (int64_t i = 0; i < zeros->count; i++) INTACT_TRY(check_zero_point(call, dtype, intact__tensor_get_s64(zeros, i)));
  intact_tensor *s = NULL, *z = NULL, *q = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__as_dtype(scales, INTACT_F32, &s));
  INTACT_TRY_TO(done, intact__as_dtype(zeros, INTACT_S32, &z));
  intact_qparams qparams = {.scheme = INTACT_PER_CHANNEL_AFFINE,
                            .dtype = dtype,
                            .quant_min = intact_dtype_min(dtype),
                            .quant_max = intact_dtype_max(dtype),
                            .axis = (int)axis,
                            .n = scales->count,
                            .scale = s->data,
                            .zero_point = z->data};
  INTACT_TRY_TO(done, intact__quantize_tensor(call->operands[0], &qparams, &q));
  status = intact__give_result(call, 0, dtype, q);
done:
  intact_tensor_destroy(s);
  intact_tensor_destroy(z);
  return status;
}

const intact_op intact_op_quantize_per_channel = {
    .name = "quantize_per_channel",
    .doc = "quantize_per_tensor with a scale and zero point for every index of axis; real zero points are added before the rounding.",
    .schema = {INTACT_OPERANDS({"self", INTACT_ROLE_ACTIVATION, 0}, {"scales", INTACT_ROLE_NONE, 0},
                               {"zero_points", INTACT_ROLE_NONE, 0}),
               INTACT_RESULTS("q"),
               INTACT_ATTRS({.name = "axis", .type = INTACT_ATTR_INT, .required = true},
                            {.name = "dtype", .type = INTACT_ATTR_DTYPE, .required = true})},
    .infer = infer_codes,
    .eval_f32 = eval_per_channel,
    .grad = intact__grad_straight_through,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = (const intact_alias[]){{"aten", "aten::quantize_per_channel", 0, 0, "axis=axis,dtype=dtype", NULL}, {0}},
};
