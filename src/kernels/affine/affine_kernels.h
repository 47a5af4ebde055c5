/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels of this family by C name, as affine.def lists them. */
#ifndef INTACT_KERNELS_AFFINE_AFFINE_KERNELS_H
#define INTACT_KERNELS_AFFINE_AFFINE_KERNELS_H

#include <math.h>

#include "kernels/affine/affine.h"
#include "kernels/affine/fake_quantize.h"
#include "kernels/affine/statistics.h"

typedef void (*intact_quantize_fn)(const float *x, void *q, int64_t n, const intact_affine *p);
typedef void (*intact_dequantize_fn)(const void *q, float *x, int64_t n, float scale, int32_t zero_point);
typedef void (*intact_min_max_fn)(const float *x, int64_t n, intact_min_max *m);
typedef void (*intact_histogram_fn)(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables);
/* True when no element was clamped: the mask is ones throughout. */
typedef bool (*intact_fake_quantize_fn)(const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p);
typedef void (*intact_fake_quantize_grad_fn)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p);
typedef void (*intact_line_fake_quantize_fn)(const float *x, float *y, const intact_runs *runs, const intact_line *line,
                                             const intact_affine *p);
typedef void (*intact_line_fake_quantize_grad_fn)(const float *x, const float *dy, float *dx, const intact_runs *runs,
                                                  const intact_line *line, const intact_affine *p, float low, float high);
typedef void (*intact_learnable_grad_fn)(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p, float low,
                                         float high, intact_learned_sums *sums);

/* Signatures by kind, so that a row of affine.def declares its function. */
#define INTACT_SIGNATURE_quantize(name) void name(const float *x, void *q, int64_t n, const intact_affine *p)
#define INTACT_SIGNATURE_dequantize(name) void name(const void *q, float *x, int64_t n, float scale, int32_t zero_point)
#define INTACT_SIGNATURE_min_max(name) void name(const float *x, int64_t n, intact_min_max *m)
#define INTACT_SIGNATURE_histogram(name) void name(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables)
#define INTACT_SIGNATURE_fake_quantize(name) bool name(const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p)
#define INTACT_SIGNATURE_fake_quantize_grad(name) \
  void name(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p)
#define INTACT_SIGNATURE_line_fake_quantize(name) \
  void name(const float *x, float *y, const intact_runs *runs, const intact_line *line, const intact_affine *p)
#define INTACT_SIGNATURE_line_fake_quantize_grad(name)                                                                  \
  void name(const float *x, const float *dy, float *dx, const intact_runs *runs, const intact_line *line, const intact_affine *p, \
            float low, float high)
#define INTACT_SIGNATURE_learnable_grad(name) \
  void name(const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p, float low, float high, \
            intact_learned_sums *sums)

#define INTACT_AFFINE_KERNEL(ISA, kind, function, slot) INTACT_SIGNATURE_##kind(function);
#include "kernels/affine/affine.def"
#undef INTACT_AFFINE_KERNEL

/* ---- shared by the instruction sets: the tree over lanes ---- */

static inline double intact__sum_lanes(const float *lanes) {
  double sums[INTACT_SUM_LANES / 2];
  for (int j = 0; j < INTACT_SUM_LANES / 2; j++) sums[j] = (double)lanes[j] + (double)lanes[j + INTACT_SUM_LANES / 2];
  for (int width = INTACT_SUM_LANES / 4; width > 0; width /= 2)
    for (int j = 0; j < width; j++) sums[j] += sums[j + width];
  return sums[0];
}

#endif
