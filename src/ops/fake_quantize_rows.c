/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of fake quantization with qparams as operands. */
#include <string.h>

#include "ops/common.h"
#include "tensor/fake_quantize.h"

static intact_status infer_fake_quantize(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  INTACT_TRY(intact__infer_result(infer, 0, x->dtype, x->rank, x->dims));
  if (infer->node->n_results > 1) INTACT_TRY(intact__infer_result(infer, 1, INTACT_BOOL, x->rank, x->dims));
  return INTACT_OK;
}

/* ---- fixed qparams ---- */

/* A spec with the memory it points to. */
typedef struct row_spec {
  intact_fake_spec spec;
  intact_tensor *scale, *zero_point; /* f32; s32 or f32 */
} row_spec;

static void row_spec_fini(row_spec *row) {
  intact_tensor_destroy(row->scale);
  intact_tensor_destroy(row->zero_point);
}

static intact_status check_zero_points(intact_context *context, const intact_fake_spec *spec) {
  for (int64_t i = 0; spec->zero_point && i < spec->n; i++)
    if (spec->zero_point[i] < spec->low || spec->zero_point[i] > spec->high)
      INTACT_FAIL(context, OUT_OF_RANGE, spec->where, "fake_quantize '%s': zero point %d is not between quant_min %lld and quant_max %lld",
                  spec->where, spec->zero_point[i], (long long)spec->low, (long long)spec->high);
  return INTACT_OK;
}

static intact_status per_tensor_spec(intact_context *context, const intact_node *node, const intact_tensor *const *operands,
                                     row_spec *row) {
  if (operands[1]->count != 1 || operands[2]->count != 1)
    INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': scale has %lld and zero_point %lld elements; per tensor both have 1",
                node->op->name, node->name, (long long)operands[1]->count, (long long)operands[2]->count);
  INTACT_TRY(intact__as_dtype(operands[1], INTACT_F32, &row->scale));
  INTACT_TRY(intact__as_dtype(operands[2], INTACT_S32, &row->zero_point));
  row->spec = (intact_fake_spec){.where = node->name,
                                 .axis = -1,
                                 .low = intact__attr_int(node, "quant_min"),
                                 .high = intact__attr_int(node, "quant_max"),
                                 .n = 1,
                                 .scale = intact__f32(row->scale),
                                 .zero_point = row->zero_point->data};
  return intact__attr_int(node, "tensor_qparams") ? INTACT_OK : check_zero_points(context, &row->spec);
}

static intact_status per_channel_spec(intact_context *context, const intact_node *node, const intact_tensor *const *operands,
                                      row_spec *row) {
  const intact_tensor *scale = operands[1], *zero = operands[2];
  const char *op = node->op->name;
  bool real = zero->dtype == INTACT_F32 || zero->dtype == INTACT_F16;
  if (scale->dtype != INTACT_F32 && scale->dtype != INTACT_BF16)
    INTACT_FAIL(context, TYPE_MISMATCH, node->name, "%s '%s': scale must be f32 or bf16, not %s", op, node->name,
                intact_dtype_text(scale->dtype));
  if (!real && zero->dtype != INTACT_S32)
    INTACT_FAIL(context, TYPE_MISMATCH, node->name, "%s '%s': zero_point must be s32, f32 or f16, not %s", op, node->name,
                intact_dtype_text(zero->dtype));
  if (scale->rank != 1 || zero->rank != 1 || scale->count != zero->count)
    INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': scale (rank %d, %lld) and zero_point (rank %d, %lld) must be lists of one length",
                op, node->name, scale->rank, (long long)scale->count, zero->rank, (long long)zero->count);
  int64_t axis = intact__attr_int(node, "axis");
  if (axis < 0 || axis >= operands[0]->rank)
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': axis %lld is not one of the %d axes of x", op, node->name,
                (long long)axis, operands[0]->rank);
  INTACT_TRY(intact__as_dtype(scale, INTACT_F32, &row->scale));
  INTACT_TRY(intact__as_dtype(zero, real ? INTACT_F32 : INTACT_S32, &row->zero_point));
  row->spec = (intact_fake_spec){.where = node->name,
                                 .axis = (int)axis,
                                 .low = intact__attr_int(node, "quant_min"),
                                 .high = intact__attr_int(node, "quant_max"),
                                 .n = scale->count,
                                 .scale = intact__f32(row->scale),
                                 .zero_point = real ? NULL : row->zero_point->data,
                                 .real_zero_point = real ? row->zero_point->data : NULL};
  INTACT_TRY(intact__fake_quantize_check(context, &row->spec, operands[0]));
  return check_zero_points(context, &row->spec);
}

/* quantized_decomposed.fake_quant_per_channel: scales and zero points of any type, float arithmetic. */
static intact_status decomposed_spec(intact_context *context, const intact_node *node, const intact_tensor *const *operands,
                                     row_spec *row) {
  const char *op = node->op->name;
  int64_t axis = intact__attr_int(node, "axis");
  if (operands[0]->dtype != INTACT_F32)
    INTACT_FAIL(context, TYPE_MISMATCH, node->name, "%s '%s': x must be f32, not %s", op, node->name,
                intact_dtype_text(operands[0]->dtype));
  if (axis < 0 || axis >= operands[0]->rank)
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': axis %lld is not one of the %d axes of x", op, node->name,
                (long long)axis, operands[0]->rank);
  if (operands[1]->count != operands[2]->count)
    INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': %lld scales and %lld zero points", op, node->name,
                (long long)operands[1]->count, (long long)operands[2]->count);
  INTACT_TRY(intact__as_dtype(operands[1], INTACT_F32, &row->scale));
  INTACT_TRY(intact__as_dtype(operands[2], INTACT_S32, &row->zero_point));
  row->spec = (intact_fake_spec){.where = node->name,
                                 .axis = (int)axis,
                                 .low = intact__attr_int(node, "quant_min"),
                                 .high = intact__attr_int(node, "quant_max"),
                                 .n = row->scale->count,
                                 .scale = intact__f32(row->scale),
                                 .zero_point = row->zero_point->data,
                                 .keep_nan = true};
  return INTACT_OK;
}

typedef intact_status (*make_spec)(intact_context *context, const intact_node *node, const intact_tensor *const *operands,
                                   row_spec *row);

static intact_status forward(const intact_call *call, make_spec make) {
  row_spec row = {0};
  intact_tensor *y = NULL, *mask = NULL;
  intact_status status = make(call->context, call->node, call->operands, &row);
  if (status == INTACT_OK) status = intact__fake_quantize_forward(call->operands[0], &row.spec, &y, &mask, NULL);
  row_spec_fini(&row);
  INTACT_TRY(status);
  status = intact__give_result(call, 0, y->dtype, y);
  if (call->n_results < 2) {
    intact_tensor_destroy(mask);
    return status;
  }
  if (status != INTACT_OK) {
    intact_tensor_destroy(mask);
    return status;
  }
  return intact__give_result(call, 1, INTACT_BOOL, mask);
}

static intact_status backward(intact_grad *grad, make_spec make) {
  if (!grad->needed[0] || !grad->d_results[0]) return INTACT_OK;
  row_spec row = {0};
  intact_tensor *dx = NULL, *out;
  intact_status status = make(grad->context, grad->node, grad->operands, &row);
  if (status == INTACT_OK) status = intact__fake_quantize_backward(grad->operands[0], grad->d_results[0], &row.spec, &dx);
  if (status == INTACT_OK) status = intact__grad_operand_raw(grad, 0, &out);
  for (int64_t i = 0; status == INTACT_OK && i < dx->count; i++) intact__f32(out)[i] = (float)intact__tensor_get_f64(dx, i);
  intact_tensor_destroy(dx);
  row_spec_fini(&row);
  return status;
}

/* y = x and a mask of ones: fake quantization switched off. */
static intact_status pass_through(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y, *mask;
  INTACT_TRY(intact_tensor_copy(x, &y));
  INTACT_TRY(intact__give_result(call, 0, x->dtype, y));
  if (call->n_results < 2) return INTACT_OK;
  INTACT_TRY(intact__call_result(call, 1, INTACT_BOOL, x->rank, x->dims, &mask));
  memset(mask->data, 1, (size_t)mask->count);
  return INTACT_OK;
}

static intact_status eval_per_tensor(const intact_call *call) {
  if (intact__attr_int(call->node, "quant_min") > intact__attr_int(call->node, "quant_max"))
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "%s '%s': quant_min is above quant_max", call->node->op->name,
                call->node->name);
  if (!intact__attr_int(call->node, "fake_quant_enabled")) return pass_through(call);
  return forward(call, per_tensor_spec);
}
static intact_status grad_per_tensor(intact_grad *grad) {
  if (!intact__attr_int(grad->node, "fake_quant_enabled")) return intact__grad_straight_through(grad);
  return backward(grad, per_tensor_spec);
}
static intact_status eval_per_channel(const intact_call *call) { return forward(call, per_channel_spec); }
static intact_status grad_per_channel(intact_grad *grad) { return backward(grad, per_channel_spec); }
static intact_status eval_decomposed(const intact_call *call) { return forward(call, decomposed_spec); }
static intact_status grad_decomposed(intact_grad *grad) { return backward(grad, decomposed_spec); }

#define FAKE_OPERANDS \
  INTACT_OPERANDS({"self", INTACT_ROLE_ACTIVATION, 0}, {"scale", INTACT_ROLE_NONE, 0}, {"zero_point", INTACT_ROLE_NONE, 0})
#define FAKE_RANGE {.name = "quant_min", .type = INTACT_ATTR_INT, .required = true}, \
                   {.name = "quant_max", .type = INTACT_ATTR_INT, .required = true}
#define FAKE_TRAITS {.result = INTACT_RESULT_NONE, .no_quantize = true}

const intact_op intact_op_fake_quantize_per_tensor_affine = {
    .name = "fake_quantize_per_tensor_affine",
    .doc = "y = (clamp(zero_point + rne(x * (1/scale)), quant_min, quant_max) - zero_point) * scale; mask: not clamped.",
    .schema = {FAKE_OPERANDS, INTACT_RESULTS("y", "mask"),
               INTACT_ATTRS(FAKE_RANGE, {.name = "fake_quant_enabled", .type = INTACT_ATTR_BOOL, .i = 1},
                            {.name = "tensor_qparams", .type = INTACT_ATTR_BOOL})},
    .infer = infer_fake_quantize,
    .eval_f32 = eval_per_tensor,
    .grad = grad_per_tensor,
    .quant = FAKE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::fake_quantize_per_tensor_affine", 0, 0, "quant_min=quant_min,quant_max=quant_max",
                                       NULL},
                                      {0}},
};

const intact_op intact_op_fake_quantize_per_channel_affine = {
    .name = "fake_quantize_per_channel_affine",
    .doc = "fake_quantize_per_tensor_affine with a scale and zero point for every index of axis; real zero points are added before "
           "the rounding.",
    .schema = {FAKE_OPERANDS, INTACT_RESULTS("y", "mask"),
               INTACT_ATTRS({.name = "axis", .type = INTACT_ATTR_INT, .required = true}, FAKE_RANGE)},
    .infer = infer_fake_quantize,
    .eval_f32 = eval_per_channel,
    .grad = grad_per_channel,
    .quant = FAKE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::fake_quantize_per_channel_affine", 0, 0,
                                       "axis=axis,quant_min=quant_min,quant_max=quant_max", NULL},
                                      {0}},
};

const intact_op intact_op_decomposed_fake_quant_per_channel = {
    .name = "decomposed_fake_quant_per_channel",
    .doc = "fake_quantize_per_channel_affine in float arithmetic throughout: NaN stays NaN.",
    .schema = {FAKE_OPERANDS, INTACT_RESULTS("y", "mask"),
               INTACT_ATTRS({.name = "axis", .type = INTACT_ATTR_INT, .required = true}, FAKE_RANGE)},
    .infer = infer_fake_quantize,
    .eval_f32 = eval_decomposed,
    .grad = grad_decomposed,
    .quant = FAKE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "quantized_decomposed::fake_quant_per_channel", 0, 0,
                                       "axis=axis,quant_min=quant_min,quant_max=quant_max", NULL},
                                      {0}},
};

/* ---- learned qparams ---- */

static intact_status learnable_spec(intact_context *context, const intact_node *node, const intact_tensor *const *operands,
                                    bool per_channel, intact_learnable_spec *spec) {
  int64_t axis = per_channel ? intact__attr_int(node, "axis") : -1;
  if (per_channel && (axis < 0 || axis >= operands[0]->rank))
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': axis %lld is not one of the %d axes of x", node->op->name, node->name,
                (long long)axis, operands[0]->rank);
  *spec = (intact_learnable_spec){.where = node->name,
                                  .axis = (int)axis,
                                  .low = intact__attr_int(node, "quant_min"),
                                  .high = intact__attr_int(node, "quant_max"),
                                  .scale = operands[1],
                                  .zero_point = operands[2],
                                  .grad_factor = (float)intact__attr_float(node, "grad_factor")};
  return INTACT_OK;
}

static intact_status eval_learnable(const intact_call *call, bool per_channel) {
  intact_learnable_spec spec;
  intact_tensor *y;
  INTACT_TRY(learnable_spec(call->context, call->node, call->operands, per_channel, &spec));
  INTACT_TRY(intact__learnable_forward(call->operands[0], &spec, &y));
  return intact__give_result(call, 0, y->dtype, y);
}

static intact_status grad_learnable(intact_grad *grad, bool per_channel) {
  if (!grad->d_results[0]) return INTACT_OK;
  intact_learnable_spec spec;
  intact_tensor *made[3], *out;
  INTACT_TRY(learnable_spec(grad->context, grad->node, grad->operands, per_channel, &spec));
  INTACT_TRY(intact__learnable_backward(grad->operands[0], grad->d_results[0], &spec, &made[0], &made[1], &made[2]));
  intact_status status = INTACT_OK;
  for (int i = 0; i < 3; i++) {
    if (status == INTACT_OK && grad->needed[i]) status = intact__grad_operand_raw(grad, i, &out);
    if (status == INTACT_OK && grad->needed[i]) memcpy(out->data, made[i]->data, (size_t)made[i]->count * sizeof(float));
    intact_tensor_destroy(made[i]);
  }
  return status;
}

static intact_status eval_learnable_per_tensor(const intact_call *call) { return eval_learnable(call, false); }
static intact_status grad_learnable_per_tensor(intact_grad *grad) { return grad_learnable(grad, false); }
static intact_status eval_learnable_per_channel(const intact_call *call) { return eval_learnable(call, true); }
static intact_status grad_learnable_per_channel(intact_grad *grad) { return grad_learnable(grad, true); }

const intact_op intact_op_fake_quantize_learnable_per_tensor_affine = {
    .name = "fake_quantize_learnable_per_tensor_affine",
    .doc = "fake_quantize_per_tensor_affine with gradients for scale and zero_point (learned step sizes), times grad_factor.",
    .schema = {FAKE_OPERANDS, INTACT_RESULTS("y"),
               INTACT_ATTRS(FAKE_RANGE, {.name = "grad_factor", .type = INTACT_ATTR_FLOAT, .f = 1.0})},
    .infer = infer_fake_quantize,
    .eval_f32 = eval_learnable_per_tensor,
    .grad = grad_learnable_per_tensor,
    .quant = FAKE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::_fake_quantize_learnable_per_tensor_affine", 0, 0,
                                       "quant_min=quant_min,quant_max=quant_max,grad_factor=grad_factor", NULL},
                                      {0}},
};

const intact_op intact_op_fake_quantize_learnable_per_channel_affine = {
    .name = "fake_quantize_learnable_per_channel_affine",
    .doc = "fake_quantize_learnable_per_tensor_affine with a scale and zero point for every index of axis.",
    .schema = {FAKE_OPERANDS, INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "axis", .type = INTACT_ATTR_INT, .required = true}, FAKE_RANGE,
                            {.name = "grad_factor", .type = INTACT_ATTR_FLOAT, .f = 1.0})},
    .infer = infer_fake_quantize,
    .eval_f32 = eval_learnable_per_channel,
    .grad = grad_learnable_per_channel,
    .quant = FAKE_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "aten::_fake_quantize_learnable_per_channel_affine", 0, 0,
                                       "axis=axis,quant_min=quant_min,quant_max=quant_max,grad_factor=grad_factor", NULL},
                                      {0}},
};
