/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize -> quantize pairs that are left cancel, or become one requantize. */
#include <string.h>

#include "graph/pass.h"
#include "ops/ops.h"

/* Every integer of `from` means the same under `to`. */
static bool same_meaning(const intact_qparams *from, const intact_qparams *to) {
  return from->dtype == to->dtype && from->n == to->n && from->axis == to->axis && from->group == to->group &&
         from->quant_min >= to->quant_min && from->quant_max <= to->quant_max &&
         memcmp(from->scale, to->scale, (size_t)from->n * sizeof *from->scale) == 0 &&
         memcmp(from->zero_point, to->zero_point, (size_t)from->n * sizeof *from->zero_point) == 0;
}

static intact_status absorb(intact_node *quantize, intact_value *integers) {
  intact_graph *graph = quantize->graph;
  intact_value *result = quantize->results[0];
  /* An output keeps a node of its own, so that its name and qparams stay. */
  bool output_twice = result->is_output && (integers->is_output || !integers->producer);
  if (same_meaning(integers->qparams, result->qparams) && !output_twice) {
    intact__value_replace_uses(result, integers);
    intact__node_remove(quantize);
    return INTACT_OK;
  }
  intact_node *made = NULL;
  INTACT_TRY(intact__graph_add_node(graph, intact__find_op("requantize"), NULL, 1, &integers, 1, NULL, quantize, &made));
  INTACT_TRY(intact__attr_set_string(made, "rule", intact__attr_string(quantize, "rule")));
  INTACT_TRY(intact__value_set_qparams(graph, made->results[0], result->qparams));
  INTACT_TRY(intact__node_infer(made));
  intact__value_replace_uses(result, made->results[0]);
  intact__node_remove(quantize);
  return INTACT_OK;
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (!intact__is_op(node, "quantize") || !intact__is_op(node->operands[0]->producer, "dequantize")) continue;
    INTACT_TRY(absorb(node, node->operands[0]->producer->operands[0]));
    ++*changed;
  }
  return INTACT_OK;
}

const intact_pass intact_pass_absorb_quantize = {
    .name = "absorb_quantize",
    .doc = "Removes dequantize -> quantize between equal qparams and makes one requantize of it between different ones",
    .precondition = "quantize reads what dequantize gives",
    .needs = INTACT_STAGE_INTEGER,
    .gives = INTACT_STAGE_INTEGER,
    .numerics = "exact: integers on the same grid survive dequantize -> quantize, and requantize is defined as the pair",
    .run = run,
};
