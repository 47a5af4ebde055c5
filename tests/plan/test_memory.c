/* SPDX-License-Identifier: Apache-2.0 */
/* The memory planner on cases whose best arrangement is known, and on random ones against its own contract. */
#include "support/test.h"

#include "plan/memory.h"

static intact_context *context;

static void check(size_t n, const intact_lifetime *lifetimes, size_t expected) {
  size_t offsets[64], total = 0;
  assert_true(n <= 64);
  assert_ok(context, intact__plan_memory(context, n, lifetimes, offsets, &total));
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(offsets[i] % INTACT_ARENA_ALIGNMENT, 0);
    assert_true(offsets[i] + lifetimes[i].bytes <= total);
    for (size_t k = 0; k < i; k++) {
      const bool together = lifetimes[i].first <= lifetimes[k].last && lifetimes[k].first <= lifetimes[i].last;
      const bool apart = offsets[i] + lifetimes[i].bytes <= offsets[k] || offsets[k] + lifetimes[k].bytes <= offsets[i];
      assert_true(!together || apart || lifetimes[i].bytes == 0 || lifetimes[k].bytes == 0);
    }
  }
  if (expected != SIZE_MAX) assert_int_equal(total, expected);
}

static void test_nothing(void **state) {
  (void)state;
  check(0, NULL, 0);
  check(1, (const intact_lifetime[]){{0, 0, 5}}, 0);
  check(1, (const intact_lifetime[]){{1, 0, 0}}, 64);
}

/* A chain needs two buffers at a time: the largest neighbouring pair. */
static void test_chain(void **state) {
  (void)state;
  check(4, (const intact_lifetime[]){{640, 0, 1}, {320, 1, 2}, {640, 2, 3}, {128, 3, 4}}, 960);
  check(5, (const intact_lifetime[]){{64, 0, 1}, {64, 1, 2}, {64, 2, 3}, {64, 3, 4}, {64, 4, 5}}, 128);
}

/* A skip connection lives across the branch: 256 of it, and 512 + 256 of the branch. */
static void test_skip_connection(void **state) {
  (void)state;
  check(4, (const intact_lifetime[]){{256, 0, 3}, {512, 1, 2}, {256, 2, 3}, {256, 3, 4}}, 1024);
}

/* The small buffer goes into the gap of 128, not into that of 256. */
static void test_best_fit(void **state) {
  (void)state;
  const intact_lifetime lifetimes[] = {{1024, 0, 9}, {512, 0, 0}, {256, 0, 9}, {128, 0, 0}, {128, 0, 9}, {64, 1, 9}};
  size_t offsets[6], total = 0;
  assert_ok(context, intact__plan_memory(context, 6, lifetimes, offsets, &total));
  assert_int_equal(total, 1024 + 512 + 256 + 128 + 128);
  assert_int_equal(offsets[5], 1024 + 512 + 256);
}

static void test_lifetimes_that_touch_do_not_share(void **state) {
  (void)state;
  check(2, (const intact_lifetime[]){{64, 0, 1}, {64, 1, 2}}, 128);
  check(2, (const intact_lifetime[]){{64, 0, 1}, {64, 2, 3}}, 64);
}

static void test_overflow(void **state) {
  (void)state;
  size_t offsets[2], total = 7;
  const intact_lifetime lifetimes[] = {{SIZE_MAX - 100, 0, 1}, {SIZE_MAX - 200, 0, 1}};
  assert_fails(intact__plan_memory(context, 2, lifetimes, offsets, &total), INTACT_OVERFLOW);
  assert_fails(intact__plan_memory(context, 1, (const intact_lifetime[]){{SIZE_MAX, 0, 1}}, offsets, &total), INTACT_OVERFLOW);
  assert_int_equal(total, 7);
}

static void test_random_lifetimes(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  for (int round = 0; round < 300; round++) {
    intact_lifetime lifetimes[64];
    const size_t n = 1 + test_random(&random) % 64;
    for (size_t i = 0; i < n; i++) {
      lifetimes[i].bytes = test_random(&random) % 5000;
      lifetimes[i].first = (int)(test_random(&random) % 50);
      lifetimes[i].last = lifetimes[i].first + (int)(test_random(&random) % 10);
    }
    check(n, lifetimes, SIZE_MAX);
  }
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing),         cmocka_unit_test(test_chain),
      cmocka_unit_test(test_skip_connection), cmocka_unit_test(test_best_fit),
      cmocka_unit_test(test_lifetimes_that_touch_do_not_share),
      cmocka_unit_test(test_overflow),        cmocka_unit_test(test_random_lifetimes),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
