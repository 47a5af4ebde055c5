/* SPDX-License-Identifier: Apache-2.0 */
/* The table of element types and single conversions between them. */
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static const struct {
  const char *text;
  int bits;
  char kind;
} rows[] = {
#define XX(name, text, bits, kind, safetensors, onnx) {text, bits, kind},
    INTACT_DTYPE_MAP(XX)
#undef XX
};

static bool known(intact_dtype dtype) { return (unsigned)dtype < INTACT_DTYPE_COUNT; }

const char *intact_dtype_text(intact_dtype dtype) { return known(dtype) ? rows[dtype].text : "?"; }
int intact_dtype_bits(intact_dtype dtype) { return known(dtype) ? rows[dtype].bits : 0; }
bool intact_dtype_is_float(intact_dtype dtype) { return known(dtype) && rows[dtype].kind == 'f'; }
bool intact_dtype_is_integer(intact_dtype dtype) {
  return known(dtype) && (rows[dtype].kind == 's' || rows[dtype].kind == 'u');
}

bool intact_dtype_from_text(const char *text, intact_dtype *dtype) {
  for (int i = 0; i < INTACT_DTYPE_COUNT; i++) {
    if (strcmp(rows[i].text, text) == 0) {
      *dtype = (intact_dtype)i;
      return true;
    }
  }
  return false;
}

int64_t intact_dtype_min(intact_dtype dtype) {
  if (!known(dtype) || rows[dtype].kind != 's') return 0;
  return rows[dtype].bits == 64 ? INT64_MIN : -((int64_t)1 << (rows[dtype].bits - 1));
}

int64_t intact_dtype_max(intact_dtype dtype) {
  if (dtype == INTACT_BOOL) return 1;
  if (!intact_dtype_is_integer(dtype)) return 0;
  const int bits = rows[dtype].bits - (rows[dtype].kind == 's');
  return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static const char *const scheme_texts[] = {
#define XX(name, text) text,
    INTACT_QSCHEME_MAP(XX)
#undef XX
};

const char *intact_qscheme_text(intact_qscheme scheme) {
  return (unsigned)scheme < INTACT_QSCHEME_COUNT ? scheme_texts[scheme] : "?";
}

bool intact_qscheme_from_text(const char *text, intact_qscheme *scheme) {
  for (int i = 0; i < INTACT_QSCHEME_COUNT; i++) {
    if (strcmp(scheme_texts[i], text) == 0) {
      *scheme = (intact_qscheme)i;
      return true;
    }
  }
  return false;
}

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float intact__f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
  if (exponent == 31) return from_bits(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = (float)mantissa * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t intact__f32_to_f16(float value) {
  const uint32_t bits = to_bits(value);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 up: infinity */
  if (magnitude < 0x38800000u)                                     /* below 2^-14: subnormal, units of 2^-24 */
    return (uint16_t)(sign | (uint16_t)lrintf(from_bits(magnitude) * 0x1p24f));
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | (uint16_t)((rounded - 0x38000000u) >> 13));
}

float intact__bf16_to_f32(uint16_t bits) { return from_bits((uint32_t)bits << 16); }

uint16_t intact__f32_to_bf16(float value) {
  const uint32_t bits = to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The small floats: sign bit, exponent and mantissa widths, bias; what the all-ones exponent and the negative zero mean. */
typedef struct small_float {
  int exponent, mantissa, bias;
  uint8_t nan;     /* code of NaN (positive) */
  uint8_t largest; /* code of the largest finite value */
  bool has_infinity;
  bool zero_nan; /* FNUZ: 0x80 is NaN, no negative zero */
} small_float;

static const small_float *small_row(intact_dtype dtype) {
  static const small_float e4m3fn = {4, 3, 7, 0x7f, 0x7e, false, false};
  static const small_float e4m3fnuz = {4, 3, 8, 0x80, 0x7f, false, true};
  static const small_float e5m2 = {5, 2, 15, 0x7f, 0x7b, true, false};
  static const small_float e5m2fnuz = {5, 2, 16, 0x80, 0x7f, false, true};
  static const small_float e2m1 = {2, 1, 1, 0, 0x7, false, false};
  switch (dtype) {
    case INTACT_F8E4M3FN:
      return &e4m3fn;
    case INTACT_F8E4M3FNUZ:
      return &e4m3fnuz;
    case INTACT_F8E5M2:
      return &e5m2;
    case INTACT_F8E5M2FNUZ:
      return &e5m2fnuz;
    default:
      return &e2m1;
  }
}

static float small_value(const small_float *row, unsigned code) { /* of a finite, positive code */
  const unsigned exponent = code >> row->mantissa, mantissa = code & ((1u << row->mantissa) - 1);
  if (!exponent) return ldexpf((float)mantissa, 1 - row->bias - row->mantissa);
  return ldexpf((float)(mantissa | 1u << row->mantissa), (int)exponent - row->bias - row->mantissa);
}

float intact__f8_to_f32(intact_dtype dtype, uint8_t bits) {
  if (dtype == INTACT_F8E8M0) return bits == 0xff ? NAN : ldexpf(1.0f, bits - 127);
  const small_float *row = small_row(dtype);
  const int width = 1 + row->exponent + row->mantissa;
  const unsigned sign = bits >> (width - 1) & 1u, code = bits & ((1u << (width - 1)) - 1);
  if (row->zero_nan && sign && !code) return NAN;
  if (!row->zero_nan && row->nan && code > row->largest) {
    if (row->has_infinity && code == row->largest + 1u) return sign ? -INFINITY : INFINITY;
    return NAN;
  }
  const float magnitude = small_value(row, code);
  return sign ? -magnitude : magnitude;
}

static uint8_t to_e8m0(float value) { /* the power of two nearest in value, ties to the even exponent; NaN for what has none */
  if (!(value > 0)) return 0xff;
  if (isinf(value)) return 0xfe;
  int exponent;
  const float fraction = frexpf(value, &exponent); /* 0.5 <= fraction < 1 */
  int power = exponent - 1;
  if (fraction > 0.75f || (fraction == 0.75f && ((power + 127) & 1))) power++;
  power += 127;
  return (uint8_t)(power < 0 ? 0 : power > 254 ? 254 : power);
}

uint8_t intact__f32_to_f8(intact_dtype dtype, float value, bool saturate) {
  if (dtype == INTACT_F8E8M0) return to_e8m0(value);
  const small_float *row = small_row(dtype);
  const unsigned sign_bit = 1u << (row->exponent + row->mantissa);
  const unsigned sign = signbit(value) ? sign_bit : 0;
  if (isnan(value)) return (uint8_t)(row->zero_nan ? sign_bit : row->nan ? row->nan | sign : row->largest | sign);
  const float magnitude = fabsf(value), top = small_value(row, row->largest);
  int exponent = 0;
  if (magnitude > 0 && !isinf(magnitude)) frexpf(magnitude, &exponent);
  int lowest = 1 - row->bias, power = exponent - 1 < lowest ? lowest : exponent - 1;
  const float unit = ldexpf(1.0f, power - row->mantissa);
  const float rounded = isinf(magnitude) ? magnitude : rintf(magnitude / unit) * unit;
  if (rounded > top) {
    if (saturate || !row->nan) return (uint8_t)(row->largest | sign);
    return (uint8_t)(row->has_infinity ? (row->largest + 1u) | sign : row->zero_nan ? sign_bit : row->nan | sign);
  }
  if (rounded == 0) return (uint8_t)(row->zero_nan ? 0 : sign);
  frexpf(rounded, &exponent);
  power = exponent - 1;
  unsigned code;
  if (power < lowest)
    code = (unsigned)ldexpf(rounded, row->mantissa - lowest);
  else
    code = (unsigned)(power + row->bias) << row->mantissa |
           ((unsigned)ldexpf(rounded, row->mantissa - power) & ((1u << row->mantissa) - 1));
  return (uint8_t)(code | sign);
}
