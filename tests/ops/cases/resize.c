/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of resize; expected values are those of the ONNX specification's examples of Resize. */
#include "ops/op_case.h"

static const float grid_2x2[] = {1, 2, 3, 4};
static const float grid_4x4[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static void linear_up(op_case *c) {
  static const float y[] = {1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f, 3.75f, 4};
  case_f32_values(c, grid_2x2, 4, 1, 1, 2, 2);
  case_floats(c, "scale_factor", 2, 2.0, 2.0);
  case_string(c, "mode", "linear");
  case_expect(c, y, 16, 1e-6);
}

static void linear_corners(op_case *c) {
  static const float y[] = {
      1,           1.33333333f, 1.66666667f, 2,           1.66666667f, 2,           2.33333333f, 2.66666667f,
      2.33333333f, 2.66666667f, 3,           3.33333333f, 3,           3.33333333f, 3.66666667f, 4};
  case_f32_values(c, grid_2x2, 4, 1, 1, 2, 2);
  case_floats(c, "scale_factor", 2, 2.0, 2.0);
  case_string(c, "mode", "linear");
  case_string(c, "coordinate_transformation_mode", "align_corners");
  case_expect(c, y, 16, 1e-6);
}

static void cubic_down(op_case *c) {
  static const float y[] = {1.47119141f, 2.78125f,     4.08251953f, 6.71142578f, 8.02148438f,
                            9.32275391f, 11.91650391f, 13.2265625f, 14.52783203f};
  case_f32_values(c, grid_4x4, 4, 1, 1, 4, 4);
  case_floats(c, "scale_factor", 2, 0.8, 0.8);
  case_string(c, "mode", "cubic");
  case_expect(c, y, 9, 1e-5);
}

static void cubic_asymmetric(op_case *c) {
  case_f32_values(c, grid_4x4, 4, 1, 1, 4, 4);
  case_ints(c, "size", 2, 7, 5);
  case_string(c, "mode", "cubic");
  case_string(c, "coordinate_transformation_mode", "asymmetric");
  case_int(c, "exclude_outside", 1);
}

static void linear_down_smooth(op_case *c) {
  static const float y[] = {2.875f, 4.5f, 9.375f, 11};
  case_f32_values(c, grid_4x4, 4, 1, 1, 4, 4);
  case_floats(c, "scale_factor", 2, 0.6, 0.6);
  case_string(c, "mode", "linear");
  case_int(c, "antialias", 1);
  case_expect(c, y, 4, 1e-5);
}

static void nearest_up(op_case *c) {
  static const float y[] = {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4};
  case_f32_values(c, grid_2x2, 4, 1, 1, 2, 2);
  case_floats(c, "scale_factor", 2, 2.0, 3.0);
  case_expect(c, y, 24, 0);
}

OP_CASES(resize) = {linear_up, linear_corners, cubic_down, cubic_asymmetric, linear_down_smooth, nearest_up, NULL};
