/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in double over runs of float32: what norms take of their input and of its gradient. Element i of a run goes to part i % 8 of a
   sum, in order; who reads a sum adds its parts by intact__moment. */
#ifndef INTACT_KERNELS_MOMENTS_MOMENTS_H
#define INTACT_KERNELS_MOMENTS_MOMENTS_H

#include "kernels/kernel.h"

enum { INTACT_PARTS = 8 };

/* Of d = x - origin. low, high: smallest and largest x that is not NaN, of +0 and -0 any. */
typedef struct intact_moments {
  double sum[INTACT_PARTS], square[INTACT_PARTS];
  float low[INTACT_PARTS], high[INTACT_PARTS];
} intact_moments;

/* Of dy and of dy * (x - origin). */
typedef struct intact_products {
  double sum[INTACT_PARTS], product[INTACT_PARTS];
} intact_products;

/* Both add to what is there; all sums start at 0, low at infinity, high at -infinity. */
typedef struct intact_moments_kernel {
  const char *name;
  intact_isa isa;
  void (*moments)(const float *x, const intact_runs *runs, double origin, intact_moments *m);
  void (*products)(const float *x, const float *dy, const intact_runs *runs, double origin, intact_products *m);
} intact_moments_kernel;

#define INTACT_KERNEL(family, name, isa) extern const intact_moments_kernel name;
#include "kernels/moments/moments.def"
#undef INTACT_KERNEL

extern const intact_moments_kernel *const intact__moments_rows[];
extern const int intact__n_moments_rows;
const intact_moments_kernel *intact__moments_pick(uint32_t isa_set);

static inline double intact__moment(const double *parts) {
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

#endif
