/* SPDX-License-Identifier: Apache-2.0 */
/* Data movement on integers. What an op moves where is found out by the op itself: its definition is run once, when the program
   is made, on the places of the elements instead of the elements. */
#include <string.h>

#include "kernels/affine/affine.h"
#include "kernels/qlayout/qlayout.h"
#include "kernels/qlut/qlut.h"
#include "ops/lower.h"

enum { GRAIN = 1 << 13, MAX_OPERANDS = 8 };

/* A result is a strided copy, or runs of neighbours (from -1: padding). */
typedef struct run {
  int32_t from, to, count;
} run;

typedef struct moved {
  intact_qlayout_copy copy;
  int64_t offset; /* of the copy, in x */
  int64_t n_runs; /* 0: the copy holds */
  const run *runs;
  int64_t count;
  uint8_t padding;
} moved;

typedef struct movement_step {
  int n_results;
  const moved *results;
  intact_qlut_fn *change; /* NULL: x and y are of one grid */
  uint8_t table[256];
} movement_step;

/* ---- requantization ---- */

static bool one_grid(const intact_value *x, const intact_value *y) {
  return x->dtype == y->dtype && x->qparams->scale[0] == y->qparams->scale[0] && intact__zero_of(x) == intact__zero_of(y) &&
         y->qparams->quant_min <= x->qparams->quant_min && y->qparams->quant_max >= x->qparams->quant_max;
}

/* quantize(dequantize(q)), and for equal scales the clamp alone, as interp does it. */
static void fill_change(const intact_value *x, const intact_value *y, uint8_t *table) {
  const intact_qparams *qy = y->qparams;
  intact_affine affine = intact__affine(qy->scale[0], qy->zero_point[0], qy->quant_min, qy->quant_max);
  for (int i = 0; i < 256; i++) {
    int32_t q = intact__is_signed(x) ? (int8_t)i : i;
    float real = intact__dequantize_one(q, x->qparams->scale[0], intact__zero_of(x));
    table[i] = (uint8_t)intact__quantize_one(real, &affine);
  }
}

/* ---- running ---- */

typedef struct movement_job {
  const movement_step *step;
  const moved *result;
  const uint8_t *x;
  uint8_t *y;
} movement_job;

static void copy_piece(void *user, int64_t begin, int64_t end) {
  const movement_job *job = user;
  intact__qlayout_run(&job->result->copy, job->x + job->result->offset, job->y, begin, end);
}

static void run_pieces(void *user, int64_t begin, int64_t end) {
  const movement_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    const run *r = &job->result->runs[i];
    if (r->from < 0)
      memset(job->y + r->to, job->result->padding, (size_t)r->count);
    else
      memcpy(job->y + r->to, job->x + r->from, (size_t)r->count);
  }
}

static void change_piece(void *user, int64_t begin, int64_t end) {
  const movement_job *job = user;
  job->step->change(job->y + begin, end - begin, job->step->table, job->y + begin);
}

static intact_status run_movement(const intact_step_call *call) {
  const movement_step *s = call->step->params;
  for (int i = 0; i < s->n_results; i++) {
    const moved *m = &s->results[i];
    if (call->out[i] == NULL || m->count == 0) continue;
    movement_job job = {s, m, call->in[0], call->out[i]};
    int64_t outer = m->n_runs > 0 ? m->n_runs : m->copy.dims[0];
    intact__parallel(call->context, outer, GRAIN * outer / m->count + 1, m->n_runs > 0 ? run_pieces : copy_piece, &job);
    if (s->change != NULL) intact__parallel(call->context, m->count, GRAIN, change_piece, &job);
  }
  return INTACT_OK;
}

/* ---- lowering ---- */

const char *intact__check_movement(const intact_node *node) {
  if (node->n_operands < 1 || node->n_operands > MAX_OPERANDS || !intact__is_int8(node->operands[0]))
    return "the input is not quantized to 8 bits per tensor";
  if (node->operands[0]->constant != NULL) return "the input is a constant";
  for (int i = 1; i < node->n_operands; i++)
    if (node->operands[i] != NULL && node->operands[i]->constant == NULL) return "where elements go depends on data";
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *y = node->results[i];
    if (!intact__is_int8(y)) return "a result is not quantized to 8 bits per tensor";
    if (!intact__qparams_equal(y->qparams, node->results[0]->qparams)) return "the results differ in qparams";
  }
  return NULL;
}

/* A tensor of x's shape that holds where each element lies in memory (plus `first`): s32, or float32 for ops of floats. */
static intact_status places(const intact_lower *lower, bool floats, int64_t first, intact_tensor **tensor) {
  const intact_value *x = lower->node->operands[0];
  int64_t strides[INTACT_MAX_RANK], index[INTACT_MAX_RANK] = {0};
  INTACT_TRY(intact__tensor_create_raw(lower->context, floats ? INTACT_F32 : INTACT_S32, x->rank, x->dims, tensor));
  intact__lower_strides(lower, x, strides);
  for (int64_t i = 0; i < (*tensor)->count; i++) {
    int64_t at = first;
    for (int k = 0; k < x->rank; k++) at += index[k] * strides[k];
    if (floats)
      ((float *)(*tensor)->data)[i] = (float)at;
    else
      ((int32_t *)(*tensor)->data)[i] = (int32_t)at;
    for (int k = x->rank - 1; k >= 0 && ++index[k] == x->dims[k]; k--) index[k] = 0;
  }
  return INTACT_OK;
}

/* The op's results for places that begin with `first`; results[] are owned by the caller. */
static intact_status move_places(const intact_lower *lower, int64_t first, intact_tensor **results) {
  const intact_node *node = lower->node;
  intact_tensor *x = NULL;
  INTACT_TRY(places(lower, !node->op->on_integers, first, &x));
  const intact_tensor *operands[MAX_OPERANDS] = {x};
  for (int i = 1; i < node->n_operands; i++) operands[i] = node->operands[i] != NULL ? node->operands[i]->constant : NULL;
  intact_call call = {.context = lower->context, .node = node, .n_operands = node->n_operands, .n_results = node->n_results,
                      .operands = operands, .results = results};
  intact_status status = node->op->eval_f32(&call);
  intact_tensor_destroy(x);
  return status;
}

static int64_t place_at(const intact_tensor *tensor, int64_t i) {
  return tensor->dtype == INTACT_F32 ? (int64_t)((const float *)tensor->data)[i] : ((const int32_t *)tensor->data)[i];
}

/* Whether the places are an offset plus strides; then the copy. */
static bool is_strided(const intact_tensor *map, const int64_t *to_strides, moved *m) {
  intact_qlayout_copy *copy = &m->copy;
  *copy = (intact_qlayout_copy){.rank = map->rank, .size = 1};
  m->offset = place_at(map, 0);
  int64_t step = map->count, index[INTACT_MAX_RANK] = {0};
  for (int k = 0; k < map->rank; k++) {
    step /= map->dims[k];
    copy->dims[k] = map->dims[k];
    copy->to_strides[k] = to_strides[k];
    copy->from_strides[k] = map->dims[k] > 1 ? place_at(map, step) - m->offset : 0;
  }
  for (int64_t i = 0; i < map->count; i++) {
    int64_t at = m->offset;
    for (int k = 0; k < map->rank; k++) at += index[k] * copy->from_strides[k];
    if (at != place_at(map, i)) return false;
    for (int k = map->rank - 1; k >= 0 && ++index[k] == map->dims[k]; k--) index[k] = 0;
  }
  intact__qlayout_simplify(copy);
  return true;
}

/* Runs in the order of the result's memory. other: the places of a second run, whose difference tells elements from padding. */
static intact_status find_runs(const intact_lower *lower, const intact_tensor *map, const intact_tensor *other,
                               const int64_t *to_strides, moved *m) {
  int32_t *from = intact__alloc(lower->context, (size_t)map->count, sizeof *from);
  if (from == NULL) return intact__no_memory(lower->context, (size_t)map->count * sizeof *from);
  int64_t index[INTACT_MAX_RANK] = {0};
  for (int64_t i = 0; i < map->count; i++) {
    int64_t to = 0;
    for (int k = 0; k < map->rank; k++) to += index[k] * to_strides[k];
    bool padding = other != NULL && place_at(map, i) == place_at(other, i);
    from[to] = padding ? -1 : (int32_t)place_at(map, i);
    for (int k = map->rank - 1; k >= 0 && ++index[k] == map->dims[k]; k--) index[k] = 0;
  }
  run *runs = NULL;
  intact_status status = INTACT_OK;
  for (int pass = 0; pass < 2 && status == INTACT_OK; pass++) { /* count, then fill */
    int64_t n = 0;
    for (int64_t i = 0; i < map->count; n++) {
      int64_t first = i++;
      while (i < map->count && (from[first] < 0 ? from[i] < 0 : from[i] == from[i - 1] + 1)) i++;
      if (pass == 1) runs[n] = (run){from[first], (int32_t)first, (int32_t)(i - first)};
    }
    if (pass == 0) status = INTACT_LOWER_NEW(lower, n, &runs);
    m->n_runs = n;
  }
  m->runs = runs;
  intact__free(lower->context, from);
  return status;
}

static intact_status fill_result(const intact_lower *lower, int i, const intact_tensor *map, const intact_tensor *other, moved *m) {
  const intact_value *y = lower->node->results[i];
  int64_t strides[INTACT_MAX_RANK];
  if (map == NULL || !intact__shape_equal(map->rank, map->dims, y->rank, y->dims))
    INTACT_FAIL(lower->context, INTERNAL, lower->node->name, "%s: its result has another shape than inferred", lower->node->op->name);
  m->count = map->count;
  if (m->count == 0) return INTACT_OK;
  intact__lower_strides(lower, y, strides);
  if (other == NULL && is_strided(map, strides, m)) return INTACT_OK;
  return find_runs(lower, map, other, strides, m);
}

/* padding: the op puts `padding` where nothing comes from x. */
static intact_status lower_moved(intact_lower *lower, bool has_padding, uint8_t padding) {
  const intact_node *node = lower->node;
  const intact_value *x = node->operands[0], *y = node->results[0];
  size_t n = (size_t)node->n_results;
  int64_t most = intact__value_count(x);
  for (int i = 0; i < node->n_results; i++)
    if (intact__value_count(node->results[i]) > most) most = intact__value_count(node->results[i]);
  if (most >= (node->op->on_integers ? INT32_MAX : 1 << 24))
    INTACT_FAIL(lower->context, OVERFLOW, node->name, "%s: %lld elements are more than its integer form takes", node->op->name,
                (long long)most);
  movement_step *s;
  moved *results;
  INTACT_TRY(INTACT_LOWER_NEW(lower, 1, &s));
  INTACT_TRY(INTACT_LOWER_NEW(lower, n, &results));
  intact_tensor **maps = intact__alloc_zeroed(lower->context, 2 * n, sizeof(intact_tensor *));
  if (maps == NULL) return intact__no_memory(lower->context, 2 * n * sizeof(intact_tensor *));
  intact_status status = move_places(lower, 0, maps);
  if (status == INTACT_OK && has_padding) status = move_places(lower, 1, maps + n);
  for (int i = 0; i < node->n_results && status == INTACT_OK; i++) {
    results[i].padding = padding;
    status = fill_result(lower, i, maps[i], has_padding ? maps[n + (size_t)i] : NULL, &results[i]);
  }
  for (size_t i = 0; i < 2 * n; i++) intact_tensor_destroy(maps[i]);
  intact__free(lower->context, maps);
  INTACT_TRY(status);
  s->n_results = node->n_results, s->results = results;
  const char *name = intact__qlayout_pick(lower->isa_set)->name;
  if (!one_grid(x, y)) {
    const intact_qlut_kernel *kernel = intact__qlut_pick(lower->isa_set);
    s->change = kernel->run;
    fill_change(x, y, s->table);
    name = kernel->name;
  }
  lower->step->kernel = name;
  lower->step->run = run_movement;
  lower->step->params = s;
  intact__lower_packed(lower);
  return INTACT_OK;
}

intact_status intact__lower_movement(intact_lower *lower) { return lower_moved(lower, false, 0); }

const char *intact__check_resize(const intact_node *node) {
  return strcmp(intact__attr_string(node, "mode"), "nearest") == 0 ? intact__check_movement(node) : "it interpolates between elements";
}

/* ---- pad ---- */

static bool is_constant_pad(const intact_node *node) { return strcmp(node->op->name, "constant_pad_nd") == 0; }

const char *intact__check_pad(const intact_node *node) {
  const char *why = intact__check_movement(node);
  if (why != NULL || !is_constant_pad(node)) return why;
  return one_grid(node->operands[0], node->results[0]) ? NULL : "input and output differ in qparams";
}

intact_status intact__lower_pad(intact_lower *lower) {
  const intact_node *node = lower->node;
  if (!is_constant_pad(node)) return lower_moved(lower, false, 0);
  const intact_qparams *q = node->operands[0]->qparams;
  const intact_value *given = node->n_operands > 2 ? node->operands[2] : NULL;
  double value = given != NULL && given->constant->count == 1 ? intact__tensor_get_f64(given->constant, 0) : intact__attr_float(node, "value");
  intact_affine affine = intact__affine(q->scale[0], q->zero_point[0], q->quant_min, q->quant_max);
  return lower_moved(lower, true, (uint8_t)intact__quantize_one((float)value, &affine));
}
