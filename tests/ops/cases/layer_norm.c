/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of layer_norm. */
#include "ops/op_case.h"

static void weight_alone(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 6);
  case_f32(c, 0.5f, 1.5f, 1, 6);
  case_ints(c, "normalized_shape", 1, 6);
}

static void two_dimensions(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 4);
  case_f32(c, 0.5f, 1.5f, 2, 3, 4);
  case_f32(c, -1, 1, 2, 3, 4);
  case_ints(c, "normalized_shape", 2, 3, 4);
}

OP_CASES(layer_norm) = {weight_alone, two_dimensions, NULL};
