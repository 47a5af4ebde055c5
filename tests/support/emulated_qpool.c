/* SPDX-License-Identifier: Apache-2.0 */
/* qpool for AVX-512, emulated. */
#define INTACT_SIMDE
#include "support/emulated.h"

#include "kernels/qpool/qpool_avx512.c"
