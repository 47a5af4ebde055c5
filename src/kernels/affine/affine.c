/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the array kernels of affine.def. */
#include "kernels/affine/affine.h"

#include <assert.h>
#include <float.h>

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
    intact_fake_quantize_fn fake_quantize;
    intact_fake_quantize_grad_fn fake_quantize_grad;
    intact_line_fake_quantize_fn line_fake_quantize;
    intact_line_fake_quantize_grad_fn line_fake_quantize_grad;
    intact_learnable_grad_fn learnable_grad;
  } run;
} kernel_row;

enum kind {
  KIND_quantize,
  KIND_dequantize,
  KIND_min_max,
  KIND_histogram,
  KIND_fake_quantize,
  KIND_fake_quantize_grad,
  KIND_line_fake_quantize,
  KIND_line_fake_quantize_grad,
  KIND_learnable_grad
};

typedef struct table_row {
  enum kind kind;
  kernel_row row;
} table_row;

static const table_row table[] = {
#define INTACT_AFFINE_KERNEL(ISA, kind, function, slot) {KIND_##kind, {INTACT_ISA_##ISA, INTACT_##slot, {.kind = function}}},
#include "kernels/affine/affine.def"
#undef INTACT_AFFINE_KERNEL
};

/* The SIMD kernels of quantization need a narrow range: others go to the definition. */
static uint32_t narrow_set(uint32_t isa_set, const intact_affine *p) { return intact__affine_is_narrow(p) ? isa_set : 0; }

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
  find(narrow_set(isa_set, p), KIND_quantize, dtype)->run.quantize(x, q, n, p);
}

void intact__dequantize_array(uint32_t isa_set, const void *q, intact_dtype dtype, float *x, int64_t n, float scale,
                              int32_t zero_point) {
  bool wide = zero_point < -(1 << 23) || zero_point > 1 << 23; /* q - z must stay exact in 32 bits */
  find(wide ? 0 : isa_set, KIND_dequantize, dtype)->run.dequantize(q, x, n, scale, zero_point);
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
  bool overflows = !((bins->right - bins->left) * (float)bins->n <= FLT_MAX); /* the definition's way by double */
  find(overflows ? 0 : isa_set, KIND_histogram, INTACT_F32)->run.histogram(x, n, bins, tables);
}

bool intact__fake_quantize_array(uint32_t isa_set, const float *x, float *y, uint8_t *mask, int64_t n, const intact_affine *p) {
  return find(narrow_set(isa_set, p), KIND_fake_quantize, INTACT_F32)->run.fake_quantize(x, y, mask, n, p);
}

void intact__fake_quantize_grad_array(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n,
                                      const intact_affine *p) {
  find(narrow_set(isa_set, p), KIND_fake_quantize_grad, INTACT_F32)->run.fake_quantize_grad(x, dy, dx, n, p);
}

void intact__line_fake_quantize(uint32_t isa_set, const float *x, float *y, const intact_runs *runs, const intact_line *line,
                                const intact_affine *p) {
  find(narrow_set(isa_set, p), KIND_line_fake_quantize, INTACT_F32)->run.line_fake_quantize(x, y, runs, line, p);
}

void intact__line_fake_quantize_grad(uint32_t isa_set, const float *x, const float *dy, float *dx, const intact_runs *runs,
                                     const intact_line *line, const intact_affine *p, float low, float high) {
  find(narrow_set(isa_set, p), KIND_line_fake_quantize_grad, INTACT_F32)->run.line_fake_quantize_grad(x, dy, dx, runs, line, p, low, high);
}

void intact__learnable_grad_block(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p,
                                  float low, float high, intact_learned_sums *sums) {
  assert(n <= INTACT_SUM_BLOCK);
  find(narrow_set(isa_set, p), KIND_learnable_grad, INTACT_F32)->run.learnable_grad(x, dy, dx, n, p, low, high, sums);
}

void intact__learnable_grad_array(uint32_t isa_set, const float *x, const float *dy, float *dx, int64_t n, const intact_affine *p,
                                  intact_learned_sums *sums) {
  intact_learnable_grad_fn run = find(narrow_set(isa_set, p), KIND_learnable_grad, INTACT_F32)->run.learnable_grad;
  for (int64_t first = 0; first < n; first += INTACT_SUM_BLOCK) {
    int64_t length = n - first < INTACT_SUM_BLOCK ? n - first : INTACT_SUM_BLOCK;
    intact_learned_sums block;
    run(x + first, dy + first, dx + first, length, p, -INFINITY, INFINITY, &block);
    sums->scale += block.scale;
    sums->zero += block.zero;
  }
}
