/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of scaled_dot_product_attention. */
#include "ops/op_case.h"

static void mask_that_broadcasts(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 2, 3, 4);
  case_f32(c, -1, 1, 4, 2, 2, 5, 4);
  case_f32(c, -1, 1, 4, 2, 2, 5, 2);
  case_f32(c, -1, 1, 4, 2, 1, 1, 5);
}

static void grouped_heads(op_case *c) {
  case_f32(c, -1, 1, 4, 1, 4, 2, 3);
  case_f32(c, -1, 1, 4, 1, 2, 3, 3);
  case_f32(c, -1, 1, 4, 1, 2, 3, 3);
  case_int(c, "enable_gqa", 1);
  case_int(c, "is_causal", 1);
}

OP_CASES(scaled_dot_product_attention) = {mask_that_broadcasts, grouped_heads, NULL};
