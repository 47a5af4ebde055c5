/* SPDX-License-Identifier: Apache-2.0 */
/* The pass row: a rewrite of a graph that states its precondition and keeps the graph's meaning. Rows live in src/passes,
   listed in passes.def in the order they run. */
#ifndef INTACT_GRAPH_PASS_H
#define INTACT_GRAPH_PASS_H

#include "graph/graph.h"

typedef struct intact_pass {
  const char *name; /* "fold_batch_norm" */
  const char *doc;  /* what it does, one sentence */
  const char *precondition; /* when a place is rewritten; a place where it does not hold is left as it is */
  intact_stage needs, gives; /* a pass runs on graphs of stage `needs` and leaves them in stage `gives` */
  /* What may change in the numbers: "exact", or where and how much. Tested against the unrewritten graph. */
  const char *numerics;
  /* Rewrites in place; *changed counts the places. */
  intact_status (*run)(intact_graph *graph, int64_t *changed);
} intact_pass;

extern const intact_pass *const intact__passes[];
extern const int intact__n_passes;
const intact_pass *intact__find_pass(const char *name);
/* Runs all passes between the two stages in the table's order; what became dead goes after each. Verifies the result. */
intact_status intact__run_passes(intact_graph *graph, intact_stage from, intact_stage to);

#endif
