/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, results and the matrix product shared by the rows of neural layers. */
#include "ops/layer.h"

#include <assert.h>
#include <string.h>

intact_status intact__infer_float(intact_infer *infer, int i) {
  const intact_node *node = infer->node;
  if (i >= node->n_operands || node->operands[i] == NULL) return INTACT_OK;
  const intact_value *value = node->operands[i];
  if (value->dtype == INTACT_F32) return INTACT_OK;
  const char *name = intact__operand_spec(node->op, i)->name;
  INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "%s: operand %s (%s) is %s; it must be f32: cast it",
              node->op->name, name, value->name, intact_dtype_text(value->dtype));
}

intact_status intact__infer_floats(intact_infer *infer) {
  for (int i = 0; i < infer->node->n_operands; i++) INTACT_TRY(intact__infer_float(infer, i));
  return INTACT_OK;
}

void intact__layer_result(intact_infer *infer, int i, intact_dtype dtype, int rank, const int64_t *dims) {
  if (i >= infer->node->n_results) return;
  intact_value *result = infer->node->results[i];
  result->dtype = dtype;
  result->rank = rank;
  for (int d = 0; d < rank; d++) result->dims[d] = dims[d];
}

void intact__layer_like(intact_infer *infer, int i, int like) {
  const intact_value *operand = infer->node->operands[like];
  intact__layer_result(infer, i, INTACT_F32, operand->rank, operand->dims);
}

bool intact__dims_agree(int64_t a, int64_t b, int64_t *dim) {
  if (a >= 0 && b >= 0 && a != b) return false;
  *dim = a >= 0 ? a : b;
  return true;
}

int64_t intact__known_product(const int64_t *dims, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; d++) product *= dims[d] < 0 ? 1 : dims[d];
  return product;
}

enum { MAX_OPERANDS_ON_STACK = 8 };

static intact_status infer_shapes(const intact_call *call, intact_value *operands, intact_value **pointers, int n,
                                  intact_value *results, intact_value **result_pointers) {
  const intact_node *node = call->node;
  for (int i = 0; i < call->n_operands; i++) {
    const intact_tensor *tensor = call->operands[i];
    pointers[i] = NULL;
    if (tensor == NULL) continue;
    const intact_value *value = i < node->n_operands ? node->operands[i] : NULL;
    intact_value *copy = &operands[i];
    *copy = (intact_value){.name = value != NULL ? value->name : "operand", .dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(copy->dims, tensor->dims, (size_t)tensor->rank * sizeof(int64_t));
    union {
      const intact_tensor *from;
      intact_tensor *to;
    } constant = {.from = tensor};
    copy->constant = constant.to; /* infer only reads it */
    pointers[i] = copy;
  }
  for (int i = 0; i < n; i++) {
    results[i] = (intact_value){.name = "", .rank = -1};
    result_pointers[i] = &results[i];
  }
  intact_node twin = *node;
  twin.n_operands = call->n_operands;
  twin.n_results = n;
  twin.operands = pointers;
  twin.results = result_pointers;
  intact_infer infer = {.context = call->context, .node = &twin};
  return node->op->infer(&infer);
}

intact_status intact__call_shapes(const intact_call *call, int n, intact_value *results) {
  intact_value few[MAX_OPERANDS_ON_STACK];
  intact_value *few_pointers[MAX_OPERANDS_ON_STACK], *result_pointers[MAX_OPERANDS_ON_STACK];
  assert(n <= MAX_OPERANDS_ON_STACK);
  if (call->n_operands <= MAX_OPERANDS_ON_STACK) return infer_shapes(call, few, few_pointers, n, results, result_pointers);
  size_t count = (size_t)call->n_operands, bytes = count * (sizeof(intact_value) + sizeof(intact_value *));
  intact_value *many = intact__alloc(call->context, bytes, 1);
  if (many == NULL) return intact__no_memory(call->context, bytes);
  intact_value **many_pointers = (intact_value **)(void *)(many + count);
  intact_status status = infer_shapes(call, many, many_pointers, n, results, result_pointers);
  intact__free(call->context, many);
  return status;
}

intact_status intact__call_begin(const intact_call *call, intact_tensor **results) {
  intact_value shapes[MAX_OPERANDS_ON_STACK];
  INTACT_TRY(intact__call_shapes(call, call->n_results, shapes));
  for (int i = 0; i < call->n_results; i++) {
    INTACT_TRY(intact__call_result(call, i, shapes[i].dtype, shapes[i].rank, shapes[i].dims, &results[i]));
  }
  return INTACT_OK;
}

static void gemm_rows(void *user, int64_t begin, int64_t end) {
  const intact_gemm *g = user;
  for (int64_t i = begin; i < end; i++) {
    const float *a = g->a + i * g->a_row;
    float *c = g->c + i * g->c_row;
    for (int64_t j = 0; j < g->n; j++) {
      const float *b = g->b + j * g->b_col;
      double sum = 0;
      for (int64_t k = 0; k < g->k; k++) sum += (double)a[k * g->a_col] * b[k * g->b_row];
      sum *= g->alpha;
      c[j] = (float)(g->add ? c[j] + sum : sum);
    }
  }
}

void intact__gemm(intact_context *context, const intact_gemm *gemm) {
  intact_gemm copy = *gemm;
  int64_t work = gemm->n * gemm->k;
  int64_t grain = work > 65536 ? 1 : 65536 / (work + 1) + 1;
  intact__parallel(context, gemm->m, grain, gemm_rows, &copy);
}
