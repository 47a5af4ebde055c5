/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of fold_weight. */
#include "ops/op_case.h"

static void rows(op_case *c) {
  case_f32(c, -1, 1, 4, 3, 2, 2, 2);
  case_f32(c, 0.5f, 1.5f, 1, 3);
  case_f32(c, 0.5f, 1.5f, 1, 3);
  case_constant(c);
}

/* Transposed convolution: groups x axis 1 channels. */
static void grouped(op_case *c) {
  case_f32(c, -1, 1, 4, 4, 3, 2, 1);
  case_f32(c, 0.5f, 1.5f, 1, 6);
  case_f32(c, 0.5f, 1.5f, 1, 6);
  case_constant(c);
  case_int(c, "axis", 1);
  case_int(c, "groups", 2);
}

/* 2 * 3 / sqrt(3 + 1) = 3, and where gamma is 0: 2 / sqrt(3 + 1) = 1. */
static void zero_gamma(op_case *c) {
  static const float w[] = {2, 2}, gamma[] = {3, 0}, var[] = {3, 3}, y[] = {3, 1};
  case_f32_values(c, w, 2, 2, 1);
  case_f32_values(c, gamma, 1, 2);
  case_constant(c);
  case_f32_values(c, var, 1, 2);
  case_constant(c);
  case_float(c, "eps", 1);
  case_expect(c, y, 2, 0);
}

OP_CASES(fold_weight) = {rows, grouped, zero_gamma, NULL};
