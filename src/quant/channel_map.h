/* SPDX-License-Identifier: Apache-2.0 */
/* How an op that is homogeneous (y(s x) = s y(x)) maps channels of its operand to channels of its result. */
#ifndef INTACT_QUANT_CHANNEL_MAP_H
#define INTACT_QUANT_CHANNEL_MAP_H

#include "graph/graph.h"

typedef struct intact_channels {
  int axis;
  int64_t n;
  int64_t *map; /* n: channel of the start that index i along axis comes from; in an arena */
} intact_channels;

/* Whether the op's row promises homogeneity in operand 0, all other operands being constants: is_homogeneous, data movement, a
   clamp to 0..inf. */
bool intact__is_homogeneous(const intact_node *node);

/* Channels of result 0 when those of operand 0 are `from`. Found by running the op on two sets of distinct positive labels, one
   per channel: a result channel comes from c when both its largest values are the labels of c, and every element is the same
   share (0..1) of them in both. *found is false when channels are mixed, or shapes are not known (but the first dimension). */
intact_status intact__map_channels(const intact_node *node, const intact_channels *from, int64_t n_start, intact_arena *arena,
                                   intact_channels *to, bool *found);

#endif
