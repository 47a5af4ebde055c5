/* SPDX-License-Identifier: Apache-2.0 */
/* Table lookup for AVX2: sixteen 16-byte shuffles. */
#include <immintrin.h>

#include "kernels/qlut/qlut.h"

/* vpshufb yields 0 for an index with the top bit set. Subtracting 16 at each step makes a byte's index go below 0 right after
   its own row of the table; what it collected until then is the xor of all rows it met. So row k is stored as the difference
   to row k - 1. Bytes >= 128 begin below 0 and come into 0..127 by wrapping at the step that serves row 8: rows 8 to 15 take
   back what smaller bytes collected in rows 0 to 7. From step 9 on the subtraction saturates, lest small bytes come back. */
void intact_qlut_u8u8__avx2(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y) {
  __m256i rows[16];
  int64_t i = 0;
  if (n >= 32) {
    for (int k = 0; k < 16; k++)
      rows[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k)));
    for (int k = 15; k > 0; k--) rows[k] = _mm256_xor_si256(rows[k], rows[k - 1]);
    for (int k = 0; k < 8; k++) rows[8 + k] = _mm256_xor_si256(rows[8 + k], rows[k]);
  }
  const __m256i sixteen = _mm256_set1_epi8(16);
  for (; i + 32 <= n; i += 32) {
    __m256i index = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
    __m256i r = _mm256_shuffle_epi8(rows[0], index);
    INTACT_UNROLL for (int k = 1; k <= 8; k++) {
      index = _mm256_sub_epi8(index, sixteen);
      r = _mm256_xor_si256(r, _mm256_shuffle_epi8(rows[k], index));
    }
    INTACT_UNROLL for (int k = 9; k < 16; k++) {
      index = _mm256_subs_epi8(index, sixteen);
      r = _mm256_xor_si256(r, _mm256_shuffle_epi8(rows[k], index));
    }
    _mm256_storeu_si256((__m256i *)(void *)(y + i), r);
  }
  for (; i < n; i++) y[i] = table[x[i]];
}
