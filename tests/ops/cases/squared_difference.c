/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of squared_difference. */
#include "ops/op_case.h"

static void broadcast(op_case *c) {
  case_f32(c, -1, 1, 2, 3, 4);
  case_f32(c, -1, 1, 1, 4);
}

OP_CASES(squared_difference) = {broadcast, NULL};
