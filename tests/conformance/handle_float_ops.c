/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of float_ops: any op that a row claims by its aten alias, forward by both definitions and gradient. */
#include <stdio.h>

#include "conformance/bind.h"

static intact_status share_results(conf_binding *b, const intact_node *node, intact_tensor *const *results) {
  for (int k = 0; k < b->n_expected; k++) {
    const int i = conf_bind_result(b, k);
    if (i >= node->n_results || !results[i]) continue;
    intact_tensor *shared;
    intact_status status = intact_tensor_share(results[i], 0, NULL, &shared);
    if (status == INTACT_OK) status = conf_result(b->c, shared, "%s", b->expected[k]);
    if (status != INTACT_OK) return status;
  }
  return INTACT_OK;
}

/* The fast gradient must meet the same expectations. */
static intact_status check_fast_gradient(conf_binding *b, const intact_grad *definition) {
  intact_tensor *d_operands[CONF_MAX_OPERANDS] = {NULL};
  char label[300], name[200];
  if (!b->op->grad_fast) return INTACT_OK;
  intact_grad grad = *definition;
  grad.d_operands = d_operands;
  intact_status status = b->op->grad_fast(&grad);
  for (int i = 0; i < b->n && status == INTACT_OK; i++) {
    if (!grad.needed[i]) continue;
    snprintf(name, sizeof name, "d%s", b->inputs[i]);
    snprintf(label, sizeof label, "%s by grad_fast", name);
    const intact_tensor *want = conf_tensor(b->c, json_string_value(json_object_get(conf_bind_expect(b->c), name)));
    if (!d_operands[i]) status = intact__grad_operand(&grad, i, &d_operands[i]);
    if (status != INTACT_OK || !want) continue;
    conf_compare(b->c, label, d_operands[i], want, json_object_get(json_object_get(b->c->json, "tolerance"), name));
  }
  conf_bind_release(b->n, d_operands);
  return status;
}

static intact_status run_gradient(conf_binding *b, const intact_node *node, intact_tensor *const *results) {
  const intact_tensor *d_results[CONF_MAX_OPERANDS] = {NULL};
  intact_tensor *d_operands[CONF_MAX_OPERANDS] = {NULL};
  bool needed[CONF_MAX_OPERANDS] = {false}, any = false;
  for (int k = 0; k < b->n_expected; k++) {
    const int i = conf_bind_result(b, k);
    if (i < node->n_results) d_results[i] = conf_input(b->c, "d%s", b->expected[k]);
  }
  for (int i = 0; i < b->n; i++) {
    needed[i] = b->inputs[i] && conf_expects(b->c, "d%s", b->inputs[i]);
    any = any || needed[i];
  }
  if (!any) return INTACT_OK;
  intact_grad grad = {.context = b->c->context,
                      .node = node,
                      .n_operands = b->n,
                      .n_results = node->n_results,
                      .operands = b->operands,
                      .results = (const intact_tensor *const *)results,
                      .d_results = d_results,
                      .needed = needed,
                      .d_operands = d_operands};
  intact_status status = b->op->grad(&grad);
  if (status == INTACT_OK) status = check_fast_gradient(b, &grad);
  for (int i = 0; i < b->n && status == INTACT_OK; i++) {
    if (!needed[i]) continue;
    if (!d_operands[i]) status = intact__grad_operand(&grad, i, &d_operands[i]);
    if (status != INTACT_OK) break;
    status = conf_result(b->c, d_operands[i], "d%s", b->inputs[i]);
    d_operands[i] = NULL;
  }
  conf_bind_release(b->n, d_operands);
  return status;
}

/* The fast row must meet the same expectations. */
static intact_status check_fast(conf_binding *b, const intact_node *node) {
  intact_tensor *results[CONF_MAX_OPERANDS] = {NULL};
  char label[200];
  if (!b->op->eval_fast) return INTACT_OK;
  intact_status status = intact__eval_node(node, b->operands, true, results);
  for (int k = 0; k < b->n_expected && status == INTACT_OK; k++) {
    const int i = conf_bind_result(b, k);
    const intact_tensor *want = conf_tensor(b->c, json_string_value(json_object_get(conf_bind_expect(b->c), b->expected[k])));
    if (i >= node->n_results || !want) continue;
    snprintf(label, sizeof label, "%s by eval_fast", b->expected[k]);
    conf_compare(b->c, label, results[i], want, json_object_get(json_object_get(b->c->json, "tolerance"), b->expected[k]));
  }
  conf_bind_release(node->n_results, results);
  return status;
}

static intact_status evaluate(conf_binding *b, const intact_node *node) {
  intact_tensor *results[CONF_MAX_OPERANDS] = {NULL};
  intact_status status = intact__eval_node(node, b->operands, false, results);
  if (status != INTACT_OK) return status;
  for (int i = 0; i < node->n_results; i++) conf_bind_check_inference(b, node->results[i], results[i]);
  status = share_results(b, node, results);
  if (status == INTACT_OK) status = run_gradient(b, node, results);
  if (status == INTACT_OK) status = check_fast(b, node);
  conf_bind_release(node->n_results, results);
  return status;
}

intact_status conf_handle_float_op(conf_case *c) {
  conf_binding b = {.c = c};
  b.op = intact__find_alias("aten", c->op, 0, &b.alias);
  if (!b.op) return conf_skip(c, c->op);
  conf_bind(&b);
  intact_graph *graph = NULL;
  intact_node *node = NULL;
  intact_status status = INTACT_OK;
  if (c->outcome->state != CONF_FAILED) {
    status = conf_bind_node(&b, &graph, &node);
    if (status == INTACT_OK && c->outcome->state != CONF_FAILED) status = evaluate(&b, node);
  }
  intact_graph_destroy(graph);
  conf_bind_release(b.n, b.made);
  return status;
}
