/* SPDX-License-Identifier: Apache-2.0 */
/* Which constants of a graph are parameters, and what training changes in the graph itself. */
#include <string.h>

#include "autograd/trainable.h"

/* Whether the result becomes a weight: what is fake-quantized or folded is read as an activation first. */
static bool makes_weight(const intact_node *node) {
  if (node->n_results == 0) return false;
  for (const intact_use *use = node->results[0]->uses; use; use = use->next)
    if (intact__operand_spec(use->node->op, use->operand)->role == INTACT_ROLE_WEIGHT) return true;
  return false;
}

/* Read as a weight or a bias, by role or (norms, recurrent layers, learned qparams) by name; or as an activation, if it is more than
   one number: the bias of a matmul, the table of positions. */
static bool reads_parameter(const intact_node *node, int i) {
  const char *name = intact__operand_spec(node->op, i)->name;
  const intact_role role = intact__operand_spec(node->op, i)->role;
  if (role == INTACT_ROLE_WEIGHT || role == INTACT_ROLE_BIAS) return true;
  if (role == INTACT_ROLE_ACTIVATION) return node->operands[i]->constant->count > 1 || makes_weight(node);
  if (role != INTACT_ROLE_NONE) return false;
  return strstr(name, "weight") || strstr(name, "bias") || (intact__is_op(node, "fake_quantize") && i > 0);
}

static bool is_parameter(const intact_value *value) {
  if (!value || !value->constant || value->constant->dtype != INTACT_F32) return false;
  for (const intact_use *use = value->uses; use; use = use->next)
    if (use->node->op->grad != intact__grad_none && reads_parameter(use->node, use->operand)) return true;
  return false;
}

/* Memory of its own: a constant may lie in a mapped file or be shared with other graphs. Learned qparams share theirs with the fake
   quantizer on purpose. */
static intact_status own_memory(intact_value *value) {
  const intact_use *use = value->uses;
  if (use && intact__is_op(use->node, "fake_quantize") && use->operand > 0) return INTACT_OK;
  intact_tensor *copy;
  INTACT_TRY(intact_tensor_copy(value->constant, &copy));
  intact_tensor_destroy(value->constant);
  value->constant = copy;
  return INTACT_OK;
}

/* ---- batch norms ---- */

bool intact__trains_statistics(const intact_node *node) {
  if (!intact__is_op(node, "batch_norm") && !intact__is_op(node, "folded_batch_norm")) return false;
  for (int i = 3; i < 5; i++)
    if (node->n_operands <= i || !node->operands[i] || !node->operands[i]->constant) return false;
  return true;
}

static intact_status ready_batch_norms(intact_graph *graph) {
  for (intact_node *node = graph->first; node; node = node->next) {
    if (!intact__trains_statistics(node)) continue;
    INTACT_TRY(own_memory(node->operands[3]));
    INTACT_TRY(own_memory(node->operands[4]));
    INTACT_TRY(intact__node_extend_results(node, 5));
    INTACT_TRY(intact__node_infer(node));
  }
  return INTACT_OK;
}

void intact__trainable_restore(intact_trainable *t) {
  for (intact_node *node = t->graph->first; node; node = node->next) {
    if (!intact__trains_statistics(node)) continue;
    intact__attr_set_int(node, "training", 0);
    intact__node_drop_results(node, 1);
  }
  for (int i = 0; i < t->n; i++)
    if (own_memory(t->values[i]) != INTACT_OK) return;
}

/* ---- the list ---- */

intact_status intact__trainable_prepare(intact_trainable *t) {
  intact_graph *graph = t->graph;
  INTACT_TRY(ready_batch_norms(graph));
  t->n_index = graph->n_values;
  t->index = intact__alloc(t->context, t->n_index + 1, sizeof *t->index);
  t->values = intact__alloc_zeroed(t->context, t->n_index + 1, sizeof *t->values);
  t->parameters = intact__alloc_zeroed(t->context, t->n_index + 1, sizeof *t->parameters);
  if (!t->index || !t->values || !t->parameters) return intact__no_memory(t->context, t->n_index * sizeof *t->values);
  for (size_t i = 0; i < t->n_index; i++) {
    intact_value *value = graph->values[i];
    t->index[i] = -1;
    if (!is_parameter(value)) continue;
    INTACT_TRY(own_memory(value));
    INTACT_TRY(intact_variable_create(value->constant, true, &t->parameters[t->n]));
    t->values[t->n] = value;
    t->index[i] = t->n++;
    intact_tensor_mutable_data(value->constant); /* its content changes from here on: nothing may keep a packed copy of it */
  }
  return INTACT_OK;
}
