/* SPDX-License-Identifier: Apache-2.0 */
/* Which value of network A a value of network B stands for, and how A's values look in B. */
#ifndef INTACT_INSPECT_COUNTERPARTS_H
#define INTACT_INSPECT_COUNTERPARTS_H

#include "graph/graph.h"

/* Equalization moved powers of two between the channels of layers: those of this value, B's over A's. */
typedef struct intact_rescale {
  int axis;
  int64_t n;
  const int *exponents; /* n; NULL: the value is the same in both */
} intact_rescale;

typedef struct intact_counterparts {
  const intact_value **of;  /* per value id of B: A's value, NULL: none */
  intact_rescale *rescales; /* per value id of A */
} intact_counterparts;

/* Matches by the source names that survive every rewrite. Everything is allocated in `arena`. */
intact_status intact__find_counterparts(const intact_graph *a, const intact_graph *b, intact_arena *arena,
                                        intact_counterparts *counterparts);
/* `tensor` (float32) times 2^exponent, channel by channel, as a new tensor. */
intact_status intact__rescale(const intact_rescale *rescale, const intact_tensor *tensor, intact_tensor **rescaled);
/* quantize, dequantize, requantize: the same values in another form. */
bool intact__changes_form(const intact_node *node);

#endif
