/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the array kernels of affine.def. */
#include "kernels/affine/affine.h"

#include <assert.h>

#include "kernels/affine/affine_kernels.h"

typedef struct quantize_row {
  intact_isa isa;
  intact_dtype dtype;
  intact_quantize_fn run;
} quantize_row;

typedef struct dequantize_row {
  intact_isa isa;
  intact_dtype dtype;
  intact_dequantize_fn run;
} dequantize_row;

/* Each table takes the rows of its kind and drops the others. */
#define ROW(ISA, function, slot) {INTACT_ISA_##ISA, INTACT_##slot, function},
#define INTACT_AFFINE_KERNEL(ISA, kind, function, slot) SELECT_##kind(ISA, function, slot)

#define SELECT_quantize ROW
#define SELECT_dequantize(ISA, function, slot)
static const quantize_row quantize_rows[] = {
#include "kernels/affine/affine.def"
};
#undef SELECT_quantize
#undef SELECT_dequantize

#define SELECT_quantize(ISA, function, slot)
#define SELECT_dequantize ROW
static const dequantize_row dequantize_rows[] = {
#include "kernels/affine/affine.def"
};

/* First row of `rows` for this type that may run; the scalar row always may. */
#define FIND_ROW(row, rows, set, type)                                                    \
  do {                                                                                    \
    row = rows;                                                                           \
    while (row->dtype != (type) || !INTACT_HAS_ISA((set), row->isa)) {                    \
      row++;                                                                              \
      assert(row < rows + sizeof rows / sizeof rows[0]);                                  \
    }                                                                                     \
  } while (0)

void intact__quantize_array(uint32_t isa_set, const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p) {
  const quantize_row *row;
  FIND_ROW(row, quantize_rows, isa_set | 1u << INTACT_ISA_SCALAR, dtype);
  row->run(x, q, n, p);
}

void intact__dequantize_array(uint32_t isa_set, const void *q, intact_dtype dtype, float *x, int64_t n, float scale,
                              int32_t zero_point) {
  const dequantize_row *row;
  FIND_ROW(row, dequantize_rows, isa_set | 1u << INTACT_ISA_SCALAR, dtype);
  row->run(q, x, n, scale, zero_point);
}

static void *element(void *data, intact_dtype dtype, int64_t i) {
  return (uint8_t *)data + i * (intact_dtype_bits(dtype) / 8);
}

void intact__quantize_columns(const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p) {
  for (int64_t i = 0; i < n; i++) intact__quantize_array(0, x + i, element(q, dtype, i), dtype, 1, p + i);
}

void intact__dequantize_columns(const void *q, intact_dtype dtype, float *x, int64_t n, const intact_affine *p) {
  const uint8_t *bytes = q;
  int64_t size = intact_dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < n; i++)
    intact__dequantize_array(0, bytes + i * size, dtype, x + i, 1, p[i].scale, p[i].zero_point);
}
