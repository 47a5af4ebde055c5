/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of choose_scale_float8. */
#include "ops/op_case.h"

/* 448 is the largest value of e4m3. */
static void rows(op_case *c) {
  static const float x[] = {1, -448, 3, 0.5f, 224, -7}, expected[] = {1, 0.5f};
  case_f32_values(c, x, 2, 2, 3);
  case_ints(c, "block_size", 2, 1, 3);
  case_expect(c, expected, 2, 0);
}

OP_CASES(choose_scale_float8) = {rows, NULL};
