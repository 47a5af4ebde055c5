/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over two tensors that should be equal, and what follows from them. */
#ifndef INTACT_INSPECT_DIFFERENCE_H
#define INTACT_INSPECT_DIFFERENCE_H

#include "tensor/tensor.h"

typedef struct intact_difference {
  double error, a, b, dot; /* sums of (b-a)^2, a^2, b^2, a*b over elements that are finite in both */
  double max_abs;
  int64_t count, outside; /* elements; of them outside of low..high */
  double low, high;       /* of what a quantized b can hold, set before the first addition; NaN: not counted */
  double least, most;     /* what lies beyond is the same to every reader and counts as this; -inf, inf: all differs */
} intact_difference;

/* Adds the elements of two float32 tensors of one element count. */
void intact__difference_add(intact_difference *difference, const intact_tensor *a, const intact_tensor *b);
double intact__difference_sqnr_db(const intact_difference *difference); /* inf when equal; NaN without elements */
double intact__difference_cosine(const intact_difference *difference);

#endif
