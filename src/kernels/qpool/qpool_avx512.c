/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of 8-bit values for AVX-512: 64 (maximum) or 32 (mean) channels at a time, the last ones by masks. */
#include "kernels/qpool/qpool.h"
#include "kernels/simd/avx512.h"

static inline __mmask64 first(int64_t n) { return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1; }

static void max_pixel(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x, uint8_t *y) {
  const __m512i flip_x = _mm512_set1_epi8((char)p->flip_x), min = _mm512_set1_epi8((char)p->round.min8);
  const __m512i max = _mm512_set1_epi8((char)p->max8), flip = _mm512_set1_epi8((char)p->round.flip);
  for (int64_t c = 0; c < b->channels; c += 64) {
    const __mmask64 mask = first(b->channels - c);
    __m512i m = min;
    for (int64_t t = 0; t < b->taps; t++)
      m = _mm512_max_epu8(m, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, x + b->offsets[t] + c), flip_x));
    _mm512_mask_storeu_epi8(y + c, mask, _mm512_xor_si512(_mm512_min_epu8(m, max), flip));
  }
}

/* Sums of 32 channels in the order of the channels: s16 partial sums of up to 128 elements, then s32. */
INTACT_INLINE void sum32(const intact_qpool_block *b, const uint8_t *x, __mmask64 mask, __m256i flip, __m512i *total) {
  total[0] = total[1] = _mm512_setzero_si512();
  for (int64_t t = 0; t < b->taps;) {
    int64_t end = t + 128 < b->taps ? t + 128 : b->taps;
    __m512i part = _mm512_setzero_si512();
    for (; t < end; t++) {
      __m256i v = _mm512_castsi512_si256(_mm512_maskz_loadu_epi8(mask, x + b->offsets[t]));
      part = _mm512_add_epi16(part, _mm512_cvtepu8_epi16(_mm256_xor_si256(v, flip)));
    }
    total[0] = _mm512_add_epi32(total[0], _mm512_cvtepu16_epi32(_mm512_castsi512_si256(part)));
    total[1] = _mm512_add_epi32(total[1], _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(part, 1)));
  }
}

static void mean_pixel(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x, uint8_t *y) {
  const __m256i flip_x = _mm256_set1_epi8((char)p->flip_x);
  const __m512i zeros = _mm512_set1_epi32((int32_t)((uint32_t)b->taps * (uint32_t)p->zero_x));
  const __m512i zero = _mm512_set1_epi32(p->round.zero8), min = _mm512_set1_epi32(p->round.min8);
  const __m128i flip = _mm_set1_epi8((char)p->round.flip);
  const __m512 scale = _mm512_set1_ps(b->scale), high = _mm512_set1_ps(p->round.high);
  for (int64_t c = 0; c < b->channels; c += 32) {
    const __mmask64 mask = first(b->channels - c < 32 ? b->channels - c : 32);
    __m512i total[2];
    sum32(b, x + c, mask, flip_x, total);
    INTACT_UNROLL for (int j = 0; j < 2; j++) {
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(total[j], zeros)), scale);
      /* the sum cannot leave s32: the rounded value is between -2^31 and 255 */
      __m512i t = _mm512_max_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(high, v)), zero), min);
      _mm_mask_storeu_epi8(y + c + 16 * j, (__mmask16)(mask >> 16 * j), _mm_xor_si128(_mm512_cvtepi32_epi8(t), flip));
    }
  }
}

void INTACT_EMULATED(intact_qpool_u8u8__avx512)(const intact_qpool_params *params, const intact_qpool_block *block) {
  for (int64_t i = 0; i < block->pixels; i++) {
    const uint8_t *x = block->x + i * block->x_step;
    uint8_t *y = block->y + i * block->y_step;
    if (params->mean)
      mean_pixel(params, block, x, y);
    else
      max_pixel(params, block, x, y);
  }
}
