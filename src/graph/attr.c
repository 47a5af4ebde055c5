/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes, by the schema's names. */
#include <assert.h>
#include <string.h>

#include "graph/graph.h"

static int find_attr(const intact_node *node, const char *name) {
  const intact_schema *schema = &node->op->schema;
  for (int i = 0; i < schema->n_attrs; i++)
    if (strcmp(schema->attrs[i].name, name) == 0) return i;
  assert(!"an attribute of this name is in the op's schema");
  return 0;
}

const intact_attr *intact__attr(const intact_node *node, const char *name) { return &node->attrs[find_attr(node, name)]; }
int64_t intact__attr_int(const intact_node *node, const char *name) { return intact__attr(node, name)->i; }
double intact__attr_float(const intact_node *node, const char *name) { return intact__attr(node, name)->f; }
const char *intact__attr_string(const intact_node *node, const char *name) { return intact__attr(node, name)->s; }

static intact_attr *to_set(intact_node *node, const char *name) {
  intact_attr *attr = &node->attrs[find_attr(node, name)];
  attr->present = true;
  return attr;
}

void intact__attr_set_int(intact_node *node, const char *name, int64_t value) { to_set(node, name)->i = value; }
void intact__attr_set_float(intact_node *node, const char *name, double value) { to_set(node, name)->f = value; }

intact_status intact__attr_set_string(intact_node *node, const char *name, const char *value) {
  char *kept = intact__arena_strdup(&node->graph->arena, value);
  if (kept == NULL) return intact__no_memory(node->graph->context, strlen(value) + 1);
  to_set(node, name)->s = kept;
  return INTACT_OK;
}

intact_status intact__attr_set_ints(intact_node *node, const char *name, int n, const int64_t *values) {
  int64_t *kept = intact__arena_alloc(&node->graph->arena, (size_t)n, sizeof *kept);
  if (kept == NULL) return intact__no_memory(node->graph->context, (size_t)n * sizeof *kept);
  if (n > 0) memcpy(kept, values, (size_t)n * sizeof *kept);
  intact_attr *attr = to_set(node, name);
  attr->n = n;
  attr->ints = kept;
  return INTACT_OK;
}

intact_status intact__attr_set_floats(intact_node *node, const char *name, int n, const double *values) {
  double *kept = intact__arena_alloc(&node->graph->arena, (size_t)n, sizeof *kept);
  if (kept == NULL) return intact__no_memory(node->graph->context, (size_t)n * sizeof *kept);
  if (n > 0) memcpy(kept, values, (size_t)n * sizeof *kept);
  intact_attr *attr = to_set(node, name);
  attr->n = n;
  attr->floats = kept;
  return INTACT_OK;
}

intact_status intact__attr_set_strings(intact_node *node, const char *name, int n, const char *const *values) {
  intact_arena *arena = &node->graph->arena;
  const char **kept = intact__arena_alloc(arena, (size_t)n, sizeof *kept);
  if (kept == NULL) return intact__no_memory(node->graph->context, (size_t)n * sizeof *kept);
  for (int i = 0; i < n; i++) {
    kept[i] = intact__arena_strdup(arena, values[i]);
    if (kept[i] == NULL) return intact__no_memory(node->graph->context, strlen(values[i]) + 1);
  }
  intact_attr *attr = to_set(node, name);
  attr->n = n;
  attr->strings = kept;
  return INTACT_OK;
}

intact_status intact__attr_set_tensor(intact_node *node, const char *name, intact_tensor *tensor) {
  intact_attr *attr = to_set(node, name);
  if (attr->tensor != tensor) intact_tensor_destroy(attr->tensor);
  attr->tensor = tensor;
  return INTACT_OK;
}
