/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that are quantized, or moved after dequantize, become integer constants. */
#include "graph/pass.h"
#include "ops/ops.h"

static bool is_dequantized_constant(const intact_value *value) {
  const intact_node *node = value ? value->producer : NULL;
  return intact__is_op(node, "dequantize") && node->operands[0]->constant;
}

/* Puts a new integer constant and a dequantize node of it in the place of `node`'s result. Takes the tensor over. */
static intact_status replace(intact_node *node, const char *base, intact_tensor *codes, const intact_qparams *qparams,
                             bool dequantize) {
  intact_graph *graph = node->graph;
  const char *name = intact__graph_fresh_name(graph, base);
  if (!name) {
    intact_tensor_destroy(codes);
    return intact__no_memory(graph->context, 0);
  }
  intact_value *value = NULL;
  INTACT_TRY(intact__graph_add_constant(graph, name, codes, qparams, &value));
  if (dequantize) {
    intact_node *made = NULL;
    INTACT_TRY(intact__graph_add_node(graph, intact__find_op("dequantize"), NULL, 1, &value, 1, NULL, node, &made));
    INTACT_TRY(intact__node_infer(made));
    value = made->results[0];
  }
  intact__value_replace_uses(node->results[0], value);
  intact__node_remove(node);
  return INTACT_OK;
}

/* quantize(constant) */
static intact_status fold_quantize(intact_node *node) {
  const intact_tensor *operand = node->operands[0]->constant;
  intact_tensor *codes = NULL;
  INTACT_TRY(intact__eval_node(node, &operand, false, &codes));
  return replace(node, node->results[0]->name, codes, node->results[0]->qparams, false);
}

/* ---- data movement after dequantize(constant) ---- */

static bool moves_constant(const intact_node *node) {
  const intact_op *op = node->op;
  if (!op->on_integers || op->quant.result != INTACT_RESULT_SAME_AS || op->quant.share_operands || op->has_effect) return false;
  double value;
  if (node->n_results != 1 || node->results[0]->is_output || op->quant.same_as != 0) return false;
  if (op->quant.fill_value && op->quant.fill_value(node, &value)) return false;
  if (!is_dequantized_constant(node->operands[0])) return false;
  for (int i = 1; i < node->n_operands; i++)
    if (node->operands[i] && !node->operands[i]->constant) return false;
  return true;
}

static intact_status move(const intact_node *node, const intact_tensor *data, intact_tensor **moved) {
  const intact_tensor *operands[8] = {data};
  for (int i = 1; i < node->n_operands; i++) operands[i] = node->operands[i] ? node->operands[i]->constant : NULL;
  return intact__eval_node(node, operands, false, moved);
}

/* Channel of every element of a tensor of such a shape, as float (counts below 2^24 are exact). */
static intact_status channel_numbers(intact_context *context, const intact_tensor *codes, int axis, intact_tensor **numbers) {
  int64_t inner = 1;
  for (int i = axis + 1; i < codes->rank; i++) inner *= codes->dims[i];
  INTACT_TRY(intact__tensor_create_raw(context, INTACT_F32, codes->rank, codes->dims, numbers));
  for (int64_t i = 0; i < codes->count; i++) intact__f32(*numbers)[i] = (float)(i / inner % codes->dims[axis]);
  return INTACT_OK;
}

/* The axis along which the moved channel numbers run, -1: none. Order may have changed: order[i] is the channel at i. */
static int find_axis(const intact_tensor *numbers, int64_t channels, int64_t *order) {
  for (int axis = 0; axis < numbers->rank; axis++) {
    if (numbers->dims[axis] != channels) continue;
    int64_t inner = 1;
    for (int i = axis + 1; i < numbers->rank; i++) inner *= numbers->dims[i];
    for (int64_t c = 0; c < channels; c++) order[c] = (int64_t)intact__f32(numbers)[c * inner];
    bool all = true;
    for (int64_t i = 0; all && i < numbers->count; i++)
      all = (int64_t)intact__f32(numbers)[i] == order[i / inner % channels];
    if (all) return axis;
  }
  return -1;
}

/* qparams of the moved constant; NULL where the channels don't lie along one axis any more. */
static intact_status moved_qparams(const intact_node *node, const intact_tensor *codes, const intact_qparams *from,
                                   const intact_qparams **qparams) {
  intact_graph *graph = node->graph;
  *qparams = from->n == 1 ? from : NULL;
  if (from->n == 1 || from->group > 0 || codes->count == 0 || from->n >= 1 << 24) return INTACT_OK;
  intact_tensor *numbers = NULL, *moved = NULL;
  INTACT_TRY(channel_numbers(graph->context, codes, from->axis, &numbers));
  intact_status status = move(node, numbers, &moved);
  intact_tensor_destroy(numbers);
  INTACT_TRY(status);
  int64_t *order = intact__arena_alloc(&graph->arena, (size_t)from->n, sizeof *order);
  float *scale = intact__arena_alloc(&graph->arena, (size_t)from->n, sizeof *scale);
  int32_t *zero = intact__arena_alloc(&graph->arena, (size_t)from->n, sizeof *zero);
  int axis = -1;
  if (order && scale && zero)
    axis = find_axis(moved, from->n, order);
  else
    status = intact__no_memory(graph->context, (size_t)from->n * sizeof *order);
  intact_tensor_destroy(moved);
  if (status != INTACT_OK || axis < 0) return status;
  for (int64_t c = 0; c < from->n; c++) {
    scale[c] = from->scale[order[c]];
    zero[c] = from->zero_point[order[c]];
  }
  *qparams = intact__qparams_create(&graph->arena, from->scheme, from->dtype, from->quant_min, from->quant_max, axis, from->n,
                                    scale, zero);
  return *qparams ? INTACT_OK : intact__no_memory(graph->context, sizeof **qparams);
}

static intact_status fold_move(intact_node *node, int64_t *changed) {
  const intact_value *stored = node->operands[0]->producer->operands[0];
  const intact_qparams *qparams = NULL;
  INTACT_TRY(moved_qparams(node, stored->constant, stored->qparams, &qparams));
  if (!qparams) return INTACT_OK;
  intact_tensor *codes = NULL;
  INTACT_TRY(move(node, stored->constant, &codes));
  ++*changed;
  return replace(node, stored->name, codes, qparams, true);
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (intact__is_op(node, "quantize") && node->operands[0]->constant && !node->results[0]->is_output) {
      INTACT_TRY(fold_quantize(node));
      ++*changed;
    } else if (moves_constant(node) && node->n_operands <= 8) {
      INTACT_TRY(fold_move(node, changed));
    }
  }
  return INTACT_OK;
}

const intact_pass intact_pass_fold_quantized_constants = {
    .name = "fold_quantized_constants",
    .doc = "Quantizes constants, and moves the integers of dequantized ones (transposed or reshaped weights)",
    .precondition = "quantize reads a constant; or data movement with constant settings reads a dequantized constant whose "
                    "channels still lie along one axis after it",
    .needs = INTACT_STAGE_QDQ,
    .gives = INTACT_STAGE_QDQ,
    .numerics = "exact",
    .run = run,
};
