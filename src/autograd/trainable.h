/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of a graph in training. */
#ifndef INTACT_AUTOGRAD_TRAINABLE_H
#define INTACT_AUTOGRAD_TRAINABLE_H

#include "autograd/tape.h"

struct intact_trainable {
  intact_context *context;
  intact_graph *graph;
  bool training, batch_norm_frozen;
  int n;
  intact_value **values;        /* n: the constants that are parameters */
  intact_variable **parameters; /* n */
  int32_t *index;               /* by value id: which parameter, -1 none */
  size_t n_index;
};

/* A batch norm whose running statistics are constants. */
bool intact__trains_statistics(const intact_node *node);
/* autograd/parameters.c: finds the parameters, gives them memory of their own, and readies batch norms. */
intact_status intact__trainable_prepare(intact_trainable *trainable);
void intact__trainable_restore(intact_trainable *trainable);

#endif
