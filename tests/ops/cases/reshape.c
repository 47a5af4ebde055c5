/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of reshape: 0 copies a dimension, -1 is what is left. */
#include "ops/op_case.h"

static void copies_zero(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 4);
  case_ints(c, "shape", 3, 0, -1, 2);
  case_int(c, "allowzero", 0);
}

static void empty(op_case *c) {
  case_f32(c, -1, 1, 2, 0, 3);
  case_ints(c, "shape", 2, 3, 0);
}


OP_CASES(reshape) = {copies_zero, empty, NULL};
