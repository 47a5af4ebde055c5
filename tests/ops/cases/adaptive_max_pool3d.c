/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of adaptive_max_pool3d. */
#include "ops/op_case.h"

static void uneven(op_case *c) {
  case_f32(c, -1, 1, 5, 1, 2, 3, 4, 5);
  case_ints(c, "output_size", 3, 2, 3, 2);
}

OP_CASES(adaptive_max_pool3d) = {uneven, NULL};
