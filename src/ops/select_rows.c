/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that pick rows by index along one axis: index_select (a vector of indices) and take_along (indices of any shape). */
#include <string.h>

#include "ops/move.h"

/* x is outer x length x inner around the axis; result outer x indices x inner. */
typedef struct row_pick {
  int axis;
  int64_t outer, length, inner, n;
} row_pick;

static intact_status plan_pick(intact_context *context, const intact_node *node, const intact_tensor *x,
                               const intact_tensor *index, row_pick *pick) {
  *pick = (row_pick){.outer = 1, .length = 1, .inner = 1, .n = index->count};
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), x->rank, &pick->axis));
  for (int k = 0; k < x->rank; k++) {
    if (k < pick->axis) pick->outer *= x->dims[k];
    if (k == pick->axis) pick->length = x->dims[k];
    if (k > pick->axis) pick->inner *= x->dims[k];
  }
  for (int64_t i = 0; i < index->count; i++) {
    int64_t at = intact__tensor_get_s64(index, i);
    if (at >= -pick->length && at < pick->length) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': index %lld at place %lld; it must lie in %lld..%lld",
                node->op->name, node->name, (long long)at, (long long)i, (long long)-pick->length,
                (long long)pick->length - 1);
  }
  return INTACT_OK;
}

static int64_t wrapped(const row_pick *pick, const intact_tensor *index, int64_t i) {
  int64_t at = intact__tensor_get_s64(index, i);
  return at < 0 ? at + pick->length : at;
}

static intact_status infer_pick(intact_infer *infer, bool vector) {
  const intact_value *x = infer->node->operands[0], *index = infer->node->operands[1];
  int axis = 0, n = 0;
  int64_t dims[2 * INTACT_MAX_RANK];
  if (x->rank < 0 || index->rank < 0) return intact__infer_unranked(infer, x->dtype);
  if (!intact_dtype_is_integer(index->dtype) || (vector && index->rank > 1)) {
    INTACT_FAIL(infer->context, TYPE_MISMATCH, infer->node->name, "%s '%s': the index is %s with %d axes; %s",
                infer->node->op->name, infer->node->name, intact_dtype_text(index->dtype), index->rank,
                vector ? "integers with at most one axis are needed" : "integers are needed");
  }
  INTACT_TRY(intact__op_axis(infer->context, infer->node, "dim", intact__attr_int(infer->node, "dim"), x->rank, &axis));
  if (x->rank == 0 && !vector) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s '%s': the operand has no axes; at least one is needed",
                infer->node->op->name, infer->node->name);
  }
  for (int k = 0; k < axis; k++) dims[n++] = x->dims[k];
  for (int k = 0; k < index->rank; k++) dims[n++] = index->dims[k];
  if (vector && index->rank == 0 && x->rank > 0) dims[n++] = 1;
  for (int k = axis + 1; k < x->rank; k++) dims[n++] = x->dims[k];
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status eval_pick(const intact_call *call, bool vector) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1];
  row_pick pick;
  int n = 0;
  int64_t dims[2 * INTACT_MAX_RANK];
  intact_tensor *y = NULL;
  INTACT_TRY(plan_pick(call->context, call->node, x, index, &pick));
  for (int k = 0; k < pick.axis; k++) dims[n++] = x->dims[k];
  for (int k = 0; k < index->rank; k++) dims[n++] = index->dims[k];
  if (vector && index->rank == 0 && x->rank > 0) dims[n++] = 1;
  for (int k = pick.axis + 1; k < x->rank; k++) dims[n++] = x->dims[k];
  INTACT_TRY(intact__call_result(call, 0, x->dtype, n, dims, &y));
  size_t bits = (size_t)intact_dtype_bits(x->dtype);
  for (int64_t o = 0; o < pick.outer; o++) {
    for (int64_t i = 0; i < pick.n; i++) {
      int64_t to = (o * pick.n + i) * pick.inner, from = (o * pick.length + wrapped(&pick, index, i)) * pick.inner;
      if (bits >= 8) {
        memcpy((char *)y->data + (size_t)to * (bits / 8), (const char *)x->data + (size_t)from * (bits / 8),
               (size_t)pick.inner * (bits / 8));
        continue;
      }
      for (int64_t k = 0; k < pick.inner; k++) intact__tensor_set_f64(y, to + k, intact__tensor_get_f64(x, from + k));
    }
  }
  return INTACT_OK;
}

/* Rows picked several times add up, in double. */
static intact_status grad_pick(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  row_pick pick;
  intact_tensor *dx = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(plan_pick(grad->context, grad->node, grad->operands[0], grad->operands[1], &pick));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  double *sum = intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof *sum);
  for (int64_t o = 0; o < pick.outer; o++) {
    for (int64_t i = 0; i < pick.n; i++) {
      double *to = sum + (o * pick.length + wrapped(&pick, grad->operands[1], i)) * pick.inner;
      const float *from = intact__f32(dy) + (o * pick.n + i) * pick.inner;
      for (int64_t k = 0; k < pick.inner; k++) to[k] += (double)from[k];
    }
  }
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)sum[i];
  intact__free(grad->context, sum);
  return INTACT_OK;
}

#define PICK_ROW(op, text, vector, ...)                                                                                   \
  static intact_status op##_infer(intact_infer *infer) {                                                                  \
    return infer_pick(infer, vector);                                                                                     \
  }                                                                                                                       \
  static intact_status op##_eval(const intact_call *call) {                                                               \
    return eval_pick(call, vector);                                                                                       \
  }                                                                                                                       \
  const intact_op intact_op_##op = {                                                                                      \
      .name = #op,                                                                                                        \
      .doc = text,                                                                                                        \
      .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"index", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"), \
                 INTACT_ATTRS(INTACT_A_INT("dim", 0))},                                                                   \
      .infer = op##_infer,                                                                                                \
      .eval_f32 = op##_eval,                                                                                              \
      .grad = grad_pick,                                                                                                  \
      .quant = {.result = INTACT_RESULT_SAME_AS},                                                                         \
      .int_layout = INTACT_INT_ROWS,                                                                                      \
      .check_int = intact__check_movement,                                                                                \
      .lower_int = intact__lower_movement,                                                                                \
      .on_integers = true,                                                                                                \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                             \
  };

PICK_ROW(index_select, "y = the rows x[index[i]] along dim; index is a vector.", true, INTACT_ATEN("index_select"))
PICK_ROW(take_along, "y = x[.., index[..], ..]: index, of any shape, takes the place of axis dim.", false,
         INTACT_ONNX_AS("Gather", "axis=dim", NULL),
         /* gather_axis: constant operand 2 becomes dim; batch_dims must be 0 */
         INTACT_OPENVINO_AS("Gather", "batch_dims=", "gather_axis"))
