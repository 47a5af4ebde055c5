/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of upsample_nearest1d. */
#include "ops/op_case.h"

static void by_size(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 5);
  case_ints(c, "size", 1, 8);
}

static void by_scale(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 5);
  case_floats(c, "scale_factor", 1, 1.5);
}

OP_CASES(upsample_nearest1d) = {by_size, by_scale, NULL};
