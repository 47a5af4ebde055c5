/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of dequantize_float8. */
#include "ops/op_case.h"

static void elsewhere(op_case *c) {
  c->not_run = "its operand is a small float; tests/tensor/test_quantized runs it behind its quantize row";
}

OP_CASES(dequantize_float8) = {elsewhere, NULL};
