/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on the tape: evaluation of a node, and the record that backward walks. */
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "graph/text_form.h"
#include "ops/ops.h"

/* ---- records ---- */

void intact__record_clear(intact_record *record) {
  for (int i = 0; i < record->n_operands; i++) {
    intact_tensor_destroy(record->operands[i].tensor);
    record->operands[i].tensor = NULL;
  }
  for (int i = 0; i < record->n_results; i++) {
    intact_tensor_destroy(record->results[i].tensor);
    intact_tensor_destroy(record->d_results[i]);
    record->results[i].tensor = record->d_results[i] = NULL;
  }
}

static intact_status save(intact_saved *saved, const intact_tensor *tensor) {
  if (!tensor) return INTACT_OK;
  saved->version = intact__tensor_version(tensor);
  return intact_tensor_share(tensor, 0, NULL, &saved->tensor);
}

/* One block: the record, then its lists. */
static intact_status make_record(const intact_node *node, const intact_tensor *const *tensors, intact_variable *const *sources,
                                 intact_tensor *const *results, uint64_t sequence, intact_record **record) {
  intact_context *context = node->graph->context;
  const size_t n = (size_t)node->n_operands, m = (size_t)node->n_results;
  const size_t bytes = sizeof(intact_record) + (n + m) * (sizeof(intact_saved) + sizeof(void *)) + m * sizeof(void *);
  intact_record *made = intact__alloc_zeroed(context, 1, bytes);
  if (!made) return intact__no_memory(context, bytes);
  *made = (intact_record){.context = context, .node = node, .sequence = sequence, .holders = 1, .n_operands = (int)n, .n_results = (int)m};
  made->operands = (intact_saved *)(void *)(made + 1);
  made->results = made->operands + n;
  made->sources = (intact_variable **)(void *)(made->results + m);
  made->d_results = (intact_tensor **)(void *)(made->sources + n);
  made->kept = (intact_variable **)(void *)(made->d_results + m);
  intact_status status = INTACT_OK;
  for (size_t i = 0; i < n && status == INTACT_OK; i++) {
    status = save(&made->operands[i], tensors[i]);
    if (sources[i] && sources[i]->requires_grad) made->sources[i] = intact_variable_retain(sources[i]);
  }
  for (size_t i = 0; i < m && status == INTACT_OK; i++) status = save(&made->results[i], results[i]);
  if (status != INTACT_OK) {
    intact__record_release(made);
    return status;
  }
  *record = made;
  return INTACT_OK;
}

static bool wants_record(const intact_node *node, const intact_tape *tape, intact_variable *const *sources) {
  if (tape->disabled) return false;
  for (int i = 0; i < node->n_operands; i++)
    if (sources[i] && sources[i]->requires_grad) return true;
  return false;
}

intact_status intact__tape_call(const intact_node *node, const intact_tensor *const *tensors, intact_variable *const *sources,
                                int n_results, intact_variable **results) {
  intact_context *context = node->graph->context;
  intact_tape *tape;
  INTACT_TRY(intact__tape(context, &tape));
  intact_tensor **made = intact__alloc_zeroed(context, (size_t)node->n_results + 1, sizeof *made);
  if (!made) return intact__no_memory(context, (size_t)node->n_results * sizeof *made);
  intact_record *record = NULL;
  int given = 0;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__eval_node(node, tensors, true, made));
  if (wants_record(node, tape, sources))
    INTACT_TRY_TO(done, make_record(node, tensors, sources, made, ++tape->sequence, &record));
  for (; given < n_results; given++) {
    intact_tensor *tensor = made[given];
    made[given] = NULL;
    INTACT_TRY_TO(done, intact__variable_make(context, tensor, record && tensor->dtype == INTACT_F32, &results[given]));
    results[given]->producer = record && results[given]->requires_grad ? record : NULL;
    results[given]->result = given;
    if (results[given]->producer) record->holders++;
  }
done:
  for (int i = 0; i < given && status != INTACT_OK; i++) {
    intact_variable_release(results[i]);
    results[i] = NULL;
  }
  for (int i = 0; i < node->n_results; i++) intact_tensor_destroy(made[i]);
  intact__free(context, made);
  intact__record_release(record);
  return status;
}

/* ---- by name ---- */

typedef struct eager_spec {
  const intact_op *op;
  const char *attributes;
  int n_operands, n_results;
  intact_variable *const *operands;
} eager_spec;

static intact_status check_eager(intact_context *context, const char *name, const eager_spec *spec) {
  const intact_schema *schema = &spec->op->schema;
  for (int i = 0; i < schema->n_operands; i++) {
    bool needed = (schema->operands[i].flags & (INTACT_OPTIONAL | INTACT_VARIADIC)) == 0;
    if (needed && (i >= spec->n_operands || !spec->operands[i]))
      INTACT_FAIL(context, MISSING_FIELD, name, "call of %s: operand %d, %s, is missing; the op requires it", name, i,
                  schema->operands[i].name);
  }
  if (spec->n_results < 1 || (schema->n_results >= 0 && spec->n_results > schema->n_results))
    INTACT_FAIL(context, OUT_OF_RANGE, name, "call of %s: %d results are asked for; the op gives 1 to %d", name, spec->n_results,
                schema->n_results);
  return INTACT_OK;
}

/* A graph of one node whose inputs are open: what a call of this form runs. */
static intact_status make_call(intact_context *context, const eager_spec *spec, struct intact_eager_call *call) {
  const intact_schema *schema = &spec->op->schema;
  intact_value **values = intact__alloc_zeroed(context, (size_t)spec->n_operands + 1, sizeof *values);
  if (!values) return intact__no_memory(context, (size_t)spec->n_operands * sizeof *values);
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact__graph_create(context, spec->op->name, &call->graph));
  for (int i = 0; i < spec->n_operands; i++) {
    char name[32];
    snprintf(name, sizeof name, "x%d", i);
    if (spec->operands[i])
      INTACT_TRY_TO(done, intact__graph_add_input(call->graph, name, spec->operands[i]->tensor->dtype, -1, NULL, &values[i]));
  }
  const int n_results = schema->n_results >= 0 ? schema->n_results : spec->n_results;
  INTACT_TRY_TO(done, intact__graph_add_node(call->graph, spec->op, spec->op->name, spec->n_operands, values, n_results, NULL, NULL,
                                             &call->node));
  INTACT_TRY_TO(done, intact__node_read_attributes(call->node, spec->attributes ? spec->attributes : ""));
done:
  intact__free(context, values);
  if (status != INTACT_OK) {
    intact_graph_destroy(call->graph);
    call->graph = NULL;
  }
  return status;
}

/* What tells two forms of calls apart: op, attributes, which operands are there, results. */
static char *call_key(intact_context *context, const eager_spec *spec) {
  intact_text key;
  intact__text_init(&key, context);
  intact__text_add(&key, "%s %d ", spec->op->name, spec->op->schema.n_results >= 0 ? -1 : spec->n_results);
  for (int i = 0; i < spec->n_operands; i++) intact__text_add(&key, spec->operands[i] ? "x" : "_");
  intact__text_add(&key, " %s", spec->attributes ? spec->attributes : "");
  return intact__text_take(&key);
}

static intact_status find_call(intact_context *context, const eager_spec *spec, const intact_node **node) {
  intact_tape *tape;
  INTACT_TRY(intact__tape(context, &tape));
  char *key = call_key(context, spec);
  if (!key) return intact__no_memory(context, 0);
  int64_t index;
  if (intact__map_get(&tape->eager, key, &index)) {
    intact__free(context, key);
    *node = tape->calls[index].node;
    return INTACT_OK;
  }
  struct intact_eager_call call = {.key = key};
  void *calls = tape->calls;
  intact_status status = intact__reserve(context, &calls, &tape->calls_capacity, tape->n_calls + 1, sizeof *tape->calls);
  tape->calls = calls;
  if (status == INTACT_OK) status = make_call(context, spec, &call);
  if (status == INTACT_OK) status = intact__map_set(&tape->eager, key, (int64_t)tape->n_calls);
  if (status != INTACT_OK) {
    intact_graph_destroy(call.graph);
    intact__free(context, key);
    return status;
  }
  tape->calls[tape->n_calls++] = call;
  *node = call.node;
  return INTACT_OK;
}

intact_status intact_variable_call(intact_context *context, const char *op, const char *attributes, int n_operands,
                                   intact_variable *const *operands, int n_results, intact_variable **results) {
  eager_spec spec = {intact__find_op(op), attributes, n_operands, n_results, operands};
  if (!spec.op) INTACT_FAIL(context, UNSUPPORTED_OP, op, "there is no op '%s'; `intact ops` lists them", op);
  INTACT_TRY(check_eager(context, op, &spec));
  const intact_node *node = NULL;
  INTACT_TRY(find_call(context, &spec, &node));
  const intact_tensor **tensors = intact__alloc_zeroed(context, (size_t)n_operands + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(context, (size_t)n_operands * sizeof *tensors);
  for (int i = 0; i < n_operands; i++) tensors[i] = operands[i] ? operands[i]->tensor : NULL;
  intact_variable **made = intact__alloc_zeroed(context, (size_t)n_results, sizeof *made);
  intact_status status = made ? intact__tape_call(node, tensors, operands, n_results, made) : intact__no_memory(context, 0);
  for (int i = 0; i < n_results && status == INTACT_OK; i++) results[i] = made[i];
  intact__free(context, made);
  intact__free(context, tensors);
  return status;
}
