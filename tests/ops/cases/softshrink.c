/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of softshrink: the examples of ONNX Shrink. */
#include "ops/op_case.h"

static void hard(op_case *c) {
  static const float x0[] = {-2, -1, 0, 1, 2};
  static const float y[] = {-2, 0, 0, 0, 2};
  case_f32_values(c, x0, 1, 5);
  case_float(c, "lambd", 1.5);
  case_expect(c, y, 5, 0);
}

static void soft(op_case *c) {
  static const float x0[] = {-2, -1, 0, 1, 2};
  static const float y[] = {-0.5f, 0, 0, 0, 0.5f};
  case_f32_values(c, x0, 1, 5);
  case_float(c, "lambd", 1.5);
  case_float(c, "bias", 1.5);
  case_expect(c, y, 5, 0);
}


OP_CASES(softshrink) = {hard, soft, NULL};
