/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of batch_norm. */
#include "ops/op_case.h"

static void operands(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 3, 2, 3);
  case_f32(c, 0.5f, 1.5f, 1, 3);
  case_f32(c, -1, 1, 1, 3);
  case_f32(c, -1, 1, 1, 3);
  case_constant(c);
  case_f32(c, 0.5f, 1.5f, 1, 3);
  case_constant(c);
}

static void evaluating(op_case *c) {
  operands(c);
}

static void training(op_case *c) {
  operands(c);
  case_int(c, "training", 1);
}

OP_CASES(batch_norm) = {evaluating, training, NULL};
