/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of topk: the examples of the ONNX operator. */
#include "ops/op_case.h"

static void largest(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  static const float y[] = {3, 2, 1, 7, 6, 5, 11, 10, 9};
  case_f32_values(c, x0, 2, 3, 4);
  case_int(c, "k", 3);
  case_int(c, "dim", 1);
  case_expect(c, y, 9, 0);
}

static void smallest(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 10, 9, 8};
  static const float y[] = {0, 1, 2, 4, 5, 6, 8, 9, 10};
  case_f32_values(c, x0, 2, 3, 4);
  case_int(c, "k", 3);
  case_int(c, "dim", 1);
  case_int(c, "largest", 0);
  case_expect(c, y, 9, 0);
}

static void whole_lane_along_first_axis(op_case *c) {
  case_f32(c, -1, 1, 3, 3, 2, 2);
  case_int(c, "k", 3);
  case_int(c, "dim", 0);
}


OP_CASES(topk) = {largest, smallest, whole_lane_along_first_axis, NULL};
