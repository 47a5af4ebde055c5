/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of pooling, shared by the definition and the fast form. */
#ifndef INTACT_OPS_POOL_H
#define INTACT_OPS_POOL_H

#include "ops/layer.h"

typedef struct intact_pool {
  int64_t planes;       /* product of batch and channels */
  intact_window window; /* of adaptive pools only n, in and out are set */
  bool adaptive, include_pad;
  int64_t divisor; /* 0: the number of elements */
} intact_pool;

/* The elements that one result looks at: first, first + step, ... below end on each axis. */
typedef struct intact_pool_cell {
  int64_t first[3], end[3], step[3];
  double divisor;
} intact_pool_cell;

void intact__pool_geometry(const intact_node *node, const intact_tensor *x, const intact_tensor *y, intact_pool *pool);
/* Cell of result o of a plane. */
intact_pool_cell intact__pool_cell(const intact_pool *pool, int64_t o);

#endif
