/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of lstm: the input part of all steps as one product, then one product and one pass over the gates per step.
 */
#include <math.h>
#include <string.h>

#include "kernels/float/float_kernels.h"
#include "ops/fast.h"
#include "ops/rnn.h"

/* One direction of one layer. */
typedef struct direction {
  const intact_rnn *r;
  int64_t width, column;
  bool reverse;
  const float *in; /* [steps, batch, width] */
  float *out;      /* [steps, batch, directions * hidden] */
  const float *w_ih, *w_hh;
  const float *bias_ih, *bias_hh; /* NULL: none */
  float *gates;                   /* [steps, batch, 4 hidden] */
  float *h, *c;                   /* [batch, hidden]: first states in, last states out */
} direction;

static float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

typedef struct step {
  const direction *d;
  int64_t t;
} step;

/* Gates i f g o to c and h, for samples begin..end. */
static void step_samples(void *user, int64_t begin, int64_t end) {
  const step *s = user;
  const direction *d = s->d;
  int64_t hidden = d->r->hidden, batch = d->r->batch;
  for (int64_t n = begin; n < end; n++) {
    const float *g = d->gates + (s->t * batch + n) * 4 * hidden;
    float *h = d->h + n * hidden, *c = d->c + n * hidden;
    float *y = d->out + (s->t * batch + n) * d->r->directions * hidden + d->column;
    for (int64_t j = 0; j < hidden; j++) {
      c[j] = sigmoid(g[hidden + j]) * c[j] + sigmoid(g[j]) * tanhf(g[2 * hidden + j]);
      h[j] = sigmoid(g[3 * hidden + j]) * tanhf(c[j]);
      y[j] = h[j];
    }
  }
}

static intact_status run_direction(intact_context *context, const direction *d) {
  const intact_rnn *r = d->r;
  int64_t rows = r->steps * r->batch, gates = 4 * r->hidden;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < gates; j++) d->gates[i * gates + j] = d->bias_ih != NULL ? d->bias_ih[j] + d->bias_hh[j] : 0;
  }
  intact_float_gemm input = {.m = rows, .n = gates, .k = d->width, .b_transposed = true, .alpha = 1, .beta = 1};
  INTACT_TRY(intact__float_gemm(context, &input, d->in, d->w_ih, d->gates));
  intact_float_gemm hidden = {.m = r->batch, .n = gates, .k = r->hidden, .b_transposed = true, .alpha = 1, .beta = 1};
  for (int64_t i = 0; i < r->steps; i++) {
    step s = {d, d->reverse ? r->steps - 1 - i : i};
    INTACT_TRY(intact__float_gemm(context, &hidden, d->h, d->w_hh, d->gates + s.t * r->batch * gates));
    intact__parallel(context, r->batch, 4096 / (r->hidden + 1) + 1, step_samples, &s);
  }
  return INTACT_OK;
}

/* [steps, batch, width] from [batch, steps, width], or back. */
static void swap_axes(const float *from, int64_t a, int64_t b, int64_t width, float *to) {
  for (int64_t i = 0; i < a; i++) {
    for (int64_t j = 0; j < b; j++)
      memcpy(to + (j * a + i) * width, from + (i * b + j) * width, (size_t)width * sizeof(float));
  }
}

/* Layer after layer; buffers[0] and [1] take turns as input and result. */
static intact_status run_layers(const intact_call *call, const intact_rnn *r, float *const *buffers, float *gates, float *h,
                                float *c) {
  for (int64_t layer = 0; layer < r->layers; layer++) {
    for (int64_t k = 0; k < r->directions; k++) {
      int64_t state = (layer * r->directions + k) * r->batch * r->hidden;
      const direction d = {.r = r,
                           .width = intact__rnn_width(r, layer),
                           .column = k * r->hidden,
                           .reverse = k == 1,
                           .in = buffers[layer % 2],
                           .out = buffers[(layer + 1) % 2],
                           .w_ih = intact__operand_f32(call, intact__rnn_param(r, layer, k, 0)),
                           .w_hh = intact__operand_f32(call, intact__rnn_param(r, layer, k, 1)),
                           .bias_ih = r->biases ? intact__operand_f32(call, intact__rnn_param(r, layer, k, 2)) : NULL,
                           .bias_hh = r->biases ? intact__operand_f32(call, intact__rnn_param(r, layer, k, 3)) : NULL,
                           .gates = gates,
                           .h = h + state,
                           .c = c + state};
      INTACT_TRY(run_direction(call->context, &d));
    }
  }
  return INTACT_OK;
}

intact_status intact__lstm_fast(const intact_call *call) {
  intact_tensor *y[3] = {NULL, NULL, NULL};
  intact_rnn r;
  INTACT_TRY(intact__call_begin(call, y));
  intact__rnn_shape(call->node, call->operands, &r);
  const intact_tensor *x = call->operands[0];
  if (x->count == 0 || r.hidden == 0) return call->node->op->eval_f32(call);
  int64_t rows = r.steps * r.batch, result = r.directions * r.hidden, widest = r.features > result ? r.features : result;
  size_t count = (size_t)(rows * (2 * widest + 4 * r.hidden));
  float *memory = intact__alloc(call->context, count, sizeof(float));
  if (memory == NULL) return intact__no_memory(call->context, count * sizeof(float));
  float *const buffers[2] = {memory, memory + rows * widest};
  if (r.batch_first) {
    swap_axes(intact__f32(x), r.batch, r.steps, r.features, buffers[0]);
  } else {
    memcpy(buffers[0], intact__f32(x), (size_t)(rows * r.features) * sizeof(float));
  }
  for (int i = 1; i < 3; i++) {
    memset(y[i]->data, 0, (size_t)y[i]->count * sizeof(float));
    if (intact__has(call, i)) memcpy(y[i]->data, call->operands[i]->data, (size_t)y[i]->count * sizeof(float));
  }
  intact_status status = run_layers(call, &r, buffers, memory + 2 * rows * widest, intact__f32(y[1]), intact__f32(y[2]));
  const float *last = buffers[r.layers % 2];
  if (status == INTACT_OK && r.batch_first) swap_axes(last, r.steps, r.batch, result, intact__f32(y[0]));
  if (status == INTACT_OK && !r.batch_first) memcpy(y[0]->data, last, (size_t)(rows * result) * sizeof(float));
  intact__free(call->context, memory);
  return status;
}
