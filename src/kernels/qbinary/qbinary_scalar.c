/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations on two 8-bit tensors in plain C, and the rows. */
#include "kernels/qbinary/qbinary.h"

void intact_qbinary_u8u8__scalar(const intact_qbinary_params *params, const intact_qbinary_block *block) {
  for (int64_t r = 0; r < block->rows; r++) {
    const uint8_t *a = block->a + r * block->a_row, *b = block->b + r * block->b_row;
    uint8_t *y = block->y + r * block->y_row;
    for (int64_t i = 0; i < block->n; i++)
      y[i] = intact__qbinary_one(params, a[i * block->a_step], b[i * block->b_step]);
  }
}

const intact_qbinary_kernel intact__qbinary_rows[] = {
#define INTACT_KERNEL(family, name, isa) {#name, INTACT_ISA_##isa, name},
#include "kernels/qbinary/qbinary.def"
#undef INTACT_KERNEL
};
const int intact__n_qbinary_rows = (int)(sizeof intact__qbinary_rows / sizeof intact__qbinary_rows[0]);

const intact_qbinary_kernel *intact__qbinary_pick(uint32_t isa_set) {
  int i = 0;
  while (i + 1 < intact__n_qbinary_rows && !INTACT_HAS_ISA(isa_set, intact__qbinary_rows[i].isa)) i++;
  return &intact__qbinary_rows[i];
}
