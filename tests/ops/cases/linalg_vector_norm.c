/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of linalg_vector_norm: NumPy's norms. */
#include <math.h>

#include <math.h>

#include "ops/op_case.h"

static void infinite(op_case *c) {
  static const float x0[] = {1, -5, 3, 2};
  static const float y[] = {5, 3};
  case_f32_values(c, x0, 2, 2, 2);
  case_ints(c, "dim", 1, 1);
  case_float(c, "ord", (double)INFINITY);
  case_expect(c, y, 2, 0);
}

static void third(op_case *c) {
  static const float x0[] = {1, 2, 2, 0};
  static const float y[] = {2.5712816f};
  case_f32_values(c, x0, 1, 4);
  case_float(c, "ord", 3.0);
  case_expect(c, y, 1, 1e-06);
}


OP_CASES(linalg_vector_norm) = {infinite, third, NULL};
