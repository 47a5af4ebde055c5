/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of dequantize. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "its operand needs qparams on the value; test_lower and the graph tests run it";
}

OP_CASES(dequantize) = {elsewhere, NULL};
