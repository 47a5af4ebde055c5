/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all kernel rows. */
#include "kernels/kernel.h"

const intact_kernel_row intact__kernel_rows[] = {
#define INTACT_KERNEL(family, name, isa) {#family, #name, INTACT_ISA_##isa},
#define INTACT_AFFINE_KERNEL(isa, kind, name, slot) {"affine", #name, INTACT_ISA_##isa},
#include "kernels/kernels.def"
#undef INTACT_AFFINE_KERNEL
#undef INTACT_KERNEL
};

const int intact__n_kernel_rows = (int)(sizeof intact__kernel_rows / sizeof intact__kernel_rows[0]);
