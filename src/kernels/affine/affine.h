/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of quantization: the one home of rounding. real = scale * (q - zero_point); docs/numerics.md is the
   contract in words. The scalar functions here are the definitions; arrays go through the dispatchers below, which pick the
   best kernel of affine.def and equal the definitions bit for bit. Nothing here fails: NaN, infinities, huge values and
   zero scales have defined results. */
#ifndef INTACT_KERNELS_AFFINE_AFFINE_H
#define INTACT_KERNELS_AFFINE_AFFINE_H

#include <math.h>

#include "intact/tensor.h"
#include "kernels/kernel.h"

/* ---- rounding and saturation ---- */

/* Half to even, then to an integer; saturates at +-2^62, NaN gives -2^62 (so that a clamp makes it the lowest value). */
static inline int64_t intact__round_s64(double v) {
  double r = nearbyint(v);
  if (!(r >= -0x1p62)) return -(INT64_C(1) << 62);
  return r <= 0x1p62 ? (int64_t)r : INT64_C(1) << 62;
}

static inline int64_t intact__clamp_s64(int64_t v, int64_t low, int64_t high) {
  int64_t bounded = v < low ? low : v;
  return bounded > high ? high : bounded;
}

/* ---- quantize, dequantize ---- */

/* What one run of elements is quantized with. */
typedef struct intact_affine {
  float scale;
  float inverse; /* 1 / scale in float32 */
  int32_t zero_point;
  int64_t low, high; /* quant_min, quant_max */
  bool divide;       /* rule "divide" (ONNX): x / scale; else rule "reciprocal": x * inverse */
} intact_affine;

static inline intact_affine intact__affine(float scale, int32_t zero_point, int64_t low, int64_t high) {
  return (intact_affine){scale, 1.0f / scale, zero_point, low, high, false};
}

/* x in steps of the scale, by the rule. */
static inline float intact__affine_steps(float x, const intact_affine *p) {
  return p->divide ? x / p->scale : x * p->inverse;
}

/* q = clamp(z + rne(v), low, high): the zero point after the rounding. NaN gives low. */
static inline int64_t intact__affine_clamp(float v, int32_t zero_point, int64_t low, int64_t high) {
  return intact__clamp_s64(intact__round_s64((double)v) + zero_point, low, high);
}

static inline int64_t intact__quantize_one(float x, const intact_affine *p) {
  return intact__affine_clamp(intact__affine_steps(x, p), p->zero_point, p->low, p->high);
}

/* f32(q - z) * s: an exact integer difference, rounded to float32, and a rounded product. */
static inline float intact__dequantize_one(int64_t q, float scale, int32_t zero_point) {
  return (float)(q - zero_point) * scale;
}

/* Forward of fake_quantize: dequantize(quantize(x)); *mask says whether q lay inside of low..high before the clamp. */
static inline float intact__fake_quantize_one(float x, const intact_affine *p, bool *mask) {
  int64_t q = intact__round_s64((double)intact__affine_steps(x, p)) + p->zero_point;
  *mask = q >= p->low && q <= p->high;
  return intact__dequantize_one(intact__clamp_s64(q, p->low, p->high), p->scale, p->zero_point);
}

/* s32 code of a bias: rne(b / scale), saturated; scale = f32(x_scale * w_scale). */
static inline int32_t intact__quantize_bias(float bias, float scale) {
  return (int32_t)intact__clamp_s64(intact__round_s64((double)bias / (double)scale), INT32_MIN, INT32_MAX);
}

/* ---- requantize: an int32 accumulator to an integer of another scale ---- */

#define INTACT_REQUANTIZE_MAP(XX)                     \
  XX(F32_RNE, "f32_rne")                              \
  XX(INT32_SINGLE_ROUND, "int32_single_round")        \
  XX(INT32_DOUBLE_ROUND, "int32_double_round")

typedef enum intact_requantize_rule {
#define XX(name, text) INTACT_REQUANTIZE_##name,
  INTACT_REQUANTIZE_MAP(XX)
#undef XX
  INTACT_REQUANTIZE_COUNT
} intact_requantize_rule;

const char *intact__requantize_rule_text(intact_requantize_rule rule);
bool intact__requantize_rule_from_text(const char *text, intact_requantize_rule *rule);

typedef struct intact_requantize {
  intact_requantize_rule rule;
  float multiplier; /* f32_rne: f32(f32(sx * sw) / sy) */
  int32_t integer;  /* the integer rules: multiplier = integer * 2^(shift - 31), integer in 2^30..2^31-1 or 0 */
  int shift;
  int32_t zero_point;
  int32_t low, high; /* of the result; fused clamps narrow them */
} intact_requantize;

/* f32(f32(sx * sw) / sy). */
static inline float intact__requantize_multiplier(float x_scale, float w_scale, float y_scale) {
  float accumulator = x_scale * w_scale;
  return accumulator / y_scale;
}

/* Fills everything from the scales. The integer rules take sx * sw / sy in double (TFLite's QuantizeMultiplier): frexp,
   mantissa * 2^31 rounded half away from zero; a multiplier under 2^-32 becomes 0, one from 2^30 up the largest. */
intact_requantize intact__requantize_create(intact_requantize_rule rule, float x_scale, float w_scale, float y_scale,
                                            int32_t zero_point, int32_t low, int32_t high);
/* integer and shift for a real multiplier >= 0. */
void intact__integer_multiplier(double multiplier, bool single_round, int32_t *integer, int *shift);

/* f32_rne: rne(f32(acc) * multiplier) + zero point, clamped. */
static inline int32_t intact__requantize_f32_rne(int32_t acc, float multiplier, int32_t zero_point, int32_t low, int32_t high) {
  return (int32_t)intact__affine_clamp((float)acc * multiplier, zero_point, low, high);
}

/* The rounding doubling high product of gemmlowp: a * b / 2^31 rounded, halves upward, saturated. */
int32_t intact__doubling_high_product(int32_t a, int32_t b);
/* acc scaled by an integer multiplier: rounded once (half up) or twice (high product, then shift half away from zero). */
int32_t intact__scale_single_round(int32_t acc, int32_t integer, int shift);
int32_t intact__scale_double_round(int32_t acc, int32_t integer, int shift);

/* By p's rule. */
static inline int32_t intact__requantize_one(int32_t acc, const intact_requantize *p) {
  if (p->rule == INTACT_REQUANTIZE_F32_RNE)
    return intact__requantize_f32_rne(acc, p->multiplier, p->zero_point, p->low, p->high);
  int64_t scaled = p->rule == INTACT_REQUANTIZE_INT32_SINGLE_ROUND ? intact__scale_single_round(acc, p->integer, p->shift)
                                                                    : intact__scale_double_round(acc, p->integer, p->shift);
  return (int32_t)intact__clamp_s64(scaled + p->zero_point, p->low, p->high);
}

/* ---- arrays ---- */
/* Elements of one dtype quantized with one set of qparams. isa_set: kernels that may be used (intact__isa_set). */

/* q: u8, s8, u16, s16, u32 or s32; low and high lie within it. */
void intact__quantize_array(uint32_t isa_set, const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p);
void intact__dequantize_array(uint32_t isa_set, const void *q, intact_dtype dtype, float *x, int64_t n, float scale,
                              int32_t zero_point);
/* Element i uses p[i] (channels along the last axis). */
void intact__quantize_columns(const float *x, void *q, intact_dtype dtype, int64_t n, const intact_affine *p);
void intact__dequantize_columns(const void *q, intact_dtype dtype, float *x, int64_t n, const intact_affine *p);

#endif
