/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of reverse_sequence: the two examples of the ONNX operator. */
#include "ops/op_case.h"

static void by_time(op_case *c) {
  static const float x0[] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  static const int64_t x1[] = {4, 3, 2, 1};
  static const float y[] = {3, 6, 9, 12, 2, 5, 8, 13, 1, 4, 10, 14, 0, 7, 11, 15};
  case_f32_values(c, x0, 2, 4, 4);
  case_s64_values(c, x1, 1, 4);
  case_int(c, "time_axis", 0);
  case_int(c, "batch_axis", 1);
  case_expect(c, y, 16, 0);
}

static void by_batch(op_case *c) {
  static const float x0[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  static const int64_t x1[] = {1, 2, 3, 4};
  static const float y[] = {0, 1, 2, 3, 5, 4, 6, 7, 10, 9, 8, 11, 15, 14, 13, 12};
  case_f32_values(c, x0, 2, 4, 4);
  case_s64_values(c, x1, 1, 4);
  case_int(c, "time_axis", 1);
  case_int(c, "batch_axis", 0);
  case_expect(c, y, 16, 0);
}


OP_CASES(reverse_sequence) = {by_time, by_batch, NULL};
