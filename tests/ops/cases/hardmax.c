/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of hardmax: the example of the ONNX operator. */
#include "ops/op_case.h"

static void first_of_ties(op_case *c) {
  static const float x0[] = {3, 0, 1, 2, 2, 5, 1, 0, 0, 1, 3, 2, 0, 1, 2, 3};
  static const float y[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  case_f32_values(c, x0, 2, 4, 4);
  case_int(c, "dim", 1);
  case_expect(c, y, 16, 0);
}


OP_CASES(hardmax) = {first_of_ties, NULL};
