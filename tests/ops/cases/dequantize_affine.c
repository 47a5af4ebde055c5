/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of dequantize_affine. */
#include "ops/op_case.h"

/* Blocks of 1 x 2: (q - zero point) * scale by hand. */
static void blocks(op_case *c) {
  static const int64_t codes[] = {0, 1, 2, 3, 4, 5, 6, 7}, zeros[] = {0, 1, 2, 3};
  static const float scales[] = {0.5f, 1, 2, 4}, expected[] = {0, 0.5f, 1, 2, 4, 6, 12, 16};
  case_s64_values(c, codes, 2, 2, 4);
  case_f32_values(c, scales, 2, 2, 2);
  case_s64_values(c, zeros, 2, 2, 2);
  case_ints(c, "block_size", 2, 1, 2);
  case_expect(c, expected, 8, 0);
  c->no_gradient = "codes have none";
}

OP_CASES(dequantize_affine) = {blocks, NULL};
