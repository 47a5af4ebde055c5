/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernel families share: how a row is picked and listed. A kernel knows pointers, sizes and a params struct; it
   never allocates and never fails. Every family has <family>.h (formula over one function type), <family>.def (rows, best
   first), <family>_scalar.c (the definition) and <family>_<isa>.c. */
#ifndef INTACT_KERNELS_KERNEL_H
#define INTACT_KERNELS_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

/* A row as `intact kernels`, the name check and the tests see it. */
typedef struct intact_kernel_row {
  const char *family;
  const char *name; /* intact_<family>_<dtypes>[_<tile>]__<isa> */
  intact_isa isa;
} intact_kernel_row;

/* All rows of all families, family by family (kernels/kernels.c, which includes every .def through kernels.def). */
extern const intact_kernel_row intact__kernel_rows[];
extern const int intact__n_kernel_rows;

#define INTACT_HAS_ISA(isa_set, isa) (((isa_set) >> (isa)) & 1u)

/* Kernels keep accumulators in arrays that must become registers: every loop over them is unrolled completely, once the inlined
   function's counts are constants. */
#define INTACT_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define INTACT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define INTACT_UNROLL _Pragma("GCC unroll 16")
#endif

/* `n` runs of `length` elements, `stride` apart. */
typedef struct intact_runs {
  int64_t n, stride, length;
} intact_runs;

/* One spatial axis of a convolution; pad: elements before the first. */
typedef struct intact_conv_axis {
  int64_t in, out, kernel, stride, dilation, pad;
} intact_conv_axis;

/* The last step of every 8-bit result, in the domain of u8 (s8 is shifted by 128 and its top bit flipped at the end):
     y = (max(rne(min(v, high)) + zero8, min8)) ^ flip,   v a float in steps of y without zero point
   with high = y_max - zero_y, which is the same as clamping after the rounding. NaN counts as low. */
typedef struct intact_round8 {
  float low, high; /* y_min - zero_y, y_max - zero_y */
  int32_t zero8, min8;
  uint8_t flip; /* 0, or 0x80 when y is s8 */
} intact_round8;

static inline intact_round8 intact__round8(bool is_signed, int32_t zero, int32_t min, int32_t max) {
  int32_t shift = is_signed ? 128 : 0;
  return (intact_round8){(float)(min - zero), (float)(max - zero), zero + shift, min + shift, is_signed ? 0x80 : 0};
}

static inline uint8_t intact__round8_of(const intact_round8 *round, float v) {
  v = round->high < v ? round->high : v;
  v = v > round->low ? v : round->low;
  return (uint8_t)(((int32_t)nearbyintf(v) + round->zero8) ^ round->flip);
}

#endif
