/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization over arrays, forward and backward, with fixed or learned qparams. */
#ifndef INTACT_KERNELS_AFFINE_FAKE_QUANTIZE_H
#define INTACT_KERNELS_AFFINE_FAKE_QUANTIZE_H

#include "kernels/affine/affine.h"

/* y = dequantize(quantize(x)); mask (NULL: not wanted) 1 where q lay within low..high before the clamp, else 0. y may be x. */
bool intact__fake_quantize_array(uint32_t isa_set, const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p);
/* dx = dy * mask(x): a product, so that a masked infinity gives NaN as in PyTorch. dx may be dy. */
void intact__fake_quantize_grad_array(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n,
                                      const intact_affine *p);

/* z = (x - offset) * factor + rest, every step rounded to float32. */
typedef struct intact_line {
  float offset, factor, rest;
} intact_line;

static inline float intact__on_line(float x, const intact_line *line) { return (x - line->offset) * line->factor + line->rest; }

/* y = dequantize(quantize(z)), z of the line. */
void intact__line_fake_quantize(uint32_t isa_set, const float *x, float *y, const intact_runs *runs, const intact_line *line,
                                const intact_affine *p);
/* dx = dy * mask(z), and 0 unless low < z < high where one of them is finite: dy through fake quantization and a clamp before it.
   dx may be dy. */
void intact__line_fake_quantize_grad(uint32_t isa_set, const float *x, const float *dy, float *dx, const intact_runs *runs,
                                     const intact_line *line, const intact_affine *p, float low, float high);

/* Sum of |min(max(x, low), high)| in double: blocks as below in order, within a block element i in part i % 8, the parts by a tree. */
double intact__sum_abs_array(const float *x, int64_t n, float low, float high);

/* Backward of learned qparams (PyTorch's _fake_quantize_learnable_*_backward): q = rne(f32(f32(x * inverse) + z)), the zero
   point inside the rounding; in range: dx = dy, dscale += dy * fma(q - z, scale, -x) * inverse; else dx = dy * 0,
   dscale += dy * (low or high - z), dzero += dy. NaN counts as below. The zero point is an integer within low..high.

   Order of addition, the same for every instruction set and thread count: blocks of INTACT_SUM_BLOCK elements; within a block
   element i goes to lane i % INTACT_SUM_LANES, lanes are float32 sums in order of i; then lanes are added in double by a tree
   (lane j takes j + 16, then j + 8, ...); blocks are added in double, in order. */
enum { INTACT_SUM_LANES = 32, INTACT_SUM_BLOCK = 4096 };
typedef struct intact_learned_sums {
  double scale; /* times grad_factor: gradient of scale */
  double zero;  /* times -scale * grad_factor: gradient of the zero point */
} intact_learned_sums;

/* One block: n <= INTACT_SUM_BLOCK. *sums is overwritten. Where low or high is finite, behind a clamp: everything but dx is that of the
   clamped x, and dx is 0 unless low < x < high. dx may be dy. */
void intact__learnable_grad_block(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p,
                                  float low, float high, intact_learned_sums *sums);
/* Not clamped, a run of any length: its blocks are added to *sums. */
void intact__learnable_grad_array(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p,
                                  intact_learned_sums *sums);

/* Whether low - z and high - z are exact in float32, so that everything after the rounding can stay in float32: what the SIMD
   kernels need. Holds for all ranges of up to 24 bits. */
static inline bool intact__affine_is_narrow(const intact_affine *p) {
  const int64_t wide = 1 << 25; /* so that the differences below can't overflow */
  if (p->low < -wide || p->high > wide || p->low > p->high || p->zero_point < -(1 << 23) || p->zero_point > 1 << 23) return false;
  return p->low - p->zero_point >= -(1 << 24) && p->high - p->zero_point <= 1 << 24;
}

#endif
