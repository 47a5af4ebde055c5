/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to the type that PyTorch computes in. */
#ifndef INTACT_OPS_DECOMPOSED_H
#define INTACT_OPS_DECOMPOSED_H

#include "tensor/tensor.h"

/* v rounded to f32, f16 or bf16; other types: v. Sums, products and quotients of two values of a narrower float type, made in
   double, round to it as the operation itself would. */
double intact__round_to(intact_dtype type, double v);

#endif
