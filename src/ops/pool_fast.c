/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of the pooling rows: whole rows of results at a time, plane by plane on the context's threads. */
#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/pool.h"
#include "ops/wide.h"

enum { MAX_TAPS = 64 };

/* Result columns whose tap kw lies on data, and where the tap of the first of them lies in a row. */
typedef struct tap_columns {
  int64_t first, end, from;
} tap_columns;

typedef struct work {
  const intact_pool *pool;
  const tap_columns *columns; /* per tap of the last axis */
  const float *x;
  float *y;
} work;

static tap_columns columns_of(const intact_window *w, int64_t kw) {
  int64_t offset = kw * w->dilation[2] - w->before[2], stride = w->stride[2], last = w->in[2] - 1 - offset;
  tap_columns c = {.first = offset >= 0 ? 0 : (-offset + stride - 1) / stride, .end = last < 0 ? 0 : last / stride + 1};
  if (c.end > w->out[2]) c.end = w->out[2];
  c.from = c.first * stride + offset;
  return c;
}

static inline float larger(float v, float old) {
  return v > old || v != v ? v : old;
}

INTACT_INLINE void max_row(const float *from, int64_t stride, int64_t n, float *to) {
  switch (stride) {
    case 1:
      for (int64_t o = 0; o < n; o++) to[o] = larger(from[o], to[o]);
      break;
    case 2:
      for (int64_t o = 0; o < n; o++) to[o] = larger(from[2 * o], to[o]);
      break;
    default:
      for (int64_t o = 0; o < n; o++) to[o] = larger(from[o * stride], to[o]);
      break;
  }
}

/* One row of results: od, oh of a plane. */
INTACT_INLINE void max_rows(const work *k, const float *plane, int64_t od, int64_t oh, float *to) {
  const intact_window *w = &k->pool->window;
  int64_t first_d = od * w->stride[0] - w->before[0], first_h = oh * w->stride[1] - w->before[1];
  for (int64_t o = 0; o < w->out[2]; o++) to[o] = -INFINITY;
  for (int64_t kd = 0; kd < w->kernel[0]; kd++) {
    int64_t id = first_d + kd * w->dilation[0];
    if (id < 0 || id >= w->in[0]) continue;
    for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
      int64_t ih = first_h + kh * w->dilation[1];
      if (ih < 0 || ih >= w->in[1]) continue;
      const float *row = plane + (id * w->in[1] + ih) * w->in[2];
      for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
        const tap_columns *c = &k->columns[kw];
        if (c->end <= c->first) continue;
        max_row(row + c->from, w->stride[2], c->end - c->first, to + c->first);
      }
    }
  }
}

INTACT_WIDE static void max_planes(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const intact_window *w = &k->pool->window;
  int64_t plane_in = w->in[0] * w->in[1] * w->in[2], plane_out = w->out[0] * w->out[1] * w->out[2];
  for (int64_t p = begin; p < end; p++) {
    for (int64_t r = 0; r < w->out[0] * w->out[1]; r++) {
      max_rows(k, k->x + p * plane_in, r / w->out[1], r % w->out[1], k->y + p * plane_out + r * w->out[2]);
    }
  }
}

/* Mean of whole planes: what global pooling is. */
INTACT_WIDE static void mean_planes(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const int64_t *in = k->pool->window.in, n = in[0] * in[1] * in[2];
  for (int64_t p = begin; p < end; p++) {
    const float *x = k->x + p * n;
    double parts[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (int t = 0; t < 8; t++) parts[t] += x[i + t];
    }
    for (; i < n; i++) parts[i % 8] += x[i];
    double sum = ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
    k->y[p] = (float)(sum / (double)n);
  }
}

intact_status intact__pool_fast(const intact_call *call) {
  const intact_op *op = call->node->op;
  bool maximum = strncmp(op->name, "max_pool", 8) == 0, adaptive_mean = strncmp(op->name, "adaptive_avg", 12) == 0;
  if (call->n_results != 1 || (!maximum && !adaptive_mean)) return op->eval_f32(call);
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  intact_pool pool;
  tap_columns columns[MAX_TAPS];
  intact__pool_geometry(call->node, call->operands[0], y, &pool);
  const intact_window *w = &pool.window;
  bool whole = adaptive_mean && w->out[0] * w->out[1] * w->out[2] == 1;
  if (!whole && (!maximum || w->kernel[2] > MAX_TAPS)) return op->eval_f32(call);
  for (int64_t kw = 0; kw < w->kernel[2] && maximum; kw++) columns[kw] = columns_of(w, kw);
  work k = {&pool, columns, intact__operand_f32(call, 0), intact__f32(y)};
  int64_t plane = w->in[0] * w->in[1] * w->in[2] + 1;
  intact__parallel(call->context, pool.planes, 16384 / plane + 1, maximum ? max_planes : mean_planes, &k);
  return INTACT_OK;
}
