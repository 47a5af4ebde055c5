/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 kernels of quantization on any processor: the same source over SIMDe. */
#define INTACT_SIMDE 1
#include "kernels/affine/affine_kernels.h"

INTACT_SIGNATURE_quantize(intact_quantize_f32u8__avx512_emulated);
INTACT_SIGNATURE_quantize(intact_quantize_f32s8__avx512_emulated);
INTACT_SIGNATURE_dequantize(intact_dequantize_u8f32__avx512_emulated);
INTACT_SIGNATURE_dequantize(intact_dequantize_s8f32__avx512_emulated);
INTACT_SIGNATURE_min_max(intact_minmax_f32__avx512_emulated);
INTACT_SIGNATURE_histogram(intact_histogram_f32__avx512_emulated);
INTACT_SIGNATURE_fake_quantize(intact_fakequant_f32__avx512_emulated);
INTACT_SIGNATURE_fake_quantize_grad(intact_fakequantgrad_f32__avx512_emulated);
INTACT_SIGNATURE_line_fake_quantize(intact_linefakequant_f32__avx512_emulated);
INTACT_SIGNATURE_line_fake_quantize_grad(intact_linefakequantgrad_f32__avx512_emulated);
INTACT_SIGNATURE_learnable_grad(intact_learnablegrad_f32__avx512_emulated);

#include "kernels/affine/affine_avx512.c"
#include "kernels/affine_checks.h"

int main(void) {
  const affine_kernels emulated = AFFINE_KERNELS("avx512, emulated", avx512_emulated);
  return run_checks(&emulated);
}
