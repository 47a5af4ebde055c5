/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an ONNX file: mapping, checking, unpacking. */
#include "io/onnx/onnx_file.h"

#include <string.h>

#include "io/onnx/onnx_external.h"
#include "io/onnx/onnx_scan.h"

static void *arena_allocate(void *user, size_t bytes) {
  intact_onnx_file *file = user;
  return intact__arena_alloc(&file->arena, 1, bytes == 0 ? 1 : bytes);
}

static void arena_release(void *user, void *memory) {
  (void)user;
  (void)memory;
}

ProtobufCAllocator intact__onnx_allocator(intact_onnx_file *file) {
  return (ProtobufCAllocator){arena_allocate, arena_release, file};
}

static intact_status unpack(intact_onnx_file *file) {
  intact_onnx_skeleton skeleton = {NULL, 0, 0};
  INTACT_TRY(intact__onnx_scan(file->context, file->path, intact__mapping_data(file->mapping),
                               intact__mapping_bytes(file->mapping), &skeleton));
  ProtobufCAllocator allocator = intact__onnx_allocator(file);
  file->model = onnx__model_proto__unpack(&allocator, skeleton.bytes, skeleton.data);
  intact__free(file->context, skeleton.data);
  if (file->model == NULL) {
    INTACT_FAIL(file->context, SYNTAX, file->path, "cannot read %s: a field has not the form that onnx.proto gives it",
                file->path);
  }
  return INTACT_OK;
}

intact_status intact__onnx_open(intact_context *context, const char *path, intact_onnx_file *file) {
  memset(file, 0, sizeof *file);
  file->context = context;
  file->path = path;
  intact__arena_init(&file->arena, context);
  INTACT_TRY(intact__map_file(context, path, &file->mapping));
  return unpack(file);
}

void intact__onnx_close(intact_onnx_file *file) {
  intact__onnx_close_external(file);
  intact__mapping_release(file->mapping);
  intact__arena_fini(&file->arena);
}
