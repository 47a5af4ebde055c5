/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of a graph in training. */
#ifndef INTACT_AUTOGRAD_TRAINABLE_H
#define INTACT_AUTOGRAD_TRAINABLE_H

#include "autograd/tape.h"

/* Nodes that run as one: norm and clamp (either may be missing) before fake. Active while the fake quantizer's mode allows it. */
typedef struct intact_chain {
  intact_node *norm, *clamp, *fake;
  intact_node *node; /* beside the graph: what stands for a chain with a norm */
  double low, high;  /* of the clamp */
  bool active;
} intact_chain;

typedef struct intact_training_step {
  intact_node *node;
  int chain; /* that it is part of, -1 none */
} intact_training_step;

struct intact_trainable {
  intact_context *context;
  intact_graph *graph;
  bool training, batch_norm_frozen, unfused; /* unfused: no chains, for tests */
  intact_graph *side;                        /* holds the chains' nodes */
  intact_chain *chains;
  int n_chains, n_steps;
  size_t chains_capacity;
  intact_training_step *steps; /* the graph's nodes in order */
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

/* autograd/chains.c */
intact_status intact__trainable_find_chains(intact_trainable *trainable);
void intact__trainable_choose_chains(intact_trainable *trainable); /* before each forward */
void intact__trainable_drop_chains(intact_trainable *trainable);

#endif
