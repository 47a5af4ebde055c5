/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of batch_norm, forward and gradient: channel by channel on the context's threads, whole planes at a time.
   Sums are of double, in eight parts that are added in a fixed order. */
#include <math.h>

#include "ops/fast.h"
#include "ops/layer.h"

typedef struct work {
  int64_t batch, channels, plane;
  const float *x, *dy, *weight, *bias, *mean, *var; /* weight, bias NULL: 1 and 0; mean, var: the running ones */
  bool training;
  double eps, momentum;
  float *y, *new_mean, *new_var; /* forward */
  float *dx, *d_weight, *d_bias; /* gradient; NULL: not wanted */
} work;

static const float *plane_of(const work *k, const float *values, int64_t n, int64_t c) {
  return values + (n * k->channels + c) * k->plane;
}

static double add_parts(const double *parts) {
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

/* Sum of x - shift, or of its square. */
static double sum_channel(const work *k, int64_t c, double shift, bool square) {
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

static void channel_statistics(const work *k, int64_t c, double *mean, double *var) {
  double n = (double)(k->batch * k->plane);
  if (!k->training) {
    *mean = k->mean[c];
    *var = k->var[c];
    return;
  }
  *mean = sum_channel(k, c, 0, false) / n;
  *var = sum_channel(k, c, *mean, true) / n;
}

static void forward_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  double n = (double)(k->batch * k->plane);
  for (int64_t c = begin; c < end; c++) {
    double mean, var;
    channel_statistics(k, c, &mean, &var);
    float shift = (float)mean, factor = (float)((k->weight != NULL ? k->weight[c] : 1) / sqrt(var + k->eps));
    float rest = k->bias != NULL ? k->bias[c] : 0;
    for (int64_t b = 0; b < k->batch; b++) {
      const float *x = plane_of(k, k->x, b, c);
      float *y = k->y + (x - k->x);
      for (int64_t i = 0; i < k->plane; i++) y[i] = (x[i] - shift) * factor + rest;
    }
    double keep = k->training ? 1 - k->momentum : 1, take = k->training ? k->momentum : 0;
    if (k->new_mean != NULL) k->new_mean[c] = take == 0 ? k->mean[c] : (float)(keep * k->mean[c] + take * mean);
    if (k->new_var != NULL) k->new_var[c] = take == 0 ? k->var[c] : (float)(keep * k->var[c] + take * (var * n / (n - 1)));
  }
}

static work work_of(const intact_node *node, int n_operands, const intact_tensor *const *operands) {
  const intact_tensor *x = operands[0];
  const float *given[5] = {NULL};
  for (int i = 1; i < n_operands && i < 5; i++) given[i] = operands[i] != NULL ? intact__f32(operands[i]) : NULL;
  return (work){.batch = x->dims[0],
                .channels = x->dims[1],
                .plane = intact__known_product(x->dims, 2, x->rank),
                .x = intact__f32(x),
                .weight = given[1],
                .bias = given[2],
                .mean = given[3],
                .var = given[4],
                .training = intact__attr_int(node, "training") != 0,
                .eps = intact__attr_float(node, "eps"),
                .momentum = intact__attr_float(node, "momentum")};
}

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
  intact__parallel(call->context, k.channels, grain_of(&k), forward_channels, &k);
  return INTACT_OK;
}

/* ---- gradient ---- */

/* Sums of dy and of dy (x - mean). */
static void gradient_sums(const work *k, int64_t c, double mean, double *sum, double *sum_x) {
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

static void gradient_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  double n = (double)(k->batch * k->plane);
  for (int64_t c = begin; c < end; c++) {
    double mean, var, sum, sum_x;
    channel_statistics(k, c, &mean, &var);
    gradient_sums(k, c, mean, &sum, &sum_x);
    double inverse = 1 / sqrt(var + k->eps);
    if (k->d_weight != NULL) k->d_weight[c] = (float)(sum_x * inverse);
    if (k->d_bias != NULL) k->d_bias[c] = (float)sum;
    if (k->dx == NULL) continue;
    float factor = (float)((k->weight != NULL ? k->weight[c] : 1) * inverse), shift = (float)mean;
    float mean_dy = k->training ? (float)(sum / n) : 0, slope = k->training ? (float)(sum_x / n * inverse * inverse) : 0;
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
  INTACT_TRY(intact__grad_operand(grad, operand, &d));
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
  intact__parallel(grad->context, k.channels, grain_of(&k), gradient_channels, &k);
  return INTACT_OK;
}
