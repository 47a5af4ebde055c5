/* SPDX-License-Identifier: Apache-2.0 */
/* Small ONNX files made message by message, as other programs write them: for tests of reading and of what files mean. */
#ifndef INTACT_TESTS_SUPPORT_ONNX_LAB_H
#define INTACT_TESTS_SUPPORT_ONNX_LAB_H

#include "support/test.h"

#include <onnx/onnx.pb-c.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "intact/io.h"
#include "tensor/tensor.h"

enum { ONNX_LAB_MOST = 64 };

typedef struct onnx_lab {
  intact_context *context;
  intact_arena arena;
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto opset, microsoft, *opsets[2];
  Onnx__NodeProto *nodes[ONNX_LAB_MOST];
  Onnx__TensorProto *initializers[ONNX_LAB_MOST];
  Onnx__ValueInfoProto *inputs[ONNX_LAB_MOST], *outputs[ONNX_LAB_MOST];
} onnx_lab;

#define ONNX_DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define ONNX_SCALAR 0, (const int64_t[]) { 0 }
#define ONNX_VALUES(...) (const double[]) { __VA_ARGS__ }

static inline void onnx_lab_open(onnx_lab *o, intact_context *context, int64_t opset) {
  memset(o, 0, sizeof *o);
  o->context = context;
  intact__arena_init(&o->arena, context);
  onnx__model_proto__init(&o->model);
  onnx__graph_proto__init(&o->graph);
  onnx__operator_set_id_proto__init(&o->opset);
  onnx__operator_set_id_proto__init(&o->microsoft);
  o->opset.version = opset;
  o->opset.has_version = o->microsoft.has_version = o->model.has_ir_version = 1;
  o->microsoft.domain = intact__arena_strdup(&o->arena, "com.microsoft");
  o->microsoft.version = 1;
  o->opsets[0] = &o->opset, o->opsets[1] = &o->microsoft;
  o->model.ir_version = 8;
  o->model.n_opset_import = 2, o->model.opset_import = o->opsets;
  o->model.graph = &o->graph;
  o->graph.name = intact__arena_strdup(&o->arena, "net");
  o->graph.node = o->nodes, o->graph.initializer = o->initializers;
  o->graph.input = o->inputs, o->graph.output = o->outputs;
}

static inline void onnx_lab_close(onnx_lab *o) { intact__arena_fini(&o->arena); }

static inline int onnx_lab_type(intact_dtype dtype) {
  static const int types[] = {
#define XX(name, text, bits, kind, safetensors, onnx) onnx,
      INTACT_DTYPE_MAP(XX)
#undef XX
  };
  return types[dtype];
}

/* rank < 0: no shape is given. A dimension below 0 is open. */
static inline Onnx__ValueInfoProto *onnx_lab_value(onnx_lab *o, const char *name, intact_dtype dtype, int rank,
                                                   const int64_t *dims) {
  Onnx__ValueInfoProto *info = intact__arena_alloc(&o->arena, 1, sizeof *info);
  Onnx__TypeProto *type = intact__arena_alloc(&o->arena, 1, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = intact__arena_alloc(&o->arena, 1, sizeof *tensor);
  onnx__value_info_proto__init(info);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  info->name = intact__arena_strdup(&o->arena, name);
  info->type = type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  tensor->has_elem_type = 1;
  tensor->elem_type = onnx_lab_type(dtype);
  if (rank < 0) return info;
  tensor->shape = intact__arena_alloc(&o->arena, 1, sizeof *tensor->shape);
  onnx__tensor_shape_proto__init(tensor->shape);
  tensor->shape->n_dim = (size_t)rank;
  tensor->shape->dim = intact__arena_alloc(&o->arena, (size_t)rank + 1, sizeof *tensor->shape->dim);
  for (int i = 0; i < rank; i++) {
    Onnx__TensorShapeProto__Dimension *dim = intact__arena_alloc(&o->arena, 1, sizeof *dim);
    onnx__tensor_shape_proto__dimension__init(dim);
    tensor->shape->dim[i] = dim;
    if (dims[i] < 0) continue;
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim->dim_value = dims[i];
  }
  return info;
}

static inline void onnx_lab_input(onnx_lab *o, const char *name, intact_dtype dtype, int rank, const int64_t *dims) {
  assert_true(o->graph.n_input < ONNX_LAB_MOST);
  o->inputs[o->graph.n_input++] = onnx_lab_value(o, name, dtype, rank, dims);
}

static inline void onnx_lab_output(onnx_lab *o, const char *name, intact_dtype dtype) {
  assert_true(o->graph.n_output < ONNX_LAB_MOST);
  o->outputs[o->graph.n_output++] = onnx_lab_value(o, name, dtype, -1, NULL);
}

static inline Onnx__TensorProto *onnx_lab_tensor(onnx_lab *o, const char *name, intact_dtype dtype, int rank,
                                                 const int64_t *dims, const double *values) {
  Onnx__TensorProto *proto = intact__arena_alloc(&o->arena, 1, sizeof *proto);
  intact_tensor *tensor;
  onnx__tensor_proto__init(proto);
  assert_ok(o->context, intact_tensor_create(o->context, dtype, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__tensor_set_f64(tensor, i, values[i]);
  proto->name = intact__arena_strdup(&o->arena, name);
  proto->has_data_type = 1;
  proto->data_type = onnx_lab_type(dtype);
  proto->n_dims = (size_t)rank;
  proto->dims = intact__arena_alloc(&o->arena, (size_t)rank + 1, sizeof *proto->dims);
  if (rank > 0) memcpy(proto->dims, dims, (size_t)rank * sizeof *dims);
  proto->has_raw_data = 1;
  proto->raw_data.len = intact_tensor_bytes(tensor);
  proto->raw_data.data = intact__arena_alloc(&o->arena, proto->raw_data.len + 1, 1);
  memcpy(proto->raw_data.data, tensor->data, proto->raw_data.len);
  intact_tensor_destroy(tensor);
  return proto;
}

static inline void onnx_lab_initializer(onnx_lab *o, const char *name, intact_dtype dtype, int rank, const int64_t *dims,
                                        const double *values) {
  assert_true(o->graph.n_initializer < ONNX_LAB_MOST);
  o->initializers[o->graph.n_initializer++] = onnx_lab_tensor(o, name, dtype, rank, dims, values);
}

static inline void onnx_lab_number(onnx_lab *o, const char *name, intact_dtype dtype, double value) {
  onnx_lab_initializer(o, name, dtype, ONNX_SCALAR, &value);
}

/* Words between blanks; "_" is an empty one. */
static inline size_t onnx_lab_words(onnx_lab *o, const char *text, char ***words) {
  enum { MOST = 16 };
  size_t n = 0;
  *words = intact__arena_alloc(&o->arena, MOST, sizeof **words);
  char *copy = intact__arena_strdup(&o->arena, text), *rest;
  for (char *word = strtok_r(copy, " ", &rest); word != NULL && n < MOST; word = strtok_r(NULL, " ", &rest))
    (*words)[n++] = strcmp(word, "_") == 0 ? intact__arena_strdup(&o->arena, "") : word;
  return n;
}

/* name=3, name=0.5, name=text or name=[1,2]. */
static inline Onnx__AttributeProto *onnx_lab_attribute(onnx_lab *o, char *text) {
  Onnx__AttributeProto *attr = intact__arena_alloc(&o->arena, 1, sizeof *attr);
  char *value = strchr(text, '=');
  onnx__attribute_proto__init(attr);
  assert_non_null(value);
  *value++ = 0;
  attr->name = text;
  attr->has_type = 1;
  if (*value == '[') {
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    attr->ints = intact__arena_alloc(&o->arena, strlen(value), sizeof *attr->ints);
    while (*value != ']' && *value != 0) attr->ints[attr->n_ints++] = strtoll(value + 1, &value, 10);
  } else if (strchr("-0123456789", *value) == NULL) {
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    attr->has_s = 1;
    attr->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
  } else if (strchr(value, '.') != NULL) {
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    attr->has_f = 1;
    attr->f = strtof(value, NULL);
  } else {
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    attr->has_i = 1;
    attr->i = strtoll(value, NULL, 10);
  }
  return attr;
}

/* op: "Conv" or "com.microsoft.QLinearAdd"; the node is named after its first output. */
static inline Onnx__NodeProto *onnx_lab_node(onnx_lab *o, const char *outputs, const char *op, const char *inputs,
                                             const char *attributes) {
  Onnx__NodeProto *node = intact__arena_alloc(&o->arena, 1, sizeof *node);
  char **words;
  onnx__node_proto__init(node);
  node->n_output = onnx_lab_words(o, outputs, &node->output);
  node->n_input = onnx_lab_words(o, inputs, &node->input);
  const char *dot = strrchr(op, '.');
  node->op_type = intact__arena_strdup(&o->arena, dot == NULL ? op : dot + 1);
  if (dot != NULL) node->domain = intact__arena_format(&o->arena, "%.*s", (int)(dot - op), op);
  node->name = intact__arena_format(&o->arena, "%s_node", node->output[0]);
  node->n_attribute = onnx_lab_words(o, attributes, &words);
  node->attribute = intact__arena_alloc(&o->arena, node->n_attribute + 1, sizeof *node->attribute);
  for (size_t i = 0; i < node->n_attribute; i++) node->attribute[i] = onnx_lab_attribute(o, words[i]);
  assert_true(o->graph.n_node < ONNX_LAB_MOST);
  o->nodes[o->graph.n_node++] = node;
  return node;
}

/* A Constant node over a tensor. */
static inline void onnx_lab_constant(onnx_lab *o, const char *name, intact_dtype dtype, int rank, const int64_t *dims,
                                     const double *values) {
  Onnx__NodeProto *node = onnx_lab_node(o, name, "Constant", "", "");
  Onnx__AttributeProto *attr = intact__arena_alloc(&o->arena, 1, sizeof *attr);
  onnx__attribute_proto__init(attr);
  attr->name = intact__arena_strdup(&o->arena, "value");
  attr->has_type = 1;
  attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  attr->t = onnx_lab_tensor(o, "", dtype, rank, dims, values);
  node->attribute[node->n_attribute++] = attr;
}

/* x -> QuantizeLinear -> DequantizeLinear -> y of per-tensor qparams that are made for it. */
static inline void onnx_lab_pair(onnx_lab *o, const char *y, const char *x, intact_dtype dtype, double scale, int zero_point) {
  char names[3][32], inputs[128];
  static const char *const ends[] = {"s", "z", "q"};
  for (int i = 0; i < 3; i++) snprintf(names[i], sizeof names[i], "%s.%s", y, ends[i]);
  onnx_lab_number(o, names[0], INTACT_F32, scale);
  onnx_lab_number(o, names[1], dtype, zero_point);
  snprintf(inputs, sizeof inputs, "%s %s %s", x, names[0], names[1]);
  onnx_lab_node(o, names[2], "QuantizeLinear", inputs, "");
  snprintf(inputs, sizeof inputs, "%s %s %s", names[2], names[0], names[1]);
  onnx_lab_node(o, y, "DequantizeLinear", inputs, "");
}

static inline void onnx_lab_write(onnx_lab *o, const char *path) {
  size_t size = onnx__model_proto__get_packed_size(&o->model);
  uint8_t *bytes = malloc(size);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_non_null(bytes);
  onnx__model_proto__pack(&o->model, bytes);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  free(bytes);
}

static inline intact_status onnx_lab_try(onnx_lab *o, intact_graph **graph) {
  char path[] = "/tmp/intact_onnx_XXXXXX.onnx";
  int file = mkstemps(path, 5);
  assert_true(file >= 0);
  close(file);
  onnx_lab_write(o, path);
  *graph = NULL;
  intact_status status = intact_model_read(o->context, path, graph);
  unlink(path);
  return status;
}

static inline intact_graph *onnx_lab_read(onnx_lab *o) {
  intact_graph *graph;
  assert_ok(o->context, onnx_lab_try(o, &graph));
  return graph;
}

#endif
