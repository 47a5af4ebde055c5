/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of graph/ share among themselves. */
#ifndef INTACT_GRAPH_INTERNAL_H
#define INTACT_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Lets go of what a node holds outside of the arena: bodies, attribute tensors, its share of an observation. */
void intact__node_release(intact_node *node);
/* Whether the content of a tensor is kept as value->elements. */
bool intact__has_elements(const intact_tensor *tensor);
/* op->infer on the node as it stands, quantized operands shown as f32, results of quantized type set after. */
intact_status intact__run_infer(intact_infer *infer);
/* The first broken rule of qparams on a value of that type and shape, as an error about `where`. */
intact_status intact__check_qparams(intact_context *context, const char *where, const intact_qparams *qparams, int rank,
                                    const int64_t *dims);

#endif
