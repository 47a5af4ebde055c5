/* SPDX-License-Identifier: Apache-2.0 */
/* A case of an operator suite bound to a row: which input or attribute is which operand or attribute of the row. */
#ifndef INTACT_TESTS_CONFORMANCE_BIND_H
#define INTACT_TESTS_CONFORMANCE_BIND_H

#include "conformance/conformance.h"
#include "graph/graph.h"

enum { CONF_MAX_OPERANDS = 64 };

typedef struct conf_binding {
  conf_case *c;
  const intact_op *op;
  const intact_alias *alias;
  /* Names that belong to other inputs (x_scale, w_scales ...) or to the result; NULL: none. */
  bool (*passes)(const conf_case *c, const char *name);
  int n; /* operands */
  const intact_tensor *operands[CONF_MAX_OPERANDS];
  const char *inputs[CONF_MAX_OPERANDS];            /* the case's name of operand i; NULL: not one of its inputs */
  const intact_qparams *qparams[CONF_MAX_OPERANDS]; /* NULL: plain */
  intact_tensor *made[CONF_MAX_OPERANDS];           /* operands made from attributes, owned here */
  int n_expected;                                   /* results, without gradients */
  const char *expected[CONF_MAX_OPERANDS];
} conf_binding;

/* Fills operands and expected results; b->c, op and alias are set. What fits nowhere fails the case. */
void conf_bind(conf_binding *b);
/* A graph of one node, attributes set, inferred. */
intact_status conf_bind_node(conf_binding *b, intact_graph **graph, intact_node **node);
/* Index of the row's result that the case calls its k-th. */
int conf_bind_result(const conf_binding *b, int k);
/* What inference says of a result must hold of the result. */
void conf_bind_check_inference(conf_binding *b, const intact_value *value, const intact_tensor *tensor);
/* Item foreign=ours of the alias: our name of a foreign attribute; NULL: not listed, "": to be ignored. */
const char *conf_bind_renamed(const intact_alias *alias, const char *name, char *buffer, size_t size);
/* The case's expectations: "expect", else those of the first engine. */
const json_t *conf_bind_expect(const conf_case *c);
void conf_bind_release(int n, intact_tensor **tensors);

#endif
