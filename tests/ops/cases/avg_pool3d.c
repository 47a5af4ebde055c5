/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of avg_pool3d. */
#include "ops/op_case.h"

static void padded(op_case *c) {
  case_f32(c, -1, 1, 5, 1, 2, 4, 5, 4);
  case_ints(c, "kernel_size", 3, 2, 3, 2);
  case_ints(c, "padding", 3, 1, 1, 0);
}

static void data_alone(op_case *c) {
  case_f32(c, -1, 1, 5, 1, 1, 3, 5, 4);
  case_ints(c, "kernel_size", 1, 3);
  case_ints(c, "stride", 1, 2);
  case_ints(c, "padding", 1, 1);
  case_int(c, "ceil_mode", 1);
  case_int(c, "count_include_pad", 0);
}

static void fixed_divisor(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[] = {12};
  case_f32_values(c, x, 5, 1, 1, 2, 2, 2);
  case_ints(c, "kernel_size", 1, 2);
  case_int(c, "divisor_override", 3);
  case_expect(c, y, 1, 0);
}

OP_CASES(avg_pool3d) = {padded, data_alone, fixed_divisor, NULL};
