/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of one 8-bit value to another as a table of 256 entries, filled by the op's own definition. */
#include <string.h>

#include "kernels/qlut/qlut.h"
#include "ops/lower.h"

enum { GRAIN = 1 << 14, MAX_OPERANDS = 8 };

typedef struct table_step {
  intact_qlut_fn *run;
  int operand;
  int64_t count;
  uint8_t table[256];
} table_step;

/* The operand that varies; -1 unless all others are constants of one element that do not raise the rank. */
static int varying_operand(const intact_node *node) {
  int x = -1;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL || (value->constant != NULL && value->constant->count == 1)) continue;
    if (x >= 0) return -1;
    x = i;
  }
  for (int i = 0; i < node->n_operands && x >= 0; i++)
    if (node->operands[i] != NULL && node->operands[i]->rank > node->operands[x]->rank) return -1;
  return x;
}

const char *intact__check_unary(const intact_node *node) {
  int x = varying_operand(node);
  if (x < 0 || node->n_operands > MAX_OPERANDS) return "it is no map of one value";
  return node->n_results == 1 ? intact__check_int8(node, x) : "it has more than one result";
}

typedef struct table_job {
  const table_step *step;
  const uint8_t *x;
  uint8_t *y;
} table_job;

static void run_piece(void *user, int64_t begin, int64_t end) {
  const table_job *job = user;
  job->step->run(job->x + begin, end - begin, job->step->table, job->y + begin);
}

static intact_status run_table(const intact_step_call *call) {
  const table_step *step = call->step->params;
  table_job job = {step, call->in[step->operand], call->out[0]};
  intact__parallel(call->context, step->count, GRAIN, run_piece, &job);
  return INTACT_OK;
}

/* table[bits of q] = bits of the result that the op's definition gives for q. */
static intact_status fill_table(const intact_lower *lower, int operand, uint8_t *table) {
  const intact_node *node = lower->node;
  uint8_t codes[256];
  for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
  int64_t dims[1] = {256};
  intact_tensor *x = NULL, *y = NULL;
  INTACT_TRY(intact_tensor_borrow(lower->context, node->operands[operand]->dtype, 1, dims, codes, &x));
  const intact_tensor *operands[MAX_OPERANDS] = {NULL};
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL) operands[i] = i == operand ? x : node->operands[i]->constant;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__eval_node(node, operands, false, &y));
  if (y->count != 256 || intact_dtype_bits(y->dtype) != 8)
    INTACT_FAIL_TO(done, lower->context, INTERNAL, node->name, "%s is not a map of 8-bit values", node->op->name);
  memcpy(table, y->data, 256);
done:
  intact_tensor_destroy(y);
  intact_tensor_destroy(x);
  return status;
}

intact_status intact__lower_unary(intact_lower *lower) {
  table_step *params;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &params));
  params->operand = varying_operand(lower->node);
  INTACT_TRY(fill_table(lower, params->operand, params->table));
  const intact_qlut_kernel *kernel = intact__qlut_pick(lower->isa_set);
  params->run = kernel->run;
  params->count = intact__value_count(lower->node->results[0]);
  lower->step->kernel = kernel->name;
  lower->step->run = run_table;
  lower->step->params = params;
  intact__lower_packed(lower);
  lower->step->can_run_in_place = params->operand == 0;
  return INTACT_OK;
}
