/* SPDX-License-Identifier: Apache-2.0 */
/* How far the int32 accumulator and the int32 bias of an integer node are from overflow. */
#ifndef INTACT_INSPECT_HEADROOM_H
#define INTACT_INSPECT_HEADROOM_H

#include "graph/graph.h"

/* Bits left: 31 - log2(largest possible |accumulator|, bias included) over all output channels, with activations anywhere in
   their quantized range; NaN when the node has no quantized activation and constant weight. */
double intact__accumulator_headroom(const intact_node *node);
/* 31 - log2(largest |bias code|); NaN without a quantized constant bias. */
double intact__bias_headroom(const intact_node *node);

#endif
