/* SPDX-License-Identifier: Apache-2.0 */
/* The fast gradient of the pooling rows, plane by plane on the context's threads. */
#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/pool.h"

typedef struct work {
  const intact_pool *pool;
  const float *x, *dy;
  float *dx; /* of the maximum: zeroed */
} work;

/* Element of the plane that a result took: the first maximum, the last NaN. */
static int64_t find_max(const intact_window *w, const float *x, int64_t od, int64_t oh, int64_t ow) {
  int64_t best = -1;
  float max = -INFINITY;
  for (int64_t kd = 0; kd < w->kernel[0]; kd++) {
    int64_t id = od * w->stride[0] - w->before[0] + kd * w->dilation[0];
    if (id < 0 || id >= w->in[0]) continue;
    for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
      int64_t ih = oh * w->stride[1] - w->before[1] + kh * w->dilation[1];
      if (ih < 0 || ih >= w->in[1]) continue;
      for (int64_t kw = 0; kw < w->kernel[2]; kw++) {
        int64_t iw = ow * w->stride[2] - w->before[2] + kw * w->dilation[2];
        if (iw < 0 || iw >= w->in[2]) continue;
        int64_t i = (id * w->in[1] + ih) * w->in[2] + iw;
        if (best < 0) best = i;
        if (x[i] > max || x[i] != x[i]) {
          max = x[i];
          best = i;
        }
      }
    }
  }
  return best;
}

static void max_planes(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const intact_window *w = &k->pool->window;
  int64_t in = w->in[0] * w->in[1] * w->in[2], out = w->out[0] * w->out[1] * w->out[2];
  for (int64_t p = begin; p < end; p++) {
    const float *dy = k->dy + p * out;
    for (int64_t od = 0; od < w->out[0]; od++) {
      for (int64_t oh = 0; oh < w->out[1]; oh++) {
        for (int64_t ow = 0; ow < w->out[2]; ow++) k->dx[p * in + find_max(w, k->x + p * in, od, oh, ow)] += *dy++;
      }
    }
  }
}

static void mean_planes(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const int64_t *in = k->pool->window.in, n = in[0] * in[1] * in[2];
  for (int64_t p = begin; p < end; p++) {
    float share = (float)(k->dy[p] / (double)n);
    for (int64_t i = 0; i < n; i++) k->dx[p * n + i] = share;
  }
}

intact_status intact__pool_grad_fast(intact_grad *grad) {
  const intact_op *op = grad->node->op;
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_pool pool;
  intact__pool_geometry(grad->node, grad->operands[0], grad->d_results[0], &pool);
  const intact_window *w = &pool.window;
  bool maximum = strncmp(op->name, "max_pool", 8) == 0;
  bool whole = strncmp(op->name, "adaptive_avg", 12) == 0 && w->out[0] * w->out[1] * w->out[2] == 1;
  if (!maximum && !whole) return op->grad(grad);
  intact_tensor *dx;
  INTACT_TRY((maximum ? intact__grad_operand : intact__grad_operand_raw)(grad, 0, &dx));
  work k = {&pool, intact__f32(grad->operands[0]), intact__f32(grad->d_results[0]), intact__f32(dx)};
  int64_t plane = w->in[0] * w->in[1] * w->in[2] + 1;
  intact__parallel(grad->context, pool.planes, 4096 / plane + 1, maximum ? max_planes : mean_planes, &k);
  return INTACT_OK;
}
