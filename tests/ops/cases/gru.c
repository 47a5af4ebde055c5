/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of gru. */
#include "ops/op_case.h"

static void params(op_case *c) {
  case_f32(c, -1, 1, 3, 3, 2, 3);
  case_f32(c, -1, 1, 3, 1, 2, 2);
  case_f32(c, -0.7f, 0.7f, 2, 6, 3);
  case_f32(c, -0.7f, 0.7f, 2, 6, 2);
  case_f32(c, -0.7f, 0.7f, 1, 6);
  case_f32(c, -0.7f, 0.7f, 1, 6);
}

static void reset_after(op_case *c) {
  params(c);
}

static void reset_before(op_case *c) {
  params(c);
  case_int(c, "reset_after", 0);
}

static void no_bias_no_state(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 4, 3);
  case_left_out(c);
  case_f32(c, -0.7f, 0.7f, 2, 6, 3);
  case_f32(c, -0.7f, 0.7f, 2, 6, 2);
  case_int(c, "has_biases", 0);
  case_int(c, "batch_first", 1);
}

OP_CASES(gru) = {reset_after, reset_before, no_bias_no_state, NULL};
