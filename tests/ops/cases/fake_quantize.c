/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of fake_quantize. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "it needs a fake quantizer on the node; tests/graph/test_fake_quantizer runs it";
}

OP_CASES(fake_quantize) = {elsewhere, NULL};
