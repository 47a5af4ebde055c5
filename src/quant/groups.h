/* SPDX-License-Identifier: Apache-2.0 */
/* Which edges of a graph get the same qparams: one union-find over all annotated edges. */
#ifndef INTACT_QUANT_GROUPS_H
#define INTACT_QUANT_GROUPS_H

#include "graph/quantizer.h"
#include "quant/notes.h"

typedef struct intact_groups {
  intact_context *context;
  intact_map first;  /* node name -> its first edge; operands, then results */
  int32_t n_edges;
  int32_t *parent;   /* of the union-find; -1: the edge is in no group */
  const intact_wish **wish; /* at a group's root: what its observation is made from */
} intact_groups;

/* Solves the groups of one graph (bodies have their own). An edge is in a group when its wish, after following `shared`, is own
   or fixed. Joined are: an edge with what it shares; edges of one value whose wishes ask for the same integers (the readers
   among themselves, and with the producer) unless the reader switched that off. Where explicit sharing joins different wishes,
   an observed range goes before a fixed one (it covers all members), and the earlier edge before the later: noted. */
intact_status intact__groups_solve(const intact_graph *graph, intact_note_list *notes, intact_groups *groups);
void intact__groups_fini(intact_groups *groups);
/* Group of an edge as the number of its root, -1: none. */
int32_t intact__group_of(const intact_groups *groups, intact_edge edge);

#endif
