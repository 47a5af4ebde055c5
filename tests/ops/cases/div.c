/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of div: quotients of integers; by zero gives 0. */
#include "ops/op_case.h"

static void integers_cut(op_case *c) {
  static const int64_t x0[] = {7, -7, 7, -7, 0, 5};
  static const int64_t x1[] = {2, 2, -2, -2, 3, 0};
  static const float y[] = {3, -3, -3, 3, 0, 0};
  case_s64_values(c, x0, 1, 6);
  case_s64_values(c, x1, 1, 6);
  case_string(c, "rounding_mode", "trunc");
  case_expect(c, y, 6, 0);
}

static void integers_floored(op_case *c) {
  static const int64_t x0[] = {7, -7, 7, -7};
  static const int64_t x1[] = {2, 2, -2, -2};
  static const float y[] = {3, -4, -4, 3};
  case_s64_values(c, x0, 1, 4);
  case_s64_values(c, x1, 1, 4);
  case_string(c, "rounding_mode", "floor");
  case_expect(c, y, 4, 0);
}

static void integers_true(op_case *c) {
  static const int64_t x0[] = {1, 3};
  static const int64_t x1[] = {2, 4};
  static const float y[] = {0.5f, 0.75f};
  case_s64_values(c, x0, 1, 2);
  case_s64_values(c, x1, 1, 2);
  case_expect(c, y, 2, 0);
}


OP_CASES(div) = {integers_cut, integers_floored, integers_true, NULL};
