/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of quantize_float8. */
#include "ops/op_case.h"

/* Ties to even among e4m3's numbers (17 and 19 lie between 16, 18 and 20), saturation at 448. */
static void ties(op_case *c) {
  static const float x[] = {17, 19, -17, 1000, -1000, 0.0009765625f}, scale[] = {1};
  static const float expected[] = {16, 20, -16, 448, -448, 0};
  case_f32_values(c, x, 1, 6);
  case_f32_values(c, scale, 1, 1);
  case_expect(c, expected, 6, 0);
  c->no_gradient = "straight through";
}

OP_CASES(quantize_float8) = {ties, NULL};
