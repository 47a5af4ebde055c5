/* SPDX-License-Identifier: Apache-2.0 */
/* Observers that cut the ends of a histogram: by quantile, by relative entropy, by the p-norm of the error. */
#include <float.h>

#include "quant/observers/fixed_histogram.h"

typedef struct clip_state {
  intact_observer_state base;
  intact_fixed_histogram histogram;
  double percentile, norm;
  intact_qparams_rule rule; /* of the spec: what a range would be quantized with */
  int64_t levels;
  float found_low, found_high;
} clip_state;

enum { MAX_BINS = 1 << 20 };

static intact_status create(intact_context *context, const intact_observer *row, const intact_quant_spec *spec, void **state) {
  INTACT_TRY(intact__observer_check(context, row, spec, false));
  double bins = intact__observer_option(row, spec, "bins");
  if (!(bins >= 2 && bins <= MAX_BINS))
    INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer %s: bins %g is not within 2..%d", row->name, bins, (int)MAX_BINS);
  clip_state made = {.base = {.row = row}};
  made.percentile = intact__observer_option(row, spec, "percentile");
  made.norm = intact__observer_option(row, spec, "norm");
  int64_t low = spec->quant_min, high = spec->quant_max;
  bool custom;
  INTACT_TRY(intact__quant_range(context, row->name, spec->dtype, spec->reduce_range, &low, &high, &custom));
  made.rule = intact__qparams_rule(spec->scheme, spec->dtype, low, high, custom, spec->eps);
  made.levels = high - low + 1;
  INTACT_TRY(intact__fixed_histogram_init(context, (int32_t)bins, 16, &made.histogram));
  clip_state *heap = intact__alloc(context, 1, sizeof *heap);
  if (!heap) {
    intact__fixed_histogram_fini(context, &made.histogram);
    return intact__no_memory(context, sizeof *heap);
  }
  *heap = made;
  *state = heap;
  return INTACT_OK;
}

static void destroy(intact_context *context, void *state) {
  if (state) intact__fixed_histogram_fini(context, &((clip_state *)state)->histogram);
  intact__free(context, state);
}

static intact_status update(intact_context *context, void *state, const intact_tensor *x) {
  clip_state *s = state;
  if (x->count == 0) return INTACT_OK;
  intact_tensor *values;
  INTACT_TRY(intact__observer_input(context, &s->base, x, &values));
  intact_status status = intact__fixed_histogram_add(context, &s->histogram, values, &s->base.counts.non_finite);
  intact_tensor_destroy(values);
  return status;
}

static intact_status merge(intact_context *context, void *state, const void *other) {
  clip_state *s = state;
  const clip_state *o = other;
  INTACT_TRY(intact__fixed_histogram_merge(context, &s->histogram, &o->histogram));
  s->base.counts.values += o->base.counts.values;
  s->base.counts.non_finite += o->base.counts.non_finite;
  s->base.counts.batches += o->base.counts.batches;
  return INTACT_OK;
}

/* ---- percentile ---- */

/* Value below which `share` of the counts lie, linear within its bin. */
static float quantile(const intact_fixed_histogram *h, double share) {
  double total = 0.0, below = 0.0;
  for (int32_t i = 0; i < h->bins; i++) total += h->counts[i];
  double want = share * total;
  for (int32_t i = 0; i < h->bins; i++) {
    if (below + h->counts[i] >= want && h->counts[i] > 0.0) {
      double left = (double)intact__fixed_histogram_edge(h, i), right = (double)intact__fixed_histogram_edge(h, i + 1);
      return (float)(left + (right - left) * ((want - below) / h->counts[i]));
    }
    below += h->counts[i];
  }
  return h->max;
}

static intact_status find_percentile(intact_context *context, clip_state *s) {
  (void)context;
  double tail = 1.0 - s->percentile / 100.0;
  s->found_low = tail > 0.0 ? quantile(&s->histogram, tail) : s->histogram.min;
  s->found_high = tail > 0.0 ? quantile(&s->histogram, 1.0 - tail) : s->histogram.max;
  return INTACT_OK;
}

/* ---- entropy ---- */

/* What a bin counts for that is empty but gets what was clipped: small, so that the entropy stays finite. */
static const double nothing = 1e-4;

/* Relative entropy of the counts clipped to bins first..last (what lies outside goes to the end bins) against the same counts
   averaged over `levels` steps, over bins that hold something. */
static double divergence(const intact_fixed_histogram *h, int32_t first, int32_t last, int64_t levels) {
  int64_t n = last - first + 1, steps = levels < n ? levels : n;
  double outside_low = 0.0, outside_high = 0.0, total = 0.0, kept = 0.0, sum = 0.0;
  for (int32_t i = 0; i < h->bins; i++) {
    total += h->counts[i];
    if (i < first) outside_low += h->counts[i];
    if (i > last) outside_high += h->counts[i];
    if (i >= first && i <= last) kept += h->counts[i];
  }
  if (total <= 0.0 || kept <= 0.0) return INFINITY;
  for (int64_t k = 0; k < steps; k++) {
    int64_t from = first + k * n / steps, to = first + (k + 1) * n / steps, filled = 0;
    double step_total = 0.0;
    for (int64_t i = from; i < to; i++) {
      step_total += h->counts[i];
      filled += h->counts[i] > 0.0;
    }
    for (int64_t i = from; i < to; i++) {
      double p = h->counts[i] + (i == first ? outside_low : 0.0) + (i == last ? outside_high : 0.0);
      if (p <= 0.0) continue;
      double q = h->counts[i] > 0.0 ? step_total / (double)filled : nothing;
      sum += p / total * log((p / total) / (q / kept));
    }
  }
  return sum;
}

/* What the bin of 0 counts for: no more than the bins beside it. Zeros (of relu, of padding) are exact in every range; taken at
   their number they would reward ranges so narrow that they share their step with nothing. */
static double count_of_zero(const intact_fixed_histogram *h, int32_t bin) {
  double left = bin > 0 ? h->counts[bin - 1] : 0.0, right = bin + 1 < h->bins ? h->counts[bin + 1] : 0.0;
  return fmin(h->counts[bin], fmax(left, right));
}

/* Both ends are drawn in together, in steps of 1/128 of the bins, down to as many bins as there are levels. */
static intact_status search_entropy(intact_context *context, clip_state *s) {
  const intact_fixed_histogram *h = &s->histogram;
  double least = INFINITY;
  int32_t best_first = 0, best_last = h->bins - 1, tried = 0;
  double zero = h->max > h->min ? (0.0 - (double)h->min) / ((double)h->max - (double)h->min) : 0.0; /* where 0 lies, 0..1 */
  zero = fmin(fmax(zero, 0.0), 1.0);
  for (int32_t k = 0; k < 128; k++) {
    double share = 1.0 - k / 128.0;
    int32_t first = (int32_t)floor(zero * h->bins * (1.0 - share)), last = (int32_t)ceil((zero + (1.0 - zero) * share) * h->bins) - 1;
    if (last - first + 1 < s->levels && k > 0) break;
    double d = divergence(h, first, last, s->levels);
    tried++;
    if (d < least) {
      least = d;
      best_first = first;
      best_last = last;
    }
  }
  if (tried < 2)
    intact__log(context, INTACT_LOG_WARNING, "observer entropy: %d bins leave one range to try for %lld levels; use more bins", h->bins,
                (long long)s->levels);
  s->found_low = intact__fixed_histogram_edge(h, best_first);
  s->found_high = intact__fixed_histogram_edge(h, best_last + 1);
  return INTACT_OK;
}

static intact_status find_entropy(intact_context *context, clip_state *s) {
  const intact_fixed_histogram *h = &s->histogram;
  const double width = ((double)h->max - (double)h->min) / h->bins, at = width > 0.0 ? -(double)h->min / width : -1.0;
  const int32_t bin = at >= 0.0 && at < h->bins ? (int32_t)at : -1;
  const double zeros = bin >= 0 ? h->counts[bin] : 0.0;
  if (bin >= 0) h->counts[bin] = count_of_zero(h, bin);
  const intact_status status = search_entropy(context, s);
  if (bin >= 0) h->counts[bin] = zeros;
  return status;
}

/* ---- p-norm ---- */

/* Sum over bins of count * |middle - fake_quantize(middle)|^norm, in units of the widest bin so that nothing overflows. */
static double norm_error(const clip_state *s, float low, float high) {
  const intact_fixed_histogram *h = &s->histogram;
  float scale;
  int32_t zero_point;
  intact__qparams_from_range(&s->rule, low, high, &scale, &zero_point);
  const intact_affine affine = intact__affine(scale, zero_point, s->rule.quant_min, s->rule.quant_max);
  double unit = fmax(fabs((double)h->max), fabs((double)h->min)), sum = 0.0;
  for (int32_t i = 0; i < h->bins; i++) {
    if (h->counts[i] == 0.0) continue;
    double left = (double)intact__fixed_histogram_edge(h, i), right = (double)intact__fixed_histogram_edge(h, i + 1);
    float middle = (float)(0.5 * (left + right));
    bool inside;
    double error = fabs((double)middle - (double)intact__fake_quantize_one(middle, &affine, &inside)) / (unit > 0.0 ? unit : 1.0);
    sum += h->counts[i] * (s->norm == 2.0 ? error * error : pow(error, s->norm));
  }
  return sum;
}

/* Scales both ends together, then each end alone, coarse to fine. */
static intact_status find_error(intact_context *context, clip_state *s) {
  (void)context;
  const intact_fixed_histogram *h = &s->histogram;
  double low = 1.0, high = 1.0, least = norm_error(s, h->min, h->max);
  for (int k = 1; k < 100; k++) {
    double share = 1.0 - k / 100.0, error = norm_error(s, (float)(h->min * share), (float)(h->max * share));
    if (error < least) {
      least = error;
      low = high = share;
    }
  }
  for (double step = 0.08; step > 0.004; step /= 2) {
    for (int move = 0; move < 4; move++) {
      double l = low + (move == 0 ? -step : move == 1 ? step : 0.0), r = high + (move == 2 ? -step : move == 3 ? step : 0.0);
      if (l < 0.0 || l > 1.0 || r < 0.0 || r > 1.0 || (l == 0.0 && r == 0.0)) continue;
      double error = norm_error(s, (float)(h->min * l), (float)(h->max * r));
      if (error < least) {
        least = error;
        low = l;
        high = r;
        move = -1; /* again from here */
      }
    }
  }
  s->found_low = (float)(h->min * low);
  s->found_high = (float)(h->max * high);
  return INTACT_OK;
}

/* ---- rows ---- */

typedef intact_status (*range_fn)(intact_context *context, clip_state *state);

static intact_status range_by(intact_context *context, void *state, intact_observer_range *result, range_fn find) {
  clip_state *s = state;
  *result = (intact_observer_range){0, &s->found_low, &s->found_high};
  if (intact__fixed_histogram_empty(&s->histogram)) return INTACT_OK;
  if (s->histogram.min == s->histogram.max) { /* a constant: nothing to cut */
    s->found_low = s->histogram.min;
    s->found_high = s->histogram.max;
  } else {
    INTACT_TRY(find(context, s));
  }
  result->n = 1;
  return INTACT_OK;
}

static intact_status qparams_by(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                                intact_qparams **result, range_fn find) {
  intact_observer_range range;
  INTACT_TRY(range_by(context, state, &range, find));
  return intact__range_qparams(context, spec, range.n, range.low, range.high, arena, result);
}

static intact_status save(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  const clip_state *s = state;
  INTACT_TRY(intact__fixed_histogram_save(context, &s->histogram, prefix, set));
  return intact__observer_save_counts(context, &s->base, prefix, set);
}

static intact_status load(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  clip_state *s = state;
  INTACT_TRY(intact__fixed_histogram_load(context, &s->histogram, prefix, set));
  return intact__observer_load_counts(context, &s->base, prefix, set);
}

#define INTACT_CLIP_ROW(row_name, text, options_text, find)                                                               \
  static intact_status range_##row_name(intact_context *context, void *state, intact_observer_range *result) {            \
    return range_by(context, state, result, find);                                                                        \
  }                                                                                                                       \
  static intact_status qparams_##row_name(intact_context *context, void *state, const intact_quant_spec *spec,            \
                                          intact_arena *arena, intact_qparams **result) {                                 \
    return qparams_by(context, state, spec, arena, result, find);                                                         \
  }                                                                                                                       \
  const intact_observer intact_observer_##row_name = {.name = #row_name,                                                  \
                                                      .doc = text,                                                        \
                                                      .options = options_text,                                            \
                                                      .per_channel = false,                                               \
                                                      .create = create_##row_name,                                        \
                                                      .destroy = destroy,                                                 \
                                                      .update = update,                                                   \
                                                      .merge = merge,                                                     \
                                                      .range = range_##row_name,                                          \
                                                      .qparams = qparams_##row_name,                                      \
                                                      .counts = intact__observer_counts,                                  \
                                                      .save = save,                                                       \
                                                      .load = load};

static intact_status create_percentile(intact_context *context, const intact_quant_spec *spec, void **state) {
  double percentile = intact__observer_option(&intact_observer_percentile, spec, "percentile");
  if (!(percentile > 50.0 && percentile <= 100.0))
    INTACT_FAIL(context, OUT_OF_RANGE, "percentile", "observer percentile: %g is not above 50 and at most 100", percentile);
  return create(context, &intact_observer_percentile, spec, state);
}
static intact_status create_entropy(intact_context *context, const intact_quant_spec *spec, void **state) {
  return create(context, &intact_observer_entropy, spec, state);
}
static intact_status create_mse(intact_context *context, const intact_quant_spec *spec, void **state) {
  double norm = intact__observer_option(&intact_observer_mse, spec, "norm");
  if (!(norm > 0.0 && norm <= 8.0))
    INTACT_FAIL(context, OUT_OF_RANGE, "mse", "observer mse: norm %g is not above 0 and at most 8", norm);
  return create(context, &intact_observer_mse, spec, state);
}

INTACT_CLIP_ROW(percentile, "Range between the quantiles 100 - percentile and percentile of the values.", "percentile=99.99,bins=2048",
                find_percentile)
INTACT_CLIP_ROW(entropy, "Range whose quantized distribution has the smallest relative entropy to the clipped one.", "bins=2048",
                find_entropy)
INTACT_CLIP_ROW(mse, "Range with the smallest sum of |x - quantized x|^norm: norm 2 is the mean squared error.", "norm=2,bins=2048",
                find_error)
