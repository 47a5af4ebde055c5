/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of qat_training share. */
#include "conformance/qat_lab.h"

#include <stdio.h>
#include <string.h>

#include "graph/pass.h"
#include "graph/text_form.h"
#include "ops/ops.h"
#include "quant/batch_norm_fold.h"

/* ---- networks ---- */

void qat_net_create(conf_case *c, const intact_tensor *x, qat_net *net) {
  int64_t dims[INTACT_MAX_RANK];
  *net = (qat_net){.c = c};
  net->status = intact__graph_create(c->context, c->name, &net->graph);
  if (net->status != INTACT_OK) return;
  memcpy(dims, x->dims, sizeof dims);
  dims[0] = intact__graph_symbol(net->graph, "N");
  net->status = intact__graph_add_input(net->graph, "x", INTACT_F32, x->rank, dims, &net->value);
}

intact_value *qat_net_constant(qat_net *net, const char *prefix, const char *name) {
  const intact_tensor *tensor = conf_input(net->c, "%s%s", prefix, name);
  intact_tensor *copy;
  intact_value *value = NULL;
  if (!tensor || net->status != INTACT_OK) return NULL;
  net->status = intact_tensor_copy(tensor, &copy);
  if (net->status == INTACT_OK) net->status = intact__graph_add_constant(net->graph, name, copy, NULL, &value);
  return value;
}

static intact_node *add_node(qat_net *net, const char *op, const char *name, const char *attributes, int n, intact_value *const *operands) {
  intact_node *node = NULL;
  if (net->status != INTACT_OK) return NULL;
  net->status = intact__graph_add_node(net->graph, intact__find_op(op), name, n, operands, 1, NULL, NULL, &node);
  if (net->status == INTACT_OK) net->status = intact__node_read_attributes(node, attributes ? attributes : "");
  if (net->status == INTACT_OK) net->status = intact__node_infer(node);
  if (net->status == INTACT_OK) net->value = node->results[0];
  return node;
}

static intact_value *layer_constant(qat_net *net, const char *layer, const char *part) {
  char name[100];
  snprintf(name, sizeof name, "%s%s%s", layer, *layer ? "." : "", part);
  return qat_net_constant(net, "init.", name);
}

intact_node *qat_net_layer(qat_net *net, const char *op, const char *name, const char *attributes) {
  intact_value *const operands[3] = {net->value, layer_constant(net, name, "weight"), layer_constant(net, name, "bias")};
  return add_node(net, op, *name ? name : "layer", attributes, operands[2] ? 3 : 2, operands);
}

/* Running statistics that the case does not give start at 0 and 1. */
static intact_value *statistic(qat_net *net, const char *layer, const char *part, float start) {
  char name[100];
  intact_tensor *tensor;
  intact_value *value = layer_constant(net, layer, part);
  const int64_t n = net->value->dims[1];
  if (value || net->status != INTACT_OK) return value;
  snprintf(name, sizeof name, "%s%s%s", layer, *layer ? "." : "", part);
  net->status = intact_tensor_create(net->c->context, INTACT_F32, 1, &n, &tensor);
  if (net->status != INTACT_OK) return NULL;
  for (int64_t i = 0; i < n; i++) intact__f32(tensor)[i] = start;
  net->status = intact__graph_add_constant(net->graph, name, tensor, NULL, &value);
  return value;
}

void qat_net_norm(qat_net *net, const char *name, const char *attributes) {
  char node[100];
  snprintf(node, sizeof node, "%s%sbn", name, *name ? "." : "");
  intact_value *const operands[5] = {net->value, layer_constant(net, name, "bn.weight"), layer_constant(net, name, "bn.bias"),
                                     statistic(net, name, "bn.running_mean", 0), statistic(net, name, "bn.running_var", 1)};
  add_node(net, "batch_norm", node, attributes, 5, operands);
}

void qat_net_unary(qat_net *net, const char *op, const char *name, const char *attributes) {
  intact_value *const operands[1] = {net->value};
  add_node(net, op, name, attributes, 1, operands);
}

/* ---- wishes ---- */

intact_wish qat_wish(const conf_case *c, const char *name, intact_dtype dtype) {
  const json_t *attr = conf_attr(c, name);
  intact_wish wish = {.kind = INTACT_WISH_OWN, .spec = {.dtype = dtype, .axis = -1, .legacy_dtype = true}};
  wish.spec.quant_min = conf_json_int(json_object_get(attr, "quant_min"), 0);
  wish.spec.quant_max = conf_json_int(json_object_get(attr, "quant_max"), 0);
  const char *scheme = json_string_value(json_object_get(attr, "qscheme"));
  intact_qscheme_from_text(scheme ? scheme : "", &wish.spec.scheme);
  if (wish.spec.scheme == INTACT_PER_CHANNEL_SYMMETRIC || wish.spec.scheme == INTACT_PER_CHANNEL_AFFINE)
    wish.spec.axis = (int)conf_json_int(json_object_get(attr, "ch_axis"), 0);
  return wish;
}

void qat_net_wish(qat_net *net, const char *name, int operand, const intact_wish *wish) {
  if (net->status != INTACT_OK) return;
  intact_node *node = intact__graph_find_node(net->graph, name);
  intact_annotation *annotation = node ? intact__node_annotate(node, "case") : NULL;
  if (!annotation)
    net->status = INTACT_INTERNAL;
  else if (operand >= 0)
    annotation->operands[operand] = *wish;
  else
    annotation->results[0] = *wish;
}

void qat_fake_text(const conf_case *c, const char *name, char *text, size_t size) {
  const json_t *attr = conf_attr(c, name);
  const char *fake = json_string_value(json_object_get(attr, "fake_quant"));
  if (!fake) fake = conf_attr_text(c, "fake_quant", "_LearnableFakeQuantize");
  snprintf(text, size, "%s:averaging_constant=%.9g", fake, conf_json_f64(json_object_get(attr, "averaging_constant"), 0.01));
}

void qat_net_prepare(qat_net *net, qat_annotate_fn annotate, const char *activation, const char *weight) {
  if (net->status != INTACT_OK) return;
  intact_fake_plan plan = {0};
  intact_norm_memories memories = {.context = net->c->context};
  intact_note_list notes;
  intact__notes_init(&notes, net->c->context);
  intact_status status = intact__graph_set_outputs(net->graph, 1, &net->value);
  if (status == INTACT_OK) status = intact__fake_quantizer_parse(net->c->context, activation, &plan.activation, &plan.activation_options);
  if (status == INTACT_OK) status = intact__fake_quantizer_parse(net->c->context, weight, &plan.weight, &plan.weight_options);
  if (status == INTACT_OK) status = intact__remember_norms(net->graph, &memories);
  if (status == INTACT_OK) status = intact__run_passes(net->graph, INTACT_STAGE_FLOAT, INTACT_STAGE_FLOAT);
  if (status == INTACT_OK) annotate(net);
  if (status == INTACT_OK) status = net->status;
  if (status == INTACT_OK) status = intact__prepare_for_training(net->graph, &plan, &notes);
  if (status == INTACT_OK) status = intact__unfold_norms(net->graph, &memories, true);
  if (status == INTACT_OK) status = intact_graph_verify(net->graph);
  intact__notes_fini(&notes);
  intact__forget_norms(&memories);
  net->status = status;
}

intact_observation *qat_observation(const qat_net *net, const char *name, int operand) {
  const intact_node *node = intact__graph_find_node(net->graph, name);
  if (!node) return NULL;
  if (operand >= 0) {
    const intact_node *producer = node->operands[operand]->producer;
    return producer ? producer->observation : NULL;
  }
  for (const intact_use *use = node->results[0]->uses; use; use = use->next) {
    if (use->node->observation) return use->node->observation;
    if (intact__is_op(use->node, "folded_batch_norm")) return qat_observation(net, use->node->name, -1);
  }
  return NULL;
}

/* ---- the tape ---- */

intact_status qat_variable(const intact_tensor *tensor, bool requires_grad, intact_variable **variable) {
  intact_tensor *copy;
  INTACT_TRY(intact_tensor_copy(tensor, &copy));
  const intact_status status = intact_variable_create(copy, requires_grad, variable);
  intact_tensor_destroy(copy);
  return status;
}

intact_status qat_call(intact_context *context, const char *op, const char *attributes, intact_variable *a, intact_variable *b,
                       intact_variable **result) {
  intact_variable *const operands[2] = {a, b}, *before = *result;
  INTACT_TRY(intact_variable_call(context, op, attributes, b ? 2 : 1, operands, 1, result));
  intact_variable_release(before);
  return INTACT_OK;
}

intact_variable *qat_parameter(intact_trainable *trainable, const char *name) {
  for (int i = 0; i < intact_trainable_count(trainable); i++)
    if (strcmp(intact_trainable_name(trainable, i), name) == 0) return intact_trainable_parameter(trainable, i);
  return NULL;
}

/* ---- results ---- */

intact_status qat_series_put(conf_case *c, qat_series *series, const char *name, int64_t steps, int64_t step, const intact_tensor *row) {
  const int64_t dims[2] = {steps, row->count};
  series->name = name;
  if (!series->tensor) INTACT_TRY(intact_tensor_create(c->context, row->dtype, row->rank > 0 ? 2 : 1, dims, &series->tensor));
  for (int64_t i = 0; i < row->count; i++)
    intact__tensor_set_f64(series->tensor, step * row->count + i, intact__tensor_get_f64(row, i));
  if (step + 1 < steps) return INTACT_OK;
  intact_tensor *done = series->tensor;
  series->tensor = NULL;
  if (conf_expects(c, "%s", name)) return conf_result(c, done, "%s", name);
  intact_tensor_destroy(done);
  return INTACT_OK;
}

intact_status qat_give_copy(conf_case *c, const intact_tensor *tensor, const char *name) {
  intact_tensor *copy;
  if (!tensor || !conf_expects(c, "%s", name)) return INTACT_OK;
  INTACT_TRY(intact_tensor_copy(tensor, &copy));
  return conf_result(c, copy, "%s", name);
}
