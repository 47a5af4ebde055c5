/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of scan. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "it owns bodies; tests of the graph and of the ONNX samples run it";
}

OP_CASES(scan) = {elsewhere, NULL};
