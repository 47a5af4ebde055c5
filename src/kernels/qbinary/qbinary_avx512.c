/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations on two 8-bit tensors for AVX-512: 64 elements at a time in float. */
#include "kernels/qbinary/qbinary.h"
#include "kernels/simd/avx512.h"

typedef __m512 vf;
#define KERNEL INTACT_EMULATED(intact_qbinary_u8u8__avx512)
INTACT_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INTACT_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INTACT_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INTACT_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INTACT_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INTACT_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
#include "kernels/qbinary/qbinary_vector.h"

typedef struct operand {
  __m512i flip, zero;
  __m512 scale;
} operand;

/* Bytes 4 j to 4 j + 3 of every 128-bit lane, widened: the order that packing puts right. */
INTACT_INLINE __m512i quarter(int j) {
  const int lanes = 4 * j;
  const __m128i one = _mm_set_epi32((int)(0x80808000u + (unsigned)lanes + 3), (int)(0x80808000u + (unsigned)lanes + 2),
                                    (int)(0x80808000u + (unsigned)lanes + 1), (int)(0x80808000u + (unsigned)lanes));
  return _mm512_broadcast_i32x4(one);
}

INTACT_INLINE __m512 real(__m512i bytes, __m512i order, const operand *o) {
  __m512i v = _mm512_sub_epi32(_mm512_shuffle_epi8(bytes, order), o->zero);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(v), o->scale);
}

INTACT_INLINE void run(intact_qbinary_op op, bool divide, const intact_qbinary_params *p, const intact_qbinary_block *block) {
  const operand oa = {_mm512_set1_epi8((char)p->flip_a), _mm512_set1_epi32(p->zero_a), _mm512_set1_ps(p->scale_a)};
  const operand ob = {_mm512_set1_epi8((char)p->flip_b), _mm512_set1_epi32(p->zero_b), _mm512_set1_ps(p->scale_b)};
  const __m512 unit = _mm512_set1_ps(divide ? p->scale_y : p->inverse_y), high = _mm512_set1_ps(p->round.high);
  const __m512i zero = _mm512_set1_epi16((int16_t)p->round.zero8), min = _mm512_set1_epi8((char)p->round.min8);
  const __m512i flip = _mm512_set1_epi8((char)p->round.flip);
  for (int64_t r = 0; r < block->rows; r++) {
    const uint8_t *a = block->a + r * block->a_row, *b = block->b + r * block->b_row;
    uint8_t *y = block->y + r * block->y_row;
    const __m512i one_a = _mm512_set1_epi8((char)a[0]), one_b = _mm512_set1_epi8((char)b[0]);
    for (int64_t i = 0; i < block->n; i += 64) {
      const __mmask64 mask = block->n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (block->n - i)) - 1;
      __m512i va = _mm512_xor_si512(block->a_step ? _mm512_maskz_loadu_epi8(mask, a + i) : one_a, oa.flip);
      __m512i vb = _mm512_xor_si512(block->b_step ? _mm512_maskz_loadu_epi8(mask, b + i) : one_b, ob.flip);
      __m512i t[4];
      INTACT_UNROLL for (int j = 0; j < 4; j++) {
        __m512 v = apply(op, real(va, quarter(j), &oa), real(vb, quarter(j), &ob));
        t[j] = _mm512_cvtps_epi32(_mm512_min_ps(high, steps(v, unit, divide)));
      }
      __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(t[0], t[1]), zero);
      __m512i q = _mm512_packus_epi16(low, _mm512_adds_epi16(_mm512_packs_epi32(t[2], t[3]), zero));
      _mm512_mask_storeu_epi8(y + i, mask, _mm512_xor_si512(_mm512_max_epu8(q, min), flip));
    }
  }
}
