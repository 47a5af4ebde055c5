/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of adaptive_avg_pool3d. */
#include "ops/op_case.h"

static void uneven(op_case *c) {
  case_f32(c, -1, 1, 5, 1, 2, 3, 4, 5);
  case_ints(c, "output_size", 3, 2, 3, 2);
}

/* One axis in three parts: 0..1, 1..3, 3..4 of 5 elements by floor and ceil. */
static void parts(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5}, y[] = {1.5f, 3, 4.5f};
  case_f32_values(c, x, 5, 1, 1, 1, 1, 5);
  case_ints(c, "output_size", 3, 1, 1, 3);
  case_expect(c, y, 3, 0);
}

OP_CASES(adaptive_avg_pool3d) = {uneven, parts, NULL};
