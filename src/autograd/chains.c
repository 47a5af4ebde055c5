/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of nodes that a graph in training runs as one: folded_batch_norm and a clamp before a fake_quantize. */
#include <math.h>
#include <stdio.h>

#include "autograd/trainable.h"
#include "graph/fake_quantizer.h"
#include "ops/ops.h"

/* relu, relu6, hardtanh: a clamp whose gradient is 0 on the bounds (that of op clamp is not). */
static bool is_clamp(const intact_node *node) {
  return node && node->op->quant.is_clamp && node->op->quant.clamp_range && !intact__is_op(node, "clamp") && node->n_operands == 1 &&
         node->n_results == 1 && node->n_bodies == 0;
}

/* The node that computes operand 0, when nobody else reads it. */
static intact_node *sole_producer(const intact_node *node) {
  const intact_value *value = node->operands[0];
  return value->producer && value->result == 0 && intact__value_single_user(value) == node ? value->producer : NULL;
}

/* A node of the one op beside the graph, with open inputs: what the tape records. */
static intact_status make_node(intact_trainable *t, intact_chain *chain) {
  const intact_node *norm = chain->norm;
  intact_value *values[8] = {NULL};
  const bool learned = chain->fake->n_operands > 1;
  if (!t->side) INTACT_TRY(intact__graph_create(t->context, "chains", &t->side));
  for (int i = 0; i < 8; i++) {
    char name[40];
    snprintf(name, sizeof name, "%d_%d", t->n_chains, i);
    if (i < 6 ? i < norm->n_operands && norm->operands[i] : learned) INTACT_TRY(intact__graph_add_input(t->side, name, INTACT_F32, -1, NULL, &values[i]));
  }
  INTACT_TRY(intact__graph_add_node(t->side, intact__find_op("folded_batch_norm_fake_quantize"), norm->name, learned ? 8 : norm->n_operands, values, 5, NULL,
                                    NULL, &chain->node));
  chain->node->observation = intact__observation_retain(chain->fake->observation);
  intact__attr_set_float(chain->node, "eps", intact__attr_float(norm, "eps"));
  intact__attr_set_float(chain->node, "momentum", intact__attr_float(norm, "momentum"));
  intact__attr_set_int(chain->node, "divide", intact__attr_int(norm, "divide"));
  intact__attr_set_float(chain->node, "low", chain->low);
  intact__attr_set_float(chain->node, "high", chain->high);
  return INTACT_OK;
}

static intact_status add_chain(intact_trainable *t, intact_node *fake) {
  intact_chain chain = {.fake = fake, .low = -INFINITY, .high = INFINITY};
  intact_node *before = sole_producer(fake);
  if (is_clamp(before)) {
    chain.clamp = before;
    before->op->quant.clamp_range(before, &chain.low, &chain.high);
    before = sole_producer(before);
  }
  if (before && intact__is_op(before, "folded_batch_norm") && intact__trains_statistics(before)) chain.norm = before;
  if (!chain.norm && !chain.clamp) return INTACT_OK;
  void *array = t->chains;
  INTACT_TRY(intact__reserve(t->context, &array, &t->chains_capacity, (size_t)t->n_chains + 1, sizeof *t->chains));
  t->chains = array;
  if (chain.norm) INTACT_TRY(make_node(t, &chain));
  t->chains[t->n_chains++] = chain;
  return INTACT_OK;
}

intact_status intact__trainable_find_chains(intact_trainable *t) {
  const intact_graph *graph = t->graph;
  for (intact_node *node = graph->first; node; node = node->next)
    if (intact__is_op(node, "fake_quantize") && node->observation && node->observation->fake)
      INTACT_TRY(add_chain(t, node));
  t->steps = intact__alloc_zeroed(t->context, (size_t)graph->n_nodes + 1, sizeof *t->steps);
  if (!t->steps) return intact__no_memory(t->context, (size_t)graph->n_nodes * sizeof *t->steps);
  int n = 0;
  for (intact_node *node = graph->first; node; node = node->next, n++) {
    t->steps[n] = (intact_training_step){node, -1};
    for (int i = 0; i < t->n_chains; i++)
      if (node == t->chains[i].norm || node == t->chains[i].clamp || node == t->chains[i].fake) t->steps[n].chain = i;
  }
  t->n_steps = n;
  return INTACT_OK;
}

void intact__trainable_choose_chains(intact_trainable *t) {
  for (int i = 0; i < t->n_chains; i++) {
    intact_chain *chain = &t->chains[i];
    chain->active = !t->unfused && intact__fake_quantizer_fuses(chain->fake->observation);
    if (chain->norm) continue;
    /* A clamp alone goes into the fake quantizer, which then observes the clamped range by itself. */
    intact__attr_set_float(chain->fake, "low", chain->active ? chain->low : -INFINITY);
    intact__attr_set_float(chain->fake, "high", chain->active ? chain->high : INFINITY);
    intact__attr_set_int(chain->fake, "observe_clamped", chain->active && t->training && intact__attr_int(chain->fake, "observe"));
  }
}

void intact__trainable_drop_chains(intact_trainable *t) {
  for (int i = 0; i < t->n_chains; i++) {
    if (t->chains[i].norm) continue;
    intact__attr_set_float(t->chains[i].fake, "low", -INFINITY);
    intact__attr_set_float(t->chains[i].fake, "high", INFINITY);
    intact__attr_set_int(t->chains[i].fake, "observe_clamped", 0);
  }
  intact_graph_destroy(t->side);
  intact__free(t->context, t->chains);
  intact__free(t->context, t->steps);
}
