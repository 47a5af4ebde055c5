/* SPDX-License-Identifier: Apache-2.0 */
/* Automatic differentiation: variables, calls of op rows on a tape, backward; and a whole graph trained on that tape. */
#ifndef INTACT_AUTOGRAD_H
#define INTACT_AUTOGRAD_H

#include "intact/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- variables: a tensor, whether gradients are wanted of it, and the gradient. Counted: retain and release. ---- */
typedef struct intact_variable intact_variable;

/* A leaf on another handle of `tensor`'s elements (no copy). Only f32 tensors can require gradients. */
INTACT_API intact_status intact_variable_create(const intact_tensor *tensor, bool requires_grad, intact_variable **variable);
INTACT_API intact_variable *intact_variable_retain(intact_variable *variable); /* returns it */
INTACT_API void intact_variable_release(intact_variable *variable);            /* takes NULL */

/* Belongs to the variable. Writing through intact_tensor_mutable_data counts as a change in place: backward refuses when a
   gradient needs the elements as they were. */
INTACT_API intact_tensor *intact_variable_tensor(const intact_variable *variable);
INTACT_API bool intact_variable_requires_grad(const intact_variable *variable);
INTACT_API bool intact_variable_is_leaf(const intact_variable *variable);
/* Whether later calls record gradients for this leaf. */
INTACT_API intact_status intact_variable_set_requires_grad(intact_variable *variable, bool requires_grad);
/* NULL: none was computed. Belongs to the variable; backward adds to it until it is cleared. */
INTACT_API intact_tensor *intact_variable_gradient(const intact_variable *variable);
INTACT_API void intact_variable_clear_gradient(intact_variable *variable);
/* Backward leaves the gradient of this result of a call too (leaves have theirs always). */
INTACT_API void intact_variable_keep_gradient(intact_variable *variable);
/* The same elements as a leaf without gradient. */
INTACT_API intact_status intact_variable_detach(const intact_variable *variable, intact_variable **detached);
/* Copies elements of the same type and shape in place. A leaf that requires gradients is refused while gradients are recorded. */
INTACT_API intact_status intact_variable_assign(intact_variable *variable, const intact_tensor *values);

/* ---- calls ---- */
/* Whether calls are recorded; returns what held before. On at first. */
INTACT_API bool intact_grad_set_enabled(intact_context *context, bool enabled);
INTACT_API bool intact_grad_enabled(const intact_context *context);

/* Calls the op row `op`. `attributes` in the graph's text form, "stride=[2,2] padding=[1,1]" (NULL: the defaults); operands may be
   NULL where they are optional; n_results of the op's results are given, each owned by the caller. */
INTACT_API intact_status intact_variable_call(intact_context *context, const char *op, const char *attributes, int n_operands,
                                              intact_variable *const *operands, int n_results, intact_variable **results);

/* Adds d variable / d leaf, times `gradient` (NULL: 1, for one element only), to the gradient of every leaf behind it. The record is
   freed as it is walked, unless `keep`: only then backward can come this way again. */
INTACT_API intact_status intact_variable_backward(intact_variable *variable, const intact_tensor *gradient, bool keep);

/* ---- a graph in training ---- */
/* A graph of stage float or observed whose parameters (float constants read as weights, biases or activations) are variables.
   Updating a variable's elements updates the graph. While this exists the graph must stay alive and unchanged. */
typedef struct intact_trainable intact_trainable;

INTACT_API intact_status intact_trainable_create(intact_graph *graph, intact_trainable **trainable);
/* The graph is then an ordinary one again, with the trained constants. Takes NULL. */
INTACT_API void intact_trainable_destroy(intact_trainable *trainable);
INTACT_API int intact_trainable_count(const intact_trainable *trainable);
INTACT_API const char *intact_trainable_name(const intact_trainable *trainable, int index); /* of the constant */
INTACT_API intact_variable *intact_trainable_parameter(const intact_trainable *trainable, int index); /* stays the trainable's */
/* Parameters whose names match the pattern (* and ?) require gradients or not; returns how many matched. */
INTACT_API int intact_trainable_set_requires_grad(intact_trainable *trainable, const char *pattern, bool requires_grad);
INTACT_API void intact_trainable_clear_gradients(intact_trainable *trainable);

/* Training (the state at first): batch norms take the statistics of the batch and update the running ones, observers observe.
   Otherwise the graph computes what it computes elsewhere, and nothing of it changes. */
INTACT_API void intact_trainable_set_training(intact_trainable *trainable, bool training);
/* Batch norms use their running statistics, in training too, and leave them as they are. */
INTACT_API void intact_trainable_freeze_batch_norm(intact_trainable *trainable, bool freeze);
/* Runs the graph on the tape. outputs[i] becomes owned by the caller; on failure none is set. Backward from them goes by the graph's
   nodes: while the trainable exists. */
INTACT_API intact_status intact_trainable_forward(intact_trainable *trainable, intact_variable *const *inputs,
                                                  intact_variable **outputs);

#ifdef __cplusplus
}
#endif
#endif
