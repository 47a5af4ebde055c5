/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cumsum: the examples of the ONNX operator. */
#include "ops/op_case.h"

static void exclusive(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5};
  static const float y[] = {0, 1, 3, 6, 10};
  case_f32_values(c, x0, 1, 5);
  case_int(c, "dim", 0);
  case_int(c, "exclusive", 1);
  case_expect(c, y, 5, 0);
}

static void reverse(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5};
  static const float y[] = {15, 14, 12, 9, 5};
  case_f32_values(c, x0, 1, 5);
  case_int(c, "dim", 0);
  case_int(c, "reverse", 1);
  case_expect(c, y, 5, 0);
}

static void both(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5, 6};
  static const float y[] = {5, 3, 0, 11, 6, 0};
  case_f32_values(c, x0, 2, 2, 3);
  case_int(c, "dim", 1);
  case_int(c, "reverse", 1);
  case_int(c, "exclusive", 1);
  case_expect(c, y, 6, 0);
}


OP_CASES(cumsum) = {exclusive, reverse, both, NULL};
