/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of bitwise_xor. */
#include "ops/op_case.h"

static void bits(op_case *c) {
  static const int64_t a[] = {5, 10, 6}, b[] = {2, 3, 5};
  static const float y[] = {7, 9, 3};
  case_s64_values(c, a, 1, 3);
  case_s64_values(c, b, 1, 3);
  case_expect(c, y, 3, 0);
}

OP_CASES(bitwise_xor) = {bits, NULL};
