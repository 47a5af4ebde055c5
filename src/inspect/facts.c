/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a graph: nodes, parameters, multiply-accumulates, bytes; and the nodes that stay float. */
#include "base/arena.h"
#include "graph/graph.h"
#include "intact/inspect.h"

static void count_graph(const intact_graph *graph, intact_graph_facts *facts) {
  for (size_t i = 0; i < graph->n_values; i++) {
    const intact_value *value = graph->values[i];
    if (!value || !value->constant) continue;
    facts->parameters += value->constant->count;
    facts->bytes += (int64_t)intact_tensor_bytes(value->constant);
    if (value->qparams && value->qparams->n > 1) facts->bytes += value->qparams->n * 4;
  }
  for (const intact_node *node = graph->first; node; node = node->next) {
    facts->nodes++;
    if (node->op->macs) facts->macs += node->op->macs(node);
    for (int b = 0; b < node->n_bodies; b++) count_graph(node->bodies[b], facts);
  }
}

intact_status intact_graph_count_facts(const intact_graph *graph, intact_graph_facts *facts) {
  intact_graph_facts counted = {0};
  count_graph(graph, &counted);
  *facts = counted;
  return INTACT_OK;
}

typedef struct owned_list {
  intact_float_nodes list; /* first */
  intact_arena arena;
  intact_float_node *nodes;
} owned_list;

/* Why the node computes in float; NULL: it does not, or it computes nothing. */
static const char *float_reason(const intact_node *node, intact_stage stage, intact_arena *arena) {
  const intact_value *result = node->n_results ? node->results[0] : NULL;
  if (!result || result->qparams || !intact_dtype_is_float(result->dtype) || node->n_bodies) return NULL;
  if (intact__is_op(node, "quantize") || intact__is_op(node, "dequantize") || intact__is_op(node, "observe")) return NULL;
  if (stage == INTACT_STAGE_INTEGER) return node->why_float ? node->why_float : "not quantized";
  if (node->op->lower_int || node->op->on_integers) return NULL;
  return intact__arena_format(arena, "no integer kernel for %s", node->op->name);
}

static intact_status list_float(const intact_graph *graph, intact_stage stage, owned_list *made) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    const char *why = float_reason(node, stage, &made->arena);
    if (why) {
      intact_float_node *f = &made->nodes[made->list.n++];
      *f = (intact_float_node){intact__arena_strdup(&made->arena, node->name), node->op->name, intact__arena_strdup(&made->arena, why)};
      if (!f->name || !f->why) return intact__no_memory(graph->context, 1);
    }
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(list_float(node->bodies[b], stage, made));
  }
  return INTACT_OK;
}

static int64_t count_nodes(const intact_graph *graph) {
  intact_graph_facts facts = {0};
  count_graph(graph, &facts);
  return facts.nodes;
}

intact_status intact_float_nodes_create(const intact_graph *graph, intact_float_nodes **list) {
  intact_context *context = graph->context;
  intact_graph *integer = NULL;
  if (graph->stage == INTACT_STAGE_QDQ) {
    intact_status status = intact_graph_copy(graph, &integer);
    if (status == INTACT_OK) status = intact_to_integer(integer);
    if (status != INTACT_OK) {
      intact_graph_destroy(integer);
      return status;
    }
    graph = integer;
  }
  owned_list *made = intact__alloc_zeroed(context, 1, sizeof *made);
  intact_status status = made ? INTACT_OK : intact__no_memory(context, sizeof *made);
  if (made) {
    intact__arena_init(&made->arena, context);
    made->list.nodes = made->nodes = intact__arena_alloc(&made->arena, (size_t)count_nodes(graph) + 1, sizeof *made->nodes);
    status = made->nodes ? list_float(graph, graph->stage, made) : intact__no_memory(context, 1);
  }
  intact_graph_destroy(integer);
  if (status != INTACT_OK) {
    if (made) intact_float_nodes_destroy(context, &made->list);
    return status;
  }
  *list = &made->list;
  return INTACT_OK;
}

void intact_float_nodes_destroy(intact_context *context, intact_float_nodes *list) {
  if (!list) return;
  owned_list *owned = (owned_list *)list;
  intact__arena_fini(&owned->arena);
  intact__free(context, owned);
}
