/* SPDX-License-Identifier: Apache-2.0 */
/* Equalization of a network that keeps its batch norms. */
#ifndef INTACT_QUANT_EQUALIZE_NORMS_H
#define INTACT_QUANT_EQUALIZE_NORMS_H

#include "quant/equalize.h"

/* Does to a float graph without annotations what intact__equalize does to it after its batch norms are folded: the channel scales of a
   layer's output go into the norm behind it (weight and bias), or into the layer where there is none, and their inverses into the
   weights of the readers. The function stays the same to the bit; the norms' statistics too. */
intact_status intact__equalize_with_norms(intact_graph *graph, const intact_quantize_options *options, intact_data *data,
                                          intact_note_list *notes);

#endif
