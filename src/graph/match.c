/* SPDX-License-Identifier: Apache-2.0 */
/* Recognising chains of nodes. A pattern is links joined by "->":
     link     := ops marks? "?"?
     ops      := name ("|" name)*
     marks    := "(" mark ("," mark)* ")"     ? anything or nothing, ! a constant, q a value with qparams, _ left out
   e.g. "conv1d|conv2d(?, !) -> batch_norm? -> relu". */
#include <assert.h>
#include <string.h>

#include "graph/graph.h"

intact_node *intact__value_single_user(const intact_value *value) {
  return value->n_uses == 1 && !value->is_output ? value->uses->node : NULL;
}

bool intact__is_op(const intact_node *node, const char *op_name) {
  return node != NULL && strcmp(node->op->name, op_name) == 0;
}

static const char *skip_spaces(const char *at) {
  while (*at == ' ') at++;
  return at;
}

static bool mark_fits(char mark, const intact_value *operand) {
  switch (mark) {
    case '?':
      return true;
    case '!':
      return operand != NULL && operand->constant != NULL;
    case 'q':
      return operand != NULL && operand->qparams != NULL;
    case '_':
      return operand == NULL;
    default:
      assert(!"a mark is one of ? ! q _");
      return false;
  }
}

/* Reads one link at *pattern and moves behind it; tells whether `node` (may be NULL) fits and whether the link is optional. */
static bool link_fits(const char **pattern, const intact_node *node, bool *optional) {
  const char *at = skip_spaces(*pattern);
  bool fits = false;
  for (;;) {
    const size_t length = strcspn(at, "|(? -");
    assert(length > 0);
    fits = fits || (node != NULL && strlen(node->op->name) == length && strncmp(node->op->name, at, length) == 0);
    at += length;
    if (*at != '|') break;
    at++;
  }
  if (*at == '(') {
    at++;
    for (int i = 0;; i++) {
      at = skip_spaces(at);
      fits = fits && mark_fits(*at, i < node->n_operands ? node->operands[i] : NULL);
      at = skip_spaces(at + 1);
      if (*at++ == ')') break;
      assert(at[-1] == ',');
    }
  }
  *optional = *at == '?';
  *pattern = skip_spaces(at + *optional);
  return fits;
}

int intact__match(intact_node *first, const char *pattern, intact_node **nodes, int capacity) {
  intact_node *node = first;
  for (int n = 0;; n++) {
    assert(n < capacity);
    bool optional = false;
    const bool fits = link_fits(&pattern, node, &optional);
    if (!fits && !optional) return 0;
    nodes[n] = fits ? node : NULL;
    if (fits) {
      node = intact__value_single_user(nodes[n]->results[0]);
      if (node != NULL && node->operands[0] != nodes[n]->results[0]) node = NULL;
    }
    if (*pattern == 0) return n + 1;
    assert(strncmp(pattern, "->", 2) == 0);
    pattern += 2;
  }
}
