/* SPDX-License-Identifier: Apache-2.0 */
/* The look at the wire format before anything is unpacked. */
#ifndef INTACT_IO_ONNX_ONNX_SCAN_H
#define INTACT_IO_ONNX_ONNX_SCAN_H

#include "base/context.h"

/* A copy of a ModelProto in which every raw_data field holds an intact_onnx_raw instead of the bytes it had, so that
   unpacking it never copies a large tensor; training_info is left out. */
typedef struct intact_onnx_skeleton {
  uint8_t *data; /* released with intact__free */
  size_t bytes, capacity;
} intact_onnx_skeleton;

/* Where the raw bytes of a tensor lie in the file. */
typedef struct intact_onnx_raw {
  uint64_t offset, bytes;
} intact_onnx_raw;

/* Checks lengths, wire types, nesting (at most INTACT_ONNX_NESTING messages) and the memory that unpacking would take, and
   makes the skeleton. Refuses with truncated, syntax, recursion-limit or overflow; `path` is named in the message. */
enum { INTACT_ONNX_NESTING = 100 };
intact_status intact__onnx_scan(intact_context *context, const char *path, const uint8_t *data, size_t bytes,
                                intact_onnx_skeleton *skeleton);
/* Whether the head of a file looks like a ModelProto: its first fields are known ones of the right wire types. */
bool intact__onnx_looks_like(const uint8_t *head, size_t head_bytes, size_t bytes);

#endif
