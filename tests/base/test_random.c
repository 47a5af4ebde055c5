/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against published values; state, refusals. What PyTorch draws is in the reference suite `random`. */
#include <math.h>

#include "intact/init.h"
#include "support/test.h"

#include <string.h>

#include "intact/random.h"

/* std::mt19937: the 10000th number of the default seed 5489 (C++ standard, [rand.predef]); the first by Matsumoto's program. */
static void words_are_those_of_the_standard(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_generator *g;
  assert_int_equal(intact_generator_create(c, 5489, &g), INTACT_OK);
  assert_true(intact_generator_bits32(g) == 3499211612u);
  for (int i = 1; i < 9999; i++) intact_generator_bits32(g);
  assert_true(intact_generator_bits32(g) == 4123659995u);
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

static void state_continues_the_stream(void **state) {
  (void)state;
  static uint8_t bytes[INTACT_GENERATOR_STATE_BYTES], broken[INTACT_GENERATOR_STATE_BYTES];
  intact_context *c = test_context(1);
  intact_generator *a, *b;
  float x[5], y[5];
  assert_int_equal(intact_generator_create(c, 1, &a), INTACT_OK);
  assert_int_equal(intact_generator_create(c, 2, &b), INTACT_OK);
  intact_random_normal_f32(a, 3, 0, 1, x); /* leaves a cached number */
  intact_generator_get_state(a, bytes);
  assert_int_equal(intact_generator_set_state(b, bytes), INTACT_OK);
  intact_random_normal_f32(a, 5, 0, 1, x);
  intact_random_normal_f32(b, 5, 0, 1, y);
  assert_memory_equal(x, y, sizeof x);
  assert_int_equal(intact_generator_set_state(b, broken), INTACT_INVALID_VALUE); /* all zero */
  memcpy(broken, bytes, sizeof broken);
  broken[8] = 0xff; /* left */
  broken[9] = 0xff;
  assert_int_equal(intact_generator_set_state(b, broken), INTACT_INVALID_VALUE);
  intact_random_normal_f32(a, 5, 0, 1, x);
  intact_random_normal_f32(b, 5, 0, 1, y);
  assert_memory_equal(x, y, sizeof x); /* untouched by the failures */
  intact_generator_destroy(a);
  intact_generator_destroy(b);
  intact_context_destroy(c);
}

/* As torch.nn.init refuses them: bounds the wrong way round, a negative std. */
static void senseless_initial_values_are_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_generator *g;
  intact_tensor *x;
  assert_ok(c, intact_generator_create(c, 0, &g));
  assert_ok(c, intact_tensor_create(c, INTACT_F32, 2, (const int64_t[]){2, 3}, &x));
  assert_fails(intact_init_uniform(g, x, 1, 0), INTACT_OUT_OF_RANGE);
  assert_fails(intact_init_uniform(g, x, 0, NAN), INTACT_OUT_OF_RANGE);
  assert_fails(intact_init_normal(g, x, 0, -1), INTACT_OUT_OF_RANGE);
  assert_fails(intact_init_kaiming_normal(g, x, INFINITY, INTACT_FAN_IN), INTACT_OUT_OF_RANGE);
  assert_fails(intact_init_xavier_uniform(g, x, -1), INTACT_OUT_OF_RANGE);
  assert_fails(intact_init_recurrent(g, 0, 1, &x), INTACT_OUT_OF_RANGE);
  assert_ok(c, intact_init_uniform(g, x, 2, 2));
  assert_true(((const float *)intact_tensor_data(x))[5] == 2);
  intact_tensor_destroy(x);
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

static void senseless_wishes_are_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_generator *g;
  int64_t out[4];
  const float none[] = {0, 0}, negative[] = {1, -1}, one[] = {0, 1};
  assert_int_equal(intact_generator_create(c, 1, &g), INTACT_OK);
  assert_int_equal(intact_random_integers(g, 1, 3, 3, out), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_random_multinomial(g, 2, none, 1, true, out), INTACT_INVALID_VALUE);
  assert_int_equal(intact_random_multinomial(g, 2, negative, 1, true, out), INTACT_INVALID_VALUE);
  assert_int_equal(intact_random_multinomial(g, 2, one, 2, false, out), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_random_multinomial(g, 2, one, 3, true, out), INTACT_OK);
  for (int i = 0; i < 3; i++) assert_true(out[i] == 1);
  intact_random_permutation(g, 0, out);
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

/* torch.manual_seed(5), then torch.randint(0, 2**28, (3,)), (0, 2**28 - 1, (3,)), (-3, 2**31, (2,)) of PyTorch 2.13 */
static void integers_of_wide_ranges_take_two_words(void **state) {
  (void)state;
  static const int64_t wide[] = {236996814, 80864957, 220060790}, narrow[] = {187307422, 180152408, 218661903};
  static const int64_t wider[] = {312749452, 1655659312};
  intact_context *c = test_context(1);
  intact_generator *g;
  int64_t out[3];
  assert_int_equal(intact_generator_create(c, 5, &g), INTACT_OK);
  assert_int_equal(intact_random_integers(g, 3, 0, 1 << 28, out), INTACT_OK);
  assert_memory_equal(out, wide, sizeof wide);
  assert_int_equal(intact_random_integers(g, 3, 0, (1 << 28) - 1, out), INTACT_OK);
  assert_memory_equal(out, narrow, sizeof narrow);
  assert_int_equal(intact_random_integers(g, 2, -3, INT64_C(1) << 31, out), INTACT_OK);
  assert_memory_equal(out, wider, sizeof wider);
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

static void order_of_an_epoch_is_a_permutation(void **state) {
  (void)state;
  enum { N = 1000 };
  intact_context *c = test_context(1);
  intact_generator *g;
  int64_t order[N];
  bool seen[N] = {false};
  assert_int_equal(intact_generator_create(c, 3, &g), INTACT_OK);
  intact_random_epoch_order(g, N, order);
  for (int i = 0; i < N; i++) {
    assert_true(order[i] >= 0 && order[i] < N && !seen[order[i]]);
    seen[order[i]] = true;
  }
  intact_generator_destroy(g);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_are_those_of_the_standard),
      cmocka_unit_test(state_continues_the_stream),
      cmocka_unit_test(senseless_wishes_are_refused),
      cmocka_unit_test(senseless_initial_values_are_refused),
      cmocka_unit_test(integers_of_wide_ranges_take_two_words),
      cmocka_unit_test(order_of_an_epoch_is_a_permutation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
