/* SPDX-License-Identifier: Apache-2.0 */
/* One ONNX node: a function's inside, a Constant, or a row of the op table by its alias. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

enum { MOST_NODES = 1 << 20 }; /* imported in all, the insides of functions counted at each call */

static const char *label(const intact_onnx_scope *scope, const Onnx__NodeProto *proto) {
  const char *name = intact__onnx_text(proto->name);
  if (name[0] == 0 && proto->n_output > 0) name = proto->output[0];
  if (name[0] == 0) name = intact__onnx_text(proto->op_type);
  if (scope->prefix[0] == 0) return name;
  return intact__arena_format(&scope->import->file->arena, "%s/%s", scope->prefix, name);
}

const char *intact__onnx_op_name(intact_onnx_import *import, const Onnx__NodeProto *proto) {
  const char *domain = intact__onnx_text(proto->domain), *op = intact__onnx_text(proto->op_type);
  if (domain[0] == 0 || strcmp(domain, "ai.onnx") == 0) return op;
  return intact__arena_format(&import->file->arena, "%s::%s", domain, op);
}

/* ---- results ---- */
bool intact__onnx_has_output(const intact_onnx_node *node, int i) {
  return i < node->n_outputs && node->proto->output[i][0] != 0;
}

/* The name in the graph of the value that a scope calls `name`: itself, or inside a function the caller's name of the
   output, or the name behind the call's. NULL: no memory. */
static const char *value_name(intact_onnx_scope *scope, const char *name) {
  if (scope->prefix[0] == 0) return name;
  const Onnx__FunctionProto *function = scope->function;
  for (size_t k = 0; k < function->n_output && k < scope->call->n_output; k++) {
    if (strcmp(function->output[k], name) == 0 && scope->call->output[k][0] != 0) {
      const char *outer = value_name(scope->call_scope, scope->call->output[k]);
      if (outer == NULL || intact__graph_find_value(scope->graph, outer) == NULL) return outer;
    }
  }
  const char *base = intact__arena_format(&scope->import->file->arena, "%s/%s", scope->prefix, name);
  return base == NULL ? NULL : intact__onnx_fresh_name(scope, base);
}

/* The name that the graph gives to output `i`. */
static const char *output_name(intact_onnx_node *node, int i) {
  if (intact__onnx_has_output(node, i)) return value_name(node->scope, node->proto->output[i]);
  const char *base = intact__arena_format(&node->import->file->arena, "%s_%d", node->name, i);
  return base == NULL ? NULL : intact__onnx_fresh_name(node->scope, base);
}

/* The nodes that this one stands for: what our exporter wrote down, else its name. */
static const char *source_of(const intact_onnx_node *node) {
  const char *note = intact__onnx_text(node->proto->doc_string);
  size_t length = strlen(INTACT_ONNX_SOURCE);
  return strncmp(note, INTACT_ONNX_SOURCE, length) == 0 && note[length] != 0 ? note + length : node->name;
}

/* The old name stays taken. A name that another value has is left to it. */
static intact_status rename_value(intact_graph *graph, intact_value *value, const char *name) {
  int64_t there = 0;
  if (intact__map_get(&graph->value_names, name, &there)) return INTACT_OK;
  const char *kept = intact__arena_strdup(&graph->arena, name);
  if (kept == NULL) return intact__no_memory(graph->context, strlen(name));
  INTACT_TRY(intact__map_set(&graph->value_names, kept, value->id));
  value->name = kept;
  return INTACT_OK;
}

/* Gives a value that this node's import made the name that the file has for it. */
static intact_status take_name(intact_onnx_node *node, const char *output, intact_value *value) {
  bool own = value->producer != NULL && strcmp(value->producer->source, source_of(node)) == 0;
  if (!own || node->scope->prefix[0] != 0 || strcmp(value->name, output) == 0) return INTACT_OK;
  return rename_value(node->graph, value, output);
}

intact_status intact__onnx_bind(intact_onnx_node *node, int i, intact_value *value) {
  if (!intact__onnx_has_output(node, i)) return INTACT_OK;
  const char *name = node->proto->output[i];
  intact_onnx_binding binding = {name, value, NULL, NULL};
  INTACT_TRY(take_name(node, name, value));
  return intact__onnx_scope_add(node->scope, &binding);
}

static const char *node_name(intact_onnx_node *node, const char *base) {
  int64_t there = 0;
  if (!intact__map_get(&node->graph->node_names, base, &there)) return base;
  return intact__onnx_fresh_node_name(node->scope, base);
}

intact_value *intact__onnx_input(const intact_onnx_node *node, int i) {
  return i < node->n_inputs ? node->inputs[i] : NULL;
}

static intact_status check_operands(intact_onnx_node *node, const intact_op *row, int n, intact_value *const *operands) {
  const intact_schema *schema = &row->schema;
  bool variadic = schema->n_operands > 0 && (schema->operands[schema->n_operands - 1].flags & INTACT_VARIADIC) != 0;
  if (n > schema->n_operands && !variadic) {
    INTACT_FAIL(node->context, INVALID_VALUE, node->name,
                "cannot read node '%s' (%s): it has %d inputs, %s takes at most %d", node->name, node->op, n, row->name,
                schema->n_operands);
  }
  for (int i = 0; i < schema->n_operands; i++) {
    if ((schema->operands[i].flags & (INTACT_OPTIONAL | INTACT_VARIADIC)) == 0 && (i >= n || operands[i] == NULL)) {
      INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): its input %d, %s, is left out",
                  node->name, node->op, i, schema->operands[i].name);
    }
  }
  return INTACT_OK;
}

static intact_status add_node(intact_onnx_node *node, const intact_op *row, const char *name, int n_operands,
                              intact_value *const *operands, int n_results, const char *const *names, intact_node **made) {
  int last = row->schema.n_operands - 1;
  bool variadic = last >= 0 && (row->schema.operands[last].flags & INTACT_VARIADIC) != 0;
  while (!variadic && n_operands > 0 && operands[n_operands - 1] == NULL) n_operands--;
  INTACT_TRY(check_operands(node, row, n_operands, operands));
  if (name == NULL) return intact__no_memory(node->context, 1);
  for (int i = 0; i < n_results; i++) {
    if (names[i] == NULL) return intact__no_memory(node->context, 1);
  }
  INTACT_TRY(intact__graph_add_node(node->graph, row, name, n_operands, operands, n_results, names, NULL, made));
  return intact__node_add_source(*made, source_of(node));
}

intact_status intact__onnx_make_row(intact_onnx_node *node, const intact_op *row, int n_operands,
                                    intact_value *const *operands) {
  int n_results = node->n_outputs;
  if (row->schema.n_results >= 0 && n_results > row->schema.n_results) n_results = row->schema.n_results;
  if (n_results < 1) n_results = 1;
  const char **names = intact__arena_alloc(&node->import->file->arena, (size_t)n_results + 1, sizeof *names);
  if (names == NULL) return intact__no_memory(node->context, (size_t)n_results * sizeof *names);
  for (int i = 0; i < n_results; i++) names[i] = output_name(node, i);
  INTACT_TRY(add_node(node, row, node_name(node, node->name), n_operands, operands, n_results, names, &node->made));
  return intact__onnx_map_attributes(node, node->made);
}

intact_status intact__onnx_make(intact_onnx_node *node, int n_operands, intact_value *const *operands) {
  return intact__onnx_make_row(node, node->row, n_operands, operands);
}

intact_status intact__onnx_add(intact_onnx_node *node, const char *op, const char *suffix, int n_operands,
                               intact_value *const *operands, intact_node **made) {
  const intact_op *row = intact__find_op(op);
  if (row == NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): it needs the op %s, which the table lacks", node->name, node->op, op);
  }
  enum { MOST_RESULTS = 8 };
  int n_results = row->schema.n_results < 0 ? 1 : row->schema.n_results;
  const char *names[MOST_RESULTS] = {NULL};
  if (n_results > MOST_RESULTS) INTACT_FAIL(node->context, INTERNAL, node->name, "op %s has too many results", op);
  intact_arena *arena = &node->import->file->arena;
  const char *base = suffix[0] == 0 ? node->name : intact__arena_format(arena, "%s_%s", node->name, suffix);
  if (base == NULL) return intact__no_memory(node->context, strlen(node->name));
  for (int i = 0; i < n_results; i++) {
    const char *each = i == 0 ? base : intact__arena_format(arena, "%s_%d", base, i);
    names[i] = each == NULL ? NULL : intact__onnx_fresh_name(node->scope, each);
  }
  return add_node(node, row, suffix[0] == 0 ? node_name(node, base) : intact__onnx_fresh_node_name(node->scope, base),
                  n_operands, operands, n_results, names, made);
}

intact_status intact__onnx_constant(intact_onnx_node *node, const char *suffix, intact_tensor *tensor,
                                    const intact_qparams *qparams, intact_value **value) {
  const intact_status status = intact__onnx_spend(node->import->file, node->name, intact_tensor_bytes(tensor));
  if (status != INTACT_OK) {
    intact_tensor_destroy(tensor);
    return status;
  }
  const char *base = intact__arena_format(&node->import->file->arena, "%s_%s", node->name, suffix);
  const char *name = base == NULL ? NULL : intact__onnx_fresh_name(node->scope, base);
  if (name == NULL) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(node->context, strlen(node->name));
  }
  return intact__graph_add_constant(node->graph, name, tensor, qparams, value);
}

/* ---- Constant ---- */
static intact_status floats_tensor(intact_context *context, size_t n, const float *values, int rank,
                                   intact_tensor **tensor) {
  int64_t dims[1] = {(int64_t)n};
  INTACT_TRY(intact_tensor_create(context, INTACT_F32, rank, dims, tensor));
  if (n > 0) memcpy((*tensor)->data, values, n * sizeof *values);
  return INTACT_OK;
}

static intact_status constant_tensor(intact_onnx_node *node, const Onnx__AttributeProto *attr, intact_tensor **tensor) {
  intact_context *context = node->context;
  const char *what = intact__arena_format(&node->import->file->arena, "constant '%s'", node->name);
  if (what == NULL) return intact__no_memory(context, strlen(node->name));
  const char *name = intact__onnx_text(attr->name);
  if (strcmp(name, "value") == 0 && attr->t != NULL) return intact__onnx_tensor(node->import->file, attr->t, what, tensor);
  if (strcmp(name, "sparse_value") == 0 && attr->sparse_tensor != NULL) {
    return intact__onnx_sparse_tensor(node->import->file, attr->sparse_tensor, what, tensor);
  }
  if (strcmp(name, "value_float") == 0) return floats_tensor(context, 1, &attr->f, 0, tensor);
  if (strcmp(name, "value_floats") == 0) return floats_tensor(context, attr->n_floats, attr->floats, 1, tensor);
  if (strcmp(name, "value_int") == 0) return intact__tensor_from_s64(context, 0, NULL, &attr->i, tensor);
  int64_t n = (int64_t)attr->n_ints;
  if (strcmp(name, "value_ints") == 0) return intact__tensor_from_s64(context, 1, &n, attr->ints, tensor);
  INTACT_FAIL(context, UNSUPPORTED_TYPE, node->name, "cannot read node '%s' (Constant): its attribute '%s' is not supported",
              node->name, name);
}

static intact_status import_constant(intact_onnx_node *node) {
  const Onnx__AttributeProto *attr = NULL;
  for (size_t i = 0; i < node->proto->n_attribute; i++) {
    attr = intact__onnx_attribute(node, intact__onnx_text(node->proto->attribute[i]->name));
  }
  if (node->proto->n_attribute != 1 || attr == NULL || node->n_outputs != 1) {
    INTACT_FAIL(node->context, MISSING_FIELD, node->name,
                "cannot read node '%s' (Constant): it must have one value and one output", node->name);
  }
  intact_tensor *tensor = NULL;
  intact_value *value = NULL;
  INTACT_TRY(constant_tensor(node, attr, &tensor));
  const char *name = output_name(node, 0);
  if (name == NULL) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(node->context, 1);
  }
  INTACT_TRY(intact__graph_add_constant(node->graph, name, tensor, NULL, &value));
  return intact__onnx_bind(node, 0, value);
}

/* ---- functions ---- */
bool intact__onnx_is_function(intact_onnx_import *import, const char *op) {
  int64_t at = 0;
  return intact__map_get(&import->functions, op, &at);
}

static intact_status call_function(intact_onnx_node *node, size_t function_at) {
  const Onnx__FunctionProto *function = node->import->file->model->functions[function_at];
  intact_onnx_scope inner;
  intact__onnx_scope_init(&inner, node->import, node->graph);
  inner.prefix = node->name;
  inner.depth = node->scope->depth + 1;
  inner.opsets = (intact_onnx_opsets){function->n_opset_import, function->opset_import};
  inner.call = node->proto;
  inner.function = function;
  inner.function_at = function_at;
  inner.call_scope = node->scope;
  intact_status status = INTACT_OK;
  if ((size_t)node->n_inputs > function->n_input || (size_t)node->n_outputs > function->n_output) {
    INTACT_FAIL_TO(done, node->context, INVALID_VALUE, node->name,
                   "cannot read node '%s': it gives function %s %d inputs and %d outputs, which has %zu and %zu", node->name,
                   node->op, node->n_inputs, node->n_outputs, function->n_input, function->n_output);
  }
  for (int i = 0; i < node->n_inputs; i++) {
    if (node->inputs[i] == NULL) continue;
    intact_onnx_binding binding = {function->input[i], node->inputs[i], NULL, NULL};
    INTACT_TRY_TO(done, intact__onnx_scope_add(&inner, &binding));
  }
  INTACT_TRY_TO(done, intact__onnx_import_nodes(&inner, function->n_node, function->node, node->name));
  for (int i = 0; i < node->n_outputs; i++) {
    intact_value *value = NULL;
    if (!intact__onnx_has_output(node, i)) continue;
    INTACT_TRY_TO(done, intact__onnx_scope_value(&inner, function->output[i], node->name, &value));
    INTACT_TRY_TO(done, intact__onnx_bind(node, i, value));
  }
done:
  intact__onnx_scope_fini(&inner);
  return status;
}

/* ---- by the table ---- */
static void swap_names(intact_value *a, intact_value *b) {
  const char *name = a->name;
  a->name = b->name;
  b->name = name;
}

static intact_status map_name(intact_value *value) {
  return intact__map_set(&value->graph->value_names, value->name, value->id);
}

/* Whether the node reads constants only and its results are small enough to be kept instead: at most FOLD_BYTES, or twice
   what it reads, and within half of what the import may take. Dequantized weights stay what they are. */
static bool can_fold(const intact_onnx_file *file, const intact_node *made) {
  enum { FOLD_BYTES = 1 << 16 };
  if (made->n_bodies > 0 || made->op->has_effect || intact__is_op(made, "dequantize")) return false;
  size_t read = 0, bytes, made_bytes = 0;
  int64_t count;
  for (int i = 0; i < made->n_operands; i++) {
    const intact_value *operand = made->operands[i];
    if (operand == NULL) continue;
    if (operand->constant == NULL || operand->qparams != NULL) return false;
    read += intact_tensor_bytes(operand->constant);
  }
  for (int i = 0; i < made->n_results; i++) {
    const intact_value *result = made->results[i];
    if (result->qparams != NULL || result->rank < 0) return false;
    if (!intact__shape_bytes(result->dtype, result->rank, result->dims, &count, &bytes)) return false;
    if (bytes > FOLD_BYTES && bytes / 2 > read) return false;
    made_bytes = bytes < SIZE_MAX - made_bytes ? made_bytes + bytes : SIZE_MAX;
  }
  const size_t half = intact__onnx_grant(file->source_bytes) / 2; /* the other half is for what can't be left undone */
  return made_bytes <= half && intact__onnx_affords(file, half + made_bytes);
}

/* Evaluates such a node now; what its outputs name are constants then. Outputs of the graph stay results. */
static intact_status fold(intact_onnx_node *node) {
  enum { MOST = 16 };
  const intact_node *made = node->made;
  const intact_tensor *operands[MOST];
  intact_tensor *results[MOST] = {NULL};
  if (made == NULL || node->requantize != NULL || made->n_operands > MOST || made->n_results > MOST || !can_fold(node->import->file, made))
    return INTACT_OK;
  for (int i = 0; i < node->n_outputs; i++) {
    int64_t kind = 0;
    if (intact__map_get(&node->scope->reserved, node->proto->output[i], &kind) && (kind & INTACT_ONNX_IS_OUTPUT) != 0)
      return INTACT_OK;
  }
  for (int i = 0; i < made->n_operands; i++) operands[i] = made->operands[i] == NULL ? NULL : made->operands[i]->constant;
  INTACT_TRY(intact__eval_node(made, operands, false, results));
  intact_status status = INTACT_OK;
  for (int i = 0; i < made->n_results; i++) {
    intact_value *constant = NULL;
    if (status != INTACT_OK || !intact__onnx_has_output(node, i)) {
      intact_tensor_destroy(results[i]);
      continue;
    }
    status = intact__onnx_constant(node, "folded", results[i], NULL, &constant);
    if (status != INTACT_OK) continue;
    swap_names(constant, made->results[i]);
    status = map_name(constant);
    if (status == INTACT_OK) status = map_name(made->results[i]);
    if (status == INTACT_OK) status = intact__onnx_bind(node, i, constant);
  }
  return status;
}

/* The quantize node after a result that stands for integers: it takes over the result's name. */
static intact_status requantize_result(intact_onnx_node *node) {
  intact_value *real = node->made->results[0], *codes = NULL;
  INTACT_TRY(intact__onnx_quantize(node, "codes", real, node->requantize, &codes));
  swap_names(real, codes);
  INTACT_TRY(map_name(real));
  INTACT_TRY(map_name(codes));
  return intact__onnx_bind(node, 0, codes);
}

static intact_status bind_results(intact_onnx_node *node) {
  if (node->made == NULL) return INTACT_OK;
  INTACT_TRY(intact__node_infer(node->made));
  if (node->requantize != NULL) INTACT_TRY(requantize_result(node));
  INTACT_TRY(fold(node));
  for (int i = 0; i < node->n_outputs; i++) {
    if (!intact__onnx_has_output(node, i) || intact__onnx_scope_find(node->scope, node->proto->output[i]) != NULL) continue;
    if (i >= node->made->n_results) {
      INTACT_FAIL(node->context, INVALID_VALUE, node->name, "cannot read node '%s' (%s): it has %d outputs, %s gives %d",
                  node->name, node->op, node->n_outputs, node->made->op->name, node->made->n_results);
    }
    INTACT_TRY(intact__onnx_bind(node, i, node->made->results[i]));
  }
  return INTACT_OK;
}

intact_status intact__onnx_by_alias(intact_onnx_node *node) {
  node->row = intact__find_alias("onnx", node->op, node->version, &node->alias);
  if (node->row == NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s': the operator %s is not supported in opset %d", node->name, node->op, node->version);
  }
  const intact_onnx_fixup *fixup = node->alias->fixup == NULL ? NULL : intact__onnx_find_fixup(node->alias->fixup);
  if (node->alias->fixup != NULL && fixup == NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): no fix-up is named %s", node->name,
                node->op, node->alias->fixup);
  }
  if (fixup == NULL || !fixup->takes_codes) INTACT_TRY(intact__onnx_plain_inputs(node));
  if (fixup == NULL) {
    INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  } else {
    INTACT_TRY(fixup->import(node));
  }
  INTACT_TRY(bind_results(node));
  return intact__onnx_check_attributes(node);
}

static intact_status resolve_inputs(intact_onnx_node *node) {
  const Onnx__NodeProto *proto = node->proto;
  if (proto->n_input > INT16_MAX || proto->n_output > INT16_MAX) {
    INTACT_FAIL(node->context, OVERFLOW, node->name, "cannot read node '%s' (%s): it has %zu inputs and %zu outputs",
                node->name, node->op, proto->n_input, proto->n_output);
  }
  node->n_inputs = (int)proto->n_input;
  node->n_outputs = (int)proto->n_output;
  node->inputs = intact__arena_alloc(&node->import->file->arena, proto->n_input + 1, sizeof *node->inputs);
  node->taken = intact__arena_alloc(&node->import->file->arena, proto->n_attribute + 1, sizeof *node->taken);
  if (node->inputs == NULL || node->taken == NULL)
    return intact__no_memory(node->context, proto->n_input * sizeof *node->inputs);
  for (int i = 0; i < node->n_inputs; i++) {
    const char *name = proto->input[i];
    if (name[0] == 0) continue;
    /* a function's parameter that the caller left out reads as left out */
    if (node->scope->function != NULL && intact__onnx_scope_find(node->scope, name) == NULL) {
      bool parameter = false;
      for (size_t k = 0; k < node->scope->function->n_input; k++) {
        parameter |= strcmp(node->scope->function->input[k], name) == 0;
      }
      if (parameter) continue;
    }
    INTACT_TRY(intact__onnx_scope_value(node->scope, name, node->name, &node->inputs[i]));
  }
  while (node->n_inputs > 0 && node->inputs[node->n_inputs - 1] == NULL) node->n_inputs--;
  while (node->n_outputs > 0 && proto->output[node->n_outputs - 1][0] == 0) node->n_outputs--;
  return INTACT_OK;
}

/* What a node takes beside its message: the names made of its name, and all of it when it is one of a function's inside. */
static intact_status spend_node(const intact_onnx_scope *scope, const Onnx__NodeProto *proto, const char *name) {
  enum { NODE = 1024, NAMES = 8 };
  const size_t prefix = strlen(scope->prefix), each = strlen(name);
  size_t bytes = NAMES * each + (prefix > 0 ? NODE : 0);
  for (size_t i = 0; i < proto->n_output; i++) {
    const char *output = proto->output[i];
    bytes += output[0] == 0 ? each : prefix > 0 ? prefix + strlen(output) : 0;
  }
  return intact__onnx_spend(scope->import->file, name, bytes);
}

intact_status intact__onnx_import_node(intact_onnx_scope *scope, const Onnx__NodeProto *proto) {
  intact_onnx_import *import = scope->import;
  intact_onnx_node node = {
      .import = import, .scope = scope, .context = import->context, .graph = scope->graph, .proto = proto};
  node.name = label(scope, proto);
  node.op = intact__onnx_op_name(import, proto);
  if (node.name == NULL || node.op == NULL) return intact__no_memory(import->context, 1);
  if (++import->expanded > MOST_NODES) {
    INTACT_FAIL(import->context, OVERFLOW, node.name,
                "cannot read %s: with its functions unfolded it has more than %d nodes", import->file->path,
                (int)MOST_NODES);
  }
  INTACT_TRY(spend_node(scope, proto, node.name));
  INTACT_TRY(resolve_inputs(&node));
  int64_t function_at = 0;
  if (intact__map_get(&import->functions, node.op, &function_at)) return call_function(&node, (size_t)function_at);
  if (strcmp(node.op, "Constant") == 0) return import_constant(&node);
  const char *domain = intact__onnx_text(proto->domain);
  node.version = intact__onnx_opset(&scope->opsets, domain);
  if (node.version == 0) {
    bool standard = node.op == proto->op_type;
    if (standard) {
      INTACT_FAIL(import->context, MISSING_FIELD, node.name, "cannot read node '%s' (%s): no opset of ai.onnx is imported",
                  node.name, node.op);
    }
    node.version = 1;
  }
  bool known = false;
  if (strcmp(node.op, "Identity") == 0 && node.n_inputs == 1) return intact__onnx_bind(&node, 0, node.inputs[0]);
  INTACT_TRY(intact__onnx_import_qoperator(&node, &known));
  if (!known) INTACT_TRY(intact__onnx_import_dynamic(&node, &known));
  return known ? INTACT_OK : intact__onnx_by_alias(&node);
}
