/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of eye_like. */
#include "ops/op_case.h"

static void above(op_case *c) {
  static const float y[] = {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  case_f32(c, -1, 1, 2, 3, 4);
  case_int(c, "diagonal", 1);
  case_expect(c, y, 12, 0);
}

OP_CASES(eye_like) = {above, NULL};
