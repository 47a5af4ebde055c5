/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of argmax: ties, and all elements in a row. */
#include "ops/op_case.h"

static void last_of_ties(op_case *c) {
  static const float x0[] = {2, 2, 3, 10};
  static const float y[] = {1, 1};
  case_f32_values(c, x0, 2, 2, 2);
  case_int(c, "dim", 1);
  case_int(c, "keepdim", 1);
  case_int(c, "select_last_index", 1);
  case_expect(c, y, 2, 0);
}

static void first_of_ties(op_case *c) {
  static const float x0[] = {2, 2, 3, 10};
  static const float y[] = {1, 1};
  case_f32_values(c, x0, 2, 2, 2);
  case_int(c, "dim", 0);
  case_expect(c, y, 2, 0);
}

static void of_all(op_case *c) {
  static const float x0[] = {2, 2, 30, 10};
  static const float y[] = {2};
  case_f32_values(c, x0, 2, 2, 2);
  case_expect(c, y, 1, 0);
}


OP_CASES(argmax) = {last_of_ties, first_of_ties, of_all, NULL};
