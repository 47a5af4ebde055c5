/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations: how a quantizer wants the operands and results of a node. */
#include "graph/quantizer.h"

intact_annotation *intact__node_annotate(intact_node *node, const char *claimed_by) {
  if (node->annotation) return node->annotation;
  intact_arena *arena = &node->graph->arena;
  intact_annotation *made = intact__arena_alloc(arena, 1, sizeof *made);
  size_t n = (size_t)node->n_operands + (size_t)node->n_results;
  intact_wish *wishes = intact__arena_alloc(arena, n ? n : 1, sizeof *wishes);
  if (!made || !wishes) return NULL;
  made->operands = wishes;
  made->results = wishes + node->n_operands;
  made->claimed_by = claimed_by;
  node->annotation = made;
  return made;
}

static const intact_wish *wish_here(intact_edge edge) {
  if (!edge.node || !edge.node->annotation) return NULL;
  const intact_annotation *annotation = edge.node->annotation;
  return edge.slot >= 0 ? &annotation->operands[edge.slot] : &annotation->results[-1 - edge.slot];
}

const intact_wish *intact__edge_wish(intact_edge edge) {
  const intact_wish *wish = wish_here(edge);
  /* Brent's way to notice a circle: a second pointer that catches up at powers of two. */
  const intact_wish *mark = wish;
  for (int64_t steps = 1, power = 1; wish && wish->kind == INTACT_WISH_SHARED; steps++) {
    wish = wish_here(wish->shared);
    if (wish == mark) return NULL;
    if (steps == power) {
      mark = wish;
      power *= 2;
    }
  }
  return wish && wish->kind != INTACT_WISH_NONE ? wish : NULL;
}
