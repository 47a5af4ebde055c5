/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a graph: nodes, parameters, multiply-accumulates, bytes, nodes with an integer kernel. */
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
    if (node->op->lower_int)
      facts->integer_nodes++;
    else
      facts->float_nodes++;
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
