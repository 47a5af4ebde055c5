/* SPDX-License-Identifier: Apache-2.0 */
/* The row scaled_dot_product_attention: softmax(q k' scale + mask) v. */
#include <math.h>
#include <string.h>

#include "ops/layer.h"

enum { Q, K, V, MASK };

/* Operand dims[0..lead) broadcast to the leading dims of the result; with grouped heads the last of them may divide it. */
static bool leading_fits(const intact_value *v, int lead, const int64_t *dims, bool grouped) {
  int own = v->rank - 2;
  for (int d = 0; d < own; d++) {
    int at = lead - own + d;
    int64_t agreed, have = v->dims[d], want = at >= 0 ? dims[at] : 1;
    if (at < 0 && have != 1) return false;
    if (have == 1 || intact__dims_agree(have, want, &agreed)) continue;
    if (grouped && at == lead - 1 && have > 0 && want % have == 0) continue;
    return false;
  }
  return true;
}

static intact_status check_values(intact_infer *infer, bool *known) {
  const intact_node *node = infer->node;
  const intact_value *mask = intact__infer_operand(infer, MASK);
  for (int i = Q; i <= V; i++) INTACT_TRY(intact__infer_float(infer, i));
  if (mask != NULL && mask->dtype != INTACT_BOOL) INTACT_TRY(intact__infer_float(infer, MASK));
  if (mask != NULL && intact__attr_int(node, "is_causal") != 0) {
    INTACT_FAIL(infer->context, WRONG_USE, node->name, "%s: attn_mask and is_causal are both given; give one",
                node->op->name);
  }
  if (intact__attr_float(node, "dropout_p") != 0) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                "%s: dropout_p is %g; it must be 0: drop out after the softmax in parts", node->op->name,
                intact__attr_float(node, "dropout_p"));
  }
  *known = true;
  for (int i = Q; i <= V; i++) {
    char text[160];
    const intact_value *v = node->operands[i];
    if (v->rank < 0) *known = false;
    if (v->rank == 0 || v->rank == 1) {
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: %s is %s; it must have rank 2 or more", node->op->name,
                  node->op->schema.operands[i].name, intact__shape_text(v->rank, v->dims, text));
    }
  }
  return INTACT_OK;
}

static intact_status infer_attention(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *q = node->operands[Q], *k = node->operands[K], *v = node->operands[V];
  const intact_value *mask = intact__infer_operand(infer, MASK);
  bool known = true, grouped = intact__attr_int(node, "enable_gqa") != 0;
  INTACT_TRY(check_values(infer, &known));
  if (!known) return intact__infer_unranked(infer, INTACT_F32);
  int lead = q->rank - 2;
  int64_t dims[INTACT_MAX_RANK], agreed;
  memcpy(dims, q->dims, (size_t)q->rank * sizeof(int64_t));
  bool fits = intact__dims_agree(q->dims[q->rank - 1], k->dims[k->rank - 1], &agreed) &&
              intact__dims_agree(k->dims[k->rank - 2], v->dims[v->rank - 2], &agreed) &&
              leading_fits(k, lead, dims, grouped) && leading_fits(v, lead, dims, grouped);
  char a[160], b[160], c[160];
  if (!fits) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s: q is %s, k is %s, v is %s; they must be [..., L, E], [..., S, E], [..., S, Ev] with the same leading "
                "dimensions",
                node->op->name, intact__shape_text(q->rank, q->dims, a), intact__shape_text(k->rank, k->dims, b),
                intact__shape_text(v->rank, v->dims, c));
  }
  if (mask != NULL && mask->rank >= 0) {
    const int64_t want[2] = {q->dims[q->rank - 2], k->dims[k->rank - 2]};
    fits = mask->rank >= 2 && leading_fits(mask, lead, dims, false);
    for (int d = 0; fits && d < 2; d++) {
      fits = mask->dims[mask->rank - 2 + d] == 1 || intact__dims_agree(mask->dims[mask->rank - 2 + d], want[d], &agreed);
    }
    if (!fits) {
      INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: attn_mask is %s; it must broadcast to [..., %lld, %lld]",
                  node->op->name, intact__shape_text(mask->rank, mask->dims, a), (long long)want[0], (long long)want[1]);
    }
  }
  dims[q->rank - 1] = v->dims[v->rank - 1];
  return intact__infer_result(infer, 0, INTACT_F32, q->rank, dims);
}

/* ---- evaluation: row by row in double ---- */

typedef struct attention {
  const intact_tensor *operands[4];
  int64_t batches, l, s, e, ev;
  int lead;
  int64_t dims[INTACT_MAX_RANK];
  double scale;
  bool causal;
} attention;

static attention attention_of(const intact_node *node, int n, const intact_tensor *const *operands) {
  attention a = {.operands = {operands[Q], operands[K], operands[V], n > MASK ? operands[MASK] : NULL}};
  const intact_tensor *q = operands[Q], *v = operands[V];
  a.lead = q->rank - 2;
  a.batches = intact__known_product(q->dims, 0, a.lead);
  memcpy(a.dims, q->dims, sizeof a.dims);
  a.l = q->dims[q->rank - 2];
  a.e = q->dims[q->rank - 1];
  a.s = v->dims[v->rank - 2];
  a.ev = v->dims[v->rank - 1];
  const intact_attr *scale = intact__attr(node, "scale");
  a.scale = scale->present ? scale->f : 1 / sqrt((double)a.e);
  a.causal = intact__attr_int(node, "is_causal") != 0;
  return a;
}

/* Where the matrix of operand i begins for a batch. */
static int64_t matrix_at(const attention *a, int i, int64_t batch) {
  const intact_tensor *t = a->operands[i];
  int own = t->rank - 2;
  int64_t offset = 0, step = t->dims[t->rank - 1] * t->dims[t->rank - 2];
  for (int at = a->lead - 1; at >= 0; at--) {
    int64_t position = batch % a->dims[at];
    batch /= a->dims[at];
    int d = at - (a->lead - own);
    if (d < 0) continue;
    if (t->dims[d] != 1) offset += position / (a->dims[at] / t->dims[d]) * step;
    step *= t->dims[d];
  }
  return offset;
}

static int64_t mask_at(const attention *a, int64_t batch, int64_t i, int64_t j) {
  const intact_tensor *m = a->operands[MASK];
  int64_t rows = m->dims[m->rank - 2], cols = m->dims[m->rank - 1];
  return matrix_at(a, MASK, batch) + (rows == 1 ? 0 : i * cols) + (cols == 1 ? 0 : j);
}

/* p[j] of row i; a row that is masked out entirely gets zeros. */
static void probabilities(const attention *a, int64_t batch, int64_t i, double *p) {
  const float *q = intact__f32(a->operands[Q]) + matrix_at(a, Q, batch) + i * a->e;
  const float *k = intact__f32(a->operands[K]) + matrix_at(a, K, batch);
  const intact_tensor *mask = a->operands[MASK];
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->s; j++) {
    p[j] = 0;
    for (int64_t c = 0; c < a->e; c++) p[j] += (double)q[c] * k[j * a->e + c];
    p[j] *= a->scale;
    if (a->causal && j > i) p[j] = -INFINITY;
    if (mask != NULL && mask->dtype == INTACT_BOOL) {
      if (((const uint8_t *)mask->data)[mask_at(a, batch, i, j)] == 0) p[j] = -INFINITY;
    } else if (mask != NULL) {
      p[j] += intact__f32(mask)[mask_at(a, batch, i, j)];
    }
    max = p[j] > max || isnan(p[j]) ? p[j] : max;
  }
  for (int64_t j = 0; j < a->s; j++) {
    p[j] = max == -INFINITY ? 0 : exp(p[j] - max);
    sum += p[j];
  }
  for (int64_t j = 0; j < a->s && sum != 0; j++) p[j] /= sum;
}

static intact_status eval_attention(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  attention a = attention_of(call->node, call->n_operands, call->operands);
  double *p = intact__alloc(call->context, (size_t)a.s + 1, sizeof(double));
  if (p == NULL) return intact__no_memory(call->context, (size_t)a.s * sizeof(double));
  for (int64_t row = 0; row < a.batches * a.l; row++) {
    const float *v = intact__f32(a.operands[V]) + matrix_at(&a, V, row / a.l);
    probabilities(&a, row / a.l, row % a.l, p);
    for (int64_t c = 0; c < a.ev; c++) {
      double sum = 0;
      for (int64_t j = 0; j < a.s; j++) sum += p[j] * v[j * a.ev + c];
      intact__f32(y)[row * a.ev + c] = (float)sum;
    }
  }
  intact__free(call->context, p);
  return INTACT_OK;
}

/* ---- gradient ---- */

/* Sums in double of the gradients of q, k, v, mask; NULL where not wanted. */
typedef struct attention_sums {
  double *d[4];
  double *p, *ds;
} attention_sums;

/* dv += p' dy; ds = p (dy v' - sum(p dy v')); dq += ds k scale; dk += ds' q scale; dmask += ds. */
static void grad_row(const attention *a, const attention_sums *g, int64_t batch, int64_t i, const float *dy) {
  int64_t at[3];
  for (int t = 0; t < 3; t++) at[t] = matrix_at(a, t, batch);
  const float *q = intact__f32(a->operands[Q]) + at[Q] + i * a->e, *k = intact__f32(a->operands[K]) + at[K];
  const float *v = intact__f32(a->operands[V]) + at[V];
  double dot = 0;
  probabilities(a, batch, i, g->p);
  for (int64_t j = 0; j < a->s; j++) {
    g->ds[j] = 0;
    for (int64_t c = 0; c < a->ev; c++) {
      g->ds[j] += (double)dy[c] * v[j * a->ev + c];
      if (g->d[V] != NULL) g->d[V][at[V] + j * a->ev + c] += g->p[j] * dy[c];
    }
    dot += g->ds[j] * g->p[j];
  }
  for (int64_t j = 0; j < a->s; j++) {
    double ds = g->p[j] * (g->ds[j] - dot);
    if (g->d[MASK] != NULL) g->d[MASK][mask_at(a, batch, i, j)] += ds;
    for (int64_t c = 0; c < a->e; c++) {
      if (g->d[Q] != NULL) g->d[Q][at[Q] + i * a->e + c] += ds * a->scale * k[j * a->e + c];
      if (g->d[K] != NULL) g->d[K][at[K] + j * a->e + c] += ds * a->scale * q[c];
    }
  }
}

static intact_status grad_attention(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  attention a = attention_of(grad->node, grad->n_operands, grad->operands);
  attention_sums g = {{NULL}, NULL, NULL};
  intact_tensor *d[4] = {NULL};
  int64_t total = 0, begin[4];
  for (int t = 0; t < 4; t++) {
    begin[t] = total;
    bool wanted = a.operands[t] != NULL && a.operands[t]->dtype == INTACT_F32 && intact__wants(grad, t);
    if (!wanted) continue;
    INTACT_TRY(intact__grad_operand(grad, t, &d[t]));
    total += d[t]->count;
  }
  double *sums = intact__alloc_zeroed(grad->context, (size_t)(total + 2 * a.s) + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(grad->context, (size_t)(total + 2 * a.s) * sizeof(double));
  g.p = sums + total;
  g.ds = g.p + a.s;
  for (int t = 0; t < 4; t++) g.d[t] = d[t] != NULL ? sums + begin[t] : NULL;
  const float *dy = intact__f32(grad->d_results[0]);
  for (int64_t row = 0; row < a.batches * a.l; row++) grad_row(&a, &g, row / a.l, row % a.l, dy + row * a.ev);
  for (int t = 0; t < 4; t++) {
    for (int64_t i = 0; d[t] != NULL && i < d[t]->count; i++) intact__f32(d[t])[i] = (float)g.d[t][i];
  }
  intact__free(grad->context, sums);
  return INTACT_OK;
}

static int64_t macs_attention(const intact_node *node) {
  const intact_value *q = node->operands[Q], *v = node->operands[V];
  if (q->rank < 2 || v->rank < 2) return 0;
  int64_t rows = intact__known_product(q->dims, 0, q->rank - 1),
          s = intact__known_product(v->dims, v->rank - 2, v->rank - 1);
  return rows * s *
         (intact__known_product(q->dims, q->rank - 1, q->rank) + intact__known_product(v->dims, v->rank - 1, v->rank));
}

const intact_op intact_op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .doc = "softmax(q k' scale + attn_mask) v; scale is 1/sqrt(E) unless given, a boolean mask keeps where it is true.",
    .schema = {INTACT_OPERANDS({"q", INTACT_ROLE_ACTIVATION, 0}, {"k", INTACT_ROLE_ACTIVATION, 0},
                               {"v", INTACT_ROLE_ACTIVATION, 0}, {"attn_mask", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_FLOAT_ATTR("dropout_p", 0), INTACT_BOOL_ATTR("is_causal", 0),
                            INTACT_A_FLOAT_OR_NONE("scale"), INTACT_BOOL_ATTR("enable_gqa", 0))},
    .infer = infer_attention,
    .eval_f32 = eval_attention,
    .grad = grad_attention,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ROWS,
    .macs = macs_attention,
    .aliases = INTACT_ALIASES(INTACT_ATEN("scaled_dot_product_attention")),
};
