/* SPDX-License-Identifier: Apache-2.0 */
/* Scale and zero point from a range. */
#include "kernels/affine/choose_qparams.h"

#include <float.h>

static int64_t floor_half(int64_t v) { return v >= 0 ? v / 2 : -((1 - v) / 2); }

intact_status intact__quant_range(intact_context *context, const char *where, intact_dtype dtype, bool reduce_range,
                                  int64_t *quant_min, int64_t *quant_max, bool *custom) {
  if (!intact_dtype_is_integer(dtype) || intact_dtype_bits(dtype) > 32)
    INTACT_FAIL(context, UNSUPPORTED_TYPE, where, "type %s can't hold quantized integers; use one of up to 32 bits, e.g. u8 or s8",
                intact_dtype_text(dtype));
  bool given = *quant_min != 0 || *quant_max != 0;
  int64_t low = given ? *quant_min : intact_dtype_min(dtype), high = given ? *quant_max : intact_dtype_max(dtype);
  if (low > 0 || high < 0)
    INTACT_FAIL(context, OUT_OF_RANGE, where, "quantized range %lld..%lld does not hold 0; real 0 must have an exact integer",
                (long long)low, (long long)high);
  if (low >= high)
    INTACT_FAIL(context, OUT_OF_RANGE, where, "quantized range %lld..%lld is empty; quant_min must be below quant_max",
                (long long)low, (long long)high);
  uint64_t width = (uint64_t)high - (uint64_t)low, most = (UINT64_C(1) << intact_dtype_bits(dtype)) - 1;
  if (width > most)
    INTACT_FAIL(context, OUT_OF_RANGE, where, "quantized range %lld..%lld has more than the %llu values of %s", (long long)low,
                (long long)high, (unsigned long long)most + 1, intact_dtype_text(dtype));
  if (reduce_range && (given || intact_dtype_bits(dtype) == 8)) {
    low = floor_half(low);
    high = floor_half(high);
  }
  *quant_min = low;
  *quant_max = high;
  if (custom) *custom = given;
  return INTACT_OK;
}

static int64_t symmetric_zero_point(intact_dtype dtype, int64_t low, int64_t high, bool custom) {
  switch (dtype) {
    case INTACT_U8: return custom ? floor_half(low + high) : 128;
    case INTACT_U16: return 32768;
    default: return 0;
  }
}

intact_qparams_rule intact__qparams_rule(intact_qscheme scheme, intact_dtype dtype, int64_t quant_min, int64_t quant_max,
                                         bool custom, double eps) {
  intact_qparams_rule rule = {INTACT_MAPPING_AFFINE, quant_min, quant_max, 0, (float)(eps > 0 ? eps : INTACT_DEFAULT_EPS)};
  if (scheme == INTACT_PER_TENSOR_SYMMETRIC || scheme == INTACT_PER_CHANNEL_SYMMETRIC) {
    rule.mapping = INTACT_MAPPING_SYMMETRIC;
    rule.symmetric_zero_point = symmetric_zero_point(dtype, quant_min, quant_max, custom);
  } else if (scheme == INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    rule.mapping = INTACT_MAPPING_FLOAT_QPARAMS;
  }
  return rule;
}

intact_qparams_rule intact__block_rule(intact_range_mapping mapping, int64_t quant_min, int64_t quant_max, double eps) {
  return (intact_qparams_rule){mapping, quant_min, quant_max, (quant_max + quant_min + 1) / 2,
                               (float)(eps > 0 ? eps : INTACT_DEFAULT_EPS)};
}

static float as_finite(float v) {
  if (isnan(v)) return 0.0f;
  return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
}

/* (high - low) / steps in float32, or by way of double where the difference is too wide for float32. */
static float width_over(float low, float high, float steps) {
  float width = high - low;
  if (width <= FLT_MAX) return width / steps;
  return as_finite((float)(((double)high - (double)low) / (double)steps));
}

static float at_least(float scale, float eps) { return scale > eps ? scale : eps; }

static bool not_observed(float low, float high) { return low > high; }

void intact__float_qparams_from_range(const intact_qparams_rule *rule, float low, float high, float *scale,
                                      float *zero_point) {
  if (not_observed(low, high)) {
    *scale = 1.0f;
    *zero_point = 0.0f;
    return;
  }
  low = as_finite(low);
  float s = width_over(low, as_finite(high), (float)(rule->quant_max - rule->quant_min));
  *scale = s > rule->eps ? s : 1.0f;
  *zero_point = as_finite(-1.0f * low / *scale);
}

void intact__qparams_from_range(const intact_qparams_rule *rule, float low, float high, float *scale, int32_t *zero_point) {
  if (not_observed(low, high)) {
    *scale = 1.0f;
    *zero_point = 0;
    return;
  }
  if (rule->mapping == INTACT_MAPPING_FLOAT_QPARAMS) {
    float z;
    intact__float_qparams_from_range(rule, low, high, scale, &z);
    *zero_point = 0;
    return;
  }
  low = as_finite(low);
  high = as_finite(high);
  float lo = low < 0 ? low : 0.0f, hi = high > 0 ? high : 0.0f;
  float steps = (float)(rule->quant_max - rule->quant_min);
  if (rule->mapping == INTACT_MAPPING_AFFINE) {
    float s = at_least(width_over(lo, hi, steps), rule->eps);
    int64_t z = rule->quant_min - intact__round_s64((double)(lo / s));
    *scale = s;
    z = intact__clamp_s64(z, rule->quant_min, rule->quant_max);
    *zero_point = (int32_t)intact__clamp_s64(z, INT32_MIN, INT32_MAX);
    return;
  }
  float s;
  if (rule->mapping == INTACT_MAPPING_SYMMETRIC) {
    s = (-lo > hi ? -lo : hi) / (steps / 2);
  } else {
    float from_low = rule->quant_min ? lo / (float)rule->quant_min : 0.0f;
    float from_high = rule->quant_max ? hi / (float)rule->quant_max : 0.0f;
    s = from_low > from_high ? from_low : from_high;
  }
  *scale = as_finite(at_least(s, rule->eps));
  *zero_point = (int32_t)rule->symmetric_zero_point;
}

void intact__qparams_shorten(const intact_qparams_rule *rule, int bits, float *scale, int32_t *zero_point) {
  int exponent;
  double mantissa = frexp((double)*scale, &exponent);
  float s = (float)ldexp(ceil(ldexp(mantissa, bits)), exponent - bits);
  if (!isfinite(s) || !(s > 0)) return;
  if (rule->mapping == INTACT_MAPPING_AFFINE) {
    double low = (double)(rule->quant_min - *zero_point) * (double)*scale;
    int64_t z = rule->quant_min - intact__round_s64(low / (double)s);
    *zero_point = (int32_t)intact__clamp_s64(z, rule->quant_min, rule->quant_max);
  }
  *scale = s;
}

/* Scales under this lose the precision of float32 reciprocals; the literal is a float in the original. */
static const float small_scale = 6.1e-5f;

void intact__choose_qparams(intact_choose_form form, float low_in, float high_in, int32_t quant_min, int32_t quant_max,
                            bool preserve_sparsity, double *scale, int32_t *zero_point) {
  float low = as_finite(low_in), high = as_finite(high_in);
  if (low > high) low = high = 0.0f;
  double qmin = quant_min, qmax = quant_max;
  bool both_signs = low < 0 && high > 0;
  if (preserve_sparsity && both_signs) {
    int32_t half = (int32_t)(((int64_t)quant_max - quant_min) / 2);
    int32_t symmetric_min = -(half + 1), symmetric_max = half;
    double from_min = fabs((double)low / symmetric_min), from_max = fabs((double)high / symmetric_max);
    double most = from_min > from_max ? from_min : from_max;
    low = as_finite((float)(most * symmetric_min));
    high = as_finite((float)(most * symmetric_max));
  }
  if (low > 0) low = 0.0f;
  if (high < 0) high = 0.0f;
  double s = ((double)high - (double)low) / (qmax - qmin);
  if ((float)s == 0.0f || isinf(1.0f / (float)s)) s = 0.1;
  if (form == INTACT_CHOOSE_FBGEMM) s = (double)(float)s;
  if (s < (double)small_scale) {
    float org = (float)s;
    s = (double)small_scale;
    if (low == 0.0f) {
      high = small_scale * (float)(qmax - qmin);
    } else if (high == 0.0f) {
      low = -small_scale * (float)(qmax - qmin);
    } else {
      float amplifier = small_scale / org;
      low *= amplifier;
      high *= amplifier;
    }
  }
  double z_from_min = qmin - (double)low / s, z_from_max = qmax - (double)high / s;
  double sign = form == INTACT_CHOOSE_FBGEMM ? 1.0 : -1.0;
  double error_min = fabs(qmin) + sign * fabs((double)low / s), error_max = fabs(qmax) + sign * fabs((double)high / s);
  double z = error_min < error_max ? z_from_min : z_from_max;
  if (preserve_sparsity && both_signs) z = (qmin + qmax) / 2.0;
  *scale = s;
  *zero_point = z < qmin ? quant_min : z > qmax ? quant_max : (int32_t)intact__round_s64(z);
}
