/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 kernels compiled with portable stand-ins for their instructions (SIMDe), so that their logic is tested on every
   processor. Each family's .c beside this header includes the kernel source itself. */
#ifndef INTACT_TESTS_SUPPORT_EMULATED_H
#define INTACT_TESTS_SUPPORT_EMULATED_H

#include "kernels/qbinary/qbinary.h"
#include "kernels/qdwconv/qdwconv.h"
#include "kernels/qgemm/qgemm.h"
#include "kernels/qlut/qlut.h"
#include "kernels/qpool/qpool.h"

extern const intact_qgemm_kernel intact_qgemm_u8s8_6x64__avx512vnni_emulated;
extern const intact_qdwconv_kernel intact_qdwconv_u8s8_4x64__avx512vnni_emulated;
intact_qbinary_fn intact_qbinary_u8u8__avx512_emulated;
intact_qlut_fn intact_qlut_u8u8__avx512_emulated;
intact_qpool_fn intact_qpool_u8u8__avx512_emulated;

#endif
