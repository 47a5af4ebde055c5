/* SPDX-License-Identifier: Apache-2.0 */
/* Transposition of bytes for AVX2: blocks of 16 x 16 in 128-bit registers. */
#include <immintrin.h>

#include "kernels/qlayout/qlayout.h"

/* Four rounds of interleaving element i with element i + 8 transpose 16 rows of 16 bytes. */
INTACT_INLINE void block16(const uint8_t *from, int64_t from_stride, uint8_t *to, int64_t to_stride) {
  __m128i a[16], b[16];
  INTACT_UNROLL for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * from_stride));
  INTACT_UNROLL for (int round = 0; round < 2; round++) {
    INTACT_UNROLL for (int i = 0; i < 8; i++) b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]), b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    INTACT_UNROLL for (int i = 0; i < 8; i++) a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 8]), a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 8]);
  }
  INTACT_UNROLL for (int i = 0; i < 16; i++) _mm_storeu_si128((__m128i *)(void *)(to + i * to_stride), a[i]);
}

static void rest(const uint8_t *from, int64_t rows, int64_t columns, int64_t r0, int64_t r1, int64_t c0, int64_t c1, uint8_t *to) {
  for (int64_t c = c0; c < c1; c++)
    for (int64_t r = r0; r < r1; r++) to[c * rows + r] = from[r * columns + c];
}

void intact_qlayout_x8__avx2(const uint8_t *from, int64_t rows, int64_t columns, uint8_t *to) {
  int64_t whole_rows = rows / 16 * 16, whole_columns = columns / 16 * 16;
  for (int64_t r = 0; r < whole_rows; r += 16)
    for (int64_t c = 0; c < whole_columns; c += 16) block16(from + r * columns + c, columns, to + c * rows + r, rows);
  rest(from, rows, columns, 0, whole_rows, whole_columns, columns, to);
  rest(from, rows, columns, whole_rows, rows, 0, columns, to);
}
