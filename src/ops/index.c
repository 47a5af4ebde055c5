/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that index several axes at once: index, index_put, gather_nd, scatter_nd, nonzero. */
#include <string.h>

#include "ops/move.h"
#include "ops/scatter.h"

/* Advanced indexing: index tensors on some axes (NULL: the whole axis), broadcast to one shape. Where the indexed axes are
   neighbours their shape takes their place, else it comes first. */
typedef struct index_plan {
  const intact_tensor *index[INTACT_MAX_RANK];
  intact_view of_index[INTACT_MAX_RANK]; /* broadcast to the common shape */
  int rank, common_rank;
  int64_t dims[INTACT_MAX_RANK], common[INTACT_MAX_RANK];
  int at; /* where the common axes stand in the result */
} index_plan;

static intact_status refuse_index(intact_context *context, const intact_node *node, const char *rule) {
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': %s", node->op->name, node->name, rule);
}

/* Result's shape from x's and the common one. Returns its rank, -1 when there are too many axes. */
static int index_dims(int rank, const int64_t *dims, const bool *indexed, int common_rank, const int64_t *common, int *at,
                      int64_t *result) {
  int first = -1, last = -1, count = 0, n = 0;
  for (int k = 0; k < rank; k++) {
    if (!indexed[k]) continue;
    if (first < 0) first = k;
    last = k;
    count++;
  }
  if (rank - count + common_rank > INTACT_MAX_RANK) return -1;
  *at = count > 0 && last - first + 1 == count ? first : 0;
  for (int k = 0, kept = 0; k <= rank; k++) {
    if (kept == *at && n == *at) {
      for (int c = 0; c < common_rank; c++) result[n++] = common[c];
    }
    if (k < rank && !indexed[k]) {
      result[n++] = dims[k];
      kept++;
    }
  }
  return n;
}

/* `first`: the operand of the first index. */
static intact_status index_types(intact_infer *infer, int first) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  bool indexed[INTACT_MAX_RANK] = {false};
  int rank = 0, at = 0;
  int64_t common[INTACT_MAX_RANK], dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  if (node->n_operands - first > x->rank)
    return refuse_index(infer->context, node, "more indices than the operand has axes");
  for (int i = first; i < node->n_operands; i++) {
    const intact_value *index = node->operands[i];
    if (index == NULL) continue;
    if (!intact_dtype_is_integer(index->dtype)) {
      return refuse_index(infer->context, node,
                          "an index is not of an integer type (make a mask to places with nonzero before)");
    }
    indexed[i - first] = true;
  }
  INTACT_TRY(intact__infer_broadcast(infer, first, node->n_operands, &rank, common));
  if (rank < 0) return intact__infer_unranked(infer, x->dtype);
  int n = index_dims(x->rank, x->dims, indexed, rank, common, &at, dims);
  if (n < 0) return refuse_index(infer->context, node, "the result would have too many axes");
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status plan_index(const intact_call *call, int first, index_plan *plan) {
  const intact_tensor *x = call->operands[0];
  bool indexed[INTACT_MAX_RANK] = {false};
  *plan = (index_plan){0};
  if (call->n_operands - first > x->rank)
    return refuse_index(call->context, call->node, "more indices than the operand has axes");
  for (int i = first; i < call->n_operands; i++) {
    const intact_tensor *index = call->operands[i];
    if (index == NULL) continue;
    int64_t length = x->dims[i - first], before[INTACT_MAX_RANK];
    int before_rank = plan->common_rank;
    memcpy(before, plan->common, sizeof before);
    if (!intact__broadcast_shapes(before_rank, before, index->rank, index->dims, &plan->common_rank, plan->common)) {
      return refuse_index(call->context, call->node, "the indices' shapes do not broadcast");
    }
    for (int64_t k = 0; k < index->count; k++) {
      int64_t place = intact__tensor_get_s64(index, k);
      if (place >= -length && place < length) continue;
      INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name,
                  "%s '%s': index %lld on axis %d of length %lld; it must lie within", call->node->op->name,
                  call->node->name, (long long)place, i - first, (long long)length);
    }
    plan->index[i - first] = index;
    indexed[i - first] = true;
  }
  plan->rank = index_dims(x->rank, x->dims, indexed, plan->common_rank, plan->common, &plan->at, plan->dims);
  if (plan->rank < 0) return refuse_index(call->context, call->node, "the result would have too many axes");
  for (int k = 0; k < x->rank; k++) {
    if (indexed[k]) plan->of_index[k] = intact__view_broadcast(plan->index[k], plan->common_rank, plan->common);
  }
  return INTACT_OK;
}

/* Offset in x of element i of the result. */
static int64_t indexed_offset(const index_plan *plan, const intact_tensor *x, int64_t i) {
  int64_t place[INTACT_MAX_RANK], offset = 0, stride = 1;
  for (int k = plan->rank - 1; k >= 0; k--) {
    place[k] = i % plan->dims[k];
    i /= plan->dims[k];
  }
  int kept = plan->rank - 1;
  for (int k = x->rank - 1; k >= 0; k--) {
    int64_t at = 0;
    if (plan->index[k] == NULL) {
      if (kept == plan->at + plan->common_rank - 1) kept -= plan->common_rank;
      at = place[kept--];
    } else {
      int64_t from = 0;
      for (int c = 0; c < plan->common_rank; c++) from += place[plan->at + c] * plan->of_index[k].strides[c];
      at = intact__tensor_get_s64(plan->index[k], from);
      if (at < 0) at += x->dims[k];
    }
    offset += at * stride;
    stride *= x->dims[k];
  }
  return offset;
}

/* ---- index ---- */

static intact_status index_infer(intact_infer *infer) {
  return index_types(infer, 1);
}

static intact_status index_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  index_plan plan;
  intact_tensor *y = NULL;
  INTACT_TRY(plan_index(call, 1, &plan));
  INTACT_TRY(intact__call_result(call, 0, x->dtype, plan.rank, plan.dims, &y));
  for (int64_t i = 0; i < y->count; i++) intact__copy_element(y, i, x, indexed_offset(&plan, x, i));
  return INTACT_OK;
}

static intact_status index_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *dy = grad->d_results[0];
  const intact_call call = intact__call_of_grad(grad);
  index_plan plan;
  intact_tensor *dx = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(plan_index(&call, 1, &plan));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  double *sum = intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof *sum);
  for (int64_t i = 0; i < dy->count; i++) sum[indexed_offset(&plan, x, i)] += (double)intact__f32(dy)[i];
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)sum[i];
  intact__free(grad->context, sum);
  return INTACT_OK;
}

const intact_op intact_op_index = {
    .name = "index",
    .doc = "y = x[index0, index1, ..] as in NumPy; an index that is left out means the whole axis.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0},
                               {"indices", INTACT_ROLE_INDEX, INTACT_VARIADIC | INTACT_OPTIONAL}),
               INTACT_RESULTS("y")},
    .infer = index_infer,
    .eval_f32 = index_eval,
    .grad = index_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("index"), INTACT_ATEN("index.Tensor")),
};

/* ---- index_put ---- */

static intact_status index_put_infer(intact_infer *infer) {
  INTACT_TRY(index_types(infer, 2));
  return intact__infer_like_first(infer);
}

static intact_status index_put_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *values = call->operands[1];
  index_plan plan;
  intact_tensor *y = NULL;
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK], places = 1;
  bool add = intact__attr_int(call->node, "accumulate") != 0;
  INTACT_TRY(plan_index(call, 2, &plan));
  bool fits = intact__broadcast_shapes(plan.rank, plan.dims, values->rank, values->dims, &rank, dims);
  if (!fits || !intact__shape_equal(rank, dims, plan.rank, plan.dims) || values->dtype != x->dtype) {
    return refuse_index(call->context, call->node, "the values do not fit the indexed places in shape and type");
  }
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  if (x->count > 0) memcpy(y->data, x->data, intact_tensor_bytes(x));
  intact_view of_values = intact__view_broadcast(values, plan.rank, plan.dims);
  for (int k = 0; k < plan.rank; k++) places *= plan.dims[k];
  for (int64_t i = 0; i < places; i++) {
    int64_t rest = i, from = 0, at = indexed_offset(&plan, x, i);
    for (int k = plan.rank - 1; k >= 0; k--) {
      from += rest % plan.dims[k] * of_values.strides[k];
      rest /= plan.dims[k];
    }
    intact__scatter_element(y, at, values, from, 0, add ? INTACT_SCATTER_ADD : INTACT_SCATTER_SET);
  }
  return INTACT_OK;
}

const intact_op intact_op_index_put = {
    .name = "index_put",
    .doc = "y = x with x[index0, index1, ..] set to values, or values added there (accumulate).",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"values", INTACT_ROLE_ACTIVATION, 0},
                               {"indices", INTACT_ROLE_INDEX, INTACT_VARIADIC | INTACT_OPTIONAL}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_BOOL("accumulate", 0))},
    .infer = index_put_infer,
    .eval_f32 = index_put_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_OWN},
    /* values_last: aten's order is x, indices, values */
    .aliases = INTACT_ALIASES(INTACT_ATEN_AS("index_put", "accumulate=accumulate", "values_last"),
                              INTACT_ATEN_AS("index_put_", "accumulate=accumulate", "values_last")),
};

/* ---- gather_nd, scatter_nd: the last axis of the index holds coordinates ---- */

/* Slices of `inner` elements that coordinates lead to, behind `batch` common axes. */
typedef struct nd_plan {
  int batch, depth;
  int64_t outer, rows, inner; /* batches, coordinates of each, elements of a slice */
  int64_t span;               /* elements of x in a batch */
} nd_plan;

static intact_status plan_nd(intact_context *context, const intact_node *node, const intact_tensor *x,
                             const intact_tensor *index, int64_t batch, nd_plan *plan) {
  *plan = (nd_plan){.batch = (int)batch, .outer = 1, .rows = 1, .inner = 1, .span = 1};
  bool fits = index->rank >= 1 && batch >= 0 && batch < index->rank && batch <= x->rank;
  plan->depth = fits && index->dims[index->rank - 1] <= x->rank - batch ? (int)index->dims[index->rank - 1] : -1;
  for (int k = 0; k < (int)batch && fits; k++) fits = x->dims[k] == index->dims[k];
  if (!fits || plan->depth < 0)
    return refuse_index(context, node, "the index's last axis must hold coordinates of the operand");
  for (int k = 0; k < plan->batch; k++) plan->outer *= x->dims[k];
  for (int k = plan->batch; k < index->rank - 1; k++) plan->rows *= index->dims[k];
  for (int k = plan->batch; k < x->rank; k++) plan->span *= x->dims[k];
  for (int k = plan->batch + plan->depth; k < x->rank; k++) plan->inner *= x->dims[k];
  for (int64_t i = 0; i < index->count; i++) {
    int64_t at = intact__tensor_get_s64(index, i), length = x->dims[plan->batch + (int)(i % plan->depth)];
    if (at >= -length && at < length) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': coordinate %lld on an axis of length %lld; it must lie within",
                node->op->name, node->name, (long long)at, (long long)length);
  }
  return INTACT_OK;
}

/* First element in x of the slice of coordinate `row` (numbered through all batches). */
static int64_t nd_offset(const nd_plan *plan, const intact_tensor *x, const intact_tensor *index, int64_t row) {
  int64_t offset = 0;
  for (int k = 0; k < plan->depth; k++) {
    int64_t length = x->dims[plan->batch + k], at = intact__tensor_get_s64(index, row * plan->depth + k);
    offset = offset * length + (at < 0 ? at + length : at);
  }
  return row / plan->rows * plan->span + offset * plan->inner;
}

static intact_status gather_nd_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *index = node->operands[1];
  int64_t batch = intact__attr_int(node, "batch_dims"), dims[2 * INTACT_MAX_RANK];
  int n = 0;
  if (x->rank < 0 || index->rank < 1 || index->dims[index->rank - 1] < 0) return intact__infer_unranked(infer, x->dtype);
  int64_t depth = index->dims[index->rank - 1];
  if (batch < 0 || batch >= index->rank || batch + depth > x->rank || !intact_dtype_is_integer(index->dtype)) {
    return refuse_index(infer->context, node, "the index's last axis must hold coordinates of the operand");
  }
  for (int k = 0; k < index->rank - 1; k++) dims[n++] = index->dims[k];
  for (int k = (int)(batch + depth); k < x->rank; k++) dims[n++] = x->dims[k];
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status gather_nd_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1];
  nd_plan plan;
  int n = 0;
  int64_t dims[2 * INTACT_MAX_RANK];
  intact_tensor *y = NULL;
  INTACT_TRY(plan_nd(call->context, call->node, x, index, intact__attr_int(call->node, "batch_dims"), &plan));
  for (int k = 0; k < index->rank - 1; k++) dims[n++] = index->dims[k];
  for (int k = plan.batch + plan.depth; k < x->rank; k++) dims[n++] = x->dims[k];
  INTACT_TRY(intact__call_result(call, 0, x->dtype, n, dims, &y));
  for (int64_t row = 0; row < plan.outer * plan.rows; row++) {
    int64_t from = nd_offset(&plan, x, index, row);
    for (int64_t k = 0; k < plan.inner; k++) intact__copy_element(y, row * plan.inner + k, x, from + k);
  }
  return INTACT_OK;
}

static intact_status gather_nd_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *index = grad->operands[1], *dy = grad->d_results[0];
  nd_plan plan;
  intact_tensor *dx = NULL;
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(plan_nd(grad->context, grad->node, x, index, intact__attr_int(grad->node, "batch_dims"), &plan));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  double *sum = intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof *sum);
  for (int64_t row = 0; row < plan.outer * plan.rows; row++) {
    double *to = sum + nd_offset(&plan, x, index, row);
    for (int64_t k = 0; k < plan.inner; k++) to[k] += (double)intact__f32(dy)[row * plan.inner + k];
  }
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)sum[i];
  intact__free(grad->context, sum);
  return INTACT_OK;
}

const intact_op intact_op_gather_nd = {
    .name = "gather_nd",
    .doc = "y[i, ..] = x[index[i]], the last axis of index holding coordinates; batch_dims leading axes are common to both.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"index", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("batch_dims", 0))},
    .infer = gather_nd_infer,
    .eval_f32 = gather_nd_eval,
    .grad = gather_nd_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("GatherND", "batch_dims=batch_dims", NULL)),
};

static intact_status scatter_nd_infer(intact_infer *infer) {
  const char *reduction = intact__attr_string(infer->node, "reduction");
  if (intact__scatter_kind(reduction) == INTACT_SCATTER_UNKNOWN) {
    INTACT_FAIL(infer->context, INVALID_VALUE, infer->node->name,
                "scatter_nd '%s': reduction is '%s'; it must be none, add, mul, max "
                "or min",
                infer->node->name, reduction);
  }
  return intact__infer_like_first(infer);
}

static intact_status scatter_nd_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1], *updates = call->operands[2];
  nd_plan plan;
  intact_tensor *y = NULL;
  intact_scatter_kind kind = intact__scatter_kind(intact__attr_string(call->node, "reduction"));
  INTACT_TRY(plan_nd(call->context, call->node, x, index, 0, &plan));
  if (updates->count != plan.rows * plan.inner || updates->dtype != x->dtype) {
    return refuse_index(call->context, call->node, "the updates do not fit the places in number and type");
  }
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  if (x->count > 0) memcpy(y->data, x->data, intact_tensor_bytes(x));
  for (int64_t row = 0; row < plan.rows; row++) {
    int64_t to = nd_offset(&plan, x, index, row);
    for (int64_t k = 0; k < plan.inner; k++) intact__scatter_element(y, to + k, updates, row * plan.inner + k, 0, kind);
  }
  return INTACT_OK;
}

const intact_op intact_op_scatter_nd = {
    .name = "scatter_nd",
    .doc =
        "y = x with y[index[i]] set to updates[i] (or combined with updates[i]), the last axis of index holding "
        "coordinates.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"index", INTACT_ROLE_INDEX, 0},
                               {"updates", INTACT_ROLE_ACTIVATION, 0}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_STRING("reduction", "none"))},
    .infer = scatter_nd_infer,
    .eval_f32 = scatter_nd_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_OWN},
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("ScatterND", "reduction=reduction", NULL)),
};

/* ---- nonzero ---- */

static intact_status nonzero_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  bool transposed = intact__attr_int(infer->node, "transposed") != 0;
  int64_t dims[2];
  dims[transposed ? 0 : 1] = x->rank >= 0 ? x->rank : intact__infer_unknown_dim(infer);
  dims[transposed ? 1 : 0] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, INTACT_S64, 2, dims);
}

static intact_status nonzero_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  bool transposed = intact__attr_int(call->node, "transposed") != 0;
  int64_t count = 0, found = 0;
  for (int64_t i = 0; i < x->count; i++) count += intact__tensor_get_f64(x, i) != 0;
  int64_t dims[2] = {transposed ? x->rank : count, transposed ? count : x->rank};
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, 2, dims, &y));
  for (int64_t i = 0; i < x->count; i++) {
    if (intact__tensor_get_f64(x, i) == 0) continue;
    int64_t rest = i;
    for (int k = x->rank - 1; k >= 0; k--) {
      intact__tensor_set_s64(y, transposed ? k * count + found : found * x->rank + k, rest % x->dims[k]);
      rest /= x->dims[k];
    }
    found++;
  }
  return INTACT_OK;
}

const intact_op intact_op_nonzero = {
    .name = "nonzero",
    .doc = "y = the places of x's elements that are not 0, one row each (one column each when transposed).",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_BOOL("transposed", 0))},
    .infer = nonzero_infer,
    .eval_f32 = nonzero_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .aliases = INTACT_ALIASES(INTACT_ATEN("nonzero"),
                              /* in_columns: transposed = 1 */
                              INTACT_ONNX_AS("NonZero", "", "in_columns")),
};
