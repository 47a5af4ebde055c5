/* SPDX-License-Identifier: Apache-2.0 */
/* Minimum, maximum and histogram of arrays: the definitions. */
#include <float.h>

#include "kernels/affine/affine_kernels.h"

void intact_minmax_f32__scalar(const float *x, int64_t n, intact_min_max *m) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] + 0.0f; /* -0 becomes +0 */
    if (!(fabsf(v) <= FLT_MAX)) {
      m->non_finite++;
      continue;
    }
    if (v < m->low) m->low = v;
    if (v > m->high) m->high = v;
  }
}

void intact__min_max_join(intact_min_max *m, const intact_min_max *other) {
  if (other->low < m->low) m->low = other->low;
  if (other->high > m->high) m->high = other->high;
  m->non_finite += other->non_finite;
}

int32_t intact__bin_of(const intact_bins *bins, float x) {
  if (!(x >= bins->left && x <= bins->right)) return -1;
  float width = bins->right - bins->left, n = (float)bins->n;
  float position = (x - bins->left) * n / width;
  if (!(width * n <= FLT_MAX)) /* float32 would overflow on the way */
    position = (float)(((double)x - bins->left) * bins->n / ((double)bins->right - bins->left));
  return position < n ? (int32_t)position : bins->n - 1;
}

void intact_histogram_f32__scalar(const float *x, int64_t n, const intact_bins *bins, uint32_t *tables) {
  for (int64_t i = 0; i < n; i++) {
    int32_t bin = intact__bin_of(bins, x[i]);
    if (bin >= 0) tables[bin]++;
  }
}
