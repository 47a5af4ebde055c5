/* SPDX-License-Identifier: Apache-2.0 */
/* The requantize rules by name: multipliers from scales, the integer rules' scaling. */
#include <string.h>

#include "kernels/affine/affine.h"

static const char *const rule_texts[] = {
#define XX(name, text) text,
    INTACT_REQUANTIZE_MAP(XX)
#undef XX
};

const char *intact__requantize_rule_text(intact_requantize_rule rule) {
  return (unsigned)rule < INTACT_REQUANTIZE_COUNT ? rule_texts[rule] : "";
}

bool intact__requantize_rule_from_text(const char *text, intact_requantize_rule *rule) {
  for (int i = 0; i < INTACT_REQUANTIZE_COUNT; i++) {
    if (strcmp(text, rule_texts[i]) == 0) {
      *rule = (intact_requantize_rule)i;
      return true;
    }
  }
  return false;
}

void intact__integer_multiplier(double multiplier, bool single_round, int32_t *integer, int *shift) {
  *integer = 0;
  *shift = 0;
  if (!(multiplier > 0)) return;
  if (multiplier >= 0x1p30) {
    *integer = INT32_MAX;
    *shift = 30;
    return;
  }
  int exponent;
  int64_t fixed = (int64_t)floor(frexp(multiplier, &exponent) * 0x1p31 + 0.5);
  if (fixed == INT64_C(1) << 31) {
    fixed /= 2;
    exponent++;
  }
  if (exponent < -31) return;
  if (single_round && exponent > 30) {
    exponent = 30;
    fixed = INT32_MAX;
  }
  *integer = (int32_t)fixed;
  *shift = exponent;
}

intact_requantize intact__requantize_create(intact_requantize_rule rule, float x_scale, float w_scale, float y_scale,
                                            int32_t zero_point, int32_t low, int32_t high) {
  intact_requantize p = {.rule = rule, .zero_point = zero_point, .low = low, .high = high};
  p.multiplier = intact__requantize_multiplier(x_scale, w_scale, y_scale);
  intact__integer_multiplier((double)x_scale * (double)w_scale / (double)y_scale, rule == INTACT_REQUANTIZE_INT32_SINGLE_ROUND,
                             &p.integer, &p.shift);
  return p;
}

static int32_t saturate_s32(int64_t v) { return (int32_t)intact__clamp_s64(v, INT32_MIN, INT32_MAX); }

int32_t intact__doubling_high_product(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  int64_t product = (int64_t)a * b;
  int64_t nudge = product >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30);
  return (int32_t)((product + nudge) / (INT64_C(1) << 31));
}

/* v / 2^bits rounded down, without relying on the shift of negative numbers. */
static int64_t floor_shift(int64_t v, int bits) { return v >= 0 ? v >> bits : -((-(v + 1)) >> bits) - 1; }

int32_t intact__scale_single_round(int32_t acc, int32_t integer, int shift) {
  int total = 31 - shift;
  int64_t product = (int64_t)acc * integer;
  return saturate_s32(floor_shift(product + (INT64_C(1) << (total - 1)), total));
}

int32_t intact__scale_double_round(int32_t acc, int32_t integer, int shift) {
  int left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
  int32_t widened = saturate_s32((int64_t)acc * (INT64_C(1) << left));
  int32_t high = intact__doubling_high_product(widened, integer);
  if (right == 0) return high;
  int64_t mask = (INT64_C(1) << right) - 1, base = floor_shift(high, right), remainder = high - base * (mask + 1);
  return (int32_t)(base + (remainder > (mask >> 1) + (high < 0 ? 1 : 0) ? 1 : 0));
}
