/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of bitwise_not. */
#include "ops/op_case.h"

static void bits(op_case *c) {
  static const int64_t a[] = {0, 5, -1};
  static const float y[] = {-1, -6, 0};
  case_s64_values(c, a, 1, 3);
  case_expect(c, y, 3, 0);
}

OP_CASES(bitwise_not) = {bits, NULL};
