/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of repeat: PyTorch's repeat and tile. */
#include "ops/op_case.h"

static void more_axes(op_case *c) {
  static const float x0[] = {1, 2};
  static const float y[] = {1, 2, 1, 2, 1, 2, 1, 2};
  case_f32_values(c, x0, 1, 2);
  case_ints(c, "repeats", 2, 2, 2);
  case_expect(c, y, 8, 0);
}

static void fewer_repeats(op_case *c) {
  static const float x0[] = {1, 2, 3, 4};
  static const float y[] = {1, 2, 1, 2, 3, 4, 3, 4};
  case_f32_values(c, x0, 2, 2, 2);
  case_ints(c, "repeats", 1, 2);
  case_expect(c, y, 8, 0);
}


OP_CASES(repeat) = {more_axes, fewer_repeats, NULL};
