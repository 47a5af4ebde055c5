/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of masked_select: the example of torch.masked_select in small, and a broadcast operand. */
#include "ops/op_case.h"

static void same_shape(op_case *c) {
  static const float x[] = {0.5f, -1, 2, 0.25f}, y[] = {0.5f, 2};
  static const int64_t m[] = {1, 0, 1, 0};
  case_f32_values(c, x, 2, 2, 2);
  case_s64_values(c, m, 2, 2, 2);
  case_expect(c, y, 2, 0);
}

static void broadcast_operand(op_case *c) {
  static const float x[] = {1, 2}, y[] = {1, 1, 2};
  static const int64_t m[] = {1, 0, 1, 1};
  case_f32_values(c, x, 1, 2);
  case_s64_values(c, m, 2, 2, 2);
  case_expect(c, y, 3, 0);
}

OP_CASES(masked_select) = {same_shape, broadcast_operand, NULL};
