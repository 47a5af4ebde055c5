/* SPDX-License-Identifier: Apache-2.0 */
/* Moving-average observation, qparams and fake quantization in one call, on state that the caller keeps. */
#ifndef INTACT_TENSOR_FUSED_FAKE_QUANT_H
#define INTACT_TENSOR_FUSED_FAKE_QUANT_H

#include "tensor/fake_quantize.h"

/* State of n ranges (1, or the rows of axis 0). Not observed yet: running_min inf, running_max -inf. scale and zero_point hold
   what was last used. */
typedef struct intact_fused_state {
  int64_t n;
  float *running_min, *running_max, *scale;
  int32_t *zero_point;
} intact_fused_state;

typedef struct intact_fused_spec {
  const char *where;
  bool observe, fake_quantize;
  float averaging_constant; /* run += constant * (batch - run); the first batch is taken as it is */
  int64_t low, high;        /* within int32 */
  bool per_row, symmetric;
} intact_fused_spec;

/* x is float32. With observe: takes the batch's range (its finite values, those that are not are counted into *non_finite,
   which may be NULL). With fake_quantize: qparams anew from the running range by the integer libraries' rule (fbgemm), also
   when observe is off, and y, mask by fake_quantize; else y = x and a mask of ones. y and mask (may be NULL: not wanted). */
intact_status intact__fused_fake_quantize(const intact_tensor *x, const intact_fused_spec *spec, intact_fused_state *state,
                                          int64_t *non_finite, intact_tensor **y, intact_tensor **mask);

#endif
