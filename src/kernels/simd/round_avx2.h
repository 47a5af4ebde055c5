/* SPDX-License-Identifier: Apache-2.0 */
/* The end of AVX2 kernels: s32 sums to 8 bits (intact_round8), 16 or 8 channels of a pixel in two vectors or one. Two vectors
   hold channels 0-3 8-11 and 4-7 12-15, the order that packing puts right. */
#ifndef INTACT_KERNELS_SIMD_ROUND_AVX2_H
#define INTACT_KERNELS_SIMD_ROUND_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/kernel.h"

typedef struct intact_epilogue_avx2 {
  bool s32;       /* the sums themselves */
  int columns;    /* channels to write, up to 16 */
  int64_t stride; /* elements from pixel to pixel */
  __m256 high;
  __m256i zero, min, flip;
} intact_epilogue_avx2;

INTACT_INLINE intact_epilogue_avx2 intact__epilogue_avx2(const intact_round8 *round, bool s32, int columns, int64_t stride) {
  return (intact_epilogue_avx2){
      .s32 = s32,
      .columns = columns,
      .stride = stride,
      .high = _mm256_set1_ps(round->high),
      .zero = _mm256_set1_epi16((int16_t)round->zero8),
      .min = _mm256_set1_epi8((char)round->min8),
      .flip = _mm256_set1_epi8((char)round->flip),
  };
}

/* min keeps a NaN of its second operand, which then converts to the lowest integer. */
INTACT_INLINE __m256i intact__round_avx2(__m256i acc, __m256 scale, __m256 high) {
  return _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale)));
}

INTACT_INLINE void intact__store_avx2(uint8_t *y, __m128i q, int n) {
  if (n == 16) {
    _mm_storeu_si128((__m128i *)(void *)y, q);
    return;
  }
  if (n >= 8) {
    _mm_storel_epi64((__m128i *)(void *)y, q);
    if (n == 8) return;
    q = _mm_srli_si128(q, 8);
    y += 8, n -= 8;
  }
  uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(q);
  for (int i = 0; i < n; i++, bytes >>= 8) y[i] = (uint8_t)bytes;
}

/* Bytes of two pixels of s16: low 128 bits the first, high the second. */
INTACT_INLINE __m256i intact__bytes_avx2(__m256i a, __m256i b, const intact_epilogue_avx2 *e) {
  __m256i q = _mm256_packus_epi16(_mm256_adds_epi16(a, e->zero), _mm256_adds_epi16(b, e->zero));
  q = _mm256_xor_si256(_mm256_max_epu8(q, e->min), e->flip);
  return _mm256_permute4x64_epi64(q, 0xD8);
}

/* Lanes of pixel i, vector j stand at sums[(i * vectors + j) * 8]. */
static inline void intact__scatter_avx2(const int32_t *sums, int pixels, int vectors, const intact_epilogue_avx2 *e, int32_t *y) {
  for (int i = 0; i < pixels; i++)
    for (int k = 0; k < 8 * vectors; k++) {
      int l = k % 8, column = l / 4 * 4 * vectors + k / 8 * 4 + l % 4;
      if (column < e->columns) y[i * e->stride + column] = sums[i * 8 * vectors + k];
    }
}

/* Up to 6 pixels; y is the first pixel's. */
INTACT_INLINE void intact__finish_avx2(__m256i (*acc)[2], int pixels, int vectors, const float *scale,
                                       const intact_epilogue_avx2 *e, void *y) {
  if (e->s32) {
    int32_t sums[6 * 16];
    INTACT_UNROLL for (int i = 0; i < pixels; i++) {
      INTACT_UNROLL for (int j = 0; j < vectors; j++)
        _mm256_storeu_si256((__m256i *)(void *)(sums + (i * vectors + j) * 8), acc[i][j]);
    }
    intact__scatter_avx2(sums, pixels, vectors, e, y);
    return;
  }
  __m256 s0 = _mm256_loadu_ps(scale), s1 = vectors == 2 ? _mm256_loadu_ps(scale + 8) : s0;
  __m256i packed[6];
  INTACT_UNROLL for (int i = 0; i < pixels; i++) {
    __m256i t0 = intact__round_avx2(acc[i][0], s0, e->high);
    __m256i t1 = vectors == 2 ? intact__round_avx2(acc[i][1], s1, e->high) : t0;
    packed[i] = _mm256_packs_epi32(t0, t1);
    /* one vector: lanes hold 0-3 0-3 | 4-7 4-7; bring 0-7 together */
    if (vectors == 1) packed[i] = _mm256_permute4x64_epi64(packed[i], 0xD8);
  }
  INTACT_UNROLL for (int i = 0; i < pixels; i += 2) {
    int k = i + 1 < pixels ? i + 1 : i;
    __m256i q = intact__bytes_avx2(packed[i], packed[k], e);
    uint8_t *to = (uint8_t *)y + i * e->stride;
    intact__store_avx2(to, _mm256_castsi256_si128(q), e->columns);
    if (k > i) intact__store_avx2(to + e->stride, _mm256_extracti128_si256(q, 1), e->columns);
  }
}

#endif
