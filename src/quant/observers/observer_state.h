/* SPDX-License-Identifier: Apache-2.0 */
/* What observers share: checks of the spec, options, ranges with counts, their qparams, saving and loading. */
#ifndef INTACT_QUANT_OBSERVERS_OBSERVER_STATE_H
#define INTACT_QUANT_OBSERVERS_OBSERVER_STATE_H

#include "kernels/affine/choose_qparams.h"
#include "kernels/affine/statistics.h"
#include "quant/observers/observers.h"

/* Start of every observer's state. */
typedef struct intact_observer_state {
  const intact_observer *row;
  intact_observer_counts counts;
  /* The ranges: n of them (0: nothing observed yet), inf and -inf where nothing finite was seen. */
  int64_t n, capacity;
  float *low, *high;
} intact_observer_state;

/* Refuses what no observer takes: symmetric u8 with a reduced range, bad integer ranges, schemes that do not fit
   row->per_channel, dynamic specs unless `dynamic`. */
intact_status intact__observer_check(intact_context *context, const intact_observer *row, const intact_quant_spec *spec,
                                     bool dynamic);
/* Option `name` of the spec's "name=value,..." or its default in row->options. */
double intact__observer_option(const intact_observer *row, const intact_quant_spec *spec, const char *name);
/* The same as text (of at most 63 characters). */
void intact__observer_option_text(const intact_observer *row, const intact_quant_spec *spec, const char *name, char *text);
/* Every option is one of row->options; a number where the default is one. */
intact_status intact__observer_check_options(intact_context *context, const intact_observer *row, const intact_quant_spec *spec);

/* Grows the ranges to n, new ones empty; refuses another n once set. */
intact_status intact__observer_set_n(intact_context *context, intact_observer_state *state, int64_t n);
void intact__observer_state_fini(intact_context *context, intact_observer_state *state);

/* x as float32 (a share if it is that); refuses integers. Counts the batch. */
intact_status intact__observer_input(intact_context *context, intact_observer_state *state, const intact_tensor *x,
                                     intact_tensor **values);
/* Min and max of all of a float32 tensor, on the context's threads. */
intact_status intact__tensor_min_max(intact_context *context, const intact_tensor *x, intact_min_max *result);
/* The same per index of `axis`; result has dims[axis] entries that hold INTACT_MIN_MAX_START. */
void intact__tensor_min_max_axis(intact_context *context, const intact_tensor *x, int axis, intact_min_max *result);

/* Takes the range of a batch into range i: run = batch at first, then the wider of both, or run + constant * (batch - run).
   Nothing finite in the batch: nothing changes but the count. */
void intact__observer_take(intact_observer_state *state, int64_t i, const intact_min_max *batch, bool averaging, float constant);
/* state += other for ranges and counts. An average is taken over as a whole, by a state that has seen nothing, or refused. */
intact_status intact__observer_merge_ranges(intact_context *context, intact_observer_state *state,
                                            const intact_observer_state *other, bool averaging);

/* qparams of n ranges by the spec's scheme. n = 0: scale 1, zero point 0, per tensor. */
intact_status intact__range_qparams(intact_context *context, const intact_quant_spec *spec, int64_t n, const float *low,
                                    const float *high, intact_arena *arena, intact_qparams **qparams);

/* prefix + name in the set: a float32 tensor of rank 0 (n < 0) or 1. */
intact_status intact__observer_save_f32(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                        int64_t n, const float *values);
intact_status intact__observer_save_shaped(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                           int rank, const int64_t *dims, const float *values);
intact_status intact__observer_save_s64(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                        int64_t n, const int64_t *values);
/* Another handle on a tensor of any type; its counterpart gives NULL when there is none. */
intact_status intact__observer_save_tensor(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                           const intact_tensor *tensor);
intact_status intact__observer_find_tensor(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                           const char *name, const intact_tensor **tensor);
/* A list of at most `capacity` integers; refuses a missing one. */
intact_status intact__observer_find_s64(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                        const char *name, int capacity, int64_t *values, int *n);
/* min_val, max_val (0-d for per-tensor rows) and counts [values, non_finite, batches]. */
intact_status intact__observer_save_ranges(intact_context *context, const intact_observer_state *state, const char *prefix,
                                           intact_tensor_set *set);
intact_status intact__observer_load_ranges(intact_context *context, intact_observer_state *state, const char *prefix,
                                           const intact_tensor_set *set);
/* counts alone, for rows with a state of their own; missing counts load as 0. */
intact_status intact__observer_save_counts(intact_context *context, const intact_observer_state *state, const char *prefix,
                                           intact_tensor_set *set);
intact_status intact__observer_load_counts(intact_context *context, intact_observer_state *state, const char *prefix,
                                           const intact_tensor_set *set);
/* NULL when it is missing, or not float; `required` makes that a failure. */
intact_status intact__observer_find_f32(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                        const char *name, bool required, const intact_tensor **tensor);

/* Entries of rows whose state is ranges alone. */
intact_status intact__observer_range(intact_context *context, void *state, intact_observer_range *range);
intact_status intact__observer_qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                                       intact_qparams **qparams);
void intact__observer_counts(const void *state, intact_observer_counts *counts);

#endif
