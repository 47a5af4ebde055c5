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
static inline bool v_all(vm m) { return m == 0xffff; }
static inline int v_count(vm m) { return __builtin_popcount(m); }
static inline vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vf v_one(vm m) { return _mm512_maskz_mov_ps(m, _mm512_set1_ps(1.0f)); }
static inline float v_reduce_min(vf v) {
  float lanes[W];
  _mm512_storeu_ps(lanes, v);
  for (int i = 1; i < W; i++) lanes[0] = lanes[i] < lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
}
static inline float v_reduce_max(vf v) {
  float lanes[W];
  _mm512_storeu_ps(lanes, v);
  for (int i = 1; i < W; i++) lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
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
