/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of adaptive_max_pool1d. */
#include "ops/op_case.h"

static void parts(op_case *c) {
  static const float x[] = {5, 1, 2, 3, 4}, y[] = {5, 3, 4};
  case_f32_values(c, x, 3, 1, 1, 5);
  case_ints(c, "output_size", 1, 3);
  case_expect(c, y, 3, 0);
}

static void no_batch(op_case *c) {
  case_f32(c, -1, 1, 2, 3, 7);
  case_ints(c, "output_size", 1, 2);
}

OP_CASES(adaptive_max_pool1d) = {parts, no_batch, NULL};
