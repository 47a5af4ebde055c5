/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of ONNX nodes: by name and type, through function calls, and by the maps of the alias rows. */
#include <string.h>

#include "io/onnx/onnx_import.h"

enum { MOST_INTS = 1 << 16 }; /* longest list of known integers that a fix-up looks at */

static const Onnx__AttributeProto *find(const Onnx__NodeProto *proto, const char *name, size_t *at) {
  for (size_t i = 0; i < proto->n_attribute; i++) {
    if (strcmp(intact__onnx_text(proto->attribute[i]->name), name) == 0) {
      *at = i;
      return proto->attribute[i];
    }
  }
  return NULL;
}

static const Onnx__AttributeProto *function_default(const intact_onnx_scope *scope, const char *name) {
  const struct intact_onnx_defaults *defaults = &scope->import->defaults[scope->function_at];
  for (size_t i = 0; i < defaults->n; i++) {
    if (strcmp(intact__onnx_text(defaults->attributes[i]->name), name) == 0) return defaults->attributes[i];
  }
  return NULL;
}

/* Follows references into the calls around. */
static const Onnx__AttributeProto *follow(const intact_onnx_scope *scope, const Onnx__AttributeProto *attr) {
  while (attr != NULL && attr->ref_attr_name != NULL && attr->ref_attr_name[0] != 0) {
    if (scope->function == NULL) return NULL;
    size_t at = 0;
    const Onnx__AttributeProto *given = find(scope->call, attr->ref_attr_name, &at);
    attr = given != NULL ? given : function_default(scope, attr->ref_attr_name);
    scope = scope->call_scope;
  }
  return attr;
}

const Onnx__AttributeProto *intact__onnx_attribute(intact_onnx_node *node, const char *name) {
  size_t at = 0;
  const Onnx__AttributeProto *attr = find(node->proto, name, &at);
  if (attr == NULL) return NULL;
  node->taken[at] = true;
  return follow(node->scope, attr);
}

static intact_status check_type(intact_onnx_node *node, const Onnx__AttributeProto *attr, int type, const char *wanted) {
  bool is = !attr->has_type || attr->type == 0 || (int)attr->type == type;
  if (is) return INTACT_OK;
  INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
              "cannot read node '%s' (%s): its attribute '%s' has type %d, %s is needed", node->name, node->op,
              intact__onnx_text(attr->name), (int)attr->type, wanted);
}

intact_status intact__onnx_attr_int(intact_onnx_node *node, const char *name, int64_t absent, int64_t *value) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  if (attr != NULL) INTACT_TRY(check_type(node, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, "an integer"));
  *value = attr == NULL ? absent : attr->i;
  return INTACT_OK;
}

intact_status intact__onnx_attr_float(intact_onnx_node *node, const char *name, double absent, double *value) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  if (attr != NULL) INTACT_TRY(check_type(node, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, "a float"));
  *value = attr == NULL ? absent : (double)attr->f;
  return INTACT_OK;
}

static const char *copy_bytes(intact_onnx_node *node, const ProtobufCBinaryData *bytes) {
  char *text = intact__arena_alloc(&node->import->file->arena, bytes->len + 1, 1);
  if (text != NULL && bytes->len > 0) memcpy(text, bytes->data, bytes->len);
  return text;
}

intact_status intact__onnx_attr_string(intact_onnx_node *node, const char *name, const char *absent, const char **value) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  if (attr == NULL) {
    *value = absent;
    return INTACT_OK;
  }
  INTACT_TRY(check_type(node, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, "a string"));
  const char *text = copy_bytes(node, &attr->s);
  if (text == NULL) return intact__no_memory(node->context, attr->s.len);
  *value = text;
  return INTACT_OK;
}

intact_status intact__onnx_attr_ints(intact_onnx_node *node, const char *name, int *n, const int64_t **values) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  *n = -1;
  if (attr == NULL) return INTACT_OK;
  INTACT_TRY(check_type(node, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, "a list of integers"));
  if (attr->n_ints > MOST_INTS) {
    INTACT_FAIL(node->context, OUT_OF_RANGE, node->name, "cannot read node '%s' (%s): its attribute '%s' has %zu numbers",
                node->name, node->op, name, attr->n_ints);
  }
  *n = (int)attr->n_ints;
  *values = attr->ints;
  return INTACT_OK;
}

intact_status intact__onnx_attr_floats(intact_onnx_node *node, const char *name, int *n, const float **values) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  *n = -1;
  if (attr == NULL) return INTACT_OK;
  INTACT_TRY(check_type(node, attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, "a list of floats"));
  if (attr->n_floats > MOST_INTS) {
    INTACT_FAIL(node->context, OUT_OF_RANGE, node->name, "cannot read node '%s' (%s): its attribute '%s' has %zu numbers",
                node->name, node->op, name, attr->n_floats);
  }
  *n = (int)attr->n_floats;
  *values = attr->floats;
  return INTACT_OK;
}

void intact__onnx_ignore(intact_onnx_node *node, const char *names) {
  while (*names != 0) {
    size_t length = strcspn(names, ",");
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
      const char *name = intact__onnx_text(node->proto->attribute[i]->name);
      if (strlen(name) == length && strncmp(name, names, length) == 0) node->taken[i] = true;
    }
    names += length + (names[length] == ',');
  }
}

intact_status intact__onnx_known_ints(intact_onnx_node *node, const intact_value *value, int *n, const int64_t **values) {
  *n = -1;
  if (value == NULL) return INTACT_OK;
  if (value->constant == NULL) {
    if (value->elements == NULL) return INTACT_OK;
    for (int i = 0; i < value->n_elements; i++) {
      if (intact__element_is_symbol(value->elements[i])) return INTACT_OK;
    }
    *n = value->n_elements;
    *values = value->elements;
    return INTACT_OK;
  }
  const intact_tensor *tensor = value->constant;
  if (!intact_dtype_is_integer(tensor->dtype) || tensor->rank > 1) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
                "cannot read node '%s' (%s): '%s' must be a list of integers, it is %s of rank %d", node->name, node->op,
                value->name, intact_dtype_text(tensor->dtype), tensor->rank);
  }
  if (tensor->count > MOST_INTS) {
    INTACT_FAIL(node->context, OUT_OF_RANGE, node->name, "cannot read node '%s' (%s): '%s' has %lld numbers", node->name,
                node->op, value->name, (long long)tensor->count);
  }
  int64_t *copy = intact__arena_alloc(&node->import->file->arena, (size_t)tensor->count + 1, sizeof *copy);
  if (copy == NULL) return intact__no_memory(node->context, (size_t)tensor->count * sizeof *copy);
  for (int64_t i = 0; i < tensor->count; i++) copy[i] = intact__tensor_get_s64(tensor, i);
  *n = (int)tensor->count;
  *values = copy;
  return INTACT_OK;
}

bool intact__onnx_known_float(const intact_value *value, double *number) {
  if (value == NULL || value->constant == NULL || value->constant->count != 1 || value->qparams != NULL) return false;
  *number = intact__tensor_get_f64(value->constant, 0);
  return true;
}

/* ---- maps ---- */
static const intact_attr_spec *find_spec(const intact_op *row, const char *name, size_t length) {
  for (int i = 0; i < row->schema.n_attrs; i++) {
    const char *ours = row->schema.attrs[i].name;
    if (strlen(ours) == length && strncmp(ours, name, length) == 0) return &row->schema.attrs[i];
  }
  return NULL;
}

static intact_status set_strings(intact_onnx_node *node, intact_node *made, const intact_attr_spec *spec,
                                 const Onnx__AttributeProto *attr) {
  const char **texts = intact__arena_alloc(&node->import->file->arena, attr->n_strings + 1, sizeof *texts);
  if (texts == NULL || attr->n_strings > MOST_INTS) return intact__no_memory(node->context, attr->n_strings * sizeof *texts);
  for (size_t i = 0; i < attr->n_strings; i++) {
    texts[i] = copy_bytes(node, &attr->strings[i]);
    if (texts[i] == NULL) return intact__no_memory(node->context, attr->strings[i].len);
  }
  return intact__attr_set_strings(made, spec->name, (int)attr->n_strings, texts);
}

static intact_status set_floats(intact_onnx_node *node, intact_node *made, const intact_attr_spec *spec,
                                const char *foreign) {
  int n = 0;
  const float *values = NULL;
  INTACT_TRY(intact__onnx_attr_floats(node, foreign, &n, &values));
  double *wide = intact__arena_alloc(&node->import->file->arena, (size_t)n + 1, sizeof *wide);
  if (wide == NULL) return intact__no_memory(node->context, (size_t)n * sizeof *wide);
  for (int i = 0; i < n; i++) wide[i] = (double)values[i];
  return intact__attr_set_floats(made, spec->name, n, wide);
}

static intact_status set_tensor(intact_onnx_node *node, intact_node *made, const intact_attr_spec *spec,
                                const Onnx__AttributeProto *attr, const char *foreign) {
  intact_tensor *tensor = NULL;
  if (attr->t == NULL) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name, "cannot read node '%s' (%s): its attribute '%s' is no tensor",
                node->name, node->op, foreign);
  }
  const char *what = intact__arena_format(&node->import->file->arena, "attribute '%s' of node '%s'", foreign, node->name);
  if (what == NULL) return intact__no_memory(node->context, 1);
  INTACT_TRY(intact__onnx_tensor(node->import->file, attr->t, what, &tensor));
  return intact__attr_set_tensor(made, spec->name, tensor);
}

static intact_status set_one(intact_onnx_node *node, intact_node *made, const intact_attr_spec *spec, const char *foreign) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, foreign);
  if (attr == NULL) return INTACT_OK;
  int64_t i = 0;
  double f = 0;
  const char *s = NULL;
  int n = 0;
  const int64_t *ints = NULL;
  intact_dtype dtype;
  bool is_int = (int)attr->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  switch (spec->type) {
    case INTACT_ATTR_INT:
      INTACT_TRY(intact__onnx_attr_int(node, foreign, 0, &i));
      intact__attr_set_int(made, spec->name, i);
      return INTACT_OK;
    case INTACT_ATTR_BOOL:
      INTACT_TRY(intact__onnx_attr_int(node, foreign, 0, &i));
      intact__attr_set_int(made, spec->name, i != 0);
      return INTACT_OK;
    case INTACT_ATTR_DTYPE:
      INTACT_TRY(intact__onnx_attr_int(node, foreign, 0, &i));
      INTACT_TRY(intact__onnx_dtype(node->context, i, node->name, &dtype));
      intact__attr_set_int(made, spec->name, dtype);
      return INTACT_OK;
    case INTACT_ATTR_FLOAT:
      if (is_int) f = (double)attr->i;
      if (!is_int) INTACT_TRY(intact__onnx_attr_float(node, foreign, 0, &f));
      intact__attr_set_float(made, spec->name, f);
      return INTACT_OK;
    case INTACT_ATTR_STRING:
      INTACT_TRY(intact__onnx_attr_string(node, foreign, "", &s));
      return intact__attr_set_string(made, spec->name, s);
    case INTACT_ATTR_INTS:
      if (is_int) return intact__attr_set_ints(made, spec->name, 1, &attr->i);
      INTACT_TRY(intact__onnx_attr_ints(node, foreign, &n, &ints));
      return intact__attr_set_ints(made, spec->name, n, ints);
    case INTACT_ATTR_FLOATS:
      return set_floats(node, made, spec, foreign);
    case INTACT_ATTR_STRINGS:
      return set_strings(node, made, spec, attr);
    case INTACT_ATTR_TENSOR:
      return set_tensor(node, made, spec, attr, foreign);
  }
  return INTACT_OK;
}

intact_status intact__onnx_map_attributes(intact_onnx_node *node, intact_node *made) {
  const char *map = node->alias->attrs;
  while (map != NULL && *map != 0) {
    size_t length = strcspn(map, ","), left = strcspn(map, "=");
    const char *foreign =
        intact__arena_format(&node->import->file->arena, "%.*s", (int)(left < length ? left : length), map);
    if (foreign == NULL) return intact__no_memory(node->context, length);
    size_t right = left < length ? length - left - 1 : 0;
    if (right == 0) intact__onnx_ignore(node, foreign);
    const intact_attr_spec *spec = right == 0 ? NULL : find_spec(made->op, map + left + 1, right);
    if (spec != NULL) INTACT_TRY(set_one(node, made, spec, foreign));
    map += length + (map[length] == ',');
  }
  return INTACT_OK;
}

intact_status intact__onnx_check_attributes(intact_onnx_node *node) {
  for (size_t i = 0; i < node->proto->n_attribute; i++) {
    if (node->taken[i]) continue;
    INTACT_FAIL(
        node->context, UNSUPPORTED_OP, node->name,
        "cannot read node '%s' (%s): its attribute '%s' is not supported; remove it or export the model in another form",
        node->name, node->op, intact__onnx_text(node->proto->attribute[i]->name));
  }
  return INTACT_OK;
}
