/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of einsum: NumPy's notation. */
#include "ops/op_case.h"

static void matrices(op_case *c) {
  static const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, y[] = {19, 22, 43, 50};
  case_f32_values(c, a, 2, 2, 2);
  case_f32_values(c, b, 2, 2, 2);
  case_string(c, "equation", "ij,jk->ik");
  case_expect(c, y, 4, 0);
}

static void trace(op_case *c) {
  static const float a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[] = {15};
  case_f32_values(c, a, 2, 3, 3);
  case_string(c, "equation", "ii->");
  case_expect(c, y, 1, 0);
}

static void implicit_transposition(op_case *c) {
  static const float a[] = {1, 2, 3, 4, 5, 6}, y[] = {1, 4, 2, 5, 3, 6};
  case_f32_values(c, a, 2, 2, 3);
  case_string(c, "equation", "ba");
  case_expect(c, y, 6, 0);
}

static void batches_of_any_rank(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 1, 3, 4);
  case_f32(c, -1, 1, 3, 2, 4, 3);
  case_string(c, "equation", "...ij, ...jk -> ...ik");
}

static void attention(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 4);
  case_f32(c, -1, 1, 3, 2, 5, 4);
  case_f32(c, -1, 1, 1, 4);
  case_string(c, "equation", "bqd,bkd,d->bqk");
}

OP_CASES(einsum) = {matrices, trace, implicit_transposition, batches_of_any_rank, attention, NULL};
