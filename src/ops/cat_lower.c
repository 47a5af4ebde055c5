/* SPDX-License-Identifier: Apache-2.0 */
/* Integer cat: every operand is copied to its place, through a table where its qparams are not the result's. */
#include <string.h>

#include "kernels/affine/affine.h"
#include "kernels/qlut/qlut.h"
#include "ops/lower.h"

enum { GRAIN_BYTES = 1 << 13 };

typedef struct part {
  const void *constant; /* NULL: comes with the call */
  int64_t bytes, at;    /* of one outer position: length and place in the result's */
  bool change;
  uint8_t table[256];
} part;

typedef struct cat_step {
  int n;
  part *parts;
  int64_t outer, bytes; /* bytes of one outer position of the result */
  intact_qlut_fn *change;
} cat_step;

const char *intact__check_cat(const intact_node *node) {
  if (node->n_operands > 64) return "it has more than 64 operands";
  for (int i = 0; i < node->n_operands; i++) {
    const char *why = intact__check_int8(node, i);
    if (why != NULL) return why;
  }
  return intact__is_int8(node->results[0]) ? NULL : "the output is not quantized to 8 bits per tensor";
}

typedef struct cat_job {
  const cat_step *step;
  const void *const *in;
  uint8_t *y;
} cat_job;

static void run_outer(void *user, int64_t begin, int64_t end) {
  const cat_job *job = user;
  const cat_step *s = job->step;
  for (int64_t o = begin; o < end; o++)
    for (int i = 0; i < s->n; i++) {
      const part *p = &s->parts[i];
      const uint8_t *x = (const uint8_t *)(p->constant != NULL ? p->constant : job->in[i]) + o * p->bytes;
      uint8_t *y = job->y + o * s->bytes + p->at;
      if (p->change)
        s->change(x, p->bytes, p->table, y);
      else
        memcpy(y, x, (size_t)p->bytes);
    }
}

static intact_status run_cat(const intact_step_call *call) {
  const cat_step *s = call->step->params;
  cat_job job = {s, call->in, call->out[0]};
  if (s->bytes > 0) intact__parallel(call->context, s->outer, GRAIN_BYTES / s->bytes + 1, run_outer, &job);
  return INTACT_OK;
}

static void fill_part(const intact_value *x, const intact_value *y, part *p) {
  const intact_qparams *qx = x->qparams, *qy = y->qparams;
  intact_affine affine = intact__affine(qy->scale[0], qy->zero_point[0], qy->quant_min, qy->quant_max);
  for (int i = 0; i < 256; i++) {
    int32_t q = intact__is_signed(x) ? (int8_t)i : i;
    p->table[i] = (uint8_t)intact__quantize_one(intact__dequantize_one(q, qx->scale[0], qx->zero_point[0]), &affine);
    p->change = p->change || (p->table[i] != i && q >= qx->quant_min && q <= qx->quant_max);
  }
}

intact_status intact__lower_cat(intact_lower *lower) {
  const intact_node *node = lower->node;
  const intact_value *y = node->results[0];
  int64_t dims[INTACT_MAX_RANK];
  int rank = intact__physical_dims(lower, y, dims), axis = (int)intact__attr_int(node, "dim");
  axis = intact__physical_axis(lower, rank, axis < 0 ? axis + rank : axis);
  cat_step *s;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  INTACT_TRY(INTACT_LOWER_NEW(lower, node->n_operands, &s->parts));
  s->n = node->n_operands;
  s->outer = s->bytes = 1;
  for (int i = 0; i < rank; i++) *(i < axis ? &s->outer : &s->bytes) *= dims[i];
  int64_t at = 0;
  for (int i = 0; i < s->n; i++) {
    part *p = &s->parts[i];
    p->at = at;
    p->bytes = s->outer > 0 ? intact__value_count(node->operands[i]) / s->outer : 0;
    at += p->bytes;
    fill_part(node->operands[i], y, p);
    INTACT_TRY(intact__lower_constant(lower, i, &p->constant));
  }
  const intact_qlut_kernel *kernel = intact__qlut_pick(lower->isa_set);
  s->change = kernel->run;
  lower->step->kernel = kernel->name;
  lower->step->run = run_cat;
  lower->step->params = s;
  intact__lower_packed(lower);
  return INTACT_OK;
}
