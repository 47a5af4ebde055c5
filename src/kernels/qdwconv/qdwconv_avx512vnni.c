/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution for AVX-512 with VNNI: bytes of four rows side by side, vpdpbusd, 4 pixels by 64 or 6 by 16 channels. A
   group begins at every second row, so that a kernel of three rows is always within one group. */
#include <string.h>

#include "kernels/qdwconv/qdwconv.h"
#include "kernels/simd/round_avx512.h"

/* Four rows of 64 channels: vector j holds channels 16 L + 4 j .. + 3 of lane L. */
INTACT_INLINE void interleave64(const __m512i *r, uint8_t *to) {
  __m512i a = _mm512_unpacklo_epi8(r[0], r[1]), b = _mm512_unpackhi_epi8(r[0], r[1]);
  __m512i c = _mm512_unpacklo_epi8(r[2], r[3]), d = _mm512_unpackhi_epi8(r[2], r[3]);
  _mm512_storeu_si512((void *)to, _mm512_unpacklo_epi16(a, c));
  _mm512_storeu_si512((void *)(to + 64), _mm512_unpackhi_epi16(a, c));
  _mm512_storeu_si512((void *)(to + 128), _mm512_unpacklo_epi16(b, d));
  _mm512_storeu_si512((void *)(to + 192), _mm512_unpackhi_epi16(b, d));
}

INTACT_INLINE void interleave16(const __m128i *r, uint8_t *to) {
  __m128i a = _mm_unpacklo_epi8(r[0], r[1]), b = _mm_unpackhi_epi8(r[0], r[1]);
  __m128i c = _mm_unpacklo_epi8(r[2], r[3]), d = _mm_unpackhi_epi8(r[2], r[3]);
  _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi16(a, c));
  _mm_storeu_si128((__m128i *)(void *)(to + 16), _mm_unpackhi_epi16(a, c));
  _mm_storeu_si128((__m128i *)(void *)(to + 32), _mm_unpacklo_epi16(b, d));
  _mm_storeu_si128((__m128i *)(void *)(to + 48), _mm_unpackhi_epi16(b, d));
}

static void copy_x(const uint8_t *const *x, int64_t pixels, int64_t x_step, int width, int channels, bool is_signed, int32_t zero,
                   uint8_t *copy, int64_t copy_step) {
  const __mmask64 mask = channels == 64 ? ~(__mmask64)0 : ((__mmask64)1 << channels) - 1;
  const __m512i padding = _mm512_set1_epi8((char)(is_signed ? zero + 128 : zero));
  const __m512i flip = _mm512_set1_epi8((char)(is_signed ? 0x80 : 0));
  for (int64_t p = 0; p < pixels; p++, copy += copy_step) {
    __m512i rows[4];
    __m128i narrow[4];
    for (int r = 0; r < 4; r++) {
      const uint8_t *from = x[r] != NULL ? x[r] + p * x_step : NULL;
      if (width == 64)
        rows[r] = x[r] != NULL ? _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from), flip) : padding;
      else
        narrow[r] = x[r] != NULL ? _mm_xor_si128(_mm_maskz_loadu_epi8((__mmask16)mask, from), _mm512_castsi512_si128(flip))
                                 : _mm512_castsi512_si128(padding);
    }
    if (width == 64)
      interleave64(rows, copy);
    else
      interleave16(narrow, copy);
  }
}

INTACT_INLINE void tile(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, const uint8_t *copy, int pixels,
                        int vectors, const intact_epilogue_avx512 *e, void *y) {
  const float *scale = (const float *)(const void *)(block + 64 * vectors);
  const int64_t *offset = plan->offsets + plan->first_step[phase], *end = offset + plan->steps[phase];
  const uint8_t *w = block + 128 * vectors + plan->first_step[phase] * 64 * vectors;
  __m512i acc[14][4];
  INTACT_UNROLL for (int i = 0; i < pixels; i++) {
    INTACT_UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = _mm512_loadu_si512((const void *)(block + 64 * j));
  }
  for (; offset < end; offset++, w += 64 * vectors) {
    const uint8_t *x = copy + *offset;
    __m512i b[4];
    INTACT_UNROLL for (int j = 0; j < vectors; j++) b[j] = _mm512_loadu_si512((const void *)(w + 64 * j));
    INTACT_UNROLL for (int i = 0; i < pixels; i++) {
      INTACT_UNROLL for (int j = 0; j < vectors; j++) {
        __m512i a = _mm512_loadu_si512((const void *)(x + i * plan->pixel_step + 64 * j));
        INTACT_DOT(acc[i][j], a, b[j]);
      }
    }
  }
  intact__finish_avx512(acc, pixels, vectors, scale, e, y);
}

static void run_line(const intact_qdwconv_plan *plan, int phase, const uint8_t *block, int width, int channels, const uint8_t *copy,
                     int64_t pixels, void *y) {
  const intact_epilogue_avx512 e = intact__epilogue_avx512(&plan->round, plan->shape.sums, channels, plan->shape.channels);
  int64_t y_step = plan->shape.channels * (plan->shape.sums ? (int64_t)sizeof(int32_t) : 1);
  for (int64_t p = 0; p < pixels;) {
    const uint8_t *x = copy + p * plan->pixel_step;
    uint8_t *to = (uint8_t *)y + p * y_step;
    if (width == 64) {
      if (pixels - p >= 4)
        tile(plan, phase, block, x, 4, 4, &e, to), p += 4;
      else
        tile(plan, phase, block, x, 1, 4, &e, to), p += 1;
    } else if (pixels - p >= 6) {
      tile(plan, phase, block, x, 6, 1, &e, to), p += 6;
    } else if (pixels - p >= 2) {
      tile(plan, phase, block, x, 2, 1, &e, to), p += 2;
    } else {
      tile(plan, phase, block, x, 1, 1, &e, to), p += 1;
    }
  }
}

const intact_qdwconv_kernel INTACT_EMULATED(intact_qdwconv_u8s8_4x64__avx512vnni) = {
    .name = "intact_qdwconv_u8s8_4x64__avx512vnni",
    .isa = INTACT_ISA_AVX512VNNI,
    .rows = 4,
    .group_step = 2,
    .lanes = 16,
    .weight_bytes = 1,
    .element = 1,
    .n_widths = 2,
    .widths = {64, 16},
    .centered = false,
    .copy = copy_x,
    .line = run_line,
};
