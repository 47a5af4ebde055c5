/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cumprod: products written out by hand. */
#include "ops/op_case.h"

static void with_zero(op_case *c) {
  static const float x0[] = {2, 0, 3, 4};
  static const float y[] = {2, 0, 0, 0};
  case_f32_values(c, x0, 1, 4);
  case_int(c, "dim", 0);
  case_expect(c, y, 4, 0);
}

static void exclusive(op_case *c) {
  static const float x0[] = {2.0f, 0.5f, 3, 4};
  static const float y[] = {1, 2, 1, 3};
  case_f32_values(c, x0, 1, 4);
  case_int(c, "dim", 0);
  case_int(c, "exclusive", 1);
  case_expect(c, y, 4, 0);
}

static void reverse(op_case *c) {
  case_f32(c, -1, 1, 2, 3, 4);
  case_int(c, "dim", -1);
  case_int(c, "reverse", 1);
}


OP_CASES(cumprod) = {with_zero, exclusive, reverse, NULL};
