/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of scatter: the examples of ONNX ScatterElements. */
#include "ops/op_case.h"

static void sets(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5};
  static const int64_t x1[] = {1, 3};
  static const float x2[] = {1.1f, 2.1f};
  static const float y[] = {1, 1.1f, 3, 2.1f, 5};
  case_f32_values(c, x0, 2, 1, 5);
  case_s64_values(c, x1, 2, 1, 2);
  case_f32_values(c, x2, 2, 1, 2);
  case_int(c, "dim", 1);
  case_expect(c, y, 5, 0);
}

static void adds(op_case *c) {
  static const float x0[] = {1, 2, 3, 4, 5};
  static const int64_t x1[] = {1, 1};
  static const float x2[] = {1.1f, 2.1f};
  static const float y[] = {1, 5.2f, 3, 4, 5};
  case_f32_values(c, x0, 2, 1, 5);
  case_s64_values(c, x1, 2, 1, 2);
  case_f32_values(c, x2, 2, 1, 2);
  case_int(c, "dim", 1);
  case_string(c, "reduce", "add");
  case_expect(c, y, 5, 1e-06);
}

OP_CASES(scatter) = {sets, adds, NULL};
