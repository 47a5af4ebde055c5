/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of fake_quantize_learnable_per_tensor_affine. */
#include "ops/op_case.h"

static void learned_step(op_case *c) {
  case_f32(c, 0.15f, 0.85f, 3, 2, 3, 4);
  case_f32(c, 0.05f, 0.1f, 1, 1);
  case_f32(c, 3, 3.5f, 1, 1);
  case_float(c, "grad_factor", 1);
  c->no_gradient = "a rule of its own, not a derivative; the suite fake_quantize_learnable holds it";
}

OP_CASES(fake_quantize_learnable_per_tensor_affine) = {learned_step, NULL};
