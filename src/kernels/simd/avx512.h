/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 intrinsics: the compiler's, or SIMDe's portable ones when INTACT_SIMDE is defined, so that tests can run the same
   kernel sources on processors without AVX-512. EMULATED(name) is then a name of its own. */
#ifndef INTACT_KERNELS_SIMD_AVX512_H
#define INTACT_KERNELS_SIMD_AVX512_H

#ifdef INTACT_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#define INTACT_EMULATED(name) name##_emulated
#else
#include <immintrin.h>
#define INTACT_EMULATED(name) name
#endif

#endif
