/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize and dequantize over arrays: the definitions. */
#include "kernels/affine/affine_kernels.h"

#define INTACT_QUANTIZE_SCALAR(name, type)                                                        \
  void name(const float *x, void *q, int64_t n, const intact_affine *p) {                         \
    type *out = q;                                                                                \
    for (int64_t i = 0; i < n; i++) out[i] = (type)intact__quantize_one(x[i], p);                 \
  }
INTACT_QUANTIZE_SCALAR(intact_quantize_f32u8__scalar, uint8_t)
INTACT_QUANTIZE_SCALAR(intact_quantize_f32s8__scalar, int8_t)
INTACT_QUANTIZE_SCALAR(intact_quantize_f32u16__scalar, uint16_t)
INTACT_QUANTIZE_SCALAR(intact_quantize_f32s16__scalar, int16_t)
INTACT_QUANTIZE_SCALAR(intact_quantize_f32u32__scalar, uint32_t)
INTACT_QUANTIZE_SCALAR(intact_quantize_f32s32__scalar, int32_t)

#define INTACT_DEQUANTIZE_SCALAR(name, type)                                                      \
  void name(const void *q, float *x, int64_t n, float scale, int32_t zero_point) {                \
    const type *in = q;                                                                           \
    for (int64_t i = 0; i < n; i++) x[i] = intact__dequantize_one((int64_t)in[i], scale, zero_point); \
  }
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_u8f32__scalar, uint8_t)
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_s8f32__scalar, int8_t)
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_u16f32__scalar, uint16_t)
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_s16f32__scalar, int16_t)
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_u32f32__scalar, uint32_t)
INTACT_DEQUANTIZE_SCALAR(intact_dequantize_s32f32__scalar, int32_t)
