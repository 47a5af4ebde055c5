/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose result's length the data tell: compress (rows where a condition holds), masked_select; and eye, ones on a
 * diagonal. */
#include <string.h>

#include "ops/move.h"

/* ---- compress ---- */

/* The axis, or the elements in a row when dim is absent. */
static intact_status compress_axis(intact_context *context, const intact_node *node, int rank, int *axis, bool *flat) {
  const intact_attr *dim = intact__attr(node, "dim");
  *axis = 0;
  *flat = !dim->present || rank == 0;
  return *flat ? INTACT_OK : intact__op_axis(context, node, "dim", dim->i, rank, axis);
}

static intact_status compress_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int axis = 0;
  bool flat = false;
  int64_t dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(compress_axis(infer->context, infer->node, x->rank, &axis, &flat));
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, x->dtype, flat ? 1 : x->rank, dims);
}

static intact_status compress_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *condition = call->operands[1];
  int axis = 0;
  bool flat = false;
  intact_tensor *y = NULL;
  INTACT_TRY(compress_axis(call->context, call->node, x->rank, &axis, &flat));
  intact_view dense = flat ? intact__view_dense(1, &x->count) : intact__view_of(x);
  int64_t dims[INTACT_MAX_RANK] = {0}, length = dense.dims[axis], kept = 0;
  if (length > condition->count) length = condition->count;
  for (int64_t i = 0; i < length; i++) kept += intact__tensor_get_f64(condition, i) != 0;
  for (int k = 0; k < dense.rank; k++) dims[k] = k == axis ? kept : dense.dims[k];
  INTACT_TRY(intact__call_result(call, 0, x->dtype, dense.rank, dims, &y));
  intact_view from = dense, to = intact__view_of(y);
  from.dims[axis] = to.dims[axis] = 1;
  for (int64_t i = 0; i < length; i++) {
    if (intact__tensor_get_f64(condition, i) == 0) continue;
    from.offset = i * dense.strides[axis];
    intact__view_copy(y, &to, x, &from);
    to.offset += to.strides[axis];
  }
  return INTACT_OK;
}

static intact_status compress_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *condition = grad->operands[1], *dy = grad->d_results[0];
  int axis = 0;
  bool flat = false;
  intact_tensor *dx = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(compress_axis(grad->context, grad->node, x->rank, &axis, &flat));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_view to = flat ? intact__view_dense(1, &x->count) : intact__view_of(x), from = intact__view_of(dy);
  int64_t length = to.dims[axis] < condition->count ? to.dims[axis] : condition->count;
  to.dims[axis] = from.dims[axis] = 1;
  for (int64_t i = 0; i < length; i++) {
    if (intact__tensor_get_f64(condition, i) == 0) continue;
    to.offset = i * to.strides[axis];
    intact__view_copy(dx, &to, dy, &from);
    from.offset += from.strides[axis];
  }
  return INTACT_OK;
}

const intact_op intact_op_compress = {
    .name = "compress",
    .doc = "y = the slices of x along dim (the elements in a row when absent) for which the condition is true.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"condition", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT_OR_NONE("dim"))},
    .infer = compress_infer,
    .eval_f32 = compress_eval,
    .grad = compress_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("Compress", "axis=dim", NULL)),
};

/* ---- masked_select: operands broadcast, then compressed in a row ---- */

static intact_status masked_select_infer(intact_infer *infer) {
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK], length[1];
  INTACT_TRY(intact__infer_broadcast(infer, 0, 2, &rank, dims));
  length[0] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, infer->node->operands[0]->dtype, 1, length);
}

static intact_status masked_select_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *mask = call->operands[1];
  intact_status status = INTACT_OK;
  intact_tensor *wide = NULL, *truth = NULL, *y = NULL;
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK], kept = 0;
  if (!intact__broadcast_shapes(x->rank, x->dims, mask->rank, mask->dims, &rank, dims)) {
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "masked_select '%s': mask and operand do not broadcast",
                call->node->name);
  }
  intact_view dense = intact__view_dense(rank, dims), of_x = intact__view_broadcast(x, rank, dims);
  intact_view of_mask = intact__view_broadcast(mask, rank, dims);
  INTACT_TRY_TO(end, intact__tensor_create_raw(call->context, x->dtype, rank, dims, &wide));
  INTACT_TRY_TO(end, intact__tensor_create_raw(call->context, mask->dtype, rank, dims, &truth));
  intact__view_copy(wide, &dense, x, &of_x);
  intact__view_copy(truth, &dense, mask, &of_mask);
  for (int64_t i = 0; i < truth->count; i++) kept += intact__tensor_get_f64(truth, i) != 0;
  INTACT_TRY_TO(end, intact__call_result(call, 0, x->dtype, 1, &kept, &y));
  intact_view from = {0}, to = {0};
  for (int64_t i = 0; i < truth->count; i++) {
    if (intact__tensor_get_f64(truth, i) == 0) continue;
    from.offset = i;
    intact__view_copy(y, &to, wide, &from);
    to.offset++;
  }
end:
  intact_tensor_destroy(wide);
  intact_tensor_destroy(truth);
  return status;
}

/* Places that broadcast reads several times add up, in double. */
static intact_status masked_select_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *mask = grad->operands[1], *dy = grad->d_results[0];
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK], next = 0;
  intact_tensor *spread = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  if (!intact__broadcast_shapes(x->rank, x->dims, mask->rank, mask->dims, &rank, dims)) return INTACT_OK;
  INTACT_TRY(intact_tensor_create(grad->context, INTACT_F32, rank, dims, &spread));
  intact_view of_mask = intact__view_broadcast(mask, rank, dims), from = intact__view_broadcast(x, rank, dims);
  for (int64_t i = 0; i < spread->count; i++) {
    int64_t rest = i, at = 0;
    for (int k = rank - 1; k >= 0; k--) {
      at += rest % dims[k] * of_mask.strides[k];
      rest /= dims[k];
    }
    if (intact__tensor_get_f64(mask, at) != 0) intact__f32(spread)[i] = intact__f32(dy)[next++];
  }
  intact_status status = intact__grad_through_view(grad, 0, &from, spread);
  intact_tensor_destroy(spread);
  return status;
}

const intact_op intact_op_masked_select = {
    .name = "masked_select",
    .doc = "y = the elements of x where m is true, in a row; both broadcast.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"m", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y")},
    .infer = masked_select_infer,
    .eval_f32 = masked_select_eval,
    .grad = masked_select_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("masked_select")),
};

/* ---- eye_like ---- */

static intact_status eye_dims(intact_context *context, const intact_node *node, int rank) {
  if (rank < 0 || rank == 2) return INTACT_OK;
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "eye_like '%s': the operand has %d axes; a matrix is needed", node->name,
              rank);
}

static intact_status eye_like_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  const intact_attr *dtype = intact__attr(infer->node, "dtype");
  INTACT_TRY(eye_dims(infer->context, infer->node, x->rank));
  return intact__infer_result(infer, 0, dtype->present ? (intact_dtype)dtype->i : x->dtype, x->rank, x->dims);
}

static intact_status eye_like_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  const intact_attr *dtype = intact__attr(call->node, "dtype");
  int64_t diagonal = intact__attr_int(call->node, "diagonal");
  intact_tensor *y = NULL;
  INTACT_TRY(eye_dims(call->context, call->node, x->rank));
  INTACT_TRY(intact__call_result(call, 0, dtype->present ? (intact_dtype)dtype->i : x->dtype, 2, x->dims, &y));
  for (int64_t i = 0; i < y->count; i++) intact__tensor_set_f64(y, i, i % y->dims[1] - i / y->dims[1] == diagonal);
  return INTACT_OK;
}

const intact_op intact_op_eye_like = {
    .name = "eye_like",
    .doc = "y = a matrix of x's shape with 1 on the given diagonal, 0 elsewhere.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("diagonal", 0), INTACT_A_DTYPE_OR_NONE("dtype"))},
    .infer = eye_like_infer,
    .eval_f32 = eye_like_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("EyeLike", "k=diagonal,dtype=dtype", NULL)),
};
