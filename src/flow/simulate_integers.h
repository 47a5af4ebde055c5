/* SPDX-License-Identifier: Apache-2.0 */
/* The integer program of a network in training, for its forward passes. */
#ifndef INTACT_FLOW_SIMULATE_INTEGERS_H
#define INTACT_FLOW_SIMULATE_INTEGERS_H

#include "intact/train.h"

/* outputs[i] of the integer program that `graph` (stage observed, in training) would be converted to now, bit for bit; batch norms by
   their running statistics. `user` is not looked at. */
intact_status intact__simulate_integers(void *user, const intact_graph *graph, const intact_tensor *const *inputs,
                                        intact_tensor **outputs);

#endif
