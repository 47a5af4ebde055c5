/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of avg_pool2d. */
#include "ops/op_case.h"

/* Padding on one side only, counted and not counted. */
static void one_sided(op_case *c) {
  static const float x[] = {1, 2, 3, 4}, y[] = {0.5f, 1.5f, 2.5f, 3.5f};
  case_f32_values(c, x, 4, 1, 1, 1, 4);
  case_ints(c, "kernel_size", 2, 1, 2);
  case_ints(c, "stride", 2, 1, 1);
  case_ints(c, "padding", 4, 0, 1, 0, 0);
  case_expect(c, y, 4, 0);
}

static void one_sided_data_alone(op_case *c) {
  static const float x[] = {1, 2, 3, 4}, y[] = {1, 1.5f, 2.5f, 3.5f};
  case_f32_values(c, x, 4, 1, 1, 1, 4);
  case_ints(c, "kernel_size", 2, 1, 2);
  case_ints(c, "stride", 2, 1, 1);
  case_ints(c, "padding", 4, 0, 1, 0, 0);
  case_int(c, "count_include_pad", 0);
  case_expect(c, y, 4, 0);
}

static void dilated(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 2, 7, 6);
  case_ints(c, "kernel_size", 2, 3, 2);
  case_ints(c, "stride", 2, 1, 2);
  case_ints(c, "dilation", 2, 2, 3);
  case_ints(c, "padding", 2, 1, 1);
}

OP_CASES(avg_pool2d) = {one_sided, one_sided_data_alone, dilated, NULL};
