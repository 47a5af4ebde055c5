/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of upsample_bilinear2d: an axis that keeps its size is copied whatever the scale (values from PyTorch). */
#include "ops/op_case.h"

static void kept(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const float y[] = {1, 1.65384614f, 2.42307711f, 3.19230771f, 3.96153855f,
                            5, 5.65384626f, 6.42307663f, 7.19230747f, 7.96153831f};
  case_f32_values(c, x, 4, 1, 1, 2, 4);
  case_floats(c, "scale_factor", 1, 1.3);
  case_expect(c, y, 10, 1e-6);
}

OP_CASES(upsample_bilinear2d) = {kept, NULL};
