/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the matrix product with constant shapes of two operands: linear and addmm. */
#include <string.h>

#include "ops/fast.h"
#include "ops/layer.h"
#include "ops/lower.h"
#include "ops/ops.h"

/* ---- linear ---- */

static intact_status infer_linear(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *w = node->operands[1];
  const intact_value *bias = node->n_operands > 2 ? node->operands[2] : NULL;
  INTACT_TRY(intact__infer_floats(infer));
  int64_t dims[INTACT_MAX_RANK], agreed;
  char a[160], b[160];
  if (x->rank < 0 || w->rank < 0) {
    intact__layer_result(infer, 0, INTACT_F32, -1, NULL);
    return INTACT_OK;
  }
  if (w->rank != 2 || x->rank < 1 || !intact__dims_agree(x->dims[x->rank - 1], w->dims[1], &agreed)) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "linear: x is %s, w is %s; w must be [out, in] and the last dimension of x must be in",
                intact__shape_text(x->rank, x->dims, a), intact__shape_text(w->rank, w->dims, b));
  }
  if (bias != NULL && bias->rank >= 0 && (bias->rank != 1 || !intact__dims_agree(bias->dims[0], w->dims[0], &agreed))) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "linear: bias is %s, w is %s; bias must be [out]",
                intact__shape_text(bias->rank, bias->dims, a), intact__shape_text(w->rank, w->dims, b));
  }
  memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
  dims[x->rank - 1] = w->dims[0];
  intact__layer_result(infer, 0, INTACT_F32, x->rank, dims);
  return INTACT_OK;
}

static int64_t rows_of(const intact_tensor *tensor) {
  return intact__known_product(tensor->dims, 0, tensor->rank - 1);
}

static intact_status eval_linear(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0], *w = call->operands[1];
  const float *bias = intact__operand_f32(call, 2);
  int64_t m = rows_of(x), n = w->dims[0], k = w->dims[1];
  for (int64_t i = 0; i < m && bias != NULL; i++) memcpy(intact__f32(y) + i * n, bias, (size_t)n * sizeof(float));
  intact_gemm gemm = {.m = m,
                      .n = n,
                      .k = k,
                      .a = intact__f32(x),
                      .a_row = k,
                      .a_col = 1,
                      .b = intact__f32(w),
                      .b_row = 1,
                      .b_col = k,
                      .c = intact__f32(y),
                      .c_row = n,
                      .alpha = 1,
                      .add = bias != NULL};
  intact__gemm(call->context, &gemm);
  return INTACT_OK;
}

static intact_status grad_linear(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *w = grad->operands[1], *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  int64_t m = rows_of(x), n = w->dims[0], k = w->dims[1];
  intact_tensor *d;
  if (intact__wants(grad, 0)) { /* dy w */
    INTACT_TRY(intact__grad_operand(grad, 0, &d));
    intact_gemm gemm = {.m = m,
                        .n = k,
                        .k = n,
                        .a = intact__f32(dy),
                        .a_row = n,
                        .a_col = 1,
                        .b = intact__f32(w),
                        .b_row = k,
                        .b_col = 1,
                        .c = intact__f32(d),
                        .c_row = k,
                        .alpha = 1};
    intact__gemm(grad->context, &gemm);
  }
  if (intact__wants(grad, 1)) { /* dy' x */
    INTACT_TRY(intact__grad_operand(grad, 1, &d));
    intact_gemm gemm = {.m = n,
                        .n = k,
                        .k = m,
                        .a = intact__f32(dy),
                        .a_row = 1,
                        .a_col = n,
                        .b = intact__f32(x),
                        .b_row = k,
                        .b_col = 1,
                        .c = intact__f32(d),
                        .c_row = k,
                        .alpha = 1};
    intact__gemm(grad->context, &gemm);
  }
  if (intact__wants(grad, 2)) {
    INTACT_TRY(intact__grad_operand(grad, 2, &d));
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t i = 0; i < m; i++) sum += intact__f32(dy)[i * n + j];
      intact__f32(d)[j] = (float)sum;
    }
  }
  return INTACT_OK;
}

static int linear_weight_axis(const intact_node *node, int *groups) {
  (void)node;
  *groups = 1;
  return 0;
}

static int64_t linear_macs(const intact_node *node) {
  const intact_value *x = node->operands[0], *w = node->operands[1];
  if (x->rank < 1 || w->rank != 2) return 0;
  return intact__known_product(x->dims, 0, x->rank - 1) * intact__known_product(w->dims, 0, 2);
}

const intact_op intact_op_linear = {
    .name = "linear",
    .doc = "y = x w' + bias over the last dimension of x; w is [out, in].",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"w", INTACT_ROLE_WEIGHT, 0},
                               {"bias", INTACT_ROLE_BIAS, INTACT_OPTIONAL}),
               INTACT_RESULTS("y")},
    .infer = infer_linear,
    .eval_f32 = eval_linear,
    .eval_fast = INTACT_FAST(intact__linear_fast),
    .grad = grad_linear,
    .grad_fast = INTACT_FAST(intact__linear_grad_fast),
    .quant = {.result = INTACT_RESULT_OWN, .bias_of = {0, 1}, .may_fuse_clamp = true, .weight_axis = linear_weight_axis},
    .int_layout = INTACT_INT_ROWS,
    .check_int = intact__check_linear,
    .lower_int = intact__lower_linear,
    .macs = linear_macs,
    .aliases = (const intact_alias[]){{"aten", "aten::linear", 0, 0, NULL, NULL}, {0}},
};

/* ---- addmm ---- */

static intact_status infer_addmm(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *c = node->operands[0], *a = node->operands[1], *b = node->operands[2];
  INTACT_TRY(intact__infer_floats(infer));
  char text_a[160], text_b[160], text_c[160];
  int64_t agreed;
  if (a->rank < 0 || b->rank < 0) {
    intact__layer_result(infer, 0, INTACT_F32, a->rank < 0 && b->rank < 0 ? -1 : 2,
                         (const int64_t[]){intact__infer_unknown_dim(infer), intact__infer_unknown_dim(infer)});
    return INTACT_OK;
  }
  if (a->rank != 2 || b->rank != 2 || !intact__dims_agree(a->dims[1], b->dims[0], &agreed)) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "addmm: a is %s, b is %s; they must be [m, k] and [k, n]",
                intact__shape_text(a->rank, a->dims, text_a), intact__shape_text(b->rank, b->dims, text_b));
  }
  const int64_t dims[2] = {a->dims[0], b->dims[1]};
  bool fits = c->rank <= 2;
  for (int i = 0; fits && i < c->rank; i++) {
    fits = c->dims[c->rank - 1 - i] == 1 || intact__dims_agree(c->dims[c->rank - 1 - i], dims[1 - i], &agreed);
  }
  if (!fits) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "addmm: c is %s; it must broadcast to the product's shape %s",
                intact__shape_text(c->rank, c->dims, text_c), intact__shape_text(2, dims, text_a));
  }
  intact__layer_result(infer, 0, INTACT_F32, 2, dims);
  return INTACT_OK;
}

/* Distances in c between rows and columns of the product. */
static void broadcast_steps(const intact_tensor *c, int64_t *row, int64_t *col) {
  int64_t width = c->rank >= 1 ? c->dims[c->rank - 1] : 1;
  *col = width == 1 ? 0 : 1;
  *row = c->rank == 2 && c->dims[0] != 1 ? width : 0;
}

static intact_status eval_addmm(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *c = call->operands[0], *a = call->operands[1], *b = call->operands[2];
  double beta = intact__attr_float(call->node, "beta"), alpha = intact__attr_float(call->node, "alpha");
  int64_t m = a->dims[0], k = a->dims[1], n = b->dims[1], row, col;
  broadcast_steps(c, &row, &col);
  for (int64_t i = 0; i < m && beta != 0; i++) {
    for (int64_t j = 0; j < n; j++) intact__f32(y)[i * n + j] = (float)(beta * intact__f32(c)[i * row + j * col]);
  }
  intact_gemm gemm = {.m = m,
                      .n = n,
                      .k = k,
                      .a = intact__f32(a),
                      .a_row = k,
                      .a_col = 1,
                      .b = intact__f32(b),
                      .b_row = n,
                      .b_col = 1,
                      .c = intact__f32(y),
                      .c_row = n,
                      .alpha = alpha,
                      .add = beta != 0};
  intact__gemm(call->context, &gemm);
  return INTACT_OK;
}

static intact_status grad_addmm_c(intact_grad *grad, int64_t m, int64_t n, double beta) {
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  int64_t row, col;
  broadcast_steps(d, &row, &col);
  const float *dy = intact__f32(grad->d_results[0]);
  for (int64_t i = 0; i < (row != 0 ? m : 1); i++) {
    for (int64_t j = 0; j < (col != 0 ? n : 1); j++) {
      double sum = 0;
      for (int64_t p = i; p < (row != 0 ? i + 1 : m); p++) {
        for (int64_t q = j; q < (col != 0 ? j + 1 : n); q++) sum += dy[p * n + q];
      }
      if (d->count > 0) intact__f32(d)[i * row + j * col] = (float)(beta * sum);
    }
  }
  return INTACT_OK;
}

static intact_status grad_addmm(intact_grad *grad) {
  const intact_tensor *a = grad->operands[1], *b = grad->operands[2], *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  double beta = intact__attr_float(grad->node, "beta"), alpha = intact__attr_float(grad->node, "alpha");
  int64_t m = a->dims[0], k = a->dims[1], n = b->dims[1];
  intact_tensor *d;
  if (intact__wants(grad, 0)) INTACT_TRY(grad_addmm_c(grad, m, n, beta));
  if (intact__wants(grad, 1)) { /* alpha dy b' */
    INTACT_TRY(intact__grad_operand(grad, 1, &d));
    intact_gemm gemm = {.m = m,
                        .n = k,
                        .k = n,
                        .a = intact__f32(dy),
                        .a_row = n,
                        .a_col = 1,
                        .b = intact__f32(b),
                        .b_row = 1,
                        .b_col = n,
                        .c = intact__f32(d),
                        .c_row = k,
                        .alpha = alpha};
    intact__gemm(grad->context, &gemm);
  }
  if (intact__wants(grad, 2)) { /* alpha a' dy */
    INTACT_TRY(intact__grad_operand(grad, 2, &d));
    intact_gemm gemm = {.m = k,
                        .n = n,
                        .k = m,
                        .a = intact__f32(a),
                        .a_row = 1,
                        .a_col = k,
                        .b = intact__f32(dy),
                        .b_row = n,
                        .b_col = 1,
                        .c = intact__f32(d),
                        .c_row = n,
                        .alpha = alpha};
    intact__gemm(grad->context, &gemm);
  }
  return INTACT_OK;
}

static int addmm_weight_axis(const intact_node *node, int *groups) {
  (void)node;
  *groups = 1;
  return 1;
}

static int64_t addmm_macs(const intact_node *node) {
  const intact_value *a = node->operands[1], *b = node->operands[2];
  if (a->rank != 2 || b->rank != 2) return 0;
  return intact__known_product(a->dims, 0, 2) * intact__known_product(b->dims, 1, 2);
}

const intact_op intact_op_addmm = {
    .name = "addmm",
    .doc = "y = beta c + alpha a b; c broadcasts to the product, and is not read when beta is 0.",
    .schema = {INTACT_OPERANDS({"c", INTACT_ROLE_BIAS, 0}, {"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_WEIGHT, 0}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_FLOAT_ATTR("beta", 1), INTACT_FLOAT_ATTR("alpha", 1))},
    .infer = infer_addmm,
    .eval_f32 = eval_addmm,
    .eval_fast = INTACT_FAST(intact__addmm_fast),
    .grad = grad_addmm,
    .quant = {.result = INTACT_RESULT_OWN, .bias_of = {1, 2}, .may_fuse_clamp = true, .weight_axis = addmm_weight_axis},
    .int_layout = INTACT_INT_ROWS,
    .check_int = intact__check_addmm,
    .lower_int = intact__lower_addmm,
    .macs = addmm_macs,
    /* onnx fix-up gemm: C left out becomes a product alone; transA and transB become transposes (of the constant itself
       where it is one). alpha = beta = 1, transA = 0, C left out or of length n: the row linear with w = B' instead. */
    .aliases =
        (const intact_alias[]){
            {"aten", "aten::addmm", 0, 0, NULL, NULL}, {"onnx", "Gemm", 0, 0, "alpha=alpha,beta=beta", "gemm"}, {0}},
};
