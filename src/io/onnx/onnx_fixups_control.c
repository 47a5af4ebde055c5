/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of If, Loop and Scan: bodies see their own inputs only, so what they read of the graph around becomes operands. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

static intact_status body_of(intact_onnx_node *node, const char *name, const Onnx__GraphProto **graph) {
  const Onnx__AttributeProto *attr = intact__onnx_attribute(node, name);
  if (attr == NULL || attr->g == NULL) {
    INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): it has no graph '%s'", node->name,
                node->op, name);
  }
  *graph = attr->g;
  return INTACT_OK;
}

/* The node with operands `first`, then the captured values. */
static intact_status make_node(intact_onnx_node *node, int n_first, intact_value *const *first, int n_captured,
                               const char *const *captured) {
  intact_value **operands =
      intact__arena_alloc(&node->import->file->arena, (size_t)(n_first + n_captured) + 1, sizeof *operands);
  if (operands == NULL) return intact__no_memory(node->context, (size_t)n_first * sizeof *operands);
  for (int i = 0; i < n_first; i++) operands[i] = first[i];
  for (int i = 0; i < n_captured; i++) {
    INTACT_TRY(intact__onnx_scope_value(node->scope, captured[i], node->name, &operands[n_first + i]));
  }
  return intact__onnx_make(node, n_first + n_captured, operands);
}

static intact_status add_body(intact_onnx_node *node, const char *name, const Onnx__GraphProto *proto,
                              intact_value *const *inputs, int n_captured, const char *const *captured) {
  intact_graph *body = NULL;
  INTACT_TRY(intact__node_add_body(node->made, name, &body));
  return intact__onnx_import_body(node, proto, body, inputs, n_captured, captured);
}

static intact_status if_bodies(intact_onnx_node *node) {
  const Onnx__GraphProto *graphs[2];
  INTACT_TRY(body_of(node, "then_branch", &graphs[0]));
  INTACT_TRY(body_of(node, "else_branch", &graphs[1]));
  int n;
  const char *const *captured = NULL;
  INTACT_TRY(intact__onnx_captures(node, 2, graphs, &n, &captured));
  intact_value *condition = intact__onnx_input(node, 0);
  INTACT_TRY(make_node(node, 1, &condition, n, captured));
  INTACT_TRY(add_body(node, "then", graphs[0], NULL, n, captured));
  return add_body(node, "else", graphs[1], NULL, n, captured);
}

/* What a body's input looks like before anything is known of later rounds: type and rank (less `fewer` axes) of an operand.
 */
static intact_status any_size(intact_onnx_node *node, const intact_value *operand, int fewer, intact_value **like) {
  intact_value *made = intact__arena_alloc(&node->import->file->arena, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(node->context, sizeof *made);
  made->name = operand->name;
  made->dtype = operand->qparams != NULL ? operand->qparams->dtype : operand->dtype;
  made->rank = operand->rank < fewer ? -1 : operand->rank - fewer;
  for (int d = 0; d < made->rank; d++) {
    made->dims[d] = intact__graph_symbol(node->graph, NULL);
    if (made->dims[d] == 0) return intact__no_memory(node->context, 1);
  }
  *like = made;
  return INTACT_OK;
}

static intact_status check_inputs(intact_onnx_node *node, const Onnx__GraphProto *body, int n) {
  if (body->n_input == (size_t)n) return INTACT_OK;
  INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
              "cannot read node '%s' (%s): its body has %zu inputs, the node gives %d", node->name, node->op, body->n_input,
              n);
}

static intact_status loop_body(intact_onnx_node *node) {
  const Onnx__GraphProto *graph;
  INTACT_TRY(body_of(node, "body", &graph));
  int n_captured, n = node->n_inputs < 2 ? 2 : node->n_inputs;
  const char *const *captured = NULL;
  INTACT_TRY(check_inputs(node, graph, n));
  INTACT_TRY(intact__onnx_captures(node, 1, &graph, &n_captured, &captured));
  intact_value **operands = intact__arena_alloc(&node->import->file->arena, 2 * (size_t)n, sizeof *operands);
  if (operands == NULL) return intact__no_memory(node->context, 2 * (size_t)n * sizeof *operands);
  intact_value **likes = operands + n;
  intact_value number = {.name = node->name, .dtype = INTACT_S64}, truth = {.name = node->name, .dtype = INTACT_BOOL};
  likes[0] = &number;
  likes[1] = &truth;
  for (int i = 0; i < n; i++) {
    operands[i] = intact__onnx_input(node, i);
    if (i >= 2 && operands[i] == NULL) {
      INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): a carried value is left out",
                  node->name, node->op);
    }
    if (i >= 2) INTACT_TRY(any_size(node, operands[i], 0, &likes[i]));
  }
  INTACT_TRY(make_node(node, n, operands, n_captured, captured));
  intact__attr_set_int(node->made, "carried", n - 2);
  return add_body(node, "body", graph, likes, n_captured, captured);
}

static intact_status scan_body(intact_onnx_node *node) {
  if (node->version < 9) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s': Scan before opset 9 is not supported",
                node->name);
  }
  const Onnx__GraphProto *graph;
  int64_t scanned;
  int n_captured, n = node->n_inputs;
  const char *const *captured = NULL;
  INTACT_TRY(body_of(node, "body", &graph));
  INTACT_TRY(intact__onnx_attr_int(node, "num_scan_inputs", 0, &scanned));
  INTACT_TRY(check_inputs(node, graph, n));
  if (scanned < 1 || scanned > n) {
    INTACT_FAIL(node->context, OUT_OF_RANGE, node->name,
                "cannot read node '%s' (Scan): num_scan_inputs is %lld of %d inputs", node->name, (long long)scanned, n);
  }
  INTACT_TRY(intact__onnx_captures(node, 1, &graph, &n_captured, &captured));
  intact_value **likes = intact__arena_alloc(&node->import->file->arena, (size_t)n, sizeof *likes);
  if (likes == NULL) return intact__no_memory(node->context, (size_t)n * sizeof *likes);
  for (int i = 0; i < n; i++) {
    if (node->inputs[i] == NULL) {
      INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (Scan): an input is left out",
                  node->name);
    }
    INTACT_TRY(any_size(node, node->inputs[i], i >= n - (int)scanned, &likes[i]));
  }
  INTACT_TRY(make_node(node, n, node->inputs, n_captured, captured));
  intact__attr_set_int(node->made, "states", n - scanned);
  return add_body(node, "body", graph, likes, n_captured, captured);
}

const intact_onnx_fixup intact__onnx_fixups_control[] = {
    INTACT_ONNX_FIXUP(if_bodies),
    INTACT_ONNX_FIXUP(loop_body),
    INTACT_ONNX_FIXUP(scan_body),
    INTACT_ONNX_FIXUPS_END,
};
