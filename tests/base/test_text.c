/* SPDX-License-Identifier: Apache-2.0 */
/* Exact number texts, patterns, the string map. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

static void numbers_read_back_exactly(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  uint64_t random = test_random_start();
  for (int i = 0; i < 20000; i++) {
    uint32_t bits = test_random(&random);
    float f;
    memcpy(&f, &bits, sizeof f);
    uint64_t wide = (uint64_t)test_random(&random) << 32 | test_random(&random);
    double d, back;
    memcpy(&d, &wide, sizeof d);
    if (isnan(f) || isnan(d)) continue;
    intact_text text;
    intact__text_init(&text, c);
    intact__text_add_float(&text, f);
    assert_true(intact__parse_double(text.data, &back));
    assert_true((float)back == f && signbit((float)back) == signbit(f));
    text.length = 0;
    intact__text_add_double(&text, d);
    assert_true(intact__parse_double(text.data, &back));
    assert_true(back == d && signbit(back) == signbit(d));
    intact__text_fini(&text);
  }
  intact_context_destroy(c);
}

static void short_numbers_stay_short(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_text text;
  intact__text_init(&text, c);
  intact__text_add_float(&text, 0.1f);
  intact__text_add_bytes(&text, " ", 1);
  intact__text_add_double(&text, -INFINITY);
  intact__text_add_bytes(&text, " ", 1);
  intact__text_add_double(&text, NAN);
  intact__text_add(&text, " %d", 3);
  char *taken = intact__text_take(&text);
  assert_string_equal(taken, "0.1 -inf nan 3");
  intact__free(c, taken);
  intact_context_destroy(c);
}

static void only_whole_numbers_parse(void **state) {
  (void)state;
  double d;
  int64_t i;
  assert_true(intact__parse_double("1e-3", &d) && d == 1e-3);
  assert_false(intact__parse_double("", &d));
  assert_false(intact__parse_double(" 1", &d));
  assert_false(intact__parse_double("1x", &d));
  assert_false(intact__parse_double("1,5", &d));
  assert_true(intact__parse_int("-9223372036854775808", &i) && i == INT64_MIN);
  assert_false(intact__parse_int("9223372036854775808", &i));
  assert_false(intact__parse_int("1.5", &i));
}

static void patterns_match_like_the_shell(void **state) {
  (void)state;
  assert_true(intact__glob("conv*", "conv2d"));
  assert_true(intact__glob("*1", "conv_1"));
  assert_true(intact__glob("a?c", "abc"));
  assert_true(intact__glob("*", ""));
  assert_true(intact__glob("a*b*c", "a__b_bc"));
  assert_false(intact__glob("a*b*c", "a__b_b"));
  assert_false(intact__glob("a?c", "ac"));
  assert_false(intact__glob("", "a"));
}

static void map_keeps_what_it_was_given(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_map map;
  intact__map_init(&map, c);
  static char keys[2000][8];
  int64_t value;
  assert_false(intact__map_get(&map, "k", &value));
  for (int i = 0; i < 2000; i++) {
    snprintf(keys[i], sizeof keys[i], "k%d", i);
    assert_int_equal(intact__map_set(&map, keys[i], i), INTACT_OK);
  }
  assert_int_equal(intact__map_set(&map, "k7", 70), INTACT_OK);
  for (int i = 0; i < 2000; i++) {
    assert_true(intact__map_get(&map, keys[i], &value));
    assert_int_equal(value, i == 7 ? 70 : i);
  }
  assert_int_equal(map.count, 2000);
  assert_false(intact__map_get(&map, "k2000", &value));
  intact__map_fini(&map);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_read_back_exactly),     cmocka_unit_test(short_numbers_stay_short),
      cmocka_unit_test(only_whole_numbers_parse),      cmocka_unit_test(patterns_match_like_the_shell),
      cmocka_unit_test(map_keeps_what_it_was_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
