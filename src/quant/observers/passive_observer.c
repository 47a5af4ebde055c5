/* SPDX-License-Identifier: Apache-2.0 */
/* Observers that choose no range of their own: fixed qparams, markers without statistics, a recorder. */
#include <string.h>

#include "quant/observers/observer_state.h"

typedef struct passive_state {
  intact_observer_state base;
  float scale; /* fixed_qparams */
  int32_t zero_point;
  int64_t limit; /* recording: batches kept, and how many there are */
  int64_t n_kept;
  size_t capacity;
  void *kept; /* intact_tensor * each */
} passive_state;

static intact_tensor **kept_of(const passive_state *s) { return (intact_tensor **)s->kept; }

static intact_status make(intact_context *context, const intact_observer *row, passive_state **state) {
  passive_state *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  made->base.row = row;
  *state = made;
  return INTACT_OK;
}

static void destroy(intact_context *context, void *state) {
  passive_state *s = state;
  if (!s) return;
  for (int64_t i = 0; i < s->n_kept; i++) intact_tensor_destroy(kept_of(s)[i]);
  intact__free(context, s->kept);
  intact__free(context, s);
}

/* Counts the batch; looks at nothing. */
static intact_status update(intact_context *context, void *state, const intact_tensor *x) {
  (void)context;
  passive_state *s = state;
  if (x->count == 0) return INTACT_OK;
  s->base.counts.batches++;
  s->base.counts.values += x->count;
  return INTACT_OK;
}

static intact_status merge(intact_context *context, void *state, const void *other) {
  passive_state *s = state;
  const passive_state *o = other;
  for (int64_t i = 0; i < o->n_kept && s->n_kept < s->limit; i++) {
    intact_tensor *copy;
    INTACT_TRY(intact__reserve(context, &s->kept, &s->capacity, (size_t)s->n_kept + 1, sizeof(intact_tensor *)));
    INTACT_TRY(intact_tensor_share(kept_of(o)[i], 0, NULL, &copy));
    kept_of(s)[s->n_kept++] = copy;
  }
  s->base.counts.values += o->base.counts.values;
  s->base.counts.batches += o->base.counts.batches;
  return INTACT_OK;
}

static intact_status range(intact_context *context, void *state, intact_observer_range *result) {
  (void)context;
  (void)state;
  *result = (intact_observer_range){0, NULL, NULL};
  return INTACT_OK;
}

static intact_status no_qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                                intact_qparams **result) {
  (void)spec;
  (void)arena;
  (void)result;
  const char *name = ((const passive_state *)state)->base.row->name;
  INTACT_FAIL(context, WRONG_USE, name, "observer %s takes no statistics and can't give qparams; use an observer that does, e.g. min_max",
              name);
}

static intact_status save(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  return intact__observer_save_counts(context, state, prefix, set);
}

static intact_status load(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  return intact__observer_load_counts(context, state, prefix, set);
}

/* ---- fixed qparams ---- */

static intact_status create_fixed(intact_context *context, const intact_quant_spec *spec, void **state) {
  const intact_observer *row = &intact_observer_fixed_qparams;
  INTACT_TRY(intact__observer_check(context, row, spec, false));
  double scale = intact__observer_option(row, spec, "scale"), zero = intact__observer_option(row, spec, "zero_point");
  if (!((float)scale > 0.0f && isfinite((float)scale)) || zero != nearbyint(zero) || fabs(zero) > 2147483647.0)
    INTACT_FAIL(context, INVALID_VALUE, row->name, "observer fixed_qparams: scale %g must be above 0 and finite, zero_point %g a whole number",
                scale, zero);
  passive_state *made = NULL;
  INTACT_TRY(make(context, row, &made));
  made->scale = (float)scale;
  made->zero_point = (int32_t)zero;
  *state = made;
  return INTACT_OK;
}

static intact_status fixed_qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                                   intact_qparams **result) {
  const passive_state *s = state;
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(intact__quant_range(context, s->base.row->name, spec->dtype, spec->reduce_range, &low, &high, NULL));
  *result = intact__qparams_create(arena, spec->scheme, spec->dtype, low, high, -1, 1, &s->scale, &s->zero_point);
  return *result ? INTACT_OK : intact__no_memory(context, sizeof **result);
}

static intact_status save_fixed(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  const passive_state *s = state;
  int64_t zero = s->zero_point;
  INTACT_TRY(intact__observer_save_f32(context, set, prefix, "scale", 1, &s->scale));
  INTACT_TRY(intact__observer_save_s64(context, set, prefix, "zero_point", 1, &zero));
  return intact__observer_save_counts(context, &s->base, prefix, set);
}

static intact_status load_fixed(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  passive_state *s = state;
  const intact_tensor *scale;
  int64_t zero;
  int n;
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "scale", true, &scale));
  INTACT_TRY(intact__observer_find_s64(context, set, prefix, "zero_point", 1, &zero, &n));
  if (scale->count != 1 || n != 1 || !(intact__f32(scale)[0] > 0.0f && isfinite(intact__f32(scale)[0])) || zero < INT32_MIN ||
      zero > INT32_MAX)
    INTACT_FAIL(context, INVALID_VALUE, prefix, "saved fixed qparams: one scale above 0 and one zero point within int32 are needed");
  s->scale = intact__f32(scale)[0];
  s->zero_point = (int32_t)zero;
  return intact__observer_load_counts(context, &s->base, prefix, set);
}

const intact_observer intact_observer_fixed_qparams = {.name = "fixed_qparams",
                                                       .torch_name = "FixedQParamsObserver",
                                                       .doc = "Scale and zero point that are given and never change.",
                                                       .options = "scale=1,zero_point=0",
                                                       .per_channel = false,
                                                       .shares = true,
                                                       .create = create_fixed,
                                                       .destroy = destroy,
                                                       .update = update,
                                                       .merge = merge,
                                                       .range = range,
                                                       .qparams = fixed_qparams,
                                                       .counts = intact__observer_counts,
                                                       .save = save_fixed,
                                                       .load = load_fixed};

/* ---- recording ---- */

static intact_status create_recording(intact_context *context, const intact_quant_spec *spec, void **state) {
  const intact_observer *row = &intact_observer_recording;
  INTACT_TRY(intact__observer_check_options(context, row, spec));
  double limit = intact__observer_option(row, spec, "limit");
  if (!(limit >= 1.0 && limit <= 1e6))
    INTACT_FAIL(context, OUT_OF_RANGE, row->name, "observer recording: limit %g is not within 1..1e6 batches", limit);
  passive_state *made = NULL;
  INTACT_TRY(make(context, row, &made));
  made->limit = (int64_t)limit;
  *state = made;
  return INTACT_OK;
}

static intact_status record(intact_context *context, void *state, const intact_tensor *x) {
  passive_state *s = state;
  if (s->n_kept < s->limit) {
    intact_tensor *copy;
    INTACT_TRY(intact__reserve(context, &s->kept, &s->capacity, (size_t)s->n_kept + 1, sizeof(intact_tensor *)));
    INTACT_TRY(intact_tensor_copy(x, &copy));
    kept_of(s)[s->n_kept++] = copy;
  }
  return update(context, state, x);
}

static intact_status save_recording(intact_context *context, const void *state, const char *prefix, intact_tensor_set *set) {
  const passive_state *s = state;
  for (int64_t i = 0; i < s->n_kept; i++) {
    char name[40];
    snprintf(name, sizeof name, "tensor_val.%lld", (long long)i);
    INTACT_TRY(intact__observer_save_tensor(context, set, prefix, name, kept_of(s)[i]));
  }
  return intact__observer_save_counts(context, &s->base, prefix, set);
}

static intact_status load_recording(intact_context *context, void *state, const char *prefix, const intact_tensor_set *set) {
  passive_state *s = state;
  for (int64_t i = 0; i < s->n_kept; i++) intact_tensor_destroy(kept_of(s)[i]);
  s->n_kept = 0;
  for (int64_t i = 0; i < s->limit; i++) {
    char name[40];
    const intact_tensor *found;
    snprintf(name, sizeof name, "tensor_val.%lld", (long long)i);
    INTACT_TRY(intact__observer_find_tensor(context, set, prefix, name, &found));
    if (!found) break;
    intact_tensor *copy;
    INTACT_TRY(intact__reserve(context, &s->kept, &s->capacity, (size_t)s->n_kept + 1, sizeof(intact_tensor *)));
    INTACT_TRY(intact_tensor_share(found, 0, NULL, &copy));
    kept_of(s)[s->n_kept++] = copy;
  }
  return intact__observer_load_counts(context, &s->base, prefix, set);
}

const intact_observer intact_observer_recording = {.name = "recording",
                                                   .torch_name = "RecordingObserver",
                                                   .doc = "Keeps copies of the first batches, at most `limit`.",
                                                   .options = "limit=1000",
                                                   .per_channel = false,
                                                   .create = create_recording,
                                                   .destroy = destroy,
                                                   .update = record,
                                                   .merge = merge,
                                                   .range = range,
                                                   .qparams = no_qparams,
                                                   .counts = intact__observer_counts,
                                                   .save = save_recording,
                                                   .load = load_recording};

/* ---- markers ---- */

#define INTACT_MARKER_ROW(row_name, torch, text)                                                                       \
  static intact_status create_##row_name(intact_context *context, const intact_quant_spec *spec, void **state) {      \
    passive_state *made = NULL;                                                                                        \
    INTACT_TRY(intact__observer_check_options(context, &intact_observer_##row_name, spec));                            \
    INTACT_TRY(make(context, &intact_observer_##row_name, &made));                                                     \
    *state = made;                                                                                                     \
    return INTACT_OK;                                                                                                  \
  }                                                                                                                    \
  const intact_observer intact_observer_##row_name = {.name = #row_name,                                               \
                                                      .torch_name = torch,                                             \
                                                      .doc = text,                                                     \
                                                      .options = "",                                                   \
                                                      .per_channel = false,                                            \
                                                      .shares = true,                                                  \
                                                      .create = create_##row_name,                                     \
                                                      .destroy = destroy,                                              \
                                                      .update = update,                                                \
                                                      .merge = merge,                                                  \
                                                      .range = range,                                                  \
                                                      .qparams = no_qparams,                                           \
                                                      .counts = intact__observer_counts,                               \
                                                      .save = save,                                                    \
                                                      .load = load};

INTACT_MARKER_ROW(placeholder, "PlaceholderObserver", "Carries type and range of dynamic or float quantization; takes no statistics.")
INTACT_MARKER_ROW(noop, "NoopObserver", "Takes no statistics.")
INTACT_MARKER_ROW(reuse_input, "ReuseInputObserver", "Marks a result that has the qparams of its operand; takes no statistics.")
