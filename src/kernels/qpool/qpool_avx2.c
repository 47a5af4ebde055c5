/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of 8-bit values for AVX2: 32 or 16 channels at a time, the rest in plain C. */
#include <immintrin.h>

#include "kernels/qpool/qpool.h"

static void max_pixel(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x, uint8_t *y) {
  __m256i flip_x = _mm256_set1_epi8((char)p->flip_x), min = _mm256_set1_epi8((char)p->round.min8);
  __m256i max = _mm256_set1_epi8((char)p->max8), flip = _mm256_set1_epi8((char)p->round.flip);
  int64_t c = 0;
  for (; c + 32 <= b->channels; c += 32) {
    __m256i m = min;
    for (int64_t t = 0; t < b->taps; t++) {
      __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + b->offsets[t] + c));
      m = _mm256_max_epu8(m, _mm256_xor_si256(v, flip_x));
    }
    m = _mm256_xor_si256(_mm256_min_epu8(m, max), flip);
    _mm256_storeu_si256((__m256i *)(void *)(y + c), m);
  }
  for (int64_t step = 16; step >= 8; step -= 8)
    for (; c + step <= b->channels; c += step) {
      __m128i m = _mm256_castsi256_si128(min);
      for (int64_t t = 0; t < b->taps; t++) {
        const void *from = x + b->offsets[t] + c;
        __m128i v = step == 16 ? _mm_loadu_si128((const __m128i *)from) : _mm_loadl_epi64((const __m128i *)from);
        m = _mm_max_epu8(m, _mm_xor_si128(v, _mm256_castsi256_si128(flip_x)));
      }
      m = _mm_xor_si128(_mm_min_epu8(m, _mm256_castsi256_si128(max)), _mm256_castsi256_si128(flip));
      if (step == 16)
        _mm_storeu_si128((__m128i *)(void *)(y + c), m);
      else
        _mm_storel_epi64((__m128i *)(void *)(y + c), m);
    }
  if (c < b->channels) {
    intact_qpool_block rest = *b;
    rest.x = x + c, rest.y = y + c, rest.channels = b->channels - c, rest.pixels = 1;
    intact_qpool_u8u8__scalar(p, &rest);
  }
}

/* Sums of 8 channels: s16 partial sums of up to 128 elements, then s32. */
INTACT_INLINE __m256i sum8(const intact_qpool_block *b, const uint8_t *x, __m128i flip) {
  __m256i total = _mm256_setzero_si256();
  for (int64_t t = 0; t < b->taps;) {
    int64_t end = t + 128 < b->taps ? t + 128 : b->taps;
    __m128i part = _mm_setzero_si128();
    for (; t < end; t++) {
      __m128i v = _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)(x + b->offsets[t])), flip);
      part = _mm_add_epi16(part, _mm_cvtepu8_epi16(v));
    }
    total = _mm256_add_epi32(total, _mm256_cvtepu16_epi32(part));
  }
  return total;
}

static void mean_pixel(const intact_qpool_params *p, const intact_qpool_block *b, const uint8_t *x, uint8_t *y) {
  __m128i flip_x = _mm_set1_epi8((char)p->flip_x), min = _mm_set1_epi8((char)p->round.min8);
  __m128i zero = _mm_set1_epi16((int16_t)p->round.zero8), flip = _mm_set1_epi8((char)p->round.flip);
  __m256i zeros = _mm256_set1_epi32((int32_t)((uint32_t)b->taps * (uint32_t)p->zero_x));
  __m256 scale = _mm256_set1_ps(b->scale), high = _mm256_set1_ps(p->round.high);
  int64_t c = 0;
  for (; c + 8 <= b->channels; c += 8) {
    __m256 v = _mm256_cvtepi32_ps(_mm256_sub_epi32(sum8(b, x + c, flip_x), zeros));
    __m256i t = _mm256_cvtps_epi32(_mm256_min_ps(high, _mm256_mul_ps(v, scale)));
    __m128i s = _mm_adds_epi16(_mm_packs_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1)), zero);
    __m128i q = _mm_xor_si128(_mm_max_epu8(_mm_packus_epi16(s, s), min), flip);
    _mm_storel_epi64((__m128i *)(void *)(y + c), q);
  }
  if (c < b->channels) {
    intact_qpool_block rest = *b;
    rest.x = x + c, rest.y = y + c, rest.channels = b->channels - c, rest.pixels = 1;
    intact_qpool_u8u8__scalar(p, &rest);
  }
}

void intact_qpool_u8u8__avx2(const intact_qpool_params *params, const intact_qpool_block *block) {
  for (int64_t i = 0; i < block->pixels; i++) {
    const uint8_t *x = block->x + i * block->x_step;
    uint8_t *y = block->y + i * block->y_step;
    if (params->mean)
      mean_pixel(params, block, x, y);
    else
      max_pixel(params, block, x, y);
  }
}
