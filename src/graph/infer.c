/* SPDX-License-Identifier: Apache-2.0 */
/* Types of results: the driver around the rows' infer, symbols, known elements of shape arithmetic. */
#include <assert.h>
#include <string.h>

#include "graph/internal.h"

int64_t intact__infer_unknown_dim(intact_infer *infer) {
  if (infer->graph == NULL) return -1;
  const int64_t symbol = intact__graph_symbol(infer->graph, NULL);
  return symbol < 0 ? symbol : -1;
}

intact_status intact__infer_set_elements(intact_infer *infer, int result, int n, const int64_t *elements) {
  if (infer->graph == NULL || n > INTACT_MAX_ELEMENTS) return INTACT_OK;
  int64_t *kept = intact__arena_alloc(&infer->graph->arena, (size_t)n, sizeof *kept);
  if (kept == NULL) return intact__no_memory(infer->context, (size_t)n * sizeof *kept);
  if (n > 0) memcpy(kept, elements, (size_t)n * sizeof *kept);
  infer->node->results[result]->elements = kept;
  infer->node->results[result]->n_elements = n;
  return INTACT_OK;
}

/* q of `from` mean the same in `to`, and are all allowed there. */
static bool same_grid(const intact_qparams *from, const intact_qparams *to) {
  if (from->dtype != to->dtype || from->quant_min < to->quant_min || from->quant_max > to->quant_max) return false;
  intact_qparams widened = *from;
  widened.quant_min = to->quant_min;
  widened.quant_max = to->quant_max;
  return intact__qparams_equal(&widened, to);
}

bool intact__node_on_integers(const intact_node *node) {
  if (!node->op->on_integers) return false;
  if (node->op->quant.result != INTACT_RESULT_SAME_AS) return true;
  for (int r = 0; r < node->n_results; r++) {
    const intact_qparams *to = node->results[r]->qparams;
    for (int i = 0; to != NULL && i < node->n_operands; i++) {
      const intact_value *operand = node->operands[i];
      if (operand != NULL && operand->qparams != NULL && !same_grid(operand->qparams, to)) return false;
    }
  }
  return true;
}

/* Shows quantized operands as f32 for the time of the row's infer; `back` puts the stored types in again. */
static void show_operands(const intact_node *node, bool back) {
  for (int i = 0; i < node->n_operands; i++) {
    intact_value *operand = node->operands[i];
    if (operand != NULL && operand->qparams != NULL) operand->dtype = back ? operand->qparams->dtype : INTACT_F32;
  }
}

intact_status intact__run_infer(intact_infer *infer) {
  intact_node *node = infer->node;
  const bool on_integers = intact__node_on_integers(node);
  if (!on_integers) show_operands(node, false);
  const intact_status status = node->op->infer(infer);
  if (!on_integers) show_operands(node, true);
  INTACT_TRY(status);
  for (int i = 0; i < node->n_results; i++) {
    intact_value *result = node->results[i];
    assert(result->rank <= INTACT_MAX_RANK);
    if (result->qparams != NULL) result->dtype = result->qparams->dtype;
  }
  return INTACT_OK;
}

/* A row that wrote some negative dimension meant one that is not known. */
static void name_unknown_dims(intact_infer *infer) {
  for (int i = 0; i < infer->node->n_results; i++) {
    intact_value *result = infer->node->results[i];
    for (int k = 0; k < result->rank; k++)
      if (result->dims[k] < 0 && intact_graph_symbol(infer->graph, result->dims[k])[0] == 0)
        result->dims[k] = intact__infer_unknown_dim(infer);
  }
}

/* Data movement may run on symbols as well: it copies elements and looks at none of them. */
static bool can_fold(const intact_node *node) {
  const intact_op *op = node->op;
  if (node->n_bodies > 0 || op->has_effect || node->n_operands == 0) return false;
  bool symbols = false;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *operand = node->operands[i];
    if (operand == NULL) continue;
    if (operand->elements == NULL) return false;
    for (int k = 0; k < operand->n_elements; k++) {
      if (!intact__element_is_symbol(operand->elements[k])) continue;
      if (intact__operand_spec(op, i)->role == INTACT_ROLE_INDEX) return false;
      symbols = true;
    }
  }
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *result = node->results[i];
    if (result->qparams != NULL || !intact_dtype_is_integer(result->dtype) || result->rank < 0 || result->rank > 1 ||
        (result->rank == 1 && (result->dims[0] < 0 || result->dims[0] > INTACT_MAX_ELEMENTS)))
      return false;
    if (symbols && result->dtype != INTACT_S64) return false;
  }
  return !symbols || (op->on_integers && op->quant.result == INTACT_RESULT_SAME_AS);
}

static intact_status element_tensor(intact_context *context, const intact_value *value, intact_tensor **tensor) {
  intact_tensor *made = NULL;
  INTACT_TRY(intact__tensor_create_raw(context, value->dtype, value->rank, value->dims, &made));
  assert(made->count == value->n_elements);
  for (int i = 0; i < value->n_elements; i++) intact__tensor_set_s64(made, i, value->elements[i]);
  *tensor = made;
  return INTACT_OK;
}

enum { FOLD_OPERANDS = 32 };

/* Evaluates shape arithmetic whose operands' elements are known. */
static intact_status fold_elements(intact_infer *infer) {
  const intact_node *node = infer->node;
  if (node->n_operands > FOLD_OPERANDS || node->n_results > FOLD_OPERANDS || !can_fold(node)) return INTACT_OK;
  intact_tensor *operands[FOLD_OPERANDS] = {NULL}, *results[FOLD_OPERANDS] = {NULL};
  intact_status status = INTACT_OK;
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL) INTACT_TRY_TO(done, element_tensor(infer->context, node->operands[i], &operands[i]));
  const intact_call call = {.context = infer->context,
                            .node = node,
                            .n_operands = node->n_operands,
                            .n_results = node->n_results,
                            .operands = (const intact_tensor *const *)operands,
                            .results = results};
  INTACT_TRY_TO(done, node->op->eval_f32(&call));
  for (int i = 0; i < node->n_results; i++) {
    int64_t elements[INTACT_MAX_ELEMENTS];
    if (results[i] == NULL || !intact__has_elements(results[i])) continue;
    for (int64_t k = 0; k < results[i]->count; k++) elements[k] = intact__tensor_get_s64(results[i], k);
    INTACT_TRY_TO(done, intact__infer_set_elements(infer, i, (int)results[i]->count, elements));
  }
done:
  for (int i = 0; i < FOLD_OPERANDS; i++) {
    intact_tensor_destroy(operands[i]);
    intact_tensor_destroy(results[i]);
  }
  return status;
}

/* A message of an op's inference says which node it is about. */
static intact_status name_node(const intact_node *node, intact_status status) {
  if (status == INTACT_OK || status == INTACT_NO_MEMORY) return status;
  const char *message = intact_context_message(node->graph->context), *at = message;
  const size_t length = strlen(node->name);
  while (length > 0 && (at = strstr(at, node->name)) != NULL) {
    const char before = at == message ? ' ' : at[-1], after = at[length];
    if (strchr(" '(", before) != NULL && (after == 0 || strchr(" ':),", after) != NULL)) return status;
    at += length;
  }
  return intact__fail_in(node->graph->context, "node '%s'", node->name);
}

intact_status intact__node_infer(intact_node *node) {
  intact_context *context = node->graph->context;
  intact_infer infer = {.context = context, .node = node, .graph = node->graph};
  for (int i = 0; i < node->n_results; i++) {
    node->results[i]->elements = NULL;
    node->results[i]->n_elements = 0;
  }
  INTACT_TRY(name_node(node, intact__run_infer(&infer)));
  name_unknown_dims(&infer);
  bool known = true;
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *result = node->results[i];
    known = known && result->elements != NULL;
    if (result->qparams != NULL)
      INTACT_TRY(intact__check_qparams(context, node->name, result->qparams, result->rank, result->dims));
  }
  return known ? INTACT_OK : fold_elements(&infer);
}

intact_status intact__graph_infer(intact_graph *graph) {
  for (intact_node *node = graph->first; node != NULL; node = node->next) INTACT_TRY(intact__node_infer(node));
  return INTACT_OK;
}
