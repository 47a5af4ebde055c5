/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of compress: the examples of the ONNX operator. */
#include "ops/op_case.h"

static const float x[] = {1, 2, 3, 4, 5, 6};

static void along_first_axis(op_case *c) {
  static const int64_t condition[] = {0, 1, 1};
  static const float y[] = {3, 4, 5, 6};
  case_f32_values(c, x, 2, 3, 2);
  case_s64_values(c, condition, 1, 3);
  case_int(c, "dim", 0);
  case_expect(c, y, 4, 0);
}

static void along_last_axis(op_case *c) {
  static const int64_t condition[] = {0, 1};
  static const float y[] = {2, 4, 6};
  case_f32_values(c, x, 2, 3, 2);
  case_s64_values(c, condition, 1, 2);
  case_int(c, "dim", -1);
  case_expect(c, y, 3, 0);
}

static void in_a_row(op_case *c) {
  static const int64_t condition[] = {0, 1, 0, 0, 1};
  static const float y[] = {2, 5};
  case_f32_values(c, x, 2, 3, 2);
  case_s64_values(c, condition, 1, 5);
  case_expect(c, y, 2, 0);
}

OP_CASES(compress) = {along_first_axis, along_last_axis, in_a_row, NULL};
