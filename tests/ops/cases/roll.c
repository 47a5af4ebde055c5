/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of roll: NumPy's roll. */
#include "ops/op_case.h"

static void flat(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5, 6};
  static const float y[] = {5, 6, 1, 2, 3, 4};
  case_f32_values(c, x0, 2, 2, 3);
  case_ints(c, "shifts", 1, 2);
  case_expect(c, y, 6, 0);
}

static void far(op_case *c) {
  static const float x0[] = {1, 2, 3, 4};
  static const float y[] = {2, 3, 4, 1};
  case_f32_values(c, x0, 1, 4);
  case_ints(c, "shifts", 1, -5);
  case_ints(c, "dims", 1, 0);
  case_expect(c, y, 4, 0);
}


OP_CASES(roll) = {flat, far, NULL};
