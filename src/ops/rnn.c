/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of recurrent networks: lstm, gru, rnn_tanh, rnn_relu; layers and directions as in PyTorch. */
#include "ops/rnn.h"

#include <string.h>

#include "ops/fast.h"
#include "ops/ops.h"

static intact_rnn_kind kind_of(const intact_op *op) {
  if (op == &intact_op_lstm) return INTACT_RNN_LSTM;
  if (op == &intact_op_gru) return INTACT_RNN_GRU;
  return op == &intact_op_rnn_tanh ? INTACT_RNN_TANH : INTACT_RNN_RELU;
}

/* What the attributes alone say. */
static void read_attributes(const intact_node *node, intact_rnn *rnn) {
  rnn->kind = kind_of(node->op);
  rnn->gates = rnn->kind == INTACT_RNN_LSTM ? 4 : rnn->kind == INTACT_RNN_GRU ? 3 : 1;
  rnn->layers = intact__attr_int(node, "num_layers");
  rnn->directions = intact__attr_int(node, "bidirectional") != 0 ? 2 : 1;
  rnn->batch_first = intact__attr_int(node, "batch_first") != 0;
  rnn->reset_after = rnn->kind != INTACT_RNN_GRU || intact__attr_int(node, "reset_after") != 0;
  rnn->first_param = rnn->kind == INTACT_RNN_LSTM ? 3 : 2;
  /* Two tensors for each layer and direction are the weights alone. */
  const bool weights_alone = rnn->layers <= node->n_operands && rnn->layers >= 0 &&
                             node->n_operands - rnn->first_param == 2 * rnn->layers * rnn->directions;
  rnn->biases = intact__attr_int(node, "has_biases") != 0 && !weights_alone;
}

int intact__rnn_param(const intact_rnn *rnn, int64_t layer, int64_t direction, int which) {
  int each = rnn->biases ? 4 : 2;
  return rnn->first_param + (int)(layer * rnn->directions + direction) * each + which;
}

void intact__rnn_shape(const intact_node *node, const intact_tensor *const *operands, intact_rnn *rnn) {
  read_attributes(node, rnn);
  const intact_tensor *x = operands[0];
  rnn->steps = x->dims[rnn->batch_first ? 1 : 0];
  rnn->batch = x->dims[rnn->batch_first ? 0 : 1];
  rnn->features = x->dims[2];
  rnn->hidden = operands[rnn->first_param + 1]->dims[1];
}

/* ---- inference ---- */

static intact_status check_shape(intact_infer *infer, int operand, const char *name, int rank, const int64_t *want) {
  const intact_value *v = infer->node->operands[operand];
  if (v == NULL || v->rank < 0) return INTACT_OK;
  bool fits = v->rank == rank;
  int64_t agreed;
  for (int d = 0; fits && d < rank; d++) fits = intact__dims_agree(v->dims[d], want[d], &agreed);
  if (fits) return INTACT_OK;
  char a[160], b[160];
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s: %s (%s) is %s; it must be %s", infer->node->op->name,
              name, v->name, intact__shape_text(v->rank, v->dims, a), intact__shape_text(rank, want, b));
}

static intact_status check_params(intact_infer *infer, const intact_rnn *rnn) {
  static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  int64_t rows = rnn->hidden < 0 ? -1 : rnn->gates * rnn->hidden;
  for (int64_t layer = 0; layer < rnn->layers; layer++) {
    int64_t width = layer == 0 ? rnn->features : rnn->hidden < 0 ? -1 : rnn->directions * rnn->hidden;
    const int64_t shapes[4][2] = {{rows, width}, {rows, rnn->hidden}, {rows}, {rows}};
    for (int64_t d = 0; d < rnn->directions; d++) {
      for (int which = 0; which < (rnn->biases ? 4 : 2); which++) {
        int operand = intact__rnn_param(rnn, layer, d, which);
        if (infer->node->operands[operand] == NULL) {
          INTACT_FAIL(infer->context, WRONG_USE, infer->node->name, "%s: %s of layer %lld is left out",
                      infer->node->op->name, names[which], (long long)layer);
        }
        INTACT_TRY(check_shape(infer, operand, names[which], which < 2 ? 2 : 1, shapes[which]));
      }
    }
  }
  return INTACT_OK;
}

static intact_status infer_rnn(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  intact_rnn r;
  read_attributes(node, &r);
  INTACT_TRY(intact__infer_floats(infer));
  int64_t params = (node->n_operands - r.first_param), each = r.biases ? 4 : 2;
  if (r.layers < 1 || r.layers > 10000 || params != r.layers * r.directions * each) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s: %lld parameter tensors for %lld layers in %lld directions; there must be %lld for each", node->op->name,
                (long long)params, (long long)r.layers, (long long)r.directions, (long long)each);
  }
  const int64_t any[3] = {-1, -1, -1};
  INTACT_TRY(check_shape(infer, 0, "x", 3, any));
  const intact_value *w_hh = node->operands[r.first_param + 1];
  if (x->rank < 0 || w_hh == NULL || w_hh->rank != 2 || w_hh->dims[1] < 0) {
    if (x->rank >= 0 && (w_hh == NULL || w_hh->rank >= 0)) {
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: weight_hh must be a matrix of known size", node->op->name);
    }
    for (int i = 0; i < node->n_results; i++) intact__layer_result(infer, i, INTACT_F32, -1, NULL);
    return INTACT_OK;
  }
  r.hidden = w_hh->dims[1];
  r.features = x->dims[2];
  INTACT_TRY(check_params(infer, &r));
  const int64_t state[3] = {r.layers * r.directions, x->dims[r.batch_first ? 0 : 1], r.hidden};
  for (int i = 1; i < r.first_param; i++) INTACT_TRY(check_shape(infer, i, i == 1 ? "h0" : "c0", 3, state));
  intact__layer_result(infer, 0, INTACT_F32, 3, (const int64_t[]){x->dims[0], x->dims[1], r.directions * r.hidden});
  intact__layer_result(infer, 1, INTACT_F32, 3, state);
  intact__layer_result(infer, 2, INTACT_F32, 3, state);
  return INTACT_OK;
}

/* ---- evaluation ---- */

/* All arrays of a run. outs[l] is the input of layer l, outs[layers] the result; grads the same for their gradients. */
typedef struct work {
  intact_context *context;
  intact_rnn r;
  bool keep;
  int64_t tape_size;      /* of one direction of one layer */
  double **outs, **grads; /* layers + 1 each */
  double *tape;           /* all layers and directions with keep, else one */
  double *h0, *c0;        /* [layers * directions, batch, hidden] */
} work;

static void work_free(work *w) {
  for (int64_t l = 0; w->outs != NULL && l < 2 * (w->r.layers + 1); l++) intact__free(w->context, w->outs[l]);
  intact__free(w->context, w->outs);
  intact__free(w->context, w->tape);
  intact__free(w->context, w->h0);
  w->outs = NULL;
}

static double *zeros(work *w, int64_t a, int64_t b) {
  return intact__alloc_zeroed(w->context, (size_t)(a * b) + 1, sizeof(double));
}

static int64_t cells(const intact_rnn *r) {
  return r->layers * r->directions * r->batch * r->hidden;
}

static intact_status work_alloc(work *w, bool keep) {
  const intact_rnn *r = &w->r;
  w->keep = keep;
  w->tape_size = (keep ? r->steps : 1) * r->batch * (r->gates + 1) * r->hidden;
  w->tape = w->h0 = NULL;
  w->outs = intact__alloc_zeroed(w->context, 2 * (size_t)(r->layers + 1), sizeof(double *));
  bool fine = w->outs != NULL;
  w->grads = fine ? w->outs + r->layers + 1 : NULL;
  for (int64_t l = 0; fine && l <= r->layers; l++) {
    int64_t width = intact__rnn_width(r, l);
    w->outs[l] = zeros(w, r->steps * r->batch, width);
    if (keep) w->grads[l] = zeros(w, r->steps * r->batch, width);
    fine = w->outs[l] != NULL && (!keep || w->grads[l] != NULL);
  }
  if (fine) w->tape = zeros(w, w->tape_size, keep ? r->layers * r->directions : 1);
  if (fine) w->h0 = zeros(w, cells(r), 2);
  if (fine && w->tape != NULL && w->h0 != NULL) {
    w->c0 = w->h0 + cells(r);
    return INTACT_OK;
  }
  work_free(w);
  return intact__no_memory(w->context, (size_t)w->tape_size * sizeof(double));
}

/* [steps, batch, width] in double from the tensor's order, or (store) back. */
static void move_sequence(const intact_rnn *r, int64_t width, double *wide, float *values, bool store) {
  for (int64_t t = 0; t < r->steps; t++) {
    for (int64_t n = 0; n < r->batch; n++) {
      float *line = values + (r->batch_first ? n * r->steps + t : t * r->batch + n) * width;
      double *to = wide + (t * r->batch + n) * width;
      for (int64_t i = 0; i < width; i++) {
        if (store) {
          line[i] = (float)to[i];
        } else {
          to[i] = line[i];
        }
      }
    }
  }
}

static void widen(const intact_tensor *from, double *to) {
  for (int64_t i = 0; from != NULL && i < from->count; i++) to[i] = intact__f32(from)[i];
}

static const float *param(const work *w, const intact_tensor *const *operands, int64_t layer, int64_t direction, int which) {
  if (which >= 2 && !w->r.biases) return NULL;
  return intact__f32(operands[intact__rnn_param(&w->r, layer, direction, which)]);
}

static intact_rnn_pass pass_of(const work *w, const intact_tensor *const *operands, int64_t layer, int64_t direction) {
  const intact_rnn *r = &w->r;
  int64_t number = layer * r->directions + direction, state = number * r->batch * r->hidden;
  return (intact_rnn_pass){.rnn = r,
                           .width = intact__rnn_width(r, layer),
                           .column = direction * r->hidden,
                           .reverse = direction == 1,
                           .keep = w->keep,
                           .in = w->outs[layer],
                           .out = w->outs[layer + 1],
                           .tape = w->tape + (w->keep ? number * w->tape_size : 0),
                           .w_ih = param(w, operands, layer, direction, 0),
                           .w_hh = param(w, operands, layer, direction, 1),
                           .b_ih = param(w, operands, layer, direction, 2),
                           .b_hh = param(w, operands, layer, direction, 3),
                           .h0 = w->h0 + state,
                           .c0 = w->c0 + state};
}

/* Runs all layers; hn and cn (NULL: not wanted) take the last states. */
static void run_layers(work *w, const intact_tensor *const *operands, float *hn, float *cn) {
  const intact_rnn *r = &w->r;
  for (int64_t layer = 0; layer < r->layers; layer++) {
    for (int64_t d = 0; d < r->directions; d++) {
      intact_rnn_pass p = pass_of(w, operands, layer, d);
      intact__rnn_forward(w->context, &p);
      int64_t last = d == 1 ? 0 : r->steps - 1, state = (layer * r->directions + d) * r->batch * r->hidden;
      for (int64_t i = 0; i < r->batch * r->hidden; i++) {
        int64_t n = i / r->hidden, j = i % r->hidden;
        int64_t note = ((w->keep ? last : 0) * r->batch + n) * (r->gates + 1) * r->hidden + r->gates * r->hidden + j;
        if (r->steps == 0) {
          if (hn != NULL) hn[state + i] = (float)p.h0[i];
          if (cn != NULL) cn[state + i] = (float)p.c0[i];
          continue;
        }
        if (hn != NULL) hn[state + i] = (float)p.out[(last * r->batch + n) * r->directions * r->hidden + p.column + j];
        if (cn != NULL) cn[state + i] = (float)p.tape[note];
      }
    }
  }
}

static void fill_inputs(work *w, const intact_tensor *const *operands) {
  move_sequence(&w->r, w->r.features, w->outs[0], intact__f32(operands[0]), false);
  widen(operands[1], w->h0);
  if (w->r.kind == INTACT_RNN_LSTM) widen(operands[2], w->c0);
}

static intact_status eval_rnn(const intact_call *call) {
  intact_tensor *y[3] = {NULL, NULL, NULL};
  INTACT_TRY(intact__call_begin(call, y));
  work w = {.context = call->context};
  intact__rnn_shape(call->node, call->operands, &w.r);
  INTACT_TRY(work_alloc(&w, false));
  fill_inputs(&w, call->operands);
  run_layers(&w, call->operands, intact__f32(y[1]), y[2] != NULL ? intact__f32(y[2]) : NULL);
  move_sequence(&w.r, w.r.directions * w.r.hidden, w.outs[w.r.layers], intact__f32(y[0]), true);
  work_free(&w);
  return INTACT_OK;
}

/* ---- gradient ---- */

/* Gradients of one layer's and direction's parameters, in double, then stored. */
static intact_status back_params(intact_grad *grad, work *w, int64_t layer, int64_t d, double *d_h, double *d_c) {
  const intact_rnn *r = &w->r;
  intact_rnn_pass p = pass_of(w, grad->operands, layer, d);
  int64_t rows = r->gates * r->hidden;
  const int64_t sizes[4] = {rows * p.width, rows * r->hidden, rows, rows};
  double *sums = zeros(w, sizes[0] + sizes[1] + 2 * rows + 9 * r->hidden, 1);
  if (sums == NULL) return intact__no_memory(w->context, (size_t)(sizes[0] + sizes[1]) * sizeof(double));
  double *const parts[4] = {sums, sums + sizes[0], sums + sizes[0] + sizes[1], sums + sizes[0] + sizes[1] + rows};
  p.d_out = w->grads[layer + 1];
  p.d_in = w->grads[layer];
  p.d_h = d_h;
  p.d_c = d_c;
  p.d_w_ih = parts[0];
  p.d_w_hh = parts[1];
  p.d_b_ih = parts[2];
  p.d_b_hh = parts[3];
  intact__rnn_backward(&p, parts[3] + rows);
  intact_status status = INTACT_OK;
  for (int which = 0; which < (r->biases ? 4 : 2) && status == INTACT_OK; which++) {
    int operand = intact__rnn_param(r, layer, d, which);
    intact_tensor *result;
    if (!intact__wants(grad, operand)) continue;
    status = intact__grad_operand(grad, operand, &result);
    for (int64_t i = 0; status == INTACT_OK && i < sizes[which]; i++) intact__f32(result)[i] = (float)parts[which][i];
  }
  intact__free(w->context, sums);
  return status;
}

static intact_status store_state(intact_grad *grad, int operand, const double *values) {
  if (!intact__wants(grad, operand)) return INTACT_OK;
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, operand, &d));
  for (int64_t i = 0; i < d->count; i++) intact__f32(d)[i] = (float)values[i];
  return INTACT_OK;
}

static intact_status back_layers(intact_grad *grad, work *w, double *d_h, double *d_c) {
  const intact_rnn *r = &w->r;
  for (int64_t layer = r->layers - 1; layer >= 0; layer--) {
    for (int64_t d = 0; d < r->directions; d++) {
      int64_t state = (layer * r->directions + d) * r->batch * r->hidden;
      INTACT_TRY(back_params(grad, w, layer, d, d_h + state, d_c + state));
    }
  }
  if (intact__wants(grad, 0)) {
    intact_tensor *dx;
    INTACT_TRY(intact__grad_operand(grad, 0, &dx));
    move_sequence(r, r->features, w->grads[0], intact__f32(dx), true);
  }
  INTACT_TRY(store_state(grad, 1, d_h));
  return r->kind == INTACT_RNN_LSTM ? store_state(grad, 2, d_c) : INTACT_OK;
}

static intact_status grad_rnn(intact_grad *grad) {
  work w = {.context = grad->context};
  intact__rnn_shape(grad->node, grad->operands, &w.r);
  INTACT_TRY(work_alloc(&w, true));
  fill_inputs(&w, grad->operands);
  run_layers(&w, grad->operands, NULL, NULL);
  intact_status status = INTACT_OK;
  double *d_h = zeros(&w, cells(&w.r), 2), *d_c = d_h + cells(&w.r);
  if (d_h == NULL) {
    status = intact__no_memory(w.context, 2 * (size_t)cells(&w.r) * sizeof(double));
  } else {
    const intact_tensor *dy = grad->d_results[0];
    if (dy != NULL) move_sequence(&w.r, w.r.directions * w.r.hidden, w.grads[w.r.layers], intact__f32(dy), false);
    widen(grad->d_results[1], d_h);
    if (grad->n_results > 2) widen(grad->d_results[2], d_c);
    status = back_layers(grad, &w, d_h, d_c);
  }
  intact__free(w.context, d_h);
  work_free(&w);
  return status;
}

static int64_t macs_rnn(const intact_node *node) {
  const intact_value *x = node->operands[0];
  int64_t weights = 0;
  if (x->rank != 3) return 0;
  for (int i = 2; i < node->n_operands; i++) {
    const intact_value *v = node->operands[i];
    if (v != NULL && v->rank == 2) weights += intact__known_product(v->dims, 0, 2);
  }
  return intact__known_product(x->dims, 0, 2) * weights;
}

/* ---- rows ---- */

/* params: for each layer and direction weight_ih [gates * hidden, width], weight_hh [gates * hidden, hidden] and, with
   has_biases, bias_ih, bias_hh [gates * hidden]. States are [layers * directions, batch, hidden]. onnx fix-up rnn: W, R, B
   are cut per direction and their gates put in PyTorch's order (lstm i f g o of ONNX's i o f c, gru r z n of z r h); Y [T,
   directions, N, hidden] is y reshaped and permuted; direction reverse alone flips x and y; layout 1 permutes;
   linear_before_reset is reset_after; sequence_lens, P, clip, input_forget and other activations than the default are
   refused (Relu in both directions: rnn_relu). */
#define RNN_ATTRS(...)                                                                                               \
  INTACT_ATTRS(INTACT_BOOL_ATTR("has_biases", 1), INTACT_INT_ATTR("num_layers", 1), INTACT_FLOAT_ATTR("dropout", 0), \
               INTACT_BOOL_ATTR("train", 0), INTACT_BOOL_ATTR("bidirectional", 0),                                   \
               INTACT_BOOL_ATTR("batch_first", 0) __VA_ARGS__)
#define NO_MORE
#define RESET_AFTER , INTACT_BOOL_ATTR("reset_after", 1)
#define H0 \
  { "h0", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL }
#define C0 \
  { "c0", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL }
#define H0_C0 H0, C0

#define ONNX_ALIAS(alias) {"onnx", alias, 0, 0, NULL, "rnn"},
#define NO_ALIAS

#define RNN_ROW(op, text, states, results_list, more, fast, onnx)                                                          \
  const intact_op intact_op_##op = {                                                                                       \
      .name = #op,                                                                                                         \
      .doc = text,                                                                                                         \
      .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, states, {"params", INTACT_ROLE_NONE, INTACT_VARIADIC}), \
                 results_list, RNN_ATTRS(more)},                                                                           \
      .infer = infer_rnn,                                                                                                  \
      .eval_f32 = eval_rnn,                                                                                                \
      .eval_fast = fast,                                                                                                   \
      .grad = grad_rnn,                                                                                                    \
      .quant = {.result = INTACT_RESULT_OWN},                                                                              \
      .int_layout = INTACT_INT_ROWS,                                                                                       \
      .macs = macs_rnn,                                                                                                    \
      .aliases = (const intact_alias[]){{"aten", "aten::" #op, 0, 0, "hidden_size=", NULL},                                \
                                        {"aten", "aten::" #op ".input", 0, 0, NULL, NULL},                                 \
                                        onnx{0}},                                                                          \
  };

RNN_ROW(lstm, "Long short-term memory; gates i f g o: c = f c + i g, h = o tanh(c).", H0_C0, INTACT_RESULTS("y", "hn", "cn"),
        NO_MORE, INTACT_FAST(intact__lstm_fast), ONNX_ALIAS("LSTM"))
RNN_ROW(gru, "Gated recurrent unit; gates r z n: h = (1 - z) n + z h.", H0, INTACT_RESULTS("y", "hn"), RESET_AFTER, NULL,
        ONNX_ALIAS("GRU"))
RNN_ROW(rnn_tanh, "Recurrent network h = tanh(W x + R h + b).", H0, INTACT_RESULTS("y", "hn"), NO_MORE, NULL,
        ONNX_ALIAS("RNN"))
RNN_ROW(rnn_relu, "Recurrent network h = relu(W x + R h + b).", H0, INTACT_RESULTS("y", "hn"), NO_MORE, NULL, NO_ALIAS)
