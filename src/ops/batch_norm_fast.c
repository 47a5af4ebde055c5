/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of batch_norm and folded_batch_norm, forward and gradient: channel by channel on the context's threads, whole planes at
   a time. Sums are of double, in eight parts that are added in a fixed order. A folded norm sees z = x / f + layer bias, which is never
   made: its mean and variance follow from those of x. Where processes share a batch, statistics and sums are those of all its parts. */
#include <math.h>

#include "base/comm.h"
#include "ops/fast.h"
#include "ops/folded.h"
#include "ops/layer.h"
#include "ops/wide.h"

typedef struct work {
  int64_t batch, channels, plane;
  const float *x, *dy, *weight, *bias, *mean, *var; /* weight, bias NULL: 1 and 0; mean, var: the running ones */
  bool training, folded, divide;
  const float *layer_bias; /* of a folded norm; NULL: 0 */
  double eps, momentum, n;       /* n: elements per channel, over all processes */
  double *sums, *sums_x;         /* shared batch: per channel, of x and x^2 around the mean, then of dy and dy x; NULL: not shared */
  double *mean_x, *var_x;
  float *y, *new_mean, *new_var; /* forward */
  float *dx, *d_weight, *d_bias, *d_layer_bias; /* gradient; NULL: not wanted */
} work;

/* What one channel does: y = (x - shift) * factor + rest. */
typedef struct channel {
  double mean, var;          /* of z, what the norm sees */
  double shift, inverse;     /* in x: where z is the mean; 1 / sqrt(var + eps) */
  double fold, slope;        /* f (1 when not folded); dy / dx with statistics that stay */
} channel;

static const float *plane_of(const work *k, const float *values, int64_t n, int64_t c) {
  return values + (n * k->channels + c) * k->plane;
}

static double add_parts(const double *parts) {
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

/* Sum of x - shift, or of its square. */
INTACT_INLINE double sum_channel(const work *k, int64_t c, double shift, bool square) {
  double parts[8] = {0};
  for (int64_t n = 0; n < k->batch; n++) {
    const float *x = plane_of(k, k->x, n, c);
    int64_t i = 0;
    for (; i + 8 <= k->plane; i += 8) {
      for (int t = 0; t < 8; t++) {
        double d = x[i + t] - shift;
        parts[t] += square ? d * d : d;
      }
    }
    for (; i < k->plane; i++) {
      double d = x[i] - shift;
      parts[i % 8] += square ? d * d : d;
    }
  }
  return add_parts(parts);
}

/* Mean and variance in one pass, around the first element: sums of d and d^2, d = x - first. */
INTACT_INLINE void moments(const work *k, int64_t c, double *mean, double *var) {
  const double first = plane_of(k, k->x, 0, c)[0];
  double parts[8] = {0}, squares[8] = {0};
  for (int64_t n = 0; n < k->batch; n++) {
    const float *x = plane_of(k, k->x, n, c);
    int64_t i = 0;
    for (; i + 8 <= k->plane; i += 8) {
      for (int t = 0; t < 8; t++) {
        double d = x[i + t] - first;
        parts[t] += d;
        squares[t] += d * d;
      }
    }
    for (; i < k->plane; i++) {
      double d = x[i] - first;
      parts[i % 8] += d;
      squares[i % 8] += d * d;
    }
  }
  const double d = add_parts(parts) / k->n, v = add_parts(squares) / k->n - d * d;
  *mean = first + d;
  *var = v > 0 ? v : v != v ? v : 0;
}

INTACT_INLINE channel channel_of(const work *k, int64_t c) {
  const double weight = k->weight != NULL ? (double)k->weight[c] : 1;
  channel h = {.fold = 1};
  if (k->folded) h.fold = (double)intact__fold_factor(k->weight[c], k->var[c], k->eps, k->divide);
  const double bias = k->layer_bias != NULL ? (double)k->layer_bias[c] : 0;
  if (k->training) {
    double var;
    if (k->mean_x != NULL) {
      h.shift = k->mean_x[c];
      var = k->var_x[c];
    } else {
      moments(k, c, &h.shift, &var);
    }
    h.mean = h.shift / h.fold + bias;
    h.var = var / (h.fold * h.fold);
  } else {
    h.mean = k->mean[c];
    h.var = k->var[c];
    h.shift = (h.mean - bias) * h.fold;
  }
  h.inverse = 1 / sqrt(h.var + k->eps);
  h.slope = weight * h.inverse / h.fold;
  /* With running statistics the fold takes the norm back exactly. */
  if (k->folded && !k->training && !k->divide) h.slope = weight != 0 ? 1 : 0;
  return h;
}

INTACT_WIDE static void forward_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  double n = k->n;
  for (int64_t c = begin; c < end; c++) {
    const channel h = channel_of(k, c);
    float shift = (float)h.shift, factor = (float)h.slope;
    float rest = k->bias != NULL ? k->bias[c] : 0;
    if (k->folded && !k->training) { /* one number, as convert makes the bias */
      rest = (float)((double)rest - h.shift * h.slope);
      shift = 0;
    }
    for (int64_t b = 0; b < k->batch; b++) {
      const float *x = plane_of(k, k->x, b, c);
      float *y = k->y + (x - k->x);
      for (int64_t i = 0; i < k->plane; i++) y[i] = (x[i] - shift) * factor + rest;
    }
    if (k->new_mean != NULL) k->new_mean[c] = k->training ? intact__running(k->mean[c], h.mean, k->momentum) : k->mean[c];
    if (k->new_var != NULL) k->new_var[c] = k->training ? intact__running(k->var[c], h.var * n / (n - 1), k->momentum) : k->var[c];
  }
}

static work work_of(const intact_node *node, int n_operands, const intact_tensor *const *operands) {
  const intact_tensor *x = operands[0];
  const float *given[6] = {NULL};
  const bool folded = node->op == &intact_op_folded_batch_norm;
  for (int i = 1; i < n_operands && i < 6; i++) given[i] = operands[i] != NULL ? intact__f32(operands[i]) : NULL;
  return (work){.batch = x->dims[0],
                .channels = x->dims[1],
                .plane = intact__known_product(x->dims, 2, x->rank),
                .x = intact__f32(x),
                .weight = given[1],
                .bias = given[2],
                .mean = given[3],
                .var = given[4],
                .training = intact__attr_int(node, "training") != 0,
                .folded = folded,
                .divide = folded && intact__attr_int(node, "divide") != 0,
                .layer_bias = given[5],
                .n = (double)(x->dims[0] * intact__known_product(x->dims, 2, x->rank)),
                .eps = intact__attr_float(node, "eps"),
                .momentum = intact__attr_float(node, "momentum")};
}

/* ---- a batch that several processes share ---- */

/* Mean and variance of all parts. Done before the channels are; release with unshare. */
static intact_status share(intact_context *context, work *k) {
  if (!k->training || intact_comm_size(context) < 2) return INTACT_OK;
  const size_t n = (size_t)k->channels;
  double *room = intact__alloc(context, 4 * n + 1, sizeof *room);
  if (room == NULL) return intact__no_memory(context, 4 * n * sizeof *room);
  k->mean_x = room;
  k->var_x = room + n;
  k->sums = room + 2 * n;
  k->sums_x = room + 3 * n;
  for (size_t c = 0; c < n; c++) k->mean_x[c] = sum_channel(k, (int64_t)c, 0, false);
  k->mean_x[n] = k->n; /* overwritten below */
  INTACT_TRY(intact__comm_sum_f64(context, k->mean_x, n + 1));
  k->n = k->mean_x[n];
  for (size_t c = 0; c < n; c++) k->mean_x[c] /= k->n;
  for (size_t c = 0; c < n; c++) k->var_x[c] = sum_channel(k, (int64_t)c, k->mean_x[c], true);
  INTACT_TRY(intact__comm_sum_f64(context, k->var_x, n));
  for (size_t c = 0; c < n; c++) k->var_x[c] /= k->n;
  return INTACT_OK;
}

static void unshare(intact_context *context, work *k) { intact__free(context, k->mean_x); }

static int64_t grain_of(const work *k) {
  return 16384 / (k->batch * k->plane + 1) + 1;
}

intact_status intact__batch_norm_fast(const intact_call *call) {
  intact_tensor *y[3] = {NULL, NULL, NULL};
  INTACT_TRY(intact__call_begin(call, y));
  if (call->operands[0]->count == 0) return call->node->op->eval_f32(call);
  work k = work_of(call->node, call->n_operands, call->operands);
  k.y = intact__f32(y[0]);
  k.new_mean = y[1] != NULL ? intact__f32(y[1]) : NULL;
  k.new_var = y[2] != NULL ? intact__f32(y[2]) : NULL;
  const intact_status status = share(call->context, &k);
  if (status == INTACT_OK) intact__parallel(call->context, k.channels, grain_of(&k), forward_channels, &k);
  unshare(call->context, &k);
  return status;
}

/* ---- gradient ---- */

/* Sums of dy and of dy (x - mean). */
INTACT_INLINE void gradient_sums(const work *k, int64_t c, double mean, double *sum, double *sum_x) {
  double parts[8] = {0}, parts_x[8] = {0};
  for (int64_t n = 0; n < k->batch; n++) {
    const float *x = plane_of(k, k->x, n, c), *dy = plane_of(k, k->dy, n, c);
    int64_t i = 0;
    for (; i + 8 <= k->plane; i += 8) {
      for (int t = 0; t < 8; t++) {
        parts[t] += dy[i + t];
        parts_x[t] += dy[i + t] * (x[i + t] - mean);
      }
    }
    for (; i < k->plane; i++) {
      parts[i % 8] += dy[i];
      parts_x[i % 8] += dy[i] * (x[i] - mean);
    }
  }
  *sum = add_parts(parts);
  *sum_x = add_parts(parts_x);
}

/* Gradients of gamma and of the layer's bias from the sums. A fold's own part is -sum(dz x) / f^2 by f: sums of products with z - mean
   vanish but for what eps leaves of them. */
static void parameter_gradients(const work *k, int64_t c, const channel *h, double sum, double sum_x) {
  const double n = k->n, sum_h = sum_x * h->inverse / h->fold; /* sum of dy h, h the normalised z */
  double d_weight = sum_h, d_layer_bias = k->training ? 0 : sum * (double)(k->weight != NULL ? k->weight[c] : 1) * h->inverse;
  if (k->folded && (k->weight[c] != 0 || k->divide)) {
    const double g = (double)k->weight[c] * h->inverse;
    const double dz_x = k->training ? g * sum_h * h->fold * sqrt(h->var + k->eps) * (1 - h->var * h->inverse * h->inverse)
                                    : g * (sum_x + h->shift * sum);
    d_weight -= dz_x / (h->fold * h->fold) / sqrt((double)k->var[c] + k->eps);
  }
  if (k->d_weight != NULL) k->d_weight[c] = (float)d_weight;
  if (k->d_bias != NULL) k->d_bias[c] = (float)sum;
  if (k->d_layer_bias != NULL) k->d_layer_bias[c] = n > 0 ? (float)d_layer_bias : 0;
}

INTACT_WIDE static void gradient_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  double n = k->n;
  for (int64_t c = begin; c < end; c++) {
    const channel h = channel_of(k, c);
    double sum, sum_x;
    gradient_sums(k, c, h.shift, &sum, &sum_x);
    parameter_gradients(k, c, &h, sum, sum_x); /* of this process's part: the parts' gradients are added later */
    if (k->dx == NULL) continue;
    if (k->sums != NULL) {
      sum = k->sums[c];
      sum_x = k->sums_x[c];
    }
    const double in_x = h.inverse / h.fold;
    float factor = (float)h.slope, shift = (float)h.shift;
    float mean_dy = k->training ? (float)(sum / n) : 0, slope = k->training ? (float)(sum_x / n * in_x * in_x) : 0;
    for (int64_t b = 0; b < k->batch; b++) {
      const float *x = plane_of(k, k->x, b, c), *dy = plane_of(k, k->dy, b, c);
      float *dx = k->dx + (x - k->x);
      for (int64_t i = 0; i < k->plane; i++) dx[i] = (dy[i] - mean_dy - (x[i] - shift) * slope) * factor;
    }
  }
}

static intact_status wanted(intact_grad *grad, int operand, float **values) {
  intact_tensor *d;
  *values = NULL;
  if (!intact__wants(grad, operand)) return INTACT_OK;
  INTACT_TRY(operand == 0 ? intact__grad_operand_over(grad, 0, 0, &d) : intact__grad_operand_raw(grad, operand, &d));
  *values = intact__f32(d);
  return INTACT_OK;
}

intact_status intact__batch_norm_grad_fast(intact_grad *grad) {
  if (grad->d_results[0] == NULL) return INTACT_OK;
  if (grad->operands[0]->count == 0) return grad->node->op->grad(grad);
  work k = work_of(grad->node, grad->n_operands, grad->operands);
  k.dy = intact__f32(grad->d_results[0]);
  INTACT_TRY(wanted(grad, 0, &k.dx));
  INTACT_TRY(wanted(grad, 1, &k.d_weight));
  INTACT_TRY(wanted(grad, 2, &k.d_bias));
  if (k.folded) INTACT_TRY(wanted(grad, 5, &k.d_layer_bias));
  intact_status status = share(grad->context, &k);
  if (status == INTACT_OK && k.sums != NULL) {
    for (int64_t c = 0; c < k.channels; c++) gradient_sums(&k, c, k.mean_x[c], &k.sums[c], &k.sums_x[c]);
    status = intact__comm_sum_f64(grad->context, k.sums, 2 * (size_t)k.channels);
  }
  if (status == INTACT_OK) intact__parallel(grad->context, k.channels, grain_of(&k), gradient_channels, &k);
  unshare(grad->context, &k);
  return status;
}
