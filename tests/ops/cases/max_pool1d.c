/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of max_pool1d. */
#include "ops/op_case.h"

static void padded(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 9);
  case_ints(c, "kernel_size", 1, 3);
  case_ints(c, "stride", 1, 2);
  case_ints(c, "padding", 1, 1);
}

static void dilated_up(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 9);
  case_ints(c, "kernel_size", 1, 2);
  case_ints(c, "dilation", 1, 2);
  case_int(c, "ceil_mode", 1);
}

OP_CASES(max_pool1d) = {padded, dilated_up, NULL};
