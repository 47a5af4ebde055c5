/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram with a fixed number of bins whose range grows with the data (PyTorch's HistogramObserver since 2.4): what the
   histogram, percentile, entropy and error-search observers count with. */
#ifndef INTACT_QUANT_OBSERVERS_FIXED_HISTOGRAM_H
#define INTACT_QUANT_OBSERVERS_FIXED_HISTOGRAM_H

#include "quant/observers/observer_state.h"

typedef struct intact_fixed_histogram {
  int32_t bins, upsample_rate;
  float min, max; /* inf, -inf before anything was counted */
  double *counts; /* exact up to 2^53; resampled counts are fractions */
} intact_fixed_histogram;

intact_status intact__fixed_histogram_init(intact_context *context, int32_t bins, int32_t upsample_rate,
                                           intact_fixed_histogram *histogram);
void intact__fixed_histogram_fini(intact_context *context, intact_fixed_histogram *histogram);
/* Counts the finite values of a float32 tensor; *non_finite is increased by the others. */
intact_status intact__fixed_histogram_add(intact_context *context, intact_fixed_histogram *histogram, const intact_tensor *x,
                                          int64_t *non_finite);
/* Adds the counts of another with the same number of bins, resampled into the common range. */
intact_status intact__fixed_histogram_merge(intact_context *context, intact_fixed_histogram *histogram,
                                            const intact_fixed_histogram *other);
bool intact__fixed_histogram_empty(const intact_fixed_histogram *histogram);
/* Lower end of bin i (i = bins: the upper end of the last): min + f32(width / bins) * i, rounded step by step. */
float intact__fixed_histogram_edge(const intact_fixed_histogram *histogram, int64_t i);
/* histogram, min_val, max_val. */
intact_status intact__fixed_histogram_save(intact_context *context, const intact_fixed_histogram *histogram, const char *prefix,
                                           intact_tensor_set *set);
intact_status intact__fixed_histogram_load(intact_context *context, intact_fixed_histogram *histogram, const char *prefix,
                                           const intact_tensor_set *set);

#endif
