/* SPDX-License-Identifier: Apache-2.0 */
/* Integer convolution and matrix product for AVX2, tiles of 6 pixels by 16 channels, two ways. The fast one: u8 copies of x,
   vpmaddubsw and vpmaddwd, weights split so that no pair of products exceeds 16 bits. The other, for weights that would need many
   extra steps: s16 copies of x, vpmaddwd (never saturates: |x - zero| <= 255, |w| <= 128). */
#include "kernels/qgemm/qgemm.h"
#include "kernels/simd/round_avx2.h"

static void copy_wide(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy) {
  int16_t *to = copy;
  if (x == NULL) {
    memset(to, 0, (size_t)count * sizeof *to);
    return;
  }
  __m256i z = _mm256_set1_epi16((int16_t)zero);
  int64_t i = 0;
  if (is_signed) {
    for (; i + 16 <= count; i += 16) {
      __m256i v = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
      _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(v, z));
    }
  } else {
    for (; i + 16 <= count; i += 16) {
      __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
      _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_sub_epi16(v, z));
    }
  }
  for (; i < count; i++) to[i] = (int16_t)((is_signed ? (int8_t)x[i] : x[i]) - zero);
}

static void copy_bytes(const uint8_t *x, int64_t count, bool is_signed, int32_t zero, void *copy) {
  uint8_t *to = copy;
  if (x == NULL) {
    memset(to, is_signed ? zero + 128 : zero, (size_t)count);
    return;
  }
  if (!is_signed) {
    memcpy(to, x, (size_t)count);
    return;
  }
  const __m256i flip = _mm256_set1_epi8((char)0x80);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_xor_si256(v, flip));
  }
  for (; i < count; i++) to[i] = x[i] ^ 0x80;
}

INTACT_INLINE __m256i dword(const uint8_t *p) {
  int32_t v;
  memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

/* One step: 4 bytes of each pixel; wide: 2 s16. */
INTACT_INLINE void add_step(__m256i (*acc)[2], const uint8_t *const *x, int64_t at, const uint8_t *w, int rows, int vectors,
                            bool wide) {
  const __m256i one = _mm256_set1_epi16(1);
  __m256i b[2];
  INTACT_UNROLL for (int j = 0; j < vectors; j++)
    b[j] = wide ? _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(w + 16 * j)))
                : _mm256_load_si256((const __m256i *)(const void *)(w + 32 * j));
  INTACT_UNROLL for (int i = 0; i < rows; i++) {
    __m256i a = dword(x[i] + at);
    INTACT_UNROLL for (int j = 0; j < vectors; j++) {
      __m256i sums = wide ? _mm256_madd_epi16(a, b[j]) : _mm256_madd_epi16(_mm256_maddubs_epi16(a, b[j]), one);
      acc[i][j] = _mm256_add_epi32(acc[i][j], sums);
    }
  }
}

INTACT_INLINE void tile(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels, int64_t offset, int rows,
                        int vectors, bool wide, const intact_epilogue_avx2 *e, void *y) {
  const __m256i *bias = (const __m256i *)(const void *)(panel + sizeof(intact_qgemm_panel));
  const uint8_t *w = intact__qgemm_weights_of(panel, 8 * vectors);
  const uint8_t *x[6];
  __m256i acc[6][2];
  int step = wide ? 16 * vectors : 32 * vectors;
  INTACT_UNROLL for (int i = 0; i < rows; i++) {
    x[i] = (const uint8_t *)pixels[i] + offset;
    INTACT_UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = _mm256_load_si256(bias + j);
  }
  for (const int64_t *segment = plan->segments, *end = segment + plan->n_segments; segment < end; segment++)
    for (int64_t o = *segment, stop = o + plan->steps * 4; o < stop; o += 4, w += step)
      add_step(acc, x, o, w, rows, vectors, wide);
  int64_t n_extra = intact__qgemm_extra_of(panel);
  const int64_t *extra = (const int64_t *)(const void *)(w + n_extra * step);
  for (int64_t k = 0; k < n_extra; k++, w += step) add_step(acc, x, extra[k], w, rows, vectors, wide);
  intact__finish_avx2(acc, rows, vectors, intact__qgemm_scale_of(panel, 8 * vectors), e, y);
}

#define TILE(rows, vectors)                                                                                             \
  static void wide_##rows##_##vectors(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels,   \
                                      int64_t offset, const intact_epilogue_avx2 *e, void *y) {                         \
    tile(plan, panel, pixels, offset, rows, vectors, true, e, y);                                                       \
  }                                                                                                                     \
  static void bytes_##rows##_##vectors(const intact_qgemm_plan *plan, const uint8_t *panel, const void *const *pixels,  \
                                       int64_t offset, const intact_epilogue_avx2 *e, void *y) {                        \
    tile(plan, panel, pixels, offset, rows, vectors, false, e, y);                                                      \
  }
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#undef TILE

typedef void (*tile_fn)(const intact_qgemm_plan *, const uint8_t *, const void *const *, int64_t, const intact_epilogue_avx2 *,
                        void *);

/* tiles: of 1 to 6 pixels. */
static void run_tiles(const tile_fn *tiles, const intact_qgemm_plan *plan, const uint8_t *panel, int columns,
                      const void *const *pixels, int64_t n_pixels, int64_t offset, void *y) {
  bool s32 = plan->shape.output == INTACT_QGEMM_S32;
  intact_epilogue_avx2 e = intact__epilogue_avx2(&plan->round, s32, columns, plan->y_stride);
  size_t size = s32 ? sizeof(int32_t) : 1;
  for (int64_t i = 0; i < n_pixels;) {
    int64_t left = n_pixels - i;
    /* 7 and 8 as 4 + 3, 4 + 4 rather than 6 + 1, 6 + 2 */
    int rows = left >= 12 || left == 6 ? 6 : left > 6 ? (int)((left + 1) / 2) : (int)left;
    tiles[rows - 1](plan, panel, pixels + i, offset, &e, (uint8_t *)y + (size_t)(i * e.stride) * size);
    i += rows;
  }
}

static void run_wide(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                     int64_t n_pixels, int64_t offset, void *y) {
  static const tile_fn tiles[2][6] = {{wide_1_1, wide_2_1, wide_3_1, wide_4_1, wide_5_1, wide_6_1},
                                      {wide_1_2, wide_2_2, wide_3_2, wide_4_2, wide_5_2, wide_6_2}};
  run_tiles(tiles[width / 8 - 1], plan, panel, columns, pixels, n_pixels, offset, y);
}

static void run_bytes(const intact_qgemm_plan *plan, const uint8_t *panel, int width, int columns, const void *const *pixels,
                      int64_t n_pixels, int64_t offset, void *y) {
  static const tile_fn tiles[2][6] = {{bytes_1_1, bytes_2_1, bytes_3_1, bytes_4_1, bytes_5_1, bytes_6_1},
                                      {bytes_1_2, bytes_2_2, bytes_3_2, bytes_4_2, bytes_5_2, bytes_6_2}};
  run_tiles(tiles[width / 8 - 1], plan, panel, columns, pixels, n_pixels, offset, y);
}

const intact_qgemm_kernel intact_qgemm_u8s8_6x16__avx2 = {
    .name = "intact_qgemm_u8s8_6x16__avx2",
    .isa = INTACT_ISA_AVX2,
    .depth = 4,
    .lanes = 8,
    .n_widths = 2,
    .widths = {16, 8},
    .pairs = true,
    .centered = false,
    .copy = copy_bytes,
    .panel = run_bytes,
};

const intact_qgemm_kernel intact_qgemm_wide_u8s8_6x16__avx2 = {
    .name = "intact_qgemm_wide_u8s8_6x16__avx2",
    .isa = INTACT_ISA_AVX2,
    .depth = 2,
    .lanes = 8,
    .n_widths = 2,
    .widths = {16, 8},
    .centered = true,
    .copy = copy_wide,
    .panel = run_wide,
};
