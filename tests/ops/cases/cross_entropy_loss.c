/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cross_entropy_loss. */
#include "ops/op_case.h"

static void probabilities(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 4, 3);
  case_f32(c, 0, 1, 3, 2, 4, 3);
  case_f32(c, 0.5f, 1.5f, 1, 4);
  case_constant(c);
  case_float(c, "label_smoothing", 0.1);
}

static void one_sample(op_case *c) {
  case_f32(c, -1, 1, 1, 4);
  case_integers(c, INTACT_S64, 0, 3, 0);
}

OP_CASES(cross_entropy_loss) = {probabilities, one_sample, NULL};
