/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over runs of float32: the definition, and the table. */
#include "kernels/moments/moments.h"

static void moments(const float *x, const intact_runs *runs, double origin, intact_moments *m) {
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride)
    for (int64_t i = 0; i < runs->length; i++) {
      const int64_t part = i % INTACT_PARTS;
      const double d = (double)x[i] - origin;
      m->sum[part] += d;
      m->square[part] += d * d;
      if (x[i] < m->low[part]) m->low[part] = x[i];
      if (x[i] > m->high[part]) m->high[part] = x[i];
    }
}

static void products(const float *x, const float *dy, const intact_runs *runs, double origin, intact_products *m) {
  for (int64_t run = 0; run < runs->n; run++, x += runs->stride, dy += runs->stride)
    for (int64_t i = 0; i < runs->length; i++) {
      const int64_t part = i % INTACT_PARTS;
      m->sum[part] += (double)dy[i];
      m->product[part] += (double)dy[i] * ((double)x[i] - origin);
    }
}

const intact_moments_kernel intact_moments_f32__scalar = {"intact_moments_f32__scalar", INTACT_ISA_SCALAR, moments, products};

const intact_moments_kernel *const intact__moments_rows[] = {
#define INTACT_KERNEL(family, name, isa) &name,
#include "kernels/moments/moments.def"
#undef INTACT_KERNEL
};
const int intact__n_moments_rows = (int)(sizeof intact__moments_rows / sizeof intact__moments_rows[0]);

const intact_moments_kernel *intact__moments_pick(uint32_t isa_set) {
  int i = 0;
  while (i + 1 < intact__n_moments_rows && !INTACT_HAS_ISA(isa_set, intact__moments_rows[i]->isa)) i++;
  return intact__moments_rows[i];
}
