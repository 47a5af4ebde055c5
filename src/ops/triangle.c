/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that keep one triangle of the matrices in the last two axes: tril, triu. */
#include <string.h>

#include "ops/common.h"

static intact_status refuse_rank(intact_context *context, const intact_node *node, int rank) {
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': the operand has %d axes; at least 2 are needed", node->op->name,
              node->name, rank);
}

static intact_status triangle_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  if (x->rank == 0 || x->rank == 1) return refuse_rank(infer->context, infer->node, x->rank);
  return intact__infer_like_first(infer);
}

/* Copies the triangle of each matrix; `to` is zero elsewhere. */
static void keep_triangle(const intact_tensor *from, intact_tensor *to, int64_t diagonal, bool lower) {
  int64_t rows = from->dims[from->rank - 2], columns = from->dims[from->rank - 1];
  size_t size = (size_t)intact_dtype_bits(from->dtype) / 8;
  for (int64_t i = 0; i < from->count; i++) {
    int64_t column = i % columns, row = i / columns % rows;
    int64_t above = column - row;
    if (lower ? above > diagonal : above < diagonal) continue;
    if (size > 0) {
      memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)i * size, size);
    } else {
      intact__tensor_set_f64(to, i, intact__tensor_get_f64(from, i));
    }
  }
}

/* The diagonal: operand 1 before the attribute. */
static int64_t diagonal_of(const intact_node *node, const intact_tensor *given) {
  return given != NULL && given->count == 1 ? intact__tensor_get_s64(given, 0) : intact__attr_int(node, "diagonal");
}

static intact_status triangle_eval(const intact_call *call, bool lower) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL;
  if (x->rank < 2) return refuse_rank(call->context, call->node, x->rank);
  INTACT_TRY(intact__call_result(call, 0, x->dtype, x->rank, x->dims, &y));
  memset(y->data, 0, intact_tensor_bytes(y));
  keep_triangle(x, y, diagonal_of(call->node, intact__operand(call, 1)), lower);
  return INTACT_OK;
}

static intact_status triangle_grad(intact_grad *grad, bool lower) {
  intact_tensor *dx = NULL;
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  keep_triangle(grad->d_results[0], dx, diagonal_of(grad->node, grad->n_operands > 1 ? grad->operands[1] : NULL), lower);
  return INTACT_OK;
}

#define TRIANGLE_ROW(op, text, lower, ...)                                                                                  \
  static intact_status op##_eval(const intact_call *call) {                                                                 \
    return triangle_eval(call, lower);                                                                                      \
  }                                                                                                                         \
  static intact_status op##_grad(intact_grad *grad) {                                                                       \
    return triangle_grad(grad, lower);                                                                                      \
  }                                                                                                                         \
  const intact_op intact_op_##op = {                                                                                        \
      .name = #op,                                                                                                          \
      .doc = text,                                                                                                          \
      .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"diagonal_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}), \
                 INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INT("diagonal", 0))},                                           \
      .infer = triangle_infer,                                                                                              \
      .eval_f32 = op##_eval,                                                                                                \
      .grad = op##_grad,                                                                                                    \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                               \
  };
TRIANGLE_ROW(tril, "y = x up to the given diagonal of each matrix, 0 above it.", true, INTACT_ATEN("tril"))
TRIANGLE_ROW(triu, "y = x from the given diagonal of each matrix on, 0 below it.", false, INTACT_ATEN("triu"),
             /* triangle_side: upper = 0 makes it the row tril; constant operand 1 becomes diagonal */
             INTACT_ONNX_AS("Trilu", "upper=", "triangle_side"))
