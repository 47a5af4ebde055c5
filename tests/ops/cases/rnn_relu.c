/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of rnn_relu. */
#include "ops/op_case.h"

static void two_directions(op_case *c) {
  case_f32(c, -1, 1, 3, 3, 2, 3);
  case_f32(c, -1, 1, 3, 2, 2, 4);
  for (int direction = 0; direction < 2; direction++) {
    case_f32(c, -0.5f, 0.5f, 2, 4, 3);
    case_f32(c, -0.5f, 0.5f, 2, 4, 4);
    case_f32(c, -0.5f, 0.5f, 1, 4);
    case_f32(c, -0.5f, 0.5f, 1, 4);
  }
  case_int(c, "bidirectional", 1);
}

OP_CASES(rnn_relu) = {two_directions, NULL};
