/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ONNX graphs, bodies and function calls, and what stands behind them. */
#include <string.h>

#include "io/onnx/onnx_import.h"

void intact__onnx_scope_init(intact_onnx_scope *scope, intact_onnx_import *import, intact_graph *graph) {
  memset(scope, 0, sizeof *scope);
  scope->import = import;
  scope->graph = graph;
  scope->prefix = "";
  intact__map_init(&scope->index, import->context);
  intact__map_init(&scope->reserved, import->context);
}

void intact__onnx_scope_fini(intact_onnx_scope *scope) {
  intact__map_fini(&scope->index);
  intact__map_fini(&scope->reserved);
  intact__free(scope->import->context, scope->bindings);
  scope->bindings = NULL;
}

intact_status intact__onnx_scope_add(intact_onnx_scope *scope, const intact_onnx_binding *binding) {
  intact_context *context = scope->import->context;
  int64_t there = 0;
  if (intact__map_get(&scope->index, binding->name, &there)) {
    INTACT_FAIL(context, DUPLICATE, binding->name,
                "cannot read %s: the value '%s' is defined twice; every value has one definition", scope->import->file->path,
                binding->name);
  }
  void *grown = scope->bindings;
  intact_status status = intact__reserve(context, &grown, &scope->capacity, scope->n_bindings + 1, sizeof *scope->bindings);
  scope->bindings = grown;
  INTACT_TRY(status);
  INTACT_TRY(intact__map_set(&scope->index, binding->name, (int64_t)scope->n_bindings));
  scope->bindings[scope->n_bindings++] = *binding;
  return INTACT_OK;
}

intact_onnx_binding *intact__onnx_scope_find(const intact_onnx_scope *scope, const char *name) {
  int64_t at = 0;
  return intact__map_get(&scope->index, name, &at) ? &scope->bindings[at] : NULL;
}

static intact_status make_constant(intact_onnx_scope *scope, intact_onnx_binding *binding) {
  intact_onnx_import *import = scope->import;
  const char *what = intact__arena_format(&import->file->arena, "initializer '%s'", binding->name);
  if (what == NULL) return intact__no_memory(import->context, strlen(binding->name));
  intact_tensor *tensor = NULL;
  if (binding->sparse != NULL) {
    INTACT_TRY(intact__onnx_sparse_tensor(import->file, binding->sparse, what, &tensor));
  } else {
    INTACT_TRY(intact__onnx_tensor(import->file, binding->initializer, what, &tensor));
  }
  return intact__graph_add_constant(scope->graph, binding->name, tensor, NULL, &binding->value);
}

/* A constant of the scope around a body is copied into the body; its elements are shared. */
static intact_status copy_outer(intact_onnx_scope *scope, const char *name, const char *reader, intact_value **value) {
  intact_value *outer = NULL;
  INTACT_TRY(intact__onnx_scope_value(scope->outer, name, reader, &outer));
  if (outer->constant == NULL) {
    INTACT_FAIL(scope->import->context, INTERNAL, name, "the outer value '%s' that node %s reads was not handed to its body",
                name, reader);
  }
  intact_tensor *shared = NULL;
  intact_onnx_binding binding = {name, NULL, NULL, NULL};
  INTACT_TRY(intact_tensor_share(outer->constant, 0, NULL, &shared));
  INTACT_TRY(intact__graph_add_constant(scope->graph, name, shared, outer->qparams, &binding.value));
  INTACT_TRY(intact__onnx_scope_add(scope, &binding));
  *value = binding.value;
  return INTACT_OK;
}

intact_status intact__onnx_scope_value(intact_onnx_scope *scope, const char *name, const char *reader,
                                       intact_value **value) {
  intact_onnx_binding *binding = intact__onnx_scope_find(scope, name);
  if (binding == NULL && scope->outer != NULL) return copy_outer(scope, name, reader, value);
  if (binding == NULL) {
    INTACT_FAIL(scope->import->context, BAD_REFERENCE, reader,
                "cannot read %s: '%s' is read by %s, but nothing defines it; every value is an input, an initializer or the "
                "output of "
                "a node",
                scope->import->file->path, name, reader);
  }
  if (binding->value == NULL) INTACT_TRY(make_constant(scope, binding));
  *value = binding->value;
  return INTACT_OK;
}

int intact__onnx_opset(const intact_onnx_opsets *opsets, const char *domain) {
  if (strcmp(domain, "ai.onnx") == 0) domain = "";
  for (size_t i = 0; i < opsets->n; i++) {
    const char *imported = intact__onnx_text(opsets->imports[i]->domain);
    if (strcmp(imported, "ai.onnx") == 0) imported = "";
    if (strcmp(imported, domain) == 0) {
      int64_t version = opsets->imports[i]->version;
      return version < 0 ? 0 : version > INT32_MAX ? INT32_MAX : (int)version;
    }
  }
  return 0;
}

intact_status intact__onnx_reserve(intact_onnx_scope *scope, const char *name, int kind) {
  int64_t before = 0;
  intact__map_get(&scope->reserved, name, &before);
  return intact__map_set(&scope->reserved, name, before | kind);
}

static const char *fresh_name(intact_onnx_scope *scope, const char *base, const intact_map *names, int kinds, int kind) {
  enum { SMALL = 8 }; /* so many numbers are tried from 1 on, then a counter of the scope goes on */
  intact_arena *arena = &scope->import->file->arena;
  const char *name = base;
  for (int64_t i = 1;; i++) {
    int64_t there = 0, marks = 0;
    intact__map_get(&scope->reserved, name, &marks);
    if ((marks & kinds) == 0 && !intact__map_get(names, name, &there)) break;
    name = intact__arena_format(arena, "%s_%lld", base, (long long)(i < SMALL ? i : SMALL + scope->fresh++));
    if (name == NULL) return NULL;
  }
  return intact__onnx_reserve(scope, name, kind) == INTACT_OK ? name : NULL;
}

const char *intact__onnx_fresh_name(intact_onnx_scope *scope, const char *base) {
  return fresh_name(scope, base, &scope->graph->value_names, INTACT_ONNX_IS_VALUE | INTACT_ONNX_IS_OUTPUT,
                    INTACT_ONNX_IS_VALUE);
}

const char *intact__onnx_fresh_node_name(intact_onnx_scope *scope, const char *base) {
  return fresh_name(scope, base, &scope->graph->node_names, INTACT_ONNX_IS_NODE, INTACT_ONNX_IS_NODE);
}
