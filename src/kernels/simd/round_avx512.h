/* SPDX-License-Identifier: Apache-2.0 */
/* The end of AVX-512 kernels: s32 sums to 8 bits (intact_round8), 64, 32 or 16 channels of a pixel in 4, 2 or 1 vectors, whose
   lanes stand in the order that packing puts right: lane l of vector j is channel (l / 4) * 4 * vectors + 4 * j + l % 4. */
#ifndef INTACT_KERNELS_SIMD_ROUND_AVX512_H
#define INTACT_KERNELS_SIMD_ROUND_AVX512_H

#include "kernels/kernel.h"
#include "kernels/simd/avx512.h"

/* acc += the sums of four u8 (a) times s8 (b). One instruction of inline assembly: gcc 12 would keep accumulators of the
   intrinsic in memory when an epilogue follows the loop. */
#ifdef INTACT_SIMDE
#define INTACT_DOT(acc, a, b) ((acc) = _mm512_dpbusd_epi32((acc), (a), (b)))
#else
#define INTACT_DOT(acc, a, b) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#endif

typedef struct intact_epilogue_avx512 {
  bool s32;
  int columns;
  int64_t stride;
  __m512 high;
  __m512i zero16, zero32, min8, min32, flip;
} intact_epilogue_avx512;

INTACT_INLINE intact_epilogue_avx512 intact__epilogue_avx512(const intact_round8 *round, bool s32, int columns, int64_t stride) {
  return (intact_epilogue_avx512){
      .s32 = s32,
      .columns = columns,
      .stride = stride,
      .high = _mm512_set1_ps(round->high),
      .zero16 = _mm512_set1_epi16((int16_t)round->zero8),
      .zero32 = _mm512_set1_epi32(round->zero8),
      .min8 = _mm512_set1_epi8((char)round->min8),
      .min32 = _mm512_set1_epi32(round->min8),
      .flip = _mm512_set1_epi8((char)round->flip),
  };
}

/* min keeps a NaN of its second operand, which then converts to the lowest integer. */
INTACT_INLINE __m512i intact__round_avx512(__m512i acc, __m512 scale, __m512 high) {
  return _mm512_cvtps_epi32(_mm512_min_ps(high, _mm512_mul_ps(_mm512_cvtepi32_ps(acc), scale)));
}

INTACT_INLINE __m512i intact__clamp_avx512(__m512i q, const intact_epilogue_avx512 *e) {
  return _mm512_xor_si512(_mm512_max_epu8(q, e->min8), e->flip);
}

/* Lanes of pixel i, vector j stand at sums[(i * vectors + j) * 16]. */
static inline void intact__scatter_avx512(const int32_t *sums, int pixels, int vectors, const intact_epilogue_avx512 *e, int32_t *y) {
  for (int i = 0; i < pixels; i++)
    for (int k = 0; k < 16 * vectors; k++) {
      int l = k % 16, column = l / 4 * 4 * vectors + k / 16 * 4 + l % 4;
      if (column < e->columns) y[i * e->stride + column] = sums[i * 16 * vectors + k];
    }
}

/* Up to 14 pixels; y is the first pixel's. */
INTACT_INLINE void intact__finish_avx512(__m512i (*acc)[4], int pixels, int vectors, const float *scale,
                                         const intact_epilogue_avx512 *e, void *y) {
  if (e->s32) {
    int32_t sums[24 * 16]; /* at most 24 accumulators */
    INTACT_UNROLL for (int i = 0; i < pixels; i++) {
      INTACT_UNROLL for (int j = 0; j < vectors; j++) _mm512_storeu_si512((void *)(sums + (i * vectors + j) * 16), acc[i][j]);
    }
    intact__scatter_avx512(sums, pixels, vectors, e, y);
    return;
  }
  const __mmask64 mask = e->columns == 64 ? ~(__mmask64)0 : ((__mmask64)1 << e->columns) - 1;
  __m512 s[4];
  INTACT_UNROLL for (int j = 0; j < vectors; j++) s[j] = _mm512_loadu_ps(scale + 16 * j);
  INTACT_UNROLL for (int i = 0; i < pixels; i++) {
    uint8_t *to = (uint8_t *)y + i * e->stride;
    __m512i t[4];
    INTACT_UNROLL for (int j = 0; j < vectors; j++) t[j] = intact__round_avx512(acc[i][j], s[j], e->high);
    if (vectors == 4) {
      __m512i p = _mm512_adds_epi16(_mm512_packs_epi32(t[0], t[1]), e->zero16);
      __m512i q = _mm512_adds_epi16(_mm512_packs_epi32(t[2], t[3]), e->zero16);
      _mm512_mask_storeu_epi8(to, mask, intact__clamp_avx512(_mm512_packus_epi16(p, q), e));
    } else if (vectors == 2) {
      __m512i p = _mm512_adds_epi16(_mm512_packs_epi32(t[0], t[1]), e->zero16);
      __m512i q = intact__clamp_avx512(_mm512_packus_epi16(p, p), e);
      q = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), q);
      _mm512_mask_storeu_epi8(to, mask, q);
    } else { /* the sum cannot leave s32: t is between -2^31 and 255 */
      __m512i v = _mm512_max_epi32(_mm512_add_epi32(t[0], e->zero32), e->min32);
      __m128i q = _mm_xor_si128(_mm512_cvtepi32_epi8(v), _mm512_castsi512_si128(e->flip));
      _mm_mask_storeu_epi8(to, (__mmask16)mask, q);
    }
  }
}

#endif
