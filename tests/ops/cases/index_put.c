/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of index_put: worked by hand after torch.index_put. */
#include "ops/op_case.h"

static void adds_repeated(op_case *c) {
  static const float x0[] = {1, 1, 1};
  static const float x1[] = {1, 2, 4};
  static const int64_t x2[] = {0, 0, -1};
  static const float y[] = {4, 1, 5};
  case_f32_values(c, x0, 1, 3);
  case_f32_values(c, x1, 1, 3);
  case_s64_values(c, x2, 1, 3);
  case_int(c, "accumulate", 1);
  case_expect(c, y, 3, 0);
  c->no_gradient = "the row has none";
}

static void sets_rows(op_case *c) {
  static const float x0[] = {1, 2, 3, 4};
  static const float x1[] = {7, 8};
  static const int64_t x2[] = {1};
  static const float y[] = {1, 2, 7, 8};
  case_f32_values(c, x0, 2, 2, 2);
  case_f32_values(c, x1, 1, 2);
  case_s64_values(c, x2, 1, 1);
  case_expect(c, y, 4, 0);
  c->no_gradient = "the row has none";
}


OP_CASES(index_put) = {adds_repeated, sets_rows, NULL};
