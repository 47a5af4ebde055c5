/* SPDX-License-Identifier: Apache-2.0 */
/* qdwconv for AVX-512 with VNNI, emulated. */
#define INTACT_SIMDE
#include "support/emulated.h"

#include "kernels/qdwconv/qdwconv_avx512vnni.c"
