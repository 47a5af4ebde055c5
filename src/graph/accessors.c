/* SPDX-License-Identifier: Apache-2.0 */
/* What the public interface tells of a graph. */
#include "graph/graph.h"

const char *intact_stage_text(intact_stage stage) {
  static const char *const texts[] = {"float", "observed", "qdq", "integer"};
  return (unsigned)stage < INTACT_COUNT_OF(texts) ? texts[stage] : "?";
}

intact_stage intact_graph_stage(const intact_graph *graph) { return graph->stage; }
int intact_graph_input_count(const intact_graph *graph) { return graph->n_inputs; }
int intact_graph_output_count(const intact_graph *graph) { return graph->n_outputs; }

static intact_value_info info_of(const intact_value *value) {
  intact_value_info info = {.name = value->name, .dtype = value->dtype, .rank = value->rank, .qparams = value->qparams};
  for (int i = 0; i < value->rank; i++) info.dims[i] = value->dims[i];
  return info;
}

static const intact_value_info nothing = {.name = "", .rank = -1};

intact_value_info intact_graph_input(const intact_graph *graph, int index) {
  return index >= 0 && index < graph->n_inputs ? info_of(graph->inputs[index]) : nothing;
}

intact_value_info intact_graph_output(const intact_graph *graph, int index) {
  return index >= 0 && index < graph->n_outputs ? info_of(graph->outputs[index]) : nothing;
}

const char *intact_graph_symbol(const intact_graph *graph, int64_t dim) {
  while (graph->parent != NULL) graph = graph->parent;
  return dim < 0 && dim >= -(int64_t)graph->n_symbols ? graph->symbols[-1 - dim] : "";
}

int64_t intact_graph_node_count(const intact_graph *graph) {
  int64_t n = graph->n_nodes;
  for (const intact_node *node = graph->first; node != NULL; node = node->next)
    for (int i = 0; i < node->n_bodies; i++) n += intact_graph_node_count(node->bodies[i]);
  return n;
}

int64_t intact_graph_batch(const intact_graph *graph) {
  for (int i = 0; i < graph->n_inputs; i++)
    if (graph->inputs[i]->rank > 0 && graph->inputs[i]->dims[0] > 0) return graph->inputs[i]->dims[0];
  return 0;
}
