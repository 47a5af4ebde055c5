/* SPDX-License-Identifier: Apache-2.0 */
/* The row multi_head_attention: self-attention with its projections, as torch.nn.MultiheadAttention. */
#include <math.h>

#include "ops/layer.h"

enum { X, W_IN, B_IN, W_OUT, B_OUT, N_OPERANDS };

static intact_status infer_mha(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[X];
  int64_t heads = intact__attr_int(node, "num_heads");
  bool batch_first = intact__attr_int(node, "batch_first") != 0;
  char text[160];
  INTACT_TRY(intact__infer_floats(infer));
  if (x->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  if (x->rank != 3 || x->dims[2] < 1 || heads < 1 || x->dims[2] % heads != 0) {
    INTACT_FAIL(
        infer->context, SIZE_MISMATCH, node->name,
        "multi_head_attention: x is %s, num_heads %lld; x must have rank 3 and its last dimension be divisible by num_heads",
        intact__shape_text(x->rank, x->dims, text), (long long)heads);
  }
  int64_t e = x->dims[2], agreed;
  const int64_t want[N_OPERANDS][2] = {{0}, {3 * e, e}, {3 * e}, {e, e}, {e}};
  for (int i = W_IN; i <= B_OUT; i++) {
    const intact_value *v = intact__infer_operand(infer, i);
    if (v == NULL || v->rank < 0) continue;
    int rank = i == W_IN || i == W_OUT ? 2 : 1;
    bool fits = v->rank == rank;
    for (int d = 0; fits && d < rank; d++) fits = intact__dims_agree(v->dims[d], want[i][d], &agreed);
    if (!fits) {
      char other[160];
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "multi_head_attention: %s is %s; it must be %s",
                  node->op->schema.operands[i].name, intact__shape_text(v->rank, v->dims, text),
                  intact__shape_text(rank, want[i], other));
    }
  }
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_F32, 3, x->dims));
  int64_t n = x->dims[batch_first ? 0 : 1], l = x->dims[batch_first ? 1 : 0];
  bool average = intact__attr_int(node, "average_attn_weights") != 0;
  if (node->n_results < 2) return INTACT_OK;
  return average ? intact__infer_result(infer, 1, INTACT_F32, 3, (const int64_t[]){n, l, l})
                 : intact__infer_result(infer, 1, INTACT_F32, 4, (const int64_t[]){n, heads, l, l});
}

/* ---- all in double; token t of sample b is row b * l + t ---- */

typedef struct mha {
  const intact_tensor *const *operands;
  int n_operands;
  int64_t n, l, e, heads, width; /* width = e / heads */
  bool batch_first, average;
  double *qkv, *p, *context, *sums; /* [n l, 3 e], [n, heads, l, l], [n l, e]; one block that starts at qkv */
} mha;

static const float *values(const mha *m, int i) {
  return i < m->n_operands && m->operands[i] != NULL ? intact__f32(m->operands[i]) : NULL;
}

/* Row in a tensor of x's layout. */
static int64_t row_at(const mha *m, int64_t row) {
  return m->batch_first ? row : row % m->l * m->n + row / m->l;
}

static mha mha_of(const intact_node *node, int n, const intact_tensor *const *operands) {
  mha m = {.operands = operands, .n_operands = n};
  const intact_tensor *x = operands[X];
  m.batch_first = intact__attr_int(node, "batch_first") != 0;
  m.average = intact__attr_int(node, "average_attn_weights") != 0;
  m.n = x->dims[m.batch_first ? 0 : 1];
  m.l = x->dims[m.batch_first ? 1 : 0];
  m.e = x->dims[2];
  m.heads = intact__attr_int(node, "num_heads");
  m.width = m.e / m.heads;
  return m;
}

static intact_status mha_alloc(intact_context *context, mha *m, int64_t more) {
  int64_t rows = m->n * m->l, sizes[3] = {rows * 3 * m->e, m->n * m->heads * m->l * m->l, rows * m->e};
  size_t count = (size_t)(sizes[0] + sizes[1] + sizes[2] + more) + 1;
  m->qkv = intact__alloc_zeroed(context, count, sizeof(double));
  if (m->qkv == NULL) return intact__no_memory(context, count * sizeof(double));
  m->p = m->qkv + sizes[0];
  m->context = m->p + sizes[1];
  m->sums = m->context + sizes[2];
  return INTACT_OK;
}

/* Part `which` (0 q, 1 k, 2 v) of a head of a token. */
static double *part(const mha *m, double *qkv, int64_t row, int which, int64_t head) {
  return qkv + row * 3 * m->e + which * m->e + head * m->width;
}

static void project_in(const mha *m) {
  const float *x = values(m, X), *w = values(m, W_IN), *bias = values(m, B_IN);
  for (int64_t row = 0; row < m->n * m->l; row++) {
    for (int64_t o = 0; o < 3 * m->e; o++) {
      double sum = bias != NULL ? bias[o] : 0;
      for (int64_t i = 0; i < m->e; i++) sum += (double)x[row_at(m, row) * m->e + i] * w[o * m->e + i];
      m->qkv[row * 3 * m->e + o] = sum;
    }
  }
}

/* One row of probabilities, and its sum of values into context. */
static void attend(const mha *m, int64_t b, int64_t head, int64_t i) {
  double *p = m->p + ((b * m->heads + head) * m->l + i) * m->l, max = -INFINITY, sum = 0;
  const double *q = part(m, m->qkv, b * m->l + i, 0, head);
  for (int64_t j = 0; j < m->l; j++) {
    const double *k = part(m, m->qkv, b * m->l + j, 1, head);
    p[j] = 0;
    for (int64_t c = 0; c < m->width; c++) p[j] += q[c] * k[c];
    p[j] /= sqrt((double)m->width);
    max = p[j] > max || isnan(p[j]) ? p[j] : max;
  }
  for (int64_t j = 0; j < m->l; j++) sum += p[j] = exp(p[j] - max);
  double *to = m->context + (b * m->l + i) * m->e + head * m->width;
  for (int64_t j = 0; j < m->l; j++) {
    p[j] /= sum;
    const double *v = part(m, m->qkv, b * m->l + j, 2, head);
    for (int64_t c = 0; c < m->width; c++) to[c] += p[j] * v[c];
  }
}

static void run_mha(const mha *m) {
  project_in(m);
  for (int64_t b = 0; b < m->n; b++) {
    for (int64_t head = 0; head < m->heads; head++) {
      for (int64_t i = 0; i < m->l; i++) attend(m, b, head, i);
    }
  }
}

static void store_weights(const mha *m, float *weights) {
  int64_t plane = m->l * m->l;
  for (int64_t b = 0; b < m->n; b++) {
    for (int64_t i = 0; i < plane; i++) {
      double sum = 0;
      for (int64_t head = 0; head < m->heads; head++) {
        double p = m->p[(b * m->heads + head) * plane + i];
        sum += p;
        if (!m->average) weights[(b * m->heads + head) * plane + i] = (float)p;
      }
      if (m->average) weights[b * plane + i] = (float)(sum / (double)m->heads);
    }
  }
}

static intact_status eval_mha(const intact_call *call) {
  intact_tensor *y[2] = {NULL, NULL};
  INTACT_TRY(intact__call_begin(call, y));
  mha m = mha_of(call->node, call->n_operands, call->operands);
  INTACT_TRY(mha_alloc(call->context, &m, 0));
  run_mha(&m);
  const float *w = values(&m, W_OUT), *bias = values(&m, B_OUT);
  for (int64_t row = 0; row < m.n * m.l; row++) {
    for (int64_t o = 0; o < m.e; o++) {
      double sum = bias != NULL ? bias[o] : 0;
      for (int64_t i = 0; i < m.e; i++) sum += m.context[row * m.e + i] * w[o * m.e + i];
      intact__f32(y[0])[row_at(&m, row) * m.e + o] = (float)sum;
    }
  }
  if (y[1] != NULL) store_weights(&m, intact__f32(y[1]));
  intact__free(call->context, m.qkv);
  return INTACT_OK;
}

/* ---- gradient ---- */

/* d_qkv of one row of probabilities; dp comes from the context's gradient and from the weights that were given out. */
static void back_row(const mha *m, const double *d_context, const float *d_weights, double *d_qkv, double *ds, int64_t b,
                     int64_t head, int64_t i) {
  const double *p = m->p + ((b * m->heads + head) * m->l + i) * m->l;
  const double *d = d_context + (b * m->l + i) * m->e + head * m->width, *q = part(m, m->qkv, b * m->l + i, 0, head);
  double *dq = part(m, d_qkv, b * m->l + i, 0, head), dot = 0, scale = 1 / sqrt((double)m->width);
  for (int64_t j = 0; j < m->l; j++) {
    const double *v = part(m, m->qkv, b * m->l + j, 2, head);
    double *dv = part(m, d_qkv, b * m->l + j, 2, head);
    ds[j] = 0;
    if (d_weights != NULL && m->average) ds[j] = d_weights[(b * m->l + i) * m->l + j] / (double)m->heads;
    if (d_weights != NULL && !m->average) ds[j] = d_weights[((b * m->heads + head) * m->l + i) * m->l + j];
    for (int64_t c = 0; c < m->width; c++) {
      ds[j] += d[c] * v[c];
      dv[c] += p[j] * d[c];
    }
    dot += ds[j] * p[j];
  }
  for (int64_t j = 0; j < m->l; j++) {
    const double *k = part(m, m->qkv, b * m->l + j, 1, head);
    double *dk = part(m, d_qkv, b * m->l + j, 1, head), g = p[j] * (ds[j] - dot) * scale;
    for (int64_t c = 0; c < m->width; c++) {
      dq[c] += g * k[c];
      dk[c] += g * q[c];
    }
  }
}

/* y = a w' + bias with a [rows, in] and dy [rows, out] in double: the gradients of w (operand) and bias (operand + 1). */
static intact_status back_linear(intact_grad *grad, int operand, int64_t rows, int64_t in, int64_t out, const double *a,
                                 const double *dy) {
  intact_tensor *d;
  if (intact__wants(grad, operand)) {
    INTACT_TRY(intact__grad_operand(grad, operand, &d));
    for (int64_t i = 0; i < out * in; i++) {
      double sum = 0;
      for (int64_t row = 0; row < rows; row++) sum += dy[row * out + i / in] * a[row * in + i % in];
      intact__f32(d)[i] = (float)sum;
    }
  }
  if (!intact__wants(grad, operand + 1)) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, operand + 1, &d));
  for (int64_t o = 0; o < out; o++) {
    double sum = 0;
    for (int64_t row = 0; row < rows; row++) sum += dy[row * out + o];
    intact__f32(d)[o] = (float)sum;
  }
  return INTACT_OK;
}

static intact_status back_mha(intact_grad *grad, const mha *m) {
  int64_t rows = m->n * m->l, e = m->e;
  double *dy = m->sums, *d_context = dy + rows * e, *x = d_context + rows * e, *d_qkv = x + rows * e,
         *ds = d_qkv + 3 * rows * e;
  const float *w_out = values(m, W_OUT), *w_in = values(m, W_IN);
  const float *d_weights = grad->n_results > 1 && grad->d_results[1] != NULL ? intact__f32(grad->d_results[1]) : NULL;
  for (int64_t i = 0; i < rows * e; i++) {
    int64_t at = row_at(m, i / e) * e + i % e;
    dy[i] = grad->d_results[0] != NULL ? intact__f32(grad->d_results[0])[at] : 0;
    x[i] = values(m, X)[at];
  }
  for (int64_t i = 0; i < rows * e; i++) {
    for (int64_t o = 0; o < e; o++) d_context[i] += dy[i / e * e + o] * w_out[o * e + i % e];
  }
  for (int64_t i = 0; i < m->n * m->heads * m->l; i++) {
    back_row(m, d_context, d_weights, d_qkv, ds, i / (m->heads * m->l), i / m->l % m->heads, i % m->l);
  }
  INTACT_TRY(back_linear(grad, W_OUT, rows, e, e, m->context, dy));
  INTACT_TRY(back_linear(grad, W_IN, rows, e, 3 * e, x, d_qkv));
  if (!intact__wants(grad, X)) return INTACT_OK;
  intact_tensor *dx;
  INTACT_TRY(intact__grad_operand(grad, X, &dx));
  for (int64_t i = 0; i < rows * e; i++) {
    double sum = 0;
    for (int64_t o = 0; o < 3 * e; o++) sum += d_qkv[i / e * 3 * e + o] * w_in[o * e + i % e];
    intact__f32(dx)[row_at(m, i / e) * e + i % e] = (float)sum;
  }
  return INTACT_OK;
}

static intact_status grad_mha(intact_grad *grad) {
  mha m = mha_of(grad->node, grad->n_operands, grad->operands);
  INTACT_TRY(mha_alloc(grad->context, &m, 6 * m.n * m.l * m.e + m.l));
  run_mha(&m);
  intact_status status = back_mha(grad, &m);
  intact__free(grad->context, m.qkv);
  return status;
}

static int64_t macs_mha(const intact_node *node) {
  const intact_value *x = node->operands[X];
  if (x->rank != 3) return 0;
  int64_t rows = intact__known_product(x->dims, 0, 2), e = intact__known_product(x->dims, 2, 3);
  bool batch_first = intact__attr_int(node, "batch_first") != 0;
  return rows * (4 * e * e + 2 * e * intact__known_product(x->dims, batch_first ? 1 : 0, batch_first ? 2 : 1));
}

const intact_op intact_op_multi_head_attention = {
    .name = "multi_head_attention",
    .doc = "Self-attention: q, k, v = x in_proj', softmax(q k' / sqrt(E / heads)) v per head, out_proj; and the weights.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"in_proj_weight", INTACT_ROLE_NONE, 0},
                               {"in_proj_bias", INTACT_ROLE_NONE, INTACT_OPTIONAL}, {"out_proj_weight", INTACT_ROLE_NONE, 0},
                               {"out_proj_bias", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y", "weights"),
               INTACT_ATTRS({.name = "num_heads", .type = INTACT_ATTR_INT, .required = true},
                            INTACT_BOOL_ATTR("batch_first", 0), INTACT_BOOL_ATTR("average_attn_weights", 1))},
    .infer = infer_mha,
    .eval_f32 = eval_mha,
    .grad = grad_mha,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ROWS,
    .macs = macs_mha,
    .aliases = INTACT_ALIASES({.format = "aten", .name = "torch::multi_head_attention"}),
};
