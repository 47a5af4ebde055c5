/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that somebody else computes: values by options->stand_in, gradients as if they were the network's own. */
#include "intact/tensor.h"
#include "train/trainer.h"

/* Recorded as a sum with a constant, so that gradients pass; its elements are then the values themselves. */
static intact_status replace(intact_context *context, intact_variable **output, const intact_tensor *value) {
  intact_variable *gap = NULL, *sum = NULL;
  const intact_tensor *y = intact_variable_tensor(*output);
  if (!value || value->dtype != INTACT_F32 || !intact__shape_equal(y->rank, y->dims, value->rank, value->dims))
    INTACT_FAIL(context, WRONG_USE, "", "the outputs that stand in for the network's are not there, or of another type or shape; give f32 ones of "
                "the shapes of the network's");
  INTACT_TRY(intact_variable_create(value, false, &gap));
  intact_status status = intact_variable_call(context, "add", NULL, 2, (intact_variable *[]){*output, gap}, 1, &sum);
  intact_variable_release(gap);
  INTACT_TRY(status);
  intact_tensor *made = intact_variable_tensor(sum);
  for (int64_t i = 0; i < made->count; i++) intact__f32(made)[i] = intact__f32(value)[i]; /* not a change after the call */
  intact_variable_release(*output);
  *output = sum;
  return INTACT_OK;
}

intact_status intact__train_stand_in(intact_trainer *t) {
  const intact_train_options *o = t->options;
  if (!o->stand_in || t->step < o->qat.fake_quantize_at) return INTACT_OK;
  const size_t n = (size_t)t->graph->n_inputs, m = (size_t)t->graph->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(t->context, n + m + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, (n + m) * sizeof *tensors);
  for (size_t i = 0; i < n; i++) tensors[i] = intact_variable_tensor(t->inputs[i]);
  intact_status status = o->stand_in(o->stand_in_user, t->graph, (const intact_tensor *const *)tensors, tensors + n);
  for (size_t i = 0; i < m; i++) {
    if (status == INTACT_OK) status = replace(t->context, &t->outputs[i], tensors[n + i]);
    intact_tensor_destroy(tensors[n + i]);
  }
  intact__free(t->context, tensors);
  return status;
}
