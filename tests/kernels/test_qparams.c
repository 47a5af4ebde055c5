/* SPDX-License-Identifier: Apache-2.0 */
/* Scale and zero point from ranges, the requantize rules, single values: vectors of bug reports and of other runtimes. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "kernels/affine/choose_qparams.h"

static intact_context *context;

static intact_qparams_rule rule_of(intact_qscheme scheme, intact_dtype dtype) {
  return intact__qparams_rule(scheme, dtype, intact_dtype_min(dtype), intact_dtype_max(dtype), false, 0);
}

/* P15, PyTorch 23838: a range above 0 is widened to hold it. P16, ONNX Runtime 12470, PyTorch 39239: a tensor of zeros. */
static void ranges_hold_zero(void **state) {
  (void)state;
  const intact_qparams_rule u8 = rule_of(INTACT_PER_TENSOR_AFFINE, INTACT_U8);
  float scale;
  int32_t zero;
  intact__qparams_from_range(&u8, 1.0f, 3.0f, &scale, &zero);
  assert_true(scale == 3.0f / 255.0f && zero == 0);
  intact__qparams_from_range(&u8, -3.0f, -1.0f, &scale, &zero);
  assert_true(scale == 3.0f / 255.0f && zero == 255);
  intact__qparams_from_range(&u8, 0.0f, 0.0f, &scale, &zero);
  assert_true(scale > 0.0f && isnormal(scale) && zero == 0);
  intact__qparams_from_range(&u8, 5.0f, 5.0f, &scale, &zero);
  assert_true(intact__dequantize_one(255, scale, zero) == 5.0f); /* a constant comes back exactly */
}

/* Whatever the range: a scale above 0, finite and normal, a zero point within the integers. */
static void every_range_has_qparams(void **state) {
  (void)state;
  static const float ends[] = {0.0f, -0.0f, 1e-45f, -1e-45f, FLT_MIN, 1e-7f, 1.0f, -1.0f, 3e38f, -3e38f, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN};
  static const intact_dtype dtypes[] = {INTACT_U8, INTACT_S8, INTACT_U16, INTACT_S16, INTACT_S32, INTACT_U4, INTACT_S4, INTACT_S2};
  static const intact_qscheme schemes[] = {INTACT_PER_TENSOR_AFFINE, INTACT_PER_TENSOR_SYMMETRIC};
  const int n = (int)(sizeof ends / sizeof ends[0]);
  for (int d = 0; d < 8; d++) {
    for (int k = 0; k < 2 * n * n; k++) {
      const intact_qparams_rule rule = rule_of(schemes[k % 2], dtypes[d]);
      float low = ends[k / 2 % n], high = ends[k / 2 / n], scale;
      int32_t zero;
      intact__qparams_from_range(&rule, low, high, &scale, &zero);
      assert_true(scale > 0.0f && isfinite(scale) && isnormal(scale));
      assert_true(zero >= rule.quant_min && zero <= rule.quant_max);
      if (dtypes[d] == INTACT_S32 || dtypes[d] == INTACT_U4) continue;
      for (int form = 0; form < 4; form++) {
        double s;
        intact__choose_qparams(form % 2 ? INTACT_CHOOSE_ATEN : INTACT_CHOOSE_FBGEMM, low, high, (int32_t)rule.quant_min,
                               (int32_t)rule.quant_max, form / 2, &s, &zero);
        assert_true(s > 0.0 && isfinite(s) && zero >= rule.quant_min && zero <= rule.quant_max);
      }
    }
  }
}

/* P28, torchao pull request 4824: -8..7 symmetric, min -1.149422, max 2.533506. One rule, PyTorch's observers': max / 7.5. */
static void one_symmetric_rule(void **state) {
  (void)state;
  const intact_qparams_rule s4 = intact__qparams_rule(INTACT_PER_TENSOR_SYMMETRIC, INTACT_S8, -8, 7, true, 0);
  float scale;
  int32_t zero;
  intact__qparams_from_range(&s4, -1.149422f, 2.533506f, &scale, &zero);
  assert_true(fabsf(scale - 0.337801f) < 1e-6f && zero == 0);
}

/* The fused rule on a range with both signs, restated from fbgemm's source: halves 128 and 127. */
static void symmetric_halves_of_the_fused_rule(void **state) {
  (void)state;
  double scale;
  int32_t zero;
  intact__choose_qparams(INTACT_CHOOSE_FBGEMM, -1.0f, 2.0f, -128, 127, true, &scale, &zero);
  double most = fmax(1.0 / 128, 2.0 / 127);
  double want = ((double)(float)(most * 127) - (double)(float)(most * -128)) / 255;
  assert_true(scale == (double)(float)want && zero == 0);
  intact__choose_qparams(INTACT_CHOOSE_FBGEMM, 0.0f, 0.0f, -128, 127, false, &scale, &zero);
  assert_true(scale == (double)0.1f && zero == 127);
}

static void bad_integer_ranges_are_refused(void **state) {
  (void)state;
  const int64_t bad[][2] = {{1, 255}, {-128, -1}, {7, -8}, {0, 256}, {-200, 100}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    int64_t low = bad[i][0], high = bad[i][1];
    assert_fails(intact__quant_range(context, "w", INTACT_U8, false, &low, &high, NULL), INTACT_OUT_OF_RANGE);
    assert_int_equal(low, bad[i][0]); /* untouched */
  }
  int64_t low = -127, high = 127;
  assert_ok(context, intact__quant_range(context, "w", INTACT_S8, true, &low, &high, NULL));
  assert_true(low == -64 && high == 63);
  assert_fails(intact__quant_range(context, "w", INTACT_F32, false, &low, &high, NULL), INTACT_UNSUPPORTED_TYPE);
}

/* ---- quantize ---- */

/* P01, ONNX Runtime 3442; P02, tract 2850 (ties to even); P05, onnx-mlir 138 (zero point after the rounding); P06, ONNX
   Runtime 25045. */
static void ties_and_ends(void **state) {
  (void)state;
  const intact_affine unit = intact__affine(1.0f, 0, -128, 127), half = intact__affine(0.5f, 0, 0, 255);
  static const float ends[] = {-129, -128, -127, 127, 128}, ties[] = {0.25f, 0.75f, 1.25f, 1.75f};
  static const int64_t want_ends[] = {-128, -128, -127, 127, 127}, want_ties[] = {0, 2, 2, 4};
  for (int i = 0; i < 5; i++) assert_int_equal(intact__quantize_one(ends[i], &unit), want_ends[i]);
  for (int i = 0; i < 4; i++) assert_int_equal(intact__quantize_one(ties[i], &half), want_ties[i]);
  const intact_affine shifted = intact__affine(1.0f, 1, 0, 255);
  assert_int_equal(intact__quantize_one(0.5f, &shifted), 1);
  assert_int_equal(intact__quantize_one(2.5f, &unit), 2);
}

/* P07 to P09, PyTorch 106780, 116992, 171777: infinities saturate to their side; NaN takes the lowest value. */
static void infinities_saturate(void **state) {
  (void)state;
  bool inside;
  const intact_affine s8 = intact__affine(0.1f, 0, -128, 127), u8 = intact__affine(0.01f, 0, 0, 255);
  assert_true(fabsf(intact__fake_quantize_one(INFINITY, &s8, &inside) - 12.7f) < 1e-5f && !inside);
  assert_true(fabsf(intact__fake_quantize_one(-INFINITY, &s8, &inside) + 12.8f) < 1e-5f && !inside);
  assert_true(fabsf(intact__fake_quantize_one(26.0f, &s8, &inside) - 12.7f) < 1e-5f && !inside);
  assert_true(fabsf(intact__fake_quantize_one(1.0f, &s8, &inside) - 1.0f) < 1e-6f && inside);
  assert_true(fabsf(intact__fake_quantize_one(NAN, &s8, &inside) + 12.8f) < 1e-5f && !inside);
  assert_true(fabsf(intact__fake_quantize_one(INFINITY, &u8, &inside) - 2.55f) < 1e-6f);
}

/* The two rules of quantize differ only where x / s and x * (1/s) round apart. */
static void divide_and_reciprocal(void **state) {
  (void)state;
  intact_affine multiply = intact__affine(0.1f, 0, -128, 127), divide = multiply;
  divide.divide = true;
  uint64_t random = test_random_start();
  int apart = 0;
  for (int i = 0; i < 200000; i++) {
    float x = test_uniform(&random, -12.0f, 12.0f);
    int64_t a = intact__quantize_one(x, &multiply), b = intact__quantize_one(x, &divide);
    assert_int_equal(b, (int64_t)nearbyintf(x / 0.1f));
    assert_true(llabs(a - b) <= 1);
    apart += a != b;
  }
  assert_true(apart < 20);
}

static void biases_saturate(void **state) {
  (void)state;
  assert_int_equal(intact__quantize_bias(1.0f, 0.25f), 4);
  assert_int_equal(intact__quantize_bias(0.625f, 0.25f), 2); /* 2.5 */
  assert_int_equal(intact__quantize_bias(5.0f, 0.5f * 7.843e-10f), INT32_MAX); /* P57, ONNX Runtime 22020 */
  assert_int_equal(intact__quantize_bias(-4.5f, 0.5f * 7.843e-10f), INT32_MIN);
  assert_int_equal(intact__quantize_bias(NAN, 1.0f), INT32_MIN);
}

/* ---- requantize ---- */

/* P47, TensorFlow 102943: acc 585 with a product of 6.50000047. In float32 step by step it is exactly 6.5f, which goes to 6. */
static void tensorflow_102943(void **state) {
  (void)state;
  const float sx = 0.05296124517917633f, sw = 0.024093778803944588f, sy = 0.11484327912330627f;
  intact_requantize p = intact__requantize_create(INTACT_REQUANTIZE_F32_RNE, sx, sw, sy, -126, -128, 127);
  assert_int_equal(intact__requantize_one(585, &p), -120);
  p.rule = INTACT_REQUANTIZE_INT32_SINGLE_ROUND;
  p.integer = 1527099593;
  p.shift = -6;
  assert_int_equal(intact__requantize_one(585, &p), -119);
  p.rule = INTACT_REQUANTIZE_INT32_DOUBLE_ROUND;
  assert_int_equal(intact__requantize_one(585, &p), -119);
}

/* The integer rules against the exact product in long double. */
static void integer_rules_follow_the_product(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  for (int i = 0; i < 20000; i++) {
    double multiplier = ldexp(0.5 + test_uniform(&random, 0.0f, 0.4999f), (int)(test_random(&random) % 14) - 12);
    int32_t acc = (int32_t)(test_random(&random) >> (test_random(&random) % 16)) / 8 - 1000, integer;
    int shift;
    intact__integer_multiplier(multiplier, true, &integer, &shift);
    assert_true(fabsl(ldexpl(integer, shift - 31) - multiplier) <= multiplier * 0x1p-30L);
    long double product = (long double)acc * integer * ldexpl(1.0L, shift - 31);
    if (fabsl(product) > 2e9L) continue;
    assert_int_equal(intact__scale_single_round(acc, integer, shift), (int64_t)floorl(product + 0.5L)); /* half up */
    int64_t twice = intact__scale_double_round(acc, integer, shift);
    assert_true(fabsl((long double)twice - product) <= 1.0L);
  }
}

/* gemmlowp's definitions at their corners. P50, LiteRT 7441: rounding once and twice are rules with names, never mixed. */
static void gemmlowp_corners(void **state) {
  (void)state;
  assert_int_equal(intact__doubling_high_product(INT32_MIN, INT32_MIN), INT32_MAX);
  assert_int_equal(intact__doubling_high_product(1 << 30, 1), 1); /* a half goes up */
  assert_int_equal(intact__doubling_high_product(-(1 << 30), 1), 0);
  assert_int_equal(intact__doubling_high_product(-3 * (1 << 29), 1), -1);
  assert_int_equal(intact__scale_double_round(5, 1 << 30, -1), 2);  /* 5/2 = 2.5 -> 3, then 3/2 = 1.5 -> 2: rounded twice */
  assert_int_equal(intact__scale_single_round(5, 1 << 30, -1), 1);  /* 1.25 */
  int32_t integer;
  int shift;
  intact__integer_multiplier(1.0, false, &integer, &shift);
  assert_true(integer == 1 << 30 && shift == 1);
  intact__integer_multiplier(0.0, false, &integer, &shift);
  assert_true(integer == 0 && shift == 0);
  intact__integer_multiplier(1e30, true, &integer, &shift);
  assert_true(integer == INT32_MAX && shift == 30);
  intact__integer_multiplier((double)NAN, true, &integer, &shift);
  assert_int_equal(integer, 0);
}

static void extreme_accumulators_saturate(void **state) {
  (void)state;
  static const int32_t accs[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
  static const float multipliers[] = {1e-30f, 0.5f, 1.0f, 4.636909f, 1e30f, INFINITY};
  for (int r = 0; r < INTACT_REQUANTIZE_COUNT; r++) {
    for (int m = 0; m < 6; m++) {
      const intact_requantize p = intact__requantize_create((intact_requantize_rule)r, multipliers[m], 1.0f, 1.0f, 3, 0, 255);
      int32_t before = INT32_MIN;
      for (int i = 0; i < 7; i++) {
        int32_t q = intact__requantize_one(accs[i], &p);
        assert_true(q >= 0 && q <= 255 && q >= before); /* monotone */
        before = accs[i] == 0 && isinf(multipliers[m]) ? INT32_MIN : q; /* 0 * inf is NaN: lowest */
        if (accs[i] == 0 && isinf(multipliers[m])) assert_true(q == 0 || q == 3);
      }
    }
  }
  intact_requantize_rule rule;
  assert_true(intact__requantize_rule_from_text("int32_double_round", &rule) && rule == INTACT_REQUANTIZE_INT32_DOUBLE_ROUND);
  assert_false(intact__requantize_rule_from_text("nearest", &rule));
  assert_string_equal(intact__requantize_rule_text(INTACT_REQUANTIZE_F32_RNE), "f32_rne");
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranges_hold_zero),
      cmocka_unit_test(every_range_has_qparams),
      cmocka_unit_test(one_symmetric_rule),
      cmocka_unit_test(symmetric_halves_of_the_fused_rule),
      cmocka_unit_test(bad_integer_ranges_are_refused),
      cmocka_unit_test(ties_and_ends),
      cmocka_unit_test(infinities_saturate),
      cmocka_unit_test(divide_and_reciprocal),
      cmocka_unit_test(biases_saturate),
      cmocka_unit_test(tensorflow_102943),
      cmocka_unit_test(integer_rules_follow_the_product),
      cmocka_unit_test(gemmlowp_corners),
      cmocka_unit_test(extreme_accumulators_saturate),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
