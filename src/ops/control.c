/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the rows with bodies. */
#include "ops/control.h"

#include <string.h>

intact_status intact__check_bodies(intact_context *context, const intact_node *node, int n, int inputs, int outputs) {
  if (node->n_bodies != n) {
    INTACT_FAIL(context, MISSING_FIELD, node->name, "%s '%s': it has %d bodies; %d are needed", node->op->name, node->name,
                node->n_bodies, n);
  }
  for (int b = 0; b < n; b++) {
    const intact_graph *body = node->bodies[b];
    if (body->n_inputs == inputs && (outputs < 0 ? body->n_outputs >= -outputs - 1 : body->n_outputs == outputs)) continue;
    INTACT_FAIL(context, SIZE_MISMATCH, node->name,
                "%s '%s': body %d has %d inputs and %d outputs; %d inputs and as many outputs as "
                "the node's results ask for are needed",
                node->op->name, node->name, b, body->n_inputs, body->n_outputs, inputs);
  }
  return INTACT_OK;
}

void intact__body_input_like(intact_graph *body, int k, const intact_value *value) {
  intact_value *input = body->inputs[k];
  input->dtype = value->dtype;
  input->rank = value->rank;
  memcpy(input->dims, value->dims, sizeof input->dims);
}

intact_status intact__join_type(intact_infer *infer, intact_value *to, const intact_value *from, bool *changed) {
  if (to->dtype != from->dtype) {
    INTACT_FAIL(infer->context, TYPE_MISMATCH, infer->node->name,
                "%s '%s': value '%s' is %s where '%s' is %s; both ways must give one "
                "type",
                infer->node->op->name, infer->node->name, to->name, intact_dtype_text(to->dtype), from->name,
                intact_dtype_text(from->dtype));
  }
  if (to->rank < 0) return INTACT_OK;
  if (to->rank != from->rank) {
    to->rank = -1;
    *changed = true;
    return INTACT_OK;
  }
  for (int k = 0; k < to->rank; k++) {
    if (to->dims[k] == from->dims[k]) continue;
    to->dims[k] = intact__infer_unknown_dim(infer);
    *changed = true;
  }
  return INTACT_OK;
}

intact_status intact__control_grad(intact_grad *grad) {
  bool needed = false;
  for (int i = 0; i < grad->n_operands; i++) needed = needed || grad->needed[i];
  if (!needed) return INTACT_OK;
  INTACT_FAIL(grad->context, UNSUPPORTED_OP, grad->node->name,
              "%s '%s': control flow has no gradient; train without it or unroll it", grad->node->op->name,
              grad->node->name);
}

intact_status intact__pile_add(intact_context *context, intact_pile *pile, intact_tensor *tensor) {
  void *tensors = pile->tensors;
  intact_status status = intact__reserve(context, &tensors, &pile->capacity, pile->n + 1, sizeof *pile->tensors);
  pile->tensors = tensors;
  if (status == INTACT_OK) {
    pile->tensors[pile->n++] = tensor;
  } else {
    intact_tensor_destroy(tensor);
  }
  return status;
}

void intact__pile_clear(intact_context *context, intact_pile *pile) {
  for (size_t i = 0; i < pile->n; i++) intact_tensor_destroy(pile->tensors[i]);
  intact__free(context, pile->tensors);
  *pile = (intact_pile){0};
}

intact_status intact__pile_stack(const intact_call *call, int i, const intact_pile *pile, int axis, bool reverse,
                                 const intact_value *like) {
  int64_t dims[INTACT_MAX_RANK + 1] = {0};
  int rank = pile->n > 0 ? pile->tensors[0]->rank : like->rank < 0 ? 0 : like->rank;
  intact_dtype dtype = pile->n > 0 ? pile->tensors[0]->dtype : like->dtype;
  intact_tensor *y = NULL;
  bool fits = rank < INTACT_MAX_RANK && axis <= rank;
  for (size_t k = 1; k < pile->n && fits; k++) {
    const intact_tensor *a = pile->tensors[0], *b = pile->tensors[k];
    fits = a->dtype == b->dtype && intact__shape_equal(a->rank, a->dims, b->rank, b->dims);
  }
  if (!fits) {
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name,
                "%s '%s': result %d collects tensors of %d axes on axis %d; they must "
                "have one shape and type and leave room for an axis",
                call->node->op->name, call->node->name, i, rank, axis);
  }
  for (int k = 0, from = 0; k <= rank; k++) {
    if (k == axis) {
      dims[k] = (int64_t)pile->n;
      continue;
    }
    dims[k] = pile->n > 0 ? pile->tensors[0]->dims[from] : like->dims[from] < 0 ? 0 : like->dims[from];
    from++;
  }
  INTACT_TRY(intact__call_result(call, i, dtype, rank + 1, dims, &y));
  intact_view whole = intact__view_of(y);
  for (size_t k = 0; k < pile->n; k++) {
    const intact_tensor *x = pile->tensors[reverse ? pile->n - 1 - k : k];
    intact_view from = intact__view_of(x), to = {.offset = (int64_t)k * whole.strides[axis]};
    for (int d = 0; d <= rank; d++) {
      if (d != axis) intact__view_add_axis(&to, whole.dims[d], whole.strides[d]);
    }
    intact__view_copy(y, &to, x, &from);
  }
  return INTACT_OK;
}
