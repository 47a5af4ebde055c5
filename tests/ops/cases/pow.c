/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of pow: integer powers, negative exponents cut to 0. */
#include "ops/op_case.h"

static void integers(op_case *c) {
  static const int64_t x0[] = {2, -3, 10, -1, 1, 7};
  static const int64_t x1[] = {10, 3, 0, -3, -5, -1};
  static const float y[] = {1024, -27, 1, -1, 1, 0};
  case_s64_values(c, x0, 1, 6);
  case_s64_values(c, x1, 1, 6);
  case_expect(c, y, 6, 0);
}

static void scalar(op_case *c) {
  static const float x0[] = {4, 9};
  static const float y[] = {2, 3};
  case_f32_values(c, x0, 1, 2);
  case_left_out(c);
  case_float(c, "exponent", 0.5);
  case_expect(c, y, 2, 0);
}


OP_CASES(pow) = {integers, scalar, NULL};
