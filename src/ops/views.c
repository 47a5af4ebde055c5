/* SPDX-License-Identifier: Apache-2.0 */
/* Strided views of tensors, walks over several of them, copies and gradient sums through them. */
#include <string.h>

#include "ops/common.h"

enum { PARALLEL_FROM = 1 << 16, PARALLEL_GRAIN = 1 << 14 };

/* The other axes of a tensor without elements may have any length: products of them wrap, and nobody looks at them. */
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

intact_view intact__view_dense(int rank, const int64_t *dims) {
  intact_view view = {.rank = rank};
  int64_t stride = 1;
  for (int k = rank - 1; k >= 0; k--) {
    view.dims[k] = dims[k];
    view.strides[k] = stride;
    stride = times(stride, dims[k]);
  }
  return view;
}

intact_view intact__view_of(const intact_tensor *tensor) {
  return intact__view_dense(tensor->rank, tensor->dims);
}

int64_t intact__view_count(const intact_view *view) {
  int64_t count = 1;
  for (int k = 0; k < view->rank; k++) count = times(count, view->dims[k]);
  return count;
}

void intact__view_add_axis(intact_view *view, int64_t dim, int64_t stride) {
  view->dims[view->rank] = dim;
  view->strides[view->rank] = stride;
  view->rank++;
}

intact_view intact__view_broadcast(const intact_tensor *tensor, int rank, const int64_t *dims) {
  intact_view own = intact__view_of(tensor), view = {.rank = rank};
  for (int k = 0; k < rank; k++) {
    int at = k - (rank - own.rank);
    view.dims[k] = dims[k];
    view.strides[k] = at >= 0 && own.dims[at] != 1 ? own.strides[at] : 0;
  }
  return view;
}

/* Whether axis k+1 continues axis k in every view, so that both are one axis. */
static bool can_merge(const intact_walk *walk, int k, int64_t next_dim, const int64_t *next_strides) {
  for (int i = 0; i < walk->n; i++) {
    if (walk->strides[i][k] != times(next_strides[i], next_dim)) return false;
  }
  return true;
}

intact_walk intact__walk_make(int n, const intact_view *const *views) {
  intact_walk walk = {.n = n, .count = 1};
  for (int i = 0; i < n; i++) walk.offset[i] = views[i]->offset;
  for (int k = 0; k < views[0]->rank; k++) {
    int64_t dim = views[0]->dims[k], strides[INTACT_WALK_VIEWS];
    walk.count = times(walk.count, dim);
    if (dim == 1) continue;
    for (int i = 0; i < n; i++) strides[i] = views[i]->strides[k];
    bool merge = walk.rank > 0 && can_merge(&walk, walk.rank - 1, dim, strides);
    int at = merge ? walk.rank - 1 : walk.rank++;
    walk.dims[at] = merge ? times(walk.dims[at], dim) : dim;
    for (int i = 0; i < n; i++) walk.strides[i][at] = strides[i];
  }
  if (walk.rank == 0) {
    walk.rank = 1;
    walk.dims[0] = 1;
  }
  return walk;
}

void intact__walk_range(const intact_walk *walk, int64_t begin, int64_t end, intact_row_fn fn, void *user) {
  if (begin >= end) return;
  int last = walk->rank - 1;
  int64_t index[INTACT_VIEW_RANK], offset[INTACT_WALK_VIEWS] = {0}, step[INTACT_WALK_VIEWS] = {0};
  int64_t rest = begin;
  for (int k = last; k >= 0; k--) {
    index[k] = rest % walk->dims[k];
    rest /= walk->dims[k];
  }
  for (int i = 0; i < walk->n; i++) step[i] = walk->strides[i][last];
  for (int64_t at = begin; at < end;) {
    for (int i = 0; i < walk->n; i++) {
      offset[i] = walk->offset[i];
      for (int k = 0; k <= last; k++) offset[i] += index[k] * walk->strides[i][k];
    }
    int64_t n = walk->dims[last] - index[last];
    if (n > end - at) n = end - at;
    fn(user, n, offset, step);
    at += n;
    index[last] = 0;
    for (int k = last - 1; k >= 0; k--) {
      if (++index[k] < walk->dims[k]) break;
      index[k] = 0;
    }
  }
}

typedef struct walk_piece {
  const intact_walk *walk;
  intact_row_fn fn;
  void *user;
} walk_piece;

static void run_piece(void *user, int64_t begin, int64_t end) {
  const walk_piece *piece = user;
  intact__walk_range(piece->walk, begin, end, piece->fn, piece->user);
}

void intact__walk_all(intact_context *context, const intact_walk *walk, intact_row_fn fn, void *user) {
  if (walk->count < PARALLEL_FROM) {
    intact__walk_range(walk, 0, walk->count, fn, user);
    return;
  }
  walk_piece piece = {walk, fn, user};
  intact__parallel(context, walk->count, PARALLEL_GRAIN, run_piece, &piece);
}

/* ---- copy ---- */

typedef struct copy_job {
  const intact_tensor *src;
  intact_tensor *dst;
  size_t size; /* bytes of an element; 0: less than one */
} copy_job;

static void copy_small(const copy_job *job, int64_t n, const int64_t *offset, const int64_t *step) {
  bool real = intact_dtype_is_float(job->src->dtype);
  for (int64_t i = 0; i < n; i++) {
    int64_t to = offset[0] + i * step[0], from = offset[1] + i * step[1];
    if (real) {
      intact__tensor_set_f64(job->dst, to, intact__tensor_get_f64(job->src, from));
    } else {
      intact__tensor_set_s64(job->dst, to, intact__tensor_get_s64(job->src, from));
    }
  }
}

#define COPY_ROW(type)                                                   \
  do {                                                                   \
    type *to = (type *)job->dst->data + offset[0];                       \
    const type *from = (const type *)job->src->data + offset[1];         \
    for (int64_t i = 0; i < n; i++) to[i * step[0]] = from[i * step[1]]; \
  } while (0)

static void copy_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const copy_job *job = user;
  if (job->size == 0) {
    copy_small(job, n, offset, step);
  } else if (n == 1 || (step[0] == 1 && step[1] == 1)) {
    memcpy((char *)job->dst->data + (size_t)offset[0] * job->size,
           (const char *)job->src->data + (size_t)offset[1] * job->size, (size_t)n * job->size);
  } else if (job->size == 1) {
    COPY_ROW(uint8_t);
  } else if (job->size == 2) {
    COPY_ROW(uint16_t);
  } else if (job->size == 4) {
    COPY_ROW(uint32_t);
  } else {
    COPY_ROW(uint64_t);
  }
}

/* ---- transposed planes: where the source runs along another axis than the result, both are walked in small squares ---- */

enum { SQUARE = 32 };

typedef struct plane_job {
  const copy_job *copy;
  int64_t rows, columns, to_row, to_column, from_row, from_column; /* lengths and strides of the two axes */
} plane_job;

#define COPY_SQUARE(type)                                                                          \
  do {                                                                                             \
    type *to = (type *)job->copy->dst->data + offset[0];                                           \
    const type *from = (const type *)job->copy->src->data + offset[1];                             \
    for (int64_t r = r0; r < r1; r++) {                                                            \
      for (int64_t c = c0; c < c1; c++)                                                            \
        to[r * job->to_row + c * job->to_column] = from[r * job->from_row + c * job->from_column]; \
    }                                                                                              \
  } while (0)

static void copy_plane(const plane_job *job, const int64_t *offset) {
  for (int64_t r0 = 0; r0 < job->rows; r0 += SQUARE) {
    int64_t r1 = job->rows - r0 < SQUARE ? job->rows : r0 + SQUARE;
    for (int64_t c0 = 0; c0 < job->columns; c0 += SQUARE) {
      int64_t c1 = job->columns - c0 < SQUARE ? job->columns : c0 + SQUARE;
      switch (job->copy->size) {
        case 1:
          COPY_SQUARE(uint8_t);
          break;
        case 2:
          COPY_SQUARE(uint16_t);
          break;
        case 4:
          COPY_SQUARE(uint32_t);
          break;
        default:
          COPY_SQUARE(uint64_t);
          break;
      }
    }
  }
}

static void copy_planes(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at[] = {offset[0] + i * step[0], offset[1] + i * step[1]};
    copy_plane(user, at);
  }
}

/* Takes the last axis and the one along which the source is dense out of the walk; false when there is no such pair. */
static bool split_plane(intact_walk *walk, plane_job *job) {
  int last = walk->rank - 1, dense = -1;
  for (int k = 0; k < last; k++) {
    if (walk->strides[1][k] == 1) dense = k;
  }
  if (dense < 0 || walk->strides[1][last] == 1 || walk->dims[dense] < 4 || walk->dims[last] < 4) return false;
  job->rows = walk->dims[dense];
  job->columns = walk->dims[last];
  job->to_row = walk->strides[0][dense];
  job->to_column = walk->strides[0][last];
  job->from_row = walk->strides[1][dense];
  job->from_column = walk->strides[1][last];
  walk->rank = 0;
  walk->count = 1;
  for (int k = 0; k < last; k++) {
    if (k == dense) continue;
    walk->dims[walk->rank] = walk->dims[k];
    walk->strides[0][walk->rank] = walk->strides[0][k];
    walk->strides[1][walk->rank++] = walk->strides[1][k];
    walk->count *= walk->dims[k];
  }
  if (walk->rank == 0) walk->dims[walk->rank++] = 1;
  return true;
}

static void run_planes(void *user, int64_t begin, int64_t end) {
  const walk_piece *piece = user;
  intact__walk_range(piece->walk, begin, end, copy_planes, piece->user);
}

void intact__view_copy(intact_tensor *dst, const intact_view *to, const intact_tensor *src, const intact_view *from) {
  copy_job job = {src, dst, (size_t)intact_dtype_bits(src->dtype) / 8};
  const intact_view *views[] = {to, from};
  intact_walk walk = intact__walk_make(2, views);
  plane_job plane = {.copy = &job};
  if (job.size > 0 && walk.count > SQUARE * SQUARE && split_plane(&walk, &plane)) {
    walk_piece piece = {&walk, copy_planes, &plane};
    int64_t grain = PARALLEL_GRAIN / (plane.rows * plane.columns) + 1;
    intact__parallel(dst->context, walk.count, grain, run_planes, &piece);
    return;
  }
  if (job.size == 0) {
    intact__walk_range(&walk, 0, walk.count, copy_row, &job); /* elements share bytes: one thread */
  } else {
    intact__walk_all(dst->context, &walk, copy_row, &job);
  }
}

intact_status intact__call_view(const intact_call *call, int rank, const int64_t *dims, const intact_view *from) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, x->dtype, rank, dims, &y));
  intact_view to = intact__view_dense(from->rank, from->dims);
  intact__view_copy(y, &to, x, from);
  return INTACT_OK;
}

/* ---- gradient sums ---- */

intact_call intact__call_of_grad(const intact_grad *grad) {
  return (intact_call){.context = grad->context,
                       .node = grad->node,
                       .n_operands = grad->n_operands,
                       .n_results = grad->n_results,
                       .operands = grad->operands};
}

typedef struct sum_job {
  const float *from;
  float *single; /* each element is hit at most once */
  double *sum;   /* else */
} sum_job;

static void sum_row(void *user, int64_t n, const int64_t *offset, const int64_t *step) {
  const sum_job *job = user;
  const float *from = job->from + offset[1];
  if (job->single != NULL) {
    float *to = job->single + offset[0];
    for (int64_t i = 0; i < n; i++) to[i * step[0]] = from[i * step[1]];
  } else if (step[0] == 0) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += (double)from[i * step[1]];
    job->sum[offset[0]] += total;
  } else {
    double *to = job->sum + offset[0];
    for (int64_t i = 0; i < n; i++) to[i * step[0]] += (double)from[i * step[1]];
  }
}

static bool repeats(const intact_view *view) {
  for (int k = 0; k < view->rank; k++) {
    if (view->strides[k] == 0 && view->dims[k] > 1) return true;
  }
  return false;
}

intact_status intact__grad_through_view(intact_grad *grad, int i, const intact_view *from, const intact_tensor *dy) {
  intact_tensor *dx = NULL;
  INTACT_TRY(intact__grad_operand(grad, i, &dx));
  intact_view dense = intact__view_dense(from->rank, from->dims);
  const intact_view *views[] = {from, &dense};
  intact_walk walk = intact__walk_make(2, views);
  sum_job job = {intact__f32(dy), intact__f32(dx), NULL};
  if (!repeats(from)) {
    intact__walk_all(grad->context, &walk, sum_row, &job);
    return INTACT_OK;
  }
  job.single = NULL;
  job.sum = intact__alloc_zeroed(grad->context, (size_t)dx->count, sizeof(double));
  if (job.sum == NULL && dx->count > 0) return intact__no_memory(grad->context, (size_t)dx->count * sizeof(double));
  intact__walk_range(&walk, 0, walk.count, sum_row, &job);
  for (int64_t k = 0; k < dx->count; k++) intact__f32(dx)[k] = (float)job.sum[k];
  intact__free(grad->context, job.sum);
  return INTACT_OK;
}
