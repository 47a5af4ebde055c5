/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of scatter_nd. */
#include "ops/op_case.h"

static void elements(op_case *c) {
  static const int64_t index[] = {4, 3, 1, 7};
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, updates[] = {9, 10, 11, 12}, y[] = {1, 11, 3, 10, 9, 6, 7, 12};
  case_f32_values(c, x, 1, 8);
  case_s64_values(c, index, 2, 4, 1);
  case_f32_values(c, updates, 1, 4);
  case_expect(c, y, 8, 0);
}

OP_CASES(scatter_nd) = {elements, NULL};
