/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of fmod: the sign is the dividend's, as C's fmod. */
#include "ops/op_case.h"

static void signs(op_case *c) {
  static const int64_t x0[] = {-4, 7, 5, 4, -7, 8};
  static const int64_t x1[] = {2, -3, 8, -2, 3, 5};
  static const float y[] = {0, 1, 5, 0, -1, 3};
  case_s64_values(c, x0, 1, 6);
  case_s64_values(c, x1, 1, 6);
  case_expect(c, y, 6, 0);
}

static void real(op_case *c) {
  static const float x0[] = {-4.3f, 7.2f, 5, 4.3f, -7.2f, 8};
  static const float x1[] = {2.1f, -3.4f, 8, -2.1f, 3.4f, 5};
  static const float y[] = {-0.1f, 0.4f, 5, 0.1f, -0.4f, 3};
  case_f32_values(c, x0, 1, 6);
  case_f32_values(c, x1, 1, 6);
  case_expect(c, y, 6, 1e-06);
}


OP_CASES(fmod) = {signs, real, NULL};
