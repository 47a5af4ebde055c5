/* SPDX-License-Identifier: Apache-2.0 */
/* Row of the fused moving-average observer and fake quantization: the state goes in and comes out. */
#include <string.h>

#include "ops/common.h"
#include "tensor/fused_fake_quant.h"

enum { X, OBSERVER_ON, FAKE_QUANT_ON, RUNNING_MIN, RUNNING_MAX, SCALE, ZERO_POINT };

static int64_t state_size(const intact_node *node, const intact_tensor *x) {
  return intact__attr_int(node, "per_row_fake_quant") && x->rank > 0 ? x->dims[0] : 1;
}

static intact_status check_row(const intact_call *call) {
  const intact_node *node = call->node;
  const intact_tensor *x = call->operands[X];
  int64_t axis = intact__attr_int(node, "ch_axis"), n = state_size(node, x);
  bool per_row = intact__attr_int(node, "per_row_fake_quant");
  if (axis >= x->rank && axis > 0)
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': ch_axis %lld is not one of the %d axes of x", node->op->name,
                node->name, (long long)axis, x->rank);
  if (per_row && axis != 0)
    INTACT_FAIL(call->context, OUT_OF_RANGE, node->name, "%s '%s': per row works along axis 0 only, not %lld", node->op->name, node->name,
                (long long)axis);
  for (int i = RUNNING_MIN; i <= ZERO_POINT; i++) {
    const intact_tensor *t = call->operands[i];
    if (t->dtype != (i == ZERO_POINT ? INTACT_S32 : INTACT_F32))
      INTACT_FAIL(call->context, TYPE_MISMATCH, node->name, "%s '%s': operand %d is %s; the state is f32, its zero point s32",
                  node->op->name, node->name, i, intact_dtype_text(t->dtype));
    if (t->count != n && !(per_row && t->count <= 1))
      INTACT_FAIL(call->context, SIZE_MISMATCH, node->name, "%s '%s': operand %d has %lld elements instead of %lld", node->op->name,
                  node->name, i, (long long)t->count, (long long)n);
  }
  return INTACT_OK;
}

/* The state's tensors as results 2..5: copies, or fresh ones where they have to be sized first. */
static intact_status state_results(const intact_call *call, int64_t n, intact_fused_state *state) {
  intact_tensor *made[4];
  bool per_row = intact__attr_int(call->node, "per_row_fake_quant");
  for (int i = 0; i < 4; i++) {
    const intact_tensor *from = call->operands[RUNNING_MIN + i];
    bool keep = from->count == n;
    INTACT_TRY(intact__call_result(call, 2 + i, from->dtype, keep ? from->rank : 1, keep ? from->dims : &n, &made[i]));
    if (keep) memcpy(made[i]->data, from->data, intact_tensor_bytes(from));
    for (int64_t k = 0; !keep && per_row && k < n; k++) {
      const float start[4] = {INFINITY, -INFINITY, 1.0f, 0.0f};
      if (i < 3) intact__f32(made[i])[k] = start[i];
      if (i == 3) ((int32_t *)made[i]->data)[k] = 0;
    }
  }
  *state = (intact_fused_state){n, made[0]->data, made[1]->data, made[2]->data, made[3]->data};
  return INTACT_OK;
}

static intact_status eval_fused(const intact_call *call) {
  const intact_node *node = call->node;
  const intact_tensor *x = call->operands[X];
  INTACT_TRY(check_row(call));
  const intact_fused_spec spec = {.where = node->name,
                                  .observe = intact__tensor_get_s64(call->operands[OBSERVER_ON], 0) != 0,
                                  .fake_quantize = intact__tensor_get_s64(call->operands[FAKE_QUANT_ON], 0) != 0,
                                  .averaging_constant = (float)intact__attr_float(node, "averaging_const"),
                                  .low = intact__attr_int(node, "quant_min"),
                                  .high = intact__attr_int(node, "quant_max"),
                                  .per_row = intact__attr_int(node, "per_row_fake_quant"),
                                  .symmetric = intact__attr_int(node, "symmetric_quant")};
  intact_fused_state state;
  intact_tensor *y, *mask;
  INTACT_TRY(state_results(call, state_size(node, x), &state));
  INTACT_TRY(intact__fused_fake_quantize(x, &spec, &state, NULL, &y, &mask));
  intact_status status = intact__give_result(call, 0, y->dtype, y);
  if (status != INTACT_OK) {
    intact_tensor_destroy(mask);
    return status;
  }
  return intact__give_result(call, 1, INTACT_BOOL, mask);
}

/* dx = dy * mask, the mask of the forward. */
static intact_status grad_fused(intact_grad *grad) {
  if (!grad->needed[0] || !grad->d_results[0]) return INTACT_OK;
  intact_tensor *dx;
  INTACT_TRY(intact__grad_operand_raw(grad, 0, &dx));
  const uint8_t *mask = grad->results[1]->data;
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = intact__f32(grad->d_results[0])[i] * (mask[i] ? 1.0f : 0.0f);
  return INTACT_OK;
}

static intact_status infer_fused(intact_infer *infer) {
  const intact_value *x = infer->node->operands[X];
  bool per_row = intact__attr_int(infer->node, "per_row_fake_quant") && x->rank > 0;
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_F32, x->rank, x->dims));
  INTACT_TRY(intact__infer_result(infer, 1, INTACT_BOOL, x->rank, x->dims));
  for (int i = 0; i < 4; i++) {
    const intact_value *state = infer->node->operands[RUNNING_MIN + i];
    intact_dtype dtype = i == 3 ? INTACT_S32 : INTACT_F32;
    if (per_row)
      INTACT_TRY(intact__infer_result(infer, 2 + i, dtype, 1, x->dims));
    else
      INTACT_TRY(intact__infer_result(infer, 2 + i, dtype, state->rank, state->dims));
  }
  return INTACT_OK;
}

const intact_op intact_op_fused_moving_avg_obs_fake_quant = {
    .name = "fused_moving_avg_obs_fake_quant",
    .doc = "Moving-average range of x, qparams by the integer libraries' rule, fake quantization; the state goes in and comes out.",
    .schema = {INTACT_OPERANDS({"self", INTACT_ROLE_ACTIVATION, 0}, {"observer_on", INTACT_ROLE_NONE, 0},
                               {"fake_quant_on", INTACT_ROLE_NONE, 0}, {"running_min", INTACT_ROLE_NONE, 0},
                               {"running_max", INTACT_ROLE_NONE, 0}, {"scale", INTACT_ROLE_NONE, 0},
                               {"zero_point", INTACT_ROLE_NONE, 0}),
               INTACT_RESULTS("y", "mask", "running_min", "running_max", "scale", "zero_point"),
               INTACT_ATTRS({.name = "averaging_const", .type = INTACT_ATTR_FLOAT, .f = 0.01},
                            {.name = "quant_min", .type = INTACT_ATTR_INT, .required = true},
                            {.name = "quant_max", .type = INTACT_ATTR_INT, .required = true},
                            {.name = "ch_axis", .type = INTACT_ATTR_INT, .i = -1},
                            {.name = "per_row_fake_quant", .type = INTACT_ATTR_BOOL},
                            {.name = "symmetric_quant", .type = INTACT_ATTR_BOOL})},
    .infer = infer_fused,
    .eval_f32 = eval_fused,
    .grad = grad_fused,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = (const intact_alias[]){{"aten", "aten::fused_moving_avg_obs_fake_quant", 0, 0,
                                       "averaging_const=averaging_const,quant_min=quant_min,quant_max=quant_max,ch_axis=ch_axis,"
                                       "per_row_fake_quant=per_row_fake_quant,symmetric_quant=symmetric_quant",
                                       NULL},
                                      {0}},
};
