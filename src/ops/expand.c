/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that repeat elements: expand, repeat, repeat_interleave. */
#include <string.h>

#include "ops/move.h"

/* ---- expand: broadcast to a shape ---- */

/* Shape of the result: the broadcast of both, -1 keeps x's dimension. `open` where a symbol leaves it unknown. */
static intact_status expanded_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int n,
                                   const int64_t *elements, int64_t open, int *result_rank, int64_t *result) {
  *result_rank = n > rank ? n : rank;
  if (*result_rank > INTACT_MAX_RANK) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "expand '%s': the result has %d axes; at most %d are supported",
                node->name, *result_rank, INTACT_MAX_RANK);
  }
  for (int k = 0; k < *result_rank; k++) {
    int at_x = k - (*result_rank - rank), at_size = k - (*result_rank - n);
    int64_t have = at_x >= 0 ? dims[at_x] : 1;
    int64_t want = at_size < 0 ? 1 : intact__element_is_symbol(elements[at_size]) ? open : elements[at_size];
    bool keeps = at_size >= 0 && elements[at_size] == -1 && at_x >= 0;
    if (at_size >= 0 && intact__element_is_symbol(elements[at_size]) &&
        have == intact__dim_from_element(elements[at_size])) {
      keeps = true;
    }
    if (keeps || want == 1 || want == have) {
      result[k] = have;
    } else if (have == 1 && (want >= 0 || want == open)) {
      result[k] = want == open && at_size >= 0 ? intact__dim_from_element(elements[at_size]) : want;
    } else if (have < 0 || want == open) {
      result[k] = want >= 0 ? want : open;
    } else {
      char mine[160];
      INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                  "expand '%s': shape %s can't have %lld as axis %d of the result; only axes "
                  "of length 1 expand",
                  node->name, intact__shape_text(rank, dims, mine), (long long)want, k);
    }
  }
  return INTACT_OK;
}

static intact_status expand_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int n = 0, rank = 0;
  int64_t elements[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_list(infer, "size", 1, &n, elements));
  if (x->rank < 0 || n < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(expanded_dims(infer->context, infer->node, x->rank, x->dims, n, elements, INT64_MIN, &rank, dims));
  for (int k = 0; k < rank; k++) {
    if (dims[k] == INT64_MIN) dims[k] = intact__infer_unknown_dim(infer);
  }
  return intact__infer_result(infer, 0, x->dtype, rank, dims);
}

static intact_status expand_plan(const intact_call *call, intact_move *move) {
  int n = 0;
  int64_t elements[INTACT_MAX_ELEMENTS];
  const intact_tensor *x = call->operands[0];
  INTACT_TRY(intact__call_list(call, "size", 1, &n, elements));
  INTACT_TRY(expanded_dims(call->context, call->node, x->rank, x->dims, n, elements, -1, &move->rank, move->dims));
  for (int k = 0; k < move->rank; k++) {
    if (move->dims[k] >= 0) continue;
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "expand '%s': axis %d of the result would have length %lld",
                call->node->name, k, (long long)move->dims[k]);
  }
  move->from = intact__view_broadcast(x, move->rank, move->dims);
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, expand, "y = x broadcast to size; -1 keeps a dimension.",
                INTACT_MOVE_SCHEMA(INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0},
                                                   {"size_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}),
                                   INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INTS("size"))),
                INTACT_ATEN_AS("expand", "size=size,implicit=", NULL),
                INTACT_ATEN_AS("expand_copy", "size=size,implicit=", NULL),
                INTACT_ATEN_AS("broadcast_to", "size=size", NULL),
                /* size_list: constant operand 1 becomes attribute size, another stays an operand */
                INTACT_ONNX_AS("Expand", "", "size_list"), INTACT_OPENVINO_AS("Broadcast", "mode=", "size_list"))

/* ---- repeat ---- */

static intact_status refuse_repeat(intact_context *context, const intact_node *node, int64_t repeats) {
  INTACT_FAIL(context, OUT_OF_RANGE, node->name,
              "%s '%s': repeats holds %lld; it must not be negative and the result must be "
              "addressable",
              node->op->name, node->name, (long long)repeats);
}

/* dim * by into *product; unknown symbols give INT64_MIN. */
static bool multiply_dim(int64_t dim, int64_t by, int64_t *product) {
  if (dim < 0) {
    *product = by == 1 ? dim : by == 0 ? 0 : INT64_MIN;
    return by >= 0;
  }
  if (by < 0 || (dim != 0 && by > INT64_MAX / dim)) return false;
  *product = dim * by;
  return true;
}

static intact_status repeat_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int n = 0;
  int64_t repeats[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_list(infer, "repeats", 1, &n, repeats));
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  const intact_value *list = intact__infer_operand(infer, 1); /* unknown elements: its length may still be known */
  const int64_t length = n >= 0 ? n : list->rank == 1 ? list->dims[0] : list->rank == 0;
  if (length > INTACT_MAX_RANK) return refuse_repeat(infer->context, infer->node, length);
  int rank = length > x->rank ? (int)length : x->rank;
  for (int k = 0; k < rank; k++) {
    int at_x = k - (rank - x->rank), at = k - (rank - n);
    int64_t dim = at_x >= 0 ? x->dims[at_x] : 1, by = n >= 0 && at >= 0 ? repeats[at] : 1;
    bool unknown = n < 0 || (at >= 0 && intact__element_is_symbol(repeats[at]) && infer->graph != NULL);
    if (unknown) {
      bool one = n >= 0 && dim == 1;
      dims[k] = one ? intact__dim_from_element(repeats[at]) : intact__infer_unknown_dim(infer);
      continue;
    }
    if (!multiply_dim(dim, by, &dims[k])) return refuse_repeat(infer->context, infer->node, by);
    if (dims[k] == INT64_MIN) dims[k] = intact__infer_unknown_dim(infer);
  }
  return intact__infer_result(infer, 0, x->dtype, rank, dims);
}

static intact_status repeat_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  int n = 0;
  int64_t repeats[INTACT_MAX_ELEMENTS];
  INTACT_TRY(intact__call_list(call, "repeats", 1, &n, repeats));
  intact_view dense = intact__view_of(x);
  move->rank = n > x->rank ? n : x->rank;
  if (move->rank > INTACT_MAX_RANK) return refuse_repeat(call->context, call->node, n);
  for (int k = 0; k < move->rank; k++) {
    int at_x = k - (move->rank - x->rank), at = k - (move->rank - n);
    int64_t dim = at_x >= 0 ? x->dims[at_x] : 1, by = at >= 0 ? repeats[at] : 1;
    if (!multiply_dim(dim, by, &move->dims[k])) return refuse_repeat(call->context, call->node, by);
    intact__view_add_axis(&move->from, by, 0);
    intact__view_add_axis(&move->from, dim, at_x >= 0 ? dense.strides[at_x] : 0);
  }
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, repeat, "y = x laid side by side repeats[k] times along axis k.",
                INTACT_MOVE_SCHEMA(INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0},
                                                   {"repeats_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}),
                                   INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INTS("repeats"))),
                INTACT_ATEN("repeat"), INTACT_ATEN_AS("tile", "dims=repeats", NULL),
                /* repeats_list: constant operand 1 becomes attribute repeats, another stays an operand */
                INTACT_ONNX_AS("Tile", "", "repeats_list"), INTACT_OPENVINO_AS("Tile", "", "repeats_list"))

/* Axis to repeat along; without dim the flattened tensor. */
static intact_status interleave_axis(intact_context *context, const intact_node *node, int rank, int *axis, bool *flat) {
  const intact_attr *dim = intact__attr(node, "dim");
  *axis = 0;
  *flat = !dim->present || rank == 0;
  if (!*flat) INTACT_TRY(intact__op_axis(context, node, "dim", dim->i, rank, axis));
  if (intact__attr_int(node, "repeats") < 0) return refuse_repeat(context, node, intact__attr_int(node, "repeats"));
  return INTACT_OK;
}

static intact_status repeat_interleave_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int axis = 0;
  bool flat = false;
  int64_t dims[INTACT_MAX_RANK] = {1}, repeats = intact__attr_int(infer->node, "repeats");
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(interleave_axis(infer->context, infer->node, x->rank, &axis, &flat));
  if (!flat) memcpy(dims, x->dims, sizeof dims);
  for (int k = 0; k < x->rank && flat; k++) {
    if (dims[0] != INT64_MIN && x->dims[k] >= 0) {
      if (!multiply_dim(dims[0], x->dims[k], &dims[0])) return refuse_repeat(infer->context, infer->node, repeats);
    } else {
      dims[0] = INT64_MIN;
    }
  }
  if (dims[axis] != INT64_MIN && !multiply_dim(dims[axis], repeats, &dims[axis])) {
    return refuse_repeat(infer->context, infer->node, repeats);
  }
  if (dims[axis] == INT64_MIN) dims[axis] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, x->dtype, flat ? 1 : x->rank, dims);
}

static intact_status repeat_interleave_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  int axis = 0;
  bool flat = false;
  int64_t repeats = intact__attr_int(call->node, "repeats");
  INTACT_TRY(interleave_axis(call->context, call->node, x->rank, &axis, &flat));
  intact_view dense = flat ? intact__view_dense(1, &x->count) : intact__view_of(x);
  move->rank = dense.rank;
  for (int k = 0; k < dense.rank; k++) {
    move->dims[k] = dense.dims[k];
    intact__view_add_axis(&move->from, dense.dims[k], dense.strides[k]);
    if (k != axis) continue;
    if (!multiply_dim(dense.dims[k], repeats, &move->dims[k])) return refuse_repeat(call->context, call->node, repeats);
    intact__view_add_axis(&move->from, repeats, 0);
  }
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, repeat_interleave, "y = x with each element along dim standing `repeats` times in a row.",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT_NEEDED("repeats"), INTACT_A_INT_OR_NONE("dim"))),
                INTACT_ATEN("repeat_interleave"),
                INTACT_ATEN_AS("repeat_interleave.self_int", "repeats=repeats,dim=dim,output_size=", NULL))
