/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of reverse_sequence. */
#include "ops/op_case.h"

static void times(op_case *c) {
  static const int64_t lengths[] = {3, 1};
  static const float x[] = {0, 10, 1, 11, 2, 12, 3, 13}, y[] = {2, 10, 1, 11, 0, 12, 3, 13};
  case_f32_values(c, x, 2, 4, 2);
  case_s64_values(c, lengths, 1, 2);
  case_expect(c, y, 8, 0);
}

OP_CASES(reverse_sequence) = {times, NULL};
