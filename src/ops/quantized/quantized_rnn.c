/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of recurrent networks with int8 weights and dynamic quantization: in a cell both products quantize their input by its
   own range; in a layer the input product does so once for the whole sequence, the hidden one at every step. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/quantized/quantized.h"
#include "ops/rnn.h"

/* quantized_linear on x and the node's operands w and b, to float. */
static intact_status product(const intact_call *call, const intact_tensor *x, int w, int b, intact_tensor **y) {
  intact_twin twin;
  intact_value result = {.name = "y", .rank = -1}, *results = &result;
  intact__twin_make(&twin, call->node, &intact_op_quantized_linear, 0);
  twin.values[0] = (intact_value){.name = "x", .dtype = x->dtype, .rank = x->rank};
  twin.operands[0] = &twin.values[0];
  twin.operands[1] = call->node->operands[w];
  twin.operands[2] = intact__operand(call, b) != NULL ? call->node->operands[b] : NULL;
  twin.node.n_operands = 3;
  twin.node.n_results = 1;
  twin.node.results = &results;
  const intact_tensor *operands[3] = {x, call->operands[w], intact__operand(call, b)};
  *y = NULL;
  return intact__twin_eval(call, &twin, 3, operands, y);
}

static float sigmoid(float v) {
  return 1.0f / (1.0f + expf(-v));
}

/* One step of one sample: input and hidden parts of the gates -> h, c in place. LSTM gates lie i f g o, GRU's r z n. */
static void step(intact_rnn_kind kind, int64_t hidden, const float *in, const float *hid, float *h, float *c) {
  for (int64_t j = 0; j < hidden; j++) {
    const float first = in[j] + hid[j];
    if (kind == INTACT_RNN_LSTM) {
      const float f = sigmoid(in[hidden + j] + hid[hidden + j]), g = tanhf(in[2 * hidden + j] + hid[2 * hidden + j]);
      const float o = sigmoid(in[3 * hidden + j] + hid[3 * hidden + j]);
      c[j] = f * c[j] + sigmoid(first) * g;
      h[j] = o * tanhf(c[j]);
    } else if (kind == INTACT_RNN_GRU) {
      const float z = sigmoid(in[hidden + j] + hid[hidden + j]);
      const float n = tanhf(in[2 * hidden + j] + sigmoid(first) * hid[2 * hidden + j]);
      h[j] = (h[j] - n) * z + n;
    } else {
      h[j] = kind == INTACT_RNN_TANH ? tanhf(first) : first > 0 ? first : 0;
    }
  }
}

static void steps(intact_rnn_kind kind, int gates, const float *in, const intact_tensor *hid, intact_tensor *h,
                  intact_tensor *c) {
  const int64_t hidden = h->dims[1];
  for (int64_t n = 0; n < h->dims[0]; n++) {
    float *cell = c != NULL ? intact__f32(c) + n * hidden : NULL;
    step(kind, hidden, in + n * gates * hidden, intact__f32(hid) + n * gates * hidden, intact__f32(h) + n * hidden, cell);
  }
}

#define RNN_ATTRS(reduce) INTACT_ENGINE_ATTR, INTACT_BOOL_ATTR("reduce_range", reduce)

/* ---- cells ---- */

static intact_rnn_kind cell_kind(const intact_node *node) {
  const char *name = node->op->name;
  if (strstr(name, "lstm") != NULL) return INTACT_RNN_LSTM;
  if (strstr(name, "gru") != NULL) return INTACT_RNN_GRU;
  return strstr(name, "tanh") != NULL ? INTACT_RNN_TANH : INTACT_RNN_RELU;
}

static int gates_of(intact_rnn_kind kind) {
  return kind == INTACT_RNN_LSTM ? 4 : kind == INTACT_RNN_GRU ? 3 : 1;
}

static intact_status check_cell(intact_infer *infer, int operand, int rank, int64_t rows, int64_t columns) {
  const intact_value *v = infer->node->operands[operand];
  int64_t agreed;
  char a[160];
  if (v == NULL || v->rank < 0) return INTACT_OK;
  if (v->rank == rank && intact__dims_agree(v->dims[0], rows, &agreed) &&
      (rank == 1 || intact__dims_agree(v->dims[1], columns, &agreed)))
    return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s '%s': %s is %s; it must be [%lld%s%lld]",
              infer->node->op->name, infer->node->name, infer->node->op->schema.operands[operand].name,
              intact__shape_text(v->rank, v->dims, a), (long long)rows, rank == 2 ? "," : "] or [",
              (long long)(rank == 2 ? columns : rows));
}

static intact_status infer_cell(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_rnn_kind kind = cell_kind(node);
  const int w = kind == INTACT_RNN_LSTM ? 3 : 2, gates = gates_of(kind);
  const intact_value *x = node->operands[0], *h = node->operands[1];
  intact_engine engine;
  INTACT_TRY(intact__engine_of(infer->context, node, &engine));
  for (int i = 0; i < node->n_operands; i++)
    if (i < w || i > w + 1) INTACT_TRY(intact__infer_float(infer, i));
  for (int i = w; i < w + 2; i++) INTACT_TRY(intact__infer_quantized(infer, i, false));
  if (x->rank < 0 || h->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  const int64_t hidden = h->rank == 2 ? h->dims[1] : -1, batch = x->dims[0], rows = hidden < 0 ? -1 : gates * hidden;
  INTACT_TRY(check_cell(infer, 0, 2, batch, x->rank == 2 ? x->dims[1] : -1));
  for (int i = 1; i < w; i++) INTACT_TRY(check_cell(infer, i, 2, batch, hidden));
  INTACT_TRY(check_cell(infer, w, 2, rows, x->dims[1]));
  INTACT_TRY(check_cell(infer, w + 1, 2, rows, hidden));
  for (int i = w + 2; i < node->n_operands; i++) INTACT_TRY(check_cell(infer, i, 1, rows, 0));
  for (int i = 0; i < node->n_results; i++) INTACT_TRY(intact__infer_result(infer, i, INTACT_F32, 2, h->dims));
  return INTACT_OK;
}

static intact_status eval_cell(const intact_call *call) {
  const intact_rnn_kind kind = cell_kind(call->node);
  const bool lstm = kind == INTACT_RNN_LSTM;
  const int w = lstm ? 3 : 2;
  intact_tensor *in = NULL, *hid = NULL, *h = NULL, *c = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, product(call, call->operands[0], w, w + 2, &in));
  INTACT_TRY_TO(done, product(call, call->operands[1], w + 1, w + 3, &hid));
  INTACT_TRY_TO(done, intact_tensor_copy(call->operands[1], &h));
  if (lstm) INTACT_TRY_TO(done, intact_tensor_copy(call->operands[2], &c));
  steps(kind, gates_of(kind), intact__f32(in), hid, h, c);
  status = intact__give_result(call, 0, INTACT_F32, h);
  h = NULL;
  if (status == INTACT_OK && lstm && call->n_results > 1) {
    status = intact__give_result(call, 1, INTACT_F32, c);
    c = NULL;
  }
done:
  intact_tensor_destroy(in);
  intact_tensor_destroy(hid);
  intact_tensor_destroy(h);
  intact_tensor_destroy(c);
  return status;
}

#define CELL_PARAMS                                                                                                \
  {"w_ih", INTACT_ROLE_WEIGHT, 0}, {"w_hh", INTACT_ROLE_WEIGHT, 0}, {"b_ih", INTACT_ROLE_NONE, INTACT_OPTIONAL}, { \
    "b_hh", INTACT_ROLE_NONE, INTACT_OPTIONAL                                                                      \
  }
#define ONE_STATE               \
  {"x", INTACT_ROLE_NONE, 0}, { \
    "h0", INTACT_ROLE_NONE, 0   \
  }
#define CELL_ROW(op, text, operands_, ...)                                                            \
  const intact_op intact_op_quantized_##op##_cell = {                                                 \
      .name = "quantized_" #op "_cell",                                                               \
      .doc = text " with int8 weights, input and state quantized by their own ranges.",               \
      .schema = {operands_, INTACT_RESULTS(__VA_ARGS__), INTACT_ATTRS(RNN_ATTRS(1))},                 \
      .infer = infer_cell,                                                                            \
      .eval_f32 = eval_cell,                                                                          \
      INTACT_QUANTIZED_TRAITS,                                                                        \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::quantized_" #op "_cell_dynamic", NULL)), \
  };
#define PLAIN_CELL INTACT_OPERANDS(ONE_STATE, CELL_PARAMS)
#define LSTM_CELL INTACT_OPERANDS(ONE_STATE, {"c0", INTACT_ROLE_NONE, 0}, CELL_PARAMS)
CELL_ROW(lstm, "LSTM cell", LSTM_CELL, "h", "c")
CELL_ROW(gru, "GRU cell", PLAIN_CELL, "h")
CELL_ROW(rnn_tanh, "Elman cell with tanh", PLAIN_CELL, "h")
CELL_ROW(rnn_relu, "Elman cell with relu", PLAIN_CELL, "h")

/* ---- layers ---- */

static const intact_op *float_row(const intact_node *node) {
  return strcmp(node->op->name, "quantized_lstm") == 0 ? &intact_op_lstm : &intact_op_gru;
}

static intact_status infer_layers(intact_infer *infer) {
  const intact_node *node = infer->node;
  const int first = float_row(node) == &intact_op_lstm ? 3 : 2;
  intact_engine engine;
  INTACT_TRY(intact__engine_of(infer->context, node, &engine));
  if (node->n_operands > INTACT_TWIN_OPERANDS)
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s '%s': %d operands; at most %d are supported", node->op->name,
                node->name, node->n_operands, (int)INTACT_TWIN_OPERANDS);
  INTACT_TRY(intact__twin_infer(infer, float_row(node), node->n_operands));
  for (int i = 0; i < node->n_operands; i++) {
    const bool weight = i >= first && (i - first) % 4 < 2;
    if (node->operands[i] == NULL) continue;
    INTACT_TRY(weight ? intact__infer_quantized(infer, i, false) : intact__infer_float(infer, i));
  }
  return INTACT_OK;
}

/* [a, b, c] -> [b, a, c] */
static intact_status swap_first(const intact_tensor *x, intact_tensor **y) {
  const int64_t a = x->dims[0], b = x->dims[1], c = x->dims[2];
  INTACT_TRY(intact__tensor_create_raw(x->context, INTACT_F32, 3, (const int64_t[]){b, a, c}, y));
  for (int64_t i = 0; i < a; i++)
    for (int64_t j = 0; j < b; j++)
      memcpy(intact__f32(*y) + (j * a + i) * c, intact__f32(x) + (i * b + j) * c, (size_t)c * sizeof(float));
  return INTACT_OK;
}

/* Slice `index` of a state [layers * directions, batch, hidden]. */
static float *state_at(const intact_tensor *state, int64_t index) {
  return intact__f32(state) + index * state->dims[1] * state->dims[2];
}

/* One direction of one layer; states[0] is hn, states[1] cn (NULL for gru), both hold the initial states at first. */
static intact_status run_direction(const intact_call *call, const intact_rnn *r, int64_t layer, int64_t direction,
                                   const intact_tensor *x, intact_tensor *const *states, intact_tensor *out) {
  const int64_t state[2] = {r->batch, r->hidden}, index = layer * r->directions + direction, size = r->batch * r->hidden;
  const int first = intact__rnn_param(r, layer, direction, 0);
  intact_tensor *in = NULL, *hid = NULL, *now[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  for (int k = 0; k < 2 && states[k] != NULL; k++) {
    INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, INTACT_F32, 2, state, &now[k]));
    memcpy(now[k]->data, state_at(states[k], index), (size_t)size * sizeof(float));
  }
  INTACT_TRY_TO(done, product(call, x, first, first + 2, &in));
  for (int64_t s = 0; s < r->steps; s++) {
    const int64_t t = direction == 1 ? r->steps - 1 - s : s;
    INTACT_TRY_TO(done, product(call, now[0], first + 1, first + 3, &hid));
    steps(r->kind, r->gates, intact__f32(in) + t * size * r->gates, hid, now[0], now[1]);
    intact_tensor_destroy(hid);
    hid = NULL;
    for (int64_t n = 0; n < r->batch; n++)
      memcpy(intact__f32(out) + ((t * r->batch + n) * r->directions + direction) * r->hidden,
             intact__f32(now[0]) + n * r->hidden, (size_t)r->hidden * sizeof(float));
  }
  for (int k = 0; k < 2 && states[k] != NULL; k++)
    memcpy(state_at(states[k], index), now[k]->data, (size_t)size * sizeof(float));
done:
  intact_tensor_destroy(in);
  intact_tensor_destroy(hid);
  intact_tensor_destroy(now[0]);
  intact_tensor_destroy(now[1]);
  return status;
}

/* Results in the order y, hn, cn; all are taken. */
static intact_status give_all(const intact_call *call, bool batch_first, intact_tensor *y, intact_tensor **states) {
  intact_status status = INTACT_OK;
  intact_tensor *given = y;
  if (batch_first) {
    status = swap_first(y, &given);
    intact_tensor_destroy(y);
  }
  if (status == INTACT_OK) status = intact__give_result(call, 0, INTACT_F32, given);
  for (int k = 0; k < 2 && status == INTACT_OK && states[k] != NULL && k + 1 < call->n_results; k++) {
    status = intact__give_result(call, k + 1, INTACT_F32, states[k]);
    states[k] = NULL;
  }
  return status;
}

static intact_status eval_layers(const intact_call *call) {
  intact_twin twin;
  intact_rnn r;
  intact__twin_make(&twin, call->node, float_row(call->node), call->n_operands);
  intact__rnn_shape(&twin.node, call->operands, &r);
  intact_tensor *x = NULL, *out = NULL, *states[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  for (int k = 1; k < r.first_param; k++) INTACT_TRY_TO(done, intact_tensor_copy(call->operands[k], &states[k - 1]));
  if (r.batch_first) {
    INTACT_TRY_TO(done, swap_first(call->operands[0], &x));
  } else {
    INTACT_TRY_TO(done, intact_tensor_share(call->operands[0], 0, NULL, &x));
  }
  for (int64_t layer = 0; layer < r.layers; layer++) {
    const int64_t dims[3] = {r.steps, r.batch, r.directions * r.hidden};
    INTACT_TRY_TO(done, intact__tensor_create_raw(call->context, INTACT_F32, 3, dims, &out));
    for (int64_t d = 0; d < r.directions; d++) INTACT_TRY_TO(done, run_direction(call, &r, layer, d, x, states, out));
    intact_tensor_destroy(x);
    x = out;
    out = NULL;
  }
  status = give_all(call, r.batch_first, x, states);
  x = NULL;
done:
  intact_tensor_destroy(x);
  intact_tensor_destroy(out);
  intact_tensor_destroy(states[0]);
  intact_tensor_destroy(states[1]);
  return status;
}

#define LAYERS_ROW(op, text, operands_, ...)                                                                          \
  const intact_op intact_op_quantized_##op = {                                                                        \
      .name = "quantized_" #op,                                                                                       \
      .doc = text                                                                                                     \
      " with int8 weights: the input product of a layer is quantized by the range of the whole sequence, the hidden " \
      "one by that of each step.",                                                                                    \
      .schema = {operands_, INTACT_RESULTS(__VA_ARGS__),                                                              \
                 INTACT_ATTRS(INTACT_INT_ATTR("num_layers", 1), INTACT_BOOL_ATTR("bidirectional", 0),                 \
                              INTACT_BOOL_ATTR("batch_first", 0), RNN_ATTRS(0))},                                     \
      .infer = infer_layers,                                                                                          \
      .eval_f32 = eval_layers,                                                                                        \
      INTACT_QUANTIZED_TRAITS,                                                                                        \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("aten::quantized_" #op, "hidden_size=")),                            \
  };
#define PARAMS \
  { "params", INTACT_ROLE_WEIGHT, INTACT_VARIADIC }
#define LSTM_LAYERS INTACT_OPERANDS(ONE_STATE, {"c0", INTACT_ROLE_NONE, 0}, PARAMS)
#define GRU_LAYERS INTACT_OPERANDS(ONE_STATE, PARAMS)
LAYERS_ROW(lstm, "LSTM", LSTM_LAYERS, "y", "hn", "cn")
LAYERS_ROW(gru, "GRU", GRU_LAYERS, "y", "hn")
