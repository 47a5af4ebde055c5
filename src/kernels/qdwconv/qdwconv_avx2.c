/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution for AVX2: pairs of rows as s16 side by side, vpmaddwd, 4 pixels by 16 channels. */
#include "kernels/qdwconv/qdwconv.h"
#include "kernels/simd/round_avx2.h"

/* 16 bytes of which `channels` are x's; the rest becomes 0. */
INTACT_INLINE __m128i load_some(const uint8_t *x, int channels) {
  if (channels == 16) return _mm_loadu_si128((const __m128i *)(const void *)x);
  uint8_t bytes[16] = {0};
  memcpy(bytes, x, (size_t)channels);
  return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

INTACT_INLINE __m256i widen(const uint8_t *x, int channels, bool is_signed, __m256i zero) {
  if (x == NULL) return _mm256_setzero_si256();
  __m128i v = load_some(x, channels);
  return _mm256_sub_epi16(is_signed ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v), zero);
}

INTACT_INLINE void copy_pixels(const uint8_t *const *x, int64_t pixels, int64_t x_step, int channels, bool is_signed, __m256i zero,
                               uint8_t *copy, int64_t copy_step) {
  const uint8_t *a = x[0], *b = x[1];
  for (int64_t p = 0; p < pixels; p++, copy += copy_step) {
    __m256i va = widen(a, channels, is_signed, zero), vb = widen(b, channels, is_signed, zero);
    _mm256_storeu_si256((__m256i *)(void *)copy, _mm256_unpacklo_epi16(va, vb));
    _mm256_storeu_si256((__m256i *)(void *)(copy + 32), _mm256_unpackhi_epi16(va, vb));
    if (a != NULL) a += x_step;
    if (b != NULL) b += x_step;
  }
}

static void copy_x(const uint8_t *const *x, int64_t pixels, int64_t x_step, int width, int channels, bool is_signed, int32_t zero,
                   uint8_t *copy, int64_t copy_step) {
  (void)width;
  __m256i z = _mm256_set1_epi16((int16_t)zero);
  if (channels == 16 && !is_signed)
    copy_pixels(x, pixels, x_step, 16, false, z, copy, copy_step);
  else
    copy_pixels(x, pixels, x_step, channels, is_signed, z, copy, copy_step);
}

INTACT_INLINE void tile(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, const uint8_t *copy, int pixels,
                        const intact_epilogue_avx2 *e, void *y) {
  const __m256i *bias = (const __m256i *)(const void *)block;
  const float *scale = (const float *)(const void *)(block + 64);
  const int64_t *offset = plan->offsets + plan->first_step[phase], *end = offset + plan->steps[phase];
  const uint8_t *w = block + 128 + plan->first_step[phase] * 64;
  __m256i acc[6][2];
  INTACT_UNROLL for (int i = 0; i < pixels; i++) acc[i][0] = _mm256_load_si256(bias), acc[i][1] = _mm256_load_si256(bias + 1);
  for (; offset < end; offset++, w += 64) {
    const uint8_t *x = copy + *offset;
    __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);
    __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32));
    INTACT_UNROLL for (int i = 0; i < pixels; i++) {
      const uint8_t *at = x + i * plan->pixel_step;
      __m256i x0 = _mm256_loadu_si256((const __m256i *)(const void *)at);
      __m256i x1 = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32));
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(x0, w0));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(x1, w1));
    }
  }
  intact__finish_avx2(acc, pixels, 2, scale, e, y);
}

static void run_line(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, int width, int channels, const uint8_t *copy,
                     int64_t pixels, void *y) {
  (void)width;
  intact_epilogue_avx2 e = intact__epilogue_avx2(&plan->round, plan->shape.sums, channels, plan->shape.channels);
  int64_t y_step = plan->shape.channels * (plan->shape.sums ? (int64_t)sizeof(int32_t) : 1), p = 0;
  for (; p + 4 <= pixels; p += 4) tile(plan, phase, block, copy + p * plan->pixel_step, 4, &e, (uint8_t *)y + p * y_step);
  copy += p * plan->pixel_step;
  y = (uint8_t *)y + p * y_step;
  if (pixels - p == 3)
    tile(plan, phase, block, copy, 3, &e, y);
  else if (pixels - p == 2)
    tile(plan, phase, block, copy, 2, &e, y);
  else if (pixels - p == 1)
    tile(plan, phase, block, copy, 1, &e, y);
}

const intact_qdwconv_kernel intact_qdwconv_u8s8_4x16__avx2 = {
    .name = "intact_qdwconv_u8s8_4x16__avx2",
    .isa = INTACT_ISA_AVX2,
    .rows = 2,
    .group_step = 2,
    .lanes = 8,
    .weight_bytes = 2,
    .element = 2,
    .n_widths = 1,
    .widths = {16},
    .centered = true,
    .copy = copy_x,
    .line = run_line,
};
