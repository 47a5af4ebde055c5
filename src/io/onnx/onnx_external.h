/* SPDX-License-Identifier: Apache-2.0 */
/* External data of ONNX tensors: files beside the model, mapped once each. */
#ifndef INTACT_IO_ONNX_ONNX_EXTERNAL_H
#define INTACT_IO_ONNX_ONNX_EXTERNAL_H

#include "io/onnx/onnx_file.h"

/* Where the bytes of an external tensor lie; the mapping belongs to the file. `need` is what the shape asks for. Refuses
   places outside of the model's folder (path-traversal), missing files (missing-entry), ranges past the end (out-of-range)
   and a stated length that is not `need` (size-mismatch). */
intact_status intact__onnx_external_bytes(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what,
                                          size_t need, intact_mapping **mapping, size_t *offset);
void intact__onnx_close_external(intact_onnx_file *file);

#endif
