/* SPDX-License-Identifier: Apache-2.0 */
/* Files: models and tensors in, models and tensors out. The format is found by content on reading, by extension on writing. */
#ifndef INTACT_IO_H
#define INTACT_IO_H

#include "intact/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a model. Every op outside the table is reported in one message (unsupported-op), with node names. */
INTACT_API intact_status intact_model_read(intact_context *context, const char *path, intact_graph **graph);
/* Writes a model; the extension names the format; `style` may be NULL. Appears whole or not at all. */
INTACT_API intact_status intact_model_write(const intact_graph *graph, const char *path, const char *style);

/* Named tensors in order; owns them. */
typedef struct intact_tensor_set intact_tensor_set;
INTACT_API intact_status intact_tensor_set_create(intact_context *context, intact_tensor_set **set);
INTACT_API void intact_tensor_set_destroy(intact_tensor_set *set); /* takes NULL */
/* Takes the tensor over, also on failure. Refuses a name twice. */
INTACT_API intact_status intact_tensor_set_add(intact_tensor_set *set, const char *name, intact_tensor *tensor);
INTACT_API int intact_tensor_set_count(const intact_tensor_set *set);
INTACT_API const char *intact_tensor_set_name(const intact_tensor_set *set, int index);
INTACT_API const intact_tensor *intact_tensor_set_get(const intact_tensor_set *set, int index);
INTACT_API const intact_tensor *intact_tensor_set_find(const intact_tensor_set *set, const char *name); /* NULL: not there */

/* .safetensors, .npy (one tensor named ""), .npz, IDX (one tensor named ""). */
INTACT_API intact_status intact_tensors_read(intact_context *context, const char *path, intact_tensor_set **set);
INTACT_API intact_status intact_tensors_write(intact_context *context, const char *path, const intact_tensor_set *set);
/* Name of the format that the content of the file has ("onnx", "npy" ...): a failure when none is recognised. */
INTACT_API intact_status intact_file_format(intact_context *context, const char *path, const char **name);

#ifdef __cplusplus
}
#endif
#endif
