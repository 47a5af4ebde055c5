/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of quantize_mx. */
#include "ops/op_case.h"

/* Largest value 3.5 = 1.75 * 2^1; e4m3's largest power is 2^8: the shared exponent is 1 - 8 = -7, elements are x * 128. */
static void block(op_case *c) {
  static const float x[] = {3.5f, 1, -0.25f, 0}, expected[] = {448, 128, -32, 0};
  case_f32_values(c, x, 1, 4);
  case_int(c, "block_size", 4);
  case_expect(c, expected, 4, 0);
  c->no_gradient = "straight through";
}

/* e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6. Largest 7: exponent 2 - 2 = 0, 7 saturates to 6; 2.5 and 5 are ties. */
static void four_bits(op_case *c) {
  static const float x[] = {7, 2.5f, 5, -1.25f}, expected[] = {6, 2, 4, -1};
  case_f32_values(c, x, 1, 4);
  case_int(c, "block_size", 4);
  case_int(c, "dtype", INTACT_F4E2M1);
  case_expect(c, expected, 4, 0);
  c->no_gradient = "straight through";
}

OP_CASES(quantize_mx) = {block, four_bits, NULL};
