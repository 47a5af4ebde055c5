/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product for AVX2: s16 copies of x, vpmaddwd (never saturates: |x - zero| <= 255, |w| <= 128),
   tiles of 6 pixels by 16 channels. */
#include <immintrin.h>
#include <string.h>

#include "kernels/qgemm/qgemm.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

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

/* Where a tile's results go and how they are made. */
typedef struct epilogue {
  bool s32;
  int columns;
  int64_t stride;
  __m256 high;
  __m256i zero, min, flip;
} epilogue;

ALWAYS_INLINE __m256i round_scaled(__m256i acc, __m256 scale, __m256 high) {
  return _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale)));
}

ALWAYS_INLINE void store_bytes(uint8_t *y, __m128i q, int n) {
  if (n == 16) {
    _mm_storeu_si128((__m128i *)(void *)y, q);
    return;
  }
  uint8_t bytes[16];
  _mm_storeu_si128((__m128i *)(void *)bytes, q);
  if (n >= 8) {
    memcpy(y, bytes, 8);
    for (int i = 8; i < n; i++) y[i] = bytes[i];
  } else {
    for (int i = 0; i < n; i++) y[i] = bytes[i];
  }
}

/* Bytes of two rows of s16 sums: low 128 bits the first, high the second. */
ALWAYS_INLINE __m256i to_bytes(__m256i a, __m256i b, const epilogue *e) {
  __m256i q = _mm256_packus_epi16(_mm256_adds_epi16(a, e->zero), _mm256_adds_epi16(b, e->zero));
  q = _mm256_xor_si256(_mm256_max_epu8(q, e->min), e->flip);
  return _mm256_permute4x64_epi64(q, 0xD8);
}

ALWAYS_INLINE void finish_s32(__m256i (*acc)[2], int rows, int vectors, const epilogue *e, void *y) {
  for (int i = 0; i < rows; i++) {
    int32_t sums[16];
    for (int j = 0; j < vectors; j++) {
      for (int h = 0; h < 2; h++) {
        __m128i half = h ? _mm256_extracti128_si256(acc[i][j], 1) : _mm256_castsi256_si128(acc[i][j]);
        _mm_storeu_si128((__m128i *)(void *)(sums + h * 4 * vectors + 4 * j), half);
      }
    }
    memcpy((int32_t *)y + i * e->stride, sums, (size_t)e->columns * sizeof(int32_t));
  }
}

ALWAYS_INLINE void finish(__m256i (*acc)[2], int rows, int vectors, const float *scale, const epilogue *e, void *y) {
  if (e->s32) {
    finish_s32(acc, rows, vectors, e, y);
    return;
  }
  __m256 s0 = _mm256_loadu_ps(scale), s1 = vectors == 2 ? _mm256_loadu_ps(scale + 8) : s0;
  __m256i packed[6];
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    __m256i t0 = round_scaled(acc[i][0], s0, e->high);
    __m256i t1 = vectors == 2 ? round_scaled(acc[i][1], s1, e->high) : t0;
    packed[i] = _mm256_packs_epi32(t0, t1);
    /* one vector: lanes hold 0-3 0-3 | 4-7 4-7; bring 0-7 together */
    if (vectors == 1) packed[i] = _mm256_permute4x64_epi64(packed[i], 0xD8);
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; i += 2) {
    int k = i + 1 < rows ? i + 1 : i;
    __m256i q = to_bytes(packed[i], packed[k], e);
    uint8_t *to = (uint8_t *)y + i * e->stride;
    store_bytes(to, _mm256_castsi256_si128(q), e->columns);
    if (k > i) store_bytes(to + e->stride, _mm256_extracti128_si256(q, 1), e->columns);
  }
}

ALWAYS_INLINE __m256i pair(const uint8_t *p) {
  int32_t v;
  memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

ALWAYS_INLINE void tile(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels, int64_t offset, int rows,
                        int vectors, const epilogue *e, void *y) {
  const __m256i *bias = (const __m256i *)(const void *)panel;
  const float *scale = (const float *)(const void *)(panel + 32 * vectors);
  const uint8_t *w = panel + 64 * vectors;
  const uint8_t *x[6];
  __m256i acc[6][2];
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++) {
    x[i] = (const uint8_t *)pixels[i] + offset;
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) acc[i][j] = _mm256_load_si256(bias + j);
  }
  const int64_t *segment = plan->segments, *end = segment + plan->n_segments;
  int64_t bytes = plan->steps * 4;
  for (; segment < end; segment++) {
    for (int64_t o = *segment, stop = o + bytes; o < stop; o += 4, w += 16 * vectors) {
      __m256i b[2];
#pragma GCC unroll 2
      for (int j = 0; j < vectors; j++)
        b[j] = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(w + 16 * j)));
#pragma GCC unroll 6
      for (int i = 0; i < rows; i++) {
        __m256i a = pair(x[i] + o);
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(a, b[j]));
      }
    }
  }
  finish(acc, rows, vectors, scale, e, y);
}

#define TILE(rows, vectors)                                                                                                \
  static void tile_##rows##_##vectors(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels,      \
                                      int64_t offset, const epilogue *e, void *y) {                                        \
    tile(plan, panel, pixels, offset, rows, vectors, e, y);                                                                \
  }
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#undef TILE

typedef void (*tile_fn)(const intact_qgemm_plan *, const uint8_t *, const void *const *, int64_t, const epilogue *, void *);

static void run_panel(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                      int64_t n_pixels, int64_t offset, void *y) {
  static const tile_fn tiles[2][6] = {{tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1},
                                      {tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2}};
  epilogue e = {
      .s32 = plan->shape.output == INTACT_QGEMM_S32,
      .columns = columns,
      .stride = plan->y_stride,
      .high = _mm256_set1_ps(plan->round.high),
      .zero = _mm256_set1_epi16((int16_t)plan->round.zero8),
      .min = _mm256_set1_epi8((char)plan->round.min8),
      .flip = _mm256_set1_epi8((char)plan->round.flip),
  };
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
