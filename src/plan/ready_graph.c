/* SPDX-License-Identifier: Apache-2.0 */
/* Making a graph of concrete shapes ready for steps. */
#include <string.h>

#include "ops/ops.h"
#include "plan/plan.h"

static bool known_shape(const intact_value *value) {
  if (value == NULL) return true;
  if (value->rank < 0) return false;
  for (int i = 0; i < value->rank; i++)
    if (value->dims[i] < 0) return false;
  return true;
}

bool intact__plan_is_dynamic(const intact_node *node) {
  if (node->n_bodies > 0) return true;
  for (int i = 0; i < node->n_operands; i++)
    if (!known_shape(node->operands[i])) return true;
  for (int i = 0; i < node->n_results; i++)
    if (!known_shape(node->results[i])) return true;
  return false;
}

static bool has_qparams(const intact_node *node) {
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL && node->operands[i]->qparams != NULL) return true;
  for (int i = 0; i < node->n_results; i++)
    if (node->results[i]->qparams != NULL) return true;
  return false;
}

bool intact__plan_is_integer(const intact_node *node, const char **why) {
  *why = NULL;
  if (!has_qparams(node)) {
    *why = "its values are not quantized";
  } else if (node->op->lower_int == NULL) {
    *why = "the op has no integer kernel";
  } else if (node->op->check_int != NULL) {
    *why = node->op->check_int(node);
  }
  return *why == NULL;
}

/* ---- constants ---- */
static intact_status add_result(intact_graph *graph, intact_value *result, intact_tensor *tensor) {
  const char *name = intact__graph_fresh_name(graph, result->name);
  intact_value *constant = NULL;
  if (name == NULL) {
    intact_tensor_destroy(tensor);
    return intact__no_memory(graph->context, 0);
  }
  INTACT_TRY(intact__graph_add_constant(graph, name, tensor, result->qparams, &constant));
  while (result->uses != NULL) intact__node_set_operand(result->uses->node, result->uses->operand, constant);
  return INTACT_OK;
}

/* Integer results whose elements inference has found out. */
static bool elements_known(const intact_node *node) {
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *result = node->results[i];
    if (result->elements == NULL || result->is_output) return false;
    for (int k = 0; k < result->n_elements; k++)
      if (intact__element_is_symbol(result->elements[k])) return false;
  }
  return true;
}

static intact_status fold_known(intact_graph *graph, intact_node *node) {
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *result = node->results[i];
    intact_tensor *tensor = NULL;
    INTACT_TRY(intact__tensor_create_raw(graph->context, result->dtype, result->rank, result->dims, &tensor));
    for (int k = 0; k < result->n_elements; k++) intact__tensor_set_s64(tensor, k, result->elements[k]);
    INTACT_TRY(add_result(graph, node->results[i], tensor));
  }
  return INTACT_OK;
}

static bool operands_constant(const intact_node *node) {
  if (node->op->has_effect || node->n_bodies > 0) return false;
  bool any = false;
  for (int i = 0; i < node->n_operands; i++) {
    if (node->operands[i] == NULL) continue;
    if (node->operands[i]->constant == NULL) return false;
    any = true;
  }
  for (int i = 0; i < node->n_results; i++)
    if (node->results[i]->is_output) return false;
  return any;
}

static intact_status fold_constant(intact_graph *graph, intact_node *node) {
  intact_context *context = graph->context;
  const size_t n = (size_t)node->n_operands + (size_t)node->n_results;
  intact_tensor **room = intact__alloc_zeroed(context, n, sizeof *room);
  if (room == NULL) return intact__no_memory(context, n * sizeof *room);
  intact_tensor **results = room + node->n_operands;
  for (int i = 0; i < node->n_operands; i++) room[i] = node->operands[i] != NULL ? node->operands[i]->constant : NULL;
  intact_status status = intact__eval_node(node, (const intact_tensor *const *)room, true, results);
  for (int i = 0; i < node->n_results && status == INTACT_OK; i++) {
    intact_tensor *tensor = results[i];
    results[i] = NULL;
    status = add_result(graph, node->results[i], tensor);
  }
  for (int i = 0; i < node->n_results; i++) intact_tensor_destroy(results[i]);
  intact__free(context, room);
  return status;
}

static intact_status fold_constants(intact_graph *graph) {
  for (intact_node *node = graph->first; node != NULL;) {
    intact_node *next = node->next;
    const bool known = elements_known(node) && !node->op->has_effect;
    if (known || operands_constant(node)) {
      INTACT_TRY(known ? fold_known(graph, node) : fold_constant(graph, node));
      intact__node_remove(node);
    }
    node = next;
  }
  return INTACT_OK;
}

/* ---- float nodes among integer values ---- */
/* The float form of a quantized value: of a dequantize node before its first reader, one for all (forms[] by value id). */
static intact_status float_form(intact_graph *graph, intact_value *value, intact_node *before, intact_value **form) {
  if (*form != NULL) return INTACT_OK;
  intact_node *made = NULL;
  const char *name = intact__graph_fresh_name(graph, value->name);
  if (name == NULL) return intact__no_memory(graph->context, 0);
  INTACT_TRY(intact__graph_add_node(graph, &intact_op_dequantize, name, 1, &value, 1, NULL, before, &made));
  INTACT_TRY(intact__node_infer(made));
  *form = made->results[0];
  return INTACT_OK;
}

/* The node computes a float result; a quantize node after it makes the quantized one, which keeps name and readers. */
static intact_status quantize_result(intact_graph *graph, intact_node *node, int r) {
  intact_value *result = node->results[r];
  const intact_qparams *qparams = result->qparams;
  intact_node *made = NULL;
  result->qparams = NULL;
  result->dtype = INTACT_F32;
  const char *name = intact__graph_fresh_name(graph, result->name);
  if (name == NULL) return intact__no_memory(graph->context, 0);
  INTACT_TRY(intact__graph_add_node(graph, &intact_op_quantize, name, 1, &result, 1, NULL, node->next, &made));
  made->results[0]->qparams = qparams;
  if (!result->is_output) intact__value_swap_names(result, made->results[0]);
  intact__value_replace_uses(result, made->results[0]);
  intact__node_set_operand(made, 0, result);
  return intact__node_infer(made);
}

static intact_status make_float(intact_graph *graph, intact_node *node, intact_value **forms) {
  for (int i = 0; i < node->n_operands; i++) {
    intact_value *operand = node->operands[i];
    if (operand == NULL || operand->qparams == NULL) continue;
    INTACT_TRY(float_form(graph, operand, node, &forms[operand->id]));
    intact__node_set_operand(node, i, forms[operand->id]);
  }
  for (int i = 0; i < node->n_results; i++)
    if (node->results[i]->qparams != NULL) INTACT_TRY(quantize_result(graph, node, i));
  return INTACT_OK;
}

static bool must_be_float(const intact_node *node) {
  const char *why;
  return has_qparams(node) && !intact__plan_is_dynamic(node) && !intact__plan_is_integer(node, &why) &&
         !intact__node_on_integers(node);
}

static intact_status split_float_nodes(intact_graph *graph) {
  /* Of n values at most n get a quantize node, and at most 2n a dequantize node: ids stay below 4n. */
  const size_t most = 4 * graph->n_values + 1;
  intact_value **forms = intact__alloc_zeroed(graph->context, most, sizeof *forms);
  if (forms == NULL) return intact__no_memory(graph->context, most * sizeof *forms);
  intact_status status = INTACT_OK;
  for (intact_node *node = graph->first; node != NULL && status == INTACT_OK; node = node->next)
    if (must_be_float(node)) status = make_float(graph, node, forms);
  intact__free(graph->context, forms);
  return status;
}

intact_status intact__plan_prepare(intact_graph *graph) {
  INTACT_TRY(fold_constants(graph));
  INTACT_TRY(split_float_nodes(graph));
  INTACT_TRY(fold_constants(graph)); /* dequantized constants */
  intact__graph_remove_dead(graph);
  return INTACT_OK;
}
