/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of circular_pad; where an end is cut off, the rest goes round (values from PyTorch). */
#include "ops/op_case.h"

static void cut_behind(op_case *c) {
  static const float x[] = {0, 1, 2, 3}, y[] = {2, 0, 1, 2};
  case_f32_values(c, x, 3, 1, 1, 4);
  case_ints(c, "padding", 2, 1, -1);
  case_expect(c, y, 4, 0);
}

static void cut_before(op_case *c) {
  static const float x[] = {0, 1, 2, 3}, y[] = {1, 2, 3, 1, 2};
  case_f32_values(c, x, 3, 1, 1, 4);
  case_ints(c, "padding", 2, -1, 2);
  case_expect(c, y, 5, 0);
}

OP_CASES(circular_pad) = {cut_behind, cut_before, NULL};
