/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of grid_sampler_2d: every mode with every rule for what lies outside. */
#include "ops/op_case.h"

static void sample(op_case *c, const char *mode, const char *padding, int corners) {
  case_f32(c, -1, 1, 4, 1, 2, 4, 5);
  case_f32(c, -1.4f, 1.4f, 4, 1, 3, 2, 2);
  case_string(c, "mode", mode);
  case_string(c, "padding_mode", padding);
  case_int(c, "align_corners", corners);
}

static void bilinear_border(op_case *c) {
  sample(c, "bilinear", "border", 0);
}
static void bilinear_reflection(op_case *c) {
  sample(c, "bilinear", "reflection", 1);
}
static void nearest_zeros(op_case *c) {
  sample(c, "nearest", "zeros", 0);
}
static void nearest_reflection(op_case *c) {
  sample(c, "nearest", "reflection", 0);
}
static void bicubic_zeros(op_case *c) {
  sample(c, "bicubic", "zeros", 0);
}
static void bicubic_border(op_case *c) {
  sample(c, "bicubic", "border", 1);
}
static void bicubic_reflection(op_case *c) {
  sample(c, "bicubic", "reflection", 0);
}

OP_CASES(grid_sampler_2d) = {bilinear_border, bilinear_reflection, nearest_zeros,      nearest_reflection,
                             bicubic_zeros,   bicubic_border,      bicubic_reflection, NULL};
