/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of normalize: unit vectors by hand. */
#include "ops/op_case.h"

static void by_length(op_case *c) {
  static const float x0[] = {3, 4, 6, 8};
  static const float y[] = {0.6f, 0.8f, 0.6f, 0.8f};
  case_f32_values(c, x0, 2, 2, 2);
  case_int(c, "dim", 1);
  case_expect(c, y, 4, 1e-07);
}

static void by_sum(op_case *c) {
  static const float x0[] = {1, -3, 0, 2};
  static const float y[] = {0.25f, -0.75f, 0, 1};
  case_f32_values(c, x0, 2, 2, 2);
  case_int(c, "dim", 1);
  case_float(c, "p", 1.0);
  case_expect(c, y, 4, 0);
}

static void cubic(op_case *c) {
  case_f32(c, -1, 1, 2, 2, 5);
  case_int(c, "dim", -1);
  case_float(c, "p", 3.0);
}

static void zeros(op_case *c) {
  static const float x0[] = {0, 0};
  static const float y[] = {0, 0};
  case_f32_values(c, x0, 2, 1, 2);
  case_int(c, "dim", 1);
  case_expect(c, y, 2, 0);
  c->no_gradient = "a corner at zero";
}


OP_CASES(normalize) = {by_length, by_sum, cubic, zeros, NULL};
