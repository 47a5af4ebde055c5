/* SPDX-License-Identifier: Apache-2.0 */
/* Table lookup for AVX-512: sixteen 16-byte shuffles; the scheme is explained in qlut_avx2.c. */
#include "kernels/qlut/qlut.h"
#include "kernels/simd/avx512.h"

void INTACT_EMULATED(intact_qlut_u8u8__avx512)(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y) {
  __m512i rows[16];
  for (int k = 0; k < 16; k++) rows[k] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k)));
  for (int k = 15; k > 0; k--) rows[k] = _mm512_xor_si512(rows[k], rows[k - 1]);
  for (int k = 0; k < 8; k++) rows[8 + k] = _mm512_xor_si512(rows[8 + k], rows[k]);
  const __m512i sixteen = _mm512_set1_epi8(16);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
    __m512i index = _mm512_maskz_loadu_epi8(mask, x + i);
    __m512i r = _mm512_shuffle_epi8(rows[0], index);
    INTACT_UNROLL for (int k = 1; k <= 8; k++) {
      index = _mm512_sub_epi8(index, sixteen);
      r = _mm512_xor_si512(r, _mm512_shuffle_epi8(rows[k], index));
    }
    INTACT_UNROLL for (int k = 9; k < 16; k++) {
      index = _mm512_subs_epi8(index, sixteen);
      r = _mm512_xor_si512(r, _mm512_shuffle_epi8(rows[k], index));
    }
    _mm512_mask_storeu_epi8(y + i, mask, r);
  }
}
