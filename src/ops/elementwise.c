/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers of elementwise ops: types, broadcasting, rows on threads, gradients summed over broadcast axes. */
#include "ops/elementwise.h"

#include <string.h>

enum { CHUNK = 256, MAX_N = INTACT_ELEMENTWISE_MAX };

/* ---- types ---- */

/* Whether the scalar that stands for operand 1 makes integers float. */
static bool scalar_is_real(const intact_node *node, const intact_elementwise *op) {
  double value = intact__attr_float(node, op->scalar);
  return !(fabs(value) <= 9007199254740992.0 && value == floor(value));
}

/* The type of the result, and in *compute the type of the loops. */
static intact_dtype result_dtype(const intact_elementwise *op, intact_dtype joined, bool real_scalar,
                                 intact_dtype *compute) {
  if (!intact_dtype_is_float(joined) && (op->s64 == NULL || real_scalar)) joined = INTACT_F32;
  *compute = joined == INTACT_F64 ? INTACT_F64 : intact_dtype_is_float(joined) ? INTACT_F32 : INTACT_S64;
  return op->to_bool ? INTACT_BOOL : joined;
}

static intact_elementwise_fn loop_of(const intact_elementwise *op, intact_dtype compute) {
  return compute == INTACT_F32 ? op->f32 : compute == INTACT_F64 ? op->f64 : op->s64;
}

static intact_status check_loop(intact_context *context, const intact_node *node, const intact_elementwise *op,
                                intact_dtype compute) {
  if (loop_of(op, compute) != NULL) return INTACT_OK;
  INTACT_FAIL(context, TYPE_MISMATCH, node->name, "%s '%s': its operands together are %s; the op takes integers only",
              node->op->name, node->name, intact_dtype_text(compute));
}

static bool takes_scalar(const intact_node *node, const intact_elementwise *op) {
  return op->scalar != NULL && (node->n_operands < 2 || node->operands[1] == NULL);
}

static intact_status check_scalar(intact_context *context, const intact_node *node, const intact_elementwise *op) {
  if (op->scalar == NULL || intact__attr(node, op->scalar)->present) return INTACT_OK;
  INTACT_FAIL(context, MISSING_FIELD, node->name,
              "%s '%s': neither operand %s nor attribute %s is given; one of them must be", node->op->name, node->name,
              node->op->schema.operands[1].name, op->scalar);
}

intact_status intact__elementwise_infer(intact_infer *infer, const intact_elementwise *op) {
  const intact_node *node = infer->node;
  bool scalar = takes_scalar(node, op);
  if (scalar) INTACT_TRY(check_scalar(infer->context, node, op));
  intact_dtype joined = node->operands[0]->dtype, compute;
  int joined_rank = node->operands[0]->rank;
  for (int i = 1; i < op->n && !scalar; i++) {
    joined = intact__promote(joined, joined_rank, node->operands[i]->dtype, node->operands[i]->rank);
    if (node->operands[i]->rank != 0) joined_rank = node->operands[i]->rank;
  }
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_broadcast(infer, 0, node->n_operands, &rank, dims));
  intact_dtype dtype = result_dtype(op, joined, scalar && scalar_is_real(node, op), &compute);
  INTACT_TRY(check_loop(infer->context, node, op, compute));
  return intact__infer_result(infer, 0, dtype, rank, dims);
}

/* ---- evaluation ---- */

typedef struct eval_job {
  intact_elementwise_fn fn;
  int n;
  size_t in_size, out_size;
  char *y;
  const char *x[MAX_N];
  double p[INTACT_MAX_NUMBERS];
} eval_job;

static void eval_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const eval_job *job = user;
  const void *x[MAX_N];
  for (int k = 0; k < job->n; k++) x[k] = job->x[k] + offset[k + 1] * (int64_t)job->in_size;
  job->fn(job->y + offset[0] * (int64_t)job->out_size, x, step + 1, n, job->p);
}

/* Shape of the result: the operands' broadcast. */
static intact_status broadcast_shape(const intact_call *call, intact_tensor *const *x, int n, int *rank, int64_t *dims) {
  *rank = x[0]->rank;
  memcpy(dims, x[0]->dims, sizeof(int64_t) * (size_t)*rank);
  for (int k = 1; k < n; k++) {
    int64_t before[INTACT_MAX_RANK];
    int rank_before = *rank;
    memcpy(before, dims, sizeof before);
    if (intact__broadcast_shapes(rank_before, before, x[k]->rank, x[k]->dims, rank, dims)) continue;
    char mine[160], theirs[160];
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name,
                "%s '%s': shapes %s and %s do not broadcast; aligned from the "
                "right, dimensions must be equal or 1",
                call->node->op->name, call->node->name, intact__shape_text(rank_before, before, mine),
                intact__shape_text(x[k]->rank, x[k]->dims, theirs));
  }
  return INTACT_OK;
}

/* The operands in the loops' type, the scalar as a 0-d tensor; all owned by x. */
static intact_status take_operands(const intact_call *call, const intact_elementwise *op, intact_dtype *dtype,
                                   intact_dtype *compute, intact_tensor **x) {
  const intact_tensor *first = call->operands[0];
  bool scalar = op->scalar != NULL && intact__operand(call, 1) == NULL;
  intact_dtype joined = first->dtype;
  int joined_rank = first->rank;
  for (int k = 1; k < op->n && !scalar; k++) {
    joined = intact__promote(joined, joined_rank, call->operands[k]->dtype, call->operands[k]->rank);
    if (call->operands[k]->rank != 0) joined_rank = call->operands[k]->rank;
  }
  *dtype = result_dtype(op, joined, scalar && scalar_is_real(call->node, op), compute);
  INTACT_TRY(check_loop(call->context, call->node, op, *compute));
  for (int k = 0; k < op->n; k++) {
    if (k == 1 && scalar) {
      INTACT_TRY(intact_tensor_create(call->context, *compute, 0, NULL, &x[k]));
      intact__tensor_set_f64(x[k], 0, intact__attr_float(call->node, op->scalar));
    } else {
      INTACT_TRY(intact__as_dtype(call->operands[k], *compute, &x[k]));
    }
  }
  return INTACT_OK;
}

static intact_walk make_walk(intact_tensor *const *x, int n, int rank, const int64_t *dims) {
  intact_view dense[MAX_N + 1];
  const intact_view *views[MAX_N + 1];
  dense[0] = intact__view_dense(rank, dims);
  for (int k = 0; k < n; k++) dense[k + 1] = intact__view_broadcast(x[k], rank, dims);
  for (int k = 0; k <= n; k++) views[k] = &dense[k];
  return intact__walk_make(n + 1, views);
}

/* Integers of 64 bits to a narrower type, wrapped as its own arithmetic would have. */
static intact_status wrap_result(const intact_call *call, intact_dtype dtype, const intact_tensor *wide) {
  intact_tensor *y = NULL;
  int bits = intact_dtype_bits(dtype);
  bool is_signed = intact_dtype_min(dtype) < 0;
  INTACT_TRY(intact__call_result(call, 0, dtype, wide->rank, wide->dims, &y));
  for (int64_t i = 0; i < wide->count; i++) {
    uint64_t kept = (uint64_t)((const int64_t *)wide->data)[i];
    if (bits < 64) kept &= ((uint64_t)1 << bits) - 1;
    bool negative = is_signed && bits < 64 && (kept >> (bits - 1)) != 0;
    intact__tensor_set_s64(y, i, negative ? (int64_t)kept - ((int64_t)1 << bits) : (int64_t)kept);
  }
  return INTACT_OK;
}

intact_status intact__elementwise_eval(const intact_call *call, const intact_elementwise *op) {
  intact_status status = INTACT_OK;
  intact_tensor *x[MAX_N] = {NULL}, *y = NULL, *made = NULL;
  intact_dtype dtype, compute;
  int rank = 0;
  int64_t dims[INTACT_MAX_RANK] = {0};
  INTACT_TRY_TO(end, take_operands(call, op, &dtype, &compute, x));
  INTACT_TRY_TO(end, broadcast_shape(call, x, op->n, &rank, dims));
  bool direct = dtype == compute || op->to_bool;
  if (direct) {
    INTACT_TRY_TO(end, intact__call_result(call, 0, dtype, rank, dims, &y));
  } else {
    INTACT_TRY_TO(end, intact__tensor_create_raw(call->context, compute, rank, dims, &made));
    y = made;
  }
  eval_job job = {.fn = loop_of(op, compute), .n = op->n, .y = y->data};
  job.in_size = (size_t)intact_dtype_bits(compute) / 8;
  job.out_size = (size_t)intact_dtype_bits(y->dtype) / 8;
  for (int k = 0; k < op->n; k++) job.x[k] = x[k]->data;
  intact__attr_numbers(call->node, job.p);
  intact_walk walk = make_walk(x, op->n, rank, dims);
  intact__walk_all(call->context, &walk, eval_row, &job);
  if (!direct && intact_dtype_is_integer(dtype)) {
    INTACT_TRY_TO(end, wrap_result(call, dtype, made));
  } else if (!direct) {
    made = NULL;
    INTACT_TRY_TO(end, intact__give_result(call, 0, dtype, y));
  }
end:
  for (int k = 0; k < MAX_N; k++) intact_tensor_destroy(x[k]);
  intact_tensor_destroy(made);
  return status;
}

/* ---- gradient ---- */

typedef struct grad_job {
  const intact_elementwise *op;
  const float *y, *dy, *x[MAX_N];
  float *dx[MAX_N];   /* NULL: not needed */
  double *sum[MAX_N]; /* of broadcast operands */
  double p[INTACT_MAX_NUMBERS];
} grad_job;

static void grad_chunk(const grad_job *job, int64_t n, const int64_t *offset, const int64_t *step) {
  float buffer[MAX_N][CHUNK];
  float *to[MAX_N] = {NULL};
  const float *x[MAX_N] = {NULL};
  for (int k = 0; k < job->op->n; k++) {
    x[k] = job->x[k] + offset[k + 1];
    if (job->dx[k] != NULL) to[k] = job->sum[k] != NULL ? buffer[k] : job->dx[k] + offset[k + 1];
  }
  job->op->grad(to, x, step + 1, job->y + offset[0], job->dy + offset[0], n, job->p);
  for (int k = 0; k < job->op->n; k++) {
    if (to[k] == NULL || job->sum[k] == NULL) continue;
    double *sum = job->sum[k] + offset[k + 1];
    for (int64_t i = 0; i < n; i++) sum[i * step[k + 1]] += (double)buffer[k][i];
  }
}

static void grad_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const grad_job *job = user;
  int64_t at[INTACT_WALK_VIEWS];
  for (int64_t done = 0; done < n; done += CHUNK) {
    for (int k = 0; k <= job->op->n; k++) at[k] = offset[k] + done * step[k];
    grad_chunk(job, n - done < CHUNK ? n - done : CHUNK, at, step);
  }
}

/* Gradients of the operands that need one, with sums where operands are broadcast. */
static intact_status make_gradients(intact_grad *grad, const intact_elementwise *op, int64_t count, grad_job *job,
                                    bool *shared) {
  int wanted = 0;
  for (int k = 0; k < op->n && k < grad->n_operands; k++) wanted += grad->needed[k] && grad->operands[k] != NULL;
  for (int k = 0; k < op->n && k < grad->n_operands; k++) {
    if (!grad->needed[k] || grad->operands[k] == NULL) continue;
    intact_tensor *dx = NULL;
    INTACT_TRY(wanted == 1 ? intact__grad_operand_over(grad, k, 0, &dx) : intact__grad_operand_raw(grad, k, &dx));
    job->dx[k] = intact__f32(dx);
    if (dx->count == count) continue;
    *shared = true;
    job->sum[k] = intact__alloc_zeroed(grad->context, (size_t)dx->count, sizeof(double));
    if (job->sum[k] == NULL && dx->count > 0) return intact__no_memory(grad->context, (size_t)dx->count * sizeof(double));
  }
  return INTACT_OK;
}

intact_status intact__elementwise_grad(intact_grad *grad, const intact_elementwise *op) {
  const intact_tensor *y = grad->results[0], *dy = grad->d_results[0];
  bool wanted = false;
  for (int k = 0; k < op->n && k < grad->n_operands; k++) wanted = wanted || grad->needed[k];
  if (dy == NULL || !wanted) return INTACT_OK;
  if (y->dtype != INTACT_F32) {
    INTACT_FAIL(grad->context, UNSUPPORTED_TYPE, grad->node->name, "%s '%s': its result is %s; gradients are float32 only",
                grad->node->op->name, grad->node->name, intact_dtype_text(y->dtype));
  }
  intact_status status = INTACT_OK;
  intact_tensor *x[MAX_N] = {NULL};
  grad_job job = {.op = op, .y = intact__f32(y), .dy = intact__f32(dy)};
  bool shared = false;
  intact__attr_numbers(grad->node, job.p);
  for (int k = 0; k < op->n; k++) {
    if (k < grad->n_operands && grad->operands[k] != NULL) {
      INTACT_TRY_TO(end, intact__as_dtype(grad->operands[k], INTACT_F32, &x[k]));
    } else {
      INTACT_TRY_TO(end, intact__tensor_scalar_f32(grad->context, (float)intact__attr_float(grad->node, op->scalar), &x[k]));
    }
    job.x[k] = intact__f32(x[k]);
  }
  INTACT_TRY_TO(end, make_gradients(grad, op, y->count, &job, &shared));
  intact_walk walk = make_walk(x, op->n, y->rank, y->dims);
  if (shared) {
    intact__walk_range(&walk, 0, walk.count, grad_row, &job);
  } else {
    intact__walk_all(grad->context, &walk, grad_row, &job);
  }
  for (int k = 0; k < op->n; k++) {
    if (job.sum[k] == NULL) continue;
    for (int64_t i = 0; i < x[k]->count; i++) job.dx[k][i] = (float)job.sum[k][i];
  }
end:
  for (int k = 0; k < op->n; k++) {
    intact__free(grad->context, job.sum[k]);
    intact_tensor_destroy(x[k]);
  }
  return status;
}
