/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of space_to_depth. */
#include "ops/op_case.h"

static void blocks(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 3, 4, 6);
  case_int(c, "block_size", 2);
}

OP_CASES(space_to_depth) = {blocks, NULL};
