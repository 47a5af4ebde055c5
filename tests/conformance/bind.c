/* SPDX-License-Identifier: Apache-2.0 */
/* Binding of operator cases to rows: inputs and attributes by name, then in order. */
#include "conformance/bind.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/quantized/quantized.h"

/* "b_" is the plain name "b"; what a fused addition adds to is the row's other operand. */
static bool same_name(const char *ours, const char *theirs) {
  if (strcmp(theirs, "accum") == 0) theirs = "other";
  const size_t length = strlen(theirs), plain = length > 1 && theirs[length - 1] == '_' ? length - 1 : length;
  return strcmp(ours, theirs) == 0 || (strlen(ours) == plain && strncmp(ours, theirs, plain) == 0);
}

static const json_t *inputs_of(const conf_case *c) {
  return json_object_get(c->json, "inputs");
}
const json_t *conf_bind_expect(const conf_case *c) {
  const char *key;
  json_t *group;
  json_object_foreach(conf_iterable(c->json), key, group) {
    if (strncmp(key, "expect", 6) == 0) return group;
  }
  return NULL;
}

/* "dy" is the gradient that flows into "y". */
static bool is_upstream(const conf_case *c, const char *name) {
  return name[0] == 'd' && conf_expects(c, "%s", name + 1);
}
static bool is_gradient(const conf_case *c, const char *name) {
  return name[0] == 'd' && json_object_get(inputs_of(c), name + 1) != NULL;
}

static bool is_variadic(const conf_binding *b, int operand) {
  return operand < b->op->schema.n_operands && (b->op->schema.operands[operand].flags & INTACT_VARIADIC) != 0;
}

/* "weight_ih_l0": a parameter of a layer, which only a variadic operand takes. */
static bool is_layer_parameter(const char *name) {
  return (strncmp(name, "weight_", 7) == 0 || strncmp(name, "bias_", 5) == 0) && strstr(name, "_l") != NULL;
}

/* First by name, then the rest in order; what is left over goes to a variadic last operand. */
static void bind_inputs(conf_binding *b) {
  const intact_schema *schema = &b->op->schema;
  const char *rest[CONF_MAX_OPERANDS], *name;
  int n_rest = 0, next = 0;
  json_t *key;
  b->n = schema->n_operands;
  json_object_foreach(conf_iterable(inputs_of(b->c)), name, key) {
    if (is_upstream(b->c, name) || (b->passes && b->passes(b->c, name))) continue;
    int i = 0;
    while (i < schema->n_operands && (is_variadic(b, i) || b->inputs[i] || !same_name(schema->operands[i].name, name))) i++;
    if (i < schema->n_operands) {
      b->inputs[i] = name;
    } else if (n_rest < CONF_MAX_OPERANDS) {
      rest[n_rest++] = name;
    }
  }
  for (int i = 0; i < schema->n_operands && next < n_rest && !is_layer_parameter(rest[next]); i++) {
    if (!b->inputs[i] && !is_variadic(b, i)) b->inputs[i] = rest[next++];
  }
  if (schema->n_operands > 0 && is_variadic(b, schema->n_operands - 1)) {
    b->n = schema->n_operands - 1;
    while (next < n_rest && b->n < CONF_MAX_OPERANDS) b->inputs[b->n++] = rest[next++];
  }
  if (next < n_rest) conf_fail(b->c, "expected an operand for input %s, got a row %s without one", rest[next], b->op->name);
  for (int i = 0; i < b->n; i++) {
    if (b->inputs[i]) b->operands[i] = conf_input(b->c, "%s", b->inputs[i]);
  }
}

/* Our name of a foreign attribute by the alias row "foreign=ours,..."; NULL: not listed, "": to be ignored. */
const char *conf_bind_renamed(const intact_alias *alias, const char *name, char *buffer, size_t size) {
  const size_t length = strlen(name);
  for (const char *at = alias->attrs ? alias->attrs : ""; *at;) {
    const size_t item = strcspn(at, ",");
    if (item > length && strncmp(at, name, length) == 0 && at[length] == '=') {
      snprintf(buffer, size, "%.*s", (int)(item - length - 1), at + length + 1);
      return buffer;
    }
    at += item + (at[item] == ',');
  }
  return NULL;
}

static intact_status set_list(intact_node *node, const intact_attr_spec *spec, const json_t *value) {
  enum { MAX = 64 };
  int64_t ints[MAX];
  double floats[MAX];
  int n = 0;
  if (json_is_array(value)) {
    size_t i;
    const json_t *item;
    json_array_foreach(value, i, item) {
      if (n == MAX) break;
      ints[n] = conf_json_int(item, 0);
      floats[n++] = conf_json_f64(item, 0);
    }
  } else {
    ints[0] = conf_json_int(value, 0);
    floats[0] = conf_json_f64(value, 0);
    n = 1;
  }
  return spec->type == INTACT_ATTR_INTS ? intact__attr_set_ints(node, spec->name, n, ints)
                                        : intact__attr_set_floats(node, spec->name, n, floats);
}

static intact_status set_attr(conf_binding *b, intact_node *node, const intact_attr_spec *spec, const json_t *value) {
  intact_dtype dtype;
  const char *text = json_string_value(value);
  switch (spec->type) {
    case INTACT_ATTR_INT:
    case INTACT_ATTR_BOOL:
      if (!json_is_integer(value) && !json_is_boolean(value) && !json_is_real(value)) break;
      intact__attr_set_int(node, spec->name, conf_json_int(value, 0));
      return INTACT_OK;
    case INTACT_ATTR_FLOAT:
      intact__attr_set_float(node, spec->name, conf_json_f64(value, 0));
      return INTACT_OK;
    case INTACT_ATTR_STRING:
      if (!text) break;
      return intact__attr_set_string(node, spec->name, text);
    case INTACT_ATTR_DTYPE:
      if (!conf_dtype(text, &dtype)) break;
      intact__attr_set_int(node, spec->name, dtype);
      return INTACT_OK;
    case INTACT_ATTR_INTS:
    case INTACT_ATTR_FLOATS:
      if (text && isnan(conf_json_f64(value, NAN))) break;
      return set_list(node, spec, value);
    default:
      break;
  }
  return conf_fail(b->c, "expected attribute %s of %s to take the case's value, got another type", spec->name, b->op->name);
}

static const intact_attr_spec *find_attr(const intact_op *op, const char *name) {
  for (int i = 0; i < op->schema.n_attrs; i++) {
    if (strcmp(op->schema.attrs[i].name, name) == 0) return &op->schema.attrs[i];
  }
  return NULL;
}

/* An attribute of the case that is an operand of the row: a number or a list as a tensor. */
static bool bind_attr_as_operand(conf_binding *b, const char *name, const json_t *value) {
  for (int i = 0; i < b->op->schema.n_operands && i < b->n; i++) {
    if (b->operands[i] || !same_name(b->op->schema.operands[i].name, name)) continue;
    const bool list = json_is_array(value);
    const int64_t n = list ? (int64_t)json_array_size(value) : 1;
    const json_t *first = list ? json_array_get(value, 0) : value;
    const intact_dtype dtype = json_is_real(first) ? INTACT_F32 : INTACT_S64;
    if (intact_tensor_create(b->c->context, dtype, list, &n, &b->made[i]) != INTACT_OK) return false;
    for (int64_t k = 0; k < n; k++) {
      intact__tensor_set_f64(b->made[i], k, conf_json_f64(list ? json_array_get(value, (size_t)k) : value, 0));
    }
    b->operands[i] = b->made[i];
    return true;
  }
  return false;
}

static const char *our_attr(const conf_binding *b, const char *name, char *buffer, size_t size) {
  const char *ours = conf_bind_renamed(b->alias, name, buffer, size);
  return ours ? ours : name;
}

static void bind_attrs_as_operands(conf_binding *b) {
  const char *name;
  json_t *value;
  char buffer[100];
  json_object_foreach(json_object_get(b->c->json, "attrs"), name, value) {
    const char *ours = our_attr(b, name, buffer, sizeof buffer);
    if (json_is_null(value) || !*ours || *ours == '@' || find_attr(b->op, ours)) continue;
    if (b->passes && b->passes(b->c, name)) continue;
    if (!bind_attr_as_operand(b, ours, value)) {
      conf_fail(b->c, "expected attribute %s, got a row %s without it", ours, b->op->name);
    }
  }
}

static intact_status set_attrs(conf_binding *b, intact_node *node) {
  const char *name;
  json_t *value;
  char buffer[100];
  json_object_foreach(json_object_get(b->c->json, "attrs"), name, value) {
    const intact_attr_spec *spec = find_attr(b->op, our_attr(b, name, buffer, sizeof buffer));
    if (!spec || json_is_null(value)) continue;
    intact_status status = set_attr(b, node, spec, value);
    if (status != INTACT_OK) return status;
  }
  return INTACT_OK;
}

/* A word where the row wants numbers is the overload named after that argument: conv2d.padding takes "same". */
static void choose_overload(conf_binding *b) {
  const char *name;
  json_t *value;
  char full[200];
  json_object_foreach(json_object_get(b->c->json, "attrs"), name, value) {
    const intact_attr_spec *spec = find_attr(b->op, name);
    const intact_alias *alias;
    if (!json_is_string(value) || !spec || spec->type != INTACT_ATTR_INTS) continue;
    snprintf(full, sizeof full, "%s.%s", b->c->op, name);
    const intact_op *op = intact__find_alias("aten", full, 0, &alias);
    if (!op) continue;
    b->op = op;
    b->alias = alias;
  }
}

static void list_results(conf_binding *b) {
  const char *name;
  json_t *key;
  json_object_foreach(conf_iterable(conf_bind_expect(b->c)), name, key) {
    if (!is_gradient(b->c, name) && !(b->passes && b->passes(b->c, name)) && b->n_expected < CONF_MAX_OPERANDS)
      b->expected[b->n_expected++] = name;
  }
}

/* Index of the row's result that the case calls its k-th. */
int conf_bind_result(const conf_binding *b, int k) {
  const intact_schema *schema = &b->op->schema;
  for (int i = 0; i < schema->n_results; i++) {
    if (strcmp(schema->results[i], b->expected[k]) == 0) return i;
  }
  return k;
}

intact_status conf_bind_node(conf_binding *b, intact_graph **graph, intact_node **node) {
  intact_value *values[CONF_MAX_OPERANDS] = {NULL};
  intact_status status = intact__graph_create(b->c->context, b->c->name, graph);
  for (int i = 0; i < b->n && status == INTACT_OK; i++) {
    const intact_tensor *x = b->operands[i];
    char name[20];
    snprintf(name, sizeof name, "in%d", i);
    if (b->made[i]) {
      intact_tensor *shared;
      status = intact_tensor_share(b->made[i], 0, NULL, &shared);
      if (status == INTACT_OK) status = intact__graph_add_constant(*graph, name, shared, NULL, &values[i]);
    } else if (x) {
      status = intact__graph_add_input(*graph, name, x->dtype, x->rank, x->dims, &values[i]);
      if (status == INTACT_OK && b->qparams[i]) status = intact__value_set_qparams(*graph, values[i], b->qparams[i]);
    }
  }
  const int n_results = b->op->schema.n_results >= 0 ? b->op->schema.n_results : b->n_expected;
  if (status == INTACT_OK) {
    status = intact__graph_add_node(*graph, b->op, b->c->name, b->n, values, n_results, NULL, NULL, node);
  }
  if (status == INTACT_OK) status = intact__set_alias_constants(*node, b->alias);
  if (status == INTACT_OK) status = set_attrs(b, *node);
  if (status == INTACT_OK) status = intact__node_infer(*node);
  return status;
}

/* What inference says of a result must hold of the result. */
void conf_bind_check_inference(conf_binding *b, const intact_value *value, const intact_tensor *tensor) {
  bool good = value->dtype == tensor->dtype && (value->rank < 0 || value->rank == tensor->rank);
  for (int i = 0; good && i < value->rank; i++) good = value->dims[i] < 0 || value->dims[i] == tensor->dims[i];
  if (good) return;
  char inferred[200], real[200];
  conf_fail(b->c, "%s: expected %s %s by shape inference, got %s %s", value->name, intact_dtype_text(value->dtype),
            value->rank < 0 ? "?" : intact__shape_text(value->rank, value->dims, inferred), intact_dtype_text(tensor->dtype),
            intact__shape_text(tensor->rank, tensor->dims, real));
}

void conf_bind(conf_binding *b) {
  choose_overload(b);
  bind_inputs(b);
  bind_attrs_as_operands(b);
  list_results(b);
  while (b->n > 0 && !b->operands[b->n - 1] && is_variadic(b, b->n - 1)) b->n--;
}

void conf_bind_release(int n, intact_tensor **tensors) {
  for (int i = 0; i < n; i++) {
    intact_tensor_destroy(tensors[i]);
    tensors[i] = NULL;
  }
}
