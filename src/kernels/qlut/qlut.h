/* SPDX-License-Identifier: Apache-2.0 */
/* Table lookup: y[i] = table[x[i]], bytes. Every map of one 8-bit value to another is one of these, exactly. */
#ifndef INTACT_KERNELS_QLUT_QLUT_H
#define INTACT_KERNELS_QLUT_QLUT_H

#include "kernels/kernel.h"

/* y may be x. s8 values index by their bits. */
typedef void intact_qlut_fn(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y);

typedef struct intact_qlut_kernel {
  const char *name;
  intact_isa isa;
  intact_qlut_fn *run;
} intact_qlut_kernel;

#define INTACT_KERNEL(family, name, isa) intact_qlut_fn name;
#include "kernels/qlut/qlut.def"
#undef INTACT_KERNEL

extern const intact_qlut_kernel intact__qlut_rows[];
extern const int intact__n_qlut_rows;
/* The best row of the set. */
const intact_qlut_kernel *intact__qlut_pick(uint32_t isa_set);

#endif
