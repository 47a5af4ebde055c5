/* SPDX-License-Identifier: Apache-2.0 */
/* A network as a graph: reading its shape, checking it, printing it, running it by definition. */
#ifndef INTACT_GRAPH_H
#define INTACT_GRAPH_H

#include "intact/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct intact_graph intact_graph;

typedef enum intact_stage { INTACT_STAGE_FLOAT, INTACT_STAGE_OBSERVED, INTACT_STAGE_QDQ, INTACT_STAGE_INTEGER } intact_stage;
INTACT_API const char *intact_stage_text(intact_stage stage); /* "float", "observed", "qdq", "integer" */

/* A dimension: >= 0 known, < 0 symbolic (named by intact_graph_symbol). */
typedef struct intact_value_info {
  const char *name;
  intact_dtype dtype;
  int rank; /* -1 unknown */
  int64_t dims[INTACT_MAX_RANK];
  const intact_qparams *qparams; /* NULL: plain */
} intact_value_info;

INTACT_API void intact_graph_destroy(intact_graph *graph); /* takes NULL */
INTACT_API intact_status intact_graph_copy(const intact_graph *graph, intact_graph **copy);
INTACT_API intact_stage intact_graph_stage(const intact_graph *graph);
/* Samples that every run takes, where the first dimension of an input is fixed; 0: any number. */
INTACT_API int64_t intact_graph_batch(const intact_graph *graph);
INTACT_API int intact_graph_input_count(const intact_graph *graph);
INTACT_API int intact_graph_output_count(const intact_graph *graph);
INTACT_API intact_value_info intact_graph_input(const intact_graph *graph, int index);
INTACT_API intact_value_info intact_graph_output(const intact_graph *graph, int index);
INTACT_API const char *intact_graph_symbol(const intact_graph *graph, int64_t dim);
INTACT_API int64_t intact_graph_node_count(const intact_graph *graph);

/* All rules of a stage hold, or the first broken one as an error. */
INTACT_API intact_status intact_graph_verify(const intact_graph *graph);
/* Text of the graph: one line a node, stable, reads back with intact_graph_parse. *text is released with intact_text_destroy. */
INTACT_API intact_status intact_graph_print(const intact_graph *graph, char **text);
INTACT_API intact_status intact_graph_parse(intact_context *context, const char *text, intact_graph **graph);
INTACT_API void intact_text_destroy(intact_context *context, char *text);

/* Runs the graph node by node by the ops' definitions. `fast` uses the optimized float kernels where the build has them.
   outputs[i] becomes owned by the caller; on failure none is set. */
INTACT_API intact_status intact_graph_interpret(const intact_graph *graph, const intact_tensor *const *inputs, bool fast,
                                                intact_tensor **outputs);

#ifdef __cplusplus
}
#endif
#endif
