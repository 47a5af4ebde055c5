/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels for AVX-512 (F, BW, DQ, VL). */
#include <float.h>

#include "kernels/affine/affine_kernels.h"
#include "kernels/simd/avx512.h"

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
enum { W = 16 };
#define KERNEL(name) INTACT_EMULATED(name##__avx512)
#define SCALAR(name) name##__scalar

static inline vf v_set(float v) { return _mm512_set1_ps(v); }
static inline vf v_load(const float *x) { return _mm512_loadu_ps(x); }
static inline void v_store(float *y, vf v) { _mm512_storeu_ps(y, v); }
static inline vm v_first(int64_t k) { return (vm)((1u << k) - 1u); }
static inline vf v_load_first(const float *x, int64_t k) { return _mm512_maskz_loadu_ps(v_first(k), x); }
static inline void v_store_first(float *y, int64_t k, vf v) { _mm512_mask_storeu_ps(y, v_first(k), v); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); } /* a * b - c, rounded once */
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_rne(vf v) { return _mm512_roundscale_ps(v, 0); } /* no fraction bits, half to even */
static inline vf v_abs(vf v) { return _mm512_abs_ps(v); }
static inline vm v_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vm v_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline vm v_and(vm a, vm b) { return (vm)(a & b); }
static inline vm v_or(vm a, vm b) { return (vm)(a | b); }
static inline vm v_not(vm m) { return (vm)~m; }
static inline bool v_all(vm m) { return m == 0xffff; }
static inline int v_count(vm m) { return __builtin_popcount(m); }
static inline vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vf v_one(vm m) { return _mm512_maskz_mov_ps(m, _mm512_set1_ps(1.0f)); }
static inline __m256 lower_half(vf v) { return _mm512_castps512_ps256(v); }
static inline __m256 upper_half(vf v) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)); }
static inline float v_reduce_min(vf v) {
  const __m256 h = _mm256_min_ps(lower_half(v), upper_half(v));
  __m128 a = _mm_min_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  a = _mm_min_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_min_ss(a, _mm_shuffle_ps(a, a, 1)));
}
static inline float v_reduce_max(vf v) {
  const __m256 h = _mm256_max_ps(lower_half(v), upper_half(v));
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
}
static inline vi i_set(int32_t v) { return _mm512_set1_epi32(v); }
static inline vi i_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi i_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
static inline vi i_from(vf v) { return _mm512_cvtps_epi32(v); }
static inline vi i_trunc(vf v) { return _mm512_cvttps_epi32(v); }
static inline vf i_to_float(vi v) { return _mm512_cvtepi32_ps(v); }
static inline void i_store(int32_t *out, vi v) { _mm512_storeu_si512(out, v); }
static inline void store_u8(uint8_t *q, const vi *codes) {
  for (int k = 0; k < 4; k++) _mm_storeu_si128((__m128i *)(void *)(q + k * W), _mm512_cvtepi32_epi8(codes[k]));
}
static inline void store_s8(int8_t *q, const vi *codes) {
  for (int k = 0; k < 4; k++) _mm_storeu_si128((__m128i *)(void *)(q + k * W), _mm512_cvtepi32_epi8(codes[k]));
}
static inline vi load_u8(const uint8_t *q) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)q)); }
static inline vi load_s8(const int8_t *q) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)q)); }
static inline void store_mask(uint8_t *mask, vm m) {
  _mm_storeu_si128((__m128i *)(void *)mask, _mm512_cvtepi32_epi8(_mm512_maskz_set1_epi32(m, 1)));
}

#include "kernels/affine/affine_vector.h"
