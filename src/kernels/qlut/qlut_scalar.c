/* SPDX-License-Identifier: Apache-2.0 */
/* Table lookup in plain C, and the rows. */
#include "kernels/qlut/qlut.h"

void intact_qlut_u8u8__scalar(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y) {
  for (int64_t i = 0; i < n; i++) y[i] = table[x[i]];
}

const intact_qlut_kernel intact__qlut_rows[] = {
#define INTACT_KERNEL(family, name, isa) {#name, INTACT_ISA_##isa, name},
#include "kernels/qlut/qlut.def"
#undef INTACT_KERNEL
};
const int intact__n_qlut_rows = (int)(sizeof intact__qlut_rows / sizeof intact__qlut_rows[0]);

const intact_qlut_kernel *intact__qlut_pick(uint32_t isa_set) {
  int i = 0;
  while (i + 1 < intact__n_qlut_rows && !INTACT_HAS_ISA(isa_set, intact__qlut_rows[i].isa)) i++;
  return &intact__qlut_rows[i];
}
