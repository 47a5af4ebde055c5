/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of nonzero: the example of the ONNX operator, and PyTorch's order. */
#include "ops/op_case.h"

static void rows(op_case *c) {
  static const float x0[] = {1, 0, 1, 1};
  static const float y[] = {0, 0, 1, 0, 1, 1};
  case_f32_values(c, x0, 2, 2, 2);
  case_expect(c, y, 6, 0);
}

static void columns(op_case *c) {
  static const float x0[] = {1, 0, 1, 1};
  static const float y[] = {0, 1, 1, 0, 0, 1};
  case_f32_values(c, x0, 2, 2, 2);
  case_int(c, "transposed", 1);
  case_expect(c, y, 6, 0);
}


OP_CASES(nonzero) = {rows, columns, NULL};
