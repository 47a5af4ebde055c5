/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs, as they are or for other input shapes. */
#include <assert.h>
#include <string.h>

#include "graph/fake_quantizer.h"
#include "graph/internal.h"
#include "graph/quantizer.h"

typedef struct copier {
  const intact_graph *from;
  intact_graph *to;
  intact_value **values; /* by id of the source */
  intact_node **nodes;   /* pairs: source, copy; for annotations that name other nodes */
  size_t n_nodes;
} copier;

static intact_status copy_graph(const intact_graph *from, intact_graph *to);

static intact_status copy_type(intact_graph *to, const intact_value *from, intact_value *value) {
  value->dtype = from->dtype;
  value->rank = from->rank;
  memcpy(value->dims, from->dims, sizeof value->dims);
  if (from->qparams != NULL) INTACT_TRY(intact__value_set_qparams(to, value, from->qparams));
  if (from->elements == NULL) return INTACT_OK;
  int64_t *elements = intact__arena_alloc(&to->arena, (size_t)from->n_elements, sizeof *elements);
  if (elements == NULL) return intact__no_memory(to->context, (size_t)from->n_elements * sizeof *elements);
  if (from->n_elements > 0) memcpy(elements, from->elements, (size_t)from->n_elements * sizeof *elements);
  value->elements = elements;
  value->n_elements = from->n_elements;
  return INTACT_OK;
}

static intact_status copy_constants(copier *c) {
  for (size_t i = 0; i < c->from->n_values; i++) {
    const intact_value *value = c->from->values[i];
    if (value == NULL || value->constant == NULL) continue;
    intact_tensor *shared = NULL;
    INTACT_TRY(intact__tensor_share_in(c->to->context, value->constant, &shared));
    INTACT_TRY(intact__graph_add_constant(c->to, value->name, shared, value->qparams, &c->values[value->id]));
  }
  return INTACT_OK;
}

static intact_status copy_attrs(const intact_node *from, intact_node *to) {
  for (int i = 0; i < from->op->schema.n_attrs; i++) {
    const intact_attr_spec *spec = &from->op->schema.attrs[i];
    const intact_attr *attr = &from->attrs[i];
    if (!attr->present) continue;
    switch (spec->type) {
      case INTACT_ATTR_INT:
      case INTACT_ATTR_BOOL:
      case INTACT_ATTR_DTYPE:
        intact__attr_set_int(to, spec->name, attr->i);
        break;
      case INTACT_ATTR_FLOAT:
        intact__attr_set_float(to, spec->name, attr->f);
        break;
      case INTACT_ATTR_STRING:
        INTACT_TRY(intact__attr_set_string(to, spec->name, attr->s));
        break;
      case INTACT_ATTR_INTS:
        INTACT_TRY(intact__attr_set_ints(to, spec->name, attr->n, attr->ints));
        break;
      case INTACT_ATTR_FLOATS:
        INTACT_TRY(intact__attr_set_floats(to, spec->name, attr->n, attr->floats));
        break;
      case INTACT_ATTR_STRINGS:
        INTACT_TRY(intact__attr_set_strings(to, spec->name, attr->n, attr->strings));
        break;
      case INTACT_ATTR_TENSOR: {
        intact_tensor *shared = NULL;
        if (attr->tensor != NULL) INTACT_TRY(intact__tensor_share_in(to->graph->context, attr->tensor, &shared));
        INTACT_TRY(intact__attr_set_tensor(to, spec->name, shared));
        break;
      }
    }
  }
  return INTACT_OK;
}

static intact_status copy_text(intact_graph *to, const char *text, const char **copy) {
  if (text == NULL) return INTACT_OK;
  *copy = intact__arena_strdup(&to->arena, text);
  return *copy != NULL ? INTACT_OK : intact__no_memory(to->context, strlen(text) + 1);
}

static intact_status copy_node(copier *c, const intact_node *from, intact_value **operands, const char **names) {
  for (int i = 0; i < from->n_operands; i++) operands[i] = from->operands[i] != NULL ? c->values[from->operands[i]->id] : NULL;
  for (int i = 0; i < from->n_results; i++) names[i] = from->results[i]->name;
  intact_node *node = NULL;
  INTACT_TRY(intact__graph_add_node(c->to, from->op, from->name, from->n_operands, operands, from->n_results, names, NULL, &node));
  INTACT_TRY(copy_attrs(from, node));
  INTACT_TRY(copy_text(c->to, from->source, &node->source));
  INTACT_TRY(copy_text(c->to, from->module_path, &node->module_path));
  INTACT_TRY(copy_text(c->to, from->module_type, &node->module_type));
  INTACT_TRY(copy_text(c->to, from->why_float, &node->why_float));
  node->divides = from->divides;
  for (int i = 0; i < from->n_results; i++) {
    INTACT_TRY(copy_type(c->to, from->results[i], node->results[i]));
    c->values[from->results[i]->id] = node->results[i];
  }
  for (int i = 0; i < from->n_bodies; i++) {
    intact_graph *body = NULL;
    INTACT_TRY(intact__node_add_body(node, from->bodies[i]->name, &body));
    INTACT_TRY(copy_graph(from->bodies[i], body));
  }
  memcpy(&c->nodes[c->n_nodes++], &from, sizeof from);
  c->nodes[c->n_nodes++] = node;
  return INTACT_OK;
}

static intact_status copy_nodes(copier *c) {
  int widest = 1;
  for (const intact_node *node = c->from->first; node != NULL; node = node->next) {
    if (node->n_operands > widest) widest = node->n_operands;
    if (node->n_results > widest) widest = node->n_results;
  }
  intact_context *context = c->to->context;
  intact_value **operands = intact__alloc(context, (size_t)widest, sizeof *operands);
  const char **names = intact__alloc(context, (size_t)widest, sizeof *names);
  intact_status status = operands != NULL && names != NULL ? INTACT_OK : intact__no_memory(context, (size_t)widest * sizeof *names);
  for (const intact_node *node = c->from->first; node != NULL && status == INTACT_OK; node = node->next)
    status = copy_node(c, node, operands, names);
  intact__free(context, operands);
  intact__free(context, names);
  return status;
}

/* Observations that several nodes share stay shared in the copy. */
static intact_status copy_observations(copier *c) {
  for (size_t i = 0; i < c->n_nodes; i += 2) {
    intact_observation *observation = c->nodes[i]->observation;
    for (size_t k = 0; observation != NULL && k < i && c->nodes[i + 1]->observation == NULL; k += 2)
      if (c->nodes[k]->observation == observation)
        c->nodes[i + 1]->observation = intact__observation_retain(c->nodes[k + 1]->observation);
    if (observation != NULL && c->nodes[i + 1]->observation == NULL)
      INTACT_TRY(intact__observation_copy(c->to->context, observation, &c->nodes[i + 1]->observation));
  }
  return INTACT_OK;
}

/* Learned qparams are constants that share their elements with the fake quantizer: with the copy's, in the copy. */
static intact_status link_learned(copier *c) {
  for (size_t i = 0; i < c->n_nodes; i += 2) {
    const intact_observation *from = c->nodes[i]->observation, *to = c->nodes[i + 1]->observation;
    for (int k = 1; from != NULL && from->fake != NULL && k < c->nodes[i]->n_operands; k++) {
      const intact_tensor *old = k == 1 ? from->fake->scale : from->fake->zero_point;
      intact_value *value = c->nodes[i + 1]->operands[k];
      if (value == NULL || value->constant == NULL || value->constant->data != old->data) continue;
      intact_tensor *shared;
      INTACT_TRY(intact_tensor_share(k == 1 ? to->fake->scale : to->fake->zero_point, 0, NULL, &shared));
      intact_tensor_destroy(value->constant);
      value->constant = shared;
    }
  }
  return INTACT_OK;
}

static intact_edge copy_edge(const copier *c, intact_edge edge) {
  for (size_t i = 0; i < c->n_nodes; i += 2)
    if (c->nodes[i] == edge.node) return (intact_edge){c->nodes[i + 1], edge.slot};
  return edge;
}

static intact_status copy_wishes(copier *c, int n, const intact_wish *from, intact_wish *to) {
  for (int i = 0; i < n; i++) {
    to[i] = from[i];
    INTACT_TRY(copy_text(c->to, from[i].spec.options, &to[i].spec.options));
    to[i].shared = copy_edge(c, from[i].shared);
    to[i].from[0] = copy_edge(c, from[i].from[0]);
    to[i].from[1] = copy_edge(c, from[i].from[1]);
  }
  return INTACT_OK;
}

static intact_status copy_annotations(copier *c) {
  for (size_t i = 0; i < c->n_nodes; i += 2) {
    const intact_node *from = c->nodes[i];
    intact_node *to = c->nodes[i + 1];
    if (from->annotation == NULL) continue;
    intact_annotation *made = intact__arena_alloc(&c->to->arena, 1, sizeof *made);
    if (made == NULL) return intact__no_memory(c->to->context, sizeof *made);
    *made = *from->annotation;
    made->operands = intact__arena_alloc(&c->to->arena, (size_t)from->n_operands, sizeof *made->operands);
    made->results = intact__arena_alloc(&c->to->arena, (size_t)from->n_results, sizeof *made->results);
    if (made->operands == NULL || made->results == NULL) return intact__no_memory(c->to->context, sizeof *made->operands);
    INTACT_TRY(copy_wishes(c, from->n_operands, from->annotation->operands, made->operands));
    INTACT_TRY(copy_wishes(c, from->n_results, from->annotation->results, made->results));
    INTACT_TRY(copy_text(c->to, from->annotation->claimed_by, &made->claimed_by));
    to->annotation = made;
  }
  return INTACT_OK;
}

/* Those of the outermost graph: a body may be copied alone. */
static intact_status copy_symbols(const intact_graph *from, intact_graph *to) {
  while (from->parent != NULL) from = from->parent;
  for (int i = 0; i < from->n_symbols; i++)
    if (intact__graph_symbol(to, from->symbols[i]) != -1 - (int64_t)i) return intact__no_memory(to->context, 0);
  return INTACT_OK;
}

static intact_status copy_content(copier *c) {
  const intact_graph *from = c->from;
  intact_graph *to = c->to;
  to->stage = from->stage;
  INTACT_TRY(copy_text(to, from->requantize, &to->requantize));
  for (int i = 0; i < from->n_meta; i++) INTACT_TRY(intact__graph_add_meta(to, from->meta[2 * i], from->meta[2 * i + 1]));
  if (to->parent == NULL) INTACT_TRY(copy_symbols(from, to));
  for (int i = 0; i < from->n_inputs; i++) {
    const intact_value *input = from->inputs[i];
    intact_value **value = &c->values[input->id];
    INTACT_TRY(intact__graph_add_input(to, input->name, input->dtype, input->rank, input->dims, value));
    INTACT_TRY(copy_type(to, input, *value));
  }
  INTACT_TRY(copy_constants(c));
  INTACT_TRY(copy_nodes(c));
  INTACT_TRY(copy_observations(c));
  INTACT_TRY(link_learned(c));
  INTACT_TRY(copy_annotations(c));
  intact_value **outputs = intact__arena_alloc(&to->arena, (size_t)from->n_outputs, sizeof *outputs);
  if (outputs == NULL) return intact__no_memory(to->context, (size_t)from->n_outputs * sizeof *outputs);
  for (int i = 0; i < from->n_outputs; i++) outputs[i] = c->values[from->outputs[i]->id];
  return intact__graph_set_outputs(to, from->n_outputs, outputs);
}

static intact_status copy_graph(const intact_graph *from, intact_graph *to) {
  intact_context *context = to->context;
  copier c = {.from = from, .to = to};
  c.values = intact__alloc_zeroed(context, from->n_values + 1, sizeof *c.values);
  c.nodes = intact__alloc_zeroed(context, 2 * (size_t)from->n_nodes + 1, sizeof *c.nodes);
  const intact_status status =
      c.values != NULL && c.nodes != NULL ? copy_content(&c) : intact__no_memory(context, from->n_values * sizeof *c.values);
  intact__free(context, c.values);
  intact__free(context, c.nodes);
  return status;
}

intact_status intact_graph_copy(const intact_graph *graph, intact_graph **copy) {
  return intact__graph_copy_to(graph, graph->context, copy);
}

intact_status intact__graph_copy_to(const intact_graph *graph, intact_context *context, intact_graph **copy) {
  intact_graph *made = NULL;
  INTACT_TRY(intact__graph_create(context, graph->name, &made));
  const intact_status status = copy_graph(graph, made);
  if (status != INTACT_OK) {
    intact_graph_destroy(made);
    return status;
  }
  *copy = made;
  return INTACT_OK;
}

/* ---- other shapes ---- */
static intact_status check_input(const intact_graph *graph, const intact_value *input, const intact_tensor *tensor,
                                 int n_symbols, int64_t *symbols) {
  intact_context *context = graph->context;
  char is[200], wanted[200];
  if (tensor->dtype != input->dtype)
    INTACT_FAIL(context, TYPE_MISMATCH, input->name, "input %s is %s, the graph takes %s", input->name,
                intact_dtype_text(tensor->dtype), intact_dtype_text(input->dtype));
  if (input->rank < 0) return INTACT_OK;
  bool fits = tensor->rank == input->rank;
  for (int i = 0; fits && i < input->rank; i++) {
    if (input->dims[i] >= 0) {
      fits = tensor->dims[i] == input->dims[i];
      continue;
    }
    if (input->dims[i] < -(int64_t)n_symbols) continue;
    int64_t *known = &symbols[-1 - input->dims[i]];
    if (*known >= 0 && *known != tensor->dims[i])
      INTACT_FAIL(context, SIZE_MISMATCH, input->name, "input %s has shape %s: dimension %d, %s, is %lld in another place",
                  input->name, intact__shape_text(tensor->rank, tensor->dims, is), i, intact_graph_symbol(graph, input->dims[i]),
                  (long long)*known);
    *known = tensor->dims[i];
  }
  if (!fits)
    INTACT_FAIL(context, SIZE_MISMATCH, input->name, "input %s has shape %s, the graph takes %s (? is any size)", input->name,
                intact__shape_text(tensor->rank, tensor->dims, is), intact__shape_text(input->rank, input->dims, wanted));
  return INTACT_OK;
}

static int count_symbols(const intact_graph *graph) {
  while (graph->parent != NULL) graph = graph->parent;
  return graph->n_symbols;
}

intact_status intact__graph_check_inputs(const intact_graph *graph, const intact_tensor *const *inputs) {
  intact_context *context = graph->context;
  const int n = count_symbols(graph);
  int64_t *symbols = intact__alloc(context, (size_t)n + 1, sizeof *symbols);
  if (symbols == NULL) return intact__no_memory(context, (size_t)n * sizeof *symbols);
  for (int i = 0; i < n; i++) symbols[i] = -1;
  intact_status status = INTACT_OK;
  for (int i = 0; i < graph->n_inputs && status == INTACT_OK; i++)
    status = check_input(graph, graph->inputs[i], inputs[i], n, symbols);
  intact__free(context, symbols);
  return status;
}

intact_status intact__graph_with_shapes(const intact_graph *graph, const intact_tensor *const *inputs, intact_graph **copy) {
  INTACT_TRY(intact__graph_check_inputs(graph, inputs));
  intact_graph *made = NULL;
  INTACT_TRY(intact_graph_copy(graph, &made));
  for (int i = 0; i < made->n_inputs; i++) {
    made->inputs[i]->rank = inputs[i]->rank;
    memcpy(made->inputs[i]->dims, inputs[i]->dims, sizeof made->inputs[i]->dims);
  }
  const intact_status status = intact__graph_infer(made);
  if (status != INTACT_OK) {
    intact_graph_destroy(made);
    return status;
  }
  *copy = made;
  return INTACT_OK;
}
