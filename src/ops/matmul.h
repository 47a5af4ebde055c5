/* SPDX-License-Identifier: Apache-2.0 */
/* How a matmul with broadcasting falls into plain products. */
#ifndef INTACT_OPS_MATMUL_H
#define INTACT_OPS_MATMUL_H

#include "ops/layer.h"

typedef struct intact_matmul {
  int64_t m, n, k, batches;
  int rank;                                                                        /* leading dimensions */
  int64_t dims[INTACT_MAX_RANK], step_a[INTACT_MAX_RANK], step_b[INTACT_MAX_RANK]; /* steps 0 where broadcast */
} intact_matmul;

void intact__matmul_plan(const intact_tensor *a, const intact_tensor *b, intact_matmul *plan);
/* Where the matrices of product `batch` begin. */
void intact__matmul_offsets(const intact_matmul *plan, int64_t batch, int64_t *a, int64_t *b);

#endif
