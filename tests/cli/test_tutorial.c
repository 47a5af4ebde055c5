/* SPDX-License-Identifier: Apache-2.0 */
/* The tutorial of quantization-aware training prints what PyTorch prints for it (losses and gap), the grid by hand, and equal integers. */
#include "support/test.h"

#include <string.h>

static void test_lines(void **state) {
  static const char *const wanted[] = {"Plain final loss: 0.0000", "Fake-quant final loss: 0.0003", "Mean output gap: 0.0179", NULL,
                                       "Integer outputs equal to the fake-quantized ones: 60 of 60", "Five levels: -0.45 0.00 0.45 0.90"};
  (void)state;
  FILE *program = popen(INTACT_BINARY_DIR "/bin/qat_tutorial", "r");
  assert_non_null(program);
  char line[200];
  size_t n = 0;
  while (fgets(line, sizeof line, program)) {
    line[strcspn(line, "\n")] = 0;
    assert_in_range(n, 0, sizeof wanted / sizeof wanted[0] - 1);
    if (wanted[n]) assert_string_equal(line, wanted[n]);
    n++;
  }
  assert_int_equal(pclose(program), 0);
  assert_int_equal(n, sizeof wanted / sizeof wanted[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
