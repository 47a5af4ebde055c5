/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a graph. A line each for inputs, constants, nodes and outputs:

     intact graph 1
     name "net"
     stage integer
     requantize f32_rne
     meta "key" "value"
     symbols N
     input x: u8[N,3,28,28] q{per_tensor_affine 0..255 scale=0.0078125 zero=128}
     constant w: s8[16,3,3,3]@0 q{per_channel_symmetric -127..127 axis=0 scale=[...] zero=0}
     constant sizes: s64[2]{28, 28}
     y: u8[N,16,26,26] q{...} = conv2d(x, w, _) stride=[1,1] .node=conv1 .source=conv1+relu1
     output y

   Names that are not plain words stand in "..."; _ is an operand left out; [*] an unknown rank. A tensor's content is
   {numbers}, x"hex bytes" or @index into a side table. Nodes with bodies say .bodies=n and are followed by n blocks
   "body NAME ... end". .rule=divide: the integer results are x / scale, not x * (1 / scale). Attributes stand when they were
   set. The statistics of observers are not part of the text. */
#ifndef INTACT_GRAPH_TEXT_FORM_H
#define INTACT_GRAPH_TEXT_FORM_H

#include "graph/graph.h"

/* Where large tensors live that the text only refers to. put: called by the writer for tensors beyond a few elements. get: makes
   the tensor of that type and shape, or refuses. */
typedef struct intact_side_table {
  void *user;
  size_t bytes; /* of all tensors, when reading */
  intact_status (*put)(void *user, const intact_tensor *tensor, int64_t *index);
  intact_status (*get)(void *user, int64_t index, intact_dtype dtype, int rank, const int64_t *dims, intact_tensor **tensor);
} intact_side_table;

/* Whether a name may hold the byte without standing in quotes. */
bool intact__is_word_byte(char byte, bool first);
/* Adds the graph's text; side NULL: all tensors stand inline. */
intact_status intact__graph_write_text(const intact_graph *graph, const intact_side_table *side, intact_text *text);
/* Sets attributes from "stride=[2,2] groups=2", as they stand behind a node; the required ones must be there. */
intact_status intact__node_read_attributes(intact_node *node, const char *text);
/* Reads `length` bytes; side NULL: references to a side table are refused. The graph is inferred and verified. */
intact_status intact__graph_read_text(intact_context *context, const char *text, size_t length, const intact_side_table *side,
                                      intact_graph **graph);

#endif
