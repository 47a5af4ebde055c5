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

void intact__pool_geometry(const intact_node *node, const intact_tensor *x, const intact_tensor *y, intact_pool *pool);

#endif
