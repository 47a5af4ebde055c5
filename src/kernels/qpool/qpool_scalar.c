/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of 8-bit values in plain C, and the rows. */
#include "kernels/qpool/qpool.h"

static uint8_t max_of(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x) {
  uint8_t m = 0;
  for (int64_t t = 0; t < b->taps; t++) {
    uint8_t v = x[b->offsets[t]] ^ p->flip_x;
    m = v > m ? v : m;
  }
  m = m < p->round.min8 ? (uint8_t)p->round.min8 : m;
  return (m > p->max8 ? p->max8 : m) ^ p->round.flip;
}

static uint8_t mean_of(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x) {
  uint32_t sum = 0;
  for (int64_t t = 0; t < b->taps; t++) sum += (uint32_t)((x[b->offsets[t]] ^ p->flip_x) - p->zero_x);
  return intact__round8_of(&p->round, (float)(int32_t)sum * b->scale);
}

void intact_qpool_u8u8__scalar(const intact_qpool_params *params, const intact_qpool_block *block) {
  for (int64_t i = 0; i < block->pixels; i++)
    for (int64_t c = 0; c < block->channels; c++) {
      const uint8_t *x = block->x + i * block->x_step + c;
      block->y[i * block->y_step + c] = params->mean ? mean_of(params, block, x) : max_of(params, block, x);
    }
}

const intact_qpool_kernel intact__qpool_rows[] = {
#define INTACT_KERNEL(family, name, isa) {#name, INTACT_ISA_##isa, name},
#include "kernels/qpool/qpool.def"
#undef INTACT_KERNEL
};
const int intact__n_qpool_rows = (int)(sizeof intact__qpool_rows / sizeof intact__qpool_rows[0]);

const intact_qpool_kernel *intact__qpool_pick(uint32_t isa_set) {
  int i = 0;
  while (i + 1 < intact__n_qpool_rows && !INTACT_HAS_ISA(isa_set, intact__qpool_rows[i].isa)) i++;
  return &intact__qpool_rows[i];
}
