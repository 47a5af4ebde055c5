/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of softshrink: the examples of ONNX Shrink, and PyTorch's softshrink. */
#include "ops/op_case.h"

static void hard(op_case *c) {
  static const float x0[] = {-2, -1, 0, 1, 2};
  static const float y[] = {-2, 0, 0, 0, 2};
  case_f32_values(c, x0, 1, 5);
  case_float(c, "lambd", 1.5);
  case_float(c, "bias", 0);
  case_expect(c, y, 5, 0);
}

/* torch.nn.functional.softshrink(x, 0.3) */
static void torch(op_case *c) {
  static const float x0[] = {-2, -0.25f, -0.0f, 0.5f, 1};
  static const float y[] = {-1.70000005f, 0, 0, 0.199999988f, 0.699999988f};
  case_f32_values(c, x0, 1, 5);
  case_float(c, "lambd", 0.3);
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


OP_CASES(softshrink) = {hard, soft, torch, NULL};
