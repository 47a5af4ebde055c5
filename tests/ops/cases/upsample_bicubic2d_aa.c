/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of upsample_bicubic2d_aa. */
#include "ops/op_case.h"

static void by_size(op_case *c) {
  case_f32(c, -1, 1, 4, 1, 2, 7, 6);
  case_ints(c, "size", 2, 3, 4);
}

static void by_scale(op_case *c) {
  case_f32(c, -1, 1, 4, 1, 2, 7, 6);
  case_floats(c, "scale_factor", 1, 1.5);
}

OP_CASES(upsample_bicubic2d_aa) = {by_size, by_scale, NULL};
