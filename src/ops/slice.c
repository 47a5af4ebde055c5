/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that take a part of a tensor: slice, select, narrow, and split, chunk, unbind with several results. */
#include <string.h>

#include "ops/move.h"

/* ---- slice ---- */

enum { SLICE_START = 1, SLICE_END, SLICE_DIM, SLICE_STEP }; /* operands */

/* The four lists of a slice; start, dim and step may be left out. */
typedef struct slice_lists {
  int n;
  bool known; /* false: an operand whose elements are not known */
  int64_t start[INTACT_MAX_ELEMENTS], end[INTACT_MAX_ELEMENTS], dim[INTACT_MAX_ELEMENTS], step[INTACT_MAX_ELEMENTS];
} slice_lists;

/* Where a list comes from: one of both is NULL. */
typedef struct list_source {
  intact_infer *infer;
  const intact_call *call;
} list_source;

static intact_status read_list(list_source from, const char *name, int operand, int *n, int64_t *values, bool *given) {
  const intact_node *node = from.infer != NULL ? from.infer->node : from.call->node;
  *given = intact__attr(node, name)->present || (operand < node->n_operands && node->operands[operand] != NULL);
  if (!*given) return INTACT_OK;
  if (from.infer != NULL) return intact__infer_list(from.infer, name, operand, n, values);
  return intact__call_list(from.call, name, operand, n, values);
}

static intact_status read_slice(list_source from, slice_lists *lists) {
  intact_context *context = from.infer != NULL ? from.infer->context : from.call->context;
  const intact_node *node = from.infer != NULL ? from.infer->node : from.call->node;
  const char *names[] = {"start", "end", "dim", "step"};
  int64_t *const values[] = {lists->start, lists->end, lists->dim, lists->step};
  int n[4] = {0};
  bool given[4];
  lists->known = true;
  lists->n = -1;
  for (int i = 0; i < 4; i++) {
    INTACT_TRY(read_list(from, names[i], i + 1, &n[i], values[i], &given[i]));
    if (!given[i]) continue;
    if (n[i] < 0) {
      lists->known = false;
      return INTACT_OK;
    }
    if (lists->n >= 0 && lists->n != n[i]) {
      INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                  "slice '%s': %s has %d entries where another list has %d; they must agree", node->name, names[i], n[i],
                  lists->n);
    }
    lists->n = n[i];
  }
  if (lists->n < 0) lists->n = 1;
  for (int k = 0; k < lists->n; k++) {
    if (!given[0]) lists->start[k] = 0;
    if (!given[1]) lists->end[k] = INT64_MAX;
    if (!given[2]) lists->dim[k] = k;
    if (!given[3]) lists->step[k] = 1;
  }
  return INTACT_OK;
}

/* Python's rule for one axis: bounds cut to the axis; the count of elements from *start on. */
static int64_t slice_count(int64_t length, int64_t *start, int64_t end, int64_t step) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  int64_t from = *start < 0 ? (*start < -length ? -1 : *start + length) : *start;
  int64_t to = end < 0 ? (end < -length ? -1 : end + length) : end;
  if (end < -length) to = low;
  from = from < low ? low : from > high ? high : from;
  to = to < low ? low : to > high ? high : to;
  *start = from;
  if (step > 0) return from < to ? (to - from - 1) / step + 1 : 0;
  return from > to ? (from - to - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1 : 0;
}

/* What is left of a symbolic axis: itself when nothing is cut, a number for a cut that names both ends from one side. */
static int64_t slice_symbol(intact_infer *infer, int64_t dim, int64_t start, int64_t end, int64_t step) {
  bool whole = start == 0 && step == 1 &&
               (end == INT64_MAX || (intact__element_is_symbol(end) && intact__dim_from_element(end) == dim));
  if (whole || (start == 0 && step == 1 && end >= INT32_MAX)) return dim;
  bool backwards = step == -1 && (start == -1 || start >= INT32_MAX) && end <= -INT32_MAX;
  if (backwards && !intact__element_is_symbol(start)) return dim;
  return intact__infer_unknown_dim(infer);
}

static intact_status slice_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  slice_lists lists;
  int64_t dims[INTACT_MAX_RANK];
  INTACT_TRY(read_slice((list_source){infer, NULL}, &lists));
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  memcpy(dims, x->dims, sizeof dims);
  for (int k = 0; k < x->rank && !lists.known; k++) dims[k] = intact__infer_unknown_dim(infer);
  for (int i = 0; i < lists.n && lists.known; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(infer->context, node, "dim", lists.dim[i], x->rank, &axis));
    if (x->rank == 0 || lists.step[i] == 0) {
      INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                  "slice '%s': step is %lld on a tensor of %d axes; a step other than 0 "
                  "and at least one axis are needed",
                  node->name, (long long)lists.step[i], x->rank);
    }
    int64_t start = lists.start[i], end = lists.end[i];
    bool symbolic =
        dims[axis] < 0 || (infer->graph != NULL && (intact__element_is_symbol(start) || intact__element_is_symbol(end)));
    dims[axis] = symbolic ? slice_symbol(infer, dims[axis], start, end, lists.step[i])
                          : slice_count(dims[axis], &start, end, lists.step[i]);
  }
  return intact__infer_result(infer, 0, x->dtype, x->rank, dims);
}

static intact_status slice_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  slice_lists lists;
  INTACT_TRY(read_slice((list_source){NULL, call}, &lists));
  move->from = intact__view_of(x);
  move->rank = x->rank;
  for (int i = 0; i < lists.n; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(call->context, call->node, "dim", lists.dim[i], x->rank, &axis));
    if (x->rank == 0 || lists.step[i] == 0) {
      INTACT_FAIL(call->context, INVALID_VALUE, call->node->name,
                  "slice '%s': step is %lld on a tensor of %d axes; a step other "
                  "than 0 and at least one axis are needed",
                  call->node->name, (long long)lists.step[i], x->rank);
    }
    int64_t start = lists.start[i], count = slice_count(move->from.dims[axis], &start, lists.end[i], lists.step[i]);
    move->from.dims[axis] = count;
    if (count == 0) continue;
    move->from.offset += start * move->from.strides[axis];
    move->from.strides[axis] *= count > 1 ? lists.step[i] : 1;
  }
  memcpy(move->dims, move->from.dims, sizeof move->dims);
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ANY, slice, "y = x[start : end : step] along each axis of dim, bounds as in Python.",
                INTACT_MOVE_SCHEMA(
                    INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"start_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL},
                                    {"end_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL},
                                    {"dim_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL},
                                    {"step_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}),
                    INTACT_RESULTS("y"),
                    INTACT_ATTRS(INTACT_A_INTS("dim"), INTACT_A_INTS("start"), INTACT_A_INTS("end"), INTACT_A_INTS("step"))),
                INTACT_ATEN("slice"), INTACT_ATEN("slice.Tensor"), INTACT_ATEN("slice_copy.Tensor"),
                /* slice_lists: constant operands 1..4 (starts, ends, axes, steps) become attributes, others stay operands */
                INTACT_ONNX_AS("Slice", "starts=start,ends=end,axes=dim", "slice_lists"),
                /* slice_order: operands are data, start, stop, step, axes */
                INTACT_OPENVINO_AS("Slice", "", "slice_order"))

/* ---- select ---- */

static intact_status select_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int axis = 0, n = 0;
  int64_t dims[INTACT_MAX_RANK], index = intact__attr_int(infer->node, "index");
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(intact__op_axis(infer->context, infer->node, "dim", intact__attr_int(infer->node, "dim"), x->rank, &axis));
  if (x->rank == 0 || (x->dims[axis] >= 0 && (index < -x->dims[axis] || index >= x->dims[axis]))) {
    char shape[160];
    INTACT_FAIL(infer->context, OUT_OF_RANGE, infer->node->name,
                "select '%s': index %lld on axis %d of shape %s; it must lie "
                "within the axis",
                infer->node->name, (long long)index, axis, intact__shape_text(x->rank, x->dims, shape));
  }
  for (int k = 0; k < x->rank; k++) {
    if (k != axis) dims[n++] = x->dims[k];
  }
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status select_plan(const intact_call *call, intact_move *move) {
  const intact_tensor *x = call->operands[0];
  int axis = 0;
  int64_t index = intact__attr_int(call->node, "index");
  INTACT_TRY(intact__op_axis(call->context, call->node, "dim", intact__attr_int(call->node, "dim"), x->rank, &axis));
  intact_view dense = intact__view_of(x);
  if (x->rank == 0 || index < -dense.dims[axis] || index >= dense.dims[axis]) {
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "select '%s': index %lld lies outside of axis %d",
                call->node->name, (long long)index, axis);
  }
  if (index < 0) index += dense.dims[axis];
  move->from.offset = index * dense.strides[axis];
  for (int k = 0; k < x->rank; k++) {
    if (k == axis) continue;
    move->dims[move->rank++] = dense.dims[k];
    intact__view_add_axis(&move->from, dense.dims[k], dense.strides[k]);
  }
  return INTACT_OK;
}

INTACT_MOVE_ROW(INTACT_INT_ROWS, select, "y = x[index] along axis dim, which goes away.",
                INTACT_MOVE_SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT_NEEDED("dim"), INTACT_A_INT_NEEDED("index"))),
                INTACT_ATEN("select"), INTACT_ATEN("select.int"), INTACT_ATEN("select_copy.int"))

/* ---- several parts: result i is x[begin_i .. begin_i + length_i] along one axis ---- */

typedef intact_status (*parts_fn)(intact_context *context, const intact_node *node, int64_t length, int n, int64_t *lengths);

static intact_status refuse_parts(intact_context *context, const intact_node *node, int64_t length, const char *rule) {
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': an axis of length %lld into %d results; %s", node->op->name,
              node->name, (long long)length, node->n_results, rule);
}

/* Parts of `size` each, the last may be shorter. An empty axis is one empty part. */
static intact_status equal_parts(intact_context *context, const intact_node *node, int64_t length, int64_t size, int n,
                                 int64_t *lengths) {
  int64_t count = length == 0 ? 1 : size > 0 ? (length - 1) / size + 1 : -1;
  if (count != n) return refuse_parts(context, node, length, "the parts do not come out at that number");
  for (int i = 0; i < n; i++) lengths[i] = length - i * size < size ? length - i * size : size;
  return INTACT_OK;
}

static intact_status split_parts(intact_context *context, const intact_node *node, int64_t length, int n, int64_t *lengths) {
  return equal_parts(context, node, length, intact__attr_int(node, "split_size"), n, lengths);
}

static intact_status chunk_parts(intact_context *context, const intact_node *node, int64_t length, int n, int64_t *lengths) {
  int64_t chunks = intact__attr_int(node, "chunks");
  if (chunks < 1) return refuse_parts(context, node, length, "chunks must be at least 1");
  int64_t size = length / chunks + (length % chunks != 0);
  if (length == 0) {
    for (int i = 0; i < n; i++) lengths[i] = 0;
    return INTACT_OK;
  }
  return equal_parts(context, node, length, size, n, lengths);
}

static intact_status size_parts(intact_context *context, const intact_node *node, int64_t length, int n, int64_t *lengths) {
  const intact_attr *sizes = intact__attr(node, "split_sizes");
  int64_t rest = length;
  if (sizes->n != n) return refuse_parts(context, node, length, "split_sizes needs one entry a result");
  for (int i = 0; i < n; i++) {
    if (sizes->ints[i] < 0 || sizes->ints[i] > rest)
      return refuse_parts(context, node, length, "split_sizes must add up to it");
    lengths[i] = sizes->ints[i];
    rest -= sizes->ints[i];
  }
  return rest == 0 ? INTACT_OK : refuse_parts(context, node, length, "split_sizes must add up to it");
}

/* Lengths that do not depend on the axis, where the attributes tell them; false: they do. */
static bool fixed_length(const intact_node *node, parts_fn parts, int i, int64_t *length) {
  if (parts != size_parts) return false;
  const intact_attr *sizes = intact__attr(node, "split_sizes");
  if (i < sizes->n) *length = sizes->ints[i];
  return i < sizes->n;
}

static intact_status parts_infer(intact_infer *infer, parts_fn parts) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int axis = 0, n = node->n_results;
  int64_t dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(intact__op_axis(infer->context, node, "dim", intact__attr_int(node, "dim"), x->rank, &axis));
  if (x->rank == 0) return refuse_parts(infer->context, node, 1, "a tensor without axes can't be split");
  memcpy(dims, x->dims, sizeof dims);
  int64_t *lengths = intact__alloc(infer->context, (size_t)n + 1, sizeof *lengths);
  if (lengths == NULL) return intact__no_memory(infer->context, (size_t)n * sizeof *lengths);
  intact_status status = x->dims[axis] >= 0 ? parts(infer->context, node, x->dims[axis], n, lengths) : INTACT_OK;
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    if (x->dims[axis] < 0 && !fixed_length(node, parts, i, &lengths[i])) lengths[i] = intact__infer_unknown_dim(infer);
    dims[axis] = lengths[i];
    status = intact__infer_result(infer, i, x->dtype, x->rank, dims);
  }
  intact__free(infer->context, lengths);
  return status;
}

/* The view of part i of x: an axis of its length at its place. */
static intact_view part_view(const intact_tensor *x, int axis, const int64_t *lengths, int i) {
  intact_view view = intact__view_of(x);
  for (int k = 0; k < i; k++) view.offset += lengths[k] * view.strides[axis];
  view.dims[axis] = lengths[i];
  return view;
}

static intact_status parts_eval(const intact_call *call, parts_fn parts) {
  const intact_tensor *x = call->operands[0];
  int axis = 0;
  INTACT_TRY(intact__op_axis(call->context, call->node, "dim", intact__attr_int(call->node, "dim"), x->rank, &axis));
  if (x->rank == 0) return refuse_parts(call->context, call->node, 1, "a tensor without axes can't be split");
  int64_t *lengths = intact__alloc(call->context, (size_t)call->n_results + 1, sizeof *lengths);
  if (lengths == NULL) return intact__no_memory(call->context, (size_t)call->n_results * sizeof *lengths);
  intact_status status = parts(call->context, call->node, x->dims[axis], call->n_results, lengths);
  for (int i = 0; i < call->n_results && status == INTACT_OK; i++) {
    intact_view from = part_view(x, axis, lengths, i), to = intact__view_dense(x->rank, from.dims);
    intact_tensor *y = NULL;
    status = intact__call_result(call, i, x->dtype, x->rank, from.dims, &y);
    if (status == INTACT_OK) intact__view_copy(y, &to, x, &from);
  }
  intact__free(call->context, lengths);
  return status;
}

static intact_status parts_grad(intact_grad *grad, parts_fn parts) {
  const intact_tensor *x = grad->operands[0];
  intact_tensor *dx = NULL;
  int axis = 0;
  if (!grad->needed[0]) return INTACT_OK;
  INTACT_TRY(intact__op_axis(grad->context, grad->node, "dim", intact__attr_int(grad->node, "dim"), x->rank, &axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  int64_t *lengths = intact__alloc(grad->context, (size_t)grad->n_results + 1, sizeof *lengths);
  if (lengths == NULL) return intact__no_memory(grad->context, (size_t)grad->n_results * sizeof *lengths);
  intact_status status = parts(grad->context, grad->node, x->dims[axis], grad->n_results, lengths);
  for (int i = 0; i < grad->n_results && status == INTACT_OK; i++) {
    if (grad->d_results[i] == NULL) continue;
    intact_view to = part_view(x, axis, lengths, i), from = intact__view_dense(x->rank, to.dims);
    intact__view_copy(dx, &to, grad->d_results[i], &from);
  }
  intact__free(grad->context, lengths);
  return status;
}

#define PARTS_ROW(op, text, parts, attribute, ...)                                   \
  static intact_status op##_infer(intact_infer *infer) {                             \
    return parts_infer(infer, parts);                                                \
  }                                                                                  \
  static intact_status op##_eval(const intact_call *call) {                          \
    return parts_eval(call, parts);                                                  \
  }                                                                                  \
  static intact_status op##_grad(intact_grad *grad) {                                \
    return parts_grad(grad, parts);                                                  \
  }                                                                                  \
  const intact_op intact_op_##op = {                                                 \
      .name = #op,                                                                   \
      .doc = text,                                                                   \
      .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), .n_results = -1, \
                 INTACT_ATTRS(attribute, INTACT_A_INT("dim", 0))},                   \
      .infer = op##_infer,                                                           \
      .eval_f32 = op##_eval,                                                         \
      .grad = op##_grad,                                                             \
      .quant = {.result = INTACT_RESULT_SAME_AS},                                    \
      .int_layout = INTACT_INT_ROWS,                                                 \
      .check_int = intact__check_movement,                                           \
      .lower_int = intact__lower_movement,                                           \
      .on_integers = true,                                                           \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                        \
  };

PARTS_ROW(split, "x cut along dim into parts of split_size, the last may be shorter.", split_parts,
          INTACT_A_INT_NEEDED("split_size"), INTACT_ATEN("split"), INTACT_ATEN("split.Tensor"))
PARTS_ROW(split_with_sizes, "x cut along dim into parts of the given sizes.", size_parts,
          INTACT_A_INTS_NEEDED("split_sizes"), INTACT_ATEN("split_with_sizes"), INTACT_ATEN("split.sizes"),
          INTACT_ATEN("split_with_sizes_copy"),
          /* split_list: sizes from attribute split, constant operand 1, or equal parts (the last shorter) for each result */
          INTACT_ONNX_AS("Split", "axis=dim,split=split_sizes,num_outputs=", "split_list"),
          INTACT_OPENVINO_AS("VariadicSplit", "", "split_list"), INTACT_OPENVINO_AS("Split", "num_splits=", "split_list"))
PARTS_ROW(chunk, "x cut along dim into at most `chunks` parts of equal size, the last may be shorter.", chunk_parts,
          INTACT_A_INT_NEEDED("chunks"), INTACT_ATEN("chunk"))

/* ---- unbind: the axis goes away ---- */

static intact_status unbind_axis(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                 int *axis) {
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), rank, axis));
  if (rank == 0 || (dims[*axis] >= 0 && dims[*axis] != node->n_results)) {
    return refuse_parts(context, node, rank == 0 ? 1 : dims[*axis], "one result for each index is needed");
  }
  return INTACT_OK;
}

static intact_status unbind_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int axis = 0, n = 0;
  int64_t dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(unbind_axis(infer->context, infer->node, x->rank, x->dims, &axis));
  for (int k = 0; k < x->rank; k++) {
    if (k != axis) dims[n++] = x->dims[k];
  }
  for (int i = 0; i < infer->node->n_results; i++) INTACT_TRY(intact__infer_result(infer, i, x->dtype, n, dims));
  return INTACT_OK;
}

/* The view of x[i] along the axis. */
static intact_view index_view(const intact_tensor *x, int axis, int64_t i) {
  intact_view dense = intact__view_of(x), view = {.offset = i * dense.strides[axis]};
  for (int k = 0; k < x->rank; k++) {
    if (k != axis) intact__view_add_axis(&view, dense.dims[k], dense.strides[k]);
  }
  return view;
}

static intact_status unbind_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int axis = 0;
  INTACT_TRY(unbind_axis(call->context, call->node, x->rank, x->dims, &axis));
  for (int i = 0; i < call->n_results; i++) {
    intact_view from = index_view(x, axis, i), to = intact__view_dense(from.rank, from.dims);
    intact_tensor *y = NULL;
    INTACT_TRY(intact__call_result(call, i, x->dtype, from.rank, from.dims, &y));
    intact__view_copy(y, &to, x, &from);
  }
  return INTACT_OK;
}

static intact_status unbind_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0];
  intact_tensor *dx = NULL;
  int axis = 0;
  if (!grad->needed[0]) return INTACT_OK;
  INTACT_TRY(unbind_axis(grad->context, grad->node, x->rank, x->dims, &axis));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  for (int i = 0; i < grad->n_results; i++) {
    if (grad->d_results[i] == NULL) continue;
    intact_view to = index_view(x, axis, i), from = intact__view_dense(to.rank, to.dims);
    intact__view_copy(dx, &to, grad->d_results[i], &from);
  }
  return INTACT_OK;
}

const intact_op intact_op_unbind = {
    .name = "unbind",
    .doc = "x[0], x[1] ... along dim, which goes away.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), .n_results = -1, INTACT_ATTRS(INTACT_A_INT("dim", 0))},
    .infer = unbind_infer,
    .eval_f32 = unbind_eval,
    .grad = unbind_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .int_layout = INTACT_INT_ROWS,
    .check_int = intact__check_movement,
    .lower_int = intact__lower_movement,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("unbind"), INTACT_ATEN("unbind.int"), INTACT_ATEN("unbind_copy.int")),
};
