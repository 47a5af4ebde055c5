/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of an ONNX file being made: names, nodes, attributes, initializers. */
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

static intact_status no_memory(const intact_onnx_out *out) {
  return intact__no_memory(out->output->context, 1);
}

/* Room for one more pointer in an array of the arena that grows when n is a power of two. */
static intact_status grow(intact_onnx_out *out, void *array, size_t n) {
  void **list = NULL, **wider;
  memcpy(&list, array, sizeof list);
  if (n > 0 && (n & (n - 1)) != 0) return INTACT_OK;
  wider = intact__arena_alloc(&out->output->arena, n == 0 ? 1 : 2 * n, sizeof *wider);
  if (wider == NULL) return no_memory(out);
  if (n > 0) memcpy(wider, list, n * sizeof *wider);
  memcpy(array, &wider, sizeof wider);
  return INTACT_OK;
}

static char *copy_text(intact_onnx_out *out, const char *text) {
  return intact__arena_strdup(&out->output->arena, text);
}

static intact_status write_tensor(intact_onnx_out *out, const char *name, const intact_tensor *tensor);

/* ---- names ---- */
static bool is_used(const intact_onnx_out *out, const char *name) {
  int64_t there = 0;
  return intact__map_get(&out->output->used, name, &there);
}

const char *intact__onnx_out_fresh(intact_onnx_out *out, const char *base, const char *suffix) {
  const char *name =
      suffix[0] == 0 ? copy_text(out, base) : intact__arena_format(&out->output->arena, "%s_%s", base, suffix);
  while (name != NULL && is_used(out, name)) {
    name = intact__arena_format(&out->output->arena, "%s%s%s_%lld", base, suffix[0] == 0 ? "" : "_", suffix,
                                (long long)++out->output->fresh);
  }
  return name == NULL || intact__map_set(&out->output->used, name, 1) != INTACT_OK ? NULL : name;
}

intact_status intact__onnx_out_begin(intact_onnx_out *out) {
  const intact_graph *graph = out->graph;
  intact_arena *arena = &out->output->arena;
  out->names = intact__arena_alloc(arena, graph->n_values + 1, sizeof *out->names);
  out->real_names = intact__arena_alloc(arena, graph->n_values + 1, sizeof *out->real_names);
  out->written = intact__arena_alloc(arena, graph->n_values + 1, sizeof *out->written);
  out->scales = intact__arena_alloc(arena, graph->n_values + 1, sizeof *out->scales);
  if (out->scales == NULL || out->names == NULL || out->real_names == NULL || out->written == NULL) return no_memory(out);
  for (size_t i = 0; i < graph->n_values; i++) {
    const intact_value *value = graph->values[i];
    if (value == NULL) continue;
    out->names[i] = intact__onnx_out_fresh(out, value->name, "");
    if (out->names[i] == NULL) return no_memory(out);
  }
  return INTACT_OK;
}

intact_status intact__onnx_out_name(intact_onnx_out *out, const intact_value *value, const char **name) {
  *name = value == NULL ? "" : out->names[value->id];
  if (value == NULL || value->constant == NULL || out->written[value->id]) return INTACT_OK;
  out->written[value->id] = true;
  return write_tensor(out, *name, value->constant);
}

intact_status intact__onnx_out_real(intact_onnx_out *out, const intact_value *value, const char **name) {
  const intact_node *producer = value == NULL ? NULL : value->producer;
  bool constant = intact__is_op(producer, "dequantize") && producer->operands[0]->constant != NULL && !value->is_output;
  const intact_value *codes = constant ? producer->operands[0] : value;
  if (codes == NULL || codes->qparams == NULL) return intact__onnx_out_name(out, value, name);
  const char **slot = &out->real_names[codes->id];
  if (*slot == NULL) {
    const char *real = constant ? out->names[value->id] : intact__onnx_out_fresh(out, codes->name, "real");
    if (real == NULL) return no_memory(out);
    INTACT_TRY(intact__onnx_out_dequantize(out, constant ? producer : NULL, codes, real));
    *slot = real;
  }
  *name = *slot;
  return INTACT_OK;
}

/* ---- nodes ---- */
intact_status intact__onnx_out_node(intact_onnx_out *out, const intact_node *source, const char *op,
                                    Onnx__NodeProto **node) {
  intact_arena *arena = &out->output->arena;
  Onnx__NodeProto *made = intact__arena_alloc(arena, 1, sizeof *made);
  if (made == NULL) return no_memory(out);
  onnx__node_proto__init(made);
  const char *colons = strstr(op, "::");
  if (colons != NULL) {
    made->domain = intact__arena_format(arena, "%.*s", (int)(colons - op), op);
    out->output->microsoft |= strncmp(op, "com.microsoft", 13) == 0;
  }
  made->op_type = copy_text(out, colons != NULL ? colons + 2 : op);
  const char *name = source != NULL ? source->name : "";
  made->name = copy_text(out, name);
  if (made->op_type == NULL || made->name == NULL) return no_memory(out);
  if (source != NULL && source->source[0] != 0 && strcmp(source->source, name) != 0) {
    made->doc_string = intact__arena_format(arena, "%s%s", INTACT_ONNX_SOURCE, source->source);
    if (made->doc_string == NULL) return no_memory(out);
  }
  *node = made;
  return INTACT_OK;
}

static intact_status add_text(intact_onnx_out *out, char ***list, size_t *n, const char *name) {
  INTACT_TRY(grow(out, list, *n));
  (*list)[*n] = copy_text(out, name);
  if ((*list)[*n] == NULL) return no_memory(out);
  (*n)++;
  return INTACT_OK;
}

intact_status intact__onnx_out_input(intact_onnx_out *out, Onnx__NodeProto *node, const char *name) {
  return add_text(out, &node->input, &node->n_input, name);
}

intact_status intact__onnx_out_output(intact_onnx_out *out, Onnx__NodeProto *node, const char *name) {
  Onnx__GraphProto *proto = out->proto;
  if (node->n_output == 0) {
    INTACT_TRY(grow(out, &proto->node, proto->n_node));
    proto->node[proto->n_node++] = node;
  }
  return add_text(out, &node->output, &node->n_output, name);
}

intact_status intact__onnx_out_operand(intact_onnx_out *out, Onnx__NodeProto *node, const intact_node *source, int i) {
  const char *name = NULL;
  INTACT_TRY(intact__onnx_out_real(out, i < source->n_operands ? source->operands[i] : NULL, &name));
  return intact__onnx_out_input(out, node, name);
}

/* The quantize node is written behind this one; nothing reads codes before. */
intact_status intact__onnx_out_result(intact_onnx_out *out, Onnx__NodeProto *node, const intact_node *source, int i) {
  const char *name = NULL;
  if (i >= source->n_results) return INTACT_OK;
  const intact_value *value = source->results[i];
  INTACT_TRY(intact__onnx_out_name(out, value, &name));
  if (value->qparams == NULL) return intact__onnx_out_output(out, node, name);
  const char *real = intact__onnx_out_fresh(out, value->name, "real");
  if (real == NULL) return no_memory(out);
  INTACT_TRY(intact__onnx_out_output(out, node, real));
  return intact__onnx_out_quantize(out, NULL, real, value);
}

/* ---- attributes ---- */
static intact_status add_attribute(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int type,
                                   Onnx__AttributeProto **attribute) {
  INTACT_TRY(grow(out, &node->attribute, node->n_attribute));
  Onnx__AttributeProto *made = intact__arena_alloc(&out->output->arena, 1, sizeof *made);
  if (made == NULL) return no_memory(out);
  onnx__attribute_proto__init(made);
  made->name = copy_text(out, name);
  if (made->name == NULL) return no_memory(out);
  made->has_type = 1;
  made->type = (Onnx__AttributeProto__AttributeType)type;
  node->attribute[node->n_attribute++] = made;
  *attribute = made;
  return INTACT_OK;
}

intact_status intact__onnx_out_int(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int64_t value) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, &attribute));
  attribute->has_i = 1;
  attribute->i = value;
  return INTACT_OK;
}

intact_status intact__onnx_out_float(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, double value) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, &attribute));
  attribute->has_f = 1;
  attribute->f = (float)value;
  return INTACT_OK;
}

intact_status intact__onnx_out_string(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, const char *value) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, &attribute));
  char *text = copy_text(out, value);
  if (text == NULL) return no_memory(out);
  attribute->has_s = 1;
  attribute->s.data = (uint8_t *)text;
  attribute->s.len = strlen(text);
  return INTACT_OK;
}

intact_status intact__onnx_out_ints(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int n,
                                    const int64_t *values) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, &attribute));
  attribute->ints = intact__arena_alloc(&out->output->arena, (size_t)n + 1, sizeof *attribute->ints);
  if (attribute->ints == NULL) return no_memory(out);
  if (n > 0) memcpy(attribute->ints, values, (size_t)n * sizeof *values);
  attribute->n_ints = (size_t)n;
  return INTACT_OK;
}

intact_status intact__onnx_out_graph_attribute(intact_onnx_out *out, Onnx__NodeProto *node, const char *name,
                                               Onnx__GraphProto *graph) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH, &attribute));
  attribute->g = graph;
  return INTACT_OK;
}

intact_status intact__onnx_out_strings(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int n,
                                       const char *const *values) {
  Onnx__AttributeProto *attribute = NULL;
  INTACT_TRY(add_attribute(out, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS, &attribute));
  attribute->strings = intact__arena_alloc(&out->output->arena, (size_t)n + 1, sizeof *attribute->strings);
  if (attribute->strings == NULL) return no_memory(out);
  for (int i = 0; i < n; i++) {
    char *text = copy_text(out, values[i]);
    if (text == NULL) return no_memory(out);
    attribute->strings[i].data = (uint8_t *)text;
    attribute->strings[i].len = strlen(text);
  }
  attribute->n_strings = (size_t)n;
  return INTACT_OK;
}

/* ---- initializers ---- */
/* The bytes are those of the tensor, which lives as long as the graph, or of the arena. */
static intact_status add_initializer(intact_onnx_out *out, const char *name, intact_dtype dtype, int rank,
                                     const int64_t *dims, const void *data, size_t bytes) {
  Onnx__GraphProto *proto = out->proto;
  INTACT_TRY(grow(out, &proto->initializer, proto->n_initializer));
  Onnx__TensorProto *made = intact__arena_alloc(&out->output->arena, 1, sizeof *made);
  int64_t *kept = intact__arena_alloc(&out->output->arena, (size_t)rank + 1, sizeof *kept);
  if (made == NULL || kept == NULL) return no_memory(out);
  onnx__tensor_proto__init(made);
  made->name = copy_text(out, name);
  if (made->name == NULL) return no_memory(out);
  if (rank > 0) memcpy(kept, dims, (size_t)rank * sizeof *dims);
  made->dims = kept;
  made->n_dims = (size_t)rank;
  made->has_data_type = 1;
  made->data_type = intact__onnx_dtype_number(dtype);
  made->has_raw_data = 1;
  made->raw_data.len = bytes;
  memcpy(&made->raw_data.data, &data, sizeof data);
  proto->initializer[proto->n_initializer++] = made;
  return INTACT_OK;
}

static intact_status write_tensor(intact_onnx_out *out, const char *name, const intact_tensor *tensor) {
  int bits = intact_dtype_bits(tensor->dtype);
  if (bits < 8) intact__onnx_out_needs(out, INTACT_ONNX_OPSET_WIDE);
  return add_initializer(out, name, tensor->dtype, tensor->rank, tensor->dims, tensor->data, intact_tensor_bytes(tensor));
}

intact_status intact__onnx_out_tensor(intact_onnx_out *out, const char *base, const char *suffix,
                                      const intact_tensor *tensor, const char **name) {
  *name = intact__onnx_out_fresh(out, base, suffix);
  return *name == NULL ? no_memory(out) : write_tensor(out, *name, tensor);
}

intact_status intact__onnx_out_keep(intact_onnx_out *out, const char *base, const char *suffix, const intact_tensor *tensor,
                                    const char **name) {
  size_t bytes = intact_tensor_bytes(tensor);
  void *kept = intact__arena_alloc(&out->output->arena, bytes + 1, 1);
  *name = intact__onnx_out_fresh(out, base, suffix);
  if (kept == NULL || *name == NULL) return no_memory(out);
  memcpy(kept, tensor->data, bytes);
  return add_initializer(out, *name, tensor->dtype, tensor->rank, tensor->dims, kept, bytes);
}

intact_status intact__onnx_out_ints_constant(intact_onnx_out *out, const char *base, const char *suffix, int n,
                                             const int64_t *values, const char **name) {
  const char *fresh = intact__onnx_out_fresh(out, base, suffix);
  int64_t *kept = intact__arena_alloc(&out->output->arena, (size_t)n + 1, sizeof *kept), length = n;
  if (fresh == NULL || kept == NULL) return no_memory(out);
  if (n > 0) memcpy(kept, values, (size_t)n * sizeof *values);
  INTACT_TRY(add_initializer(out, fresh, INTACT_S64, 1, &length, kept, (size_t)n * sizeof *kept));
  *name = fresh;
  return INTACT_OK;
}

intact_status intact__onnx_out_float_constant(intact_onnx_out *out, const char *base, const char *suffix, double value,
                                              const char **name) {
  const char *fresh = intact__onnx_out_fresh(out, base, suffix);
  float *kept = intact__arena_alloc(&out->output->arena, 1, sizeof *kept);
  if (fresh == NULL || kept == NULL) return no_memory(out);
  *kept = (float)value;
  INTACT_TRY(add_initializer(out, fresh, INTACT_F32, 0, NULL, kept, sizeof *kept));
  *name = fresh;
  return INTACT_OK;
}

void intact__onnx_out_needs(intact_onnx_out *out, int opset) {
  if (opset > out->output->needed) out->output->needed = opset;
}

intact_status intact__onnx_out_refuse(intact_onnx_out *out, const intact_node *node, const char *why) {
  intact_onnx_output *output = out->output;
  intact__text_add(&output->missing, "%s%s (%s): %s", output->n_missing == 0 ? "" : "; ", node->name, node->op->name, why);
  output->n_missing++;
  return INTACT_OK;
}
