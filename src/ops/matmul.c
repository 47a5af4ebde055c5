/* SPDX-License-Identifier: Apache-2.0 */
/* The row matmul: matrix products with broadcasting over leading dimensions. */
#include "ops/matmul.h"

#include <string.h>

#include "ops/fast.h"
#include "ops/lower.h"
#include "ops/ops.h"

static intact_status infer_matmul(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *a = node->operands[0], *b = node->operands[1];
  INTACT_TRY(intact__infer_floats(infer));
  if (a->rank < 0 || b->rank < 0) {
    intact__layer_result(infer, 0, INTACT_F32, -1, NULL);
    return INTACT_OK;
  }
  char text_a[160], text_b[160];
  int64_t inner_b = b->rank == 0 ? 0 : b->dims[b->rank > 1 ? b->rank - 2 : 0], agreed, dims[INTACT_MAX_RANK];
  bool fits = a->rank >= 1 && b->rank >= 1 && intact__dims_agree(a->dims[a->rank - 1], inner_b, &agreed);
  int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
  int rank = batch_a > batch_b ? batch_a : batch_b;
  for (int i = 0; fits && i < rank; i++) {
    int64_t da = i < rank - batch_a ? 1 : a->dims[i - (rank - batch_a)],
            db = i < rank - batch_b ? 1 : b->dims[i - (rank - batch_b)];
    dims[i] = da;
    if (da == 1) {
      dims[i] = db;
    } else if (db != 1) {
      fits = intact__dims_agree(da, db, &dims[i]);
    }
  }
  if (!fits) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "matmul: a is %s, b is %s; they must be [..., m, k] and [..., k, n] with leading dimensions that broadcast",
                intact__shape_text(a->rank, a->dims, text_a), intact__shape_text(b->rank, b->dims, text_b));
  }
  if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
  intact__layer_result(infer, 0, INTACT_F32, rank, dims);
  return INTACT_OK;
}

void intact__matmul_plan(const intact_tensor *a, const intact_tensor *b, intact_matmul *plan) {
  int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
  plan->m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  plan->k = a->dims[a->rank - 1];
  plan->n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  plan->rank = batch_a > batch_b ? batch_a : batch_b;
  plan->batches = 1;
  int64_t step_a = plan->m * plan->k, step_b = plan->k * plan->n;
  for (int i = plan->rank - 1; i >= 0; i--) {
    int ia = i - (plan->rank - batch_a), ib = i - (plan->rank - batch_b);
    int64_t da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
    plan->dims[i] = da == 1 ? db : da;
    plan->step_a[i] = da == 1 ? 0 : step_a;
    plan->step_b[i] = db == 1 ? 0 : step_b;
    step_a *= da;
    step_b *= db;
    plan->batches *= plan->dims[i];
  }
}

void intact__matmul_offsets(const intact_matmul *plan, int64_t batch, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int i = plan->rank - 1; i >= 0; i--) {
    int64_t position = batch % plan->dims[i];
    batch /= plan->dims[i];
    *a += position * plan->step_a[i];
    *b += position * plan->step_b[i];
  }
}

static intact_status eval_matmul(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  intact_matmul p;
  intact__matmul_plan(call->operands[0], call->operands[1], &p);
  for (int64_t batch = 0; batch < p.batches; batch++) {
    int64_t a, b;
    intact__matmul_offsets(&p, batch, &a, &b);
    intact_gemm gemm = {.m = p.m,
                        .n = p.n,
                        .k = p.k,
                        .a = intact__operand_f32(call, 0) + a,
                        .a_row = p.k,
                        .a_col = 1,
                        .b = intact__operand_f32(call, 1) + b,
                        .b_row = p.n,
                        .b_col = 1,
                        .c = intact__f32(y) + batch * p.m * p.n,
                        .c_row = p.n,
                        .alpha = 1};
    intact__gemm(call->context, &gemm);
  }
  return INTACT_OK;
}

static intact_status grad_matmul(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  intact_matmul p;
  intact__matmul_plan(grad->operands[0], grad->operands[1], &p);
  intact_tensor *da = NULL, *db = NULL;
  if (intact__wants(grad, 0)) INTACT_TRY(intact__grad_operand(grad, 0, &da));
  if (intact__wants(grad, 1)) INTACT_TRY(intact__grad_operand(grad, 1, &db));
  for (int64_t batch = 0; batch < p.batches; batch++) {
    int64_t a, b;
    intact__matmul_offsets(&p, batch, &a, &b);
    const float *d = intact__f32(dy) + batch * p.m * p.n;
    if (da != NULL) { /* dy b', summed where a was broadcast */
      intact_gemm gemm = {.m = p.m,
                          .n = p.k,
                          .k = p.n,
                          .a = d,
                          .a_row = p.n,
                          .a_col = 1,
                          .b = intact__f32(grad->operands[1]) + b,
                          .b_row = 1,
                          .b_col = p.n,
                          .c = intact__f32(da) + a,
                          .c_row = p.k,
                          .alpha = 1,
                          .add = true};
      intact__gemm(grad->context, &gemm);
    }
    if (db != NULL) { /* a' dy */
      intact_gemm gemm = {.m = p.k,
                          .n = p.n,
                          .k = p.m,
                          .a = intact__f32(grad->operands[0]) + a,
                          .a_row = 1,
                          .a_col = p.k,
                          .b = d,
                          .b_row = p.n,
                          .b_col = 1,
                          .c = intact__f32(db) + b,
                          .c_row = p.n,
                          .alpha = 1,
                          .add = true};
      intact__gemm(grad->context, &gemm);
    }
  }
  return INTACT_OK;
}

/* Columns of a matrix; stacks of matrices per tensor only. */
static int matmul_weight_axis(const intact_node *node, int *groups) {
  *groups = 1;
  return node->operands[1]->rank == 2 ? 1 : -1;
}

static int64_t matmul_macs(const intact_node *node) {
  const intact_value *a = node->operands[0], *y = node->results[0];
  if (a->rank < 1 || y->rank < 0) return 0;
  return intact__known_product(y->dims, 0, y->rank) * intact__known_product(a->dims, a->rank - 1, a->rank);
}

const intact_op intact_op_matmul = {
    .name = "matmul",
    .doc = "Matrix product of the last two dimensions; leading dimensions broadcast, vectors are rows (a) or columns (b).",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_WEIGHT, 0}), INTACT_RESULTS("y")},
    .infer = infer_matmul,
    .eval_f32 = eval_matmul,
    .eval_fast = INTACT_FAST(intact__matmul_fast),
    .grad = grad_matmul,
    .grad_fast = INTACT_FAST(intact__matmul_grad_fast),
    .quant = {.result = INTACT_RESULT_OWN, .may_fuse_clamp = true, .weight_axis = matmul_weight_axis},
    .int_layout = INTACT_INT_ROWS,
    .check_int = intact__check_matmul,
    .lower_int = intact__lower_matmul,
    .macs = matmul_macs,
    .aliases = (const intact_alias[]){{"aten", "aten::matmul", 0, 0, NULL, NULL},
                                      {"aten", "aten::mm", 0, 0, NULL, NULL},
                                      {"aten", "aten::bmm", 0, 0, NULL, NULL},
                                      {"aten", "aten::mv", 0, 0, NULL, NULL},
                                      {"aten", "aten::dot", 0, 0, NULL, NULL},
                                      {"onnx", "MatMul", 0, 0, NULL, NULL},
                                      {0}},
};
