/* SPDX-License-Identifier: Apache-2.0 */
/* Variables: counted tensors with gradients. */
#include <string.h>

#include "autograd/tape.h"

intact_status intact__variable_make(intact_context *context, intact_tensor *tensor, bool requires_grad, intact_variable **variable) {
  intact_variable *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(context, sizeof *made);
  }
  *made = (intact_variable){.context = context, .tensor = tensor, .holders = 1, .requires_grad = requires_grad};
  *variable = made;
  return INTACT_OK;
}

static intact_status check_type(const intact_tensor *tensor, bool requires_grad) {
  if (requires_grad && tensor->dtype != INTACT_F32)
    INTACT_FAIL(tensor->context, TYPE_MISMATCH, "", "a variable of type %s can't require gradients: only f32 can; cast it first",
                intact_dtype_text(tensor->dtype));
  return INTACT_OK;
}

intact_status intact_variable_create(const intact_tensor *tensor, bool requires_grad, intact_variable **variable) {
  intact_tensor *handle;
  INTACT_TRY(check_type(tensor, requires_grad));
  INTACT_TRY(intact_tensor_share(tensor, 0, NULL, &handle));
  return intact__variable_make(tensor->context, handle, requires_grad, variable);
}

intact_variable *intact_variable_retain(intact_variable *variable) {
  if (variable) variable->holders++;
  return variable;
}

/* Long chains of calls go one by one, not by recursion: what falls to 0 holders waits in a list. */
static void drop(intact_variable *variable, intact_variable **freed) {
  if (!variable || --variable->holders > 0) return;
  variable->next_freed = *freed;
  *freed = variable;
}

static void drop_record(intact_record *record, intact_variable **freed) {
  if (!record || --record->holders > 0) return;
  intact_context *context = record->context;
  for (int i = 0; i < record->n_operands; i++) {
    drop(record->sources[i], freed);
    record->sources[i] = NULL;
  }
  intact__record_clear(record);
  intact__free(context, record);
}

static void free_all(intact_variable *freed) {
  while (freed) {
    intact_variable *variable = freed;
    freed = variable->next_freed;
    if (variable->producer && variable->producer->kept[variable->result] == variable)
      variable->producer->kept[variable->result] = NULL;
    drop_record(variable->producer, &freed);
    intact_tensor_destroy(variable->tensor);
    intact_tensor_destroy(variable->gradient);
    intact__free(variable->context, variable);
  }
}

void intact_variable_release(intact_variable *variable) {
  intact_variable *freed = NULL;
  drop(variable, &freed);
  free_all(freed);
}

void intact__record_release(intact_record *record) {
  intact_variable *freed = NULL;
  drop_record(record, &freed);
  free_all(freed);
}

intact_tensor *intact_variable_tensor(const intact_variable *variable) { return variable->tensor; }
bool intact_variable_requires_grad(const intact_variable *variable) { return variable->requires_grad; }
bool intact_variable_is_leaf(const intact_variable *variable) { return !variable->producer; }
intact_tensor *intact_variable_gradient(const intact_variable *variable) { return variable->gradient; }

intact_status intact_variable_set_requires_grad(intact_variable *variable, bool requires_grad) {
  if (variable->producer)
    INTACT_FAIL(variable->context, WRONG_USE, variable->producer->node->name,
                "a result of %s can't change whether it requires gradients: only leaves can; detach it for a leaf without",
                variable->producer->node->op->name);
  INTACT_TRY(check_type(variable->tensor, requires_grad));
  variable->requires_grad = requires_grad;
  return INTACT_OK;
}

void intact_variable_clear_gradient(intact_variable *variable) {
  intact_tensor_destroy(variable->gradient);
  variable->gradient = NULL;
}

void intact_variable_keep_gradient(intact_variable *variable) {
  variable->keeps_gradient = true;
  if (variable->producer) variable->producer->kept[variable->result] = variable;
}

intact_status intact_variable_detach(const intact_variable *variable, intact_variable **detached) {
  return intact_variable_create(variable->tensor, false, detached);
}

intact_status intact_variable_assign(intact_variable *variable, const intact_tensor *values) {
  intact_tensor *to = variable->tensor;
  char a[200], b[200];
  if (to->dtype != values->dtype || !intact__shape_equal(to->rank, to->dims, values->rank, values->dims))
    INTACT_FAIL(variable->context, SIZE_MISMATCH, "", "assign to a variable: it is %s%s, the values are %s%s; they must be equal",
                intact_dtype_text(to->dtype), intact__shape_text(to->rank, to->dims, a), intact_dtype_text(values->dtype),
                intact__shape_text(values->rank, values->dims, b));
  if (variable->requires_grad && intact_grad_enabled(variable->context))
    INTACT_FAIL(variable->context, WRONG_USE, "",
                "assign to a variable that requires gradients: its old elements may be part of the record; switch recording off "
                "with intact_grad_set_enabled first");
  memmove(intact_tensor_mutable_data(to), values->data, intact_tensor_bytes(to));
  return INTACT_OK;
}

/* ---- what a context keeps ---- */

static const char tape_key;

static void destroy_tape(intact_context *context, void *object) {
  intact_tape *tape = object;
  for (size_t i = 0; i < tape->n_calls; i++) {
    intact_graph_destroy(tape->calls[i].graph);
    intact__free(context, tape->calls[i].key);
  }
  intact__free(context, tape->calls);
  intact__map_fini(&tape->eager);
  intact__free(context, tape);
}

intact_status intact__tape(intact_context *context, intact_tape **tape) {
  *tape = intact__attachment(context, &tape_key);
  if (*tape) return INTACT_OK;
  intact_tape *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  intact__map_init(&made->eager, context);
  INTACT_TRY(intact__attach(context, &tape_key, made, destroy_tape));
  *tape = made;
  return INTACT_OK;
}

bool intact_grad_enabled(const intact_context *context) {
  const intact_tape *tape = intact__attachment(context, &tape_key);
  return !tape || !tape->disabled;
}

bool intact_grad_set_enabled(intact_context *context, bool enabled) {
  intact_tape *tape;
  if (intact__tape(context, &tape) != INTACT_OK) return true;
  bool before = !tape->disabled;
  tape->disabled = !enabled;
  return before;
}
