/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of col2im. */
#include "ops/op_case.h"

/* A row of 4 from windows of 2 at stride 1: inner elements are hit twice. */
static void overlap(op_case *c) {
  static const float x[] = {1, 2, 3, 10, 20, 30}, y[] = {1, 12, 23, 30};
  case_f32_values(c, x, 3, 1, 2, 3);
  case_ints(c, "output_size", 2, 1, 4);
  case_ints(c, "kernel_size", 2, 1, 2);
  case_expect(c, y, 4, 0);
}

static void padded(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 12, 9);
  case_ints(c, "output_size", 2, 5, 7);
  case_ints(c, "kernel_size", 2, 2, 3);
  case_ints(c, "dilation", 2, 1, 2);
  case_ints(c, "padding", 2, 1, 0);
  case_ints(c, "stride", 2, 2, 1);
}

OP_CASES(col2im) = {overlap, padded, NULL};
