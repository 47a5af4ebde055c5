/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of gather_nd. */
#include "ops/op_case.h"

static void rows(op_case *c) {
  static const int64_t index[] = {1, 0};
  static const float x[] = {0, 1, 2, 3}, y[] = {2, 3, 0, 1};
  case_f32_values(c, x, 2, 2, 2);
  case_s64_values(c, index, 2, 2, 1);
  case_expect(c, y, 4, 0);
}

static void elements(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 4);
  case_integers(c, INTACT_S64, 0, 1, 2, 5, 3);
}

OP_CASES(gather_nd) = {rows, elements, NULL};
