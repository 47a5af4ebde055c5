/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of upsample_nearest1d. With a scale PyTorch doubles an axis in the gradient alone, so differences do not hold there. */
#include "ops/op_case.h"

static void by_size(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 5);
  case_ints(c, "size", 1, 8);
}

static void by_scale(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 5);
  case_floats(c, "scale_factor", 1, 1.5);
}

static void nearly_doubled(op_case *c) {
  static const float x[] = {1, 2, 3}, y[] = {1, 1, 1, 2, 2, 3}; /* from PyTorch */
  case_f32_values(c, x, 3, 1, 1, 3);
  case_floats(c, "scale_factor", 1, 2.3);
  case_expect(c, y, 6, 0);
  c->no_gradient = "the gradient doubles the axis exactly, as PyTorch's";
}

OP_CASES(upsample_nearest1d) = {by_size, by_scale, nearly_doubled, NULL};
