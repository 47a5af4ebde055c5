/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of arange: NumPy's arange. */
#include "ops/op_case.h"

static void backwards(op_case *c) {
  static const int64_t x0[] = {10};
  static const int64_t x1[] = {4};
  static const int64_t x2[] = {-2};
  static const float y[] = {10, 8, 6};
  case_s64_values(c, x0, 0);
  case_s64_values(c, x1, 0);
  case_s64_values(c, x2, 0);
  case_expect(c, y, 3, 0);
}

static void attributes(op_case *c) {
  static const float y[] = {0.5f, 1, 1.5f};
  case_float(c, "start", 0.5);
  case_float(c, "end", 2.0);
  case_float(c, "step", 0.5);
  case_expect(c, y, 3, 0);
}


OP_CASES(arange) = {backwards, attributes, NULL};
