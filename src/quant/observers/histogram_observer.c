/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's HistogramObserver: the range with the smallest squared quantization error, by its non-linear search. */
#include <string.h>

#include "quant/observers/fixed_histogram.h"

typedef struct histogram_state {
  intact_observer_state base;
  intact_fixed_histogram histogram;
  int64_t levels; /* integers of the type: 2^bits */
  float found_low, found_high;
} histogram_state;

enum { MAX_BINS = 1 << 20, MAX_UPSAMPLE = 1024 };

static intact_status create(intact_context *context, const intact_quant_spec *spec, void **state) {
  const intact_observer *row = &intact_observer_histogram;
  INTACT_TRY(intact__observer_check(context, row, spec, false));
  double bins = intact__observer_option(row, spec, "bins"), rate = intact__observer_option(row, spec, "upsample_rate");
  if (!(bins >= 1 && bins <= MAX_BINS && rate >= 1 && rate <= MAX_UPSAMPLE))
    INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer histogram: bins %g must be 1..%d and upsample_rate %g 1..%d", bins,
                (int)MAX_BINS, rate, (int)MAX_UPSAMPLE);
  histogram_state *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  made->base.row = row;
  made->levels = INT64_C(1) << intact_dtype_bits(spec->dtype);
  intact_status status = intact__fixed_histogram_init(context, (int32_t)bins, (int32_t)rate, &made->histogram);
  if (status != INTACT_OK) {
    intact__free(context, made);
    return status;
  }
  *state = made;
  return INTACT_OK;
}

static void destroy(intact_context *context, void *state) {
  if (state) intact__fixed_histogram_fini(context, &((histogram_state *)state)->histogram);
  intact__free(context, state);
}

static intact_status update(intact_context *context, void *state, const intact_tensor *x) {
  histogram_state *s = state;
  if (x->count == 0) return INTACT_OK;
  intact_tensor *values;
  INTACT_TRY(intact__observer_input(context, &s->base, x, &values));
  intact_status status = intact__fixed_histogram_add(context, &s->histogram, values, &s->base.counts.non_finite);
  intact_tensor_destroy(values);
  return status;
}

static intact_status merge(intact_context *context, void *state, const void *other) {
  histogram_state *s = state;
  const histogram_state *o = other;
  INTACT_TRY(intact__fixed_histogram_merge(context, &s->histogram, &o->histogram));
  s->base.counts.values += o->base.counts.values;
  s->base.counts.non_finite += o->base.counts.non_finite;
  s->base.counts.batches += o->base.counts.batches;
  return INTACT_OK;
}

/* density * integral of t^2 over low..high */
static double moment(double low, double high, double density) {
  return density * (high * high * high - low * low * low) / 3.0;
}

/* Squared error of quantizing the histogram with `levels` steps over bins first..last, in units of a bin's width (the search
   only compares): each source bin is spread evenly; its parts round to the centers of the steps that they lie in. */
static double search_error(const histogram_state *s, int64_t first, int64_t last) {
  double step = (double)(last - first + 1) / (double)s->levels, top = (double)(s->levels - 1), error = 0.0;
  double whole = moment(-step / 2, step / 2, 1.0);
  for (int64_t i = 0; i < s->histogram.bins; i++) {
    double density = s->histogram.counts[i];
    if (density == 0.0) continue;
    double begin = (double)(i - first), end = begin + 1.0;
    double of_begin = fmin(fmax(floor(begin / step), 0.0), top), of_end = fmin(fmax(floor(end / step), 0.0), top);
    error += moment(begin - (of_begin + 0.5) * step, step / 2, density) + (of_end - of_begin - 1.0) * density * whole +
             moment(-step / 2, end - (of_end * step + step / 2), density);
  }
  return error;
}

/* Cuts the ends bin by bin in quantile steps of 1e-5, always on the side where more bins go, until the error grows. */
static intact_status search(intact_context *context, histogram_state *s) {
  const intact_fixed_histogram *h = &s->histogram;
  float *cumulative = intact__alloc(context, (size_t)h->bins, sizeof *cumulative);
  if (!cumulative) return intact__no_memory(context, (size_t)h->bins * sizeof *cumulative);
  double sum = 0.0;
  for (int32_t i = 0; i < h->bins; i++) cumulative[i] = (float)(sum += h->counts[i]);
  double total = (float)sum, alpha = 0.0, beta = 1.0, least = INFINITY;
  int64_t start = 0, end = h->bins - 1;
  while (alpha < beta) {
    double next_alpha = alpha + 1e-5, next_beta = beta - 1e-5;
    int64_t left = start, right = end, next_start = start, next_end = end;
    while (left < end && cumulative[left] < (float)(next_alpha * total)) left++;
    while (right > start && cumulative[right] > (float)(next_beta * total)) right--;
    if (left - start > end - right) {
      next_start = left;
      alpha = next_alpha;
    } else {
      next_end = right;
      beta = next_beta;
    }
    if (next_start == start && next_end == end) continue;
    double error = h->min == h->max ? 0.0 : search_error(s, next_start, next_end);
    if (error > least) break;
    least = error;
    start = next_start;
    end = next_end;
  }
  intact__free(context, cumulative);
  s->found_low = intact__fixed_histogram_edge(h, start);
  s->found_high = intact__fixed_histogram_edge(h, end + 1);
  return INTACT_OK;
}

static intact_status range(intact_context *context, void *state, intact_observer_range *result) {
  histogram_state *s = state;
  *result = (intact_observer_range){0, &s->found_low, &s->found_high};
  if (intact__fixed_histogram_empty(&s->histogram)) return INTACT_OK;
  INTACT_TRY(search(context, s));
  result->n = 1;
  return INTACT_OK;
}

static intact_status qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                             intact_qparams **result) {
  intact_observer_range found;
  INTACT_TRY(range(context, state, &found));
  return intact__range_qparams(context, spec, found.n, found.low, found.high, arena, result);
}

static intact_status save(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  const histogram_state *s = state;
  INTACT_TRY(intact__fixed_histogram_save(context, &s->histogram, prefix, set));
  return intact__observer_save_counts(context, &s->base, prefix, set);
}

static intact_status load(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  histogram_state *s = state;
  INTACT_TRY(intact__fixed_histogram_load(context, &s->histogram, prefix, set));
  return intact__observer_load_counts(context, &s->base, prefix, set);
}

const intact_observer intact_observer_histogram = {.name = "histogram",
                                                   .torch_name = "HistogramObserver",
                                                   .doc = "Range with the smallest squared quantization error, searched on a histogram.",
                                                   .options = "bins=2048,upsample_rate=16",
                                                   .per_channel = false,
                                                   .create = create,
                                                   .destroy = destroy,
                                                   .update = update,
                                                   .merge = merge,
                                                   .range = range,
                                                   .qparams = qparams,
                                                   .counts = intact__observer_counts,
                                                   .save = save,
                                                   .load = load};
