/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-layer equalization: channel scales moved between layers, the function unchanged. */
#ifndef INTACT_QUANT_EQUALIZE_H
#define INTACT_QUANT_EQUALIZE_H

#include "graph/graph.h"
#include "intact/data.h"
#include "quant/notes.h"

/* Rewrites constants of an annotated float graph in place. For layers A -> (homogeneous ops) -> B, C ... channel c of A is
   divided by s_c and its readers multiply it back. s makes even, in the least-squares sense on a logarithmic scale, the ranges
   that share one quantization scale: the activation between (by the samples), the rows of A when its weights are per tensor,
   the columns of the readers unless their channels have scales of their own (Nagel et al. 2019 and, for activations, the
   balance of SmoothQuant). s_c is a power of two, so that not one bit of the function changes (but where floats end).
   Precondition: every way from A leads through homogeneous ops that keep channels apart to a layer with constant weights, at
   least one of them quantized. What was done to a layer's output is kept in the graph's metadata, so that layers can be compared
   with those of the network it was made from. */
intact_status intact__equalize(intact_graph *graph, intact_data *data, int64_t batch, intact_note_list *notes);

/* What equalization did to the output of one layer: channel c along `axis` is multiplied by 2^exponents[c]. */
typedef struct intact_equalization {
  int axis;
  int64_t n; /* 0: nothing */
  int *exponents;
} intact_equalization;
/* Source name of the layer that a metadata key is about; NULL: the key is about something else. */
const char *intact__equalization_source(const char *key);
/* What the metadata of `graph` say of the layer with this source name; n stays 0 when they say nothing that can be read. */
intact_status intact__equalization_find(const intact_graph *graph, const char *source, intact_arena *arena,
                                        intact_equalization *equalization);

#endif
