/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of quantize. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "its result needs qparams on the value; test_lower and the graph tests run it";
}

OP_CASES(quantize) = {elsewhere, NULL};
