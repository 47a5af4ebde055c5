/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 intrinsics: the compiler's, or SIMDe's portable ones when INTACT_SIMDE is defined, so that tests can run the same
   kernel sources on processors without AVX-512. INTACT_EMULATED(name) is then a name of its own. */
#ifndef INTACT_KERNELS_SIMD_AVX512_H
#define INTACT_KERNELS_SIMD_AVX512_H

#ifdef INTACT_SIMDE
#include "kernels/simd/avx512_emulation.h"
#define INTACT_EMULATED(name) name##_emulated
#else
#include <immintrin.h>
#define INTACT_EMULATED(name) name
#endif

#endif
