/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that join any number of tensors: cat along an axis, stack along a new one. */
#include <string.h>

#include "ops/move.h"

/* PyTorch lets an empty vector stand among tensors of any rank. */
static bool is_nothing(int rank, const int64_t *dims) {
  return rank == 1 && dims[0] == 0;
}

static intact_status refuse_join(intact_context *context, const intact_node *node, int i, int rank, const int64_t *dims,
                                 int first_rank, const int64_t *first) {
  char mine[160], theirs[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name,
              "%s '%s': operand %d has shape %s where another has %s; all but the joined axis "
              "must agree",
              node->op->name, node->name, i, intact__shape_text(rank, dims, mine),
              intact__shape_text(first_rank, first, theirs));
}

static intact_status refuse_empty(intact_context *context, const intact_node *node) {
  INTACT_FAIL(context, WRONG_USE, node->name, "%s '%s': there is no operand; at least one is needed", node->op->name,
              node->name);
}

static intact_dtype join_dtype(intact_dtype joined, intact_dtype next) {
  return intact__promote(joined, 1, next, 1);
}

/* ---- cat ---- */

/* Adds operand i to the shape: equal dims but on the axis, where lengths add up. */
static intact_status join_dims(intact_infer *infer, int i, int axis, const intact_value *first, int64_t *dims) {
  const intact_value *value = infer->node->operands[i];
  if (value->rank != first->rank) {
    return refuse_join(infer->context, infer->node, i, value->rank, value->dims, first->rank, first->dims);
  }
  for (int k = 0; k < value->rank; k++) {
    int64_t dim = value->dims[k];
    if (k == axis) {
      if (dim < 0 || dims[k] < 0) {
        dims[k] = INT64_MIN;
      } else if (dim > INT64_MAX - dims[k]) {
        return refuse_join(infer->context, infer->node, i, value->rank, value->dims, first->rank, first->dims);
      } else {
        dims[k] += dim;
      }
    } else if (dims[k] < 0) {
      dims[k] = dim >= 0 ? dim : dims[k];
    } else if (dim >= 0 && dim != dims[k]) {
      return refuse_join(infer->context, infer->node, i, value->rank, value->dims, first->rank, first->dims);
    }
  }
  return INTACT_OK;
}

static intact_status cat_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *first = NULL;
  if (node->n_operands == 0) return refuse_empty(infer->context, node);
  intact_dtype dtype = node->operands[0]->dtype;
  for (int i = 0; i < node->n_operands; i++) {
    dtype = join_dtype(dtype, node->operands[i]->dtype);
    if (node->operands[i]->rank < 0) return intact__infer_unranked(infer, dtype);
    if (first == NULL && !is_nothing(node->operands[i]->rank, node->operands[i]->dims)) first = node->operands[i];
  }
  if (first == NULL) first = node->operands[0];
  int axis = 0;
  int64_t dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__op_axis(infer->context, node, "dim", intact__attr_int(node, "dim"), first->rank, &axis));
  if (first->rank == 0) return refuse_join(infer->context, node, 0, 0, NULL, 0, NULL);
  memcpy(dims, first->dims, sizeof dims);
  int present = 0;
  for (int i = 0; i < node->n_operands; i++) {
    if (is_nothing(node->operands[i]->rank, node->operands[i]->dims)) continue;
    if (present++ > 0) INTACT_TRY(join_dims(infer, i, axis, first, dims));
  }
  if (dims[axis] == INT64_MIN) dims[axis] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, dtype, first->rank, dims);
}

/* Axis, type and shape of a call. */
static intact_status cat_shape(const intact_call *call, int *axis, intact_dtype *dtype, int *rank, int64_t *dims) {
  const intact_tensor *first = NULL;
  if (call->n_operands == 0) return refuse_empty(call->context, call->node);
  *dtype = call->operands[0]->dtype;
  for (int i = 0; i < call->n_operands; i++) {
    const intact_tensor *x = call->operands[i];
    *dtype = join_dtype(*dtype, x->dtype);
    if (first == NULL && !is_nothing(x->rank, x->dims)) first = x;
  }
  if (first == NULL) first = call->operands[0];
  INTACT_TRY(intact__op_axis(call->context, call->node, "dim", intact__attr_int(call->node, "dim"), first->rank, axis));
  if (first->rank == 0) return refuse_join(call->context, call->node, 0, 0, NULL, 0, NULL);
  *rank = first->rank;
  memcpy(dims, first->dims, sizeof first->dims);
  dims[*axis] = 0;
  for (int i = 0; i < call->n_operands; i++) {
    const intact_tensor *x = call->operands[i];
    if (is_nothing(x->rank, x->dims)) continue;
    bool fits = x->rank == *rank;
    for (int k = 0; k < x->rank && fits; k++) fits = k == *axis || x->dims[k] == dims[k];
    if (!fits) return refuse_join(call->context, call->node, i, x->rank, x->dims, first->rank, first->dims);
    dims[*axis] += x->dims[*axis];
  }
  return INTACT_OK;
}

static intact_status cat_eval(const intact_call *call) {
  int axis = 0, rank = 0;
  intact_dtype dtype;
  int64_t dims[INTACT_MAX_RANK], begin = 0;
  intact_tensor *y = NULL;
  INTACT_TRY(cat_shape(call, &axis, &dtype, &rank, dims));
  INTACT_TRY(intact__call_result(call, 0, dtype, rank, dims, &y));
  intact_view whole = intact__view_of(y);
  for (int i = 0; i < call->n_operands; i++) {
    intact_tensor *x = NULL;
    if (is_nothing(call->operands[i]->rank, call->operands[i]->dims)) continue;
    INTACT_TRY(intact__as_dtype(call->operands[i], dtype, &x));
    intact_view to = whole, from = intact__view_of(x);
    to.offset = begin * whole.strides[axis];
    to.dims[axis] = x->dims[axis];
    intact__view_copy(y, &to, x, &from);
    begin += x->dims[axis];
    intact_tensor_destroy(x);
  }
  return INTACT_OK;
}

static intact_status cat_grad(intact_grad *grad) {
  const intact_call call = intact__call_of_grad(grad);
  const intact_tensor *dy = grad->d_results[0];
  int axis = 0, rank = 0;
  intact_dtype dtype;
  int64_t dims[INTACT_MAX_RANK], begin = 0;
  if (dy == NULL) return INTACT_OK;
  INTACT_TRY(cat_shape(&call, &axis, &dtype, &rank, dims));
  intact_view whole = intact__view_of(dy);
  for (int i = 0; i < grad->n_operands; i++) {
    const intact_tensor *x = grad->operands[i];
    intact_tensor *dx = NULL;
    if (grad->needed[i]) INTACT_TRY(intact__grad_operand(grad, i, &dx));
    if (is_nothing(x->rank, x->dims)) continue;
    intact_view from = whole, to = intact__view_of(x);
    from.offset = begin * whole.strides[axis];
    from.dims[axis] = x->dims[axis];
    if (dx != NULL) intact__view_copy(dx, &to, dy, &from);
    begin += x->dims[axis];
  }
  return INTACT_OK;
}

const intact_op intact_op_cat = {
    .name = "cat",
    .doc = "y = the operands one after the other along dim.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, INTACT_VARIADIC}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("dim", 0))},
    .infer = cat_infer,
    .eval_f32 = cat_eval,
    .grad = cat_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS, .share_operands = true},
    .int_layout = INTACT_INT_ANY,
    .check_int = intact__check_cat,
    .lower_int = intact__lower_cat,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::cat", INTACT_OUTPUT), INTACT_QUANTIZED("quantized::cat_relu", INTACT_OUTPUT ",=@relu:1"),
                              INTACT_ATEN("cat"), INTACT_ATEN("concat"), INTACT_ATEN("concatenate"),
                              INTACT_ONNX_AS("Concat", "axis=dim", NULL), INTACT_OPENVINO_AS("Concat", "axis=dim", NULL)),
};

/* ---- stack ---- */

static intact_status stack_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  if (node->n_operands == 0) return refuse_empty(infer->context, node);
  const intact_value *first = node->operands[0];
  intact_dtype dtype = first->dtype;
  int axis = 0;
  int64_t same[INTACT_MAX_RANK], dims[INTACT_MAX_RANK + 1];
  for (int i = 0; i < node->n_operands; i++) {
    dtype = join_dtype(dtype, node->operands[i]->dtype);
    if (node->operands[i]->rank < 0) return intact__infer_unranked(infer, dtype);
  }
  INTACT_TRY(intact__op_axis(infer->context, node, "dim", intact__attr_int(node, "dim"), first->rank + 1, &axis));
  memcpy(same, first->dims, sizeof same);
  for (int i = 1; i < node->n_operands; i++) INTACT_TRY(join_dims(infer, i, -1, first, same));
  for (int k = 0, from = 0; k <= first->rank; k++) dims[k] = k == axis ? node->n_operands : same[from++];
  return intact__infer_result(infer, 0, dtype, first->rank + 1, dims);
}

/* The view of y[.., i, ..] along the stacked axis. */
static intact_view layer_view(const intact_tensor *y, int axis, int64_t i) {
  intact_view whole = intact__view_of(y), view = {.offset = i * whole.strides[axis]};
  for (int k = 0; k < y->rank; k++) {
    if (k != axis) intact__view_add_axis(&view, whole.dims[k], whole.strides[k]);
  }
  return view;
}

static intact_status stack_eval(const intact_call *call) {
  if (call->n_operands == 0) return refuse_empty(call->context, call->node);
  const intact_tensor *first = call->operands[0];
  intact_dtype dtype = first->dtype;
  int axis = 0;
  int64_t dims[INTACT_MAX_RANK + 1];
  intact_tensor *y = NULL;
  for (int i = 0; i < call->n_operands; i++) {
    const intact_tensor *x = call->operands[i];
    dtype = join_dtype(dtype, x->dtype);
    if (intact__shape_equal(x->rank, x->dims, first->rank, first->dims)) continue;
    return refuse_join(call->context, call->node, i, x->rank, x->dims, first->rank, first->dims);
  }
  INTACT_TRY(intact__op_axis(call->context, call->node, "dim", intact__attr_int(call->node, "dim"), first->rank + 1, &axis));
  for (int k = 0, from = 0; k <= first->rank; k++) dims[k] = k == axis ? call->n_operands : first->dims[from++];
  INTACT_TRY(intact__call_result(call, 0, dtype, first->rank + 1, dims, &y));
  for (int i = 0; i < call->n_operands; i++) {
    intact_tensor *x = NULL;
    INTACT_TRY(intact__as_dtype(call->operands[i], dtype, &x));
    intact_view to = layer_view(y, axis, i), from = intact__view_of(x);
    intact__view_copy(y, &to, x, &from);
    intact_tensor_destroy(x);
  }
  return INTACT_OK;
}

static intact_status stack_grad(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  int axis = 0;
  if (dy == NULL) return INTACT_OK;
  INTACT_TRY(intact__op_axis(grad->context, grad->node, "dim", intact__attr_int(grad->node, "dim"), dy->rank, &axis));
  for (int i = 0; i < grad->n_operands; i++) {
    intact_tensor *dx = NULL;
    if (!grad->needed[i]) continue;
    INTACT_TRY(intact__grad_operand(grad, i, &dx));
    intact_view from = layer_view(dy, axis, i), to = intact__view_of(dx);
    intact__view_copy(dx, &to, dy, &from);
  }
  return INTACT_OK;
}

const intact_op intact_op_stack = {
    .name = "stack",
    .doc = "y = the operands, all of one shape, along a new axis dim.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, INTACT_VARIADIC}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("dim", 0))},
    .infer = stack_infer,
    .eval_f32 = stack_eval,
    .grad = stack_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS, .share_operands = true},
    .int_layout = INTACT_INT_ROWS,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("stack")),
};
