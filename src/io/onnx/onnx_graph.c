/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX graphs and bodies: inputs, initializers, nodes in order, outputs. */
#include <string.h>

#include "io/onnx/onnx_import.h"

enum { DEEPEST = 64 }; /* nesting of bodies and function calls */

static intact_status reserve_name(intact_onnx_scope *scope, const char *name, int kind) {
  return name == NULL || name[0] == 0 ? INTACT_OK : intact__onnx_reserve(scope, name, kind);
}

static intact_status reserve_names(intact_onnx_scope *scope, const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_initializer; i++)
    INTACT_TRY(reserve_name(scope, proto->initializer[i]->name, INTACT_ONNX_IS_VALUE));
  for (size_t i = 0; i < proto->n_input; i++) INTACT_TRY(reserve_name(scope, proto->input[i]->name, INTACT_ONNX_IS_VALUE));
  for (size_t i = 0; i < proto->n_node; i++) {
    const Onnx__NodeProto *node = proto->node[i];
    INTACT_TRY(reserve_name(scope, node->name, INTACT_ONNX_IS_NODE));
    for (size_t k = 0; k < node->n_output; k++) INTACT_TRY(reserve_name(scope, node->output[k], INTACT_ONNX_IS_VALUE));
  }
  for (size_t i = 0; i < proto->n_output; i++) {
    INTACT_TRY(reserve_name(scope, proto->output[i]->name, INTACT_ONNX_IS_OUTPUT));
  }
  return INTACT_OK;
}

/* ---- inputs ---- */
static intact_status read_dim(intact_onnx_scope *scope, const Onnx__TensorShapeProto__Dimension *dim, const char *name,
                              int64_t *size) {
  if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
    if (dim->dim_value < -1) {
      INTACT_FAIL(scope->import->context, INVALID_VALUE, name, "cannot read input '%s': a dimension is %lld", name,
                  (long long)dim->dim_value);
    }
    if (dim->dim_value >= 0) {
      *size = dim->dim_value;
      return INTACT_OK;
    }
  }
  bool named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0] != 0 &&
               strcmp(dim->dim_param, "?") != 0 && strcmp(dim->dim_param, "-1") != 0;
  if (named) INTACT_TRY(intact__check_name(scope->import->context, "dimension", dim->dim_param));
  *size = intact__graph_symbol(scope->graph, named ? dim->dim_param : NULL);
  return *size == 0 ? intact__no_memory(scope->import->context, 1) : INTACT_OK;
}

/* dtype, rank and dims from the file; untouched when the file states no type. */
static intact_status read_type(intact_onnx_scope *scope, const Onnx__ValueInfoProto *proto, const char *name, bool *stated,
                               intact_dtype *dtype, int *rank, int64_t *dims) {
  intact_context *context = scope->import->context;
  const Onnx__TypeProto *type = proto->type;
  *stated = type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET;
  if (!*stated) return INTACT_OK;
  if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    INTACT_FAIL(context, UNSUPPORTED_TYPE, name, "cannot read input '%s': it is no tensor (a sequence, map or optional)",
                name);
  }
  const char *what = intact__arena_format(&scope->import->file->arena, "input '%s'", name);
  if (what == NULL) return intact__no_memory(context, strlen(name));
  INTACT_TRY(intact__onnx_dtype(context, type->tensor_type->elem_type, what, dtype));
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  *rank = -1;
  if (shape == NULL) return INTACT_OK;
  if (shape->n_dim > INTACT_MAX_RANK) {
    INTACT_FAIL(context, OUT_OF_RANGE, name, "cannot read input '%s': it has %zu dimensions, at most %d are supported", name,
                shape->n_dim, INTACT_MAX_RANK);
  }
  *rank = (int)shape->n_dim;
  for (size_t d = 0; d < shape->n_dim; d++) INTACT_TRY(read_dim(scope, shape->dim[d], name, &dims[d]));
  return INTACT_OK;
}

static intact_status add_input(intact_onnx_scope *scope, const char *name, const Onnx__ValueInfoProto *proto,
                               const intact_value *like) {
  intact_onnx_binding binding = {name, NULL, NULL, NULL};
  intact_dtype dtype = INTACT_F32;
  int rank = -1;
  int64_t dims[INTACT_MAX_RANK] = {0};
  bool stated = false;
  if (proto != NULL) INTACT_TRY(read_type(scope, proto, name, &stated, &dtype, &rank, dims));
  if (like != NULL && (!stated || rank < 0)) {
    if (!stated) dtype = like->dtype;
    rank = like->rank;
    memcpy(dims, like->dims, sizeof dims);
  } else if (!stated && like == NULL && scope->depth == 0) {
    INTACT_FAIL(scope->import->context, MISSING_FIELD, name, "cannot read input '%s': its type is not stated", name);
  }
  INTACT_TRY(intact__graph_add_input(scope->graph, name, dtype, rank, dims, &binding.value));
  return intact__onnx_scope_add(scope, &binding);
}

static intact_status add_initializers(intact_onnx_scope *scope, const Onnx__GraphProto *proto) {
  intact_context *context = scope->import->context;
  for (size_t i = 0; i < proto->n_initializer; i++) {
    const char *name = intact__onnx_text(proto->initializer[i]->name);
    if (name[0] == 0) INTACT_FAIL(context, MISSING_FIELD, "", "cannot read initializer %zu: it has no name", i);
    intact_onnx_binding binding = {name, NULL, proto->initializer[i], NULL};
    INTACT_TRY(intact__onnx_scope_add(scope, &binding));
  }
  for (size_t i = 0; i < proto->n_sparse_initializer; i++) {
    const Onnx__SparseTensorProto *sparse = proto->sparse_initializer[i];
    const char *name = sparse->values == NULL ? "" : intact__onnx_text(sparse->values->name);
    if (name[0] == 0) INTACT_FAIL(context, MISSING_FIELD, "", "cannot read sparse initializer %zu: it has no name", i);
    intact_onnx_binding binding = {name, NULL, NULL, sparse};
    INTACT_TRY(intact__onnx_scope_add(scope, &binding));
  }
  return INTACT_OK;
}

static bool is_initializer(const intact_onnx_scope *scope, const char *name) {
  const intact_onnx_binding *binding = intact__onnx_scope_find(scope, name);
  return binding != NULL && (binding->initializer != NULL || binding->sparse != NULL);
}

/* ---- order ---- */
typedef struct sorter {
  intact_onnx_scope *scope;
  size_t n;
  Onnx__NodeProto **nodes;
  intact_map producers; /* name -> node */
  int *waits;           /* per node: distinct values of other nodes not yet defined, counted once per reading */
  size_t *order, n_order;
  size_t *first_reader, *readers, *next; /* per node a list of who reads it; readings numbered from 1 */
  size_t n_readings, capacity_readings, capacity_next;
} sorter;

typedef intact_status (*visit_fn)(void *user, const char *name, size_t node);

/* Calls visit for every name that the node or its subgraphs read; names that a subgraph defines itself may be among them
   (they are found undefined or defined elsewhere by the caller). */
static intact_status visit_reads(const Onnx__NodeProto *node, size_t index, visit_fn visit, void *user) {
  for (size_t i = 0; i < node->n_input; i++) {
    if (node->input[i][0] != 0) INTACT_TRY(visit(user, node->input[i], index));
  }
  for (size_t a = 0; a < node->n_attribute; a++) {
    const Onnx__AttributeProto *attr = node->attribute[a];
    for (size_t g = 0; g < attr->n_graphs + (attr->g != NULL); g++) {
      const Onnx__GraphProto *graph = g < attr->n_graphs ? attr->graphs[g] : attr->g;
      for (size_t i = 0; i < graph->n_node; i++) INTACT_TRY(visit_reads(graph->node[i], index, visit, user));
      for (size_t i = 0; i < graph->n_output; i++) {
        INTACT_TRY(visit(user, intact__onnx_text(graph->output[i]->name), index));
      }
    }
  }
  return INTACT_OK;
}

static intact_status add_reading(void *user, const char *name, size_t reader) {
  sorter *s = user;
  int64_t producer = 0;
  if (!intact__map_get(&s->producers, name, &producer)) return INTACT_OK;
  intact_context *context = s->scope->import->context;
  void *readers = s->readers, *next = s->next;
  size_t need = s->n_readings + 2;
  intact_status status = intact__reserve(context, &readers, &s->capacity_readings, need, sizeof *s->readers);
  s->readers = readers;
  INTACT_TRY(status);
  status = intact__reserve(context, &next, &s->capacity_next, need, sizeof *s->next);
  s->next = next;
  INTACT_TRY(status);
  size_t k = ++s->n_readings;
  s->readers[k] = reader;
  s->next[k] = s->first_reader[producer];
  s->first_reader[producer] = k;
  s->waits[reader]++;
  return INTACT_OK;
}

static intact_status find_producers(sorter *s) {
  for (size_t i = 0; i < s->n; i++) {
    for (size_t k = 0; k < s->nodes[i]->n_output; k++) {
      const char *name = s->nodes[i]->output[k];
      int64_t there = 0;
      if (name[0] == 0) continue;
      if (intact__map_get(&s->producers, name, &there) || intact__onnx_scope_find(s->scope, name) != NULL) {
        INTACT_FAIL(
            s->scope->import->context, DUPLICATE, name,
            "cannot read %s: the value '%s' is defined twice, the second time by node '%s'; every value has one definition",
            s->scope->import->file->path, name, intact__onnx_text(s->nodes[i]->name));
      }
      INTACT_TRY(intact__map_set(&s->producers, name, (int64_t)i));
    }
  }
  for (size_t i = 0; i < s->n; i++) INTACT_TRY(visit_reads(s->nodes[i], i, add_reading, s));
  return INTACT_OK;
}

static const char *node_label(const Onnx__NodeProto *node) {
  if (node->name != NULL && node->name[0] != 0) return node->name;
  return node->n_output > 0 ? node->output[0] : intact__onnx_text(node->op_type);
}

/* Two nodes of a cycle: every node left waits for another that is left, so going back from any one ends in a cycle. */
static intact_status fail_cycle(sorter *s) {
  size_t *before = s->order, at = 0; /* the order is not needed any more */
  for (size_t i = 0; i < s->n; i++) {
    if (s->waits[i] <= 0) continue;
    at = i;
    for (size_t k = s->first_reader[i]; k != 0; k = s->next[k]) before[s->readers[k]] = i;
  }
  for (size_t step = 0; step < s->n; step++) at = before[at];
  INTACT_FAIL(s->scope->import->context, CYCLE, node_label(s->nodes[at]),
              "cannot read %s: the nodes '%s' and '%s' need each other's results; a graph must have no cycle",
              s->scope->import->file->path, node_label(s->nodes[before[at]]), node_label(s->nodes[at]));
}

/* File order wherever it is an order already: the first node that waits for nothing goes next. */
static intact_status sort_nodes(sorter *s) {
  size_t *stack = s->order + s->n; /* ready nodes that lie before the place reached */
  size_t n_stack = 0, at = 0;
  while (s->n_order < s->n) {
    size_t node;
    if (n_stack > 0) {
      node = stack[--n_stack];
    } else {
      while (at < s->n && s->waits[at] != 0) at++;
      if (at == s->n) return fail_cycle(s);
      node = at++;
    }
    if (s->waits[node] < 0) continue;
    s->waits[node] = -1;
    s->order[s->n_order++] = node;
    for (size_t k = s->first_reader[node]; k != 0; k = s->next[k]) {
      if (--s->waits[s->readers[k]] == 0 && s->readers[k] < at) stack[n_stack++] = s->readers[k];
    }
  }
  return INTACT_OK;
}

intact_status intact__onnx_import_nodes(intact_onnx_scope *scope, size_t n, Onnx__NodeProto **nodes, const char *owner) {
  intact_context *context = scope->import->context;
  if (scope->depth > DEEPEST) {
    INTACT_FAIL(context, RECURSION_LIMIT, owner, "cannot read %s: bodies and function calls are nested deeper than %d",
                owner, (int)DEEPEST);
  }
  sorter s = {.scope = scope, .n = n, .nodes = nodes};
  intact__map_init(&s.producers, context);
  s.waits = intact__alloc_zeroed(context, n + 1, sizeof *s.waits);
  s.order = intact__alloc_zeroed(context, 2 * n + 1, sizeof *s.order);
  s.first_reader = intact__alloc_zeroed(context, n + 1, sizeof *s.first_reader);
  intact_status status = INTACT_OK;
  if (s.waits == NULL || s.order == NULL || s.first_reader == NULL) {
    status = intact__no_memory(context, n * sizeof *s.order);
    goto done;
  }
  INTACT_TRY_TO(done, find_producers(&s));
  INTACT_TRY_TO(done, sort_nodes(&s));
  for (size_t i = 0; i < n; i++) INTACT_TRY_TO(done, intact__onnx_import_node(scope, nodes[s.order[i]]));
done:
  intact__map_fini(&s.producers);
  intact__free(context, s.waits);
  intact__free(context, s.order);
  intact__free(context, s.first_reader);
  intact__free(context, s.readers);
  intact__free(context, s.next);
  return status;
}

/* ---- graphs ---- */
/* An output keeps its name and is a value of its own: one that stands for another gets an identity node. */
static intact_status name_output(intact_onnx_scope *scope, const char *name, int n, intact_value **values) {
  bool own = scope->depth > 0 || strcmp(values[n]->name, name) == 0;
  for (int i = 0; i < n; i++) own = own && values[i] != values[n];
  const intact_op *identity = own ? NULL : intact__find_op("identity");
  if (identity == NULL) return INTACT_OK;
  intact_node *node = NULL;
  bool taken = intact__graph_find_value(scope->graph, name) != NULL;
  const char *fresh = intact__onnx_fresh_node_name(scope, name),
             *own_name = taken ? intact__onnx_fresh_name(scope, name) : name;
  if (fresh == NULL || own_name == NULL) return intact__no_memory(scope->import->context, strlen(name));
  INTACT_TRY(intact__graph_add_node(scope->graph, identity, fresh, 1, &values[n], 1, &own_name, NULL, &node));
  INTACT_TRY(intact__node_infer(node));
  values[n] = node->results[0];
  return INTACT_OK;
}

static intact_status set_outputs(intact_onnx_scope *scope, const Onnx__GraphProto *proto) {
  intact_context *context = scope->import->context;
  if (proto->n_output == 0) {
    INTACT_FAIL(context, MISSING_FIELD, intact__onnx_text(proto->name), "cannot read graph '%s': it has no outputs",
                intact__onnx_text(proto->name));
  }
  if (proto->n_output > INT32_MAX) INTACT_FAIL(context, OVERFLOW, "", "cannot read the graph: too many outputs");
  intact_value **values = intact__arena_alloc(&scope->import->file->arena, proto->n_output, sizeof *values);
  if (values == NULL) return intact__no_memory(context, proto->n_output * sizeof *values);
  for (size_t i = 0; i < proto->n_output; i++) {
    const char *name = intact__onnx_text(proto->output[i]->name);
    INTACT_TRY(intact__onnx_scope_value(scope, name, "the graph's outputs", &values[i]));
    INTACT_TRY(name_output(scope, name, (int)i, values));
  }
  return intact__graph_set_outputs(scope->graph, (int)proto->n_output, values);
}

intact_status intact__onnx_import_graph(intact_onnx_scope *scope, const Onnx__GraphProto *proto, intact_value *const *types,
                                        int n_captured, intact_value *const *captured, const char *const *captured_names) {
  INTACT_TRY(reserve_names(scope, proto));
  INTACT_TRY(add_initializers(scope, proto));
  for (size_t i = 0; i < proto->n_input; i++) {
    const char *name = intact__onnx_text(proto->input[i]->name);
    if (name[0] == 0)
      INTACT_FAIL(scope->import->context, MISSING_FIELD, "", "cannot read input %zu of the graph: it has no name", i);
    if (is_initializer(scope, name)) continue; /* files before IR 4 list initializers as inputs as well */
    INTACT_TRY(add_input(scope, name, proto->input[i], types == NULL ? NULL : types[i]));
  }
  for (int i = 0; i < n_captured; i++) INTACT_TRY(add_input(scope, captured_names[i], NULL, captured[i]));
  INTACT_TRY(intact__onnx_import_nodes(scope, proto->n_node, proto->node, intact__onnx_text(proto->name)));
  return set_outputs(scope, proto);
}

/* ---- bodies ---- */
typedef struct capture {
  intact_onnx_node *node;
  intact_map own, seen; /* names the bodies define; names taken already */
  const char **names;
  int n;
  size_t capacity;
} capture;

static intact_status collect_own(capture *c, const Onnx__GraphProto *graph) {
  for (size_t i = 0; i < graph->n_input; i++)
    INTACT_TRY(intact__map_set(&c->own, intact__onnx_text(graph->input[i]->name), 1));
  for (size_t i = 0; i < graph->n_initializer; i++) {
    INTACT_TRY(intact__map_set(&c->own, intact__onnx_text(graph->initializer[i]->name), 1));
  }
  for (size_t i = 0; i < graph->n_node; i++) {
    const Onnx__NodeProto *node = graph->node[i];
    for (size_t k = 0; k < node->n_output; k++) INTACT_TRY(intact__map_set(&c->own, node->output[k], 1));
    for (size_t a = 0; a < node->n_attribute; a++) {
      if (node->attribute[a]->g != NULL) INTACT_TRY(collect_own(c, node->attribute[a]->g));
      for (size_t g = 0; g < node->attribute[a]->n_graphs; g++) INTACT_TRY(collect_own(c, node->attribute[a]->graphs[g]));
    }
  }
  return INTACT_OK;
}

static intact_status take_capture(void *user, const char *name, size_t index) {
  (void)index;
  capture *c = user;
  intact_context *context = c->node->context;
  int64_t there = 0;
  if (name[0] == 0 || intact__map_get(&c->own, name, &there) || intact__map_get(&c->seen, name, &there)) return INTACT_OK;
  intact_value *value = NULL;
  INTACT_TRY(intact__onnx_scope_value(c->node->scope, name, c->node->name, &value));
  INTACT_TRY(intact__map_set(&c->seen, name, 1));
  if (value->constant != NULL) return INTACT_OK;
  void *names = c->names;
  intact_status status = intact__reserve(context, &names, &c->capacity, (size_t)c->n + 1, sizeof *c->names);
  c->names = names;
  INTACT_TRY(status);
  c->names[c->n++] = name;
  return INTACT_OK;
}

intact_status intact__onnx_captures(intact_onnx_node *node, int n_graphs, const Onnx__GraphProto *const *graphs, int *n,
                                    const char *const **names) {
  intact_context *context = node->context;
  capture c = {.node = node};
  intact__map_init(&c.own, context);
  intact__map_init(&c.seen, context);
  intact_status status = INTACT_OK;
  for (int g = 0; g < n_graphs; g++) INTACT_TRY_TO(done, collect_own(&c, graphs[g]));
  for (int g = 0; g < n_graphs; g++) {
    for (size_t i = 0; i < graphs[g]->n_node; i++) {
      INTACT_TRY_TO(done, visit_reads(graphs[g]->node[i], 0, take_capture, &c));
    }
    for (size_t i = 0; i < graphs[g]->n_output; i++) {
      INTACT_TRY_TO(done, take_capture(&c, intact__onnx_text(graphs[g]->output[i]->name), 0));
    }
  }
  const char **kept = intact__arena_alloc(&node->import->file->arena, (size_t)c.n + 1, sizeof *kept);
  if (kept == NULL) {
    status = intact__no_memory(context, (size_t)c.n * sizeof *kept);
    goto done;
  }
  if (c.n > 0) memcpy(kept, c.names, (size_t)c.n * sizeof *kept);
  *n = c.n;
  *names = kept;
done:
  intact__free(context, c.names);
  intact__map_fini(&c.own);
  intact__map_fini(&c.seen);
  return status;
}

intact_status intact__onnx_import_body(intact_onnx_node *node, const Onnx__GraphProto *proto, intact_graph *body,
                                       intact_value *const *inputs, int n_captured, const char *const *captured) {
  intact_onnx_scope scope;
  intact__onnx_scope_init(&scope, node->import, body);
  scope.outer = node->scope;
  scope.opsets = node->scope->opsets;
  scope.depth = node->scope->depth + 1;
  scope.call = node->scope->call;
  scope.function = node->scope->function;
  scope.function_at = node->scope->function_at;
  scope.call_scope = node->scope->call_scope;
  intact_status status = INTACT_OK;
  intact_value **values = intact__arena_alloc(&node->import->file->arena, (size_t)n_captured + 1, sizeof *values);
  if (values == NULL) status = intact__no_memory(node->context, (size_t)n_captured * sizeof *values);
  for (int i = 0; i < n_captured && status == INTACT_OK; i++) {
    status = intact__onnx_scope_value(node->scope, captured[i], node->name, &values[i]);
  }
  if (status == INTACT_OK) status = intact__onnx_import_graph(&scope, proto, inputs, n_captured, values, captured);
  intact__onnx_scope_fini(&scope);
  if (status != INTACT_OK) intact__fail_in(node->context, "in a body of node '%s'", node->name);
  return status;
}
