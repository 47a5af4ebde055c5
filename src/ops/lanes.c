/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over lanes, and the driver of reductions. */
#include "ops/lanes.h"

#include <string.h>

intact_status intact__lanes_open(intact_context *context, int rank, const int64_t *dims, const bool *is_axis,
                                 intact_lanes *lanes) {
  *lanes = (intact_lanes){.context = context, .count = 1, .length = 1};
  intact_view dense = intact__view_dense(rank, dims);
  for (int k = 0; k < rank; k++) {
    if (!is_axis[k]) {
      lanes->kept_dims[lanes->kept] = dims[k];
      lanes->kept_strides[lanes->kept++] = dense.strides[k];
      lanes->count *= dims[k];
      continue;
    }
    lanes->length *= dims[k];
    int last = lanes->taken - 1;
    if (last >= 0 && lanes->taken_strides[last] == dense.strides[k] * dims[k]) {
      lanes->taken_dims[last] *= dims[k];
      lanes->taken_strides[last] = dense.strides[k];
    } else {
      lanes->taken_dims[lanes->taken] = dims[k];
      lanes->taken_strides[lanes->taken++] = dense.strides[k];
    }
  }
  if (lanes->taken <= 1) {
    lanes->stride = lanes->taken == 1 && lanes->taken_strides[0] != 0 ? lanes->taken_strides[0] : 1;
    return INTACT_OK;
  }
  if (lanes->count == 0) return INTACT_OK;
  lanes->offsets = intact__alloc(context, (size_t)lanes->length, sizeof(int64_t));
  if (lanes->offsets == NULL && lanes->length > 0)
    return intact__no_memory(context, (size_t)lanes->length * sizeof(int64_t));
  for (int64_t i = 0; i < lanes->length; i++) {
    int64_t rest = i, offset = 0;
    for (int k = lanes->taken - 1; k >= 0; k--) {
      offset += rest % lanes->taken_dims[k] * lanes->taken_strides[k];
      rest /= lanes->taken_dims[k];
    }
    lanes->offsets[i] = offset;
  }
  return INTACT_OK;
}

void intact__lanes_close(intact_lanes *lanes) {
  if (lanes->context != NULL) intact__free(lanes->context, lanes->offsets);
  lanes->offsets = NULL;
}

void intact__lanes_next(intact_lanes *lanes) {
  lanes->at++;
  for (int k = lanes->kept - 1; k >= 0; k--) {
    lanes->base += lanes->kept_strides[k];
    if (++lanes->index[k] < lanes->kept_dims[k]) return;
    lanes->base -= lanes->kept_dims[k] * lanes->kept_strides[k];
    lanes->index[k] = 0;
  }
}

void intact__lane_read_f64(const intact_lanes *lanes, const intact_tensor *x, double *values) {
  if (x->dtype == INTACT_F32) {
    const float *from = intact__f32(x);
    for (int64_t k = 0; k < lanes->length; k++) values[k] = (double)from[intact__lane_at(lanes, k)];
    return;
  }
  for (int64_t k = 0; k < lanes->length; k++) values[k] = intact__tensor_get_f64(x, intact__lane_at(lanes, k));
}

void intact__lane_read_s64(const intact_lanes *lanes, const intact_tensor *x, int64_t *values) {
  for (int64_t k = 0; k < lanes->length; k++) values[k] = intact__tensor_get_s64(x, intact__lane_at(lanes, k));
}

void intact__lane_write_f64(const intact_lanes *lanes, intact_tensor *y, const double *values) {
  if (y->dtype == INTACT_F32) {
    float *to = intact__f32(y);
    for (int64_t k = 0; k < lanes->length; k++) to[intact__lane_at(lanes, k)] = (float)values[k];
    return;
  }
  for (int64_t k = 0; k < lanes->length; k++) intact__tensor_set_f64(y, intact__lane_at(lanes, k), values[k]);
}

void intact__lane_write_s64(const intact_lanes *lanes, intact_tensor *y, const int64_t *values) {
  for (int64_t k = 0; k < lanes->length; k++) intact__tensor_set_s64(y, intact__lane_at(lanes, k), values[k]);
}

/* ---- reductions ---- */

int intact__reduced_dims(int rank, const int64_t *dims, const bool *is_axis, bool keepdim, int64_t *result) {
  int n = 0;
  for (int k = 0; k < rank; k++) {
    if (!is_axis[k]) result[n++] = dims[k];
    if (is_axis[k] && keepdim) result[n++] = 1;
  }
  return n;
}

static intact_status result_type(intact_context *context, const intact_node *node, const intact_reduction *op,
                                 intact_dtype dtype, intact_dtype *result) {
  const intact_attr *wanted = NULL;
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, "dtype") == 0) wanted = &node->attrs[i];
  }
  bool real = intact_dtype_is_float(dtype);
  if (!real && op->integer == NULL && (wanted == NULL || !wanted->present)) {
    INTACT_FAIL(context, TYPE_MISMATCH, node->name, "%s '%s': the operand is %s; float elements are needed (cast it before)",
                node->op->name, node->name, intact_dtype_text(dtype));
  }
  *result = op->type == INTACT_REDUCED_BOOL ? INTACT_BOOL : !real && op->type == INTACT_REDUCED_WIDENS ? INTACT_S64 : dtype;
  if (wanted != NULL && wanted->present) *result = (intact_dtype)wanted->i;
  return INTACT_OK;
}

/* The axes by attribute dim, else by operand 1 when it is there, else all. False in *known: the operand's content is open.
 */
static intact_status reduction_axes(intact_infer *infer, const intact_call *call, int rank, bool *is_axis, bool *known) {
  intact_context *context = infer != NULL ? infer->context : call->context;
  const intact_node *node = infer != NULL ? infer->node : call->node;
  const intact_attr *dim = intact__attr(node, "dim");
  int n = 0;
  int64_t axes[INTACT_MAX_ELEMENTS];
  *known = true;
  bool by_operand = node->n_operands > 1 && node->operands[1] != NULL;
  if (dim->present || !by_operand) return intact__op_axes(context, node, "dim", rank, is_axis);
  INTACT_TRY(infer != NULL ? intact__infer_list(infer, "dim", 1, &n, axes) : intact__call_list(call, "dim", 1, &n, axes));
  *known = n >= 0;
  for (int k = 0; k < rank; k++) is_axis[k] = n == 0;
  for (int i = 0; i < n; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(context, node, "dim", axes[i], rank, &axis));
    if (rank > 0) is_axis[axis] = true;
  }
  return INTACT_OK;
}

static intact_status refuse_empty_lane(intact_context *context, const intact_node *node, int rank, const int64_t *dims) {
  char shape[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': reduces no elements of shape %s; it has no value then",
              node->op->name, node->name, intact__shape_text(rank, dims, shape));
}

intact_status intact__reduction_infer(intact_infer *infer, const intact_reduction *op) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  bool is_axis[INTACT_MAX_RANK], known = true, keepdim = intact__attr_int(node, "keepdim") != 0, none = false, any = true;
  int64_t dims[INTACT_MAX_RANK];
  intact_dtype dtype;
  INTACT_TRY(result_type(infer->context, node, op, x->dtype, &dtype));
  if (x->rank < 0) return intact__infer_unranked(infer, dtype);
  INTACT_TRY(reduction_axes(infer, NULL, x->rank, is_axis, &known));
  for (int k = 0; k < x->rank; k++) {
    if (is_axis[k]) none = none || x->dims[k] == 0;
    if (!is_axis[k]) any = any && x->dims[k] != 0;
  }
  if (known && none && any && op->needs_one) return refuse_empty_lane(infer->context, node, x->rank, x->dims);
  if (!known && !keepdim) return intact__infer_unranked(infer, dtype);
  if (!known) {
    for (int k = 0; k < x->rank; k++) dims[k] = intact__infer_unknown_dim(infer);
    return intact__infer_result(infer, 0, dtype, x->rank, dims);
  }
  int rank = intact__reduced_dims(x->rank, x->dims, is_axis, keepdim, dims);
  return intact__infer_result(infer, 0, dtype, rank, dims);
}

intact_status intact__reduction_eval(const intact_call *call, const intact_reduction *op) {
  const intact_tensor *x = call->operands[0];
  bool is_axis[INTACT_MAX_RANK], known, real = intact_dtype_is_float(x->dtype) || op->integer == NULL;
  int64_t dims[INTACT_MAX_RANK];
  double p[INTACT_MAX_NUMBERS];
  intact_dtype dtype;
  intact_tensor *y = NULL;
  intact_lanes lanes = {0};
  void *lane = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY(result_type(call->context, call->node, op, x->dtype, &dtype));
  INTACT_TRY(reduction_axes(NULL, call, x->rank, is_axis, &known));
  int rank = intact__reduced_dims(x->rank, x->dims, is_axis, intact__attr_int(call->node, "keepdim") != 0, dims);
  INTACT_TRY(intact__call_result(call, 0, dtype, rank, dims, &y));
  INTACT_TRY_TO(end, intact__lanes_open(call->context, x->rank, x->dims, is_axis, &lanes));
  if (lanes.length == 0 && lanes.count > 0 && op->needs_one) {
    status = refuse_empty_lane(call->context, call->node, x->rank, x->dims);
    goto end;
  }
  intact__attr_numbers(call->node, p);
  lane = intact__alloc(call->context, (size_t)lanes.length + 1, sizeof(double));
  if (lane == NULL) INTACT_TRY_TO(end, intact__no_memory(call->context, (size_t)lanes.length * sizeof(double)));
  for (int64_t i = 0; i < lanes.count; i++, intact__lanes_next(&lanes)) {
    if (real) {
      intact__lane_read_f64(&lanes, x, lane);
      intact__tensor_set_f64(y, i, op->real(lane, lanes.length, p));
    } else {
      intact__lane_read_s64(&lanes, x, lane);
      intact__tensor_set_s64(y, i, op->integer(lane, lanes.length, p));
    }
  }
end:
  intact__free(call->context, lane);
  intact__lanes_close(&lanes);
  return status;
}

intact_status intact__reduction_grad(intact_grad *grad, const intact_reduction *op) {
  const intact_tensor *x = grad->operands[0], *y = grad->results[0], *dy = grad->d_results[0];
  const intact_call call = intact__call_of_grad(grad);
  bool is_axis[INTACT_MAX_RANK], known;
  double p[INTACT_MAX_NUMBERS];
  intact_tensor *dx = NULL;
  intact_lanes lanes = {0};
  double *lane = NULL;
  intact_status status = INTACT_OK;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(reduction_axes(NULL, &call, x->rank, is_axis, &known));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  INTACT_TRY_TO(end, intact__lanes_open(grad->context, x->rank, x->dims, is_axis, &lanes));
  intact__attr_numbers(grad->node, p);
  lane = intact__alloc(grad->context, (size_t)lanes.length * 2 + 1, sizeof *lane);
  if (lane == NULL) INTACT_TRY_TO(end, intact__no_memory(grad->context, (size_t)lanes.length * 2 * sizeof *lane));
  for (int64_t i = 0; i < lanes.count; i++, intact__lanes_next(&lanes)) {
    intact__lane_read_f64(&lanes, x, lane);
    op->grad(lane, lanes.length, intact__tensor_get_f64(y, i), intact__tensor_get_f64(dy, i), lane + lanes.length, p);
    intact__lane_write_f64(&lanes, dx, lane + lanes.length);
  }
end:
  intact__free(grad->context, lane);
  intact__lanes_close(&lanes);
  return status;
}
