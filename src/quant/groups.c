/* SPDX-License-Identifier: Apache-2.0 */
/* Which edges of a graph get the same qparams: one union-find over all annotated edges. */
#include "quant/groups.h"

static int32_t edge_index(const intact_groups *groups, intact_edge edge) {
  int64_t first = 0;
  if (!intact__map_get(&groups->first, edge.node->name, &first)) return -1;
  return (int32_t)first + (edge.slot >= 0 ? edge.slot : edge.node->n_operands - 1 - edge.slot);
}

static int32_t find(const intact_groups *groups, int32_t edge) {
  int32_t *parent = groups->parent;
  while (parent[edge] != edge) {
    parent[edge] = parent[parent[edge]];
    edge = parent[edge];
  }
  return edge;
}

/* An observed range goes before a fixed one, an earlier edge before a later. */
static void join(intact_groups *groups, int32_t a, int32_t b) {
  if (a < 0 || b < 0 || groups->parent[a] < 0 || groups->parent[b] < 0) return;
  a = find(groups, a);
  b = find(groups, b);
  if (a == b) return;
  bool a_own = groups->wish[a]->kind == INTACT_WISH_OWN, b_own = groups->wish[b]->kind == INTACT_WISH_OWN;
  if (a_own == b_own ? b < a : b_own) {
    int32_t swapped = a;
    a = b;
    b = swapped;
  }
  groups->parent[b] = a;
}

static bool same_integers(const intact_wish *a, const intact_wish *b) {
  const intact_quant_spec *s = &a->spec, *t = &b->spec;
  return a->kind == b->kind && s->dtype == t->dtype && s->is_dynamic == t->is_dynamic && s->quant_min == t->quant_min &&
         s->quant_max == t->quant_max && s->scheme == t->scheme && s->axis == t->axis && s->group == t->group &&
         (a->kind != INTACT_WISH_FIXED ||
          (!(a->fixed_scale < b->fixed_scale || a->fixed_scale > b->fixed_scale) && a->fixed_zero_point == b->fixed_zero_point));
}

static void enter(intact_groups *groups, intact_edge edge) {
  const intact_wish *wish = intact__edge_wish(edge);
  int32_t index = edge_index(groups, edge);
  bool grouped = wish && (wish->kind == INTACT_WISH_OWN || wish->kind == INTACT_WISH_FIXED);
  groups->parent[index] = grouped ? index : -1;
  groups->wish[index] = grouped ? wish : NULL;
}

static void join_shared(intact_groups *groups, intact_edge edge) {
  const intact_annotation *annotation = edge.node->annotation;
  const intact_wish *wish = edge.slot >= 0 ? &annotation->operands[edge.slot] : &annotation->results[-1 - edge.slot];
  if (wish->kind == INTACT_WISH_SHARED) join(groups, edge_index(groups, edge), edge_index(groups, wish->shared));
}

/* The other readers of the value, then its producer. */
static void join_implicitly(intact_groups *groups, intact_edge edge) {
  const intact_wish *wish = intact__edge_wish(edge);
  const intact_value *value = intact__edge_value(edge);
  if (!wish || !value || edge.node->annotation->no_implicit_sharing) return;
  int32_t index = edge_index(groups, edge);
  for (const intact_use *use = value->uses; use; use = use->next) {
    intact_edge other = intact__operand_edge(use->node, use->operand);
    const intact_wish *theirs = intact__edge_wish(other);
    if (theirs && same_integers(wish, theirs)) join(groups, index, edge_index(groups, other));
  }
  if (!value->producer) return;
  intact_edge produced = intact__result_edge(value->producer, value->result);
  const intact_wish *theirs = intact__edge_wish(produced);
  if (theirs && same_integers(wish, theirs)) join(groups, index, edge_index(groups, produced));
}

static void for_each_edge(intact_groups *groups, const intact_graph *graph, void (*visit)(intact_groups *, intact_edge)) {
  for (intact_node *node = graph->first; node; node = node->next) {
    if (!node->annotation) continue;
    for (int i = 0; i < node->n_operands; i++)
      if (node->operands[i]) visit(groups, intact__operand_edge(node, i));
    for (int r = 0; r < node->n_results; r++) visit(groups, intact__result_edge(node, r));
  }
}

static intact_status note_conflict(const intact_groups *groups, intact_edge edge, intact_note_list *notes) {
  int32_t index = edge_index(groups, edge);
  if (groups->parent[index] < 0) return INTACT_OK;
  const intact_wish *mine = groups->wish[index], *chosen = groups->wish[find(groups, index)];
  if (same_integers(mine, chosen)) return INTACT_OK;
  return intact__note(notes, "shared range: %s of node %s takes the range of its group instead of its own",
                      edge.slot >= 0 ? "an operand" : "the result", edge.node->name);
}

intact_status intact__groups_solve(const intact_graph *graph, intact_note_list *notes, intact_groups *groups) {
  *groups = (intact_groups){.context = graph->context};
  intact__map_init(&groups->first, graph->context);
  intact_status status = INTACT_OK;
  int64_t edges = 0;
  for (const intact_node *node = graph->first; node; node = node->next) {
    INTACT_TRY_TO(fail, intact__map_set(&groups->first, node->name, edges));
    edges += node->n_operands + node->n_results;
  }
  if (edges > INT32_MAX) INTACT_FAIL_TO(fail, graph->context, OVERFLOW, graph->name, "a graph of %lld edges", (long long)edges);
  groups->n_edges = (int32_t)edges;
  groups->parent = intact__alloc(graph->context, (size_t)edges + 1, sizeof *groups->parent);
  groups->wish = intact__alloc_zeroed(graph->context, (size_t)edges + 1, sizeof *groups->wish);
  if (!groups->parent || !groups->wish) INTACT_TRY_TO(fail, intact__no_memory(graph->context, (size_t)edges));
  for (int64_t i = 0; i < edges; i++) groups->parent[i] = -1;
  for_each_edge(groups, graph, enter);
  for_each_edge(groups, graph, join_shared);
  for_each_edge(groups, graph, join_implicitly);
  for (intact_node *node = graph->first; node; node = node->next) {
    if (!node->annotation) continue;
    for (int i = 0; i < node->n_operands; i++)
      if (node->operands[i]) INTACT_TRY_TO(fail, note_conflict(groups, intact__operand_edge(node, i), notes));
    for (int r = 0; r < node->n_results; r++) INTACT_TRY_TO(fail, note_conflict(groups, intact__result_edge(node, r), notes));
  }
  return INTACT_OK;
fail:
  intact__groups_fini(groups);
  return status;
}

void intact__groups_fini(intact_groups *groups) {
  intact__free(groups->context, groups->parent);
  intact__free(groups->context, (void *)groups->wish);
  intact__map_fini(&groups->first);
  *groups = (intact_groups){.context = groups->context};
  intact__map_init(&groups->first, groups->context);
}

int32_t intact__group_of(const intact_groups *groups, intact_edge edge) {
  int32_t index = edge_index(groups, edge);
  return index < 0 || groups->parent[index] < 0 ? -1 : find(groups, index);
}
