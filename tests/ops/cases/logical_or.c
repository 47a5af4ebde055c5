/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of logical_or. */
#include "ops/op_case.h"

static void booleans(op_case *c) {
  case_integers(c, INTACT_BOOL, 0, 1, 2, 2, 5);
  case_integers(c, INTACT_BOOL, 0, 1, 1, 5);
}

OP_CASES(logical_or) = {booleans, NULL};
