/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose operands are all constants become constants. */
#include "graph/pass.h"

/* A folded result may be this much larger than what it was made from; larger ones (expanded scalars) are cheaper to compute. */
enum { GROWTH = 16, SMALL_BYTES = 1 << 20 };

static bool foldable(const intact_node *node, size_t *bytes) {
  if (node->n_bodies > 0 || node->op->has_effect) return false;
  int constants = 0;
  *bytes = 0;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *operand = node->operands[i];
    if (!operand) continue;
    if (!operand->constant || operand->qparams) return false;
    *bytes += intact_tensor_bytes(operand->constant);
    constants++;
  }
  if (constants == 0) return false;
  for (int r = 0; r < node->n_results; r++)
    if (node->results[r]->is_output || node->results[r]->qparams) return false;
  return true;
}

/* Bytes of the results as inferred; a symbol left in a shape that follows from constants counts as huge. */
static bool small_enough(const intact_node *node, size_t bytes) {
  size_t results = 0;
  for (int r = 0; r < node->n_results; r++) {
    const intact_value *result = node->results[r];
    int64_t count;
    size_t here;
    if (result->rank < 0 || !intact__shape_bytes(result->dtype, result->rank, result->dims, &count, &here)) return false;
    results += here;
  }
  return results <= SMALL_BYTES || results / GROWTH <= bytes;
}

static intact_status fold(intact_node *node) {
  intact_graph *graph = node->graph;
  intact_context *context = graph->context;
  size_t n = (size_t)node->n_operands + (size_t)node->n_results;
  intact_tensor **results = intact__alloc_zeroed(context, n, sizeof *results);
  if (!results) return intact__no_memory(context, n * sizeof *results);
  const intact_tensor **operands = (const intact_tensor **)(void *)(results + node->n_results);
  for (int i = 0; i < node->n_operands; i++) operands[i] = node->operands[i] ? node->operands[i]->constant : NULL;
  intact_status status = intact__eval_node(node, operands, false, results);
  for (int r = 0; r < node->n_results && status == INTACT_OK; r++) {
    intact_tensor *tensor = results[r];
    results[r] = NULL;
    const char *name = intact__graph_fresh_name(graph, node->results[r]->name);
    intact_value *constant = NULL;
    if (!name) {
      intact_tensor_destroy(tensor);
      status = intact__no_memory(context, 0);
      break;
    }
    status = intact__graph_add_constant(graph, name, tensor, NULL, &constant);
    if (status == INTACT_OK) intact__value_replace_uses(node->results[r], constant);
  }
  for (int r = 0; r < node->n_results; r++) intact_tensor_destroy(results[r]);
  intact__free(context, results);
  if (status == INTACT_OK) intact__node_remove(node);
  return status;
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    size_t bytes;
    if (!foldable(node, &bytes) || !small_enough(node, bytes)) continue;
    INTACT_TRY(fold(node));
    ++*changed;
  }
  return INTACT_OK;
}

const intact_pass intact_pass_fold_constants = {
    .name = "fold_constants",
    .doc = "Evaluates nodes that read constants only",
    .precondition = "all operands are plain constants; the op has no effect and no body; results are at most 16 times larger",
    .needs = INTACT_STAGE_FLOAT,
    .gives = INTACT_STAGE_FLOAT,
    .numerics = "exact: the op's own definition is evaluated",
    .run = run,
};
