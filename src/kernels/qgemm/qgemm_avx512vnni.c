/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product for AVX-512 with VNNI: u8 copies of x (or x itself), vpdpbusd, tiles of 6 pixels by 64
   channels, 12 by 32, 14 by 16: 28 accumulators at most, so that weights and broadcast stay in registers too. */
#include <string.h>

#include "kernels/qgemm/qgemm.h"
#include "kernels/simd/round_avx512.h"

static void copy_x(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy) {
  uint8_t *to = copy;
  if (x == NULL) {
    memset(to, is_signed ? zero + 128 : zero, (size_t)count);
    return;
  }
  if (!is_signed) {
    memcpy(to, x, (size_t)count);
    return;
  }
  const __m512i flip = _mm512_set1_epi8((char)0x80);
  int64_t i = 0;
  for (; i + 64 <= count; i += 64)
    _mm512_storeu_si512((void *)(to + i), _mm512_xor_si512(_mm512_loadu_si512((const void *)(x + i)), flip));
  for (; i < count; i++) to[i] = x[i] ^ 0x80;
}

INTACT_INLINE __m512i four(const uint8_t *p) {
  int32_t v;
  memcpy(&v, p, sizeof v);
  return _mm512_set1_epi32(v);
}

INTACT_INLINE void add_step(__m512i (*acc)[4], const uint8_t *const *x, int64_t at, const uint8_t *w, int rows, int vectors) {
  __m512i b[4];
  INTACT_UNROLL for (int j = 0; j < vectors; j++) b[j] = _mm512_loadu_si512((const void *)(w + 64 * j));
  INTACT_UNROLL for (int i = 0; i < rows; i++) {
    __m512i a = four(x[i] + at);
    INTACT_UNROLL for (int j = 0; j < vectors; j++) INTACT_DOT(acc[i][j], a, b[j]);
  }
}

INTACT_INLINE void tile(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels, int64_t offset, int rows,
                        int vectors, const intact_epilogue_avx512 *e, void *y) {
  const uint8_t *w = intact__qgemm_weights_of(panel, 16 * vectors);
  const uint8_t *x[14];
  __m512i acc[14][4];
  INTACT_UNROLL for (int i = 0; i < rows; i++) {
    x[i] = (const uint8_t *)pixels[i] + offset;
    INTACT_UNROLL for (int j = 0; j < vectors; j++)
      acc[i][j] = _mm512_loadu_si512((const void *)(panel + sizeof(intact_qgemm_panel) + 64 * j));
  }
  for (const int64_t *segment = plan->segments, *end = segment + plan->n_segments; segment < end; segment++)
    for (int64_t o = *segment, stop = o + plan->steps * 4; o < stop; o += 4, w += 64 * vectors)
      add_step(acc, x, o, w, rows, vectors);
  int64_t n_extra = intact__qgemm_extra_of(panel);
  const int64_t *extra = (const int64_t *)(const void *)(w + n_extra * 64 * vectors);
  for (int64_t k = 0; k < n_extra; k++, w += 64 * vectors) add_step(acc, x, extra[k], w, rows, vectors);
  const float *scale = intact__qgemm_scale_of(panel, 16 * vectors);
  intact__finish_avx512(acc, rows, vectors, scale, e, y);
}

#define TILE(rows, vectors)                                                                                           \
  static void tile_##rows##_##vectors(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels, \
                                      int64_t offset, const intact_epilogue_avx512 *e, void *y) {                     \
    tile(plan, panel, pixels, offset, rows, vectors, e, y);                                                           \
  }
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(6, 2) TILE(8, 2) TILE(12, 2)
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(7, 1) TILE(10, 1) TILE(14, 1)
#undef TILE

typedef void (*tile_fn)(const intact_qgemm_plan *, const uint8_t *, const void *const *, int64_t, const intact_epilogue_avx512 *,
                        void *);

static void run_panel(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                      int64_t n_pixels, int64_t offset, void *y) {
  static const struct {
    int rows;
    tile_fn run;
  } tiles[3][7] = {{{14, tile_14_1}, {10, tile_10_1}, {7, tile_7_1}, {4, tile_4_1}, {3, tile_3_1}, {2, tile_2_1}, {1, tile_1_1}},
                   {{12, tile_12_2}, {8, tile_8_2}, {6, tile_6_2}, {4, tile_4_2}, {3, tile_3_2}, {2, tile_2_2}, {1, tile_1_2}},
                   {{6, tile_6_4}, {5, tile_5_4}, {4, tile_4_4}, {3, tile_3_4}, {2, tile_2_4}, {1, tile_1_4}, {1, tile_1_4}}};
  bool s32 = plan->shape.output == INTACT_QGEMM_S32;
  const intact_epilogue_avx512 e = intact__epilogue_avx512(&plan->round, s32, columns, plan->y_stride);
  size_t size = s32 ? sizeof(int32_t) : 1;
  int form = width == 64 ? 2 : width == 32 ? 1 : 0;
  for (int64_t i = 0; i < n_pixels;) {
    int k = 0;
    while (tiles[form][k].rows > n_pixels - i) k++;
    tiles[form][k].run(plan, panel, pixels + i, offset, &e, (uint8_t *)y + (size_t)(i * e.stride) * size);
    i += tiles[form][k].rows;
  }
}

const intact_qgemm_kernel INTACT_EMULATED(intact_qgemm_u8s8_6x64__avx512vnni) = {
    .name = "intact_qgemm_u8s8_6x64__avx512vnni",
    .isa = INTACT_ISA_AVX512VNNI,
    .depth = 4,
    .lanes = 16,
    .n_widths = 3,
    .widths = {64, 32, 16},
    .centered = false,
    .copy = copy_x,
    .panel = run_panel,
};
