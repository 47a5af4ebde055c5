/* SPDX-License-Identifier: Apache-2.0 */
/* The fast forms of linear, addmm and matmul. */
#include <string.h>

#include "kernels/float/float_kernels.h"
#include "ops/fast.h"
#include "ops/matmul.h"

static int64_t rows_of(const intact_tensor *tensor) {
  return intact__known_product(tensor->dims, 0, tensor->rank - 1);
}

/* ---- linear ---- */

intact_status intact__linear_fast(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0], *w = call->operands[1];
  const float *bias = intact__operand_f32(call, 2);
  if (x->count == 0 || y->count == 0) return call->node->op->eval_f32(call);
  intact_float_gemm gemm = {.m = rows_of(x), .n = w->dims[0], .k = w->dims[1], .b_transposed = true, .alpha = 1};
  for (int64_t i = 0; i < gemm.m && bias != NULL; i++)
    memcpy(intact__f32(y) + i * gemm.n, bias, (size_t)gemm.n * sizeof(float));
  gemm.beta = bias != NULL;
  return intact__float_gemm(call->context, &gemm, intact__f32(x), intact__f32(w), intact__f32(y));
}

intact_status intact__linear_grad_fast(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *w = grad->operands[1], *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  if (x->count == 0 || dy->count == 0) return grad->node->op->grad(grad);
  int64_t m = rows_of(x), n = w->dims[0], k = w->dims[1];
  intact_tensor *d;
  if (intact__wants(grad, 0)) {
    INTACT_TRY(intact__grad_operand_raw(grad, 0, &d));
    intact_float_gemm gemm = {.m = m, .n = k, .k = n, .alpha = 1};
    INTACT_TRY(intact__float_gemm(grad->context, &gemm, intact__f32(dy), intact__f32(w), intact__f32(d)));
  }
  if (intact__wants(grad, 1)) {
    INTACT_TRY(intact__grad_operand_raw(grad, 1, &d));
    intact_float_gemm gemm = {.m = n, .n = k, .k = m, .a_transposed = true, .alpha = 1};
    INTACT_TRY(intact__float_gemm(grad->context, &gemm, intact__f32(dy), intact__f32(x), intact__f32(d)));
  }
  if (intact__wants(grad, 2)) {
    INTACT_TRY(intact__grad_operand_raw(grad, 2, &d));
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t i = 0; i < m; i++) sum += intact__f32(dy)[i * n + j];
      intact__f32(d)[j] = (float)sum;
    }
  }
  return INTACT_OK;
}

/* ---- addmm ---- */

intact_status intact__addmm_fast(const intact_call *call) {
  intact_tensor *y;
  const intact_tensor *c = call->operands[0], *a = call->operands[1], *b = call->operands[2];
  double beta = intact__attr_float(call->node, "beta"), alpha = intact__attr_float(call->node, "alpha");
  bool plain = beta == 0 || c->rank == 1 || (c->rank == 2 && c->dims[0] == 1);
  if (!plain || a->count == 0 || b->count == 0) return call->node->op->eval_f32(call);
  INTACT_TRY(intact__call_begin(call, &y));
  int64_t m = a->dims[0], n = b->dims[1];
  for (int64_t i = 0; i < m && beta != 0; i++) {
    for (int64_t j = 0; j < n; j++) intact__f32(y)[i * n + j] = (float)(beta * intact__f32(c)[c->count == 1 ? 0 : j]);
  }
  intact_float_gemm gemm = {.m = m, .n = n, .k = a->dims[1], .alpha = (float)alpha, .beta = beta != 0};
  return intact__float_gemm(call->context, &gemm, intact__f32(a), intact__f32(b), intact__f32(y));
}

/* ---- matmul ---- */

/* The operand of step `steps` lies dense, batch after batch, or is the same for all batches (*shared). */
static bool is_regular(const intact_matmul *p, const int64_t *steps, int64_t matrix, bool *shared) {
  bool dense = true, same = true;
  int64_t expected = matrix;
  for (int i = p->rank - 1; i >= 0; i--) {
    if (p->dims[i] == 1) continue;
    dense = dense && steps[i] == expected;
    same = same && steps[i] == 0;
    expected *= p->dims[i];
  }
  *shared = same && !dense;
  return dense || same;
}

/* One product when the batches of a are rows of one matrix and b is one matrix; else a batch; else one after another. */
static intact_status run_products(intact_context *context, const intact_matmul *p, const float *a, const float *b,
                                  float *c) {
  bool a_shared, b_shared, done = false;
  bool regular_a = is_regular(p, p->step_a, p->m * p->k, &a_shared),
       regular_b = is_regular(p, p->step_b, p->k * p->n, &b_shared);
  bool regular = regular_a && regular_b;
  if (regular && (p->batches == 1 || (b_shared && !a_shared))) {
    intact_float_gemm gemm = {.m = p->m * p->batches, .n = p->n, .k = p->k, .alpha = 1};
    return intact__float_gemm(context, &gemm, a, b, c);
  }
  if (regular) {
    intact_float_matmul matmul = {
        .batch = p->batches, .m = p->m, .n = p->n, .k = p->k, .a_shared = a_shared, .b_shared = b_shared};
    INTACT_TRY(intact__float_matmul(context, &matmul, a, b, c, &done));
  }
  for (int64_t batch = 0; batch < p->batches && !done; batch++) {
    int64_t at_a, at_b;
    intact__matmul_offsets(p, batch, &at_a, &at_b);
    intact_float_gemm gemm = {.m = p->m, .n = p->n, .k = p->k, .alpha = 1};
    INTACT_TRY(intact__float_gemm(context, &gemm, a + at_a, b + at_b, c + batch * p->m * p->n));
  }
  return INTACT_OK;
}

intact_status intact__matmul_fast(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *a = call->operands[0], *b = call->operands[1];
  if (a->count == 0 || b->count == 0) return call->node->op->eval_f32(call);
  intact_matmul p;
  intact__matmul_plan(a, b, &p);
  return run_products(call->context, &p, intact__f32(a), intact__f32(b), intact__f32(y));
}

/* Products of one batch after another, added up where an operand was broadcast. */
static intact_status grad_batches(intact_grad *grad, const intact_matmul *p, float *da, float *db) {
  const float *a = intact__f32(grad->operands[0]), *b = intact__f32(grad->operands[1]),
              *dy = intact__f32(grad->d_results[0]);
  for (int64_t batch = 0; batch < p->batches; batch++) {
    int64_t at_a, at_b;
    intact__matmul_offsets(p, batch, &at_a, &at_b);
    const float *d = dy + batch * p->m * p->n;
    if (da != NULL) {
      intact_float_gemm gemm = {.m = p->m, .n = p->k, .k = p->n, .b_transposed = true, .alpha = 1, .beta = 1};
      INTACT_TRY(intact__float_gemm(grad->context, &gemm, d, b + at_b, da + at_a));
    }
    if (db != NULL) {
      intact_float_gemm gemm = {.m = p->k, .n = p->n, .k = p->m, .a_transposed = true, .alpha = 1, .beta = 1};
      INTACT_TRY(intact__float_gemm(grad->context, &gemm, a + at_a, d, db + at_b));
    }
  }
  return INTACT_OK;
}

intact_status intact__matmul_grad_fast(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  if (dy->count == 0 || grad->operands[0]->count == 0) return grad->node->op->grad(grad);
  intact_matmul p;
  bool a_shared, b_shared, done_a = false, done_b = false;
  intact_tensor *da = NULL, *db = NULL;
  intact__matmul_plan(grad->operands[0], grad->operands[1], &p);
  if (intact__wants(grad, 0)) INTACT_TRY(intact__grad_operand(grad, 0, &da));
  if (intact__wants(grad, 1)) INTACT_TRY(intact__grad_operand(grad, 1, &db));
  bool regular_a = is_regular(&p, p.step_a, p.m * p.k, &a_shared),
       regular_b = is_regular(&p, p.step_b, p.k * p.n, &b_shared);
  if (regular_a && regular_b && !a_shared && !b_shared && p.batches > 1) {
    const float *a = intact__f32(grad->operands[0]), *b = intact__f32(grad->operands[1]);
    intact_float_matmul by_a = {.batch = p.batches, .m = p.m, .n = p.k, .k = p.n, .b_transposed = 1};
    intact_float_matmul by_b = {.batch = p.batches, .m = p.k, .n = p.n, .k = p.m, .a_transposed = 1};
    if (da != NULL) INTACT_TRY(intact__float_matmul(grad->context, &by_a, intact__f32(dy), b, intact__f32(da), &done_a));
    if (db != NULL) INTACT_TRY(intact__float_matmul(grad->context, &by_b, a, intact__f32(dy), intact__f32(db), &done_b));
  }
  return grad_batches(grad, &p, da != NULL && !done_a ? intact__f32(da) : NULL,
                      db != NULL && !done_b ? intact__f32(db) : NULL);
}
