/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of remainder: the sign is the divisor's, as NumPy's mod. */
#include "ops/op_case.h"

static void signs(op_case *c) {
  static const int64_t x0[] = {-4, 7, 5, 4, -7, 8};
  static const int64_t x1[] = {2, -3, 8, -2, 3, 5};
  static const float y[] = {0, -2, 5, 0, 2, 3};
  case_s64_values(c, x0, 1, 6);
  case_s64_values(c, x1, 1, 6);
  case_expect(c, y, 6, 0);
}

static void real(op_case *c) {
  static const float x0[] = {-4.3f, 7.2f, 5, 4.3f, -7.2f, 8};
  static const float x1[] = {2.1f, -3.4f, 8, -2.1f, 3.4f, 5};
  static const float y[] = {2.0f, -3.0f, 5, -2.0f, 3.0f, 3};
  case_f32_values(c, x0, 1, 6);
  case_f32_values(c, x1, 1, 6);
  case_expect(c, y, 6, 1e-06);
}


OP_CASES(remainder) = {signs, real, NULL};
