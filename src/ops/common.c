/* SPDX-License-Identifier: Apache-2.0 */
/* Axes, inference helpers and operand helpers shared by op rows. */
#include "ops/common.h"

#include <math.h>
#include <string.h>

void intact__attr_numbers(const intact_node *node, double *numbers) {
  int n = 0;
  for (int i = 0; i < node->op->schema.n_attrs && n < INTACT_MAX_NUMBERS; i++) {
    const intact_attr_spec *spec = &node->op->schema.attrs[i];
    const intact_attr *attr = &node->attrs[i];
    bool integer = spec->type == INTACT_ATTR_INT || spec->type == INTACT_ATTR_BOOL;
    if (!integer && spec->type != INTACT_ATTR_FLOAT) continue;
    bool absent = spec->nullable && !attr->present;
    numbers[n++] = absent ? (double)NAN : integer ? (double)attr->i : attr->f;
  }
}

intact_status intact__op_axis(intact_context *context, const intact_node *node, const char *what, int64_t axis, int rank,
                              int *result) {
  int64_t span = rank > 0 ? rank : 1;
  if (axis < -span || axis >= span) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': %s is %lld; it must lie in %lld..%lld for a tensor of %d axes",
                node->op->name, node->name, what, (long long)axis, (long long)-span, (long long)span - 1, rank);
  }
  *result = (int)(axis < 0 ? axis + span : axis);
  return INTACT_OK;
}

intact_status intact__op_axes(intact_context *context, const intact_node *node, const char *name, int rank, bool *is_axis) {
  const intact_attr *list = intact__attr(node, name);
  bool all = list->n == 0;
  for (int i = 0; i < rank; i++) is_axis[i] = all;
  for (int i = 0; i < list->n; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(context, node, name, list->ints[i], rank, &axis));
    if (rank == 0) continue;
    if (is_axis[axis]) {
      INTACT_FAIL(context, DUPLICATE, node->name, "%s '%s': %s names axis %d twice; each axis may stand once",
                  node->op->name, node->name, name, axis);
    }
    is_axis[axis] = true;
  }
  return INTACT_OK;
}

/* ---- inference ---- */

intact_status intact__infer_result(intact_infer *infer, int i, intact_dtype dtype, int rank, const int64_t *dims) {
  intact_value *value = infer->node->results[i];
  if (rank > INTACT_MAX_RANK) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, infer->node->name, "%s '%s': the result has %d axes; at most %d are supported",
                infer->node->op->name, infer->node->name, rank, INTACT_MAX_RANK);
  }
  value->dtype = dtype;
  value->rank = rank;
  for (int k = 0; k < rank; k++) value->dims[k] = dims[k];
  return INTACT_OK;
}

intact_status intact__infer_unranked(intact_infer *infer, intact_dtype dtype) {
  for (int i = 0; i < infer->node->n_results; i++) INTACT_TRY(intact__infer_result(infer, i, dtype, -1, NULL));
  return INTACT_OK;
}

intact_status intact__infer_like_first(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  return intact__infer_result(infer, 0, x->dtype, x->rank, x->dims);
}

const intact_value *intact__infer_operand(const intact_infer *infer, int i) {
  return i < infer->node->n_operands ? infer->node->operands[i] : NULL;
}

intact_status intact__infer_list(intact_infer *infer, const char *name, int i, int *n, int64_t *elements) {
  const intact_node *node = infer->node;
  const intact_attr *list = intact__attr(node, name);
  const intact_value *operand = intact__infer_operand(infer, i);
  const int64_t *from = list->ints;
  if (list->present) {
    *n = list->n;
  } else if (operand == NULL) {
    INTACT_FAIL(infer->context, MISSING_FIELD, node->name,
                "%s '%s': neither attribute %s nor operand %d is given; one of them "
                "must be",
                node->op->name, node->name, name, i);
  } else {
    *n = operand->elements != NULL ? operand->n_elements : -1;
    from = operand->elements;
  }
  if (*n > INTACT_MAX_ELEMENTS) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s '%s': %s has %d entries; at most %d are supported",
                node->op->name, node->name, name, *n, (int)INTACT_MAX_ELEMENTS);
  }
  for (int k = 0; k < *n; k++) {
    bool far = list->present && intact__element_is_symbol(from[k]); /* a number that far down is no symbol */
    elements[k] = far ? INT64_MIN + INT32_MAX : from[k];
  }
  return INTACT_OK;
}

/* One axis of a broadcast; false when the two do not fit. */
static bool merge_dim(intact_infer *infer, int64_t *into, int64_t dim) {
  int64_t known = *into;
  if (dim == known || dim == 1) return true;
  if (known == 1) {
    *into = dim;
  } else if (known < 0 && dim < 0) {
    *into = intact__infer_unknown_dim(infer);
  } else if (known < 0) {
    *into = dim;
  } else if (dim >= 0) {
    return false;
  }
  return true;
}

intact_status intact__infer_broadcast(intact_infer *infer, int first, int end, int *rank, int64_t *dims) {
  const intact_node *node = infer->node;
  *rank = 0;
  for (int i = first; i < end; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL) continue;
    if (value->rank < 0) {
      *rank = -1;
      return INTACT_OK;
    }
    if (value->rank > *rank) *rank = value->rank;
  }
  for (int k = 0; k < *rank; k++) dims[k] = 1;
  for (int i = first; i < end; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL) continue;
    for (int k = 0; k < value->rank; k++) {
      if (merge_dim(infer, &dims[*rank - value->rank + k], value->dims[k])) continue;
      char mine[160], theirs[160];
      INTACT_FAIL(
          infer->context, SIZE_MISMATCH, node->name,
          "%s '%s': operand %d of shape %s does not broadcast with %s; aligned from the right, dimensions must be equal "
          "or 1",
          node->op->name, node->name, i, intact__shape_text(value->rank, value->dims, mine),
          intact__shape_text(*rank, dims, theirs));
    }
  }
  return INTACT_OK;
}

static int dtype_kind(intact_dtype dtype) {
  if (intact_dtype_is_float(dtype)) return 2;
  return intact_dtype_is_integer(dtype) ? 1 : 0;
}

intact_dtype intact__promote(intact_dtype a, int rank_a, intact_dtype b, int rank_b) {
  if (a == b) return a;
  int kind_a = dtype_kind(a), kind_b = dtype_kind(b);
  if (kind_a != kind_b) return kind_a > kind_b ? a : b;
  if ((rank_a == 0) != (rank_b == 0)) return rank_a == 0 ? b : a;
  int bits_a = intact_dtype_bits(a), bits_b = intact_dtype_bits(b);
  if (bits_a != bits_b) return bits_a > bits_b ? a : b;
  if (kind_a == 2) return INTACT_F32;                                      /* two different formats of 16 or 8 bits */
  return bits_a < 16 ? INTACT_S16 : bits_a < 32 ? INTACT_S32 : INTACT_S64; /* signed with unsigned of one width */
}

/* ---- call ---- */

const intact_tensor *intact__operand(const intact_call *call, int i) {
  return i < call->n_operands ? call->operands[i] : NULL;
}

intact_status intact__call_list(const intact_call *call, const char *name, int i, int *n, int64_t *values) {
  const intact_node *node = call->node;
  const intact_attr *list = intact__attr(node, name);
  const intact_tensor *index = intact__operand(call, i);
  if (!list->present && index == NULL) {
    INTACT_FAIL(call->context, MISSING_FIELD, node->name,
                "%s '%s': neither attribute %s nor operand %d is given; one of them "
                "must be",
                node->op->name, node->name, name, i);
  }
  int64_t count = list->present ? list->n : index->count;
  bool fits = list->present || (index->rank <= 1 && intact_dtype_is_integer(index->dtype));
  if (!fits || count > INTACT_MAX_ELEMENTS) {
    INTACT_FAIL(call->context, SIZE_MISMATCH, node->name,
                "%s '%s': %s has %lld entries; integers of rank 0 or 1, at most %d of "
                "them, are needed",
                node->op->name, node->name, name, (long long)count, (int)INTACT_MAX_ELEMENTS);
  }
  for (int k = 0; k < (int)count; k++) values[k] = list->present ? list->ints[k] : intact__tensor_get_s64(index, k);
  *n = (int)count;
  return INTACT_OK;
}

intact_status intact__as_dtype(const intact_tensor *tensor, intact_dtype dtype, intact_tensor **result) {
  if (tensor->dtype == dtype) return intact_tensor_share(tensor, tensor->rank, NULL, result);
  return intact_tensor_cast(tensor, dtype, result);
}

intact_status intact__give_result(const intact_call *call, int i, intact_dtype dtype, intact_tensor *tensor) {
  intact_status status = INTACT_OK;
  intact_tensor *typed = NULL, *result = NULL;
  INTACT_TRY_TO(end, intact__as_dtype(tensor, dtype, &typed));
  if (call->results[i] == NULL) {
    call->results[i] = typed;
    typed = NULL;
  } else {
    INTACT_TRY_TO(end, intact__call_result(call, i, dtype, typed->rank, typed->dims, &result));
    memcpy(result->data, typed->data, intact_tensor_bytes(typed));
  }
end:
  intact_tensor_destroy(typed);
  intact_tensor_destroy(tensor);
  return status;
}

intact_status intact__call_reshape(const intact_call *call, int rank, const int64_t *dims) {
  const intact_tensor *x = call->operands[0];
  if (call->results[0] == NULL) return intact_tensor_share(x, rank, dims, &call->results[0]);
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, x->dtype, rank, dims, &y));
  if (y->data != x->data && x->count > 0) memcpy(y->data, x->data, intact_tensor_bytes(x));
  return INTACT_OK;
}
