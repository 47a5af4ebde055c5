/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of conv2d. */
#include "ops/op_case.h"

static void plain(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 3, 5, 6);
  case_f32(c, -1, 1, 4, 4, 3, 3, 3);
  case_f32(c, -1, 1, 1, 4);
}

/* Padding that differs on the four sides: leading 1 and 0, trailing 2 and 1. */
static void uneven(op_case *c) {
  case_f32(c, -1, 1, 4, 1, 2, 5, 5);
  case_f32(c, -1, 1, 4, 2, 2, 2, 3);
  case_ints(c, "padding", 4, 1, 0, 2, 1);
  case_ints(c, "stride", 2, 2, 1);
}

static void depthwise(op_case *c) {
  case_f32(c, -1, 1, 4, 1, 4, 6, 5);
  case_f32(c, -1, 1, 4, 8, 1, 3, 3);
  case_f32(c, -1, 1, 1, 8);
  case_int(c, "groups", 4);
  case_ints(c, "padding", 2, 2, 2);
  case_ints(c, "dilation", 2, 2, 2);
}

/* 7 elements at stride 2 keep 4: one padding element behind for an even kernel. */
static void same_upper(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7}, w[] = {1, 10}, y[] = {21, 43, 65, 7};
  case_f32_values(c, x, 4, 1, 1, 1, 7);
  case_f32_values(c, w, 4, 1, 1, 1, 2);
  case_ints(c, "stride", 2, 1, 2);
  case_string(c, "auto_pad", "same_upper");
  case_expect(c, y, 4, 0);
}

static void same_lower(op_case *c) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7}, w[] = {1, 10}, y[] = {10, 32, 54, 76};
  case_f32_values(c, x, 4, 1, 1, 1, 7);
  case_f32_values(c, w, 4, 1, 1, 1, 2);
  case_ints(c, "stride", 2, 1, 2);
  case_string(c, "auto_pad", "same_lower");
  case_expect(c, y, 4, 0);
}

OP_CASES(conv2d) = {plain, uneven, depthwise, same_upper, same_lower, NULL};
