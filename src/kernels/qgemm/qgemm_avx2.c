/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product for AVX2: s16 copies of x, vpmaddwd (never saturates: |x - zero| <= 255, |w| <= 128),
   tiles of 6 pixels by 16 channels. */
#include "kernels/qgemm/qgemm.h"
#include "kernels/simd/round_avx2.h"

static void copy_x(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy) {
  int16_t *to = copy;
  if (x == NULL) {
    memset(to, 0, (size_t)count * sizeof *to);
    return;
  }
  __m256i z = _mm256_set1_epi16((int16_t)zero);
  int64_t i = 0;
  if (is_signed) {
    for (; i + 16 <= count; i += 16) {
      __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
      _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(v, z));
    }
  } else {
    for (; i + 16 <= count; i += 16) {
      __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
      _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(v, z));
    }
  }
  for (; i < count; i++) to[i] = (int16_t)((is_signed ? (int8_t)x[i] : x[i]) - zero);
}

INTACT_INLINE __m256i pair(const uint8_t *p) {
  int32_t v;
  memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

INTACT_INLINE void tile(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels, int64_t offset, int rows,
                        int vectors, const intact_epilogue_avx2 *e, void *y) {
  const __m256i *bias = (const __m256i *)(const void *)panel;
  const float *scale = (const float *)(const void *)(panel + 32 * vectors);
  const uint8_t *w = panel + 64 * vectors;
  const uint8_t *x[6];
  __m256i acc[6][2];
  INTACT_UNROLL for (int i = 0; i < rows; i++) {
    x[i] = (const uint8_t *)pixels[i] + offset;
    INTACT_UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = _mm256_load_si256(bias + j);
  }
  const int64_t *segment = plan->segments, *end = segment + plan->n_segments;
  int64_t bytes = plan->steps * 4;
  for (; segment < end; segment++) {
    for (int64_t o = *segment, stop = o + bytes; o < stop; o += 4, w += 16 * vectors) {
      __m256i b[2];
      INTACT_UNROLL for (int j = 0; j < vectors; j++)
        b[j] = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(w + 16 * j)));
      INTACT_UNROLL for (int i = 0; i < rows; i++) {
        __m256i a = pair(x[i] + o);
        INTACT_UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(a, b[j]));
      }
    }
  }
  intact__finish_avx2(acc, rows, vectors, scale, e, y);
}

#define TILE(rows, vectors)                                                                                                \
  static void tile_##rows##_##vectors(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels,      \
                                      int64_t offset, const intact_epilogue_avx2 *e, void *y) {                                        \
    tile(plan, panel, pixels, offset, rows, vectors, e, y);                                                                \
  }
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#undef TILE

typedef void (*tile_fn)(const intact_qgemm_plan *, const uint8_t *, const void *const *, int64_t, const intact_epilogue_avx2 *, void *);

static void run_panel(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                      int64_t n_pixels, int64_t offset, void *y) {
  static const tile_fn tiles[2][6] = {{tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1},
                                      {tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2}};
  bool s32 = plan->shape.output == INTACT_QGEMM_S32;
  intact_epilogue_avx2 e = intact__epilogue_avx2(&plan->round, s32, columns, plan->y_stride);
  size_t size = e.s32 ? sizeof(int32_t) : 1;
  const tile_fn *row = tiles[width / 8 - 1];
  int64_t i = 0;
  for (; i < n_pixels;) {
    int64_t left = n_pixels - i;
    /* 7 and 8 as 4 + 3, 4 + 4 rather than 6 + 1, 6 + 2 */
    int rows = left >= 12 || left == 6 ? 6 : left > 6 ? (int)((left + 1) / 2) : (int)left;
    row[rows - 1](plan, panel, pixels + i, offset, &e, (uint8_t *)y + (size_t)(i * e.stride) * size);
    i += rows;
  }
}

const intact_qgemm_kernel intact_qgemm_u8s8_6x16__avx2 = {
    .name = "intact_qgemm_u8s8_6x16__avx2",
    .isa = INTACT_ISA_AVX2,
    .depth = 2,
    .lanes = 8,
    .n_widths = 2,
    .widths = {16, 8},
    .centered = true,
    .copy = copy_x,
    .panel = run_panel,
};
