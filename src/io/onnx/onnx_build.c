/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts that fix-ups build their nodes of. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

intact_status intact__onnx_make_as(intact_onnx_node *node, const char *op, int n_operands, intact_value *const *operands) {
  const intact_op *row = intact__find_op(op);
  if (row == NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): it needs the op %s, which the table lacks", node->name, node->op, op);
  }
  return intact__onnx_make_row(node, row, n_operands, operands);
}

intact_status intact__onnx_number(intact_onnx_node *node, const char *suffix, intact_dtype dtype, double number,
                                  intact_value **value) {
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact_tensor_create(node->context, dtype, 0, NULL, &tensor));
  intact__tensor_set_f64(tensor, 0, number);
  return intact__onnx_constant(node, suffix, tensor, NULL, value);
}

intact_status intact__onnx_ints(intact_onnx_node *node, const char *suffix, int64_t n, const int64_t *numbers,
                                intact_value **value) {
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact__tensor_from_s64(node->context, 1, &n, numbers, &tensor));
  return intact__onnx_constant(node, suffix, tensor, NULL, value);
}

intact_status intact__onnx_one(intact_onnx_node *node, const char *op, const char *suffix, intact_value *a, intact_value *b,
                               intact_value **result) {
  intact_value *operands[2] = {a, b};
  intact_node *made = NULL;
  INTACT_TRY(intact__onnx_add(node, op, suffix, b == NULL ? 1 : 2, operands, &made));
  INTACT_TRY(intact__node_infer(made));
  *result = made->results[0];
  return INTACT_OK;
}

intact_status intact__onnx_with_ints(intact_onnx_node *node, const char *op, const char *attr, const char *suffix,
                                     intact_value *x, int n, const int64_t *numbers, intact_value **result) {
  intact_node *made = NULL;
  INTACT_TRY(intact__onnx_add(node, op, suffix, 1, &x, &made));
  INTACT_TRY(intact__attr_set_ints(made, attr, n, numbers));
  INTACT_TRY(intact__node_infer(made));
  *result = made->results[0];
  return INTACT_OK;
}

intact_status intact__onnx_cast(intact_onnx_node *node, const char *suffix, intact_value *x, intact_dtype dtype,
                                intact_value **result) {
  if (x->dtype == dtype && x->qparams == NULL) {
    *result = x;
    return INTACT_OK;
  }
  if (x->constant != NULL && x->qparams == NULL) {
    intact_tensor *tensor = NULL;
    INTACT_TRY(intact_tensor_cast(x->constant, dtype, &tensor));
    return intact__onnx_constant(node, suffix, tensor, NULL, result);
  }
  intact_node *made = NULL;
  INTACT_TRY(intact__onnx_add(node, "cast", suffix, 1, &x, &made));
  intact__attr_set_int(made, "dtype", dtype);
  INTACT_TRY(intact__node_infer(made));
  *result = made->results[0];
  return INTACT_OK;
}

static void copy_element(intact_tensor *to, int64_t i, const intact_tensor *from, int64_t k) {
  int bits = intact_dtype_bits(from->dtype);
  if (bits < 8) {
    intact__tensor_set_s64(to, i, intact__tensor_get_s64(from, k));
    return;
  }
  size_t size = (size_t)bits / 8;
  memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)k * size, size);
}

intact_status intact__onnx_permute_tensor(const intact_tensor *from, const int *perm, intact_tensor **result) {
  int64_t dims[INTACT_MAX_RANK], strides[INTACT_MAX_RANK], index[INTACT_MAX_RANK] = {0}, stride = 1;
  for (int d = from->rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= from->dims[d];
  }
  for (int d = 0; d < from->rank; d++) dims[d] = from->dims[perm[d]];
  intact_tensor *to = NULL;
  INTACT_TRY(intact_tensor_create(from->context, from->dtype, from->rank, dims, &to));
  int64_t source = 0;
  for (int64_t i = 0; i < to->count; i++) {
    copy_element(to, i, from, source);
    for (int d = from->rank - 1; d >= 0; d--) {
      source += strides[perm[d]];
      if (++index[d] < dims[d]) break;
      source -= strides[perm[d]] * dims[d];
      index[d] = 0;
    }
  }
  *result = to;
  return INTACT_OK;
}

/* A matrix constant with its axes exchanged; the axis of its qparams goes along. */
static intact_status transpose_constant(intact_onnx_node *node, const char *suffix, const intact_value *x,
                                        intact_value **result) {
  static const int exchange[2] = {1, 0};
  intact_tensor *tensor = NULL;
  intact_qparams *qparams = NULL;
  if (x->qparams != NULL) {
    qparams = intact__qparams_copy(&node->import->file->arena, x->qparams);
    if (qparams == NULL) return intact__no_memory(node->context, sizeof *qparams);
    if (qparams->axis >= 0) qparams->axis = 1 - qparams->axis;
  }
  INTACT_TRY(intact__onnx_permute_tensor(x->constant, exchange, &tensor));
  return intact__onnx_constant(node, suffix, tensor, qparams, result);
}

intact_status intact__onnx_transpose(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value **result) {
  if (x->rank != 2) {
    char text[160];
    INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
                "cannot read node '%s' (%s): '%s' has shape %s, it must be a matrix", node->name, node->op, x->name,
                x->rank < 0 ? "unknown" : intact__shape_text(x->rank, x->dims, text));
  }
  bool groups = x->qparams != NULL && x->qparams->group > 0;
  if (x->constant != NULL && !groups) return transpose_constant(node, suffix, x, result);
  const intact_node *producer = x->producer;
  const intact_value *codes = intact__is_op(producer, "dequantize") ? producer->operands[0] : NULL;
  if (codes != NULL && codes->constant != NULL && codes->qparams->group == 0) {
    intact_value *turned = NULL;
    INTACT_TRY(transpose_constant(node, suffix, codes, &turned));
    return intact__onnx_one(node, "dequantize", suffix, turned, NULL, result);
  }
  static const int64_t exchange[2] = {1, 0};
  return intact__onnx_with_ints(node, "permute", "dims", suffix, x, 2, exchange, result);
}
