/* SPDX-License-Identifier: Apache-2.0 */
/* Writing graphs as ONNX. */
#ifndef INTACT_IO_ONNX_ONNX_EXPORT_H
#define INTACT_IO_ONNX_ONNX_EXPORT_H

#include "graph/graph.h"

/* The metadata key that names the requantize rule of the model. */
#define INTACT_ONNX_REQUANTIZE "intact.requantize"

intact_status intact__onnx_export(const intact_graph *graph, const char *path, const char *style);

#endif
