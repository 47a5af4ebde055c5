/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that read or write single elements by index along one axis: gather, scatter. */
#include <string.h>

#include "ops/move.h"
#include "ops/scatter.h"

static intact_status check_index(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *index = node->operands[1];
  bool fits = intact_dtype_is_integer(index->dtype);
  if (x->rank >= 0 && index->rank >= 0) fits = fits && x->rank == index->rank;
  if (fits) return INTACT_OK;
  char mine[160], theirs[160];
  INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
              "%s '%s': an index of %s%s for an operand of shape %s; integers with as "
              "many axes as the operand are needed",
              node->op->name, node->name, intact_dtype_text(index->dtype),
              intact__shape_text(index->rank < 0 ? 0 : index->rank, index->dims, theirs),
              intact__shape_text(x->rank < 0 ? 0 : x->rank, x->dims, mine));
}

/* Where the elements of index lie in x: offset of element i with its index put in on the axis. */
typedef struct index_walk {
  const intact_tensor *index;
  intact_view x;
  int axis;
} index_walk;

static intact_status open_walk(intact_context *context, const intact_node *node, const intact_tensor *x,
                               const intact_tensor *index, index_walk *walk) {
  *walk = (index_walk){.index = index, .x = intact__view_of(x)};
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), x->rank, &walk->axis));
  bool fits = x->rank == index->rank;
  for (int k = 0; k < x->rank && fits; k++) fits = k == walk->axis || index->dims[k] <= x->dims[k];
  if (!fits) {
    char mine[160], theirs[160];
    INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                "%s '%s': an index of shape %s does not lie within %s outside of axis %d", node->op->name, node->name,
                intact__shape_text(index->rank, index->dims, theirs), intact__shape_text(x->rank, x->dims, mine),
                walk->axis);
  }
  int64_t length = x->rank == 0 ? 1 : x->dims[walk->axis];
  for (int64_t i = 0; i < index->count; i++) {
    int64_t at = intact__tensor_get_s64(index, i);
    if (at >= -length && at < length) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': index %lld at place %lld; it must lie in %lld..%lld",
                node->op->name, node->name, (long long)at, (long long)i, (long long)-length, (long long)length - 1);
  }
  return INTACT_OK;
}

static int64_t walk_offset(const index_walk *walk, int64_t i) {
  int64_t at = intact__tensor_get_s64(walk->index, i), rest = i, offset = 0;
  if (walk->x.rank == 0) return 0;
  if (at < 0) at += walk->x.dims[walk->axis];
  for (int k = walk->x.rank - 1; k >= 0; k--) {
    int64_t place = rest % walk->index->dims[k];
    offset += (k == walk->axis ? at : place) * walk->x.strides[k];
    rest /= walk->index->dims[k];
  }
  return offset;
}

/* ---- gather ---- */

static intact_status gather_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0], *index = infer->node->operands[1];
  int axis = 0;
  INTACT_TRY(check_index(infer));
  if (x->rank >= 0) {
    INTACT_TRY(intact__op_axis(infer->context, infer->node, "dim", intact__attr_int(infer->node, "dim"), x->rank, &axis));
  }
  return intact__infer_result(infer, 0, x->dtype, index->rank, index->dims);
}

static intact_status gather_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1];
  index_walk walk;
  intact_tensor *y = NULL;
  INTACT_TRY(open_walk(call->context, call->node, x, index, &walk));
  INTACT_TRY(intact__call_result(call, 0, x->dtype, index->rank, index->dims, &y));
  for (int64_t i = 0; i < index->count; i++) intact__copy_element(y, i, x, walk_offset(&walk, i));
  return INTACT_OK;
}

static intact_status gather_grad(intact_grad *grad) {
  index_walk walk;
  intact_tensor *dx = NULL;
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(open_walk(grad->context, grad->node, grad->operands[0], grad->operands[1], &walk));
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  double *sum = intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof *sum);
  for (int64_t i = 0; i < dy->count; i++) sum[walk_offset(&walk, i)] += (double)intact__f32(dy)[i];
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)sum[i];
  intact__free(grad->context, sum);
  return INTACT_OK;
}

const intact_op intact_op_gather = {
    .name = "gather",
    .doc = "y[i, j, ..] = x[i, .., index[i, j, ..], ..], the index put in on axis dim.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"index", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("dim", 0))},
    .infer = gather_infer,
    .eval_f32 = gather_eval,
    .grad = gather_grad,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN_AS("gather", "dim=dim,sparse_grad=", NULL),
                              INTACT_ONNX_AS("GatherElements", "axis=dim", NULL),
                              INTACT_OPENVINO_AS("GatherElements", "axis=dim", NULL)),
};

/* ---- scatter ---- */

static intact_status scatter_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int axis = 0;
  INTACT_TRY(check_index(infer));
  if (intact__scatter_kind(intact__attr_string(node, "reduce")) == INTACT_SCATTER_UNKNOWN) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                "scatter '%s': reduce is '%s'; it must be none, add, mul, max or min", node->name,
                intact__attr_string(node, "reduce"));
  }
  if (x->rank >= 0) INTACT_TRY(intact__op_axis(infer->context, node, "dim", intact__attr_int(node, "dim"), x->rank, &axis));
  return intact__infer_like_first(infer);
}

/* The place of element i of the index in src, which may be larger than the index. */
static int64_t source_place(const intact_tensor *index, const intact_tensor *src, int64_t i) {
  int64_t rest = i, place = 0, stride = 1;
  for (int k = index->rank - 1; k >= 0; k--) {
    place += rest % index->dims[k] * stride;
    rest /= index->dims[k];
    stride *= src->dims[k];
  }
  return place;
}

static intact_status check_source(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1], *src = intact__operand(call, 2);
  if (src == NULL) return INTACT_OK;
  bool fits = src->rank == index->rank && src->dtype == x->dtype;
  for (int k = 0; k < index->rank && fits; k++) fits = index->dims[k] <= src->dims[k];
  if (fits) return INTACT_OK;
  char mine[160], theirs[160];
  INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name,
              "scatter '%s': src is %s%s for an index of shape %s into %s; it must have "
              "the operand's type and an element for each index",
              call->node->name, intact_dtype_text(src->dtype), intact__shape_text(src->rank, src->dims, mine),
              intact__shape_text(index->rank, index->dims, theirs), intact_dtype_text(x->dtype));
}

static intact_status scatter_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0], *index = call->operands[1], *src = intact__operand(call, 2);
  index_walk walk;
  intact_tensor *y = NULL;
  INTACT_TRY(open_walk(call->context, call->node, x, index, &walk));
  INTACT_TRY(check_source(call));
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  if (x->count > 0) memcpy(y->data, x->data, intact_tensor_bytes(x));
  double number = intact__attr_float(call->node, "value");
  intact_scatter_kind kind = intact__scatter_kind(intact__attr_string(call->node, "reduce"));
  for (int64_t i = 0; i < index->count; i++) {
    intact__scatter_element(y, walk_offset(&walk, i), src, src != NULL ? source_place(index, src, i) : 0, number, kind);
  }
  return INTACT_OK;
}

/* Replaced elements get no gradient; added ones pass it to both. */
static intact_status scatter_grad(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *index = grad->operands[1], *dy = grad->d_results[0];
  const intact_tensor *src = grad->n_operands > 2 ? grad->operands[2] : NULL;
  intact_scatter_kind kind = intact__scatter_kind(intact__attr_string(grad->node, "reduce"));
  index_walk walk;
  intact_tensor *dx = NULL, *d_src = NULL;
  if (dy == NULL) return INTACT_OK;
  if (kind != INTACT_SCATTER_SET && kind != INTACT_SCATTER_ADD) {
    INTACT_FAIL(grad->context, UNSUPPORTED_OP, grad->node->name,
                "scatter '%s': reduce '%s' has no gradient; none and add have one", grad->node->name,
                intact__attr_string(grad->node, "reduce"));
  }
  INTACT_TRY(open_walk(grad->context, grad->node, x, index, &walk));
  if (grad->needed[0]) {
    INTACT_TRY(intact__grad_operand(grad, 0, &dx));
    if (dx->count > 0) memcpy(dx->data, dy->data, intact_tensor_bytes(dx));
    for (int64_t i = 0; i < index->count && kind == INTACT_SCATTER_SET; i++) intact__f32(dx)[walk_offset(&walk, i)] = 0;
  }
  if (src != NULL && grad->needed[2]) {
    INTACT_TRY(intact__grad_operand(grad, 2, &d_src));
    for (int64_t i = 0; i < index->count; i++) {
      intact__f32(d_src)[source_place(index, src, i)] = intact__f32(dy)[walk_offset(&walk, i)];
    }
  }
  return INTACT_OK;
}

const intact_op intact_op_scatter = {
    .name = "scatter",
    .doc = "y = x with y[.., index[i, j, ..], ..] set to (or combined by `reduce` with) src[i, j, ..] or value.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"index", INTACT_ROLE_INDEX, 0},
                               {"src", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("dim", 0), INTACT_A_FLOAT("value", 0.0), INTACT_A_STRING("reduce", "none"))},
    .infer = scatter_infer,
    .eval_f32 = scatter_eval,
    .grad = scatter_grad,
    .quant = {.result = INTACT_RESULT_OWN},
    .aliases = INTACT_ALIASES(INTACT_ATEN("scatter"), INTACT_ATEN("scatter.src"), INTACT_ATEN("scatter.value"),
                              INTACT_ATEN("scatter.reduce"), INTACT_ATEN("scatter.value_reduce"),
                              INTACT_ATEN_AS("scatter_add", "dim=dim,=reduce:add", NULL),
                              INTACT_ONNX_AS("ScatterElements", "axis=dim,reduction=reduce", NULL),
                              INTACT_ONNX_AS("Scatter", "axis=dim", NULL)),
};
