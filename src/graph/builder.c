/* SPDX-License-Identifier: Apache-2.0 */
/* Making graphs: inputs, constants, nodes, bodies, names and symbols. */
#include <assert.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/observer.h"

/* Names go into reports, JSON and files, all of which are UTF-8. `name` itself stays out of the message. */
intact_status intact__check_name(intact_context *context, const char *kind, const char *name) {
  if (intact__is_utf8(name)) return INTACT_OK;
  INTACT_FAIL(context, INVALID_VALUE, "", "the name of a %s is no valid UTF-8 (%zu bytes); rename it", kind, strlen(name));
}

intact_status intact__graph_create(intact_context *context, const char *name, intact_graph **graph) {
  if (name != NULL) INTACT_TRY(intact__check_name(context, "graph", name));
  intact_graph *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(context, sizeof *made);
  made->context = context;
  intact__arena_init(&made->arena, context);
  intact__map_init(&made->value_names, context);
  intact__map_init(&made->node_names, context);
  intact__map_init(&made->symbol_names, context);
  made->stage = INTACT_STAGE_FLOAT;
  made->requantize = "f32_rne";
  made->name = intact__arena_strdup(&made->arena, name != NULL ? name : "");
  if (made->name == NULL) {
    intact_graph_destroy(made);
    return intact__no_memory(context, 0);
  }
  *graph = made;
  return INTACT_OK;
}

void intact__node_release(intact_node *node) {
  for (int i = 0; i < node->n_bodies; i++) intact_graph_destroy(node->bodies[i]);
  node->n_bodies = 0;
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    intact_tensor_destroy(node->attrs[i].tensor);
    node->attrs[i].tensor = NULL;
  }
  intact__observation_release(node->observation);
  node->observation = NULL;
}

void intact_graph_destroy(intact_graph *graph) {
  if (graph == NULL) return;
  for (intact_node *node = graph->first; node != NULL; node = node->next) intact__node_release(node);
  for (size_t i = 0; i < graph->n_values; i++)
    if (graph->values[i] != NULL) intact_tensor_destroy(graph->values[i]->constant);
  intact_context *context = graph->context;
  intact__map_fini(&graph->value_names);
  intact__map_fini(&graph->node_names);
  intact__map_fini(&graph->symbol_names);
  intact__free(context, graph->values);
  intact__free(context, graph->symbols);
  intact__arena_fini(&graph->arena);
  intact__free(context, graph);
}

/* ---- names ---- */
static bool name_taken(const intact_graph *graph, const char *name) {
  int64_t ignored;
  return intact__map_get(&graph->value_names, name, &ignored) || intact__map_get(&graph->node_names, name, &ignored);
}

const char *intact__graph_fresh_name(intact_graph *graph, const char *base) {
  if (!name_taken(graph, base)) return intact__arena_strdup(&graph->arena, base);
  /* The last number given out for this base is kept under its own key, so that long runs of names stay cheap. */
  char *counter = intact__arena_format(&graph->arena, "\n%s", base);
  int64_t k = 0;
  if (counter == NULL) return NULL;
  intact__map_get(&graph->node_names, counter, &k);
  char *name = NULL;
  do {
    name = intact__arena_format(&graph->arena, "%s_%lld", base, (long long)++k);
    if (name == NULL) return NULL;
  } while (name_taken(graph, name));
  return intact__map_set(&graph->node_names, counter, k) == INTACT_OK ? name : NULL;
}

intact_value *intact__graph_find_value(const intact_graph *graph, const char *name) {
  int64_t id;
  return intact__map_get(&graph->value_names, name, &id) ? graph->values[id] : NULL;
}

intact_node *intact__graph_find_node(const intact_graph *graph, const char *name) {
  for (intact_node *node = graph->first; node != NULL; node = node->next)
    if (strcmp(node->name, name) == 0) return node;
  return NULL;
}

static intact_graph *root_of(intact_graph *graph) {
  while (graph->parent != NULL) graph = graph->parent;
  return graph;
}

/* Returns 0, which is no symbol, when there is no memory. */
int64_t intact__graph_symbol(intact_graph *graph, const char *name) {
  intact_graph *root = root_of(graph);
  char *kept = NULL;
  if (name != NULL) {
    int64_t known;
    if (intact__map_get(&root->symbol_names, name, &known)) return known;
    kept = intact__arena_strdup(&root->arena, name);
  } else {
    int64_t k = root->n_symbols, known;
    do {
      kept = intact__arena_format(&root->arena, "s%lld", (long long)k++);
    } while (kept != NULL && intact__map_get(&root->symbol_names, kept, &known));
  }
  void *array = root->symbols;
  size_t capacity = (size_t)root->symbols_capacity;
  if (kept == NULL || root->n_symbols >= INT32_MAX / 4 ||
      intact__reserve(root->context, &array, &capacity, (size_t)root->n_symbols + 1, sizeof *root->symbols) != INTACT_OK)
    return 0;
  root->symbols = array;
  root->symbols_capacity = (int)capacity;
  if (intact__map_set(&root->symbol_names, kept, -1 - (int64_t)root->n_symbols) != INTACT_OK) return 0;
  root->symbols[root->n_symbols++] = kept;
  return -(int64_t)root->n_symbols;
}

/* ---- values ---- */
static intact_status new_value(intact_graph *graph, const char *name, intact_value **value) {
  intact_context *context = graph->context;
  if (name[0] == 0) INTACT_FAIL(context, INVALID_VALUE, graph->name, "a value of graph %s has an empty name", graph->name);
  INTACT_TRY(intact__check_name(context, "value", name));
  int64_t taken;
  if (intact__map_get(&graph->value_names, name, &taken))
    INTACT_FAIL(context, DUPLICATE, name, "value %s is defined twice in graph %s: every value needs a name of its own", name,
                graph->name);
  intact_value *made = intact__arena_alloc(&graph->arena, 1, sizeof *made);
  char *kept = intact__arena_strdup(&graph->arena, name);
  if (made == NULL || kept == NULL) return intact__no_memory(context, sizeof *made);
  if (graph->n_values >= INT32_MAX) INTACT_FAIL(context, OVERFLOW, name, "graph %s has too many values", graph->name);
  void *array = graph->values;
  INTACT_TRY(intact__reserve(context, &array, &graph->values_capacity, graph->n_values + 1, sizeof *graph->values));
  graph->values = array;
  INTACT_TRY(intact__map_set(&graph->value_names, kept, (int64_t)graph->n_values));
  made->name = kept;
  made->id = (int32_t)graph->n_values;
  made->graph = graph;
  made->rank = -1;
  graph->values[graph->n_values++] = made;
  *value = made;
  return INTACT_OK;
}

/* Room for one more pointer in a list of n in the arena, which grows each time n reaches a power of two. */
static void *grown_list(intact_graph *graph, const void *list, int n, size_t size) {
  if (n > 0 && (n & (n - 1)) != 0) {
    void *same;
    memcpy(&same, &list, sizeof same);
    return same;
  }
  void *grown = intact__arena_alloc(&graph->arena, n == 0 ? 1 : (size_t)n * 2, size);
  if (grown != NULL && n > 0) memcpy(grown, list, (size_t)n * size);
  return grown;
}

intact_status intact__graph_add_input(intact_graph *graph, const char *name, intact_dtype dtype, int rank,
                                      const int64_t *dims, intact_value **value) {
  if (rank > INTACT_MAX_RANK)
    INTACT_FAIL(graph->context, OUT_OF_RANGE, name, "input %s has rank %d: at most %d", name, rank, INTACT_MAX_RANK);
  intact_value *made = NULL;
  INTACT_TRY(new_value(graph, name, &made));
  intact_value **inputs = grown_list(graph, graph->inputs, graph->n_inputs, sizeof *inputs);
  if (inputs == NULL) return intact__no_memory(graph->context, sizeof *inputs);
  graph->inputs = inputs;
  graph->inputs[graph->n_inputs++] = made;
  made->is_input = true;
  made->dtype = dtype;
  made->rank = rank;
  if (rank > 0) memcpy(made->dims, dims, (size_t)rank * sizeof *dims);
  *value = made;
  return INTACT_OK;
}

bool intact__has_elements(const intact_tensor *tensor) {
  return intact_dtype_is_integer(tensor->dtype) && tensor->rank <= 1 && tensor->count <= INTACT_MAX_ELEMENTS;
}

static intact_status add_constant(intact_graph *graph, const char *name, intact_tensor *tensor, const intact_qparams *qparams,
                                  intact_value **value) {
  intact_value *made = NULL;
  INTACT_TRY(new_value(graph, name, &made));
  made->dtype = tensor->dtype;
  made->rank = tensor->rank;
  memcpy(made->dims, tensor->dims, sizeof made->dims);
  if (qparams == NULL && intact__has_elements(tensor)) {
    int64_t *elements = intact__arena_alloc(&graph->arena, (size_t)tensor->count, sizeof *elements);
    if (elements == NULL) return intact__no_memory(graph->context, (size_t)tensor->count * sizeof *elements);
    for (int64_t i = 0; i < tensor->count; i++) elements[i] = intact__tensor_get_s64(tensor, i);
    made->elements = elements;
    made->n_elements = (int)tensor->count;
  }
  if (qparams != NULL) INTACT_TRY(intact__value_set_qparams(graph, made, qparams));
  made->constant = tensor;
  *value = made;
  return INTACT_OK;
}

intact_status intact__graph_add_constant(intact_graph *graph, const char *name, intact_tensor *tensor,
                                         const intact_qparams *qparams, intact_value **value) {
  const intact_status status = add_constant(graph, name, tensor, qparams, value);
  if (status != INTACT_OK) intact_tensor_destroy(tensor);
  return status;
}

intact_status intact__graph_set_outputs(intact_graph *graph, int n, intact_value *const *values) {
  intact_value **outputs = intact__arena_alloc(&graph->arena, (size_t)n, sizeof *outputs);
  if (outputs == NULL) return intact__no_memory(graph->context, (size_t)n * sizeof *outputs);
  for (int i = 0; i < graph->n_outputs; i++) graph->outputs[i]->is_output = false;
  for (int i = 0; i < n; i++) {
    assert(graph->values[values[i]->id] == values[i]);
    outputs[i] = values[i];
    outputs[i]->is_output = true;
  }
  graph->outputs = outputs;
  graph->n_outputs = n;
  return INTACT_OK;
}

intact_status intact__graph_add_meta(intact_graph *graph, const char *key, const char *value) {
  const char **pairs = grown_list(graph, graph->meta, graph->n_meta, 2 * sizeof *pairs);
  char *kept_key = intact__arena_strdup(&graph->arena, key), *kept_value = intact__arena_strdup(&graph->arena, value);
  if (pairs == NULL || kept_key == NULL || kept_value == NULL) return intact__no_memory(graph->context, strlen(value) + 1);
  pairs[graph->n_meta * 2] = kept_key;
  pairs[graph->n_meta * 2 + 1] = kept_value;
  graph->meta = pairs;
  graph->n_meta++;
  return INTACT_OK;
}

/* ---- nodes ---- */
static intact_status check_arity(intact_graph *graph, const intact_op *op, const char *name, int n_operands,
                                 intact_value *const *operands, int n_results) {
  const intact_schema *schema = &op->schema;
  const bool variadic = schema->n_operands > 0 && (schema->operands[schema->n_operands - 1].flags & INTACT_VARIADIC) != 0;
  if (!variadic && n_operands > schema->n_operands)
    INTACT_FAIL(graph->context, INVALID_VALUE, name, "node %s (%s) has %d operands: the op takes at most %d", name, op->name,
                n_operands, schema->n_operands);
  for (int i = 0; i < (n_operands > schema->n_operands ? n_operands : schema->n_operands); i++) {
    const intact_operand_spec *spec = intact__operand_spec(op, i);
    if ((i < n_operands && operands[i] != NULL) || (spec->flags & (INTACT_OPTIONAL | INTACT_VARIADIC)) != 0) continue;
    INTACT_FAIL(graph->context, MISSING_FIELD, name, "node %s (%s) lacks operand %d, %s, which the op requires", name, op->name,
                i, spec->name);
  }
  if (n_results < 1 || (schema->n_results >= 0 && n_results > schema->n_results))
    INTACT_FAIL(graph->context, INVALID_VALUE, name, "node %s (%s) has %d results: the op gives 1 to %d", name, op->name,
                n_results, schema->n_results < 0 ? INT32_MAX : schema->n_results);
  return INTACT_OK;
}

static intact_status default_attrs(intact_graph *graph, intact_node *node) {
  const intact_schema *schema = &node->op->schema;
  node->attrs = intact__arena_alloc(&graph->arena, (size_t)schema->n_attrs, sizeof *node->attrs);
  if (node->attrs == NULL) return intact__no_memory(graph->context, (size_t)schema->n_attrs * sizeof *node->attrs);
  for (int i = 0; i < schema->n_attrs; i++) {
    const intact_attr_spec *spec = &schema->attrs[i];
    intact_attr *attr = &node->attrs[i];
    attr->i = spec->i;
    attr->f = spec->f;
    attr->s = spec->s != NULL ? spec->s : "";
    if (spec->type == INTACT_ATTR_INTS && spec->n > 0) {
      int64_t *ints = intact__arena_alloc(&graph->arena, (size_t)spec->n, sizeof *ints);
      if (ints == NULL) return intact__no_memory(graph->context, (size_t)spec->n * sizeof *ints);
      for (int k = 0; k < spec->n; k++) ints[k] = spec->i;
      attr->ints = ints;
      attr->n = spec->n;
    }
  }
  return INTACT_OK;
}

static void link_node(intact_graph *graph, intact_node *node, intact_node *before) {
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
  graph->n_nodes++;
}

/* Results from number `first` on. */
static intact_status make_results(intact_graph *graph, intact_node *node, int first, const char *const *names) {
  for (int i = first; i < node->n_results; i++) {
    const char *name = names != NULL ? names[i] : NULL;
    if (name == NULL) {
      const intact_schema *schema = &node->op->schema;
      const char *base = node->name;
      if (i > 0) base = intact__arena_format(&graph->arena, "%s_%s", node->name, i < schema->n_results ? schema->results[i] : "y");
      name = base != NULL ? intact__graph_fresh_name(graph, base) : NULL;
      if (name == NULL) return intact__no_memory(graph->context, 0);
    }
    INTACT_TRY(new_value(graph, name, &node->results[i]));
    node->results[i]->producer = node;
    node->results[i]->result = i;
  }
  return INTACT_OK;
}

intact_status intact__graph_add_node(intact_graph *graph, const intact_op *op, const char *name, int n_operands,
                                     intact_value *const *operands, int n_results, const char *const *result_names,
                                     intact_node *before, intact_node **node) {
  intact_context *context = graph->context;
  const char *kept = name != NULL ? intact__arena_strdup(&graph->arena, name) : intact__graph_fresh_name(graph, op->name);
  if (kept == NULL) return intact__no_memory(context, 0);
  INTACT_TRY(intact__check_name(context, "node", kept));
  int64_t taken;
  if (intact__map_get(&graph->node_names, kept, &taken))
    INTACT_FAIL(context, DUPLICATE, kept, "node %s is defined twice in graph %s: every node needs a name of its own", kept,
                graph->name);
  INTACT_TRY(check_arity(graph, op, kept, n_operands, operands, n_results));
  intact_node *made = intact__arena_alloc(&graph->arena, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(context, sizeof *made);
  made->op = op;
  made->name = kept;
  made->source = made->module_path = made->module_type = "";
  made->graph = graph;
  made->n_results = n_results;
  made->operands = intact__arena_alloc(&graph->arena, (size_t)n_operands, sizeof *made->operands);
  made->results = intact__arena_alloc(&graph->arena, (size_t)n_results, sizeof *made->results);
  intact_use *uses = intact__arena_alloc(&graph->arena, (size_t)n_operands, sizeof *uses);
  if (made->operands == NULL || made->results == NULL || uses == NULL)
    return intact__no_memory(context, (size_t)n_operands * sizeof *uses);
  INTACT_TRY(default_attrs(graph, made));
  INTACT_TRY(make_results(graph, made, 0, result_names));
  INTACT_TRY(intact__map_set(&graph->node_names, kept, 0));
  made->n_operands = n_operands;
  made->uses = uses;
  link_node(graph, made, before);
  for (int i = 0; i < n_operands; i++)
    if (operands[i] != NULL) intact__node_set_operand(made, i, operands[i]);
  *node = made;
  return INTACT_OK;
}

intact_status intact__node_extend_results(intact_node *node, int n) {
  const int first = node->n_results;
  if (n <= first) return INTACT_OK;
  intact_value **results = intact__arena_alloc(&node->graph->arena, (size_t)n, sizeof *results);
  if (results == NULL) return intact__no_memory(node->graph->context, (size_t)n * sizeof *results);
  memcpy(results, node->results, (size_t)first * sizeof *results);
  node->results = results;
  node->n_results = n;
  const intact_status status = make_results(node->graph, node, first, NULL);
  if (status != INTACT_OK) node->n_results = first;
  return status;
}

intact_status intact__node_add_body(intact_node *node, const char *name, intact_graph **body) {
  intact_graph *graph = node->graph;
  intact_graph **grown = grown_list(graph, node->bodies, node->n_bodies, sizeof *grown);
  if (grown == NULL) return intact__no_memory(graph->context, sizeof *grown);
  intact_graph *made = NULL;
  INTACT_TRY(intact__graph_create(graph->context, name, &made));
  made->parent = graph;
  made->stage = graph->stage;
  made->requantize = graph->requantize;
  grown[node->n_bodies] = made;
  node->bodies = grown;
  node->n_bodies++;
  *body = made;
  return INTACT_OK;
}
