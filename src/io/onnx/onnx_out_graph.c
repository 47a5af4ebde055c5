/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, inputs and outputs of an ONNX graph being made: by an op's own function, else by the alias of its row. */
#include <math.h>
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

/* The opset that brought an operator, or the form of it that is written, when later than the lowest one written. */
static const struct {
  const char *op;
  int opset;
} first_opsets[] = {
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"Gelu", 20},
    {"HardSwish", 14},
    {"Mish", 18},
    {"GridSample", 16},
    {"LayerNormalization", 17},
    {"GroupNormalization", 21},
    {"Trilu", 14},
    {"RMSNormalization", 23},
};

static const intact_onnx_out_row *const families[] = {
    intact__onnx_out_control,   intact__onnx_out_elementwise, intact__onnx_out_neural, intact__onnx_out_quantized,
    intact__onnx_out_recurrent, intact__onnx_out_shape,       intact__onnx_out_vision,
};

static const intact_onnx_out_row *find_row(const char *op) {
  for (int f = 0; f < INTACT_COUNT_OF(families); f++) {
    for (const intact_onnx_out_row *row = families[f]; row->op != NULL; row++) {
      if (strcmp(row->op, op) == 0) return row;
    }
  }
  return NULL;
}

static int first_opset(const intact_alias *alias) {
  int first = alias->since;
  for (int i = 0; i < INTACT_COUNT_OF(first_opsets); i++) {
    if (strcmp(first_opsets[i].op, alias->name) == 0 && first_opsets[i].opset > first) first = first_opsets[i].opset;
  }
  return first;
}

/* ---- by alias ---- */
/* Our attribute's name in "foreign=ours,..."; NULL when the map does not have it. */
static const char *foreign_name(intact_onnx_out *out, const char *map, const char *ours) {
  size_t length = strlen(ours);
  while (map != NULL && *map != 0) {
    size_t left = strcspn(map, "=,"), whole = strcspn(map, ",");
    const char *right = map + left + 1;
    if (left < whole && whole - left - 1 == length && strncmp(right, ours, length) == 0) {
      return intact__arena_format(&out->output->arena, "%.*s", (int)left, map);
    }
    map += whole + (map[whole] == ',');
  }
  return NULL;
}

static intact_status write_attribute(intact_onnx_out *out, Onnx__NodeProto *node, const char *name,
                                     const intact_attr_spec *spec, const intact_attr *attr) {
  switch (spec->type) {
    case INTACT_ATTR_INT:
    case INTACT_ATTR_BOOL:
      return intact__onnx_out_int(out, node, name, attr->i);
    case INTACT_ATTR_DTYPE:
      return intact__onnx_out_int(out, node, name, intact__onnx_dtype_number((intact_dtype)attr->i));
    case INTACT_ATTR_FLOAT:
      return intact__onnx_out_float(out, node, name, attr->f);
    case INTACT_ATTR_STRING:
      return intact__onnx_out_string(out, node, name, attr->s);
    case INTACT_ATTR_INTS:
      return intact__onnx_out_ints(out, node, name, attr->n, attr->ints);
    case INTACT_ATTR_FLOATS:
    case INTACT_ATTR_STRINGS:
    case INTACT_ATTR_TENSOR:
      break;
  }
  INTACT_FAIL(out->output->context, INTERNAL, name, "attribute %s is of a kind that no alias writes", name);
}

static bool is_default(const intact_attr_spec *spec, const intact_attr *attr) {
  if (!attr->present) return true;
  switch (spec->type) {
    case INTACT_ATTR_INT:
    case INTACT_ATTR_BOOL:
    case INTACT_ATTR_DTYPE:
      return !spec->nullable && attr->i == spec->i;
    case INTACT_ATTR_FLOAT:
      return !spec->nullable && attr->f == spec->f;
    case INTACT_ATTR_STRING:
      return strcmp(attr->s, spec->s == NULL ? "" : spec->s) == 0;
    case INTACT_ATTR_INTS:
      if (attr->n != spec->n) return false;
      for (int i = 0; i < attr->n; i++) {
        if (attr->ints[i] != spec->i) return false;
      }
      return true;
    case INTACT_ATTR_FLOATS:
    case INTACT_ATTR_STRINGS:
    case INTACT_ATTR_TENSOR:
      break;
  }
  return false;
}

intact_status intact__onnx_out_by_alias(intact_onnx_out *out, const intact_node *node, const intact_alias *alias) {
  Onnx__NodeProto *made = NULL;
  const intact_schema *schema = &node->op->schema;
  INTACT_TRY(intact__onnx_out_node(out, node, alias->name, &made));
  intact__onnx_out_needs(out, first_opset(alias));
  int n = node->n_operands;
  while (n > 0 && node->operands[n - 1] == NULL) n--;
  for (int i = 0; i < n; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  for (int i = 0; i < schema->n_attrs; i++) {
    const intact_attr_spec *spec = &schema->attrs[i];
    const intact_attr *attr = &node->attrs[i];
    const char *name = foreign_name(out, alias->attrs, spec->name);
    if (name == NULL && !is_default(spec, attr)) {
      const char *why =
          intact__arena_format(&out->output->arena, "ONNX's %s has no attribute for %s", alias->name, spec->name);
      return why == NULL ? intact__no_memory(out->output->context, 1) : intact__onnx_out_refuse(out, node, why);
    }
    if (name == NULL || (spec->nullable && !attr->present)) continue;
    INTACT_TRY(write_attribute(out, made, name, spec, attr));
  }
  for (int i = 0; i < node->n_results; i++) INTACT_TRY(intact__onnx_out_result(out, made, node, i));
  return INTACT_OK;
}

/* Fix-ups that only supply what ONNX takes for granted when reading: written attributes say it all. */
static bool reads_only(const char *fixup) {
  static const char *const names[] = {"hardsigmoid_default", "scalar_operand", "threshold_default"};
  for (int i = 0; fixup != NULL && i < INTACT_COUNT_OF(names); i++) {
    if (strcmp(names[i], fixup) == 0) return true;
  }
  return fixup == NULL;
}

/* The alias of the row that the opset being written has; NULL: none. */
static const intact_alias *find_alias(const intact_onnx_out *out, const intact_op *op) {
  for (const intact_alias *alias = op->aliases; alias != NULL && alias->name != NULL; alias++) {
    bool fits = strcmp(alias->format, "onnx") == 0 && first_opset(alias) <= INTACT_ONNX_OPSET_LAST &&
                (alias->until == 0 || out->output->opset <= alias->until) && strstr(alias->name, "::") == NULL &&
                reads_only(alias->fixup);
    if (fits) return alias;
  }
  return NULL;
}

static intact_status write_node(intact_onnx_out *out, const intact_node *node) {
  const intact_onnx_out_row *row = find_row(node->op->name);
  if (row != NULL) return row->write(out, node);
  if (node->observation != NULL) return intact__onnx_out_refuse(out, node, "it observes; convert the graph first");
  const intact_alias *alias = find_alias(out, node->op);
  if (alias == NULL) return intact__onnx_out_refuse(out, node, "ONNX has no such operator");
  return intact__onnx_out_by_alias(out, node, alias);
}

/* ---- types ---- */
static intact_status write_dim(intact_onnx_out *out, const intact_value *value, int d,
                               Onnx__TensorShapeProto__Dimension **dim) {
  Onnx__TensorShapeProto__Dimension *made = intact__arena_alloc(&out->output->arena, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(out->output->context, sizeof *made);
  onnx__tensor_shape_proto__dimension__init(made);
  if (value->dims[d] >= 0) {
    made->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    made->dim_value = value->dims[d];
  } else {
    made->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    made->dim_param = intact__arena_strdup(&out->output->arena, intact_graph_symbol(out->graph, value->dims[d]));
    if (made->dim_param == NULL) return intact__no_memory(out->output->context, 1);
  }
  *dim = made;
  return INTACT_OK;
}

static intact_status write_shape(intact_onnx_out *out, const intact_value *value, Onnx__TensorShapeProto **shape) {
  *shape = NULL;
  if (value->rank < 0) return INTACT_OK;
  Onnx__TensorShapeProto *made = intact__arena_alloc(&out->output->arena, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(out->output->context, sizeof *made);
  onnx__tensor_shape_proto__init(made);
  made->dim = intact__arena_alloc(&out->output->arena, (size_t)value->rank + 1, sizeof(void *));
  if (made->dim == NULL) return intact__no_memory(out->output->context, 1);
  made->n_dim = (size_t)value->rank;
  for (int d = 0; d < value->rank; d++) INTACT_TRY(write_dim(out, value, d, &made->dim[d]));
  *shape = made;
  return INTACT_OK;
}

static intact_status write_info(intact_onnx_out *out, const intact_value *value, const char *name,
                                Onnx__ValueInfoProto **info) {
  intact_arena *arena = &out->output->arena;
  Onnx__ValueInfoProto *made = intact__arena_alloc(arena, 1, sizeof *made);
  Onnx__TypeProto *type = intact__arena_alloc(arena, 1, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = intact__arena_alloc(arena, 1, sizeof *tensor);
  if (made == NULL || type == NULL || tensor == NULL) return intact__no_memory(out->output->context, sizeof *made);
  onnx__value_info_proto__init(made);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  made->name = intact__arena_strdup(arena, name);
  if (made->name == NULL) return intact__no_memory(out->output->context, 1);
  made->type = type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  tensor->has_elem_type = 1;
  tensor->elem_type = intact__onnx_dtype_number(value->dtype);
  INTACT_TRY(write_shape(out, value, &tensor->shape));
  *info = made;
  return INTACT_OK;
}

static intact_status write_inputs(intact_onnx_out *out, int n) {
  Onnx__GraphProto *proto = out->proto;
  proto->input = intact__arena_alloc(&out->output->arena, (size_t)n + 1, sizeof *proto->input);
  if (proto->input == NULL) return intact__no_memory(out->output->context, (size_t)n * sizeof *proto->input);
  for (int i = 0; i < n; i++) {
    const intact_value *value = out->graph->inputs[i];
    INTACT_TRY(write_info(out, value, out->names[value->id], &proto->input[i]));
  }
  proto->n_input = (size_t)n;
  return INTACT_OK;
}

/* The name of output i. Outputs of a body must be made inside of it, each once: others get an Identity node. */
static intact_status output_name(intact_onnx_out *out, int i, const char **name) {
  const intact_graph *graph = out->graph;
  const intact_value *value = graph->outputs[i];
  INTACT_TRY(intact__onnx_out_name(out, value, name));
  bool own = out->outer == NULL || value->producer != NULL;
  for (int k = 0; k < i; k++) own = own && graph->outputs[k] != value;
  if (own) return INTACT_OK;
  Onnx__NodeProto *node = NULL;
  INTACT_TRY(intact__onnx_out_node(out, NULL, "Identity", &node));
  INTACT_TRY(intact__onnx_out_input(out, node, *name));
  *name = intact__onnx_out_fresh(out, value->name, "out");
  return *name == NULL ? intact__no_memory(out->output->context, 1) : intact__onnx_out_output(out, node, *name);
}

/* An output that is a constant is written as an initializer even when no node reads it. */
static intact_status write_outputs(intact_onnx_out *out) {
  Onnx__GraphProto *proto = out->proto;
  int n = out->graph->n_outputs;
  proto->output = intact__arena_alloc(&out->output->arena, (size_t)n + 1, sizeof *proto->output);
  if (proto->output == NULL) return intact__no_memory(out->output->context, (size_t)n * sizeof *proto->output);
  for (int i = 0; i < n; i++) {
    const char *name = NULL;
    INTACT_TRY(output_name(out, i, &name));
    INTACT_TRY(write_info(out, out->graph->outputs[i], name, &proto->output[i]));
  }
  proto->n_output = (size_t)n;
  return INTACT_OK;
}

intact_status intact__onnx_out_graph(intact_onnx_out *out) {
  int n_inputs = out->outer == NULL ? out->graph->n_inputs : out->n_own;
  for (const intact_node *node = out->graph->first; node != NULL; node = node->next) INTACT_TRY(write_node(out, node));
  INTACT_TRY(write_inputs(out, n_inputs));
  return write_outputs(out);
}
