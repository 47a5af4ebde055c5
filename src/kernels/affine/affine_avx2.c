/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels for AVX2. */
#include <float.h>
#include <immintrin.h>

#include "kernels/affine/affine_kernels.h"

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
enum { W = 8 };
#define KERNEL(name) name##__avx2
#define SCALAR(name) name##__scalar

static inline vf v_set(float v) { return _mm256_set1_ps(v); }
static inline vf v_load(const float *x) { return _mm256_loadu_ps(x); }
static inline void v_store(float *y, vf v) { _mm256_storeu_ps(y, v); }
static inline vm v_first(int64_t k) {
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}
static inline vf v_load_first(const float *x, int64_t k) { return _mm256_maskload_ps(x, _mm256_castps_si256(v_first(k))); }
static inline void v_store_first(float *y, int64_t k, vf v) { _mm256_maskstore_ps(y, _mm256_castps_si256(v_first(k)), v); }
static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); } /* a * b - c, rounded once */
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf v_rne(vf v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf v_abs(vf v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
static inline vm v_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vm v_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline vm v_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vm v_or(vm a, vm b) { return _mm256_or_ps(a, b); }
static inline vm v_not(vm m) { return _mm256_xor_ps(m, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
static inline bool v_all(vm m) { return _mm256_movemask_ps(m) == 0xff; }
static inline int v_count(vm m) { return __builtin_popcount((unsigned)_mm256_movemask_ps(m)); }
static inline vf v_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
static inline vf v_one(vm m) { return _mm256_and_ps(m, _mm256_set1_ps(1.0f)); }
static inline float v_reduce_min(vf v) {
  __m128 a = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_min_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_min_ss(a, _mm_shuffle_ps(a, a, 1)));
}
static inline float v_reduce_max(vf v) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
}
static inline vi i_set(int32_t v) { return _mm256_set1_epi32(v); }
static inline vi i_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi i_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
static inline vi i_from(vf v) { return _mm256_cvtps_epi32(v); }
static inline vi i_trunc(vf v) { return _mm256_cvttps_epi32(v); }
static inline vf i_to_float(vi v) { return _mm256_cvtepi32_ps(v); }
static inline void i_store(int32_t *out, vi v) { _mm256_storeu_si256((__m256i *)(void *)out, v); }

/* The packs work within halves; the permutation of 32-bit groups puts them in order. */
static inline __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
static inline void store_u8(uint8_t *q, const vi *codes) {
  __m256i low = _mm256_packs_epi32(codes[0], codes[1]), high = _mm256_packs_epi32(codes[2], codes[3]);
  _mm256_storeu_si256((__m256i *)(void *)q, in_order(_mm256_packus_epi16(low, high)));
}
static inline void store_s8(int8_t *q, const vi *codes) {
  __m256i low = _mm256_packs_epi32(codes[0], codes[1]), high = _mm256_packs_epi32(codes[2], codes[3]);
  _mm256_storeu_si256((__m256i *)(void *)q, in_order(_mm256_packs_epi16(low, high)));
}
static inline vi load_u8(const uint8_t *q) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)q)); }
static inline vi load_s8(const int8_t *q) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)q)); }
static inline void store_mask(uint8_t *mask, vm m) {
  __m256i bits = _mm256_and_si256(_mm256_castps_si256(m), _mm256_set1_epi32(1));
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  _mm_storel_epi64((__m128i *)(void *)mask, _mm_packus_epi16(words, words));
}

#include "kernels/affine/affine_vector.h"
