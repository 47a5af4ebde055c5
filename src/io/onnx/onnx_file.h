/* SPDX-License-Identifier: Apache-2.0 */
/* An opened ONNX file: its unpacked messages, its mapping, and tensors taken from it. */
#ifndef INTACT_IO_ONNX_ONNX_FILE_H
#define INTACT_IO_ONNX_ONNX_FILE_H

#include <onnx/onnx.pb-c.h>

#include "base/arena.h"
#include "base/file.h"
#include "tensor/tensor.h"

/* The metadata key that names the requantize rule of a model. */
#define INTACT_ONNX_REQUANTIZE "intact.requantize"
/* How the doc_string of a node begins that stands for other nodes than its name says. */
#define INTACT_ONNX_SOURCE "intact.source="

typedef struct intact_onnx_external intact_onnx_external;

typedef struct intact_onnx_file {
  intact_context *context;
  const char *path;   /* as given */
  const char *folder; /* real path of the folder that holds the file; NULL until external data ask for it */
  intact_mapping *mapping;
  intact_arena arena; /* holds the messages and all small things of one import */
  Onnx__ModelProto *model;
  intact_onnx_external *external; /* files of external data opened so far */
  size_t source_bytes, spent;     /* bytes of the files; memory that the import made beside the messages, see onnx_spend */
} intact_onnx_file;

/* Memory for messages of the file. */
ProtobufCAllocator intact__onnx_allocator(intact_onnx_file *file);
/* Maps, checks and unpacks the file. Close it also after a failure. */
intact_status intact__onnx_open(intact_context *context, const char *path, intact_onnx_file *file);
void intact__onnx_close(intact_onnx_file *file);

/* What an import may take for so many bytes of files: a base and a multiple, far above what honest models need. */
size_t intact__onnx_grant(size_t source_bytes);
bool intact__onnx_affords(const intact_onnx_file *file, size_t bytes);
/* Counts memory that is made (unfolded functions, copied and folded tensors); overflow when a small file asks for masses. */
intact_status intact__onnx_spend(intact_onnx_file *file, const char *what, size_t bytes);

/* The tensor of a message, owned by the caller: raw bytes, typed numbers or external data. Bytes whose place suits the type
   are mapped and not copied. `what` names it in messages ("initializer 'w'"). */
intact_status intact__onnx_tensor(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what,
                                  intact_tensor **tensor);
/* The dense form of a sparse tensor. */
intact_status intact__onnx_sparse_tensor(intact_onnx_file *file, const Onnx__SparseTensorProto *proto, const char *what,
                                         intact_tensor **tensor);
/* Our type for TensorProto.DataType; refuses strings, complex128 and unknown numbers (unsupported-type). */
intact_status intact__onnx_dtype(intact_context *context, int64_t type, const char *what, intact_dtype *dtype);
int intact__onnx_dtype_number(intact_dtype dtype);
/* A new tensor with dims[d] = from->dims[perm[d]]. */
intact_status intact__onnx_permute_tensor(const intact_tensor *from, const int *perm, intact_tensor **result);
/* Text of a protobuf string field; "" for a missing one. */
static inline const char *intact__onnx_text(const char *text) {
  return text == NULL ? "" : text;
}

#endif
