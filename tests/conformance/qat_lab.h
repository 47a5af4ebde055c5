/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of qat_training share: networks made from a case's tensors, wishes from its attributes, calls on the tape, and
   results that gather over steps. Helpers that return a status expect the caller to stop on failure; the rest hold no resources. */
#ifndef INTACT_TESTS_CONFORMANCE_QAT_LAB_H
#define INTACT_TESTS_CONFORMANCE_QAT_LAB_H

#include "conformance/conformance.h"
#include "graph/fake_quantizer.h"
#include "graph/quantizer.h"
#include "intact/autograd.h"
#include "intact/optim.h"
#include "quant/prepare.h"

intact_status conf_handle_qat_slow(conf_case *c); /* qat_module with slow_path */

/* A network under construction; `value` is where the next layer goes on. Failures stick in `status`. */
typedef struct qat_net {
  conf_case *c;
  intact_graph *graph;
  intact_value *value;
  intact_status status;
} qat_net;

void qat_net_create(conf_case *c, const intact_tensor *x, qat_net *net); /* input "x", first dimension open */
/* A constant with the elements of input "<prefix><name>" of the case, called <name>; NULL when the case has none. */
intact_value *qat_net_constant(qat_net *net, const char *prefix, const char *name);
/* A layer "linear" or "conv1d" ...: weights init.<name>.weight (bias likewise) when name is not "", else init.weight. */
intact_node *qat_net_layer(qat_net *net, const char *op, const char *name, const char *attributes);
void qat_net_norm(qat_net *net, const char *name, const char *attributes); /* of init.<name>.bn.* */
void qat_net_unary(qat_net *net, const char *op, const char *name, const char *attributes);

/* OWN wishes by {"quant_min", "quant_max", "qscheme", "dtype"?, "ch_axis"?} of the case's attribute `name`. */
intact_wish qat_wish(const conf_case *c, const char *name, intact_dtype dtype);
/* The wish on an operand, or (operand < 0) on the result of a node. */
void qat_net_wish(qat_net *net, const char *node, int operand, const intact_wish *wish);
/* Output, norms folded for training by the rule of the reference, fake quantizers by the case. */
typedef void (*qat_annotate_fn)(qat_net *net);
void qat_net_prepare(qat_net *net, qat_annotate_fn annotate, const char *activation, const char *weight);
/* Row and options as "NAME:averaging_constant=.." for the case's attribute `name`. */
void qat_fake_text(const conf_case *c, const char *name, char *text, size_t size);
/* The observation that stands on an operand or (operand < 0) behind a node. */
intact_observation *qat_observation(const qat_net *net, const char *node, int operand);

intact_status qat_variable(const intact_tensor *tensor, bool requires_grad, intact_variable **variable);
/* *result = op(a, b?); what *result held is released after. */
intact_status qat_call(intact_context *context, const char *op, const char *attributes, intact_variable *a, intact_variable *b,
                       intact_variable **result);
intact_variable *qat_parameter(intact_trainable *trainable, const char *name); /* NULL: there is none */

/* Gathers row `step` of result `name` [steps, n] (or [steps] when n is 0), made at step 0. */
typedef struct qat_series {
  const char *name;
  intact_tensor *tensor;
} qat_series;
intact_status qat_series_put(conf_case *c, qat_series *series, const char *name, int64_t steps, int64_t step, const intact_tensor *row);
intact_status qat_give_copy(conf_case *c, const intact_tensor *tensor, const char *name); /* if it is expected */

#endif
