/* SPDX-License-Identifier: Apache-2.0 */
/* Empirical bias correction: what quantization adds to the mean of a layer's output is taken off its bias. */
#ifndef INTACT_QUANT_BIAS_CORRECTION_H
#define INTACT_QUANT_BIAS_CORRECTION_H

#include "graph/graph.h"
#include "intact/data.h"
#include "quant/notes.h"

/* Changes s32 biases of `graph` (stage qdq) in place, layer by layer in order, each seeing the corrected ones before it. The
   target is `reference`, the float graph it was made from (layers are found by node name). For channel c of a layer the error
   is E[float output] - E[quantized output] over a few samples, before any clamp. It is measured on two halves of the samples
   and added (as whole codes) only where correcting one half by the error of the other makes both smaller; so a layer's mean
   error on the samples never grows. */
intact_status intact__correct_biases(intact_graph *graph, const intact_graph *reference, intact_data *data,
                                     intact_note_list *notes);

#endif
