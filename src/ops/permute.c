/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that reorder axes or run along them backwards: permute, transpose, flip, and the shuffles of channels and pixels. */
#include <string.h>

#include "ops/move.h"

/* ---- permute, transpose ---- */

static intact_status permute_order(intact_context *context, const intact_node *node, int rank, int *order) {
  const intact_attr *dims = intact__attr(node, "dims");
  bool used[INTACT_MAX_RANK] = {false};
  for (int k = 0; k < rank; k++) order[k] = rank - 1 - k;
  if (!dims->present) return INTACT_OK;
  if (dims->n != rank) {
    INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                "permute '%s': dims has %d entries for a tensor of %d axes; one for each is "
                "needed",
                node->name, dims->n, rank);
  }
  for (int k = 0; k < rank; k++) {
    INTACT_TRY(intact__op_axis(context, node, "dims", dims->ints[k], rank, &order[k]));
    if (used[order[k]]) {
      INTACT_FAIL(context, DUPLICATE, node->name, "permute '%s': dims names axis %d twice; it must be a permutation",
                  node->name, order[k]);
    }
    used[order[k]] = true;
  }
  return INTACT_OK;
}

static intact_status infer_order(intact_infer *infer, const int *order) {
  const intact_value *x = infer->node->operands[0];
  int64_t dims[INTACT_MAX_RANK];
  for (int k = 0; k < x->rank; k++) dims[k] = x->dims[order[k]];
  return intact__infer_result(infer, 0, x->dtype, x->rank, dims);
}

static void plan_order(const intact_tensor *x, const int *order, intact_move *move) {
  intact_view dense = intact__view_of(x);
  move->rank = x->rank;
  for (int k = 0; k < x->rank; k++) {
    move->dims[k] = x->dims[order[k]];
    intact__view_add_axis(&move->from, dense.dims[order[k]], dense.strides[order[k]]);
  }
}

static intact_status permute_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int order[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(permute_order(infer->context, infer->node, x->rank, order));
  return infer_order(infer, order);
}

static intact_status permute_plan(const intact_call *call, intact_move *move) {
  int order[INTACT_MAX_RANK];
  INTACT_TRY(permute_order(call->context, call->node, call->operands[0]->rank, order));
  plan_order(call->operands[0], order, move);
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ROWS, permute, "y = x with its axes in the order dims; reversed when dims is left out.",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INTS("dims"))), INTACT_ATEN("permute"),
                INTACT_ATEN("permute_copy"), INTACT_ATEN("t"), INTACT_ATEN("numpy_T"),
                INTACT_ONNX_AS("Transpose", "perm=dims", NULL),
                /* order_list: constant operand 1 becomes dims */
                INTACT_OPENVINO_AS("Transpose", "", "order_list"))

static intact_status transpose_order(intact_context *context, const intact_node *node, int rank, int *order) {
  int a = 0, b = 0;
  INTACT_TRY(intact__op_axis(context, node, "dim0", intact__attr_int(node, "dim0"), rank, &a));
  INTACT_TRY(intact__op_axis(context, node, "dim1", intact__attr_int(node, "dim1"), rank, &b));
  for (int k = 0; k < rank; k++) order[k] = k == a ? b : k == b ? a : k;
  return INTACT_OK;
}

static intact_status transpose_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int order[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(transpose_order(infer->context, infer->node, x->rank, order));
  return infer_order(infer, order);
}

static intact_status transpose_plan(const intact_call *call, intact_move *move) {
  int order[INTACT_MAX_RANK];
  INTACT_TRY(transpose_order(call->context, call->node, call->operands[0]->rank, order));
  plan_order(call->operands[0], order, move);
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ROWS, transpose, "y = x with axes dim0 and dim1 exchanged.",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT_NEEDED("dim0"), INTACT_A_INT_NEEDED("dim1"))),
                INTACT_ATEN("transpose"), INTACT_ATEN("transpose.int"), INTACT_ATEN("transpose_copy.int"))

/* ---- flip ---- */

static intact_status flip_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  bool turned[INTACT_MAX_RANK];
  if (x->rank >= 0) INTACT_TRY(intact__op_axes(infer->context, infer->node, "dims", x->rank, turned));
  return intact__infer_like_first(infer);
}

static intact_status flip_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  bool turned[INTACT_MAX_RANK];
  INTACT_TRY(intact__op_axes(call->context, call->node, "dims", x->rank, turned));
  if (intact__attr(call->node, "dims")->n == 0) memset(turned, 0, sizeof turned);
  move->from = intact__view_of(x);
  move->rank = x->rank;
  for (int k = 0; k < x->rank; k++) {
    move->dims[k] = x->dims[k];
    if (!turned[k] || x->dims[k] == 0) continue;
    move->from.offset += (x->dims[k] - 1) * move->from.strides[k];
    move->from.strides[k] = -move->from.strides[k];
  }
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, flip, "y = x backwards along the axes dims.",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INTS_NEEDED("dims"))), INTACT_ATEN("flip"))

/* ---- shuffles: [.., C, H, W] regrouped ---- */

static intact_status refuse_shuffle(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                    const char *rule) {
  char shape[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': the operand has shape %s; %s", node->op->name, node->name,
              intact__shape_text(rank, dims, shape), rule);
}

/* One step of a shuffled shape: dims[axis] multiplied or divided; a symbol gives INT64_MIN (unknown) unless by is 1. */
static bool scale_dim(int64_t *dim, int64_t by, bool divide) {
  if (*dim < 0) {
    if (by != 1) *dim = INT64_MIN;
    return true;
  }
  if (divide) {
    if (*dim % by != 0) return false;
    *dim /= by;
    return true;
  }
  if (*dim != 0 && by > INT64_MAX / *dim) return false;
  *dim *= by;
  return true;
}

/* The result's shape: channels by factor^2 to pixels (up) or back. */
static intact_status shuffled_dims(intact_context *context, const intact_node *node, int64_t factor, bool up, int rank,
                                   const int64_t *dims, int64_t *result) {
  if (rank < 3) return refuse_shuffle(context, node, rank, dims, "at least 3 axes (C, H, W) are needed");
  if (factor < 1 || factor > INT32_MAX) return refuse_shuffle(context, node, rank, dims, "the factor must be at least 1");
  for (int k = 0; k < rank; k++) result[k] = dims[k];
  bool fits = scale_dim(&result[rank - 3], factor * factor, up);
  fits = fits && scale_dim(&result[rank - 2], factor, !up) && scale_dim(&result[rank - 1], factor, !up);
  if (!fits) {
    return refuse_shuffle(
        context, node, rank, dims,
        up ? "channels must be a multiple of the factor squared" : "height and width must be multiples of the factor");
  }
  return INTACT_OK;
}

static intact_status shuffle_infer(intact_infer *infer, const char *factor, bool up) {
  const intact_value *x = infer->node->operands[0];
  int64_t dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(shuffled_dims(infer->context, infer->node, intact__attr_int(infer->node, factor), up, x->rank, x->dims, dims));
  for (int k = 0; k < x->rank; k++) {
    if (dims[k] == INT64_MIN) dims[k] = intact__infer_unknown_dim(infer);
  }
  return intact__infer_result(infer, 0, x->dtype, x->rank, dims);
}

/* `up`: the result reads [.., C, r, r, H, W] (channel major) or [.., r, r, C, H, W] in the order C H r W r.
   Else it reads [.., C, H, r, W, r] in the order C r r H W (channel major) or r r C H W. */
static intact_status shuffle_plan(const intact_call *call, const char *factor, bool up, bool channel_major,
                                  intact_move *move) {
  const intact_tensor *x = call->operands[0];
  int64_t r = intact__attr_int(call->node, factor);
  move->rank = x->rank;
  INTACT_TRY(shuffled_dims(call->context, call->node, r, up, x->rank, x->dims, move->dims));
  intact_view dense = intact__view_of(x);
  int c = x->rank - 3;
  int64_t channels = up ? move->dims[c] : x->dims[c], height = up ? x->dims[c + 1] : move->dims[c + 1];
  int64_t width = up ? x->dims[c + 2] : move->dims[c + 2], plane = dense.strides[c], row = dense.strides[c + 1];
  if (x->count == 0) plane = row = 0; /* nothing is read, and the factor may be anything */
  for (int k = 0; k < c; k++) intact__view_add_axis(&move->from, dense.dims[k], dense.strides[k]);
  if (up) {
    int64_t of_channel = channel_major ? plane * r * r : plane, of_i = channel_major ? plane * r : plane * channels * r;
    int64_t of_j = channel_major ? plane : plane * channels;
    intact__view_add_axis(&move->from, channels, of_channel);
    intact__view_add_axis(&move->from, height, row);
    intact__view_add_axis(&move->from, r, of_i);
    intact__view_add_axis(&move->from, width, 1);
    intact__view_add_axis(&move->from, r, of_j);
    return INTACT_OK;
  }
  if (channel_major) intact__view_add_axis(&move->from, channels, plane);
  intact__view_add_axis(&move->from, r, row);
  intact__view_add_axis(&move->from, r, 1);
  if (!channel_major) intact__view_add_axis(&move->from, channels, plane);
  intact__view_add_axis(&move->from, height, row * r);
  intact__view_add_axis(&move->from, width, r);
  return INTACT_OK;
}

#define SHUFFLE_ROW(op, text, factor, up, channel_major, ...)                                                        \
  static intact_status op##_infer(intact_infer *infer) {                                                             \
    return shuffle_infer(infer, factor, up);                                                                         \
  }                                                                                                                  \
  static intact_status op##_plan(const intact_call *call, intact_move *move) {                                       \
    return shuffle_plan(call, factor, up, channel_major, move);                                                      \
  }                                                                                                                  \
  INTACT_MOVE_ROW(INTACT_INT_ANY, op, text, INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT_NEEDED(factor))), \
                  __VA_ARGS__)

SHUFFLE_ROW(pixel_shuffle, "[N, C r r, H, W] to [N, C, H r, W r]: y[c, h r + i, w r + j] = x[c r r + i r + j, h, w].",
            "upscale_factor", true, true, INTACT_ATEN("pixel_shuffle"))
SHUFFLE_ROW(pixel_unshuffle, "[N, C, H r, W r] to [N, C r r, H, W]: the inverse of pixel_shuffle.", "downscale_factor",
            false, true, INTACT_ATEN("pixel_unshuffle"))
SHUFFLE_ROW(depth_to_space, "[N, r r C, H, W] to [N, C, H r, W r]: y[c, h r + i, w r + j] = x[(i r + j) C + c, h, w].",
            "block_size", true, false,
            /* depth_to_space_mode: mode CRD makes it the row pixel_shuffle */
            INTACT_ONNX_AS("DepthToSpace", "blocksize=block_size,mode=", "depth_to_space_mode"),
            INTACT_OPENVINO_AS("DepthToSpace", "block_size=block_size,mode=", "depth_to_space_mode"))
SHUFFLE_ROW(space_to_depth, "[N, C, H r, W r] to [N, r r C, H, W]: the inverse of depth_to_space.", "block_size", false,
            false, INTACT_ONNX_AS("SpaceToDepth", "blocksize=block_size", NULL),
            INTACT_OPENVINO_AS("SpaceToDepth", "block_size=block_size,mode=", "depth_to_space_mode"))

static intact_status channel_shuffle_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int64_t groups = intact__attr_int(infer->node, "groups");
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  if (x->rank < 2 || groups < 1 || (x->dims[1] >= 0 && x->dims[1] % groups != 0)) {
    return refuse_shuffle(infer->context, infer->node, x->rank, x->dims, "axis 1 must be a multiple of groups >= 1");
  }
  return intact__infer_like_first(infer);
}

static intact_status channel_shuffle_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  int64_t groups = intact__attr_int(call->node, "groups");
  intact_view dense = intact__view_of(x);
  if (x->rank < 2 || groups < 1 || x->dims[1] % groups != 0) {
    return refuse_shuffle(call->context, call->node, x->rank, x->dims, "axis 1 must be a multiple of groups >= 1");
  }
  move->rank = x->rank;
  for (int k = 0; k < x->rank; k++) {
    move->dims[k] = x->dims[k];
    if (k != 1) {
      intact__view_add_axis(&move->from, dense.dims[k], dense.strides[k]);
      continue;
    }
    intact__view_add_axis(&move->from, x->dims[1] / groups, dense.strides[1]);
    intact__view_add_axis(&move->from, groups, dense.strides[1] * (x->dims[1] / groups));
  }
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, channel_shuffle, "y[n, c groups + g] = x[n, g (C / groups) + c].",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT_NEEDED("groups"))), INTACT_ATEN("channel_shuffle"),
                INTACT_ATEN("native_channel_shuffle"))
