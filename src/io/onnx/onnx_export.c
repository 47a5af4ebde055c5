/* SPDX-License-Identifier: Apache-2.0 */
/* Writing an ONNX model: the lowest opset that the graph can be written in, metadata, external data, the file. */
#include "io/onnx/onnx_export.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "io/onnx/onnx_file.h"

enum { MOST_INLINE_BYTES = 2000000000, SMALL_TENSOR = 1024, EXTERNAL_ALIGNMENT = 4096 };

/* ---- the graph ---- */
static intact_status write_once(intact_onnx_output *output, const intact_graph *graph, Onnx__GraphProto *proto) {
  onnx__graph_proto__init(proto);
  intact_onnx_out out = {.output = output, .graph = graph, .proto = proto};
  intact__map_init(&output->used, output->context);
  proto->name = intact__arena_strdup(&output->arena, graph->name[0] == 0 ? "graph" : graph->name);
  intact_status status = proto->name == NULL ? intact__no_memory(output->context, 1) : intact__onnx_out_begin(&out);
  if (status == INTACT_OK) status = intact__onnx_out_graph(&out);
  intact__map_fini(&output->used);
  return status;
}

static intact_status fail_missing(intact_onnx_output *output, const char *path) {
  if (output->n_missing == 0) return INTACT_OK;
  INTACT_FAIL(output->context, UNSUPPORTED_OP, path, "cannot write %s: %lld nodes have no form in ONNX: %s", path,
              (long long)output->n_missing, output->missing.data == NULL ? "" : output->missing.data);
}

/* Some forms depend on the opset and some ask for a later one: written again until nothing asks for more. */
static intact_status write_graph(intact_onnx_output *output, const intact_graph *graph, const char *path,
                                 Onnx__GraphProto *proto) {
  output->needed = INTACT_ONNX_OPSET_BASE;
  do {
    output->opset = output->needed;
    intact__arena_fini(&output->arena);
    intact__arena_init(&output->arena, output->context);
    intact__text_fini(&output->missing);
    intact__text_init(&output->missing, output->context);
    output->n_missing = 0;
    INTACT_TRY(write_once(output, graph, proto));
    INTACT_TRY(fail_missing(output, path));
  } while (output->needed > output->opset);
  return INTACT_OK;
}

/* ---- the model ---- */
static int64_t ir_version(int opset) {
  return opset >= 21 ? 10 : opset >= 19 ? 9 : opset >= 15 ? 8 : 7;
}

static intact_status add_entry(intact_onnx_output *output, Onnx__StringStringEntryProto ***list, size_t *n, const char *key,
                               const char *value) {
  Onnx__StringStringEntryProto *made = intact__arena_alloc(&output->arena, 1, sizeof *made);
  Onnx__StringStringEntryProto **wider = intact__arena_alloc(&output->arena, *n + 1, sizeof *wider);
  if (made == NULL || wider == NULL) return intact__no_memory(output->context, sizeof *made);
  onnx__string_string_entry_proto__init(made);
  made->key = intact__arena_strdup(&output->arena, key);
  made->value = intact__arena_strdup(&output->arena, value);
  if (made->key == NULL || made->value == NULL) return intact__no_memory(output->context, strlen(value));
  if (*n > 0) memcpy(wider, *list, *n * sizeof *wider);
  wider[(*n)++] = made;
  *list = wider;
  return INTACT_OK;
}

static intact_status add_opset(intact_onnx_output *output, Onnx__ModelProto *model, const char *domain, int version) {
  Onnx__OperatorSetIdProto *made = intact__arena_alloc(&output->arena, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(output->context, sizeof *made);
  onnx__operator_set_id_proto__init(made);
  made->domain = intact__arena_strdup(&output->arena, domain);
  made->has_version = 1;
  made->version = version;
  if (made->domain == NULL) return intact__no_memory(output->context, 1);
  model->opset_import[model->n_opset_import++] = made;
  return INTACT_OK;
}

static intact_status fill_model(intact_onnx_output *output, const intact_graph *graph, Onnx__ModelProto *model) {
  model->has_ir_version = 1;
  model->ir_version = ir_version(output->opset);
  model->producer_name = intact__arena_strdup(&output->arena, "intact");
  model->producer_version = intact__arena_strdup(&output->arena, intact_version());
  model->opset_import = intact__arena_alloc(&output->arena, 2, sizeof *model->opset_import);
  if (model->producer_name == NULL || model->producer_version == NULL || model->opset_import == NULL) {
    return intact__no_memory(output->context, 1);
  }
  INTACT_TRY(add_opset(output, model, "", output->opset));
  if (output->microsoft) INTACT_TRY(add_opset(output, model, "com.microsoft", 1));
  for (int i = 0; i < graph->n_meta; i++) {
    INTACT_TRY(
        add_entry(output, &model->metadata_props, &model->n_metadata_props, graph->meta[2 * i], graph->meta[2 * i + 1]));
  }
  if (graph->stage < INTACT_STAGE_QDQ) return INTACT_OK;
  return add_entry(output, &model->metadata_props, &model->n_metadata_props, INTACT_ONNX_REQUANTIZE, graph->requantize);
}

/* ---- external data ---- */
static size_t initializer_bytes(const Onnx__GraphProto *graph) {
  size_t bytes = 0;
  for (size_t i = 0; i < graph->n_initializer; i++) bytes += graph->initializer[i]->raw_data.len;
  return bytes;
}

static bool write_padding(FILE *stream, size_t bytes) {
  static const uint8_t zeros[EXTERNAL_ALIGNMENT];
  return bytes == 0 || fwrite(zeros, 1, bytes, stream) == bytes;
}

static intact_status move_out(intact_onnx_output *output, Onnx__TensorProto *tensor, const char *location, FILE *stream,
                              size_t *offset) {
  size_t padding = (EXTERNAL_ALIGNMENT - *offset % EXTERNAL_ALIGNMENT) % EXTERNAL_ALIGNMENT;
  bool written = write_padding(stream, padding) &&
                 fwrite(tensor->raw_data.data, 1, tensor->raw_data.len, stream) == tensor->raw_data.len;
  if (!written) INTACT_FAIL(output->context, IO, location, "cannot write %s: the disk may be full", location);
  *offset += padding;
  char number[32];
  INTACT_TRY(add_entry(output, &tensor->external_data, &tensor->n_external_data, "location", location));
  snprintf(number, sizeof number, "%zu", *offset);
  INTACT_TRY(add_entry(output, &tensor->external_data, &tensor->n_external_data, "offset", number));
  snprintf(number, sizeof number, "%zu", tensor->raw_data.len);
  INTACT_TRY(add_entry(output, &tensor->external_data, &tensor->n_external_data, "length", number));
  *offset += tensor->raw_data.len;
  tensor->has_raw_data = 0;
  tensor->raw_data.len = 0;
  tensor->has_data_location = 1;
  tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  return INTACT_OK;
}

/* Large tensors go to <path>.data; *data_path is that file's name. */
static intact_status write_external(intact_onnx_output *output, Onnx__GraphProto *graph, const char *path,
                                    const char **data_path) {
  *data_path = intact__arena_format(&output->arena, "%s.data", path);
  if (*data_path == NULL) return intact__no_memory(output->context, strlen(path));
  const char *slash = strrchr(*data_path, '/');
  const char *location = slash == NULL ? *data_path : slash + 1;
  intact_writer *writer = NULL;
  INTACT_TRY(intact__writer_open(output->context, *data_path, &writer));
  size_t offset = 0;
  for (size_t i = 0; i < graph->n_initializer; i++) {
    if (graph->initializer[i]->raw_data.len < SMALL_TENSOR) continue;
    intact_status status = move_out(output, graph->initializer[i], location, intact__writer_stream(writer), &offset);
    if (status != INTACT_OK) {
      intact__writer_abort(writer);
      return status;
    }
  }
  return intact__writer_commit(writer);
}

/* ---- the file ---- */
typedef struct stream_buffer {
  ProtobufCBuffer base;
  FILE *stream;
  bool failed;
} stream_buffer;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data) {
  stream_buffer *to = (stream_buffer *)(void *)buffer;
  if (!to->failed && length > 0) to->failed = fwrite(data, 1, length, to->stream) != length;
}

static intact_status write_file(intact_onnx_output *output, const Onnx__ModelProto *model, const char *path) {
  intact_writer *writer = NULL;
  INTACT_TRY(intact__writer_open(output->context, path, &writer));
  stream_buffer buffer = {.base = {append}, .stream = intact__writer_stream(writer)};
  size_t wanted = onnx__model_proto__get_packed_size(model);
  size_t written = onnx__model_proto__pack_to_buffer(model, &buffer.base);
  if (buffer.failed || written != wanted) {
    intact__writer_abort(writer);
    INTACT_FAIL(output->context, IO, path, "cannot write %s: the disk may be full", path);
  }
  return intact__writer_commit(writer);
}

static intact_status export_model(intact_onnx_output *output, const intact_graph *graph, const char *path, bool external) {
  Onnx__ModelProto model;
  Onnx__GraphProto proto;
  const char *data_path = NULL;
  onnx__model_proto__init(&model);
  INTACT_TRY(write_graph(output, graph, path, &proto));
  model.graph = &proto;
  INTACT_TRY(fill_model(output, graph, &model));
  if (external || initializer_bytes(&proto) > MOST_INLINE_BYTES)
    INTACT_TRY(write_external(output, &proto, path, &data_path));
  intact_status status = write_file(output, &model, path);
  if (status != INTACT_OK && data_path != NULL) unlink(data_path);
  return status;
}

intact_status intact__onnx_export(const intact_graph *graph, const char *path, const char *style) {
  intact_context *context = graph->context;
  bool external = style != NULL && strcmp(style, "external") == 0;
  if (style != NULL && !external && strcmp(style, "qdq") != 0) {
    INTACT_FAIL(context, WRONG_USE, path,
                "cannot write %s: style '%s' of format onnx is not known; there are qdq and external", path, style);
  }
  if (graph->stage == INTACT_STAGE_OBSERVED) {
    INTACT_FAIL(context, WRONG_USE, path, "cannot write %s: the graph still observes; convert it first", path);
  }
  intact_onnx_output output = {.context = context};
  intact__arena_init(&output.arena, context);
  intact__text_init(&output.missing, context);
  intact_status status = export_model(&output, graph, path, external);
  intact__text_fini(&output.missing);
  intact__arena_fini(&output.arena);
  return status;
}
