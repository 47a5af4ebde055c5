/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations on two 8-bit tensors, with the meaning of dequantize -> float operation -> quantize, bit for bit:
     a' = f32(a - zero_a) * scale_a,  b' = f32(b - zero_b) * scale_b,  r = a' op b',  v = r * inverse_y,  y = round8(v)
   every product and sum rounded to float32 on its own. With `divide`: v = r / scale_y. */
#ifndef INTACT_KERNELS_QBINARY_QBINARY_H
#define INTACT_KERNELS_QBINARY_QBINARY_H

#include "kernels/kernel.h"

typedef enum intact_qbinary_op {
  INTACT_QBINARY_ADD,
  INTACT_QBINARY_SUB,
  INTACT_QBINARY_MUL,
  INTACT_QBINARY_MAX,
  INTACT_QBINARY_MIN
} intact_qbinary_op;

typedef struct intact_qbinary_params {
  intact_qbinary_op op;
  uint8_t flip_a, flip_b;   /* 0x80 for s8: the kernels work on a ^ flip_a, and zero_a is shifted by 128 to match */
  int32_t zero_a, zero_b;   /* in the domain of u8 */
  float scale_a, scale_b, scale_y, inverse_y; /* inverse_y = f32(1 / scale_y) */
  bool divide;
  intact_round8 round;
} intact_qbinary_params;

/* rows x n elements of y. *_row: elements from row to row (y too); *_step: 1, or 0 for one value that holds for the row. */
typedef struct intact_qbinary_block {
  int64_t rows, n;
  const uint8_t *a, *b;
  uint8_t *y;
  int64_t a_row, b_row, y_row;
  int a_step, b_step;
} intact_qbinary_block;

typedef void intact_qbinary_fn(const intact_qbinary_params *params, const intact_qbinary_block *block);

typedef struct intact_qbinary_kernel {
  const char *name;
  intact_isa isa;
  intact_qbinary_fn *run;
} intact_qbinary_kernel;

#define INTACT_KERNEL(family, name, isa) intact_qbinary_fn name;
#include "kernels/qbinary/qbinary.def"
#undef INTACT_KERNEL

extern const intact_qbinary_kernel intact__qbinary_rows[];
extern const int intact__n_qbinary_rows;
const intact_qbinary_kernel *intact__qbinary_pick(uint32_t isa_set);

static inline uint8_t intact__qbinary_one(const intact_qbinary_params *p, uint8_t a, uint8_t b) {
  float x = (float)((a ^ p->flip_a) - p->zero_a) * p->scale_a;
  float y = (float)((b ^ p->flip_b) - p->zero_b) * p->scale_b;
  float r = p->op == INTACT_QBINARY_ADD   ? x + y
            : p->op == INTACT_QBINARY_SUB ? x - y
            : p->op == INTACT_QBINARY_MUL ? x * y
            : p->op == INTACT_QBINARY_MAX ? (x > y ? x : y)
                                          : (x < y ? x : y);
  return intact__round8_of(&p->round, p->divide ? r / p->scale_y : r * p->inverse_y);
}

#endif
