/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows with bodies share: types of bodies' inputs, joined types of results, growing lists of tensors. */
#ifndef INTACT_OPS_CONTROL_H
#define INTACT_OPS_CONTROL_H

#include "ops/common.h"

/* The node has `n` bodies, each with `inputs` inputs and at least `outputs` outputs (-1: any). */
intact_status intact__check_bodies(intact_context *context, const intact_node *node, int n, int inputs, int outputs);
/* Input k of a body has the type of a value. */
void intact__body_input_like(intact_graph *body, int k, const intact_value *value);
/* Widens the type in `to` so that a value of type `from` is of it too: dims that differ become fresh symbols, ranks that
   differ unknown. Refuses different element types. *changed is set when `to` was widened. */
intact_status intact__join_type(intact_infer *infer, intact_value *to, const intact_value *from, bool *changed);
/* Control flow is not differentiated: refuses when a gradient is asked for. */
intact_status intact__control_grad(intact_grad *grad);

/* Handles collected over iterations. */
typedef struct intact_pile {
  intact_tensor **tensors;
  size_t n, capacity;
} intact_pile;
intact_status intact__pile_add(intact_context *context, intact_pile *pile,
                               intact_tensor *tensor); /* takes it over, also on failure */
void intact__pile_clear(intact_context *context, intact_pile *pile);
/* Result i = the pile's tensors along a new axis, in reverse if so; all must have one shape. An empty pile gives 0 x the
   type of `like`, whose unknown dims count as 0. */
intact_status intact__pile_stack(const intact_call *call, int i, const intact_pile *pile, int axis, bool reverse,
                                 const intact_value *like);

#endif
