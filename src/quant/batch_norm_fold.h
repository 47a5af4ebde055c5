/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms that are folded while they are trained: remembered before the fold, put back around the layer for training, and folded for
   good when the network is converted. */
#ifndef INTACT_QUANT_BATCH_NORM_FOLD_H
#define INTACT_QUANT_BATCH_NORM_FOLD_H

#include "graph/graph.h"

typedef struct intact_norm_memory {
  const char *layer, *norm; /* node names */
  const char *names[6];     /* of the constants below */
  intact_tensor *tensors[6]; /* the layer's weight; weight, bias, running mean and variance of the norm; the layer's bias. NULL: none */
  double eps, momentum;
} intact_norm_memory;

typedef struct intact_norm_memories {
  intact_context *context;
  intact_norm_memory *items;
  size_t n, capacity;
} intact_norm_memories;

/* Every batch norm that stands right behind a layer, as it is. */
intact_status intact__remember_norms(const intact_graph *graph, intact_norm_memories *memories);
void intact__forget_norms(intact_norm_memories *memories);
/* Where the norm has been folded since: the layer's own weights through fold_weight, and folded_batch_norm behind the layer. `divide`
   is the rule of PyTorch's modules (see fold_weight). */
intact_status intact__unfold_norms(intact_graph *graph, const intact_norm_memories *memories, bool divide);
/* The other way, with the numbers of now: constants again, no norm left. */
intact_status intact__refold_norms(intact_graph *graph);

#endif
