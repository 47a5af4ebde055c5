/* SPDX-License-Identifier: Apache-2.0 */
/* Table lookup and element-wise operations for AVX-512, emulated. */
#define INTACT_SIMDE
#include "support/emulated.h"

#include "kernels/qbinary/qbinary_avx512.c"
#include "kernels/qlut/qlut_avx512.c"
