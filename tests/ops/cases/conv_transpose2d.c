/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of conv_transpose2d. */
#include "ops/op_case.h"

static void grouped(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 4, 3, 4);
  case_f32(c, -1, 1, 4, 4, 3, 3, 2);
  case_f32(c, -1, 1, 1, 6);
  case_int(c, "groups", 2);
  case_ints(c, "stride", 2, 2, 3);
  case_ints(c, "padding", 2, 1, 0);
  case_ints(c, "output_padding", 2, 1, 2);
}

/* Padding cut on one side only. */
static void uneven(op_case *c) {
  static const float x[] = {1, 2, 3}, w[] = {1, 10}, y[] = {10, 2, 20, 3, 30};
  case_f32_values(c, x, 4, 1, 1, 1, 3);
  case_f32_values(c, w, 4, 1, 1, 1, 2);
  case_ints(c, "stride", 2, 1, 2);
  case_ints(c, "padding", 4, 0, 1, 0, 0);
  case_expect(c, y, 5, 0);
}

OP_CASES(conv_transpose2d) = {grouped, uneven, NULL};
