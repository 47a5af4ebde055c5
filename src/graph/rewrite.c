/* SPDX-License-Identifier: Apache-2.0 */
/* Changing graphs: operands, uses, order, names; removing what nobody needs. */
#include <assert.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/quantizer.h"

static void unlink_use(intact_node *node, int operand) {
  intact_value *old = node->operands[operand];
  if (old == NULL) return;
  intact_use *use = &node->uses[operand];
  *(use->prev != NULL ? &use->prev->next : &old->uses) = use->next;
  *(use->next != NULL ? &use->next->prev : &old->last_use) = use->prev;
  old->n_uses--;
  node->operands[operand] = NULL;
}

void intact__node_set_operand(intact_node *node, int operand, intact_value *value) {
  assert(operand >= 0 && operand < node->n_operands);
  unlink_use(node, operand);
  if (value == NULL) return;
  intact_use *use = &node->uses[operand];
  *use = (intact_use){.node = node, .operand = operand, .prev = value->last_use};
  *(value->last_use != NULL ? &value->last_use->next : &value->uses) = use;
  value->last_use = use;
  value->n_uses++;
  node->operands[operand] = value;
}

intact_status intact__node_extend(intact_node *node, int n) {
  if (n <= node->n_operands) return INTACT_OK;
  intact_arena *arena = &node->graph->arena;
  intact_value **operands = intact__arena_alloc(arena, (size_t)n, sizeof *operands);
  intact_use *uses = intact__arena_alloc(arena, (size_t)n, sizeof *uses);
  if (operands == NULL || uses == NULL) return intact__no_memory(arena->context, (size_t)n * sizeof *uses);
  for (int i = 0; i < node->n_operands; i++) {
    intact_value *value = node->operands[i];
    operands[i] = value;
    uses[i] = node->uses[i];
    if (value == NULL) continue;
    *(uses[i].prev != NULL ? &uses[i].prev->next : &value->uses) = &uses[i];
    *(uses[i].next != NULL ? &uses[i].next->prev : &value->last_use) = &uses[i];
  }
  if (node->annotation) {
    intact_wish *wishes = intact__arena_alloc(arena, (size_t)n, sizeof *wishes);
    if (wishes == NULL) return intact__no_memory(arena->context, (size_t)n * sizeof *wishes);
    if (node->n_operands > 0) memcpy(wishes, node->annotation->operands, (size_t)node->n_operands * sizeof *wishes);
    node->annotation->operands = wishes;
  }
  node->operands = operands;
  node->uses = uses;
  node->n_operands = n;
  return INTACT_OK;
}

void intact__value_swap_names(intact_value *a, intact_value *b) {
  intact_map *names = &a->graph->value_names;
  const char *name = a->name;
  a->name = b->name;
  b->name = name;
  /* Both keys are in the map already: setting them again needs no memory. */
  (void)intact__map_set(names, a->name, a->id);
  (void)intact__map_set(names, b->name, b->id);
}

void intact__value_replace_uses(intact_value *value, intact_value *by) {
  if (value == by) return;
  while (value->uses != NULL) intact__node_set_operand(value->uses->node, value->uses->operand, by);
  if (!value->is_output) return;
  intact_graph *graph = value->graph;
  assert(by->graph == graph);
  for (int i = 0; i < graph->n_outputs; i++)
    if (graph->outputs[i] == value) graph->outputs[i] = by;
  if (by->producer != NULL && !by->is_output) intact__value_swap_names(value, by);
  value->is_output = false;
  by->is_output = true;
}

static void remove_value(intact_graph *graph, intact_value *value) {
  intact_tensor_destroy(value->constant);
  value->constant = NULL;
  graph->values[value->id] = NULL;
}

void intact__node_remove(intact_node *node) {
  intact_graph *graph = node->graph;
  for (int i = 0; i < node->n_operands; i++) unlink_use(node, i);
  for (int i = 0; i < node->n_results; i++) {
    assert(node->results[i]->n_uses == 0 && !node->results[i]->is_output);
    remove_value(graph, node->results[i]);
  }
  intact__node_release(node);
  if (node->prev != NULL) {
    node->prev->next = node->next;
  } else {
    graph->first = node->next;
  }
  if (node->next != NULL) {
    node->next->prev = node->prev;
  } else {
    graph->last = node->prev;
  }
  graph->n_nodes--;
}

void intact__node_drop_results(intact_node *node, int n) {
  while (node->n_results > n) {
    intact_value *last = node->results[node->n_results - 1];
    if (last->n_uses > 0 || last->is_output) return;
    remove_value(node->graph, last);
    node->n_results--;
  }
}

void intact__node_move_before(intact_node *node, intact_node *before) {
  intact_graph *graph = node->graph;
  if (node == before || node->next == before) return;
  if (node->prev != NULL) {
    node->prev->next = node->next;
  } else {
    graph->first = node->next;
  }
  if (node->next != NULL) {
    node->next->prev = node->prev;
  } else {
    graph->last = node->prev;
  }
  node->next = before;
  node->prev = before != NULL ? before->prev : graph->last;
  if (node->prev != NULL) {
    node->prev->next = node;
  } else {
    graph->first = node;
  }
  if (before != NULL) {
    before->prev = node;
  } else {
    graph->last = node;
  }
}

/* Whether the list "a+b" holds `name` (of `length`) already. */
static bool has_source(const char *list, const char *name, size_t length) {
  while (*list != 0) {
    const size_t part = strcspn(list, "+");
    if (part == length && strncmp(list, name, length) == 0) return true;
    list += part + (list[part] == '+');
  }
  return false;
}

intact_status intact__node_add_source(intact_node *node, const char *source) {
  intact_arena *arena = &node->graph->arena;
  while (*source != 0) {
    const size_t part = strcspn(source, "+");
    if (part > 0 && !has_source(node->source, source, part)) {
      const char *joined = node->source[0] != 0 ? intact__arena_format(arena, "%s+%.*s", node->source, (int)part, source)
                                                : intact__arena_format(arena, "%.*s", (int)part, source);
      if (joined == NULL) return intact__no_memory(node->graph->context, part);
      node->source = joined;
    }
    source += part + (source[part] == '+');
  }
  return INTACT_OK;
}

intact_status intact__value_set_qparams(intact_graph *graph, intact_value *value, const intact_qparams *qparams) {
  if (qparams == NULL) {
    value->qparams = NULL;
    return INTACT_OK;
  }
  const intact_qparams *kept = intact__qparams_copy(&graph->arena, qparams);
  if (kept == NULL) return intact__no_memory(graph->context, sizeof *kept);
  value->qparams = kept;
  value->dtype = kept->dtype;
  value->elements = NULL;
  value->n_elements = 0;
  return INTACT_OK;
}

static bool is_dead(const intact_node *node) {
  if (node->op->has_effect) return false;
  for (int i = 0; i < node->n_results; i++)
    if (node->results[i]->n_uses > 0 || node->results[i]->is_output) return false;
  return true;
}

void intact__graph_remove_dead(intact_graph *graph) {
  for (intact_node *node = graph->last; node != NULL;) {
    intact_node *prev = node->prev;
    if (is_dead(node)) {
      intact__node_remove(node);
    } else {
      for (int i = 0; i < node->n_bodies; i++) intact__graph_remove_dead(node->bodies[i]);
    }
    node = prev;
  }
  for (size_t i = 0; i < graph->n_values; i++) {
    intact_value *value = graph->values[i];
    if (value != NULL && value->constant != NULL && value->n_uses == 0 && !value->is_output) remove_value(graph, value);
  }
}
