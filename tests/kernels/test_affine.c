/* SPDX-License-Identifier: Apache-2.0 */
/* Array kernels of quantization: those of this instruction set equal the definitions, and the dispatcher picks them. */
#include "kernels/affine_checks.h"

int main(void) {
  intact_context *context = test_context(1);
  intact_isa isa = intact_context_isa(context);
  intact_context_destroy(context);
  const affine_kernels scalar = AFFINE_KERNELS("scalar", scalar);
#if defined(__x86_64__)
  const affine_kernels avx2 = AFFINE_KERNELS("avx2", avx2), avx512 = AFFINE_KERNELS("avx512", avx512);
  if (isa == INTACT_ISA_AVX512 || isa == INTACT_ISA_AVX512VNNI) return run_checks(&avx512);
  if (isa == INTACT_ISA_AVX2) return run_checks(&avx2);
#elif defined(__aarch64__)
  const affine_kernels neon = AFFINE_KERNELS("neon", neon);
  if (isa == INTACT_ISA_NEON) return run_checks(&neon);
#endif
  return run_checks(&scalar);
}
