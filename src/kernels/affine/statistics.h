/* SPDX-License-Identifier: Apache-2.0 */
/* What observers take from arrays: smallest and largest finite value, histogram counts. */
#ifndef INTACT_KERNELS_AFFINE_STATISTICS_H
#define INTACT_KERNELS_AFFINE_STATISTICS_H

#include <math.h>

#include "kernels/kernel.h"

/* Smallest and largest of the finite values (-0 counts as +0), and how many were not finite. Start with
   INTACT_MIN_MAX_START; nothing finite seen: low = inf, high = -inf. Order and split of the values do not matter. */
typedef struct intact_min_max {
  float low, high;
  int64_t non_finite;
} intact_min_max;
#define INTACT_MIN_MAX_START {INFINITY, -INFINITY, 0}

/* Takes x[0..n) into *m. */
void intact__min_max_array(uint32_t isa_set, const float *x, int64_t n, intact_min_max *m);
void intact__min_max_join(intact_min_max *m, const intact_min_max *other);

/* Equal bins over left..right, both ends inside (histc of PyTorch): x in bin trunc(f32(f32(x - left) * n) / f32(right - left)),
   the right end in the last bin; values outside and NaN are not counted. */
typedef struct intact_bins {
  float left, right; /* finite, left < right */
  int32_t n;
} intact_bins;

/* Bin of x, -1 if outside. */
int32_t intact__bin_of(const intact_bins *bins, float x);
enum { INTACT_HISTOGRAM_TABLES = 4 };
/* Adds the counts of x[0..n), n < 2^32, to `tables`: INTACT_HISTOGRAM_TABLES tables of bins->n each, whose sums are the
   histogram (which table gets an element is up to the kernel). */
void intact__histogram_array(uint32_t isa_set, const float *x, int64_t n, const intact_bins *bins, uint32_t *tables);

#endif
