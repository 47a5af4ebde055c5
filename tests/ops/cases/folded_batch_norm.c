/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of folded_batch_norm. */
#include "ops/op_case.h"

static void operands(op_case *c, bool bias) {
  case_f32(c, -1, 1, 4, 3, 2, 3, 4);
  case_f32(c, 0.5f, 1.5f, 1, 2);
  case_f32(c, -1, 1, 1, 2);
  case_f32(c, -0.2f, 0.2f, 1, 2);
  case_constant(c);
  case_f32(c, 0.5f, 1.5f, 1, 2);
  case_constant(c);
  if (bias) case_f32(c, -1, 1, 1, 2);
}

static void running(op_case *c) { operands(c, true); }
static void running_without_bias(op_case *c) { operands(c, false); }

static void training(op_case *c) {
  operands(c, true);
  case_int(c, "training", 1);
}

/* The statistics come out as further results. */
static void tracking(op_case *c) {
  operands(c, true);
  case_int(c, "training", 1);
  case_float(c, "eps", 0.1);
  c->n_results = 3;
  c->no_gradient = "the statistics that come out have none";
}

static void divided(op_case *c) {
  operands(c, false);
  case_int(c, "training", 1);
  case_int(c, "divide", 1);
}

/* gamma 0: beta, whatever x is. gamma 2, var 3, eps 1: f = 1, y = x + (bias - mean) f + beta = x + 0.5 - 1.5 + 4. */
static void zero_gamma(op_case *c) {
  static const float x[] = {5, 7}, gamma[] = {0, 2}, beta[] = {3, 4}, mean[] = {1.5f, 1.5f}, var[] = {3, 3}, bias[] = {0.5f, 0.5f},
                     y[] = {3, 10};
  case_f32_values(c, x, 2, 1, 2);
  case_f32_values(c, gamma, 1, 2);
  case_constant(c);
  case_f32_values(c, beta, 1, 2);
  case_f32_values(c, mean, 1, 2);
  case_constant(c);
  case_f32_values(c, var, 1, 2);
  case_constant(c);
  case_f32_values(c, bias, 1, 2);
  case_float(c, "eps", 1);
  case_expect(c, y, 2, 0);
}

OP_CASES(folded_batch_norm) = {running, running_without_bias, training, tracking, divided, zero_gamma, NULL};
