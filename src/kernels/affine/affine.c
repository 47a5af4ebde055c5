/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the array kernels of affine.def. */
#include "kernels/affine/affine.h"

#include <assert.h>

#include "kernels/affine/affine_kernels.h"

/* One table per kind: the rows of the other kinds are empty in it. */
typedef struct kernel_row {
  intact_isa isa;
  intact_dtype slot;
  union {
    intact_quantize_fn quantize;
    intact_dequantize_fn dequantize;
    intact_min_max_fn min_max;
    intact_histogram_fn histogram;
  } run;
} kernel_row;

enum kind { KIND_quantize, KIND_dequantize, KIND_min_max, KIND_histogram };

typedef struct table_row {
  enum kind kind;
  kernel_row row;
} table_row;

static const table_row table[] = {
#define INTACT_AFFINE_KERNEL(ISA, kind, function, slot) {KIND_##kind, {INTACT_ISA_##ISA, INTACT_##slot, {.kind = function}}},
#include "kernels/affine/affine.def"
#undef INTACT_AFFINE_KERNEL
};

/* First row of the kind and type that may run; scalar rows always may. */
static const kernel_row *find(uint32_t isa_set, enum kind kind, intact_dtype slot) {
  isa_set |= 1u << INTACT_ISA_SCALAR;
  const table_row *row = table;
  while (row->kind != kind || row->row.slot != slot || !INTACT_HAS_ISA(isa_set, row->row.isa)) {
    row++;
    assert(row < table + sizeof table / sizeof table[0]);
  }
  return &row->row;
}

void intact__quantize_array(uint32_t isa_set, const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p) {
  find(isa_set, KIND_quantize, dtype)->run.quantize(x, q, n, p);
}

void intact__dequantize_array(uint32_t isa_set, const void *q, intact_dtype dtype, float *x, int64_t n, float scale,
                              int32_t zero_point) {
  find(isa_set, KIND_dequantize, dtype)->run.dequantize(q, x, n, scale, zero_point);
}

void intact__quantize_columns(const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p) {
  uint8_t *bytes = q;
  int64_t size = intact_dtype_bits(dtype) / 8;
  intact_quantize_fn run = find(0, KIND_quantize, dtype)->run.quantize;
  for (int64_t i = 0; i < n; i++) run(x + i, bytes + i * size, 1, p + i);
}

void intact__dequantize_columns(const void *q, intact_dtype dtype, float *x, int64_t n, const intact_affine *p) {
  const uint8_t *bytes = q;
  int64_t size = intact_dtype_bits(dtype) / 8;
  intact_dequantize_fn run = find(0, KIND_dequantize, dtype)->run.dequantize;
  for (int64_t i = 0; i < n; i++) run(bytes + i * size, x + i, 1, p[i].scale, p[i].zero_point);
}

void intact__min_max_array(uint32_t isa_set, const float *x, int64_t n, intact_min_max *m) {
  find(isa_set, KIND_min_max, INTACT_F32)->run.min_max(x, n, m);
}

void intact__histogram_array(uint32_t isa_set, const float *x, int64_t n, const intact_bins *bins, uint32_t *tables) {
  find(isa_set, KIND_histogram, INTACT_F32)->run.histogram(x, n, bins, tables);
}
