/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of batch_norm, folded_batch_norm and folded_batch_norm_fake_quantize, forward and gradient: channel by channel on the
   context's threads, whole planes at a time. Sums are of double, in eight parts that are added in a fixed order. A folded norm sees
   z = x / f + layer bias, which is never made: its mean and variance follow from those of x. Where processes share a batch, statistics
   and sums are those of all its parts. */
#include <math.h>
#include <string.h>

#include "base/comm.h"
#include "graph/fake_quantizer.h"
#include "kernels/moments/moments.h"
#include "ops/fast.h"
#include "ops/folded.h"
#include "ops/layer.h"
#include "ops/wide.h"

enum { BLOCK = 4096 }; /* elements that stay in the nearest cache from one pass to the next */

/* What one channel does: y = (x - shift) * slope + rest. */
typedef struct channel {
  double mean, var;      /* of z, what the norm sees */
  double shift, inverse; /* in x: where z is the mean; 1 / sqrt(var + eps) */
  double fold, slope;    /* f (1 when not folded); dy / dx with statistics that stay */
  float offset, factor, rest; /* y = (x - offset) * factor + rest in float32 */
  bool ranged;           /* the range is known */
  intact_min_max range;  /* of x */
} channel;

typedef struct work {
  int64_t batch, channels, plane;
  const float *x, *dy, *weight, *bias, *mean, *var; /* weight, bias NULL: 1 and 0; mean, var: the running ones */
  const float *layer_bias;                          /* of a folded norm; NULL: 0 */
  bool training, folded, divide, fakes, observes;   /* fakes: the result is clamped to low..high and fake-quantized */
  bool masked;                                      /* dy has gone through that */
  double eps, momentum, n;                          /* n: elements per channel, over all processes */
  double *shared;                /* a shared batch: room for what its parts exchange. NULL: not shared */
  double *own, *all_sums;        /* in it, 2 each for every channel: sums of dy and dy x of this part, and of all */
  intact_min_max *ranges;        /* of x by channel where the statistics came before; NULL: not there */
  float low, high;
  uint32_t isa_set;
  const intact_moments_kernel *kernel;
  intact_affine affine;          /* of fakes */
  channel *all;                  /* of fakes: the channels, made before */
  const double *saved_mean, *saved_var; /* of x, from the forward; NULL: not there */
  float *y, *new_mean, *new_var; /* forward */
  double *save_mean, *save_var;
  float *dx, *d_weight, *d_bias, *d_layer_bias; /* gradient; NULL: not wanted */
} work;

static const float *plane_of(const work *k, const float *values, int64_t n, int64_t c) {
  return values + (n * k->channels + c) * k->plane;
}

/* The planes of channel c from image `first` on: how many lie in one block, at least one. */
static intact_runs planes_of(const work *k, int64_t first) {
  const int64_t left = k->batch - first, fit = BLOCK / k->plane;
  return (intact_runs){fit >= left ? left : fit > 1 ? fit : 1, k->channels * k->plane, k->plane};
}

static intact_runs all_planes(const work *k) { return (intact_runs){k->batch, k->channels * k->plane, k->plane}; }

static intact_moments moments_of(const work *k, int64_t c, double origin) {
  intact_moments m = {{0}, {0}, {0}, {0}};
  const intact_runs runs = all_planes(k);
  for (int i = 0; i < INTACT_PARTS; i++) m.low[i] = INFINITY, m.high[i] = -INFINITY;
  k->kernel->moments(plane_of(k, k->x, 0, c), &runs, origin, &m);
  return m;
}

/* The range of x in channel c. Squares that add up to something finite are those of finite values. */
static intact_min_max range_of_channel(const work *k, int64_t c, const intact_moments *m) {
  intact_min_max range = INTACT_MIN_MAX_START;
  if (m == NULL || !isfinite(intact__moment(m->square))) {
    for (int64_t b = 0; b < k->batch; b++) intact__min_max_array(k->isa_set, plane_of(k, k->x, b, c), k->plane, &range);
    return range;
  }
  for (int i = 0; i < INTACT_PARTS; i++) {
    const intact_min_max part = {m->low[i] + 0.0f, m->high[i] + 0.0f, 0};
    intact__min_max_join(&range, &part);
  }
  return range;
}

/* Mean and variance of x in the channel in one pass: distances are taken from its first element, so that nothing large cancels. */
static void batch_statistics(const work *k, int64_t c, double *mean, double *var, channel *h) {
  const double origin = plane_of(k, k->x, 0, c)[0], n = (double)(k->batch * k->plane);
  const intact_moments m = moments_of(k, c, origin);
  const double gap = intact__moment(m.sum) / n, var_here = intact__moment(m.square) / n - gap * gap;
  *mean = origin + gap;
  *var = var_here > 0 ? var_here : var_here < 0 ? 0 : var_here; /* NaN stays */
  h->ranged = k->observes;
  if (k->observes) h->range = range_of_channel(k, c, &m);
}

static channel channel_of(const work *k, int64_t c) {
  const double weight = k->weight != NULL ? (double)k->weight[c] : 1, beta = k->bias != NULL ? (double)k->bias[c] : 0;
  const double bias = k->layer_bias != NULL ? (double)k->layer_bias[c] : 0;
  channel h = {.fold = 1, .range = INTACT_MIN_MAX_START};
  if (k->folded) h.fold = (double)intact__fold_factor(k->weight[c], k->var[c], k->eps, k->divide);
  if (k->training) {
    double var;
    if (k->saved_mean != NULL) {
      h.shift = k->saved_mean[c];
      var = k->saved_var[c];
    } else {
      batch_statistics(k, c, &h.shift, &var, &h);
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
  h.offset = (float)h.shift;
  h.factor = (float)h.slope;
  h.rest = (float)(beta + ((double)h.offset - h.shift) * h.slope); /* what rounding the offset moves */
  if (k->folded && !k->training) { /* one number, as convert makes the bias */
    h.rest = (float)(beta - h.shift * h.slope);
    h.offset = 0;
  }
  return h;
}

INTACT_WIDE static void apply(const float *x, float *y, int64_t n, float offset, float factor, float rest) {
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - offset) * factor + rest;
}

static void put_statistics(const work *k, int64_t c, const channel *h) {
  const double n = k->n;
  if (k->new_mean != NULL) k->new_mean[c] = k->training ? intact__running(k->mean[c], h->mean, k->momentum) : k->mean[c];
  if (k->new_var != NULL) k->new_var[c] = k->training ? intact__running(k->var[c], h->var * n / (n - 1), k->momentum) : k->var[c];
  if (k->save_mean != NULL) k->save_mean[c] = h->shift;
  if (k->save_var != NULL) k->save_var[c] = h->var * (h->fold * h->fold);
}

static void forward_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  for (int64_t c = begin; c < end; c++) {
    const channel h = channel_of(k, c);
    for (int64_t b = 0; b < k->batch; b++) {
      const float *x = plane_of(k, k->x, b, c);
      apply(x, k->y + (x - k->x), k->plane, h.offset, h.factor, h.rest);
    }
    put_statistics(k, c, &h);
  }
}

/* ---- with fake quantization ---- */

/* Statistics and the range of every channel. */
static void observe_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  for (int64_t c = begin; c < end; c++) {
    k->all[c] = channel_of(k, c);
    put_statistics(k, c, &k->all[c]);
    if (k->observes && !k->all[c].ranged) k->all[c].range = k->ranges != NULL ? k->ranges[c] : range_of_channel(k, c, NULL);
  }
}

static float applied(const channel *h, float x) { return (x - h->offset) * h->factor + h->rest; }
static float clamped(const work *k, float y) { return fminf(fmaxf(y, k->low), k->high); }

/* The range of the clamped results: a channel is monotone, so its ends are those of x. */
static intact_min_max range_of(const work *k) {
  intact_min_max all = INTACT_MIN_MAX_START;
  for (int64_t c = 0; c < k->channels; c++) {
    const channel *h = &k->all[c];
    all.non_finite += h->range.non_finite;
    if (!(h->range.low <= h->range.high)) continue;
    const float a = clamped(k, applied(h, h->range.low)), b = clamped(k, applied(h, h->range.high));
    if (!isfinite(a) || !isfinite(b)) {
      all.non_finite += k->batch * k->plane;
      continue;
    }
    const intact_min_max one = {fminf(a, b) + 0.0f, fmaxf(a, b) + 0.0f, 0};
    intact__min_max_join(&all, &one);
  }
  return all;
}

static intact_line line_of(const channel *h) { return (intact_line){h->offset, h->factor, h->rest}; }

static void quantize_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const intact_affine p = intact__affine_clamped(&k->affine, k->low, k->high);
  const intact_runs runs = all_planes(k);
  for (int64_t c = begin; c < end; c++) {
    const intact_line line = line_of(&k->all[c]);
    const float *x = plane_of(k, k->x, 0, c);
    intact__line_fake_quantize(k->isa_set, x, k->y + (x - k->x), &runs, &line, &p);
  }
}

/* For the fake quantizer: results first .. first + n before clamp and fake quantization. */
static void make_results(const void *user, int64_t first, int64_t n, float *z) {
  const work *k = user;
  for (int64_t done = 0, take; done < n; done += take) {
    const int64_t at = first + done, left = k->plane - at % k->plane;
    const channel *h = &k->all[at / k->plane % k->channels];
    take = left < n - done ? left : n - done;
    apply(k->x + at, z + done, take, h->offset, h->factor, h->rest);
  }
}

/* ---- calls ---- */

static work work_of(const intact_node *node, int n_operands, const intact_tensor *const *operands) {
  const intact_tensor *x = operands[0];
  const float *given[6] = {NULL};
  const bool fakes = node->op == &intact_op_folded_batch_norm_fake_quantize, folded = fakes || node->op == &intact_op_folded_batch_norm;
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
                .fakes = fakes,
                .observes = fakes && intact__attr_int(node, "observe") != 0,
                .low = fakes ? (float)intact__attr_float(node, "low") : -INFINITY,
                .high = fakes ? (float)intact__attr_float(node, "high") : INFINITY,
                .divide = folded && intact__attr_int(node, "divide") != 0,
                .layer_bias = given[5],
                .isa_set = intact__isa_set(node->graph->context),
                .kernel = intact__moments_pick(intact__isa_set(node->graph->context)),
                .n = (double)(x->dims[0] * intact__known_product(x->dims, 2, x->rank)),
                .eps = intact__attr_float(node, "eps"),
                .momentum = intact__attr_float(node, "momentum")};
}

/* ---- a batch that several processes share ---- */

static int64_t grain_of(const work *k) { return 16384 / (k->batch * k->plane + 1) + 1; }

/* Mean and variance of this part, 2 for every channel, and ranges. */
static void part_statistics(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  for (int64_t c = begin; c < end; c++) {
    channel h;
    batch_statistics(k, c, &k->own[2 * c], &k->own[2 * c + 1], &h);
    if (k->ranges != NULL) k->ranges[c] = h.range;
  }
}

/* One channel's mean and variance of all parts from theirs, of n elements in all: what is between the parts adds to what is within.
   parts: [processes][1 + 2 channels], first a part's own n. */
static void join_statistics(const work *k, const double *parts, int n_parts, int64_t c, double *mean, double *var) {
  const int64_t width = 1 + 2 * k->channels;
  double sum = 0, squares = 0;
  for (int i = 0; i < n_parts; i++) sum += parts[i * width] * parts[i * width + 1 + 2 * c];
  *mean = sum / k->n;
  for (int i = 0; i < n_parts; i++) {
    const double *part = parts + i * width, gap = part[1 + 2 * c] - *mean;
    squares += part[0] * (part[2 + 2 * c] + gap * gap);
  }
  *var = squares / k->n;
}

static bool is_shared(intact_context *context, const work *k) { return k->training && intact_comm_size(context) > 1; }

/* Forward: mean and variance of all parts, before the channels are worked on. Release with unshare. */
static intact_status share_statistics(intact_context *context, work *k) {
  if (!is_shared(context, k)) return INTACT_OK;
  const int n_parts = intact_comm_size(context);
  const size_t n = (size_t)k->channels, width = 1 + 2 * n;
  double *room = k->shared = intact__alloc(context, ((size_t)n_parts + 1) * width + 2 * n, sizeof *room);
  if (k->observes) k->ranges = intact__alloc(context, n, sizeof *k->ranges);
  if (room == NULL || (k->observes && k->ranges == NULL)) return intact__no_memory(context, ((size_t)n_parts + 2) * width * sizeof *room);
  double *mine = room + 2 * n, *parts = mine + width;
  mine[0] = k->n;
  k->own = mine + 1;
  intact__parallel(context, k->channels, grain_of(k), part_statistics, k);
  INTACT_TRY(intact__comm_gather(context, mine, width * sizeof *mine, parts));
  k->n = 0;
  for (int i = 0; i < n_parts; i++) k->n += parts[(size_t)i * width];
  for (size_t c = 0; c < n; c++) join_statistics(k, parts, n_parts, (int64_t)c, &room[c], &room[n + c]);
  k->saved_mean = room;
  k->saved_var = room + n;
  return INTACT_OK;
}

static void unshare(intact_context *context, work *k) {
  intact__free(context, k->shared);
  intact__free(context, k->ranges);
}

/* ---- forward ---- */

static intact_status forward_fakes(const intact_call *call, work *k) {
  intact_observation *observation = call->node->observation;
  k->all = intact__alloc(call->context, (size_t)k->channels, sizeof *k->all);
  if (k->all == NULL) return intact__no_memory(call->context, (size_t)k->channels * sizeof *k->all);
  intact__parallel(call->context, k->channels, grain_of(k), observe_channels, k);
  const intact_min_max range = range_of(k);
  const intact_made_values made = {make_results, k, k->channels * k->batch * k->plane};
  const intact_status status =
      intact__fake_quantizer_by_range(observation, k->observes ? &range : NULL, &made, k->low, k->high, &k->affine);
  if (status == INTACT_OK) intact__parallel(call->context, k->channels, grain_of(k), quantize_channels, k);
  intact__free(call->context, k->all);
  return status;
}

intact_status intact__batch_norm_fast(const intact_call *call) {
  intact_tensor *y[5] = {NULL};
  INTACT_TRY(intact__call_begin(call, y));
  if (call->operands[0]->count == 0) return call->node->op->eval_f32(call);
  work k = work_of(call->node, call->n_operands, call->operands);
  if (k.fakes && (call->node->observation == NULL || !intact__fake_quantizer_fuses(call->node->observation)))
    return call->node->op->eval_f32(call);
  k.y = intact__f32(y[0]);
  k.new_mean = y[1] != NULL ? intact__f32(y[1]) : NULL;
  k.new_var = y[2] != NULL ? intact__f32(y[2]) : NULL;
  k.save_mean = y[3] != NULL ? y[3]->data : NULL;
  k.save_var = y[4] != NULL ? y[4]->data : NULL;
  intact_status status = share_statistics(call->context, &k);
  if (status == INTACT_OK && k.fakes) status = forward_fakes(call, &k);
  if (status == INTACT_OK && !k.fakes) intact__parallel(call->context, k.channels, grain_of(&k), forward_channels, &k);
  unshare(call->context, &k);
  return status;
}

/* ---- gradient ---- */

/* Sums of dy and of dy (x - shift). Where the result was fake-quantized, dy first goes through that and the clamp, into dx: nothing
   flows where they cut. */
static void gradient_sums(const work *k, int64_t c, const channel *h, double *sums) {
  intact_products m = {{0}, {0}};
  const intact_line line = line_of(h);
  intact_runs runs = all_planes(k);
  for (int64_t b = 0; b < k->batch; b += runs.n) {
    const float *x = plane_of(k, k->x, b, c), *dy = plane_of(k, k->dy, b, c);
    if (k->fakes && !k->masked) {
      float *dx = k->dx + (x - k->x);
      runs = planes_of(k, b);
      intact__line_fake_quantize_grad(k->isa_set, x, dy, dx, &runs, &line, &k->affine, k->low, k->high);
      dy = dx;
    }
    k->kernel->products(x, dy, &runs, h->shift, &m);
  }
  sums[0] = intact__moment(m.sum);
  sums[1] = intact__moment(m.product);
}

/* Gradients of gamma and of the layer's bias from the sums. A fold's own part is -sum(dz x) / f^2 by f: sums of products with z - mean
   vanish but for what eps leaves of them. */
static void parameter_gradients(const work *k, int64_t c, const channel *h, const double *sums) {
  const double sum = sums[0], sum_x = sums[1];
  const double sum_h = sum_x * h->inverse / h->fold; /* sum of dy h, h the normalised z */
  double d_weight = sum_h, d_layer_bias = sum * (double)(k->weight != NULL ? k->weight[c] : 1) * h->inverse;
  if (k->training) d_layer_bias = isnan(sum_h) ? sum_h : 0; /* behind a division by a weight of 0 all is NaN */
  if (k->folded && (k->weight[c] != 0 || k->divide)) {
    const double g = (double)k->weight[c] * h->inverse;
    const double dz_x = k->training ? g * sum_h * h->fold * sqrt(h->var + k->eps) * (1 - h->var * h->inverse * h->inverse)
                                    : g * (sum_x + h->shift * sum);
    d_weight -= dz_x / (h->fold * h->fold) / sqrt((double)k->var[c] + k->eps);
  }
  if (k->d_weight != NULL) k->d_weight[c] = (float)d_weight;
  if (k->d_bias != NULL) k->d_bias[c] = (float)sum;
  if (k->d_layer_bias != NULL) k->d_layer_bias[c] = (float)d_layer_bias;
}

INTACT_WIDE static void pull_back(const float *x, const float *dy, float *dx, int64_t n, float mean_dy, float shift, float slope, float factor) {
  for (int64_t i = 0; i < n; i++) dx[i] = (dy[i] - mean_dy - (x[i] - shift) * slope) * factor;
}

/* The same where dx holds dy. */
INTACT_WIDE static void pull_back_here(const float *x, float *dx, int64_t n, float mean_dy, float shift, float slope, float factor) {
  for (int64_t i = 0; i < n; i++) dx[i] = (dx[i] - mean_dy - (x[i] - shift) * slope) * factor;
}

static void gradient_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  const float *dy = k->fakes ? k->dx : k->dy;
  for (int64_t c = begin; c < end; c++) {
    const channel h = channel_of(k, c);
    double own[2];
    if (k->shared == NULL) gradient_sums(k, c, &h, own);
    const double *sums = k->shared != NULL ? k->all_sums + 2 * c : own;
    parameter_gradients(k, c, &h, k->shared != NULL ? k->own + 2 * c : own); /* the parts' gradients are added later */
    if (k->dx == NULL) continue;
    const double in_x = h.inverse / h.fold;
    const double steep = k->training ? sums[1] / k->n * in_x * in_x : 0;
    const float shift = (float)h.shift, slope = (float)steep; /* what rounding the shift moves is taken back with the mean */
    const float mean_dy = k->training ? (float)(sums[0] / k->n + ((double)shift - h.shift) * steep) : 0;
    for (int64_t b = 0; b < k->batch; b++) {
      const float *x = plane_of(k, k->x, b, c);
      float *dx = k->dx + (x - k->x);
      if (dy == k->dx)
        pull_back_here(x, dx, k->plane, mean_dy, shift, slope, h.factor);
      else
        pull_back(x, plane_of(k, dy, b, c), dx, k->plane, mean_dy, shift, slope, h.factor);
    }
  }
}

static void sum_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  for (int64_t c = begin; c < end; c++) {
    const channel h = channel_of(k, c);
    gradient_sums(k, c, &h, k->own + 2 * c);
  }
}

/* ---- learned qparams: their sums go through the whole tensor in order, so that dy is masked before the channels are looked at ---- */

static void find_channels(void *user, int64_t begin, int64_t end) {
  const work *k = user;
  for (int64_t c = begin; c < end; c++) k->all[c] = channel_of(k, c);
}

static intact_status mask_learned(intact_grad *grad, work *k) {
  intact_tensor *d[2] = {NULL, NULL};
  const intact_made_values made = {make_results, k, grad->operands[0]->count};
  k->all = intact__alloc(grad->context, (size_t)k->channels, sizeof *k->all);
  if (k->all == NULL) return intact__no_memory(grad->context, (size_t)k->channels * sizeof *k->all);
  intact__parallel(grad->context, k->channels, grain_of(k), find_channels, k);
  intact_status status =
      intact__fake_quantizer_backward_made(grad->node->observation, &made, k->dy, k->low, k->high, k->dx, &d[0], &d[1]);
  intact__free(grad->context, k->all);
  for (int i = 0; i < 2; i++) {
    const intact_status given = intact__grad_give(grad, 6 + i, d[i]);
    if (status == INTACT_OK) status = given;
  }
  k->masked = true;
  k->dy = k->dx;
  return status;
}

/* Backward: n and the sums of all parts, before the channels are worked on. Release with unshare. */
static intact_status share_sums(intact_context *context, work *k) {
  if (!is_shared(context, k)) return INTACT_OK;
  const size_t n = 2 * (size_t)k->channels;
  double *room = k->shared = intact__alloc(context, 2 * n + 1, sizeof *room);
  if (room == NULL) return intact__no_memory(context, 2 * n * sizeof *room);
  k->own = room;
  k->all_sums = room + n;
  intact__parallel(context, k->channels, grain_of(k), sum_channels, k);
  memcpy(k->all_sums, k->own, n * sizeof *room);
  k->all_sums[n] = k->n;
  INTACT_TRY(intact__comm_sum_f64(context, k->all_sums, n + 1));
  k->n = k->all_sums[n];
  return INTACT_OK;
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
  if (k.fakes) {
    if (grad->node->observation == NULL || !intact__fake_quantizer_fuses(grad->node->observation)) return grad->node->op->grad(grad);
    k.affine = intact__fake_quantizer_affine(grad->node->observation);
  }
  k.dy = intact__f32(grad->d_results[0]);
  if (grad->n_results > 4) {
    k.saved_mean = grad->results[3]->data;
    k.saved_var = grad->results[4]->data;
  }
  INTACT_TRY(wanted(grad, 0, &k.dx));
  INTACT_TRY(wanted(grad, 1, &k.d_weight));
  INTACT_TRY(wanted(grad, 2, &k.d_bias));
  if (k.folded) INTACT_TRY(wanted(grad, 5, &k.d_layer_bias));
  float *room = k.fakes && k.dx == NULL ? intact__alloc(grad->context, (size_t)grad->operands[0]->count, sizeof *room) : NULL;
  if (room != NULL) k.dx = room;
  intact_status status = k.fakes && k.dx == NULL ? intact__no_memory(grad->context, 0) : INTACT_OK;
  if (status == INTACT_OK && k.fakes && intact__fake_quantizer_is_learned(grad->node->observation)) status = mask_learned(grad, &k);
  if (status == INTACT_OK) status = share_sums(grad->context, &k);
  if (status == INTACT_OK) intact__parallel(grad->context, k.channels, grain_of(&k), gradient_channels, &k);
  unshare(grad->context, &k);
  intact__free(grad->context, room);
  return status;
}
