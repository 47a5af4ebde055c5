/* SPDX-License-Identifier: Apache-2.0 */
/* What observers share: checks, options, ranges, qparams, saving and loading. */
#include "quant/observers/observer_state.h"

#include <string.h>

#include "base/text.h"

/* ---- spec and options ---- */

static bool is_symmetric(intact_qscheme scheme) {
  return scheme == INTACT_PER_TENSOR_SYMMETRIC || scheme == INTACT_PER_CHANNEL_SYMMETRIC;
}

static bool is_per_tensor(intact_qscheme scheme) {
  return scheme == INTACT_PER_TENSOR_AFFINE || scheme == INTACT_PER_TENSOR_SYMMETRIC;
}

intact_status intact__observer_check(intact_context *context, const intact_observer *row, const intact_quant_spec *spec,
                                     bool dynamic) {
  if (row->per_channel == is_per_tensor(spec->scheme))
    INTACT_FAIL(context, WRONG_USE, row->name, "observer %s does not take scheme %s; use a %s scheme or another observer", row->name,
                intact_qscheme_text(spec->scheme), row->per_channel ? "per-channel" : "per-tensor");
  if (spec->is_dynamic && !dynamic)
    INTACT_FAIL(context, WRONG_USE, row->name, "observer %s does not serve dynamic quantization: its statistics span batches",
                row->name);
  if (is_symmetric(spec->scheme) && spec->reduce_range && spec->dtype == INTACT_U8 && spec->legacy_dtype)
    INTACT_FAIL(context, WRONG_USE, row->name, "observer %s: the range of symmetric quint8 can't be reduced; use s8 or an affine scheme",
                row->name);
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(intact__quant_range(context, row->name, spec->dtype, spec->reduce_range, &low, &high, NULL));
  return intact__observer_check_options(context, row, spec);
}

/* Finds `name` in "a=1,b=2": its value's text in value[64]. */
static bool find_option(const char *options, const char *name, char *value) {
  size_t length = strlen(name);
  for (const char *at = options; at && *at;) {
    const char *end = strchr(at, ',');
    size_t n = end ? (size_t)(end - at) : strlen(at);
    if (n > length && strncmp(at, name, length) == 0 && at[length] == '=' && n - length - 1 < 64) {
      memcpy(value, at + length + 1, n - length - 1);
      value[n - length - 1] = 0;
      return true;
    }
    at = end ? end + 1 : NULL;
  }
  return false;
}

double intact__observer_option(const intact_observer *row, const intact_quant_spec *spec, const char *name) {
  char text[64];
  double value = 0.0;
  if (find_option(spec->options, name, text) || find_option(row->options, name, text)) intact__parse_double(text, &value);
  return value;
}

void intact__observer_option_text(const intact_observer *row, const intact_quant_spec *spec, const char *name, char *text) {
  text[0] = 0;
  if (!find_option(spec->options, name, text)) find_option(row->options, name, text);
}

intact_status intact__observer_check_options(intact_context *context, const intact_observer *row, const intact_quant_spec *spec) {
  for (const char *at = spec->options; at && *at;) {
    const char *end = strchr(at, ',');
    size_t n = end ? (size_t)(end - at) : strlen(at);
    const char *equals = memchr(at, '=', n);
    char name[64] = "", value[64], otherwise[64];
    if (equals && (size_t)(equals - at) < sizeof name) memcpy(name, at, (size_t)(equals - at));
    if (!name[0] || !find_option(row->options, name, otherwise))
      INTACT_FAIL(context, WRONG_USE, row->name, "observer %s has no option '%.*s'; it takes: %s", row->name, (int)n, at,
                  row->options[0] ? row->options : "none");
    double number;
    if (!find_option(spec->options, name, value) ||
        (intact__parse_double(otherwise, &number) && !intact__parse_double(value, &number)))
      INTACT_FAIL(context, WRONG_USE, row->name, "observer %s: option '%.*s' is not a number", row->name, (int)n, at);
    at = end ? end + 1 : NULL;
  }
  return INTACT_OK;
}

/* ---- state ---- */

intact_status intact__observer_set_n(intact_context *context, intact_observer_state *state, int64_t n) {
  if (state->n == n) return INTACT_OK;
  if (state->n != 0)
    INTACT_FAIL(context, SIZE_MISMATCH, state->row->name, "observer %s has seen %lld channels, now there are %lld", state->row->name,
                (long long)state->n, (long long)n);
  float *low = intact__alloc(context, (size_t)n, sizeof *low), *high = intact__alloc(context, (size_t)n, sizeof *high);
  if (!low || !high) {
    intact__free(context, low);
    intact__free(context, high);
    return intact__no_memory(context, (size_t)n * 2 * sizeof *low);
  }
  for (int64_t i = 0; i < n; i++) {
    low[i] = INFINITY;
    high[i] = -INFINITY;
  }
  state->n = n;
  state->low = low;
  state->high = high;
  return INTACT_OK;
}

void intact__observer_state_fini(intact_context *context, intact_observer_state *state) {
  intact__free(context, state->low);
  intact__free(context, state->high);
}

intact_status intact__observer_input(intact_context *context, intact_observer_state *state, const intact_tensor *x,
                                     intact_tensor **values) {
  if (x->dtype != INTACT_F32 && x->dtype != INTACT_F16 && x->dtype != INTACT_BF16 && x->dtype != INTACT_F64)
    INTACT_FAIL(context, TYPE_MISMATCH, state->row->name, "observer %s takes floating-point values, not %s", state->row->name,
                intact_dtype_text(x->dtype));
  if (x->dtype == INTACT_F32) {
    INTACT_TRY(intact_tensor_share(x, x->rank, NULL, values));
  } else {
    INTACT_TRY(intact_tensor_cast(x, INTACT_F32, values));
  }
  state->counts.batches++;
  state->counts.values += x->count;
  return INTACT_OK;
}

/* ---- min and max ---- */

enum { MAX_PIECE_THREADS = 64, PIECE = 1 << 16 };

typedef struct min_max_job {
  uint32_t isa_set;
  const float *x;
  intact_min_max per_thread[MAX_PIECE_THREADS];
} min_max_job;

static void min_max_piece(void *user, int64_t begin, int64_t end) {
  min_max_job *job = user;
  intact__min_max_array(job->isa_set, job->x + begin, end - begin, &job->per_thread[intact__thread_index()]);
}

intact_status intact__tensor_min_max(intact_context *context, const intact_tensor *x, intact_min_max *result) {
  const intact_min_max start = INTACT_MIN_MAX_START;
  *result = start;
  if (intact_context_threads(context) > MAX_PIECE_THREADS) {
    intact__min_max_array(intact__isa_set(context), x->data, x->count, result);
    return INTACT_OK;
  }
  min_max_job job = {.isa_set = intact__isa_set(context), .x = x->data};
  for (int i = 0; i < MAX_PIECE_THREADS; i++) job.per_thread[i] = start;
  intact__parallel(context, x->count, PIECE, min_max_piece, &job);
  for (int i = 0; i < MAX_PIECE_THREADS; i++) intact__min_max_join(result, &job.per_thread[i]);
  return INTACT_OK;
}

typedef struct axis_job {
  uint32_t isa_set;
  const float *x;
  int64_t outer, length, inner;
  intact_min_max *result;
} axis_job;

static void min_max_channels(void *user, int64_t begin, int64_t end) {
  const axis_job *job = user;
  for (int64_t o = 0; o < job->outer; o++)
    for (int64_t c = begin; c < end; c++)
      intact__min_max_array(job->isa_set, job->x + (o * job->length + c) * job->inner, job->inner, &job->result[c]);
}

void intact__tensor_min_max_axis(intact_context *context, const intact_tensor *x, int axis, intact_min_max *result) {
  axis_job job = {.isa_set = intact__isa_set(context), .x = x->data, .outer = 1, .inner = 1, .result = result};
  for (int i = 0; i < axis; i++) job.outer *= x->dims[i];
  for (int i = axis + 1; i < x->rank; i++) job.inner *= x->dims[i];
  job.length = x->dims[axis];
  int64_t work = job.outer * job.inner;
  if (x->count > 0) intact__parallel(context, job.length, work < PIECE ? PIECE / work : 1, min_max_channels, &job);
}

/* ---- ranges ---- */

void intact__observer_take(intact_observer_state *state, int64_t i, const intact_min_max *batch, bool averaging, float constant) {
  state->counts.non_finite += batch->non_finite;
  if (!(batch->low <= batch->high)) return; /* nothing finite */
  float *low = &state->low[i], *high = &state->high[i];
  if (!(*low <= *high)) {
    *low = batch->low;
    *high = batch->high;
  } else if (averaging) {
    *low = *low + constant * (batch->low - *low);
    *high = *high + constant * (batch->high - *high);
  } else {
    if (batch->low < *low) *low = batch->low;
    if (batch->high > *high) *high = batch->high;
  }
}

intact_status intact__observer_merge_ranges(intact_context *context, intact_observer_state *state,
                                            const intact_observer_state *other, bool averaging) {
  if (other->counts.batches == 0) return INTACT_OK;
  if (averaging && state->counts.batches > 0)
    INTACT_FAIL(context, WRONG_USE, state->row->name, "observer %s: moving averages of two runs can't be merged", state->row->name);
  if (other->n > 0) INTACT_TRY(intact__observer_set_n(context, state, other->n));
  for (int64_t i = 0; i < other->n; i++) {
    intact_min_max range = {other->low[i], other->high[i], 0};
    intact__observer_take(state, i, &range, false, 0.0f);
  }
  state->counts.values += other->counts.values;
  state->counts.non_finite += other->counts.non_finite;
  state->counts.batches += other->counts.batches;
  return INTACT_OK;
}

/* ---- qparams ---- */

intact_status intact__range_qparams(intact_context *context, const intact_quant_spec *spec, int64_t n, const float *low,
                                    const float *high, intact_arena *arena, intact_qparams **qparams) {
  int64_t quant_min = spec->quant_min, quant_max = spec->quant_max;
  bool custom;
  INTACT_TRY(intact__quant_range(context, "", spec->dtype, spec->reduce_range, &quant_min, &quant_max, &custom));
  intact_qparams_rule rule = intact__qparams_rule(spec->scheme, spec->dtype, quant_min, quant_max, custom, spec->eps);
  int64_t count = n > 0 ? n : 1;
  float *scale = intact__arena_alloc(arena, (size_t)count, sizeof *scale);
  int32_t *zero_point = intact__arena_alloc(arena, (size_t)count, sizeof *zero_point);
  if (!scale || !zero_point) return intact__no_memory(context, (size_t)count * 8);
  scale[0] = 1.0f;
  for (int64_t i = 0; i < n; i++) {
    if (low[i] > high[i] && !(isinf(low[i]) && isinf(high[i])))
      INTACT_FAIL(context, INVALID_VALUE, "", "range %lld is %g..%g; its lower end must not be above the upper one", (long long)i,
                  (double)low[i], (double)high[i]);
    intact__qparams_from_range(&rule, low[i], high[i], &scale[i], &zero_point[i]);
  }
  int axis = n > 0 && !is_per_tensor(spec->scheme) ? spec->axis : -1;
  intact_qscheme scheme = axis < 0 && !is_per_tensor(spec->scheme) ? INTACT_PER_TENSOR_AFFINE : spec->scheme;
  intact_qparams *made = intact__qparams_create(arena, scheme, spec->dtype, quant_min, quant_max, axis, count, scale, zero_point);
  if (!made) return intact__no_memory(context, (size_t)count * 8);
  if (axis >= 0) made->group = spec->group;
  if (scheme == INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    float *real = intact__arena_alloc(arena, (size_t)count, sizeof *real);
    if (!real) return intact__no_memory(context, (size_t)count * sizeof *real);
    for (int64_t i = 0; i < n; i++) intact__float_qparams_from_range(&rule, low[i], high[i], &scale[i], &real[i]);
    made->real_zero_point = real;
  }
  *qparams = made;
  return INTACT_OK;
}

intact_status intact__observer_range(intact_context *context, void *state, intact_observer_range *range) {
  (void)context;
  const intact_observer_state *s = state;
  bool seen = false;
  for (int64_t i = 0; i < s->n; i++) seen = seen || s->low[i] <= s->high[i];
  *range = (intact_observer_range){seen ? s->n : 0, s->low, s->high};
  return INTACT_OK;
}

intact_status intact__observer_qparams(intact_context *context, void *state, const intact_quant_spec *spec, intact_arena *arena,
                                       intact_qparams **qparams) {
  const intact_observer_state *s = state;
  return intact__range_qparams(context, spec, s->n, s->low, s->high, arena, qparams);
}

void intact__observer_counts(const void *state, intact_observer_counts *counts) {
  *counts = ((const intact_observer_state *)state)->counts;
}

/* ---- save and load ---- */

static intact_status full_name(intact_context *context, const char *prefix, const char *name, intact_text *text) {
  intact__text_init(text, context);
  intact__text_add(text, "%s%s", prefix, name);
  return text->failed ? intact__no_memory(context, strlen(prefix) + strlen(name)) : INTACT_OK;
}

static intact_status add_named(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                               intact_tensor *tensor) {
  intact_text text;
  intact_status status = full_name(context, prefix, name, &text);
  if (status == INTACT_OK)
    status = intact_tensor_set_add(set, text.data, tensor);
  else
    intact_tensor_destroy(tensor);
  intact__text_fini(&text);
  return status;
}

intact_status intact__observer_save_f32(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                        int64_t n, const float *values) {
  return intact__observer_save_shaped(context, set, prefix, name, n < 0 ? 0 : 1, &n, values);
}

intact_status intact__observer_save_shaped(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                           int rank, const int64_t *dims, const float *values) {
  intact_tensor *tensor;
  INTACT_TRY(intact_tensor_create(context, INTACT_F32, rank, dims, &tensor));
  if (values && tensor->count > 0) memcpy(tensor->data, values, (size_t)tensor->count * sizeof *values);
  return add_named(context, set, prefix, name, tensor);
}

intact_status intact__observer_save_s64(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                        int64_t n, const int64_t *values) {
  intact_tensor *tensor;
  INTACT_TRY(intact__tensor_from_s64(context, 1, &n, values, &tensor));
  return add_named(context, set, prefix, name, tensor);
}

intact_status intact__observer_save_tensor(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name,
                                           const intact_tensor *tensor) {
  intact_tensor *shared;
  INTACT_TRY(intact_tensor_share(tensor, 0, NULL, &shared));
  return add_named(context, set, prefix, name, shared);
}

intact_status intact__observer_find_tensor(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                           const char *name, const intact_tensor **tensor) {
  intact_text text;
  intact_status status = full_name(context, prefix, name, &text);
  if (status == INTACT_OK) *tensor = intact_tensor_set_find(set, text.data);
  intact__text_fini(&text);
  return status;
}

intact_status intact__observer_find_s64(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                        const char *name, int capacity, int64_t *values, int *n) {
  intact_text text;
  intact_status status = full_name(context, prefix, name, &text);
  const intact_tensor *found = status == INTACT_OK ? intact_tensor_set_find(set, text.data) : NULL;
  if (status == INTACT_OK && !found)
    status = intact__fail(context, INTACT_MISSING_ENTRY, text.data, __FILE__, __LINE__,
                          "saved observer: tensor '%s' is missing; was it saved by another observer?", text.data);
  if (status == INTACT_OK && (found->dtype != INTACT_S64 || found->count > capacity))
    status = intact__fail(context, INTACT_TYPE_MISMATCH, text.data, __FILE__, __LINE__,
                          "saved observer: tensor '%s' must be a list of at most %d s64", text.data, capacity);
  intact__text_fini(&text);
  for (int64_t i = 0; status == INTACT_OK && i < found->count; i++) values[i] = intact__tensor_get_s64(found, i);
  if (status == INTACT_OK) *n = (int)found->count;
  return status;
}

intact_status intact__observer_save_counts(intact_context *context, const intact_observer_state *state, const char *prefix,
                                           intact_tensor_set *set) {
  const int64_t counts[3] = {state->counts.values, state->counts.non_finite, state->counts.batches};
  return intact__observer_save_s64(context, set, prefix, "counts", 3, counts);
}

intact_status intact__observer_save_ranges(intact_context *context, const intact_observer_state *state, const char *prefix,
                                           intact_tensor_set *set) {
  int64_t n = state->row->per_channel ? state->n : -1;
  const float empty_low = INFINITY, empty_high = -INFINITY;
  INTACT_TRY(intact__observer_save_f32(context, set, prefix, "min_val", n, state->n ? state->low : &empty_low));
  INTACT_TRY(intact__observer_save_f32(context, set, prefix, "max_val", n, state->n ? state->high : &empty_high));
  return intact__observer_save_counts(context, state, prefix, set);
}

intact_status intact__observer_find_f32(intact_context *context, const intact_tensor_set *set, const char *prefix,
                                        const char *name, bool required, const intact_tensor **tensor) {
  intact_text text;
  intact_status status = full_name(context, prefix, name, &text);
  const intact_tensor *found = status == INTACT_OK ? intact_tensor_set_find(set, text.data) : NULL;
  if (status == INTACT_OK && !found && required)
    status = intact__fail(context, INTACT_MISSING_ENTRY, text.data, __FILE__, __LINE__,
                          "saved observer: tensor '%s' is missing; was it saved by another observer?", text.data);
  if (status == INTACT_OK && found && found->dtype != INTACT_F32)
    status = intact__fail(context, INTACT_TYPE_MISMATCH, text.data, __FILE__, __LINE__,
                          "saved observer: tensor '%s' must be f32, it is %s", text.data, intact_dtype_text(found->dtype));
  intact__text_fini(&text);
  if (status == INTACT_OK) *tensor = found;
  return status;
}

intact_status intact__observer_load_counts(intact_context *context, intact_observer_state *state, const char *prefix,
                                 const intact_tensor_set *set) {
  intact_text text;
  intact_status status = full_name(context, prefix, "counts", &text);
  const intact_tensor *counts = status == INTACT_OK ? intact_tensor_set_find(set, text.data) : NULL;
  intact__text_fini(&text);
  state->counts = (intact_observer_counts){0};
  if (counts && counts->dtype == INTACT_S64 && counts->count == 3) {
    const int64_t *c = counts->data;
    state->counts = (intact_observer_counts){.values = c[0], .non_finite = c[1], .batches = c[2]};
  }
  return status;
}

intact_status intact__observer_load_ranges(intact_context *context, intact_observer_state *state, const char *prefix,
                                           const intact_tensor_set *set) {
  const intact_tensor *low, *high;
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "min_val", true, &low));
  INTACT_TRY(intact__observer_find_f32(context, set, prefix, "max_val", true, &high));
  if (low->count != high->count)
    INTACT_FAIL(context, SIZE_MISMATCH, prefix, "saved observer: min_val has %lld values, max_val %lld", (long long)low->count,
                (long long)high->count);
  if (!state->row->per_channel && low->count != 1)
    INTACT_FAIL(context, SIZE_MISMATCH, prefix, "saved observer: min_val has %lld values, a per-tensor observer has 1",
                (long long)low->count);
  intact__observer_state_fini(context, state);
  state->low = state->high = NULL;
  state->n = 0;
  if (low->count > 0) {
    INTACT_TRY(intact__observer_set_n(context, state, low->count));
    memcpy(state->low, low->data, (size_t)low->count * sizeof *state->low);
    memcpy(state->high, high->data, (size_t)high->count * sizeof *state->high);
  }
  return intact__observer_load_counts(context, state, prefix, set);
}
