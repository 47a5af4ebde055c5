/* SPDX-License-Identifier: Apache-2.0 */
/* Which integer nodes work on channels-last data. */
#include "ops/ops.h"
#include "plan/plan.h"

bool intact__orders_agree(const intact_value *value) {
  if (value->rank < 3 || value->dims[1] == 1) return true;
  int64_t spatial = 1;
  for (int i = 2; i < value->rank; i++) spatial *= value->dims[i];
  return spatial == 1;
}

static bool is_integer(const intact_node *node) {
  const char *why;
  return !intact__plan_is_dynamic(node) && intact__plan_is_integer(node, &why);
}

/* All operands that broadcast against the result have its rank or are single numbers. */
static bool ranks_fit(const intact_node *node) {
  const int rank = node->results[0]->rank;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *operand = node->operands[i];
    if (operand == NULL || operand->qparams == NULL || operand->rank == rank) continue;
    for (int k = 0; k < operand->rank; k++)
      if (operand->dims[k] != 1) return false;
  }
  return true;
}

/* Readers of the value that work channels last, directly or through nodes that take any order. wants[] by value id. */
static void find_wants(const intact_graph *graph, bool *wants) {
  for (const intact_node *node = graph->last; node != NULL; node = node->prev) {
    if (!is_integer(node)) continue;
    const intact_value *result = node->results[0];
    const bool fixed = node->op->int_layout == INTACT_INT_CHANNELS_LAST;
    const bool any = node->op->int_layout == INTACT_INT_ANY && wants[result->id] && ranks_fit(node);
    if (!fixed && !any) continue;
    for (int i = 0; i < node->n_operands; i++) {
      const intact_value *operand = node->operands[i];
      if (operand != NULL && operand->qparams != NULL && operand->rank >= 3 &&
          intact__operand_spec(node->op, i)->role == INTACT_ROLE_ACTIVATION)
        wants[operand->id] = true;
    }
  }
}

static bool choose(const intact_node *node, const bool *wants, const bool *is_last) {
  if (!is_integer(node)) return false;
  const intact_value *result = node->results[0];
  const int rank = result->rank;
  switch (node->op->int_layout) {
    case INTACT_INT_ROWS:
      return false;
    case INTACT_INT_CHANNELS_LAST:
      return rank >= 3 || (node->operands[0] != NULL && node->operands[0]->rank >= 3);
    case INTACT_INT_ANY:
      break;
  }
  if (rank < 3) return false;
  if (node->op == &intact_op_quantize) return wants[result->id];
  if (node->op == &intact_op_dequantize) return is_last[node->operands[0]->id];
  if (!ranks_fit(node)) return false;
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL && node->operands[i]->rank == rank && is_last[node->operands[i]->id]) return true;
  return false;
}

intact_status intact__plan_layouts(const intact_graph *graph, bool *channels_last) {
  intact_context *context = graph->context;
  bool *wants = intact__alloc_zeroed(context, 2 * graph->n_values + 1, sizeof *wants);
  if (wants == NULL) return intact__no_memory(context, 2 * graph->n_values);
  bool *is_last = wants + graph->n_values; /* by value id: where the result lies */
  find_wants(graph, wants);
  int n = 0;
  for (const intact_node *node = graph->first; node != NULL; node = node->next, n++) {
    channels_last[n] = choose(node, wants, is_last);
    const intact_value *result = node->results[0];
    is_last[result->id] = channels_last[n] && result->rank >= 3 && result->qparams != NULL;
  }
  intact__free(context, wants);
  return INTACT_OK;
}
