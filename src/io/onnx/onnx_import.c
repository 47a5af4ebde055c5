/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an ONNX model: versions and operators are checked first, then the graph is built. */
#include "io/onnx/onnx_import.h"

#include <string.h>

#include "base/text.h"
#include "graph/format.h"
#include "io/formats.h"
#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_fixups.h"
#include "io/onnx/onnx_scan.h"
#include "kernels/affine/affine.h"

/* ---- versions ---- */
static intact_status check_opsets(intact_onnx_import *import, const intact_onnx_opsets *opsets, const char *owner) {
  intact_context *context = import->context;
  if (opsets->n == 0) {
    INTACT_FAIL(context, MISSING_FIELD, import->file->path,
                "cannot read %s: %s has no opset_import, so its operators have no meaning", import->file->path, owner);
  }
  for (size_t i = 0; i < opsets->n; i++) {
    const char *domain = intact__onnx_text(opsets->imports[i]->domain);
    for (size_t k = 0; k < i; k++) {
      if (strcmp(domain, intact__onnx_text(opsets->imports[k]->domain)) == 0) {
        INTACT_FAIL(context, DUPLICATE, import->file->path, "cannot read %s: %s imports the opset of domain '%s' twice",
                    import->file->path, owner, domain);
      }
    }
    if (domain[0] != 0 && strcmp(domain, "ai.onnx") != 0) continue;
    long long version = (long long)opsets->imports[i]->version;
    if (version < INTACT_ONNX_OPSET_MIN || version > INTACT_ONNX_OPSET_MAX) {
      INTACT_FAIL(context, UNSUPPORTED_VERSION, import->file->path,
                  "cannot read %s: %s uses opset %lld of ai.onnx; supported are %d to %d; convert the model to one of them",
                  import->file->path, owner, version, (int)INTACT_ONNX_OPSET_MIN, (int)INTACT_ONNX_OPSET_MAX);
    }
  }
  return INTACT_OK;
}

/* ---- operators ---- */
typedef struct missing {
  intact_map seen; /* "op version" -> index in ops */
  struct missing_op {
    const char *op;
    int version;
    intact_text nodes;
    int64_t n;
  } * ops;
  size_t n, capacity;
  intact_text list; /* "operator<tab>node" of all nodes, a line each */
} missing;

enum { NODES_NAMED = 8 };

static intact_status note_missing(intact_onnx_import *import, missing *m, const char *op, int version, const char *node) {
  intact_context *context = import->context;
  const char *key = intact__arena_format(&import->file->arena, "%s %d", op, version);
  if (key == NULL) return intact__no_memory(context, strlen(op));
  int64_t at = 0;
  if (!intact__map_get(&m->seen, key, &at)) {
    void *grown = m->ops;
    intact_status status = intact__reserve(context, &grown, &m->capacity, m->n + 1, sizeof *m->ops);
    m->ops = grown;
    INTACT_TRY(status);
    at = (int64_t)m->n;
    INTACT_TRY(intact__map_set(&m->seen, key, at));
    m->ops[m->n].op = op;
    m->ops[m->n].version = version;
    m->ops[m->n].n = 0;
    intact__text_init(&m->ops[m->n++].nodes, context);
  }
  struct missing_op *found = &m->ops[at];
  if (found->n < NODES_NAMED) intact__text_add(&found->nodes, "%s%s", found->n == 0 ? "" : ", ", node);
  if (found->n == NODES_NAMED) intact__text_add(&found->nodes, " ...");
  found->n++;
  intact__text_add(&m->list, "%s\t%s\n", op, node);
  return INTACT_OK;
}

static intact_status check_nodes(intact_onnx_import *import, missing *m, size_t n, Onnx__NodeProto **nodes,
                                 const intact_onnx_opsets *opsets) {
  for (size_t i = 0; i < n; i++) {
    const Onnx__NodeProto *node = nodes[i];
    const char *op = intact__onnx_op_name(import, node);
    if (op == NULL) return intact__no_memory(import->context, 1);
    int version = intact__onnx_opset(opsets, intact__onnx_text(node->domain));
    bool known = intact__onnx_is_function(import, op) || strcmp(op, "Constant") == 0 || intact__onnx_is_qoperator(op) ||
                 intact__onnx_is_dynamic(op) || intact__find_alias("onnx", op, version == 0 ? 1 : version, NULL) != NULL;
    const char *name = intact__onnx_text(node->name);
    if (name[0] == 0 && node->n_output > 0) name = node->output[0];
    bool standard = op == node->op_type;
    const char *full = standard ? intact__arena_format(&import->file->arena, "ai.onnx.%s", op) : op;
    if (full == NULL) return intact__no_memory(import->context, 1);
    if (!known && (version != 0 || !standard)) INTACT_TRY(note_missing(import, m, full, version, name));
    for (size_t a = 0; a < node->n_attribute; a++) {
      const Onnx__AttributeProto *attr = node->attribute[a];
      if (attr->g != NULL) INTACT_TRY(check_nodes(import, m, attr->g->n_node, attr->g->node, opsets));
      for (size_t g = 0; g < attr->n_graphs; g++) {
        INTACT_TRY(check_nodes(import, m, attr->graphs[g]->n_node, attr->graphs[g]->node, opsets));
      }
    }
  }
  return INTACT_OK;
}

static intact_status fail_missing(intact_onnx_import *import, missing *m) {
  if (m->n == 0) return INTACT_OK;
  intact_text text;
  intact__text_init(&text, import->context);
  for (size_t i = 0; i < m->n; i++) {
    const struct missing_op *op = &m->ops[i];
    intact__text_add(&text, "%s%s (opset %d): %lld %s (%s)", i == 0 ? "" : "; ", op->op, op->version, (long long)op->n,
                     op->n == 1 ? "node" : "nodes", op->nodes.length == 0 ? "?" : op->nodes.data);
  }
  char *list = intact__text_take(&text);
  intact__text_fini(&text);
  intact_status status =
      intact__fail(import->context, INTACT_UNSUPPORTED_OP, import->file->path, __FILE__, __LINE__,
                   "cannot read %s: %zu %s not supported: %s; replace them or leave them outside of the model",
                   import->file->path, m->n, m->n == 1 ? "operator is" : "operators are", list == NULL ? "" : list);
  intact__free(import->context, list);
  intact__fail_details(import->context, intact__text_take(&m->list));
  return status;
}

/* All operators that the table lacks, in one message. */
static intact_status check_operators(intact_onnx_import *import) {
  const Onnx__ModelProto *model = import->file->model;
  missing m = {.n = 0};
  intact__map_init(&m.seen, import->context);
  intact__text_init(&m.list, import->context);
  intact_onnx_opsets opsets = {model->n_opset_import, model->opset_import};
  intact_status status = check_nodes(import, &m, model->graph->n_node, model->graph->node, &opsets);
  for (size_t i = 0; i < model->n_functions && status == INTACT_OK; i++) {
    opsets = (intact_onnx_opsets){model->functions[i]->n_opset_import, model->functions[i]->opset_import};
    status = check_nodes(import, &m, model->functions[i]->n_node, model->functions[i]->node, &opsets);
  }
  if (status == INTACT_OK) status = fail_missing(import, &m);
  for (size_t i = 0; i < m.n; i++) intact__text_fini(&m.ops[i].nodes);
  intact__text_fini(&m.list);
  intact__free(import->context, m.ops);
  intact__map_fini(&m.seen);
  return status;
}

/* The defaults of a function's attributes: field 11 of FunctionProto, which this onnx.proto does not know yet. */
static intact_status read_defaults(intact_onnx_import *import, const Onnx__FunctionProto *function,
                                   struct intact_onnx_defaults *defaults) {
  enum { ATTRIBUTE_PROTO = 11, LENGTH_DELIMITED = 2 };
  ProtobufCAllocator allocator = intact__onnx_allocator(import->file);
  const ProtobufCMessage *base = &function->base;
  if (base->n_unknown_fields == 0) return INTACT_OK;
  defaults->attributes = intact__arena_alloc(&import->file->arena, base->n_unknown_fields, sizeof *defaults->attributes);
  if (defaults->attributes == NULL) return intact__no_memory(import->context, base->n_unknown_fields);
  for (unsigned i = 0; i < base->n_unknown_fields; i++) {
    const ProtobufCMessageUnknownField *field = &base->unknown_fields[i];
    if (field->tag != ATTRIBUTE_PROTO || (int)field->wire_type != LENGTH_DELIMITED) continue;
    size_t skip = 0; /* the length that stands before the message */
    while (skip < field->len && (field->data[skip] & 0x80) != 0) skip++;
    if (++skip > field->len) continue;
    const Onnx__AttributeProto *attr = onnx__attribute_proto__unpack(&allocator, field->len - skip, field->data + skip);
    if (attr != NULL) defaults->attributes[defaults->n++] = attr;
  }
  return INTACT_OK;
}

static intact_status find_functions(intact_onnx_import *import) {
  const Onnx__ModelProto *model = import->file->model;
  import->defaults = intact__arena_alloc(&import->file->arena, model->n_functions + 1, sizeof *import->defaults);
  if (import->defaults == NULL) return intact__no_memory(import->context, model->n_functions);
  for (size_t i = 0; i < model->n_functions; i++) {
    const Onnx__FunctionProto *function = model->functions[i];
    const char *domain = intact__onnx_text(function->domain), *name = intact__onnx_text(function->name);
    if (strcmp(domain, "ai.onnx") == 0) domain = "";
    const char *key = intact__arena_format(&import->file->arena, "%s%s%s", domain, domain[0] == 0 ? "" : "::", name);
    if (key == NULL) return intact__no_memory(import->context, strlen(name));
    int64_t there = 0;
    if (intact__map_get(&import->functions, key, &there)) {
      INTACT_FAIL(import->context, DUPLICATE, key, "cannot read %s: the function %s is defined twice", import->file->path,
                  key);
    }
    INTACT_TRY(intact__map_set(&import->functions, key, (int64_t)i));
    INTACT_TRY(read_defaults(import, function, &import->defaults[i]));
    intact_onnx_opsets opsets = {function->n_opset_import, function->opset_import};
    if (opsets.n > 0) INTACT_TRY(check_opsets(import, &opsets, key));
  }
  return INTACT_OK;
}

/* ---- the whole ---- */
static intact_status read_metadata(intact_onnx_import *import, intact_graph *graph) {
  const Onnx__ModelProto *model = import->file->model;
  for (size_t i = 0; i < model->n_metadata_props; i++) {
    const char *key = intact__onnx_text(model->metadata_props[i]->key);
    const char *value = intact__onnx_text(model->metadata_props[i]->value);
    if (strcmp(key, INTACT_ONNX_REQUANTIZE) != 0) {
      INTACT_TRY(intact__graph_add_meta(graph, key, value));
      continue;
    }
    intact_requantize_rule rule;
    if (!intact__requantize_rule_from_text(value, &rule)) {
      INTACT_FAIL(import->context, INVALID_VALUE, import->file->path,
                  "cannot read %s: its metadata name the requantize rule '%s', which is not known", import->file->path,
                  value);
    }
    graph->requantize = intact__requantize_rule_text(rule);
  }
  return INTACT_OK;
}

static void set_stage(intact_graph *graph) {
  bool quantized = false;
  for (size_t i = 0; i < graph->n_values; i++) quantized |= graph->values[i] != NULL && graph->values[i]->qparams != NULL;
  for (intact_node *node = graph->first; node != NULL; node = node->next) {
    quantized |= intact__is_op(node, "quantize") || intact__is_op(node, "dequantize");
    for (int i = 0; i < node->n_bodies; i++) {
      set_stage(node->bodies[i]);
      quantized |= node->bodies[i]->stage == INTACT_STAGE_QDQ;
    }
  }
  if (quantized) graph->stage = INTACT_STAGE_QDQ;
}

static void share_stage(intact_graph *graph) {
  for (intact_node *node = graph->first; node != NULL; node = node->next) {
    for (int i = 0; i < node->n_bodies; i++) {
      node->bodies[i]->stage = graph->stage;
      share_stage(node->bodies[i]);
    }
  }
}

static intact_status import_model(intact_onnx_import *import, intact_graph **graph) {
  const Onnx__ModelProto *model = import->file->model;
  if (model->graph == NULL) {
    INTACT_FAIL(import->context, MISSING_FIELD, import->file->path, "cannot read %s: it holds no graph", import->file->path);
  }
  intact_onnx_opsets opsets = {model->n_opset_import, model->opset_import};
  INTACT_TRY(check_opsets(import, &opsets, "the model"));
  INTACT_TRY(find_functions(import));
  INTACT_TRY(check_operators(import));
  intact_graph *made = NULL;
  INTACT_TRY(intact__graph_create(import->context, intact__onnx_text(model->graph->name), &made));
  intact_onnx_scope scope;
  intact__onnx_scope_init(&scope, import, made);
  scope.opsets = opsets;
  intact_status status = intact__onnx_import_graph(&scope, model->graph, NULL, 0, NULL, NULL);
  intact__onnx_scope_fini(&scope);
  if (status == INTACT_OK) status = read_metadata(import, made);
  if (status == INTACT_OK) {
    intact__graph_remove_dead(made);
    set_stage(made);
    share_stage(made);
    status = intact_graph_verify(made);
  }
  if (status != INTACT_OK) {
    intact_graph_destroy(made);
    return status;
  }
  *graph = made;
  return INTACT_OK;
}

static intact_status import_onnx(intact_context *context, const char *path, intact_graph **graph) {
  intact_onnx_file file;
  intact_onnx_import import = {.context = context, .file = &file};
  intact__map_init(&import.functions, context);
  intact_status status = intact__onnx_open(context, path, &file);
  if (status == INTACT_OK) status = import_model(&import, graph);
  intact__map_fini(&import.functions);
  intact__onnx_close(&file);
  return status;
}

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  if (intact__onnx_looks_like(head, head_bytes, bytes)) return 2;
  return intact__has_extension(path, ".onnx") ? 1 : 0;
}

const intact_format intact_format_onnx = {
    .name = "onnx",
    .extensions = ".onnx",
    .doc = "ONNX models, opsets 7 to 25: float, quantize/dequantize and operator form; written as standard QDQ.",
    .probe = probe,
    .import_graph = import_onnx,
    .export_graph = intact__onnx_export,
};
