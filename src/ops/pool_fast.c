/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of the pooling rows: whole rows of results at a time, plane by plane on the context's threads. */
#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/pool.h"

typedef struct work {
  const intact_pool *pool;
  const float *x;
  float *y;
} work;

/* Result columns whose tap kw lies on data: *first..*end-1. */
static void columns_of(const intact_window *w, int64_t kw, int64_t *first, int64_t *end) {
  int64_t offset = kw * w->dilation[2] - w->before[2], stride = w->stride[2];
  *first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  int64_t last = w->in[2] - 1 - offset;
  *end = last < 0 ? 0 : last / stride + 1;
  if (*end > w->out[2]) *end = w->out[2];
}

static void max_row(const float *from, int64_t stride, int64_t n, float *to) {
  for (int64_t o = 0; o < n; o++) {
    float v = from[o * stride];
    to[o] = v > to[o] || v != v ? v : to[o];
  }
}

static void max_planes(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const intact_window *w = &k->pool->window;
  int64_t rows = w->out[0] * w->out[1], plane_in = w->in[0] * w->in[1] * w->in[2];
  for (int64_t r = begin * rows; r < end * rows; r++) {
    const float *plane = k->x + r / rows * plane_in;
    float *to = k->y + r * w->out[2];
    int64_t od = r % rows / w->out[1], oh = r % w->out[1], d0, d1, h0, h1;
    intact__window_range(w, 0, od, &d0, &d1);
    intact__window_range(w, 1, oh, &h0, &h1);
    for (int64_t o = 0; o < w->out[2]; o++) to[o] = -INFINITY;
    for (int64_t t = d0 * w->kernel[1]; t < d1 * w->kernel[1]; t++) {
      int64_t kd = t / w->kernel[1], kh = t % w->kernel[1];
      if (kh < h0 || kh >= h1) continue;
      int64_t id = od * w->stride[0] - w->before[0] + kd * w->dilation[0];
      const float *row = plane + (id * w->in[1] + oh * w->stride[1] - w->before[1] + kh * w->dilation[1]) * w->in[2];
      for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
        int64_t first, last;
        columns_of(w, kw, &first, &last);
        if (last <= first) continue;
        const float *from = row + first * w->stride[2] - w->before[2] + kw * w->dilation[2];
        max_row(from, w->stride[2], last - first, to + first);
      }
    }
  }
}

intact_status intact__pool_fast(const intact_call *call) {
  const intact_op *op = call->node->op;
  if (call->n_results != 1 || strncmp(op->name, "max_pool", 8) != 0) return op->eval_f32(call);
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  intact_pool pool;
  intact__pool_geometry(call->node, call->operands[0], y, &pool);
  work k = {&pool, intact__operand_f32(call, 0), intact__f32(y)};
  int64_t plane = pool.window.in[0] * pool.window.in[1] * pool.window.in[2] + 1;
  intact__parallel(call->context, pool.planes, 16384 / plane + 1, max_planes, &k);
  return INTACT_OK;
}
