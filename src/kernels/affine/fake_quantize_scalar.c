/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization over arrays: the definitions. */
#include <string.h>

#include "kernels/affine/affine_kernels.h"

bool intact_fakequant_f32__scalar(const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p) {
  bool all = true;
  for (int64_t i = 0; i < n; i++) {
    bool inside;
    y[i] = intact__fake_quantize_one(x[i], p, &inside);
    if (mask) mask[i] = inside;
    all = all && inside;
  }
  return all;
}

void intact_fakequantgrad_f32__scalar(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p) {
  for (int64_t i = 0; i < n; i++) {
    bool inside;
    intact__fake_quantize_one(x[i], p, &inside);
    dx[i] = dy[i] * (inside ? 1.0f : 0.0f);
  }
}

void intact_linefakequant_f32__scalar(const float *x, float *y, const intact_runs *runs, const intact_line *line, const intact_affine *p) {
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, y += runs->stride)
    for (int64_t i = 0; i < runs->length; i++) {
      bool inside;
      y[i] = intact__fake_quantize_one(intact__on_line(x[i], line), p, &inside);
    }
}

void intact_linefakequantgrad_f32__scalar(const float *x, const float *dy, float *dx, const intact_runs *runs, const intact_line *line,
                                          const intact_affine *p, float low, float high) {
  const bool clamps = low > -INFINITY || high < INFINITY;
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, dy += runs->stride, dx += runs->stride)
    for (int64_t i = 0; i < runs->length; i++) {
      bool inside;
      const float z = intact__on_line(x[i], line);
      intact__fake_quantize_one(z, p, &inside);
      const float d = dy[i] * (inside ? 1.0f : 0.0f);
      dx[i] = clamps && !(z > low && z < high) ? 0.0f : d;
    }
}

static void learnable_grad_one(float x, float dy, float *dx, const intact_affine *p, float *scale_lane, float *zero_lane) {
  float steps = x * p->inverse;
  int64_t q = intact__round_s64((double)(steps + (float)p->zero_point));
  bool below = q < p->low, above = q > p->high;
  if (below || above) {
    *dx = dy * 0.0f;
    *scale_lane += dy * (float)((below ? p->low : p->high) - p->zero_point);
    *zero_lane += dy;
  } else {
    *dx = dy * 1.0f;
    float error = fmaf((float)(q - p->zero_point), p->scale, -x);
    float term = dy * error;
    *scale_lane += term * p->inverse;
  }
}

void intact_learnablegrad_f32__scalar(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p, float low, float high,
                                      intact_learned_sums *sums) {
  float scale_lanes[INTACT_SUM_LANES] = {0}, zero_lanes[INTACT_SUM_LANES] = {0};
  const bool clamps = low > -INFINITY || high < INFINITY;
  for (int64_t i = 0; i < n; i++) {
    const int lane = (int)(i % INTACT_SUM_LANES);
    const float value = x[i]; /* dx may be x */
    learnable_grad_one(clamps ? fminf(fmaxf(value, low), high) : value, dy[i], &dx[i], p, &scale_lanes[lane], &zero_lanes[lane]);
    if (clamps && !(value > low && value < high)) dx[i] = 0.0f;
  }
  *sums = (intact_learned_sums){intact__sum_lanes(scale_lanes), intact__sum_lanes(zero_lanes)};
}

static inline double magnitude(float x, float low, float high) {
  x = x < low ? low : x;
  return (double)fabsf(x > high ? high : x);
}

double intact__sum_abs_array(const float *x, int64_t n, float low, float high) {
  double sum = 0;
  for (int64_t first = 0; first < n; first += INTACT_SUM_BLOCK) {
    const int64_t end = n - first < INTACT_SUM_BLOCK ? n : first + INTACT_SUM_BLOCK;
    double parts[8] = {0};
    int64_t i = first;
    for (; i + 8 <= end; i += 8)
      INTACT_UNROLL for (int k = 0; k < 8; k++) parts[k] += magnitude(x[i + k], low, high);
    for (int k = 0; i + k < end; k++) parts[k] += magnitude(x[i + k], low, high);
    sum += ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
  }
  return sum;
}
