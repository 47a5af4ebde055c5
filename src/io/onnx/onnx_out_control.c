/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop and Scan in ONNX: the inputs of a body that stand for outer values become their names again. */
#include <string.h>

#include "io/onnx/onnx_export.h"

/* Body `index` as graph attribute `name`; its first n_own inputs are inputs of the written graph, input n_own + i is operand
   first + i of the node. */
static intact_status write_body(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, int index,
                                const char *name, int n_own, int first) {
  Onnx__GraphProto *proto = intact__arena_alloc(&out->output->arena, 1, sizeof *proto);
  if (proto == NULL) return intact__no_memory(out->output->context, sizeof *proto);
  onnx__graph_proto__init(proto);
  intact_onnx_out inner = {
      .output = out->output, .outer = out, .graph = node->bodies[index], .proto = proto, .n_own = n_own};
  proto->name = intact__arena_strdup(&out->output->arena, name);
  intact_status status = proto->name == NULL ? intact__no_memory(out->output->context, 1) : intact__onnx_out_begin(&inner);
  for (int i = n_own; i < inner.graph->n_inputs && status == INTACT_OK; i++) {
    status = intact__onnx_out_real(out, node->operands[first + i - n_own], &inner.names[inner.graph->inputs[i]->id]);
  }
  if (status == INTACT_OK) status = intact__onnx_out_graph(&inner);
  return status == INTACT_OK ? intact__onnx_out_graph_attribute(out, made, name, proto) : status;
}

static intact_status add_results(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node) {
  for (int i = 0; i < node->n_results; i++) INTACT_TRY(intact__onnx_out_result(out, made, node, i));
  return INTACT_OK;
}

static intact_status write_if(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "If", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(write_body(out, made, node, 0, "then_branch", 0, 1));
  INTACT_TRY(write_body(out, made, node, 1, "else_branch", 0, 1));
  return add_results(out, made, node);
}

static intact_status write_loop(intact_onnx_out *out, const intact_node *node) {
  int n = 2 + (int)intact__attr_int(node, "carried");
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Loop", &made));
  for (int i = 0; i < n; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  INTACT_TRY(write_body(out, made, node, 0, "body", n, n));
  return add_results(out, made, node);
}

static intact_status write_scan(intact_onnx_out *out, const intact_node *node) {
  static const char *const lists[][2] = {{"input_axes", "scan_input_axes"},
                                         {"output_axes", "scan_output_axes"},
                                         {"input_directions", "scan_input_directions"},
                                         {"output_directions", "scan_output_directions"}};
  int64_t scanned = intact__attr_int(node, "scanned");
  int n = (int)(intact__attr_int(node, "states") + scanned);
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Scan", &made));
  for (int i = 0; i < n; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  INTACT_TRY(write_body(out, made, node, 0, "body", n, n));
  INTACT_TRY(intact__onnx_out_int(out, made, "num_scan_inputs", scanned));
  for (int i = 0; i < INTACT_COUNT_OF(lists); i++) {
    const intact_attr *list = intact__attr(node, lists[i][0]);
    if (list->present) INTACT_TRY(intact__onnx_out_ints(out, made, lists[i][1], list->n, list->ints));
  }
  return add_results(out, made, node);
}

const intact_onnx_out_row intact__onnx_out_control[] = {
    {"if", write_if},
    {"loop", write_loop},
    {"scan", write_scan},
    {NULL, NULL},
};
