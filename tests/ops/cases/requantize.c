/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of requantize. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "its values need qparams; test_lower runs it";
}

OP_CASES(requantize) = {elsewhere, NULL};
