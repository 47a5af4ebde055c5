/* SPDX-License-Identifier: Apache-2.0 */
/* The array kernels for NEON (AArch64). */
#include <arm_neon.h>
#include <float.h>

#include "kernels/affine/affine_kernels.h"

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;
enum { W = 4 };
#define KERNEL(name) name##__neon
#define SCALAR(name) name##__scalar

static inline vf v_set(float v) { return vdupq_n_f32(v); }
static inline vf v_load(const float *x) { return vld1q_f32(x); }
static inline void v_store(float *y, vf v) { vst1q_f32(y, v); }
static inline vm v_first(int64_t k) { return vcltq_s32((int32x4_t){0, 1, 2, 3}, vdupq_n_s32((int32_t)k)); }
static inline vf v_load_first(const float *x, int64_t k) {
  float lanes[W] = {0};
  for (int64_t i = 0; i < k; i++) lanes[i] = x[i];
  return vld1q_f32(lanes);
}
static inline void v_store_first(float *y, int64_t k, vf v) {
  float lanes[W];
  vst1q_f32(lanes, v);
  for (int64_t i = 0; i < k; i++) y[i] = lanes[i];
}
static inline vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf v_fms(vf a, vf b, vf c) { return vfmaq_f32(vnegq_f32(c), a, b); } /* a * b - c, rounded once */
static inline vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf v_max(vf a, vf b) { return vmaxnmq_f32(a, b); } /* the number where one is NaN */
static inline vf v_min(vf a, vf b) { return vminnmq_f32(a, b); }
static inline vf v_rne(vf v) { return vrndnq_f32(v); }
static inline vf v_abs(vf v) { return vabsq_f32(v); }
static inline vm v_ge(vf a, vf b) { return vcgeq_f32(a, b); }
static inline vm v_le(vf a, vf b) { return vcleq_f32(a, b); }
static inline vm v_gt(vf a, vf b) { return vcgtq_f32(a, b); }
static inline vm v_and(vm a, vm b) { return vandq_u32(a, b); }
static inline vm v_or(vm a, vm b) { return vorrq_u32(a, b); }
static inline vm v_not(vm m) { return vmvnq_u32(m); }
static inline bool v_all(vm m) { return vminvq_u32(m) != 0; }
static inline int v_count(vm m) { return (int)vaddvq_u32(vshrq_n_u32(m, 31)); }
static inline vf v_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
static inline vf v_one(vm m) { return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(vdupq_n_f32(1.0f)))); }
static inline float v_reduce_min(vf v) { return vminvq_f32(v); }
static inline float v_reduce_max(vf v) { return vmaxvq_f32(v); }
static inline vi i_set(int32_t v) { return vdupq_n_s32(v); }
static inline vi i_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi i_min(vi a, vi b) { return vminq_s32(a, b); }
static inline vi i_from(vf v) { return vcvtnq_s32_f32(v); }
static inline vi i_trunc(vf v) { return vcvtq_s32_f32(v); }
static inline vf i_to_float(vi v) { return vcvtq_f32_s32(v); }
static inline void i_store(int32_t *out, vi v) { vst1q_s32(out, v); }
static inline void store_u8(uint8_t *q, const vi *codes) {
  int16x8_t low = vcombine_s16(vmovn_s32(codes[0]), vmovn_s32(codes[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(codes[2]), vmovn_s32(codes[3]));
  vst1q_u8(q, vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high))));
}
static inline void store_s8(int8_t *q, const vi *codes) {
  int16x8_t low = vcombine_s16(vmovn_s32(codes[0]), vmovn_s32(codes[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(codes[2]), vmovn_s32(codes[3]));
  vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
static inline vi load_u8(const uint8_t *q) { return (vi){q[0], q[1], q[2], q[3]}; }
static inline vi load_s8(const int8_t *q) { return (vi){q[0], q[1], q[2], q[3]}; }
static inline void store_mask(uint8_t *mask, vm m) {
  uint32_t lanes[W];
  vst1q_u32(lanes, m);
  for (int k = 0; k < W; k++) mask[k] = (uint8_t)(lanes[k] & 1u);
}

#include "kernels/affine/affine_vector.h"
