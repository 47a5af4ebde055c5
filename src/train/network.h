/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of networks, and the layers that they are built of. */
#ifndef INTACT_TRAIN_NETWORK_H
#define INTACT_TRAIN_NETWORK_H

#include "graph/graph.h"
#include "intact/random.h"

/* A network being built. After a failure every layer does nothing and gives NULL; the builder looks at `status` once. */
typedef struct intact_net {
  intact_context *context;
  intact_graph *graph;
  intact_generator *generator; /* parameters get PyTorch's default initial values, in the order of the layers */
  intact_status status;
} intact_net;

typedef struct intact_network_row {
  const char *name, *doc;
  /* From the input to the logits. */
  intact_value *(*build)(intact_net *net, intact_value *x);
} intact_network_row;

#define INTACT_NETWORK(name) extern const intact_network_row intact__network_##name;
#include "train/networks.def"
#undef INTACT_NETWORK

extern const intact_network_row *const intact__networks[];
extern const int intact__n_networks;

/* Layers: parameters are constants "<name>.weight" and so on. Padding keeps the size (before the stride). */
intact_value *intact__net_conv(intact_net *net, intact_value *x, const char *name, int64_t out, int64_t kernel, int64_t stride,
                               int64_t groups, bool bias);
intact_value *intact__net_batch_norm(intact_net *net, intact_value *x, const char *name);
intact_value *intact__net_linear(intact_net *net, intact_value *x, const char *name, int64_t out);
intact_value *intact__net_max_pool(intact_net *net, intact_value *x, int64_t size);
intact_value *intact__net_mean(intact_net *net, intact_value *x, bool keep); /* over height and width */
intact_value *intact__net_flatten(intact_net *net, intact_value *x);
intact_value *intact__net_unary(intact_net *net, intact_value *x, const char *op); /* an op row without attributes */
intact_value *intact__net_binary(intact_net *net, intact_value *a, intact_value *b, const char *op);

#endif
