/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of matmul. */
#include "ops/op_case.h"

static void both_broadcast(op_case *c) {
  case_f32(c, -1, 1, 4, 2, 1, 3, 4);
  case_f32(c, -1, 1, 3, 3, 4, 2);
}

static void rows_of_one_matrix(op_case *c) {
  case_f32(c, -1, 1, 3, 2, 3, 4);
  case_f32(c, -1, 1, 2, 4, 5);
}

static void batches(op_case *c) {
  case_f32(c, -1, 1, 3, 3, 2, 4);
  case_f32(c, -1, 1, 3, 3, 4, 2);
}

static void vectors(op_case *c) {
  case_f32(c, -1, 1, 1, 5);
  case_f32(c, -1, 1, 1, 5);
}

static void vector_by_stack(op_case *c) {
  case_f32(c, -1, 1, 1, 4);
  case_f32(c, -1, 1, 3, 2, 4, 3);
}

OP_CASES(matmul) = {both_broadcast, rows_of_one_matrix, batches, vectors, vector_by_stack, NULL};
