/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations on two 8-bit tensors for AVX2: 16 elements at a time in float. */
#include <immintrin.h>
#include <string.h>

#include "kernels/qbinary/qbinary.h"

typedef __m256 vf;
#define KERNEL intact_qbinary_u8u8__avx2
INTACT_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
INTACT_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
INTACT_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INTACT_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
INTACT_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
INTACT_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
#include "kernels/qbinary/qbinary_vector.h"

typedef struct operand {
  __m128i flip;
  __m256i zero;
  __m256 scale;
} operand;

INTACT_INLINE __m256 real8(__m128i bytes, const operand *o) {
  __m256i v = _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), o->zero);
  return _mm256_mul_ps(_mm256_cvtepi32_ps(v), o->scale);
}

INTACT_INLINE void run(intact_qbinary_op op, bool divide, const intact_qbinary_params *p, const intact_qbinary_block *block) {
  operand oa = {_mm_set1_epi8((char)p->flip_a), _mm256_set1_epi32(p->zero_a), _mm256_set1_ps(p->scale_a)};
  operand ob = {_mm_set1_epi8((char)p->flip_b), _mm256_set1_epi32(p->zero_b), _mm256_set1_ps(p->scale_b)};
  __m256 unit = _mm256_set1_ps(divide ? p->scale_y : p->inverse_y), high = _mm256_set1_ps(p->round.high);
  __m256i zero = _mm256_set1_epi16((int16_t)p->round.zero8);
  __m128i min = _mm_set1_epi8((char)p->round.min8), flip = _mm_set1_epi8((char)p->round.flip);
  for (int64_t r = 0; r < block->rows; r++) {
    const uint8_t *a = block->a + r * block->a_row, *b = block->b + r * block->b_row;
    uint8_t *y = block->y + r * block->y_row;
    __m128i one_a = _mm_set1_epi8((char)a[0]), one_b = _mm_set1_epi8((char)b[0]);
    for (int64_t i = 0; i < block->n; i += 16) {
      uint8_t bytes[3][16];
      int64_t left = block->n - i;
      __m128i va = one_a, vb = one_b;
      if (left >= 16) {
        if (block->a_step) va = _mm_loadu_si128((const __m128i *)(const void *)(a + i));
        if (block->b_step) vb = _mm_loadu_si128((const __m128i *)(const void *)(b + i));
      } else {
        memset(bytes, 0, sizeof bytes);
        if (block->a_step) memcpy(bytes[0], a + i, (size_t)left), va = _mm_loadu_si128((const __m128i *)(const void *)bytes[0]);
        if (block->b_step) memcpy(bytes[1], b + i, (size_t)left), vb = _mm_loadu_si128((const __m128i *)(const void *)bytes[1]);
      }
      va = _mm_xor_si128(va, oa.flip), vb = _mm_xor_si128(vb, ob.flip);
      __m256 v0 = apply(op, real8(va, &oa), real8(vb, &ob));
      __m256 v1 = apply(op, real8(_mm_srli_si128(va, 8), &oa), real8(_mm_srli_si128(vb, 8), &ob));
      __m256i t0 = _mm256_cvtps_epi32(_mm256_min_ps(high, steps(v0, unit, divide)));
      __m256i t1 = _mm256_cvtps_epi32(_mm256_min_ps(high, steps(v1, unit, divide)));
      __m256i s = _mm256_adds_epi16(_mm256_permute4x64_epi64(_mm256_packs_epi32(t0, t1), 0xD8), zero);
      __m128i q = _mm_packus_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
      q = _mm_xor_si128(_mm_max_epu8(q, min), flip);
      if (left >= 16) {
        _mm_storeu_si128((__m128i *)(void *)(y + i), q);
      } else {
        _mm_storeu_si128((__m128i *)(void *)bytes[2], q);
        memcpy(y + i, bytes[2], (size_t)left);
      }
    }
  }
}
