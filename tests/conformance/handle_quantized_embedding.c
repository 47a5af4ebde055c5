/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of the embedding cases of quantized_ops that give a real table with scales and zero points: the table is quantized
   by row, packed, and looked up. */
#include <string.h>

#include "conformance/bind.h"
#include "ops/quantized/quantized.h"

enum { MAX_ROWS = 256 };

/* A node of the row behind `name` on these values, attribute bits set. */
static intact_status add(intact_graph *graph, const char *name, int64_t bits, int n, intact_value *const *operands,
                         intact_node **node) {
  const intact_alias *alias;
  const intact_op *op = intact__find_quantized(name, &alias);
  intact_status status = intact__graph_add_node(graph, op, name, n, operands, 1, NULL, NULL, node);
  if (status == INTACT_OK) intact__attr_set_int(*node, "bits", bits);
  return status;
}

/* The table's integers as a constant with real zero points. */
static intact_status quantize_table(conf_case *c, intact_graph *graph, intact_dtype dtype, intact_value **table) {
  const intact_tensor *w = conf_input(c, "w_values"), *scales = conf_input(c, "w_scales"),
                      *zeros = conf_input(c, "w_zero_points");
  const char *const names[3] = {"w", "scales", "zero_points"};
  const intact_tensor *const given[3] = {w, scales, zeros};
  intact_value *values[3];
  intact_node *node;
  intact_tensor *q[1] = {NULL};
  float scale[MAX_ROWS], zero[MAX_ROWS];
  int32_t none[MAX_ROWS] = {0};
  if (!w || !scales || !zeros || scales->count > MAX_ROWS)
    return conf_fail(c, "expected a table with scales and zero points");
  for (int i = 0; i < 3; i++) {
    intact_status status =
        intact__graph_add_input(graph, names[i], given[i]->dtype, given[i]->rank, given[i]->dims, &values[i]);
    if (status != INTACT_OK) return status;
  }
  intact_status status =
      intact__graph_add_node(graph, intact__find_op("quantize_per_channel"), "quantize", 3, values, 1, NULL, NULL, &node);
  if (status != INTACT_OK) return status;
  intact__attr_set_int(node, "axis", 0);
  intact__attr_set_int(node, "dtype", dtype);
  status = intact__node_infer(node);
  if (status == INTACT_OK) status = intact__eval_node(node, given, false, q);
  if (status != INTACT_OK) return status;
  for (int64_t i = 0; i < scales->count; i++) {
    scale[i] = (float)intact__tensor_get_f64(scales, i);
    zero[i] = (float)intact__tensor_get_f64(zeros, i);
  }
  const intact_qparams qparams = {.scheme = INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS,
                                  .dtype = dtype,
                                  .quant_max = intact_dtype_max(dtype),
                                  .n = scales->count,
                                  .scale = scale,
                                  .zero_point = none,
                                  .real_zero_point = zero};
  return intact__graph_add_constant(graph, "table", q[0], &qparams, table);
}

static intact_status look_up(conf_case *c, intact_graph *graph) {
  static const char *const names[] = {"indices", "offsets", "per_sample_weights"};
  const int64_t bits = conf_attr_int(c, "bits", 8);
  const bool bag = strstr(c->op, "bag") != NULL;
  intact_value *table, *operands[4] = {NULL};
  const intact_tensor *inputs[4] = {NULL};
  intact_tensor *packed[1] = {NULL}, *y[1] = {NULL};
  intact_node *node;
  int n = 2;
  intact_status status = quantize_table(c, graph, bits == 4 ? INTACT_U4 : INTACT_U8, &table);
  if (status != INTACT_OK || c->outcome->state == CONF_FAILED) return status;
  status = add(graph, "quantized::embedding_bag_byte_prepack", bits, 1, &table, &node);
  if (status == INTACT_OK) status = intact__node_infer(node);
  const intact_tensor *constant = table->constant;
  if (status == INTACT_OK) status = intact__eval_node(node, &constant, false, packed);
  if (status != INTACT_OK) return status;
  operands[0] = node->results[0];
  inputs[0] = packed[0];
  for (int i = 0; i < (bag ? 3 : 1) && status == INTACT_OK; i++) {
    const intact_tensor *x = inputs[i + 1] = conf_input(c, "%s", names[i]);
    if (!x) continue;
    n = i + 2;
    status = intact__graph_add_input(graph, names[i], x->dtype, x->rank, x->dims, &operands[i + 1]);
  }
  if (status == INTACT_OK) status = add(graph, c->op, bits, n, operands, &node);
  if (status == INTACT_OK && bag) {
    intact__attr_set_int(node, "mode", conf_attr_int(c, "mode", 0));
    intact__attr_set_int(node, "include_last_offset", conf_attr_bool(c, "include_last_offset", false));
  }
  if (status == INTACT_OK) status = intact__node_infer(node);
  if (status == INTACT_OK) status = intact__eval_node(node, inputs, false, y);
  intact_tensor_destroy(packed[0]);
  return status == INTACT_OK ? conf_result(c, y[0], "y") : status;
}

intact_status conf_handle_quantized_embedding(conf_case *c) {
  intact_graph *graph = NULL;
  intact_status status = intact__graph_create(c->context, c->name, &graph);
  if (status == INTACT_OK) status = look_up(c, graph);
  intact_graph_destroy(graph);
  return status;
}
