/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of pow: integer powers, negative exponents cut to 0. */
#include <math.h>

#include "ops/op_case.h"

static void integers(op_case *c) {
  static const int64_t x0[] = {2, -3, 10, -1, 1, 7};
  static const int64_t x1[] = {10, 3, 0, -3, -5, -1};
  static const float y[] = {1024, -27, 1, -1, 1, 0};
  case_s64_values(c, x0, 1, 6);
  case_s64_values(c, x1, 1, 6);
  case_expect(c, y, 6, 0);
}

static void scalar(op_case *c) {
  static const float x0[] = {4, 9};
  static const float y[] = {2, 3};
  case_f32_values(c, x0, 1, 2);
  case_left_out(c);
  case_float(c, "exponent", 0.5);
  case_expect(c, y, 2, 0);
}

/* Values from PyTorch: the scalar -0.5 is 1 / sqrt, a tensor's 0.5 is no square root. */
static void root_of_zero(op_case *c) {
  static const float x0[] = {4, 0.25f, -0.0f}, y[] = {0.5f, 2, -INFINITY};
  case_f32_values(c, x0, 1, 3);
  case_left_out(c);
  case_float(c, "exponent", -0.5);
  case_expect(c, y, 3, 0);
  c->no_gradient = "infinite";
}

static void power_of_infinity(op_case *c) {
  static const float x0[] = {-INFINITY, 9}, x1[] = {0.5f, 0.5f}, y[] = {INFINITY, 3};
  case_f32_values(c, x0, 1, 2);
  case_f32_values(c, x1, 1, 2);
  case_expect(c, y, 2, 0);
  c->no_gradient = "infinite";
}

OP_CASES(pow) = {integers, scalar, root_of_zero, power_of_infinity, NULL};
