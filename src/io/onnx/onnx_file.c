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

size_t intact__onnx_grant(size_t source_bytes) {
  enum { BASE = 64 << 20, RATIO = 24 };
  return source_bytes < (SIZE_MAX - BASE) / RATIO ? BASE + source_bytes * RATIO : SIZE_MAX;
}

bool intact__onnx_affords(const intact_onnx_file *file, size_t bytes) {
  return bytes <= intact__onnx_grant(file->source_bytes) - file->spent;
}

intact_status intact__onnx_spend(intact_onnx_file *file, const char *what, size_t bytes) {
  if (!intact__onnx_affords(file, bytes)) {
    INTACT_FAIL(file->context, OVERFLOW, what,
                "cannot read %s: at %s its functions and constants unfold to more than %zu bytes, out of proportion to the "
                "%zu bytes of the file",
                file->path, what, intact__onnx_grant(file->source_bytes), file->source_bytes);
  }
  file->spent += bytes;
  return INTACT_OK;
}

intact_status intact__onnx_open(intact_context *context, const char *path, intact_onnx_file *file) {
  memset(file, 0, sizeof *file);
  file->context = context;
  file->path = path;
  intact__arena_init(&file->arena, context);
  INTACT_TRY(intact__map_file(context, path, &file->mapping));
  file->source_bytes = intact__mapping_bytes(file->mapping);
  return unpack(file);
}

void intact__onnx_close(intact_onnx_file *file) {
  intact__onnx_close_external(file);
  intact__mapping_release(file->mapping);
  intact__arena_fini(&file->arena);
}
