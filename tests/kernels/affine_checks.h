/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of one set of array kernels against the definitions: bit for bit, whatever the values and lengths. */
#ifndef INTACT_TESTS_KERNELS_AFFINE_CHECKS_H
#define INTACT_TESTS_KERNELS_AFFINE_CHECKS_H

#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/affine/affine_kernels.h"

enum { MOST = 10007 };
/* The kernels under test; those that are NULL are not looked at. */
typedef struct affine_kernels {
  const char *isa;
  intact_quantize_fn quantize_u8, quantize_s8;
  intact_dequantize_fn dequantize_u8, dequantize_s8;
  intact_min_max_fn min_max;
  intact_histogram_fn histogram;
  intact_fake_quantize_fn fake_quantize;
  intact_fake_quantize_grad_fn fake_quantize_grad;
  intact_line_fake_quantize_fn line_fake_quantize;
  intact_line_fake_quantize_grad_fn line_fake_quantize_grad;
  intact_learnable_grad_fn learnable_grad;
} affine_kernels;
static affine_kernels under_test;

static float x[MOST + 64], dy[MOST + 64];

/* Random values with ties of the scale, infinities, NaN, huge, subnormal and negative zero among them. */
static void fill(float *v, int64_t n, float scale, uint64_t *random) {
  static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-42f, -1e-42f, 2.5e9f, -3e18f};
  for (int64_t i = 0; i < n; i++) {
    uint32_t kind = test_random(random) % 16;
    v[i] = test_uniform(random, -200.0f, 200.0f) * scale;
    if (kind == 0) v[i] = odd[test_random(random) % (sizeof odd / sizeof odd[0])];
    if (kind == 1) v[i] = ((float)(int32_t)(test_random(random) % 601) - 300.0f) * 0.5f * scale;
  }
}

static bool same_bits(const void *a, const void *b, int64_t n, size_t size) {
  const float *fa = a, *fb = b;
  if (memcmp(a, b, (size_t)n * size) == 0) return true;
  if (size != sizeof(float)) return false;
  for (int64_t i = 0; i < n; i++)
    if (memcmp(fa + i, fb + i, size) != 0 && !(isnan(fa[i]) && isnan(fb[i]))) return false;
  return true;
}

static const int64_t lengths[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 200, 1000, 4096, 4097, MOST};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

static const intact_affine forms[] = {
    {0.5f, 2.0f, 0, 0, 255, false},     {0.1f, 1.0f / 0.1f, 128, 0, 255, false}, {0.03f, 1.0f / 0.03f, -7, -128, 127, false},
    {0.03f, 0, 3, -128, 127, true},     {1.0f, 1.0f, 255, 0, 255, false},        {0.25f, 4.0f, 0, -127, 127, false},
    {1e-30f, 1e30f, 5, 0, 15, false},   {-0.5f, -2.0f, 1, 0, 255, false},        {1e38f, 1e-38f, 7, 0, 255, true},
};
#define N_FORMS (sizeof forms / sizeof forms[0])

static void quantize_equals_definition(void **state) {
  (void)state;
  static uint8_t got[MOST + 64], want[MOST + 64];
  static float real[MOST + 64], want_real[MOST + 64];
  uint64_t random = test_random_start();
  for (size_t f = 0; f < N_FORMS; f++) {
    intact_dtype dtype = forms[f].low < 0 ? INTACT_S8 : INTACT_U8;
    for (size_t l = 0; l < N_LENGTHS; l++) {
      int64_t n = lengths[l];
      fill(x, n, forms[f].scale, &random);
      memset(got, 0xa5, sizeof got);
      memset(want, 0xa5, sizeof want);
      (dtype == INTACT_S8 ? under_test.quantize_s8 : under_test.quantize_u8)(x, got, n, &forms[f]);
      for (int64_t i = 0; i < n; i++) want[i] = (uint8_t)intact__quantize_one(x[i], &forms[f]);
      assert_memory_equal(got, want, sizeof got); /* nothing behind the end either */
      (dtype == INTACT_S8 ? under_test.dequantize_s8 : under_test.dequantize_u8)(want, real, n, forms[f].scale, forms[f].zero_point);
      for (int64_t i = 0; i < n; i++)
        want_real[i] = intact__dequantize_one(dtype == INTACT_S8 ? (int8_t)want[i] : want[i], forms[f].scale, forms[f].zero_point);
      assert_true(same_bits(real, want_real, n, sizeof(float)));
    }
  }
}

static void fake_quantize_equals_definition(void **state) {
  (void)state;
  static float got[MOST + 64], want[MOST + 64];
  static uint8_t mask[MOST + 64], want_mask[MOST + 64];
  uint64_t random = test_random_start();
  for (size_t f = 0; f < N_FORMS; f++) {
    for (size_t l = 0; l < N_LENGTHS; l++) {
      int64_t n = lengths[l];
      fill(x, n, forms[f].scale, &random);
      fill(dy, n, 1.0f, &random);
      for (int64_t i = 0; i < n; i++) {
        bool inside;
        want[i] = intact__fake_quantize_one(x[i], &forms[f], &inside);
        want_mask[i] = inside;
      }
      bool all = memchr(want_mask, 0, (size_t)n) == NULL;
      assert_int_equal(under_test.fake_quantize(x, got, NULL, n, &forms[f]), all);
      assert_true(same_bits(got, want, n, sizeof(float)));
      assert_int_equal(under_test.fake_quantize(x, got, mask, n, &forms[f]), all);
      assert_true(same_bits(got, want, n, sizeof(float)));
      assert_memory_equal(mask, want_mask, (size_t)n);
      under_test.fake_quantize_grad(x, dy, got, n, &forms[f]);
      for (int64_t i = 0; i < n; i++) want[i] = dy[i] * (float)want_mask[i];
      assert_true(same_bits(got, want, n, sizeof(float)));
    }
  }
}

/* Runs of every length, with gaps that nothing is written to. */
static void on_a_line_equals_definition(void **state) {
  (void)state;
  static float got[MOST + 64], want[MOST + 64];
  static const intact_line lines[] = {{0, 1, 0}, {0.75f, -1.5f, 3}, {-12.5f, 0, 0}};
  static const float bounds[][2] = {{-INFINITY, INFINITY}, {0, INFINITY}, {0, 6}, {-1, 1}};
  uint64_t random = test_random_start();
  for (size_t f = 0; f < N_FORMS; f++)
    for (size_t l = 0; l < 3; l++)
      for (size_t b = 0; b < 4; b++)
        for (int64_t length = 1; length < 70; length += 3) {
          const intact_runs runs = {3, length + 5, length};
          const int64_t all = 3 * runs.stride;
          fill(x, all, forms[f].scale, &random);
          fill(dy, all, 1.0f, &random);
          for (int64_t i = 0; i < all; i++) got[i] = want[i] = 77;
          for (int64_t i = 0; i < all; i++) {
            bool inside;
            const float z = (x[i] - lines[l].offset) * lines[l].factor + lines[l].rest, q = intact__fake_quantize_one(z, &forms[f], &inside);
            if (i % runs.stride < length) want[i] = q;
          }
          under_test.line_fake_quantize(x, got, &runs, &lines[l], &forms[f]);
          assert_true(same_bits(got, want, all, sizeof(float)));
          for (int64_t i = 0; i < all; i++) got[i] = dy[i];
          for (int64_t i = 0; i < all; i++) {
            bool inside;
            const float z = (x[i] - lines[l].offset) * lines[l].factor + lines[l].rest;
            intact__fake_quantize_one(z, &forms[f], &inside);
            want[i] = i % runs.stride >= length ? dy[i] : b == 0 || (z > bounds[b][0] && z < bounds[b][1]) ? dy[i] * (float)inside : 0;
          }
          under_test.line_fake_quantize_grad(x, got, got, &runs, &lines[l], &forms[f], bounds[b][0], bounds[b][1]);
          assert_true(same_bits(got, want, all, sizeof(float)));
        }
}

static void learned_backward_equals_definition(void **state) {
  (void)state;
  static float got[MOST + 64], want[MOST + 64];
  uint64_t random = test_random_start();
  for (size_t f = 0; f < N_FORMS; f++) {
    if (forms[f].divide) continue;
    for (size_t l = 0; l < N_LENGTHS; l++) {
      int64_t n = lengths[l];
      fill(x, n, forms[f].scale, &random);
      for (int64_t i = 0; i < n; i++) dy[i] = test_uniform(&random, -1.0f, 1.0f);
      intact_learned_sums sums, want_sums;
      const float low = l % 3 ? 0.0f : -INFINITY, high = l % 3 == 2 ? 6.0f : INFINITY;
      if (n > INTACT_SUM_BLOCK) n = INTACT_SUM_BLOCK;
      under_test.learnable_grad(x, dy, got, n, &forms[f], low, high, &sums);
      intact_learnablegrad_f32__scalar(x, dy, want, n, &forms[f], low, high, &want_sums);
      assert_true(same_bits(got, want, n, sizeof(float)));
      assert_memory_equal(&sums, &want_sums, sizeof sums);
    }
  }
}

/* Against sums in long double, by the formula. */
static void learned_sums_are_right(void **state) {
  (void)state;
  static float dx[MOST + 64];
  uint64_t random = test_random_start();
  const intact_affine p = forms[2];
  for (int64_t i = 0; i < MOST; i++) {
    x[i] = test_uniform(&random, -6.0f, 6.0f);
    dy[i] = test_uniform(&random, -1.0f, 1.0f);
  }
  intact_learned_sums sums = {0};
  for (int64_t at = 0; at < MOST; at += INTACT_SUM_BLOCK) {
    intact_learned_sums block;
    under_test.learnable_grad(x + at, dy + at, dx + at, MOST - at < INTACT_SUM_BLOCK ? MOST - at : INTACT_SUM_BLOCK, &p, -INFINITY, INFINITY, &block);
    sums.scale += block.scale;
    sums.zero += block.zero;
  }
  long double scale = 0, zero = 0, magnitude = 0;
  for (int64_t i = 0; i < MOST; i++) {
    float q = nearbyintf(x[i] * p.inverse + (float)p.zero_point);
    long double term = (long double)dy[i] * (q < -128 ? -128 + 7 : q > 127 ? 127 + 7 : (((long double)q + 7) * p.scale - x[i]) / p.scale);
    if (q < -128 || q > 127) zero += dy[i];
    scale += term;
    magnitude += fabsl(term);
    assert_true(dx[i] == (q < -128 || q > 127 ? 0.0f : dy[i]));
  }
  assert_true(fabsl(scale - sums.scale) <= magnitude * 1e-5L);
  assert_true(fabsl(zero - sums.zero) <= (long double)MOST * 1e-6L);
}

static void sum_of_magnitudes_is_right(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  for (size_t l = 0; l < N_LENGTHS; l++) {
    long double plain = 0, bounded = 0;
    for (int64_t i = 0; i < lengths[l]; i++) {
      x[i] = test_uniform(&random, -9.0f, 9.0f);
      plain += fabsl((long double)x[i]);
      bounded += (long double)(x[i] < 0 ? 0 : x[i] > 6 ? 6 : x[i]);
    }
    assert_true(fabsl(plain - (long double)intact__sum_abs_array(x, lengths[l], -INFINITY, INFINITY)) <= plain * 1e-14L);
    assert_true(fabsl(bounded - (long double)intact__sum_abs_array(x, lengths[l], 0, 6)) <= bounded * 1e-14L);
  }
  x[5] = NAN;
  assert_true(isnan(intact__sum_abs_array(x, 100, 0, 6)));
}

static void min_max_equals_definition(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  for (size_t l = 0; l < N_LENGTHS; l++) {
    int64_t n = lengths[l];
    fill(x, n, 1.0f, &random);
    intact_min_max got = INTACT_MIN_MAX_START, want = INTACT_MIN_MAX_START;
    under_test.min_max(x, n, &got);
    for (int64_t i = 0; i < n; i++) {
      if (!isfinite(x[i])) {
        want.non_finite++;
      } else {
        want.low = fminf(want.low, x[i]);
        want.high = fmaxf(want.high, x[i]);
      }
    }
    assert_true(got.low == want.low && got.high == want.high && got.non_finite == want.non_finite);
  }
  const float zeros[] = {-0.0f, 0.0f, -0.0f};
  intact_min_max m = INTACT_MIN_MAX_START;
  under_test.min_max(zeros, 3, &m);
  assert_false(signbit(m.low) || signbit(m.high));
}

static void histogram_equals_definition(void **state) {
  (void)state;
  static uint32_t tables[INTACT_HISTOGRAM_TABLES * 2048];
  static const intact_bins forms_of_bins[] = {{-1.0f, 1.0f, 2048}, {-200.0f, 200.0f, 2048}, {0.0f, 6.0f, 16},
                                              {-FLT_MAX, FLT_MAX, 64}, {1e-40f, 3e-40f, 7},   {-3e37f, 3e37f, 2048}};
  uint64_t random = test_random_start();
  for (size_t b = 0; b < sizeof forms_of_bins / sizeof forms_of_bins[0]; b++) {
    const intact_bins *bins = &forms_of_bins[b];
    for (size_t l = 0; l < N_LENGTHS; l++) {
      int64_t n = lengths[l];
      fill(x, n, bins->right / 150.0f, &random);
      if (n > 40) x[3] = bins->left, x[n - 2] = bins->right, x[17] = nextafterf(bins->right, INFINITY);
      memset(tables, 0, sizeof tables);
      bool overflows = !((bins->right - bins->left) * (float)bins->n <= FLT_MAX); /* the dispatcher keeps these away */
      (overflows ? intact_histogram_f32__scalar : under_test.histogram)(x, n, bins, tables);
      for (int32_t i = 0; i < bins->n; i++) {
        uint32_t got = 0, want = 0;
        for (int t = 0; t < INTACT_HISTOGRAM_TABLES; t++) got += tables[t * bins->n + i];
        for (int64_t k = 0; k < n && (b != 3 || i % 8 == 0); k++) want += intact__bin_of(bins, x[k]) == i;
        if (b != 3 || i % 8 == 0) assert_int_equal(got, want);
      }
    }
  }
}

static int run_checks(const affine_kernels *kernels) {
  under_test = *kernels;
  print_message("kernels of %s\n", kernels->isa);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantize_equals_definition),         cmocka_unit_test(fake_quantize_equals_definition),
      cmocka_unit_test(learned_backward_equals_definition), cmocka_unit_test(learned_sums_are_right),
      cmocka_unit_test(min_max_equals_definition),          cmocka_unit_test(histogram_equals_definition),
      cmocka_unit_test(on_a_line_equals_definition),        cmocka_unit_test(sum_of_magnitudes_is_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#define AFFINE_KERNELS(text, suffix)                                                                                     \
  {text,                                                                                                                 \
   intact_quantize_f32u8__##suffix,                                                                                      \
   intact_quantize_f32s8__##suffix,                                                                                      \
   intact_dequantize_u8f32__##suffix,                                                                                    \
   intact_dequantize_s8f32__##suffix,                                                                                    \
   intact_minmax_f32__##suffix,                                                                                          \
   intact_histogram_f32__##suffix,                                                                                       \
   intact_fakequant_f32__##suffix,                                                                                       \
   intact_fakequantgrad_f32__##suffix,                                                                                   \
   intact_linefakequant_f32__##suffix,                                                                                   \
   intact_linefakequantgrad_f32__##suffix,                                                                               \
   intact_learnablegrad_f32__##suffix}

#endif
