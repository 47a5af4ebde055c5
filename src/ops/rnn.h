/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of a recurrent network: what the rows lstm, gru, rnn_tanh and rnn_relu share. */
#ifndef INTACT_OPS_RNN_H
#define INTACT_OPS_RNN_H

#include "ops/layer.h"

typedef enum intact_rnn_kind { INTACT_RNN_TANH, INTACT_RNN_RELU, INTACT_RNN_GRU, INTACT_RNN_LSTM } intact_rnn_kind;

typedef struct intact_rnn {
  intact_rnn_kind kind;
  int gates; /* 1, 3 or 4 */
  int64_t steps, batch, features, hidden, layers, directions;
  bool batch_first, biases, reset_after; /* reset_after: gru only, n = tanh(Wx + b + r (R h + b)); else R (r h) */
  int first_param;                       /* operand index of weight_ih_l0 */
} intact_rnn;

void intact__rnn_shape(const intact_node *node, const intact_tensor *const *operands, intact_rnn *rnn);
/* Operand index of weight_ih (which 0), weight_hh (1), bias_ih (2), bias_hh (3) of a layer and direction. */
int intact__rnn_param(const intact_rnn *rnn, int64_t layer, int64_t direction, int which);
/* Width of the input of a layer. */
static inline int64_t intact__rnn_width(const intact_rnn *rnn, int64_t layer) {
  return layer == 0 ? rnn->features : rnn->directions * rnn->hidden;
}

/* One direction of one layer over all steps. Arrays are in double: in [steps, batch, width], out [steps, batch, directions *
   hidden] of which this direction owns `hidden` columns from `column` on; tape [kept steps, batch, gates + 1, hidden] holds
   the gates after their functions and the cell (lstm) or the hidden part of n (gru); kept steps is `steps` with keep,
   else 1. */
typedef struct intact_rnn_pass {
  const intact_rnn *rnn;
  int64_t width, column;
  bool reverse, keep;
  const double *in;
  double *out, *tape;
  const float *w_ih, *w_hh, *b_ih, *b_hh; /* biases NULL: none */
  const double *h0, *c0;                  /* [batch, hidden] */
  /* backward only: d_h and d_c [batch, hidden] go in as the gradients of the last states and come out as those of the first;
     the others are added to */
  const double *d_out;
  double *d_h, *d_c, *d_in, *d_w_ih, *d_w_hh, *d_b_ih, *d_b_hh;
} intact_rnn_pass;

void intact__rnn_forward(intact_context *context, const intact_rnn_pass *pass);
/* scratch: 9 * hidden doubles. */
void intact__rnn_backward(const intact_rnn_pass *pass, double *scratch);

#endif
