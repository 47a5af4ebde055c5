/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of upsample_nearest2d: an axis that keeps its size or doubles it does so whatever the scale (values from PyTorch). */
#include "ops/op_case.h"

static void kept(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[] = {1, 1, 2, 3, 4, 5, 5, 6, 7, 8};
  case_f32_values(c, x, 4, 1, 1, 2, 4);
  case_floats(c, "scale_factor", 1, 1.3);
  case_expect(c, y, 10, 0);
}

static void doubled(op_case *c) {
  static const float x[] = {1, 2, 3}, y[] = {1, 1, 2, 2, 3, 3};
  case_f32_values(c, x, 4, 1, 1, 1, 3);
  case_floats(c, "scale_factor", 2, 1.0, 2.3);
  case_expect(c, y, 6, 0);
}

OP_CASES(upsample_nearest2d) = {kept, doubled, NULL};
