/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization with observed, learned or frozen qparams. */
#include "graph/fake_quantizer.h"

#include <math.h>
#include <string.h>

#include "base/comm.h"
#include "kernels/affine/choose_qparams.h"

static bool is_learned(const intact_fake_quantizer *fake) {
  return fake->kind != INTACT_FAKE_OBSERVED && fake->kind != INTACT_FAKE_FUSED;
}

static bool is_symmetric(const intact_quant_spec *spec) {
  return spec->scheme == INTACT_PER_TENSOR_SYMMETRIC || spec->scheme == INTACT_PER_CHANNEL_SYMMETRIC;
}

static bool is_per_tensor(const intact_quant_spec *spec) {
  return spec->scheme == INTACT_PER_TENSOR_AFFINE || spec->scheme == INTACT_PER_TENSOR_SYMMETRIC;
}

static const char *name_of(const intact_observation *observation) {
  return observation->spec.observer ? observation->spec.observer->name : "fixed";
}

/* ---- create, modes ---- */

static intact_status filled(intact_context *context, intact_dtype dtype, int64_t n, double value, intact_tensor **tensor) {
  INTACT_TRY(intact__tensor_create_raw(context, dtype, 1, &n, tensor));
  for (int64_t i = 0; i < n; i++) intact__tensor_set_f64(*tensor, i, value);
  return INTACT_OK;
}

static intact_status check_options(const intact_observation *observation, const intact_fake_options *options) {
  bool learned = options->kind != INTACT_FAKE_OBSERVED && options->kind != INTACT_FAKE_FUSED;
  if (!learned) return INTACT_OK;
  if (!isfinite(options->scale) || !isfinite(options->zero_point))
    INTACT_FAIL(observation->context, INVALID_VALUE, name_of(observation), "learned fake quantization: it can't start at scale %g, zero point %g",
                (double)options->scale, (double)options->zero_point);
  if (options->kind == INTACT_FAKE_LEARNED && !is_per_tensor(&observation->spec) && options->channels < 1)
    INTACT_FAIL(observation->context, OUT_OF_RANGE, name_of(observation), "learned fake quantization per channel: %lld channels; give 1 or more",
                (long long)options->channels);
  return INTACT_OK;
}

intact_status intact__fake_quantizer_create(intact_observation *observation, const intact_fake_options *options) {
  intact_context *context = observation->context;
  const intact_quant_spec *spec = &observation->spec;
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(check_options(observation, options));
  INTACT_TRY(intact__quant_range(context, name_of(observation), spec->dtype, spec->reduce_range, &low, &high, NULL));
  intact_fake_quantizer *fake = intact__alloc_zeroed(context, 1, sizeof *fake);
  if (!fake) return intact__no_memory(context, sizeof *fake);
  *fake = (intact_fake_quantizer){.kind = options->kind,
                                  .is_weight = options->is_weight,
                                  .fake_quant_enabled = true,
                                  .use_grad_scaling = options->use_grad_scaling,
                                  .mean_start = options->mean_start,
                                  .low = low,
                                  .high = high,
                                  .axis = is_per_tensor(spec) ? -1 : spec->axis};
  bool learned = is_learned(fake);
  int64_t n = learned && options->channels > 0 ? options->channels : 1;
  intact_status status = filled(context, INTACT_F32, n, learned ? (double)options->scale : 1.0, &fake->scale);
  if (status == INTACT_OK)
    status = filled(context, learned ? INTACT_F32 : INTACT_S32, n, learned ? (double)options->zero_point : 0.0, &fake->zero_point);
  if (status != INTACT_OK) {
    intact__fake_quantizer_destroy(context, fake);
    return status;
  }
  fake->dirty = !spec->observer || strcmp(spec->observer->name, "fixed_qparams") == 0; /* known from the start */
  intact__fake_quantizer_destroy(context, observation->fake);
  observation->fake = fake;
  return INTACT_OK;
}

intact_status intact__fake_quantizer_copy(const intact_observation *from, intact_observation *to) {
  intact_context *context = to->context;
  intact_fake_quantizer *made = intact__alloc(context, 1, sizeof *made);
  if (!made) return intact__no_memory(context, sizeof *made);
  *made = *from->fake;
  made->scale = made->zero_point = NULL;
  made->unclamped = NULL;
  intact_status status = intact_tensor_copy(from->fake->scale, &made->scale);
  if (status == INTACT_OK) status = intact_tensor_copy(from->fake->zero_point, &made->zero_point);
  if (status != INTACT_OK) {
    intact__fake_quantizer_destroy(context, made);
    return status;
  }
  intact__tensor_move(made->scale, context);
  intact__tensor_move(made->zero_point, context);
  intact__fake_quantizer_destroy(context, to->fake);
  to->fake = made;
  return INTACT_OK;
}

void intact__fake_quantizer_destroy(intact_context *context, intact_fake_quantizer *fake) {
  if (!fake) return;
  intact_tensor_destroy(fake->scale);
  intact_tensor_destroy(fake->zero_point);
  intact__free(context, fake);
}

void intact__fake_quantizer_switch(intact_observation *observation, bool observer, bool fake_quant) {
  observation->frozen = !observer;
  observation->fake->fake_quant_enabled = fake_quant;
  if (observer) observation->fake->learning_enabled = false;
}

intact_status intact__fake_quantizer_set_mode(intact_observation *observation, intact_fake_mode mode) {
  intact_fake_quantizer *fake = observation->fake;
  if (mode == INTACT_FAKE_LEARN && !is_learned(fake))
    INTACT_FAIL(observation->context, WRONG_USE, name_of(observation),
                "fake quantization: its qparams are observed and can't be learned; make it a learned one");
  intact__fake_quantizer_switch(observation, mode == INTACT_FAKE_OBSERVE || mode == INTACT_FAKE_ESTIMATE,
                                mode != INTACT_FAKE_FLOAT && mode != INTACT_FAKE_OBSERVE);
  fake->learning_enabled = mode == INTACT_FAKE_LEARN;
  return INTACT_OK;
}

intact_status intact__graph_set_fake_mode(intact_graph *graph, unsigned roles, intact_fake_mode mode) {
  for (intact_node *node = graph->first; node; node = node->next) {
    for (int i = 0; i < node->n_bodies; i++) INTACT_TRY(intact__graph_set_fake_mode(node->bodies[i], roles, mode));
    if (!node->observation || !node->observation->fake) continue;
    intact_fake_quantizer *fake = node->observation->fake;
    if (!(roles & (fake->is_weight ? INTACT_FAKE_WEIGHTS : INTACT_FAKE_ACTIVATIONS))) continue;
    bool learn = mode == INTACT_FAKE_LEARN && !is_learned(fake); /* what is not learned freezes */
    INTACT_TRY(intact__fake_quantizer_set_mode(node->observation, learn ? INTACT_FAKE_FROZEN : mode));
  }
  intact__log(graph->context, INTACT_LOG_INFO, "fake quantization of%s%s: mode %d", roles & INTACT_FAKE_ACTIVATIONS ? " activations" : "",
              roles & INTACT_FAKE_WEIGHTS ? " weights" : "", (int)mode);
  return INTACT_OK;
}

/* ---- qparams ---- */

/* scale and zero_point become n values long (in place when they are already). */
static intact_status resize(intact_context *context, intact_fake_quantizer *fake, int64_t n, intact_dtype zero_dtype) {
  if (fake->scale->count != n) {
    intact_tensor *scale;
    INTACT_TRY(filled(context, INTACT_F32, n, 1.0, &scale));
    intact_tensor_destroy(fake->scale);
    fake->scale = scale;
  }
  if (fake->zero_point->count != n || fake->zero_point->dtype != zero_dtype) {
    intact_tensor *zero;
    INTACT_TRY(filled(context, zero_dtype, n, 0.0, &zero));
    intact_tensor_destroy(fake->zero_point);
    fake->zero_point = zero;
  }
  return INTACT_OK;
}

/* By the observer's rule. */
static intact_status take_observed(intact_observation *observation) {
  intact_context *context = observation->context;
  intact_fake_quantizer *fake = observation->fake;
  intact_arena arena;
  intact_qparams *q = NULL;
  intact__arena_init(&arena, context);
  intact_status status = intact__observation_qparams(observation, &arena, &q);
  bool learned = is_learned(fake);
  if (status == INTACT_OK) status = resize(context, fake, q->n, learned || q->real_zero_point ? INTACT_F32 : INTACT_S32);
  for (int64_t i = 0; status == INTACT_OK && i < q->n; i++) {
    intact__f32(fake->scale)[i] = q->scale[i];
    intact__tensor_set_f64(fake->zero_point, i, q->real_zero_point ? (double)q->real_zero_point[i] : q->zero_point[i]);
  }
  intact__arena_fini(&arena);
  fake->dirty = false;
  return status;
}

/* By the integer libraries' rule, for the n channels of x. Ranges that nothing was seen of are empty ones. */
static intact_status take_fused(intact_observation *observation, const intact_tensor *x) {
  intact_context *context = observation->context;
  intact_fake_quantizer *fake = observation->fake;
  const intact_quant_spec *spec = &observation->spec;
  intact_observer_range range = {0};
  INTACT_TRY(spec->observer->range(context, observation->state, &range));
  int64_t n = fake->axis < 0 ? 1 : fake->axis < x->rank ? x->dims[fake->axis] : 0;
  if (range.n != 0 && range.n != n)
    INTACT_FAIL(context, SIZE_MISMATCH, name_of(observation), "fused fake quantization: %lld ranges were observed, x has %lld channels",
                (long long)range.n, (long long)n);
  INTACT_TRY(resize(context, fake, n, INTACT_S32));
  for (int64_t i = 0; i < n; i++) {
    double scale;
    bool seen = range.n > 0 && range.low[i] <= range.high[i];
    intact__choose_qparams(INTACT_CHOOSE_FBGEMM, seen ? range.low[i] : 0.0f, seen ? range.high[i] : 0.0f, (int32_t)fake->low,
                           (int32_t)fake->high, is_symmetric(spec), &scale, (int32_t *)fake->zero_point->data + i);
    intact__f32(fake->scale)[i] = (float)scale;
  }
  return INTACT_OK;
}

/* The learned pair before a forward. */
static void bound_learned(const intact_observation *observation) {
  const intact_fake_quantizer *fake = observation->fake;
  float least = (float)INTACT_DEFAULT_EPS;
  if (fake->kind != INTACT_FAKE_LEARNED_FIRST && observation->frozen)
    for (int64_t i = 0; i < fake->scale->count; i++)
      if (intact__f32(fake->scale)[i] < least) intact__f32(fake->scale)[i] = least;
  if (fake->fake_quant_enabled && is_symmetric(&observation->spec))
    for (int64_t i = 0; i < fake->zero_point->count; i++) intact__f32(fake->zero_point)[i] = 0.0f;
}

/* Where the levels are few, most values lie in a small part of the range: the published start of learned step sizes. Ranges with both
   signs and a zero point between stay as they are. sums: of |x| in every channel, then the elements of one. */
static intact_status start_from_sums(intact_fake_quantizer *fake, intact_context *context, double *sums) {
  const int64_t n = fake->scale->count;
  if (!fake->is_weight) INTACT_TRY(intact__comm_sum_f64(context, sums, (size_t)n + 1));
  for (int64_t c = 0; c < n; c++) {
    const int64_t zero = (int64_t)intact__tensor_get_f64(fake->zero_point, c), levels = fake->high - zero;
    if (levels < 1 || (zero != 0 && zero != fake->low)) continue;
    const float start = (float)(2 * sums[c] / sums[n] / sqrt((double)levels));
    if (start > 0 && start < intact__f32(fake->scale)[c]) intact__f32(fake->scale)[c] = start;
  }
  return INTACT_OK;
}

static intact_status start_from_means(intact_fake_quantizer *fake, const intact_tensor *x) {
  const int64_t n = fake->scale->count;
  double *sums = intact__alloc_zeroed(x->context, (size_t)n + 1, sizeof *sums);
  if (!sums) return intact__no_memory(x->context, (size_t)n * sizeof *sums);
  int64_t inner = n > 1 ? 1 : x->count;
  for (int k = fake->axis + 1; n > 1 && k < x->rank; k++) inner *= x->dims[k];
  for (int64_t c = 0; c < n && x->count > 0; c++)
    for (int64_t first = c * inner; first < x->count; first += n * inner)
      sums[c] += intact__sum_abs_array(intact__f32(x) + first, inner, -INFINITY, INFINITY);
  sums[n] = (double)(x->count / n);
  const intact_status status = start_from_sums(fake, x->context, sums);
  intact__free(x->context, sums);
  return status;
}

/* The same, per tensor, of a clamped x that is not there. */
static intact_status start_from_made(const intact_observation *observation, const intact_made_values *x, float low, float high) {
  float block[INTACT_SUM_BLOCK];
  double sums[2] = {0, (double)x->count};
  for (int64_t first = 0; first < x->count; first += INTACT_SUM_BLOCK) {
    const int64_t n = x->count - first < INTACT_SUM_BLOCK ? x->count - first : INTACT_SUM_BLOCK;
    x->make(x->user, first, n, block);
    sums[0] += intact__sum_abs_array(block, n, low, high);
  }
  return start_from_sums(observation->fake, observation->context, sums);
}

static intact_status refresh(intact_observation *observation, const intact_tensor *x) {
  intact_fake_quantizer *fake = observation->fake;
  if (fake->kind == INTACT_FAKE_FUSED) return fake->fake_quant_enabled ? take_fused(observation, x) : INTACT_OK;
  if (fake->dirty) {
    INTACT_TRY(take_observed(observation));
    if (fake->mean_start && x && x->dtype == INTACT_F32) INTACT_TRY(start_from_means(fake, x));
  }
  if (is_learned(fake)) bound_learned(observation);
  return INTACT_OK;
}

/* ---- forward, backward ---- */

static intact_fake_spec fixed_spec(const intact_observation *observation) {
  const intact_fake_quantizer *fake = observation->fake;
  bool real = fake->zero_point->dtype == INTACT_F32;
  return (intact_fake_spec){.where = name_of(observation),
                            .axis = fake->axis >= 0 && fake->scale->count == 1 ? -1 : fake->axis,
                            .low = fake->low,
                            .high = fake->high,
                            .n = fake->scale->count,
                            .scale = intact__f32(fake->scale),
                            .zero_point = real ? NULL : fake->zero_point->data,
                            .real_zero_point = real ? fake->zero_point->data : NULL};
}

/* Elements of the whole batch that `count` are a part of; weights are the same in all parts. */
static int64_t whole_count(const intact_observation *observation, int64_t count) {
  return observation->fake->is_weight ? count : intact__comm_whole(observation->context, count);
}

static intact_learnable_spec learned_spec(const intact_observation *observation, int64_t count) {
  const intact_fake_quantizer *fake = observation->fake;
  double factor = 1.0;
  if (fake->use_grad_scaling) factor = 1.0 / sqrt((double)whole_count(observation, count) * (double)fake->high);
  return (intact_learnable_spec){.where = name_of(observation),
                                 .axis = fake->axis,
                                 .low = fake->low,
                                 .high = fake->high,
                                 .scale = fake->scale,
                                 .zero_point = fake->zero_point,
                                 .grad_factor = (float)factor};
}

intact_status intact__fake_quantizer_forward(intact_observation *observation, const intact_tensor *x, bool observe,
                                             intact_tensor **y) {
  intact_fake_quantizer *fake = observation->fake;
  bool first = fake->kind == INTACT_FAKE_LEARNED_FIRST && !fake->initialized;
  if (observe && first && observation->frozen) { /* learning from the start: this batch says where from */
    observation->frozen = false;
    intact_status status = intact__observation_update(observation, x);
    observation->frozen = true;
    INTACT_TRY(status);
  } else if (observe) {
    INTACT_TRY(intact__observation_update(observation, x));
  }
  INTACT_TRY(refresh(observation, x));
  fake->stale = fake->fake_quant_enabled ? false : fake->stale || (fake->initialized && !observation->frozen);
  if (fake->fake_quant_enabled || is_learned(fake)) fake->initialized = true;
  if (!fake->fake_quant_enabled) return intact_tensor_copy(x, y);
  if (is_learned(fake)) {
    const intact_learnable_spec spec = learned_spec(observation, x->count);
    return intact__learnable_forward(x, &spec, y);
  }
  const intact_fake_spec spec = fixed_spec(observation);
  bool clamps = true;
  const intact_status status = intact__fake_quantize_forward(x, &spec, y, NULL, &clamps);
  fake->unclamped = clamps ? NULL : x->data;
  return status;
}

/* The gradient of a learned clip's bounds: what lies outside moves with them, (high - z) * scale or (low - z) * scale. */
static void clip_gradient(const intact_observation *observation, const intact_tensor *x, const intact_tensor *dy, intact_tensor *d_scale) {
  const intact_fake_quantizer *fake = observation->fake;
  int64_t inner = x->count > 0 ? x->count : 1;
  for (int i = 0; fake->scale->count > 1 && i <= fake->axis; i++) inner /= x->dims[i];
  for (int64_t c = 0; c < fake->scale->count; c++) {
    const double s = (double)intact__f32(fake->scale)[c];
    const double zero = fmin(fmax(nearbyint((double)intact__f32(fake->zero_point)[c]), (double)fake->low), (double)fake->high);
    double sum = 0;
    for (int64_t first = c * inner; first < x->count; first += fake->scale->count * inner)
      for (int64_t i = first; i < first + inner; i++) {
        const double q = nearbyint((double)intact__f32(x)[i] / s + zero);
        if (q > (double)fake->high) sum += (double)intact__f32(dy)[i] * ((double)fake->high - zero);
        if (q < (double)fake->low) sum += (double)intact__f32(dy)[i] * ((double)fake->low - zero);
      }
    intact__f32(d_scale)[c] = (float)(sum * (double)learned_spec(observation, x->count).grad_factor);
  }
}

intact_status intact__fake_quantizer_backward(intact_observation *observation, const intact_tensor *x, const intact_tensor *dy,
                                              bool over, intact_tensor **dx, intact_tensor **d_scale, intact_tensor **d_zero_point) {
  const intact_fake_quantizer *fake = observation->fake;
  intact_tensor *ds = NULL, *dz = NULL;
  /* Other nodes and other samples may have gone through the quantizer since the forward of this x. */
  const bool passes = fake->fake_quant_enabled && !is_learned(fake) && fake->unclamped && fake->unclamped == x->data;
  if (!fake->fake_quant_enabled || (passes && dy->dtype == INTACT_F32)) {
    INTACT_TRY(over || passes ? intact_tensor_share(dy, 0, NULL, dx) : intact_tensor_copy(dy, dx));
  } else if (is_learned(fake)) {
    intact_learnable_spec spec = learned_spec(observation, x->count);
    if (over && fake->kind != INTACT_FAKE_LEARNED_CLIP) spec.over = dy; /* a clip looks at dy again */
    INTACT_TRY(intact__learnable_backward(x, dy, &spec, dx, &ds, &dz));
    if (fake->kind == INTACT_FAKE_LEARNED_CLIP) {
      clip_gradient(observation, x, dy, ds);
      memset(dz->data, 0, intact_tensor_bytes(dz));
    }
  } else {
    intact_fake_spec spec = fixed_spec(observation);
    if (over && dy->dtype == INTACT_F32) spec.over = dy;
    INTACT_TRY(intact__fake_quantize_backward(x, dy, &spec, dx));
  }
  if (!fake->learning_enabled || !d_scale) {
    intact_tensor_destroy(ds);
    intact_tensor_destroy(dz);
    ds = dz = NULL;
  }
  if (d_scale) *d_scale = ds;
  if (d_zero_point) *d_zero_point = dz;
  return INTACT_OK;
}

bool intact__fake_quantizer_fuses(const intact_observation *observation) {
  const intact_fake_quantizer *fake = observation->fake;
  const intact_observer *row = observation->spec.observer;
  if (!fake || !fake->fake_quant_enabled || fake->axis >= 0 || (row && !row->update_range)) return false;
  if (!is_learned(fake)) return observation->spec.scheme != INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
  return fake->kind == INTACT_FAKE_LEARNED && fake->low <= 0 && fake->high >= 0;
}

bool intact__fake_quantizer_is_learned(const intact_observation *observation) { return is_learned(observation->fake); }

intact_affine intact__fake_quantizer_affine(const intact_observation *observation) {
  const intact_fake_quantizer *fake = observation->fake;
  if (is_learned(fake)) {
    const intact_learnable_spec spec = learned_spec(observation, 1);
    return intact__learnable_affine(&spec);
  }
  return intact__affine(intact__f32(fake->scale)[0], (int32_t)intact__tensor_get_s64(fake->zero_point, 0), fake->low, fake->high);
}

intact_status intact__fake_quantizer_backward_made(const intact_observation *observation, const intact_made_values *x, const float *dy, float low,
                                                   float high, float *dx, intact_tensor **d_scale, intact_tensor **d_zero_point) {
  const intact_learnable_spec spec = learned_spec(observation, x->count);
  INTACT_TRY(intact__learnable_backward_clamped(observation->context, x, dy, low, high, &spec, dx, d_scale, d_zero_point));
  if (observation->fake->learning_enabled) return INTACT_OK;
  intact_tensor_destroy(*d_scale);
  intact_tensor_destroy(*d_zero_point);
  *d_scale = *d_zero_point = NULL;
  return INTACT_OK;
}

intact_status intact__fake_quantizer_by_range(intact_observation *observation, const intact_min_max *batch, const intact_made_values *x,
                                              float low, float high, intact_affine *affine) {
  intact_fake_quantizer *fake = observation->fake;
  const intact_observer *row = observation->spec.observer;
  if (batch && row && !observation->frozen) {
    INTACT_TRY(row->update_range(observation->context, observation->state, batch, x->count));
    fake->dirty = true;
  }
  const bool starts = fake->mean_start && fake->dirty;
  INTACT_TRY(refresh(observation, NULL));
  if (starts) INTACT_TRY(start_from_made(observation, x, low, high));
  fake->initialized = true;
  fake->stale = false;
  fake->unclamped = NULL;
  *affine = intact__fake_quantizer_affine(observation);
  return INTACT_OK;
}

intact_status intact__fake_quantizer_qparams(const intact_observation *observation, intact_arena *arena, intact_qparams **qparams) {
  const intact_fake_quantizer *fake = observation->fake;
  const intact_quant_spec *spec = &observation->spec;
  int64_t n = fake->scale->count;
  int32_t *zero = intact__arena_alloc(arena, (size_t)n, sizeof *zero);
  float *scale = intact__arena_alloc(arena, (size_t)n, sizeof *scale);
  if (!zero || !scale) return intact__no_memory(observation->context, (size_t)n * 8);
  bool real = spec->scheme == INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
  for (int64_t i = 0; i < n; i++) {
    float s = intact__f32(fake->scale)[i];
    double z = intact__tensor_get_f64(fake->zero_point, i);
    scale[i] = s > 0.0f && isfinite(s) ? s : (float)INTACT_DEFAULT_EPS; /* a learned scale may have gone astray */
    zero[i] = real ? 0 : (int32_t)intact__clamp_s64(intact__round_s64(z), fake->low, fake->high);
  }
  int axis = n > 1 || (fake->axis >= 0 && !is_per_tensor(spec)) ? fake->axis : -1;
  intact_qparams *made = intact__qparams_create(arena, axis < 0 && !is_per_tensor(spec) ? INTACT_PER_TENSOR_AFFINE : spec->scheme,
                                                spec->dtype, fake->low, fake->high, axis, n, scale, zero);
  if (!made) return intact__no_memory(observation->context, (size_t)n * 8);
  if (real && fake->zero_point->dtype == INTACT_F32) {
    intact_qparams with_real = *made;
    with_real.real_zero_point = intact__f32(fake->zero_point);
    made = intact__qparams_copy(arena, &with_real);
    if (!made) return intact__no_memory(observation->context, (size_t)n * 8);
  }
  *qparams = made;
  return INTACT_OK;
}

/* ---- save and load ---- */

static intact_status put(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name, intact_tensor *tensor) {
  intact_text text;
  intact__text_init(&text, context);
  intact__text_add(&text, "%s%s", prefix, name);
  intact_status status = text.failed ? intact__no_memory(context, strlen(prefix)) : INTACT_OK;
  if (status == INTACT_OK)
    status = intact_tensor_set_add(set, text.data, tensor);
  else
    intact_tensor_destroy(tensor);
  intact__text_fini(&text);
  return status;
}

static intact_status put_flag(intact_context *context, intact_tensor_set *set, const char *prefix, const char *name, bool on) {
  intact_tensor *tensor;
  INTACT_TRY(filled(context, INTACT_U8, 1, on ? 1.0 : 0.0, &tensor));
  return put(context, set, prefix, name, tensor);
}

static intact_status get(intact_context *context, const intact_tensor_set *set, const char *prefix, const char *name,
                         const intact_tensor **tensor) {
  intact_text text;
  intact__text_init(&text, context);
  intact__text_add(&text, "%s%s", prefix, name);
  intact_status status = text.failed ? intact__no_memory(context, strlen(prefix)) : INTACT_OK;
  const intact_tensor *found = status == INTACT_OK ? intact_tensor_set_find(set, text.data) : NULL;
  if (status == INTACT_OK && (!found || found->count < 1))
    status = intact__fail(context, INTACT_MISSING_ENTRY, text.data, __FILE__, __LINE__,
                          "saved fake quantization: tensor '%s' is missing or empty", text.data);
  intact__text_fini(&text);
  if (status == INTACT_OK) *tensor = found;
  return status;
}

static intact_status get_flag(intact_context *context, const intact_tensor_set *set, const char *prefix, const char *name, bool *on) {
  const intact_tensor *tensor;
  INTACT_TRY(get(context, set, prefix, name, &tensor));
  *on = intact__tensor_get_f64(tensor, 0) != 0.0;
  return INTACT_OK;
}

static intact_status observer_prefix(intact_context *context, const char *prefix, intact_text *text) {
  intact__text_init(text, context);
  intact__text_add(text, "%sactivation_post_process.", prefix);
  return text->failed ? intact__no_memory(context, strlen(prefix)) : INTACT_OK;
}

intact_status intact__fake_quantizer_save(const intact_observation *observation, const char *prefix, intact_tensor_set *set) {
  intact_context *context = observation->context;
  const intact_fake_quantizer *fake = observation->fake;
  intact_tensor *copy;
  bool learned = is_learned(fake);
  INTACT_TRY(intact_tensor_copy(fake->scale, &copy));
  INTACT_TRY(put(context, set, prefix, "scale", copy));
  INTACT_TRY(intact_tensor_copy(fake->zero_point, &copy));
  INTACT_TRY(put(context, set, prefix, "zero_point", copy));
  INTACT_TRY(put_flag(context, set, prefix, "fake_quant_enabled", fake->fake_quant_enabled));
  INTACT_TRY(put_flag(context, set, prefix, fake->kind == INTACT_FAKE_LEARNED ? "static_enabled" : "observer_enabled",
                      !observation->frozen));
  if (learned) INTACT_TRY(put_flag(context, set, prefix, "learning_enabled", fake->learning_enabled));
  const intact_observer *row = observation->spec.observer;
  if (!row) return INTACT_OK;
  intact_text text;
  intact_status status = observer_prefix(context, prefix, &text);
  if (status == INTACT_OK) status = row->save(context, observation->state, text.data, set);
  intact__text_fini(&text);
  return status;
}

intact_status intact__fake_quantizer_load(intact_observation *observation, const char *prefix, const intact_tensor_set *set) {
  intact_context *context = observation->context;
  intact_fake_quantizer *fake = observation->fake;
  const intact_tensor *scale, *zero;
  bool fake_quant, observer, learning = false;
  INTACT_TRY(get(context, set, prefix, "scale", &scale));
  INTACT_TRY(get(context, set, prefix, "zero_point", &zero));
  INTACT_TRY(get_flag(context, set, prefix, "fake_quant_enabled", &fake_quant));
  INTACT_TRY(get_flag(context, set, prefix, fake->kind == INTACT_FAKE_LEARNED ? "static_enabled" : "observer_enabled", &observer));
  if (is_learned(fake)) INTACT_TRY(get_flag(context, set, prefix, "learning_enabled", &learning));
  if (scale->count != zero->count)
    INTACT_FAIL(context, SIZE_MISMATCH, prefix, "saved fake quantization: %lld scales and %lld zero points", (long long)scale->count,
                (long long)zero->count);
  const intact_observer *row = observation->spec.observer;
  if (row) {
    intact_text text;
    intact_status status = observer_prefix(context, prefix, &text);
    if (status == INTACT_OK) status = row->load(context, observation->state, text.data, set);
    intact__text_fini(&text);
    INTACT_TRY(status);
  }
  bool real = is_learned(fake) || observation->spec.scheme == INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS;
  INTACT_TRY(resize(context, fake, scale->count, real ? INTACT_F32 : INTACT_S32));
  for (int64_t i = 0; i < scale->count; i++) {
    intact__tensor_set_f64(fake->scale, i, intact__tensor_get_f64(scale, i));
    intact__tensor_set_f64(fake->zero_point, i, intact__tensor_get_f64(zero, i));
  }
  fake->fake_quant_enabled = fake_quant;
  fake->learning_enabled = learning;
  fake->initialized = true;
  fake->dirty = false;
  observation->frozen = !observer;
  return INTACT_OK;
}
