/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram with fixed bins and a growing range. */
#include "quant/observers/fixed_histogram.h"

#include <float.h>
#include <string.h>

intact_status intact__fixed_histogram_init(intact_context *context, int32_t bins, int32_t upsample_rate,
                                           intact_fixed_histogram *histogram) {
  double *counts = intact__alloc_zeroed(context, (size_t)bins, sizeof *counts);
  if (!counts) return intact__no_memory(context, (size_t)bins * sizeof *counts);
  *histogram = (intact_fixed_histogram){bins, upsample_rate, INFINITY, -INFINITY, counts};
  return INTACT_OK;
}

void intact__fixed_histogram_fini(intact_context *context, intact_fixed_histogram *histogram) {
  intact__free(context, histogram->counts);
}

bool intact__fixed_histogram_empty(const intact_fixed_histogram *histogram) { return !(histogram->min <= histogram->max); }

float intact__fixed_histogram_edge(const intact_fixed_histogram *histogram, int64_t i) {
  float width = histogram->max - histogram->min;
  if (!(width <= FLT_MAX))
    return (float)(histogram->min + ((double)histogram->max - histogram->min) / histogram->bins * (double)i);
  float bin = width / (float)histogram->bins;
  return histogram->min + bin * (float)i;
}

/* ---- counting ---- */

/* Bins over low..high; a range of one value is widened by 1 to both sides. */
static intact_bins bins_over(float low, float high, int32_t n) {
  intact_bins bins = {low, high, n};
  if (low == high) {
    bins.left = low - 1.0f;
    bins.right = high + 1.0f;
    if (!(bins.left < bins.right)) { /* 1 is lost in a huge value */
      bins.left = nextafterf(low, -INFINITY);
      bins.right = nextafterf(high, INFINITY);
    }
    if (isinf(bins.left)) bins.left = low;
    if (isinf(bins.right)) bins.right = high;
  }
  return bins;
}

typedef struct count_job {
  uint32_t isa_set;
  const float *x;
  intact_bins bins;
  uint32_t *tables; /* INTACT_HISTOGRAM_TABLES * bins.n per thread */
} count_job;

enum { PIECE = 1 << 16 };
static const int64_t most_at_once = INT64_C(1) << 31; /* counts of a table stay within uint32 */

static void count_piece(void *user, int64_t begin, int64_t end) {
  const count_job *job = user;
  uint32_t *tables = job->tables + (int64_t)intact__thread_index() * INTACT_HISTOGRAM_TABLES * job->bins.n;
  intact__histogram_array(job->isa_set, job->x + begin, end - begin, &job->bins, tables);
}

/* counts += histogram of x over bins. */
static intact_status count(intact_context *context, const intact_tensor *x, const intact_bins *bins, double *counts) {
  int64_t per_thread = (int64_t)INTACT_HISTOGRAM_TABLES * bins->n;
  int threads = x->count > PIECE ? intact_context_threads(context) : 1;
  count_job job = {.isa_set = intact__isa_set(context), .bins = *bins};
  job.tables = intact__alloc(context, (size_t)(per_thread * threads), sizeof *job.tables);
  if (!job.tables) return intact__no_memory(context, (size_t)(per_thread * threads) * sizeof *job.tables);
  for (int64_t first = 0; first < x->count; first += most_at_once) {
    int64_t n = x->count - first < most_at_once ? x->count - first : most_at_once;
    memset(job.tables, 0, (size_t)(per_thread * threads) * sizeof *job.tables);
    job.x = intact__f32(x) + first;
    if (threads > 1)
      intact__parallel(context, n, PIECE, count_piece, &job);
    else
      count_piece(&job, 0, n);
    for (int64_t t = 0; t < (int64_t)threads * INTACT_HISTOGRAM_TABLES; t++)
      for (int32_t i = 0; i < bins->n; i++) counts[i] += job.tables[t * bins->n + i];
  }
  intact__free(context, job.tables);
  return INTACT_OK;
}

/* ---- growth ---- */

/* Entry i of n points from a to b, as PyTorch's linspace: from the nearer end, product and sum rounded one by one. */
static float linspace(float a, float b, int64_t n, int64_t i) {
  float width = b - a;
  if (!(width <= FLT_MAX)) return (float)(a + ((double)b - a) / (double)(n - 1) * (double)i);
  float step = width / (float)(n - 1);
  return i < n / 2 ? a + step * (float)i : b - step * (float)(n - 1 - i);
}

/* into += from, spread over the bins of low..high: every bin is cut into upsample_rate parts, each part goes to the new bin
   that its middle lies in. */
static void resample(const intact_fixed_histogram *from, float low, float high, double *into) {
  int64_t parts = (int64_t)from->bins * from->upsample_rate;
  float width = from->max - from->min;
  double wide = (double)from->max - from->min;
  float half = width <= FLT_MAX ? 0.5f * (width / (float)parts) : (float)(0.5 * (wide / (double)parts));
  int64_t above = 0; /* boundaries at or below the middle */
  for (int64_t k = 0; k < parts; k++) {
    double weight = from->counts[k / from->upsample_rate] / from->upsample_rate;
    float middle = linspace(from->min, from->max, parts + 1, k) + half;
    while (above <= from->bins && linspace(low, high, from->bins + 1, above) <= middle) above++;
    while (above > 0 && linspace(low, high, from->bins + 1, above - 1) > middle) above--;
    int64_t bin = above - 1 < 0 ? 0 : above - 1 >= from->bins ? from->bins - 1 : above - 1;
    into[bin] += weight;
  }
}

static double total(const intact_fixed_histogram *histogram) {
  double sum = 0.0;
  for (int32_t i = 0; i < histogram->bins; i++) sum += histogram->counts[i];
  return sum;
}

/* Brings the counts to the range low..high, which holds the old one. */
static intact_status grow(intact_context *context, intact_fixed_histogram *histogram, float low, float high) {
  if (histogram->min == low && histogram->max == high) return INTACT_OK;
  if (!intact__fixed_histogram_empty(histogram)) {
    double *counts = intact__alloc_zeroed(context, (size_t)histogram->bins, sizeof *counts);
    if (!counts) return intact__no_memory(context, (size_t)histogram->bins * sizeof *counts);
    if (histogram->min == histogram->max) { /* all of one value */
      intact_bins bins = bins_over(low, high, histogram->bins);
      int32_t bin = intact__bin_of(&bins, histogram->min);
      counts[bin < 0 ? 0 : bin] = total(histogram);
    } else {
      resample(histogram, low, high, counts);
    }
    memcpy(histogram->counts, counts, (size_t)histogram->bins * sizeof *counts);
    intact__free(context, counts);
  }
  histogram->min = low;
  histogram->max = high;
  return INTACT_OK;
}

intact_status intact__fixed_histogram_add(intact_context *context, intact_fixed_histogram *histogram, const intact_tensor *x,
                                          int64_t *non_finite) {
  intact_min_max range;
  INTACT_TRY(intact__tensor_min_max(context, x, &range));
  if (range.low <= range.high) {
    float low = range.low < histogram->min ? range.low : histogram->min;
    float high = range.high > histogram->max ? range.high : histogram->max;
    INTACT_TRY(grow(context, histogram, low, high));
    intact_bins bins = bins_over(low, high, histogram->bins);
    INTACT_TRY(count(context, x, &bins, histogram->counts));
  }
  *non_finite += range.non_finite;
  return INTACT_OK;
}

intact_status intact__fixed_histogram_merge(intact_context *context, intact_fixed_histogram *histogram,
                                            const intact_fixed_histogram *other) {
  if (histogram->bins != other->bins)
    INTACT_FAIL(context, SIZE_MISMATCH, "", "histograms of %d and %d bins can't be merged", histogram->bins, other->bins);
  if (intact__fixed_histogram_empty(other)) return INTACT_OK;
  float low = other->min < histogram->min ? other->min : histogram->min;
  float high = other->max > histogram->max ? other->max : histogram->max;
  intact_fixed_histogram copy = {0};
  INTACT_TRY(intact__fixed_histogram_init(context, other->bins, other->upsample_rate, &copy));
  copy.min = other->min;
  copy.max = other->max;
  memcpy(copy.counts, other->counts, (size_t)copy.bins * sizeof *copy.counts);
  intact_status status = grow(context, &copy, low, high);
  if (status == INTACT_OK) status = grow(context, histogram, low, high);
  for (int32_t i = 0; status == INTACT_OK && i < histogram->bins; i++) histogram->counts[i] += copy.counts[i];
  intact__fixed_histogram_fini(context, &copy);
  return status;
}

/* ---- save and load ---- */

intact_status intact__fixed_histogram_save(intact_context *context, const intact_fixed_histogram *histogram, const char *prefix,
                                           intact_tensor_set *set) {
  float *counts = intact__alloc(context, (size_t)histogram->bins, sizeof *counts);
  if (!counts) return intact__no_memory(context, (size_t)histogram->bins * sizeof *counts);
  for (int32_t i = 0; i < histogram->bins; i++) counts[i] = (float)histogram->counts[i];
  intact_status status = intact__observer_save_f32(context, set, prefix, "histogram", histogram->bins, counts);
  intact__free(context, counts);
  INTACT_TRY(status);
  INTACT_TRY(intact__observer_save_f32(context, set, prefix, "min_val", -1, &histogram->min));
  return intact__observer_save_f32(context, set, prefix, "max_val", -1, &histogram->max);
}

intact_status intact__fixed_histogram_load(intact_context *context, intact_fixed_histogram *histogram, const char *prefix,
                                           const intact_tensor_set *set) {
  const intact_tensor *counts, *low, *high;
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "histogram", true, &counts));
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "min_val", true, &low));
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "max_val", true, &high));
  if (counts->count != histogram->bins || low->count != 1 || high->count != 1)
    INTACT_FAIL(context, SIZE_MISMATCH, prefix, "saved histogram has %lld bins, %lld min_val, %lld max_val; expected %d, 1, 1",
                (long long)counts->count, (long long)low->count, (long long)high->count, histogram->bins);
  float min = intact__f32(low)[0], max = intact__f32(high)[0];
  bool empty = isinf(min) && isinf(max) && min > max;
  if (!empty && !(isfinite(min) && isfinite(max) && min <= max))
    INTACT_FAIL(context, INVALID_VALUE, prefix, "saved histogram has the range %g..%g; it must be finite and ordered", (double)min,
                (double)max);
  for (int64_t i = 0; i < counts->count; i++)
    if (!(intact__f32(counts)[i] >= 0.0f && isfinite(intact__f32(counts)[i])))
      INTACT_FAIL(context, INVALID_VALUE, prefix, "saved histogram: bin %lld holds %g; counts are finite and not negative",
                  (long long)i, (double)intact__f32(counts)[i]);
  for (int64_t i = 0; i < counts->count; i++) histogram->counts[i] = intact__f32(counts)[i];
  histogram->min = min;
  histogram->max = max;
  return INTACT_OK;
}
