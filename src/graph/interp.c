/* SPDX-License-Identifier: Apache-2.0 */
/* Running a graph node by node by the ops' definitions: the oracle of every other way to execute. */
#include <assert.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/observer.h"

/* ---- one node ---- */
static void show_actual(intact_value *value, const intact_value *declared, const intact_tensor *tensor, int64_t *elements) {
  *value = *declared;
  value->dtype = tensor->dtype;
  value->rank = tensor->rank;
  memcpy(value->dims, tensor->dims, sizeof value->dims);
  value->elements = NULL;
  value->n_elements = 0;
  if (value->qparams != NULL || !intact__has_elements(tensor)) return;
  for (int64_t i = 0; i < tensor->count; i++) elements[i] = intact__tensor_get_s64(tensor, i);
  value->elements = elements;
  value->n_elements = (int)tensor->count;
}

/* Infer on the actual shapes, with the node's values copied for the purpose (one block of heap): refuses what does not fit before eval sees it. */
static intact_status check_shapes(const intact_node *node, const intact_tensor *const *operands) {
  if (node->n_bodies > 0) return INTACT_OK;
  intact_context *context = node->graph->context;
  const size_t n_operands = (size_t)node->n_operands, n = n_operands + (size_t)node->n_results;
  const size_t bytes = n * sizeof(intact_value) + n * sizeof(intact_value *) + n_operands * INTACT_MAX_ELEMENTS * sizeof(int64_t);
  intact_value *values = intact__alloc(context, bytes, 1);
  if (values == NULL) return intact__no_memory(context, bytes);
  int64_t *elements = (int64_t *)(void *)(values + n);
  intact_value **pointers = (intact_value **)(void *)(elements + n_operands * INTACT_MAX_ELEMENTS);
  for (size_t i = 0; i < n_operands; i++) {
    pointers[i] = operands[i] != NULL ? &values[i] : NULL;
    if (operands[i] != NULL) show_actual(&values[i], node->operands[i], operands[i], elements + i * INTACT_MAX_ELEMENTS);
  }
  for (size_t i = n_operands; i < n; i++) {
    values[i] = *node->results[i - n_operands];
    pointers[i] = &values[i];
  }
  intact_node seen = *node;
  seen.operands = pointers;
  seen.results = pointers + n_operands;
  intact_infer infer = {.context = context, .node = &seen, .graph = NULL};
  const intact_status status = intact__run_infer(&infer);
  intact__free(context, values);
  return status;
}

static intact_status quantize_results(const intact_node *node, intact_tensor **results) {
  for (int i = 0; i < node->n_results; i++) {
    if (node->results[i]->qparams == NULL || results[i] == NULL) continue;
    intact_tensor *quantized = NULL;
    INTACT_TRY(intact__quantize_tensor_by(results[i], node->results[i]->qparams, node->divides, &quantized));
    intact_tensor_destroy(results[i]);
    results[i] = quantized;
  }
  return INTACT_OK;
}

static void destroy_all(intact_tensor **tensors, int n) {
  for (int i = 0; i < n; i++) {
    intact_tensor_destroy(tensors[i]);
    tensors[i] = NULL;
  }
}

intact_status intact__eval_node_with(const intact_node *node, const intact_tensor *const *operands,
                                     const intact_interp_options *options, intact_tensor **results) {
  intact_context *context = node->graph->context;
  const bool on_integers = intact__node_on_integers(node), fast = options->fast && node->op->eval_fast != NULL;
  const intact_tensor **given = intact__alloc_zeroed(context, 2 * (size_t)node->n_operands + 1, sizeof *given);
  if (given == NULL) return intact__no_memory(context, 2 * (size_t)node->n_operands * sizeof *given);
  intact_tensor **floats = (intact_tensor **)(void *)(given + node->n_operands);
  intact_status status = INTACT_OK;
  for (int i = 0; i < node->n_operands; i++) {
    given[i] = operands[i];
    if (operands[i] == NULL || on_integers || node->operands[i]->qparams == NULL) continue;
    INTACT_TRY_TO(done, intact__dequantize_tensor(operands[i], node->operands[i]->qparams, &floats[i]));
    given[i] = floats[i];
  }
  INTACT_TRY_TO(done, check_shapes(node, operands));
  for (int i = 0; i < node->n_results; i++) results[i] = NULL;
  const intact_call call = {.context = context,
                            .node = node,
                            .n_operands = node->n_operands,
                            .n_results = node->n_results,
                            .operands = given,
                            .results = results,
                            .options = options};
  status = fast ? node->op->eval_fast(&call) : node->op->eval_f32(&call);
  if (status == INTACT_OK && !on_integers) status = quantize_results(node, results);
  if (status != INTACT_OK) destroy_all(results, node->n_results);
done:
  destroy_all(floats, node->n_operands);
  intact__free(context, given);
  return status;
}

intact_status intact__eval_node(const intact_node *node, const intact_tensor *const *operands, bool fast,
                                intact_tensor **results) {
  const intact_interp_options options = {.fast = fast};
  return intact__eval_node_with(node, operands, &options, results);
}

/* ---- a graph ---- */
typedef struct interp {
  const intact_graph *graph;
  const intact_interp_options *options;
  intact_tensor **tensors; /* by value id; owned handles */
  int *left;               /* reads that are still to come, by value id */
} interp;

/* Moves a computed tensor into the environment and shows it to the tap. */
static intact_status keep(interp *run, const intact_value *value, intact_tensor *tensor) {
  run->tensors[value->id] = tensor;
  return run->options->tap != NULL ? run->options->tap(run->options->tap_user, value, tensor) : INTACT_OK;
}

static void drop_if_unread(interp *run, const intact_value *value) {
  if (run->left[value->id] > 0 || value->is_output) return;
  intact_tensor_destroy(run->tensors[value->id]);
  run->tensors[value->id] = NULL;
}

static intact_status run_node(interp *run, const intact_node *node, const intact_tensor **operands, intact_tensor **results) {
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    operands[i] = value == NULL ? NULL : value->constant != NULL ? value->constant : run->tensors[value->id];
    assert(value == NULL || operands[i] != NULL);
  }
  if (run->options->observe && intact__node_observes(node))
    INTACT_TRY(intact__observation_update(node->observation, operands[0]));
  INTACT_TRY(intact__eval_node_with(node, operands, run->options, results));
  intact_status status = INTACT_OK;
  for (int i = 0; i < node->n_results; i++) {
    assert(results[i] != NULL);
    const intact_status kept = keep(run, node->results[i], results[i]);
    if (status == INTACT_OK) status = kept;
  }
  INTACT_TRY(status);
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL || value->constant != NULL) continue;
    run->left[value->id]--;
    drop_if_unread(run, value);
  }
  for (int i = 0; i < node->n_results; i++) drop_if_unread(run, node->results[i]);
  return INTACT_OK;
}

static intact_status run_nodes(interp *run) {
  const intact_graph *graph = run->graph;
  int widest = 1;
  for (const intact_node *node = graph->first; node != NULL; node = node->next) {
    if (node->n_operands > widest) widest = node->n_operands;
    if (node->n_results > widest) widest = node->n_results;
  }
  intact_tensor **room = intact__alloc(graph->context, 2 * (size_t)widest, sizeof *room);
  if (room == NULL) return intact__no_memory(graph->context, 2 * (size_t)widest * sizeof *room);
  const intact_tensor **operands = (const intact_tensor **)(void *)room;
  intact_status status = INTACT_OK;
  for (const intact_node *node = graph->first; node != NULL && status == INTACT_OK; node = node->next)
    status = run_node(run, node, operands, room + widest);
  intact__free(graph->context, room);
  return status;
}

static intact_status take_outputs(interp *run, intact_tensor **outputs) {
  const intact_graph *graph = run->graph;
  for (int i = 0; i < graph->n_outputs; i++) outputs[i] = NULL;
  for (int i = 0; i < graph->n_outputs; i++) {
    const intact_value *value = graph->outputs[i];
    const intact_tensor *tensor = value->constant != NULL ? value->constant : run->tensors[value->id];
    const intact_status status = intact_tensor_share(tensor, tensor->rank, NULL, &outputs[i]);
    if (status == INTACT_OK) continue;
    destroy_all(outputs, graph->n_outputs);
    return status;
  }
  return INTACT_OK;
}

intact_status intact__interpret(const intact_graph *graph, const intact_tensor *const *inputs,
                                const intact_interp_options *options, intact_tensor **outputs) {
  static const intact_interp_options defaults = {0};
  intact_context *context = graph->context;
  INTACT_TRY(intact__graph_check_inputs(graph, inputs));
  interp run = {.graph = graph, .options = options != NULL ? options : &defaults};
  run.tensors = intact__alloc_zeroed(context, graph->n_values + 1, sizeof *run.tensors);
  run.left = intact__alloc_zeroed(context, graph->n_values + 1, sizeof *run.left);
  intact_status status = INTACT_OK;
  if (run.tensors == NULL || run.left == NULL)
    INTACT_TRY_TO(done, intact__no_memory(context, graph->n_values * sizeof *run.tensors));
  for (size_t i = 0; i < graph->n_values; i++)
    if (graph->values[i] != NULL) run.left[i] = graph->values[i]->n_uses;
  for (int i = 0; i < graph->n_inputs; i++) {
    intact_tensor *handle = NULL;
    INTACT_TRY_TO(done, intact_tensor_share(inputs[i], inputs[i]->rank, NULL, &handle));
    INTACT_TRY_TO(done, keep(&run, graph->inputs[i], handle));
  }
  INTACT_TRY_TO(done, run_nodes(&run));
  status = take_outputs(&run, outputs);
done:
  for (size_t i = 0; run.tensors != NULL && i < graph->n_values; i++) intact_tensor_destroy(run.tensors[i]);
  intact__free(context, run.tensors);
  intact__free(context, run.left);
  return status;
}

intact_status intact_graph_interpret(const intact_graph *graph, const intact_tensor *const *inputs, bool fast,
                                     intact_tensor **outputs) {
  const intact_interp_options options = {.fast = fast};
  return intact__interpret(graph, inputs, &options, outputs);
}
