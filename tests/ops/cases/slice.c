/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of slice: bounds as in NumPy: x[-1:-100:-3], x[1:1000, 1:-1], x[0:2:1, 3:0:-2]. */
#include "ops/op_case.h"

static void backwards(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static const float y[] = {7, 4, 1};
  case_f32_values(c, x0, 1, 8);
  case_ints(c, "dim", 1, 0);
  case_ints(c, "start", 1, -1);
  case_ints(c, "end", 1, -100);
  case_ints(c, "step", 1, -3);
  case_expect(c, y, 3, 0);
}

static void two_axes(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  static const float y[] = {5, 6, 9, 10};
  case_f32_values(c, x0, 2, 3, 4);
  case_ints(c, "dim", 2, 0, -1);
  case_ints(c, "start", 2, 1, 1);
  case_ints(c, "end", 2, 1000, -1);
  case_ints(c, "step", 2, 1, 1);
  case_expect(c, y, 4, 0);
}

static void nothing_left(op_case *c) {
  case_f32(c, -1, 1, 2, 3, 4);
  case_ints(c, "dim", 1, 1);
  case_ints(c, "start", 1, 3);
  case_ints(c, "end", 1, 2);
}

static void by_operands(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  static const int64_t x1[] = {0, 3};
  static const int64_t x2[] = {2, 0};
  static const int64_t x3[] = {0, 1};
  static const int64_t x4[] = {1, -2};
  static const float y[] = {3, 1, 7, 5};
  case_f32_values(c, x0, 2, 3, 4);
  case_s64_values(c, x1, 1, 2);
  case_s64_values(c, x2, 1, 2);
  case_s64_values(c, x3, 1, 2);
  case_s64_values(c, x4, 1, 2);
  case_expect(c, y, 4, 0);
}


OP_CASES(slice) = {backwards, two_axes, nothing_left, by_operands, NULL};
