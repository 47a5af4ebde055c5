/* SPDX-License-Identifier: Apache-2.0 */
/* Smallest and largest value, running or averaged, per tensor or per channel. */
#include <string.h>

#include "base/comm.h"
#include "quant/observers/observer_state.h"

typedef struct min_max_state {
  intact_observer_state base;
  int axis;
  bool averaging;
  float constant; /* run += constant * (batch - run) */
} min_max_state;

static intact_status create(intact_context *context, const intact_observer *row, const intact_quant_spec *spec, bool averaging,
                            void **state) {
  double constant = averaging ? intact__observer_option(row, spec, "averaging_constant") : 0.0;
  INTACT_TRY(intact__observer_check(context, row, spec, !row->per_channel && (!averaging || constant == 1.0)));
  if (averaging && !(constant >= 0.0 && constant <= 1.0))
    INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer %s: averaging_constant %g is not within 0..1", row->name, constant);
  min_max_state *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  made->base.row = row;
  made->axis = spec->axis;
  made->averaging = averaging;
  made->constant = (float)constant;
  intact_status status = row->per_channel ? INTACT_OK : intact__observer_set_n(context, &made->base, 1);
  if (status != INTACT_OK) {
    intact__free(context, made);
    return status;
  }
  *state = made;
  return INTACT_OK;
}

static void destroy(intact_context *context, void *state) {
  if (state) intact__observer_state_fini(context, state);
  intact__free(context, state);
}

/* What each process sends. */
typedef struct part {
  int64_t values;
  intact_min_max ranges[]; /* by channel */
} part;

/* Extremes of the batch, and what has been counted, over all processes that share it, in their order: all get the same bits (0 has two).
   `values` are in this one, and counted already. */
static intact_status share(intact_context *context, intact_observer_counts *counts, int64_t values, intact_min_max *batch, int64_t n) {
  const int size = intact_comm_size(context);
  if (size < 2) return INTACT_OK;
  const size_t ranges = (size_t)n * sizeof *batch, bytes = sizeof(part) + ranges;
  uint8_t *room = intact__alloc(context, (size_t)size + 1, bytes);
  if (!room) return intact__no_memory(context, ((size_t)size + 1) * bytes);
  uint8_t *all = room + bytes;
  memcpy(room, &values, sizeof values);
  memcpy(room + sizeof(part), batch, ranges);
  const intact_status status = intact__comm_gather(context, room, bytes, all);
  for (int64_t i = 0; i < n && status == INTACT_OK; i++) batch[i] = (intact_min_max)INTACT_MIN_MAX_START;
  for (int p = 0; p < size && status == INTACT_OK; p++) {
    const part *other = (const part *)(const void *)(all + (size_t)p * bytes);
    for (int64_t i = 0; i < n; i++) intact__min_max_join(&batch[i], &other->ranges[i]);
    counts->values += other->values;
  }
  if (status == INTACT_OK) counts->values -= values;
  intact__free(context, room);
  return status;
}

static intact_status update_tensor(intact_context *context, min_max_state *s, const intact_tensor *x) {
  intact_min_max batch;
  INTACT_TRY(intact__tensor_min_max(context, x, &batch));
  INTACT_TRY(share(context, &s->base.counts, x->count, &batch, 1));
  intact__observer_take(&s->base, 0, &batch, s->averaging, s->constant);
  return INTACT_OK;
}

static intact_status update_channels(intact_context *context, min_max_state *s, const intact_tensor *x) {
  if (s->axis < 0 || s->axis >= x->rank)
    INTACT_FAIL(context, OUT_OF_RANGE, s->base.row->name, "observer %s: channel axis %d of a tensor of rank %d", s->base.row->name,
                s->axis, x->rank);
  int64_t n = x->dims[s->axis];
  INTACT_TRY(intact__observer_set_n(context, &s->base, n));
  intact_min_max *batch = intact__alloc(context, (size_t)n, sizeof *batch);
  if (!batch) return intact__no_memory(context, (size_t)n * sizeof *batch);
  for (int64_t i = 0; i < n; i++) batch[i] = (intact_min_max)INTACT_MIN_MAX_START;
  intact__tensor_min_max_axis(context, x, s->axis, batch);
  const intact_status status = share(context, &s->base.counts, x->count, batch, n);
  for (int64_t i = 0; i < n && status == INTACT_OK; i++) intact__observer_take(&s->base, i, &batch[i], s->averaging, s->constant);
  intact__free(context, batch);
  return status;
}

static intact_status update(intact_context *context, void *state, const intact_tensor *x) {
  min_max_state *s = state;
  if (x->count == 0) return INTACT_OK;
  intact_tensor *values;
  INTACT_TRY(intact__observer_input(context, &s->base, x, &values));
  intact_status status = s->base.row->per_channel ? update_channels(context, s, values) : update_tensor(context, s, values);
  intact_tensor_destroy(values);
  return status;
}

static intact_status update_range(intact_context *context, void *state, const intact_min_max *batch, int64_t count) {
  min_max_state *s = state;
  intact_min_max all = *batch;
  if (count == 0) return INTACT_OK;
  s->base.counts.batches++;
  s->base.counts.values += count;
  INTACT_TRY(share(context, &s->base.counts, count, &all, 1));
  intact__observer_take(&s->base, 0, &all, s->averaging, s->constant);
  return INTACT_OK;
}

static intact_status merge(intact_context *context, void *state, const void *other) {
  min_max_state *s = state;
  const min_max_state *o = other;
  return intact__observer_merge_ranges(context, &s->base, &o->base, s->averaging);
}

static intact_status save(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  return intact__observer_save_ranges(context, state, prefix, set);
}

static intact_status load(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  return intact__observer_load_ranges(context, state, prefix, set);
}

#define INTACT_MIN_MAX_ROW(row_name, torch, text, options_text, channels, average)                                    \
  static intact_status create_##row_name(intact_context *context, const intact_quant_spec *spec, void **state) {      \
    return create(context, &intact_observer_##row_name, spec, average, state);                                        \
  }                                                                                                                   \
  const intact_observer intact_observer_##row_name = {.name = #row_name,                                              \
                                                      .torch_name = torch,                                            \
                                                      .doc = text,                                                    \
                                                      .options = options_text,                                        \
                                                      .per_channel = channels,                                        \
                                                      .shares = true,                                                 \
                                                      .create = create_##row_name,                                    \
                                                      .destroy = destroy,                                             \
                                                      .update = update,                                               \
                                                      .update_range = channels ? NULL : update_range,                 \
                                                      .merge = merge,                                                 \
                                                      .range = intact__observer_range,                                \
                                                      .qparams = intact__observer_qparams,                            \
                                                      .counts = intact__observer_counts,                              \
                                                      .save = save,                                                   \
                                                      .load = load};

INTACT_MIN_MAX_ROW(min_max, "MinMaxObserver", "Smallest and largest value of all batches.", "", false, false)
INTACT_MIN_MAX_ROW(moving_average_min_max, "MovingAverageMinMaxObserver",
                   "Smallest and largest value, averaged: run += averaging_constant * (batch - run).", "averaging_constant=0.01",
                   false, true)
INTACT_MIN_MAX_ROW(per_channel_min_max, "PerChannelMinMaxObserver", "Smallest and largest value of every channel.", "", true, false)
INTACT_MIN_MAX_ROW(moving_average_per_channel_min_max, "MovingAveragePerChannelMinMaxObserver",
                   "Smallest and largest value of every channel, averaged over batches.", "averaging_constant=0.01", true, true)
