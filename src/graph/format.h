/* SPDX-License-Identifier: Apache-2.0 */
/* The format row: how a kind of file is recognised, read and written. Rows live in src/io/<name>/, listed in
   src/io/formats.def. */
#ifndef INTACT_GRAPH_FORMAT_H
#define INTACT_GRAPH_FORMAT_H

#include "graph/graph.h"
#include "intact/io.h"

typedef struct intact_format {
  const char *name;       /* "onnx" */
  const char *extensions; /* ".onnx" or ".npy,.npz"; how outputs are named */
  const char *doc;
  bool runtime; /* part of the runtime half */
  /* How sure the content is of this format: 0 not at all, 1 the extension only, 2 the content. `head` is the first
     min(4096, size) bytes, `bytes` the file's size. */
  int (*probe)(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path);
  intact_status (*import_graph)(intact_context *context, const char *path, intact_graph **graph); /* NULL: no models */
  intact_status (*export_graph)(const intact_graph *graph, const char *path, const char *style);  /* NULL: not written */
  /* Tensors of a data file in file order. NULL: no tensors. */
  intact_status (*read_tensors)(intact_context *context, const char *path, intact_tensor_set **set);
  intact_status (*write_tensors)(intact_context *context, const char *path, const intact_tensor_set *set);
} intact_format;

extern const intact_format *const intact__formats[];
extern const int intact__n_formats;
const intact_format *intact__find_format(const char *name);

#endif
