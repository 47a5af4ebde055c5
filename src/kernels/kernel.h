/* SPDX-License-Identifier: Apache-2.0 */
/* What all kernel families share: how a row is picked and listed. A kernel knows pointers, sizes and a params struct; it
   never allocates and never fails. Every family has <family>.h (formula over one function type), <family>.def (rows, best
   first), <family>_scalar.c (the definition) and <family>_<isa>.c. */
#ifndef INTACT_KERNELS_KERNEL_H
#define INTACT_KERNELS_KERNEL_H

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

#endif
