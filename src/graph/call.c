/* SPDX-License-Identifier: Apache-2.0 */
/* What evaluations and gradients of op rows call: results, bodies, gradient tensors, the gradient markers. */
#include <string.h>

#include "graph/internal.h"

intact_status intact__call_result(const intact_call *call, int i, intact_dtype dtype, int rank, const int64_t *dims,
                                  intact_tensor **tensor) {
  intact_tensor *planned = call->results[i];
  if (planned == NULL) {
    INTACT_TRY(intact__tensor_create_raw(call->context, dtype, rank, dims, &planned));
    call->results[i] = planned;
  } else if (planned->dtype != dtype || !intact__shape_equal(planned->rank, planned->dims, rank, dims)) {
    char a[200], b[200];
    INTACT_FAIL(call->context, INTERNAL, call->node->name, "result %d of node %s (%s) is %s%s, planned was %s%s", i,
                call->node->name, call->node->op->name, intact_dtype_text(dtype), intact__shape_text(rank, dims, a),
                intact_dtype_text(planned->dtype), intact__shape_text(planned->rank, planned->dims, b));
  }
  *tensor = planned;
  return INTACT_OK;
}

intact_status intact__call_body(const intact_call *call, int body, const intact_tensor *const *inputs, intact_tensor **outputs) {
  const intact_interp_options *options = call->options;
  const intact_graph *graph = call->node->bodies[body];
  if (options != NULL && options->run_body != NULL) return options->run_body(options->run_body_user, graph, inputs, outputs);
  return intact__interpret(graph, inputs, options, outputs);
}

static intact_status make_gradient(intact_grad *grad, int i, bool zeroed, intact_tensor **tensor) {
  const intact_tensor *x = grad->operands[i];
  if (grad->d_operands[i] == NULL) {
    INTACT_TRY((zeroed ? intact_tensor_create : intact__tensor_create_raw)(grad->context, INTACT_F32, x->rank, x->dims,
                                                                           &grad->d_operands[i]));
  }
  *tensor = grad->d_operands[i];
  return INTACT_OK;
}

intact_status intact__grad_operand(intact_grad *grad, int i, intact_tensor **tensor) { return make_gradient(grad, i, true, tensor); }

intact_status intact__grad_operand_raw(intact_grad *grad, int i, intact_tensor **tensor) {
  return make_gradient(grad, i, false, tensor);
}

intact_status intact__grad_operand_over(intact_grad *grad, int i, int r, intact_tensor **tensor) {
  const intact_tensor *x = grad->operands[i], *dy = grad->d_results[r];
  const bool fits = dy != NULL && dy->dtype == INTACT_F32 && intact__shape_equal(x->rank, x->dims, dy->rank, dy->dims);
  if (!fits || !grad->may_overwrite || grad->d_operands[i] != NULL || !intact__tensor_is_sole(dy))
    return intact__grad_operand_raw(grad, i, tensor);
  INTACT_TRY(intact_tensor_share(dy, 0, NULL, &grad->d_operands[i]));
  *tensor = grad->d_operands[i];
  return INTACT_OK;
}

intact_status intact__grad_give(intact_grad *grad, int i, intact_tensor *d) {
  if (d == NULL) return INTACT_OK;
  intact_status status = INTACT_OK;
  if (i < grad->n_operands && grad->operands[i] != NULL && grad->needed[i]) {
    const intact_tensor *x = grad->operands[i];
    if (intact__shape_equal(d->rank, d->dims, x->rank, x->dims)) {
      grad->d_operands[i] = d;
      return INTACT_OK;
    }
    intact_tensor *out;
    status = intact__grad_operand(grad, i, &out);
    if (status == INTACT_OK) memcpy(out->data, d->data, intact_tensor_bytes(d));
  }
  intact_tensor_destroy(d);
  return status;
}

void intact__grad_forget(intact_grad *grad) {
  for (int i = 0; i < grad->n_operands; i++) {
    intact_tensor_destroy(grad->d_operands[i]);
    grad->d_operands[i] = NULL;
  }
}

intact_status intact__grad_none(intact_grad *grad) {
  (void)grad;
  return INTACT_OK;
}

intact_status intact__grad_straight_through(intact_grad *grad) {
  const intact_tensor *d = grad->d_results[0];
  if (d == NULL || !grad->needed[0]) return INTACT_OK;
  return intact_tensor_share(d, grad->operands[0]->rank, grad->operands[0]->dims, &grad->d_operands[0]);
}
