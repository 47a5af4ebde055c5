/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of one_hot; without num_classes there are as many as the largest element needs (values from PyTorch). */
#include "ops/op_case.h"

static void given(op_case *c) {
  static const int64_t x[] = {2, 0};
  static const float y[] = {0, 0, 1, 0, 1, 0, 0, 0};
  case_s64_values(c, x, 1, 2);
  case_int(c, "num_classes", 4);
  case_expect(c, y, 8, 0);
}

static void counted(op_case *c) {
  static const int64_t x[] = {2, 0};
  static const float y[] = {0, 0, 1, 1, 0, 0};
  case_s64_values(c, x, 1, 2);
  case_int(c, "num_classes", -1);
  case_expect(c, y, 6, 0);
}

OP_CASES(one_hot) = {given, counted, NULL};
