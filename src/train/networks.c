/* SPDX-License-Identifier: Apache-2.0 */
/* The networks, layer by layer; layers are named as in the state dicts of the reference models. */
#include <stdio.h>
#include <string.h>

#include "intact/train.h"
#include "train/network.h"

typedef intact_net net;
typedef intact_value value;

static value *conv_bn(net *n, value *x, const char *conv, const char *norm, int64_t out, int64_t kernel, int64_t stride,
                      int64_t groups) {
  return intact__net_batch_norm(n, intact__net_conv(n, x, conv, out, kernel, stride, groups, false), norm);
}

static const char *part(char *buffer, size_t size, const char *block, const char *layer) {
  snprintf(buffer, size, "%s.%s", block, layer);
  return buffer;
}

/* ---- mlp ---- */
static value *build_mlp(net *n, value *x) {
  x = intact__net_flatten(n, x);
  x = intact__net_unary(n, intact__net_linear(n, x, "fc1", 64), "relu");
  x = intact__net_unary(n, intact__net_linear(n, x, "fc2", 32), "relu");
  return intact__net_linear(n, x, "fc3", 10);
}
const intact_network_row intact__network_mlp = {"mlp", "three linear layers: 784, 64, 32, 10", build_mlp};

/* ---- cnn ---- */
static value *build_cnn(net *n, value *x) {
  static const int64_t channels[3] = {24, 48, 96};
  for (int i = 0; i < 3; i++) {
    const char conv[] = {'c', 'o', 'n', 'v', (char)('1' + i), 0}, norm[] = {'b', 'n', (char)('1' + i), 0};
    x = intact__net_unary(n, conv_bn(n, x, conv, norm, channels[i], 3, 1, 1), "relu");
    x = intact__net_max_pool(n, x, 2);
  }
  return intact__net_linear(n, intact__net_flatten(n, x), "fc", 10);
}
const intact_network_row intact__network_cnn = {"cnn", "three convolutions with batch norm, relu, max pooling, a linear layer",
                                                build_cnn};

/* ---- resnet8 ---- */
static value *residual(net *n, value *x, const char *block, int64_t out, int64_t stride) {
  char conv[32], norm[32];
  if (!x) return NULL;
  value *y = conv_bn(n, x, part(conv, sizeof conv, block, "conv1"), part(norm, sizeof norm, block, "bn1"), out, 3, stride, 1);
  y = intact__net_unary(n, y, "relu");
  y = conv_bn(n, y, part(conv, sizeof conv, block, "conv2"), part(norm, sizeof norm, block, "bn2"), out, 3, 1, 1);
  value *shortcut = x;
  if (stride != 1 || x->dims[1] != out) {
    shortcut = conv_bn(n, x, part(conv, sizeof conv, block, "down.0"), part(norm, sizeof norm, block, "down.1"), out, 1, stride, 1);
  }
  return intact__net_unary(n, intact__net_binary(n, y, shortcut, "add"), "relu");
}

static value *build_resnet8(net *n, value *x) {
  x = intact__net_unary(n, conv_bn(n, x, "conv", "bn", 16, 3, 1, 1), "relu");
  x = residual(n, x, "b1", 16, 1);
  x = residual(n, x, "b2", 32, 2);
  x = residual(n, x, "b3", 64, 2);
  return intact__net_linear(n, intact__net_mean(n, x, false), "fc", 10);
}
const intact_network_row intact__network_resnet8 = {"resnet8", "a stem and three residual blocks of 16, 32 and 64 channels",
                                                    build_resnet8};

/* ---- mobilenet ---- */
/* x times a gate per channel, computed from the channels' means. */
static value *squeeze_excite(net *n, value *x, const char *block, int64_t squeezed) {
  char name[32];
  if (!x) return NULL;
  value *gate = intact__net_mean(n, x, true);
  gate = intact__net_conv(n, gate, part(name, sizeof name, block, "se.fc1"), squeezed, 1, 1, 1, true);
  gate = intact__net_conv(n, intact__net_unary(n, gate, "relu"), part(name, sizeof name, block, "se.fc2"), x->dims[1], 1, 1, 1, true);
  return intact__net_binary(n, x, intact__net_unary(n, gate, "hardsigmoid"), "mul");
}

static value *inverted(net *n, value *x, const char *block, int64_t wide, int64_t out, int64_t stride, const char *activation,
                       bool squeeze) {
  char conv[32], norm[32];
  if (!x) return NULL;
  value *y = conv_bn(n, x, part(conv, sizeof conv, block, "pw"), part(norm, sizeof norm, block, "bn1"), wide, 1, 1, 1);
  y = intact__net_unary(n, y, activation);
  y = conv_bn(n, y, part(conv, sizeof conv, block, "dw"), part(norm, sizeof norm, block, "bn2"), wide, 3, stride, wide);
  y = intact__net_unary(n, y, activation);
  if (squeeze) y = squeeze_excite(n, y, block, wide / 4);
  y = conv_bn(n, y, part(conv, sizeof conv, block, "pwl"), part(norm, sizeof norm, block, "bn3"), out, 1, 1, 1);
  return stride == 1 && x->dims[1] == out ? intact__net_binary(n, x, y, "add") : y;
}

static value *build_mobilenet(net *n, value *x) {
  x = intact__net_unary(n, conv_bn(n, x, "conv", "bn", 16, 3, 2, 1), "hardswish");
  x = intact__net_unary(n, conv_bn(n, x, "dw", "bn1", 16, 3, 1, 16), "relu6");
  x = conv_bn(n, x, "pw", "bn2", 24, 1, 1, 1);
  x = inverted(n, x, "b1", 72, 32, 2, "relu", false);
  x = inverted(n, x, "b2", 96, 32, 1, "relu", false);
  x = inverted(n, x, "b3", 96, 48, 2, "hardswish", true);
  x = inverted(n, x, "b4", 144, 48, 1, "relu6", false);
  x = intact__net_unary(n, conv_bn(n, x, "head", "bn3", 128, 1, 1, 1), "hardswish");
  return intact__net_linear(n, intact__net_mean(n, x, false), "fc", 10);
}
const intact_network_row intact__network_mobilenet = {
    "mobilenet", "depthwise separable and inverted residual blocks with relu, relu6, hardswish and squeeze-excite", build_mobilenet};

/* ---- the table ---- */
const intact_network_row *const intact__networks[] = {
#define INTACT_NETWORK(name) &intact__network_##name,
#include "train/networks.def"
#undef INTACT_NETWORK
};
const int intact__n_networks = sizeof intact__networks / sizeof *intact__networks;

static intact_status build(intact_net *n, const intact_network_row *row) {
  const int64_t dims[4] = {intact__graph_symbol(n->graph, "N"), 1, 28, 28};
  value *x;
  INTACT_TRY(intact__graph_add_input(n->graph, "x", INTACT_F32, 4, dims, &x));
  value *y = row->build(n, x);
  INTACT_TRY(n->status);
  INTACT_TRY(intact__graph_set_outputs(n->graph, 1, &y));
  return intact_graph_verify(n->graph);
}

intact_status intact_network_create(intact_context *context, const char *name, intact_generator *generator, intact_graph **graph) {
  char names[200] = "";
  for (int i = 0; i < intact__n_networks; i++) {
    if (strcmp(intact__networks[i]->name, name) == 0) {
      intact_net n = {.context = context, .generator = generator};
      INTACT_TRY(intact__graph_create(context, name, &n.graph));
      const intact_status status = build(&n, intact__networks[i]);
      if (status != INTACT_OK) {
        intact_graph_destroy(n.graph);
        return status;
      }
      *graph = n.graph;
      return INTACT_OK;
    }
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", intact__networks[i]->name);
  }
  INTACT_FAIL(context, WRONG_USE, name, "there is no network '%s' to train from scratch; there are:%s", name, names);
}
