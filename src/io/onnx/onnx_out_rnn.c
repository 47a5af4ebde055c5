/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent nets in ONNX: one LSTM, GRU or RNN node per layer, weights of the directions joined, gates in ONNX's order. */
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

typedef struct rnn {
  intact_onnx_out *out;
  const intact_node *node;
  const char *op;
  int gates, directions, layers, first_param;
  bool biases, batch_first;
  int order[4]; /* ONNX's gate k is our order[k] */
  int64_t hidden;
} rnn;

static const intact_value *param(const rnn *r, int layer, int direction, int which) {
  int each = r->biases ? 4 : 2;
  return r->node->operands[r->first_param + (layer * r->directions + direction) * each + which];
}

/* The float32 numbers of a constant, also behind a dequantize node; NULL: no constant. */
static intact_status numbers_of(const intact_value *value, intact_tensor **tensor) {
  const intact_value *codes = intact__is_op(value->producer, "dequantize") ? value->producer->operands[0] : value;
  *tensor = NULL;
  if (codes->constant == NULL) return INTACT_OK;
  if (codes->qparams != NULL) return intact__dequantize_tensor(codes->constant, codes->qparams, tensor);
  return intact_tensor_share(codes->constant, codes->constant->rank, NULL, tensor);
}

static void copy_gates(const rnn *r, const intact_tensor *from, float *to) {
  size_t block = (size_t)(from->count / r->gates);
  for (int k = 0; k < r->gates; k++) {
    memcpy(to + (size_t)k * block, intact__f32(from) + (size_t)r->order[k] * block, block * sizeof *to);
  }
}

/* [directions, parts * gates * hidden, width?] of the parameters first..first+parts-1 of a layer as an initializer. */
static intact_status join(const rnn *r, int layer, int first, int parts, const char *suffix, const char **name) {
  intact_context *context = r->out->output->context;
  const intact_value *like = param(r, layer, 0, first);
  int64_t rows = r->gates * r->hidden, dims[3] = {r->directions, parts * rows, like->rank == 2 ? like->dims[1] : 0};
  intact_tensor *joined = NULL;
  INTACT_TRY(intact_tensor_create(context, INTACT_F32, like->rank + 1, dims, &joined));
  intact_status status = INTACT_OK;
  float *to = intact__f32(joined);
  for (int d = 0; d < r->directions && status == INTACT_OK; d++) {
    for (int p = 0; p < parts && status == INTACT_OK; p++) {
      intact_tensor *one = NULL;
      status = numbers_of(param(r, layer, d, first + p), &one);
      if (status != INTACT_OK) break;
      copy_gates(r, one, to);
      to += one->count;
      intact_tensor_destroy(one);
    }
  }
  if (status == INTACT_OK) status = intact__onnx_out_keep(r->out, r->node->name, suffix, joined, name);
  intact_tensor_destroy(joined);
  return status;
}

static bool can_write(const rnn *r) {
  for (int i = r->first_param; i < r->node->n_operands; i++) {
    const intact_value *value = r->node->operands[i];
    const intact_value *codes = value == NULL                                  ? NULL
                                : intact__is_op(value->producer, "dequantize") ? value->producer->operands[0]
                                                                               : value;
    if (codes == NULL || codes->constant == NULL) return false;
    if (codes->qparams == NULL && codes->dtype != INTACT_F32) return false;
  }
  return true;
}

/* A node whose output is result 0; the node's own name stays with the recurrent operator. */
static intact_status last_step(const rnn *r, const char *op, const char *x, const char *list) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(r->out, NULL, op, &made));
  INTACT_TRY(intact__onnx_out_input(r->out, made, x));
  INTACT_TRY(intact__onnx_out_input(r->out, made, list));
  return intact__onnx_out_result(r->out, made, r->node, 0);
}

static intact_status step(const rnn *r, const char *op, const char *x, const char *list, bool last, const char **result) {
  if (last) return last_step(r, op, x, list);
  return intact__onnx_out_step(r->out, r->node, op, x, list, "y", result);
}

static intact_status transpose(const rnn *r, const char *x, int n, const int64_t *perm, bool last, const char **result) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(r->out, NULL, "Transpose", &made));
  INTACT_TRY(intact__onnx_out_input(r->out, made, x));
  INTACT_TRY(intact__onnx_out_ints(r->out, made, "perm", n, perm));
  if (last) return intact__onnx_out_result(r->out, made, r->node, 0);
  *result = intact__onnx_out_fresh(r->out, r->node->name, "turned");
  if (*result == NULL) return intact__no_memory(r->out->output->context, 1);
  return intact__onnx_out_output(r->out, made, *result);
}

/* The state operand of a layer: its rows of [layers * directions, N, hidden]. */
static intact_status layer_state(const rnn *r, int layer, int operand, const char **name) {
  const intact_value *value = operand < r->node->n_operands ? r->node->operands[operand] : NULL;
  *name = "";
  if (value == NULL) return INTACT_OK;
  INTACT_TRY(intact__onnx_out_real(r->out, value, name));
  if (r->layers == 1) return INTACT_OK;
  const int64_t bounds[2] = {layer * r->directions, (layer + 1) * r->directions};
  Onnx__NodeProto *made = NULL;
  const char *begin = NULL, *end = NULL;
  static const int64_t axis[1] = {0};
  const char *axes = NULL;
  INTACT_TRY(intact__onnx_out_ints_constant(r->out, r->node->name, "from", 1, &bounds[0], &begin));
  INTACT_TRY(intact__onnx_out_ints_constant(r->out, r->node->name, "to", 1, &bounds[1], &end));
  INTACT_TRY(intact__onnx_out_ints_constant(r->out, r->node->name, "axis", 1, axis, &axes));
  INTACT_TRY(intact__onnx_out_node(r->out, NULL, "Slice", &made));
  INTACT_TRY(intact__onnx_out_input(r->out, made, *name));
  INTACT_TRY(intact__onnx_out_input(r->out, made, begin));
  INTACT_TRY(intact__onnx_out_input(r->out, made, end));
  INTACT_TRY(intact__onnx_out_input(r->out, made, axes));
  *name = intact__onnx_out_fresh(r->out, r->node->name, "state");
  if (*name == NULL) return intact__no_memory(r->out->output->context, 1);
  return intact__onnx_out_output(r->out, made, *name);
}

/* Whether the states of the one layer are the node's results as they are. */
static bool gives_states(const rnn *r, int i) {
  return r->layers == 1 && i < r->node->n_results && r->node->results[i]->qparams == NULL;
}

static intact_status state_name(const rnn *r, int i, const char **name) {
  if (gives_states(r, i)) return intact__onnx_out_name(r->out, r->node->results[i], name);
  *name = intact__onnx_out_fresh(r->out, r->node->name, i == 1 ? "Y_h" : "Y_c");
  return INTACT_OK;
}

/* One layer: x [T, N, width] to y [T, N, directions * hidden]; states[k] is the name of Y_h, Y_c. */
static intact_status write_layer(const rnn *r, int layer, const char *x, const char **y, const char **states) {
  intact_onnx_out *out = r->out;
  Onnx__NodeProto *made = NULL;
  const char *inputs[7] = {x, NULL, NULL, "", "", "", ""};
  bool lstm = r->gates == 4;
  INTACT_TRY(join(r, layer, 0, 1, "W", &inputs[1]));
  INTACT_TRY(join(r, layer, 1, 1, "R", &inputs[2]));
  if (r->biases) INTACT_TRY(join(r, layer, 2, 2, "B", &inputs[3]));
  INTACT_TRY(layer_state(r, layer, 1, &inputs[5]));
  if (lstm) INTACT_TRY(layer_state(r, layer, 2, &inputs[6]));
  INTACT_TRY(intact__onnx_out_node(out, r->layers == 1 ? r->node : NULL, r->op, &made));
  int n = 7;
  while (inputs[n - 1][0] == 0) n--;
  for (int i = 0; i < n; i++) INTACT_TRY(intact__onnx_out_input(out, made, inputs[i]));
  INTACT_TRY(intact__onnx_out_int(out, made, "hidden_size", r->hidden));
  if (r->directions == 2) INTACT_TRY(intact__onnx_out_string(out, made, "direction", "bidirectional"));
  if (r->gates == 3)
    INTACT_TRY(intact__onnx_out_int(out, made, "linear_before_reset", intact__attr_int(r->node, "reset_after") != 0));
  if (strcmp(r->node->op->name, "rnn_relu") == 0) {
    static const char *const relu[2] = {"Relu", "Relu"};
    INTACT_TRY(intact__onnx_out_strings(out, made, "activations", r->directions, relu));
  }
  const char *names[3] = {intact__onnx_out_fresh(out, r->node->name, "Y"), NULL, NULL};
  for (int i = 0; i < (lstm ? 3 : 2); i++) {
    if (i > 0) INTACT_TRY(state_name(r, i, &names[i]));
    if (names[i] == NULL) return intact__no_memory(out->output->context, 1);
    INTACT_TRY(intact__onnx_out_output(out, made, names[i]));
  }
  states[0] = names[1];
  states[1] = names[2];
  static const int64_t apart[4] = {0, 2, 1, 3}, flat[3] = {0, 0, -1}, one[1] = {1};
  const char *shape = NULL, *raw = NULL;
  bool last = layer == r->layers - 1 && !r->batch_first;
  if (r->directions == 1) {
    INTACT_TRY(intact__onnx_out_ints_constant(out, r->node->name, "one", 1, one, &shape));
    return step(r, "Squeeze", names[0], shape, last, y);
  }
  INTACT_TRY(transpose(r, names[0], 4, apart, false, &raw));
  INTACT_TRY(intact__onnx_out_ints_constant(out, r->node->name, "flat", 3, flat, &shape));
  return step(r, "Reshape", raw, shape, last, y);
}

/* States of all layers one after the other, as result i. */
static intact_status join_states(const rnn *r, int i, const char *const *names) {
  Onnx__NodeProto *made = NULL;
  if (i >= r->node->n_results || gives_states(r, i)) return INTACT_OK;
  INTACT_TRY(intact__onnx_out_node(r->out, NULL, r->layers == 1 ? "Identity" : "Concat", &made));
  for (int layer = 0; layer < r->layers; layer++) INTACT_TRY(intact__onnx_out_input(r->out, made, names[layer]));
  if (r->layers > 1) INTACT_TRY(intact__onnx_out_int(r->out, made, "axis", 0));
  return intact__onnx_out_result(r->out, made, r->node, i);
}

static intact_status write_rnn(intact_onnx_out *out, const intact_node *node) {
  static const int lstm[4] = {0, 3, 1, 2}, gru[4] = {1, 0, 2, 3}, plain[4] = {0, 1, 2, 3};
  bool is_lstm = strcmp(node->op->name, "lstm") == 0, is_gru = strcmp(node->op->name, "gru") == 0;
  rnn r = {.out = out, .node = node, .op = is_lstm ? "LSTM" : is_gru ? "GRU" : "RNN"};
  r.gates = is_lstm ? 4 : is_gru ? 3 : 1;
  r.first_param = is_lstm ? 3 : 2;
  r.layers = (int)intact__attr_int(node, "num_layers");
  r.directions = intact__attr_int(node, "bidirectional") ? 2 : 1;
  r.biases = intact__attr_int(node, "has_biases") != 0;
  r.batch_first = intact__attr_int(node, "batch_first") != 0;
  memcpy(r.order, is_lstm ? lstm : is_gru ? gru : plain, sizeof r.order);
  enum { MOST_LAYERS = 64 };
  if (!can_write(&r) || r.layers > MOST_LAYERS) return intact__onnx_out_refuse(out, node, "its weights are no constants");
  r.hidden = param(&r, 0, 0, 1)->dims[1];
  const char *x = NULL, *states[2][MOST_LAYERS];
  static const int64_t exchange[3] = {1, 0, 2};
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (r.batch_first) INTACT_TRY(transpose(&r, x, 3, exchange, false, &x));
  for (int layer = 0; layer < r.layers; layer++) {
    const char *both[2] = {NULL, NULL};
    INTACT_TRY(write_layer(&r, layer, x, &x, both));
    states[0][layer] = both[0];
    states[1][layer] = both[1];
  }
  if (r.batch_first) INTACT_TRY(transpose(&r, x, 3, exchange, true, &x));
  INTACT_TRY(join_states(&r, 1, states[0]));
  return is_lstm ? join_states(&r, 2, states[1]) : INTACT_OK;
}

const intact_onnx_out_row intact__onnx_out_recurrent[] = {
    {"gru", write_rnn}, {"lstm", write_rnn}, {"rnn_relu", write_rnn}, {"rnn_tanh", write_rnn}, {NULL, NULL},
};
