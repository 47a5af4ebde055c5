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

/* A mean that float32 does not hold: PyTorch 2.13.0 in float64. */
static void far_from_zero(op_case *c) {
  static const float x[] = {1000.30f, 1000.31f, 1000.34f}, one[] = {1}, zero[] = {0};
  static const float y[] = {-0.9640688126431869f, -0.38562752505729264f, 1.34969633770039f};
  case_f32_values(c, x, 2, 3, 1);
  case_f32_values(c, one, 1, 1);
  case_f32_values(c, zero, 1, 1);
  case_f32_values(c, zero, 1, 1);
  case_constant(c);
  case_f32_values(c, one, 1, 1);
  case_constant(c);
  case_int(c, "training", 1);
  case_expect(c, y, 3, 1e-6);
  c->no_gradient = "float32 has too few steps there";
}

OP_CASES(batch_norm) = {evaluating, training, far_from_zero, NULL};
