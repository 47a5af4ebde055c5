/* SPDX-License-Identifier: Apache-2.0 */
/* Moving elements: strided copies (slices, permutations, concatenation, padding) and the transposition between N,C,spatial and
   N,spatial,C. No value changes. */
#ifndef INTACT_KERNELS_QLAYOUT_QLAYOUT_H
#define INTACT_KERNELS_QLAYOUT_QLAYOUT_H

#include "kernels/kernel.h"

/* to[c * rows + r] = from[r * columns + c], elements of 1 byte. */
typedef void intact_qlayout_fn(const uint8_t *from, int64_t rows, int64_t columns, uint8_t *to);

typedef struct intact_qlayout_kernel {
  const char *name;
  intact_isa isa;
  intact_qlayout_fn *transpose;
} intact_qlayout_kernel;

#define INTACT_KERNEL(family, name, isa) intact_qlayout_fn name;
#include "kernels/qlayout/qlayout.def"
#undef INTACT_KERNEL

extern const intact_qlayout_kernel intact__qlayout_rows[];
extern const int intact__n_qlayout_rows;
const intact_qlayout_kernel *intact__qlayout_pick(uint32_t isa_set);

enum { INTACT_QLAYOUT_RANK = 8 };

/* A block of elements of `size` bytes copied between two strided places; strides in elements, may be 0 or negative. */
typedef struct intact_qlayout_copy {
  int rank;
  size_t size;
  int64_t dims[INTACT_QLAYOUT_RANK], from_strides[INTACT_QLAYOUT_RANK], to_strides[INTACT_QLAYOUT_RANK];
} intact_qlayout_copy;

/* Drops axes of length 1 and joins neighbours that lie contiguously in both places. rank is at least 1 after it. */
void intact__qlayout_simplify(intact_qlayout_copy *copy);
/* Elements begin..end of the outermost axis. */
void intact__qlayout_run(const intact_qlayout_copy *copy, const void *from, void *to, int64_t begin, int64_t end);

#endif
