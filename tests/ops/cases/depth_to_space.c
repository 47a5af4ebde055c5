/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of depth_to_space. */
#include "ops/op_case.h"

static void blocks(op_case *c) {
  static const float x[] = {0, 1, 2, 3}, y[] = {0, 1, 2, 3};
  case_f32_values(c, x, 4, 1, 4, 1, 1);
  case_int(c, "block_size", 2);
  case_expect(c, y, 4, 0);
}

static void channels(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 8, 2, 3);
  case_int(c, "block_size", 2);
}

OP_CASES(depth_to_space) = {blocks, channels, NULL};
