/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of moments against the definition bit for bit, and the definition against sums in long double. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/moments/moments.h"
#include "support/test.h"

enum { MOST = 3 * 80 };

static float x[MOST], dy[MOST];

/* -0 and huge values among them; with `broken`, NaN and infinities too. */
static void fill(float *v, bool broken, uint64_t *random) {
  static const float odd[] = {-0.0f, FLT_MAX, -FLT_MAX, 1e-42f, NAN, INFINITY, -INFINITY};
  for (int i = 0; i < MOST; i++) {
    v[i] = test_uniform(random, -3.0f, 5.0f);
    if (test_random(random) % 16 == 0) v[i] = odd[test_random(random) % (broken ? 7 : 4)];
  }
}

static const intact_moments start = {
    .low = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY},
    .high = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
};

static void assert_same(const double *got, const double *want) {
  for (int i = 0; i < INTACT_PARTS; i++) assert_true(memcmp(got + i, want + i, sizeof *got) == 0 || (isnan(got[i]) && isnan(want[i])));
}

static void rows_equal_the_definition(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  const intact_moments_kernel *definition = &intact_moments_f32__scalar;
  for (int r = 0; r < intact__n_moments_rows; r++) {
    const intact_moments_kernel *row = intact__moments_rows[r];
    if (!intact_isa_available(row->isa)) continue;
    for (int64_t length = 1; length < 70; length++)
      for (int n = 1; n < 4; n++) {
        const intact_runs runs = {n, length + 9, length};
        const double origin = n == 2 ? 1.7 : n == 3 && length % 7 == 0 ? INFINITY : 0;
        intact_moments got = start, want = start;
        intact_products product = {{0}, {0}}, want_product = product;
        fill(x, length % 2, &random);
        fill(dy, length % 3 == 1, &random);
        for (int twice = 0; twice < 2; twice++) {
          row->moments(x, &runs, origin, &got);
          row->products(x, dy, &runs, origin, &product);
          definition->moments(x, &runs, origin, &want);
          definition->products(x, dy, &runs, origin, &want_product);
        }
        assert_same(got.sum, want.sum);
        assert_same(got.square, want.square);
        assert_same(product.sum, want_product.sum);
        assert_same(product.product, want_product.product);
        for (int i = 0; i < INTACT_PARTS; i++) assert_true(got.low[i] == want.low[i] && got.high[i] == want.high[i]);
      }
  }
}

static void the_definition_sums(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  const intact_runs runs = {3, 80, 77};
  const double origin = 0.3;
  intact_moments m = start;
  intact_products p = {{0}, {0}};
  for (int i = 0; i < MOST; i++) x[i] = test_uniform(&random, -3.0f, 5.0f), dy[i] = test_uniform(&random, -1.0f, 1.0f);
  intact_moments_f32__scalar.moments(x, &runs, origin, &m);
  intact_moments_f32__scalar.products(x, dy, &runs, origin, &p);
  long double sum = 0, square = 0, gradient = 0, product = 0;
  float low = INFINITY, high = -INFINITY, low_seen = INFINITY, high_seen = -INFINITY;
  for (int i = 0; i < MOST; i++) {
    if (i % 80 >= 77) continue;
    const long double d = (long double)x[i] - (long double)origin;
    sum += d, square += d * d, gradient += (long double)dy[i], product += (long double)dy[i] * d;
    low = fminf(low, x[i]), high = fmaxf(high, x[i]);
  }
  for (int i = 0; i < INTACT_PARTS; i++) low_seen = fminf(low_seen, m.low[i]), high_seen = fmaxf(high_seen, m.high[i]);
  assert_true(fabsl(sum - (long double)intact__moment(m.sum)) < 1e-11L);
  assert_true(fabsl(square - (long double)intact__moment(m.square)) < 1e-11L);
  assert_true(fabsl(gradient - (long double)intact__moment(p.sum)) < 1e-11L);
  assert_true(fabsl(product - (long double)intact__moment(p.product)) < 1e-11L);
  assert_true(low == low_seen && high == high_seen);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_equal_the_definition), cmocka_unit_test(the_definition_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
