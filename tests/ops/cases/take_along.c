/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of take_along. */
#include "ops/op_case.h"

static void rows(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 4, 3);
  case_integers(c, INTACT_S64, 0, 3, 1, 2);
  case_int(c, "dim", 1);
}

OP_CASES(take_along) = {rows, NULL};
