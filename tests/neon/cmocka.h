/* SPDX-License-Identifier: Apache-2.0 */
/* The little of cmocka that the kernel checks use, for processors that no cmocka is installed for. */
#ifndef INTACT_TESTS_NEON_CMOCKA_H
#define INTACT_TESTS_NEON_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*run)(void **state);
};
#define cmocka_unit_test(function) {#function, function}
#define print_message printf
#define print_error printf
#define PLAIN_FAIL(text) (printf("%s:%d: failed: %s\n", __FILE__, __LINE__, text), exit(1))
#define assert_true(c) ((c) ? (void)0 : PLAIN_FAIL(#c))
#define assert_false(c) ((c) ? PLAIN_FAIL(#c) : (void)0)
#define assert_int_equal(a, b) ((long long)(a) == (long long)(b) ? (void)0 : PLAIN_FAIL(#a " == " #b))
#define assert_memory_equal(a, b, n) (memcmp((a), (b), (n)) == 0 ? (void)0 : PLAIN_FAIL(#a " == " #b))
#define assert_string_equal(a, b) (strcmp((a), (b)) == 0 ? (void)0 : PLAIN_FAIL(#a " == " #b))

static inline int plain_run(const struct CMUnitTest *tests, size_t n) {
  for (size_t i = 0; i < n; i++) {
    tests[i].run(NULL);
    printf("passed: %s\n", tests[i].name);
  }
  return 0;
}
#define cmocka_run_group_tests(tests, setup, teardown) plain_run((tests), sizeof(tests) / sizeof((tests)[0]))

#endif
