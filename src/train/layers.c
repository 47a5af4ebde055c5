/* SPDX-License-Identifier: Apache-2.0 */
/* Layers with fresh parameters. */
#include <stdio.h>

#include "intact/init.h"
#include "train/network.h"

static bool is_stopped(const intact_net *net) { return net->status != INTACT_OK; }

/* A new constant called "<layer>.<part>"; NULL after a failure. */
static intact_value *constant(intact_net *net, const char *layer, const char *part, int rank, const int64_t *dims) {
  char name[100];
  intact_tensor *tensor;
  intact_value *value = NULL;
  if (is_stopped(net)) return NULL;
  snprintf(name, sizeof name, "%s.%s", layer, part);
  net->status = intact_tensor_create(net->context, INTACT_F32, rank, dims, &tensor);
  if (!is_stopped(net)) net->status = intact__graph_add_constant(net->graph, name, tensor, NULL, &value);
  return value;
}

static intact_node *add_node(intact_net *net, const char *op, const char *name, int n, intact_value *const *operands) {
  intact_node *node = NULL;
  if (is_stopped(net)) return NULL;
  const char *fresh = intact__graph_fresh_name(net->graph, name);
  if (!fresh) net->status = intact__no_memory(net->context, 0);
  if (!is_stopped(net)) {
    net->status = intact__graph_add_node(net->graph, intact__find_op(op), fresh, n, operands, 1, &fresh, NULL, &node);
  }
  if (!is_stopped(net)) net->status = intact__node_add_source(node, fresh);
  return is_stopped(net) ? NULL : node;
}

static void set_pair(intact_net *net, intact_node *node, const char *name, int64_t value) {
  const int64_t pair[2] = {value, value};
  if (!is_stopped(net)) net->status = intact__attr_set_ints(node, name, 2, pair);
}

static intact_value *finish(intact_net *net, intact_node *node) {
  if (!is_stopped(net)) net->status = intact__node_infer(node);
  return is_stopped(net) ? NULL : node->results[0];
}

intact_value *intact__net_conv(intact_net *net, intact_value *x, const char *name, int64_t out, int64_t kernel, int64_t stride,
                               int64_t groups, bool bias) {
  if (is_stopped(net)) return NULL;
  const int64_t dims[4] = {out, x->dims[1] / groups, kernel, kernel};
  intact_value *weight = constant(net, name, "weight", 4, dims), *b = bias ? constant(net, name, "bias", 1, &out) : NULL;
  if (!is_stopped(net)) net->status = intact_init_linear(net->generator, weight->constant, b ? b->constant : NULL);
  intact_value *const operands[3] = {x, weight, b};
  intact_node *node = add_node(net, "conv2d", name, 3, operands);
  set_pair(net, node, "stride", stride);
  set_pair(net, node, "padding", kernel / 2);
  if (!is_stopped(net)) intact__attr_set_int(node, "groups", groups);
  return finish(net, node);
}

intact_value *intact__net_batch_norm(intact_net *net, intact_value *x, const char *name) {
  if (is_stopped(net)) return NULL;
  intact_value *weight = constant(net, name, "weight", 1, &x->dims[1]), *bias = constant(net, name, "bias", 1, &x->dims[1]);
  intact_value *mean = constant(net, name, "running_mean", 1, &x->dims[1]);
  intact_value *var = constant(net, name, "running_var", 1, &x->dims[1]);
  if (!is_stopped(net)) net->status = intact_init_norm(weight->constant, bias->constant);
  if (!is_stopped(net)) net->status = intact_init_constant(var->constant, 1);
  intact_value *const operands[5] = {x, weight, bias, mean, var};
  return finish(net, add_node(net, "batch_norm", name, 5, operands));
}

intact_value *intact__net_linear(intact_net *net, intact_value *x, const char *name, int64_t out) {
  if (is_stopped(net)) return NULL;
  const int64_t dims[2] = {out, x->dims[x->rank - 1]};
  intact_value *weight = constant(net, name, "weight", 2, dims), *bias = constant(net, name, "bias", 1, &out);
  if (!is_stopped(net)) net->status = intact_init_linear(net->generator, weight->constant, bias->constant);
  intact_value *const operands[3] = {x, weight, bias};
  return finish(net, add_node(net, "linear", name, 3, operands));
}

intact_value *intact__net_max_pool(intact_net *net, intact_value *x, int64_t size) {
  intact_node *node = add_node(net, "max_pool2d", "pool", 1, &x);
  set_pair(net, node, "kernel_size", size);
  set_pair(net, node, "stride", size);
  return finish(net, node);
}

intact_value *intact__net_mean(intact_net *net, intact_value *x, bool keep) {
  const int64_t plane[2] = {2, 3};
  intact_node *node = add_node(net, "mean", "mean", 1, &x);
  if (!is_stopped(net)) net->status = intact__attr_set_ints(node, "dim", 2, plane);
  if (!is_stopped(net)) intact__attr_set_int(node, "keepdim", keep);
  return finish(net, node);
}

intact_value *intact__net_flatten(intact_net *net, intact_value *x) {
  intact_node *node = add_node(net, "flatten", "flatten", 1, &x);
  if (!is_stopped(net)) intact__attr_set_int(node, "start_dim", 1);
  return finish(net, node);
}

intact_value *intact__net_unary(intact_net *net, intact_value *x, const char *op) {
  return finish(net, add_node(net, op, op, 1, &x));
}

intact_value *intact__net_binary(intact_net *net, intact_value *a, intact_value *b, const char *op) {
  intact_value *const operands[2] = {a, b};
  return finish(net, add_node(net, op, op, 2, operands));
}
