/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of max_pool2d; the last: rounded up, a window wider than the padded axis (value from PyTorch). */
#include "ops/op_case.h"

static void padded(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 2, 7, 6);
  case_ints(c, "kernel_size", 1, 3);
  case_ints(c, "stride", 1, 2);
  case_ints(c, "padding", 1, 1);
}

static void dilated_up(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 2, 7, 6);
  case_ints(c, "kernel_size", 1, 2);
  case_ints(c, "dilation", 1, 2);
  case_int(c, "ceil_mode", 1);
}

static void beyond(op_case *c) {
  static const float x[] = {1, 4, 2, 3, 5, 0}, y[] = {2};
  case_f32_values(c, x, 4, 1, 1, 1, 6);
  case_ints(c, "kernel_size", 2, 1, 4);
  case_ints(c, "stride", 2, 1, 5);
  case_ints(c, "padding", 2, 0, 1);
  case_ints(c, "dilation", 2, 1, 3);
  case_int(c, "ceil_mode", 1);
  case_expect(c, y, 1, 0);
}

OP_CASES(max_pool2d) = {padded, dilated_up, beyond, NULL};
