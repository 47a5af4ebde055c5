/* SPDX-License-Identifier: Apache-2.0 */
/* qgemm for AVX-512 with VNNI, emulated. */
#define INTACT_SIMDE
#include "support/emulated.h"

#include "kernels/qgemm/qgemm_avx512vnni.c"
