/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of full. */
#include "ops/op_case.h"

static void by_size(op_case *c) {
  static const float y[] = {2.5f, 2.5f, 2.5f, 2.5f, 2.5f, 2.5f};
  case_left_out(c);
  case_ints(c, "size", 2, 2, 3);
  case_float(c, "fill_value", 2.5);
  case_expect(c, y, 6, 0);
}

OP_CASES(full) = {by_size, NULL};
