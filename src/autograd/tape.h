/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of the tape: variables and the records behind them. */
#ifndef INTACT_AUTOGRAD_TAPE_H
#define INTACT_AUTOGRAD_TAPE_H

#include "graph/graph.h"
#include "intact/autograd.h"

typedef struct intact_record intact_record;

struct intact_variable {
  intact_context *context;
  intact_tensor *tensor, *gradient;
  intact_record *producer; /* NULL: a leaf */
  int result;              /* index among the producer's results */
  int holders;
  bool requires_grad, keeps_gradient;
  intact_variable *next_freed;
};

/* A tensor as a gradient will want to see it again. */
typedef struct intact_saved {
  intact_tensor *tensor; /* NULL: left out */
  uint32_t version;
} intact_saved;

/* One call: counted by the variables it gave and by the walk that it is part of. */
struct intact_record {
  intact_context *context;
  const intact_node *node;
  uint64_t sequence, walk; /* walk: the last backward that reached it */
  int holders;
  int n_operands, n_results;
  bool is_freed;               /* a backward has passed */
  intact_variable **sources;   /* n_operands: where gradients go on to, NULL: nowhere */
  intact_saved *operands, *results;
  intact_tensor **d_results;   /* while a backward is on its way */
  intact_variable **kept;      /* n_results: variables that keep their gradient; not held */
};

/* What a context keeps for its tape. */
typedef struct intact_tape {
  uint64_t sequence, walk;
  bool disabled;
  intact_map eager; /* key of a call -> index in calls */
  struct intact_eager_call {
    char *key;
    intact_graph *graph;
    intact_node *node;
  } *calls;
  size_t n_calls, calls_capacity;
} intact_tape;

intact_status intact__tape(intact_context *context, intact_tape **tape);

/* A variable on this tensor, which is taken over, also on failure. */
intact_status intact__variable_make(intact_context *context, intact_tensor *tensor, bool requires_grad, intact_variable **variable);
/* Evaluates the node on `tensors` (NULL: left out) and records it when one of `sources` (the variables behind them, NULL where there
   is none) requires gradients. n_results variables (at most the node's) become owned by the caller. */
intact_status intact__tape_call(const intact_node *node, const intact_tensor *const *tensors, intact_variable *const *sources,
                                int n_results, intact_variable **results);
void intact__record_release(intact_record *record); /* takes NULL */
/* Lets go of what a record saved. */
void intact__record_clear(intact_record *record);

/* *sum += d, either may be shared with others; *sum NULL: becomes a handle on d. */
intact_status intact__add_gradient(intact_tensor **sum, const intact_tensor *d);

#endif
