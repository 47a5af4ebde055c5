/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent cells over a sequence, forward and backward, in double: the definition of lstm, gru, rnn_tanh and rnn_relu. */
#include <math.h>

#include "ops/rnn.h"

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double dot_in(const float *w, const double *v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += w[i] * v[i];
  return sum;
}

/* Row r of the input part: w_ih x + b_ih; of the hidden part: w_hh h + b_hh. */
static double input_part(const intact_rnn_pass *p, int64_t r, const double *x) {
  return dot_in(p->w_ih + r * p->width, x, p->width) + (p->b_ih != NULL ? p->b_ih[r] : 0);
}
static double hidden_part(const intact_rnn_pass *p, int64_t r, const double *h) {
  return dot_in(p->w_hh + r * p->rnn->hidden, h, p->rnn->hidden) + (p->b_hh != NULL ? p->b_hh[r] : 0);
}

/* Where step s of sample n reads and writes. */
typedef struct place {
  const double *x;
  double *y, *tape;
  const double *y_before, *tape_before; /* NULL at the first step */
} place;

static place place_of(const intact_rnn_pass *p, int64_t s, int64_t n) {
  const intact_rnn *r = p->rnn;
  int64_t t = p->reverse ? r->steps - 1 - s : s, before = p->reverse ? t + 1 : t - 1;
  int64_t row = r->directions * r->hidden, note = (r->gates + 1) * r->hidden;
  place at = {.x = p->in + (t * r->batch + n) * p->width, .y = p->out + (t * r->batch + n) * row + p->column};
  at.tape = p->tape + ((p->keep ? t : 0) * r->batch + n) * note;
  at.y_before = s == 0 ? NULL : p->out + (before * r->batch + n) * row + p->column;
  at.tape_before = s == 0 ? NULL : p->tape + ((p->keep ? before : 0) * r->batch + n) * note;
  return at;
}

/* h (and the old cell c) -> y, tape. LSTM gates are i f g o, GRU's r z n. */
static void lstm_step(const intact_rnn_pass *p, const place *at, const double *h, const double *c) {
  int64_t hidden = p->rnn->hidden;
  for (int64_t j = 0; j < hidden; j++) {
    double gate[4];
    for (int g = 0; g < 4; g++) {
      double sum = input_part(p, g * hidden + j, at->x) + hidden_part(p, g * hidden + j, h);
      gate[g] = g == 2 ? tanh(sum) : sigmoid(sum);
      at->tape[g * hidden + j] = gate[g];
    }
    double cell = gate[1] * c[j] + gate[0] * gate[2];
    at->tape[4 * hidden + j] = cell;
    at->y[j] = gate[3] * tanh(cell);
  }
}

static void gru_step(const intact_rnn_pass *p, const place *at, const double *h) {
  int64_t hidden = p->rnn->hidden;
  double *r = at->tape, *z = r + hidden, *n = z + hidden, *part = n + hidden;
  for (int64_t j = 0; j < hidden; j++) {
    r[j] = sigmoid(input_part(p, j, at->x) + hidden_part(p, j, h));
    z[j] = sigmoid(input_part(p, hidden + j, at->x) + hidden_part(p, hidden + j, h));
  }
  for (int64_t j = 0; j < hidden; j++) {
    const float *row = p->w_hh + (2 * hidden + j) * hidden;
    if (p->rnn->reset_after) {
      part[j] = hidden_part(p, 2 * hidden + j, h);
      n[j] = tanh(input_part(p, 2 * hidden + j, at->x) + r[j] * part[j]);
    } else {
      part[j] = p->b_hh != NULL ? p->b_hh[2 * hidden + j] : 0;
      for (int64_t k = 0; k < hidden; k++) part[j] += row[k] * r[k] * h[k];
      n[j] = tanh(input_part(p, 2 * hidden + j, at->x) + part[j]);
    }
  }
  for (int64_t j = 0; j < hidden; j++) at->y[j] = (1 - z[j]) * n[j] + z[j] * h[j];
}

static void plain_step(const intact_rnn_pass *p, const place *at, const double *h) {
  for (int64_t j = 0; j < p->rnn->hidden; j++) {
    double sum = input_part(p, j, at->x) + hidden_part(p, j, h);
    at->tape[j] = p->rnn->kind == INTACT_RNN_TANH ? tanh(sum) : sum > 0 || isnan(sum) ? sum : 0;
  }
  for (int64_t j = 0; j < p->rnn->hidden; j++) at->y[j] = at->tape[j];
}

static void forward_samples(void *user, int64_t begin, int64_t end) {
  const intact_rnn_pass *p = user;
  int64_t hidden = p->rnn->hidden;
  for (int64_t n = begin; n < end; n++) {
    for (int64_t s = 0; s < p->rnn->steps; s++) {
      place at = place_of(p, s, n);
      const double *h = at.y_before != NULL ? at.y_before : p->h0 + n * hidden;
      const double *c = at.tape_before != NULL ? at.tape_before + p->rnn->gates * hidden : p->c0 + n * hidden;
      switch (p->rnn->kind) {
        case INTACT_RNN_LSTM:
          lstm_step(p, &at, h, c);
          break;
        case INTACT_RNN_GRU:
          gru_step(p, &at, h);
          break;
        default:
          plain_step(p, &at, h);
          break;
      }
    }
  }
}

void intact__rnn_forward(intact_context *context, const intact_rnn_pass *pass) {
  intact_rnn_pass copy = *pass;
  intact__parallel(context, pass->rnn->batch, 1, forward_samples, &copy);
}

/* ---- backward: each step turns d_h, d_c into gradients of the gates' arguments, of which `in` goes to the input part and
   `hid` to the hidden part (they differ for gru only), and leaves what flows to the state before in d_h, d_c ---- */

static void lstm_back(const intact_rnn_pass *p, const place *at, const double *c, double *dh, double *dc, double *in,
                      double *hid) {
  int64_t hidden = p->rnn->hidden;
  for (int64_t j = 0; j < hidden; j++) {
    double i = at->tape[j], f = at->tape[hidden + j], g = at->tape[2 * hidden + j], o = at->tape[3 * hidden + j];
    double squashed = tanh(at->tape[4 * hidden + j]), d_cell = dc[j] + dh[j] * o * (1 - squashed * squashed);
    in[j] = d_cell * g * i * (1 - i);
    in[hidden + j] = d_cell * c[j] * f * (1 - f);
    in[2 * hidden + j] = d_cell * i * (1 - g * g);
    in[3 * hidden + j] = dh[j] * squashed * o * (1 - o);
    dc[j] = d_cell * f;
    dh[j] = 0;
  }
  for (int64_t k = 0; k < 4 * hidden; k++) hid[k] = in[k];
}

static void gru_back(const intact_rnn_pass *p, const place *at, const double *h, double *dh, double *in, double *hid) {
  int64_t hidden = p->rnn->hidden;
  const double *r = at->tape, *z = r + hidden, *n = z + hidden, *part = n + hidden;
  double *from_reset = hid + 3 * hidden; /* gradient of r h, reset before the product */
  for (int64_t j = 0; j < hidden; j++) {
    in[2 * hidden + j] = dh[j] * (1 - z[j]) * (1 - n[j] * n[j]);
    in[hidden + j] = dh[j] * (h[j] - n[j]) * z[j] * (1 - z[j]);
    dh[j] *= z[j];
    from_reset[j] = 0;
  }
  for (int64_t k = 0; k < hidden && !p->rnn->reset_after; k++) {
    const float *row = p->w_hh + (2 * hidden + k) * hidden;
    for (int64_t j = 0; j < hidden; j++) from_reset[j] += row[j] * in[2 * hidden + k];
  }
  for (int64_t j = 0; j < hidden; j++) {
    double d_r = p->rnn->reset_after ? in[2 * hidden + j] * part[j] : from_reset[j] * h[j];
    in[j] = d_r * r[j] * (1 - r[j]);
    dh[j] += from_reset[j] * r[j];
    hid[j] = in[j];
    hid[hidden + j] = in[hidden + j];
    hid[2 * hidden + j] = p->rnn->reset_after ? in[2 * hidden + j] * r[j] : in[2 * hidden + j];
  }
}

static void plain_back(const intact_rnn_pass *p, const place *at, double *dh, double *in, double *hid) {
  for (int64_t j = 0; j < p->rnn->hidden; j++) {
    double y = at->tape[j];
    in[j] = dh[j] * (p->rnn->kind == INTACT_RNN_TANH ? 1 - y * y : y > 0);
    hid[j] = in[j];
    dh[j] = 0;
  }
}

/* d_in += w_ih' in; d_h += w_hh' hid; the weights' and biases' gradients. */
static void spread_step(const intact_rnn_pass *p, const place *at, const double *h, const double *in, const double *hid,
                        double *d_x, double *dh) {
  const intact_rnn *r = p->rnn;
  for (int64_t k = 0; k < r->gates * r->hidden; k++) {
    bool before = r->kind == INTACT_RNN_GRU && !r->reset_after && k >= 2 * r->hidden; /* sees r h; dh has its part already */
    for (int64_t j = 0; j < p->width; j++) {
      d_x[j] += p->w_ih[k * p->width + j] * in[k];
      p->d_w_ih[k * p->width + j] += in[k] * at->x[j];
    }
    for (int64_t j = 0; j < r->hidden; j++) {
      if (!before) dh[j] += p->w_hh[k * r->hidden + j] * hid[k];
      p->d_w_hh[k * r->hidden + j] += hid[k] * h[j] * (before ? at->tape[j] : 1);
    }
    if (p->b_ih != NULL) p->d_b_ih[k] += in[k];
    if (p->b_hh != NULL) p->d_b_hh[k] += hid[k];
  }
}

void intact__rnn_backward(const intact_rnn_pass *p, double *scratch) {
  const intact_rnn *r = p->rnn;
  int64_t hidden = r->hidden;
  double *in = scratch, *hid = scratch + 4 * hidden;
  for (int64_t n = 0; n < r->batch; n++) {
    double *dh = p->d_h + n * hidden, *dc = p->d_c + n * hidden;
    for (int64_t s = r->steps - 1; s >= 0; s--) {
      place at = place_of(p, s, n);
      const double *h = at.y_before != NULL ? at.y_before : p->h0 + n * hidden;
      const double *c = at.tape_before != NULL ? at.tape_before + r->gates * hidden : p->c0 + n * hidden;
      for (int64_t j = 0; j < hidden; j++) dh[j] += p->d_out[(at.y - p->out) + j];
      switch (r->kind) {
        case INTACT_RNN_LSTM:
          lstm_back(p, &at, c, dh, dc, in, hid);
          break;
        case INTACT_RNN_GRU:
          gru_back(p, &at, h, dh, in, hid);
          break;
        default:
          plain_back(p, &at, dh, in, hid);
          break;
      }
      spread_step(p, &at, h, in, hid, p->d_in + (at.x - p->in), dh);
    }
  }
}
