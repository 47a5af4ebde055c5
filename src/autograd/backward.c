/* SPDX-License-Identifier: Apache-2.0 */
/* Backward: the records behind a variable, last one first. */
#include <stdlib.h>

#include "autograd/tape.h"

enum { GRAIN = 1 << 14 };

/* ---- sums ---- */

typedef struct addition {
  float *to;
  const float *a, *b;
} addition;

static void add_range(void *user, int64_t begin, int64_t end) {
  const addition *s = user;
  for (int64_t i = begin; i < end; i++) s->to[i] = s->a[i] + s->b[i];
}

intact_status intact__add_gradient(intact_tensor **sum, const intact_tensor *d) {
  if (!*sum) return intact_tensor_share(d, 0, NULL, sum);
  intact_tensor *to = *sum;
  if (!intact__tensor_is_sole(to)) INTACT_TRY(intact__tensor_create_raw(d->context, INTACT_F32, to->rank, to->dims, &to));
  addition s = {intact__f32(to), intact__f32(*sum), intact__f32(d)};
  intact__parallel(d->context, d->count, GRAIN, add_range, &s);
  if (to != *sum) {
    intact_tensor_destroy(*sum);
    *sum = to;
  }
  return INTACT_OK;
}

/* ---- the walk ---- */

typedef struct walk {
  intact_context *context;
  uint64_t number;
  intact_record **records; /* held */
  size_t n, capacity;
} walk;

static intact_status reach(walk *w, intact_record *record) {
  if (!record || record->walk == w->number) return INTACT_OK;
  void *array = w->records;
  INTACT_TRY(intact__reserve(w->context, &array, &w->capacity, w->n + 1, sizeof *w->records));
  w->records = array;
  if (record->is_freed)
    INTACT_FAIL(w->context, WRONG_USE, record->node->name,
                "backward through %s a second time: the first one freed the record; give it keep, or compute the value anew",
                record->node->op->name);
  record->walk = w->number;
  record->holders++;
  w->records[w->n++] = record;
  return INTACT_OK;
}

static int later_first(const void *a, const void *b) {
  const intact_record *x = *(intact_record *const *)a, *y = *(intact_record *const *)b;
  return x->sequence < y->sequence ? 1 : x->sequence > y->sequence ? -1 : 0;
}

static intact_status collect(walk *w, intact_record *from) {
  INTACT_TRY(reach(w, from));
  for (size_t i = 0; i < w->n; i++) {
    intact_record *record = w->records[i];
    for (int k = 0; k < record->n_operands; k++)
      if (record->sources[k]) INTACT_TRY(reach(w, record->sources[k]->producer));
  }
  qsort(w->records, w->n, sizeof *w->records, later_first);
  return INTACT_OK;
}

static intact_status check_saved(const intact_record *record, const intact_saved *saved, const char *what, int i) {
  if (!saved->tensor || intact__tensor_version(saved->tensor) == saved->version) return INTACT_OK;
  INTACT_FAIL(record->context, WRONG_USE, record->node->name,
              "backward through %s: %s %d was changed in place after the call, and the gradient needs it as it was; change it after "
              "backward, or a copy of it",
              record->node->op->name, what, i);
}

/* A leaf that only zero comes to has a gradient of zeros. */
static intact_status give(intact_variable *source, const intact_tensor *d) {
  intact_record *producer = source->producer;
  if (producer) return d ? intact__add_gradient(&producer->d_results[source->result], d) : INTACT_OK;
  if (d) return intact__add_gradient(&source->gradient, d);
  if (source->gradient) return INTACT_OK;
  return intact_tensor_create(source->context, INTACT_F32, source->tensor->rank, source->tensor->dims, &source->gradient);
}

typedef struct gradient_lists {
  const intact_tensor **operands, **results;
  bool *needed;
  intact_tensor **d_operands;
} gradient_lists;

static intact_status run_gradient(intact_record *record, const gradient_lists *lists) {
  for (int i = 0; i < record->n_operands; i++) {
    INTACT_TRY(check_saved(record, &record->operands[i], "operand", i));
    lists->operands[i] = record->operands[i].tensor;
    lists->needed[i] = record->sources[i] != NULL;
  }
  for (int i = 0; i < record->n_results; i++) {
    INTACT_TRY(check_saved(record, &record->results[i], "result", i));
    lists->results[i] = record->results[i].tensor;
  }
  intact_grad grad = {.context = record->context,
                      .node = record->node,
                      .n_operands = record->n_operands,
                      .n_results = record->n_results,
                      .operands = lists->operands,
                      .results = lists->results,
                      .d_results = (const intact_tensor *const *)record->d_results,
                      .needed = lists->needed,
                      .may_overwrite = true,
                      .d_operands = lists->d_operands};
  const intact_op *op = record->node->op;
  return op->grad_fast ? op->grad_fast(&grad) : op->grad(&grad);
}

static bool has_gradient(const intact_record *record) {
  for (int i = 0; i < record->n_results; i++)
    if (record->d_results[i]) return true;
  return false;
}

static intact_status keep_wanted(intact_record *record) {
  for (int i = 0; i < record->n_results; i++) {
    if (record->kept[i] && record->d_results[i]) INTACT_TRY(intact__add_gradient(&record->kept[i]->gradient, record->d_results[i]));
  }
  return INTACT_OK;
}

static intact_status pass_record(intact_record *record) {
  intact_context *context = record->context;
  const size_t n = (size_t)record->n_operands, m = (size_t)record->n_results;
  const size_t bytes = (2 * n + m) * sizeof(void *) + n * sizeof(bool);
  const intact_tensor **block = intact__alloc_zeroed(context, 1, bytes + 1);
  if (!block) return intact__no_memory(context, bytes);
  gradient_lists lists = {.operands = block, .results = block + n};
  lists.d_operands = (intact_tensor **)(void *)(block + n + m);
  lists.needed = (bool *)(void *)(lists.d_operands + n);
  intact_status status = keep_wanted(record);
  if (status == INTACT_OK && has_gradient(record)) status = run_gradient(record, &lists);
  for (size_t i = 0; i < n; i++) {
    if (status == INTACT_OK && record->sources[i]) status = give(record->sources[i], lists.d_operands[i]);
    intact_tensor_destroy(lists.d_operands[i]);
  }
  intact__free(context, block);
  return status;
}

static void free_record(intact_record *record) {
  intact__record_clear(record);
  record->is_freed = true;
  for (int i = 0; i < record->n_operands; i++) {
    intact_variable_release(record->sources[i]);
    record->sources[i] = NULL;
  }
}

static intact_status start_gradient(const intact_variable *variable, const intact_tensor *gradient, intact_tensor **start) {
  const intact_tensor *y = variable->tensor;
  char a[200], b[200];
  if (gradient) {
    if (gradient->dtype != INTACT_F32 || !intact__shape_equal(y->rank, y->dims, gradient->rank, gradient->dims))
      INTACT_FAIL(y->context, SIZE_MISMATCH, "", "backward: the variable is f32%s, its gradient is %s%s; they must be equal",
                  intact__shape_text(y->rank, y->dims, a), intact_dtype_text(gradient->dtype),
                  intact__shape_text(gradient->rank, gradient->dims, b));
    return intact_tensor_share(gradient, 0, NULL, start);
  }
  if (y->count != 1)
    INTACT_FAIL(y->context, WRONG_USE, "", "backward of a variable %s without a gradient: only one element has the gradient 1 by itself",
                intact__shape_text(y->rank, y->dims, a));
  INTACT_TRY(intact__tensor_create_raw(y->context, INTACT_F32, y->rank, y->dims, start));
  intact__f32(*start)[0] = 1.0f;
  return INTACT_OK;
}

intact_status intact_variable_backward(intact_variable *variable, const intact_tensor *gradient, bool keep) {
  intact_context *context = variable->context;
  intact_tape *tape;
  intact_tensor *start;
  if (!variable->requires_grad)
    INTACT_FAIL(context, WRONG_USE, "",
                "backward of a variable that does not require gradients: no variable behind it does, or recording was off");
  INTACT_TRY(intact__tape(context, &tape));
  INTACT_TRY(start_gradient(variable, gradient, &start));
  walk w = {.context = context, .number = ++tape->walk};
  intact_status status = collect(&w, variable->producer);
  if (status == INTACT_OK) status = give(variable, start);
  intact_tensor_destroy(start);
  for (size_t i = 0; i < w.n; i++) {
    intact_record *record = w.records[i];
    if (status == INTACT_OK) status = pass_record(record);
    for (int k = 0; k < record->n_results; k++) {
      intact_tensor_destroy(record->d_results[k]);
      record->d_results[k] = NULL;
    }
    if (!keep && status == INTACT_OK) free_record(record);
  }
  for (size_t i = 0; i < w.n; i++) intact__record_release(w.records[i]);
  intact__free(context, w.records);
  return status;
}
