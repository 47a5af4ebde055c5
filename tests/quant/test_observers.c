/* SPDX-License-Identifier: Apache-2.0 */
/* Observers: the contract of every row (empty, constant, non-finite, merged, saved, bounded) and what each finds. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/observers/observers.h"
#include "quant/observers/presets.h"

static intact_context *context;

static intact_quant_spec spec_for(const intact_observer *row, const char *options) {
  intact_quant_spec spec = {.dtype = INTACT_U8, .scheme = INTACT_PER_TENSOR_AFFINE, .axis = -1, .observer = row, .options = options};
  if (row->per_channel) {
    spec.scheme = INTACT_PER_CHANNEL_AFFINE;
    spec.axis = 0;
    spec.group = 4;
  }
  return spec;
}

static intact_observation *observation_of(const char *name, const char *options) {
  const intact_observer *row = intact__find_observer(name);
  assert_non_null(row);
  const intact_quant_spec spec = spec_for(row, options);
  intact_observation *made = NULL;
  assert_ok(context, intact__observation_create(context, &spec, &made));
  return made;
}

static void feed(intact_observation *observation, const float *values, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  intact_tensor *x;
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 2, dims, values, &x));
  assert_ok(context, intact__observation_update(observation, x));
  intact_tensor_destroy(x);
}

static intact_qparams qparams_of(intact_observation *observation, intact_arena *arena) {
  intact_qparams *q = NULL;
  assert_ok(context, intact__observation_qparams(observation, arena, &q));
  return *q;
}

static bool gives_qparams(const intact_observer *row) {
  return strcmp(row->name, "placeholder") != 0 && strcmp(row->name, "noop") != 0 && strcmp(row->name, "reuse_input") != 0 &&
         strcmp(row->name, "recording") != 0;
}

static bool is_average(const intact_observer *row) { return strstr(row->name, "moving_average") != NULL; }

enum { ROWS = 3, COLUMNS = 8 };

/* ---- the contract of every row ---- */

static void rows_are_complete(void **state) {
  (void)state;
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    assert_true(row->name && row->doc && row->options && row->create && row->destroy && row->update && row->range && row->qparams &&
                row->counts && row->save && row->load && row->merge);
    assert_ptr_equal(intact__find_observer(row->name), row);
    if (row->torch_name) assert_ptr_equal(intact__find_observer(row->torch_name), row);
    if (i > 0) assert_true(strcmp(intact__observers[i - 1]->name, row->name) < 0);
  }
  assert_null(intact__find_observer("nothing"));
}

/* Nothing observed, no elements (P22, PyTorch 49800, 36001), and values that are not finite: usable qparams, and the count says
   so. */
static void nothing_and_non_finite(void **state) {
  (void)state;
  const float bad[ROWS * COLUMNS] = {NAN, INFINITY, -INFINITY, 1.0f, -2.0f, 3.0f, NAN, 0.5f};
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    intact_observation *o = observation_of(row->name, NULL);
    intact_arena arena;
    intact__arena_init(&arena, context);
    feed(o, bad, 0, COLUMNS);
    intact_observer_counts counts;
    row->counts(o->state, &counts);
    assert_int_equal(counts.batches, 0);
    if (gives_qparams(row)) {
      const intact_qparams q = qparams_of(o, &arena);
      assert_true(q.scale[0] == 1.0f && q.zero_point[0] == 0);
    } else {
      intact_qparams *none;
      assert_fails(intact__observation_qparams(o, &arena, &none), INTACT_WRONG_USE);
    }
    feed(o, bad, ROWS, COLUMNS);
    feed(o, bad, 0, COLUMNS); /* again no elements: nothing changes */
    row->counts(o->state, &counts);
    assert_true(counts.batches == 1 && counts.values == ROWS * COLUMNS);
    if (gives_qparams(row) && strcmp(row->name, "fixed_qparams") != 0) {
      assert_int_equal(counts.non_finite, 4);
      const intact_qparams q = qparams_of(o, &arena);
      for (int64_t k = 0; k < q.n; k++) assert_true(q.scale[k] > 0.0f && isfinite(q.scale[k]) && q.zero_point[k] >= 0 && q.zero_point[k] <= 255);
    }
    intact__observation_release(o);
    intact__arena_fini(&arena);
  }
}

/* P20, PyTorch 40310, 36888: every value the same, over two batches. A constant comes back exactly. */
static void constants(void **state) {
  (void)state;
  float five[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) five[i] = 5.0f;
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    if (!gives_qparams(row) || strcmp(row->name, "fixed_qparams") == 0) continue;
    intact_observation *o = observation_of(row->name, NULL);
    intact_arena arena;
    intact__arena_init(&arena, context);
    feed(o, five, ROWS, COLUMNS);
    feed(o, five, ROWS, COLUMNS);
    const intact_qparams q = qparams_of(o, &arena);
    for (int64_t k = 0; k < q.n; k++) {
      assert_true(q.zero_point[k] == 0);
      assert_true(fabsf(255.0f * q.scale[k] - 5.0f) <= 1e-5f);
    }
    intact__observation_release(o);
    intact__arena_fini(&arena);
  }
}

/* Two halves merged against all of it in one; saved and loaded against the original. */
static void merged_and_saved(void **state) {
  (void)state;
  float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
  uint64_t random = test_random_start();
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    a[i] = test_uniform(&random, -1.0f, 2.0f);
    b[i] = test_uniform(&random, -1.0f, 2.0f);
  }
  a[0] = b[0] = -1.0f; /* the same range, so that histograms merge exactly */
  a[1] = b[1] = 2.0f;
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    intact_observation *left = observation_of(row->name, NULL), *right = observation_of(row->name, NULL), *all = observation_of(row->name, NULL);
    intact_observation *loaded = observation_of(row->name, NULL), *copy;
    intact_arena arena;
    intact_tensor_set *set;
    intact__arena_init(&arena, context);
    feed(left, a, ROWS, COLUMNS);
    feed(right, b, ROWS, COLUMNS);
    feed(all, a, ROWS, COLUMNS);
    feed(all, b, ROWS, COLUMNS);
    assert_ok(context, intact__observation_copy(context, left, &copy)); /* also averages: into one that has seen nothing */
    if (is_average(row)) {
      assert_fails(row->merge(context, left->state, right->state), INTACT_WRONG_USE);
    } else {
      assert_ok(context, row->merge(context, left->state, right->state));
      intact_observer_counts counts;
      row->counts(left->state, &counts);
      assert_true(counts.batches == 2 && counts.values == 2 * ROWS * COLUMNS);
    }
    assert_ok(context, intact_tensor_set_create(context, &set));
    assert_ok(context, row->save(context, all->state, "x.", set));
    assert_ok(context, row->load(context, loaded->state, "x.", set));
    if (gives_qparams(row)) {
      const intact_qparams want = qparams_of(all, &arena), got = qparams_of(loaded, &arena);
      assert_true(intact__qparams_equal(&want, &got));
      if (!is_average(row)) {
        const intact_qparams merged = qparams_of(left, &arena);
        assert_true(intact__qparams_equal(&want, &merged));
      }
    }
    intact_tensor_set_destroy(set);
    assert_ok(context, intact_tensor_set_create(context, &set));
    if (strcmp(row->name, "recording") != 0 && strcmp(row->name, "noop") != 0 && strcmp(row->name, "placeholder") != 0 &&
        strcmp(row->name, "reuse_input") != 0)
      assert_fails(row->load(context, loaded->state, "y.", set), INTACT_MISSING_ENTRY);
    intact_tensor_set_destroy(set);
    intact__observation_release(left);
    intact__observation_release(right);
    intact__observation_release(all);
    intact__observation_release(loaded);
    intact__observation_release(copy);
    intact__arena_fini(&arena);
  }
}

/* P27, ONNX Runtime 13044: a bad option says which and what is there. */
static void bad_options(void **state) {
  (void)state;
  void *made;
  for (int i = 0; i < intact__n_observers; i++) {
    const intact_observer *row = intact__observers[i];
    intact_quant_spec spec = spec_for(row, "colour=3");
    assert_fails(row->create(context, &spec, &made), INTACT_WRONG_USE);
    assert_non_null(strstr(intact_context_message(context), "colour"));
  }
  static const char *const bad[][2] = {{"histogram", "bins=0"},       {"histogram", "bins=many"},   {"histogram", "upsample_rate=0"},
                                       {"percentile", "percentile=50"}, {"percentile", "percentile=101"}, {"mse", "norm=0"},
                                       {"entropy", "bins=1"},          {"fixed_qparams", "scale=0"}, {"fixed_qparams", "scale=nan"},
                                       {"fixed_qparams", "zero_point=0.5"}, {"block_min_max", "block=2xx"}, {"block_min_max", "mapping=odd"},
                                       {"moving_average_min_max", "averaging_constant=2"}, {"recording", "limit=0"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const intact_observer *row = intact__find_observer(bad[i][0]);
    const intact_quant_spec spec = spec_for(row, bad[i][1]);
    assert_true(row->create(context, &spec, &made) != INTACT_OK);
  }
  intact_observation *o = observation_of("min_max", NULL);
  const int64_t two[] = {2};
  intact_tensor *whole;
  assert_ok(context, intact_tensor_create(context, INTACT_S32, 1, two, &whole));
  assert_fails(intact__observation_update(o, whole), INTACT_TYPE_MISMATCH);
  intact_tensor_destroy(whole);
  intact__observation_release(o);
}

/* P29, PyTorch 85862: every preset can be made and takes a batch. */
static void presets_work(void **state) {
  (void)state;
  static const float values[] = {-1, 0.5f, 2, 0.25f, 3, -0.75f, 1, 0};
  const int64_t dims[] = {2, 4};
  for (int i = 0; i < intact__n_observer_presets; i++) {
    const intact_observer_preset *preset = &intact__observer_presets[i];
    assert_ptr_equal(intact__find_observer_preset(preset->name), preset);
    intact_observation *o;
    intact_tensor *x, *y;
    assert_ok(context, intact__observer_preset_create(context, preset, &o));
    assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 2, dims, values, &x));
    if (preset->is_fake) {
      assert_ok(context, intact__fake_quantizer_forward(o, x, true, &y));
      for (int k = 0; k < 8; k++) assert_true(isfinite(intact__f32(y)[k]));
      intact_tensor_destroy(y);
    } else {
      assert_ok(context, intact__observation_update(o, x));
    }
    intact_tensor_destroy(x);
    intact__observation_release(o);
  }
  assert_null(intact__find_observer_preset("default_nothing"));
}

/* ---- what each finds ---- */

/* P24, torchao pull request 4189: per channel along axis 1, [[100, 120]] and then 0..7 of shape 1 x 2 x 2 x 2. */
static void torchao_4189(void **state) {
  (void)state;
  intact_quant_spec spec = spec_for(intact__find_observer("per_channel_min_max"), NULL);
  spec.axis = 1;
  intact_observation *o;
  assert_ok(context, intact__observation_create(context, &spec, &o));
  const float first[] = {100, 120}, second[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int64_t four[] = {1, 2, 2, 2};
  intact_tensor *x;
  feed(o, first, 1, 2);
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 4, four, second, &x));
  assert_ok(context, intact__observation_update(o, x));
  intact_tensor_destroy(x);
  intact_observer_range range;
  assert_ok(context, spec.observer->range(context, o->state, &range));
  assert_true(range.n == 2 && range.low[0] == 0 && range.low[1] == 4 && range.high[0] == 100 && range.high[1] == 120);
  intact__observation_release(o);
}

/* P19, PyTorch 39239, 40191; P23, Model-Optimizer 2369: batches of zeros, then values. Same bins as in one shot. */
static void zeros_then_values(void **state) {
  (void)state;
  float zeros[64] = {0}, values[64], both[128] = {0};
  uint64_t random = test_random_start();
  for (int i = 0; i < 64; i++) both[64 + i] = values[i] = test_uniform(&random, -3.0f, 5.0f);
  intact_observation *steps = observation_of("histogram", "bins=32"), *once = observation_of("histogram", "bins=32");
  feed(steps, zeros, 8, 8);
  feed(steps, values, 8, 8);
  feed(once, both, 16, 8);
  intact_tensor_set *a, *b;
  assert_ok(context, intact_tensor_set_create(context, &a));
  assert_ok(context, intact_tensor_set_create(context, &b));
  assert_ok(context, steps->spec.observer->save(context, steps->state, "", a));
  assert_ok(context, once->spec.observer->save(context, once->state, "", b));
  assert_memory_equal(intact_tensor_data(intact_tensor_set_find(a, "histogram")), intact_tensor_data(intact_tensor_set_find(b, "histogram")),
                      32 * sizeof(float));
  intact_tensor_set_destroy(a);
  intact_tensor_set_destroy(b);
  intact__observation_release(steps);
  intact__observation_release(once);
}

/* Half of what a relu gives is 0: that is no reason to cut the other half. 99.5 % of a normal distribution's positive half lies below
   2.81 standard deviations. */
static void zeros_do_not_narrow(void **state) {
  (void)state;
  enum { N = 40000 };
  float *values = malloc(N * sizeof *values);
  assert_non_null(values);
  uint64_t random = test_random_start();
  for (int i = 0; i < N; i++) {
    float sum = 0; /* of 12 uniform numbers: nearly normal, standard deviation 1 */
    for (int k = 0; k < 12; k++) sum += test_uniform(&random, -0.5f, 0.5f);
    values[i] = fmaxf(sum, 0.0f);
  }
  static const char *const names[] = {"histogram", "entropy", "mse", "percentile"};
  for (int k = 0; k < 4; k++) {
    intact_observation *o = observation_of(names[k], NULL);
    intact_arena arena;
    intact__arena_init(&arena, context);
    feed(o, values, 400, 100);
    const intact_qparams q = qparams_of(o, &arena);
    assert_true((double)q.scale[0] * (double)(q.quant_max - q.zero_point[0]) > 2.81);
    intact__observation_release(o);
    intact__arena_fini(&arena);
  }
  free(values);
}

/* P21, PyTorch 122659: a tiny range first, then a huge one. The bins stay as many, no count is lost. */
static void tiny_range_then_wide(void **state) {
  (void)state;
  float tiny[64], wide[64];
  for (int i = 0; i < 64; i++) {
    tiny[i] = 1.0f + (float)i * 1e-7f;
    wide[i] = ((float)i - 32.0f) * 1e30f;
  }
  intact_observation *o = observation_of("histogram", NULL);
  feed(o, tiny, 8, 8);
  feed(o, wide, 8, 8);
  feed(o, tiny, 8, 8);
  intact_tensor_set *set;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, o->spec.observer->save(context, o->state, "", set));
  const intact_tensor *histogram = intact_tensor_set_find(set, "histogram");
  double sum = 0;
  for (int64_t i = 0; i < histogram->count; i++) sum += intact__f32(histogram)[i];
  assert_true(histogram->count == 2048 && fabs(sum - 192) < 1e-6);
  intact_tensor_set_destroy(set);
  intact__observation_release(o);
}

/* P25, ONNX Runtime 10571, 10847: percentiles of lopsided data equal the quantiles of the raw values to a bin's width. */
static void percentiles_are_quantiles(void **state) {
  (void)state;
  enum { N = 20000 };
  static float values[N], sorted[N];
  uint64_t random = test_random_start();
  for (int i = 0; i < N; i++) {
    float u = test_uniform(&random, 0.0f, 1.0f);
    sorted[i] = values[i] = u * u * u * 40.0f - 1.0f; /* most of it near -1 */
  }
  intact_observation *o = observation_of("percentile", "percentile=99,bins=4096");
  feed(o, values, 200, 100);
  for (int gap = N / 2; gap > 0; gap /= 2) /* shell sort */
    for (int i = gap; i < N; i++)
      for (int k = i; k >= gap && sorted[k - gap] > sorted[k]; k -= gap) {
        float t = sorted[k];
        sorted[k] = sorted[k - gap];
        sorted[k - gap] = t;
      }
  intact_observer_range range;
  assert_ok(context, o->spec.observer->range(context, o->state, &range));
  double width = (double)(sorted[N - 1] - sorted[0]) / 4096;
  assert_true(fabs((double)range.low[0] - (double)sorted[N / 100]) <= 2 * width);
  assert_true(fabs((double)range.high[0] - (double)sorted[N - N / 100]) <= 2 * width);
  intact_arena arena;
  intact__arena_init(&arena, context);
  const intact_qparams q = qparams_of(o, &arena);
  assert_true(q.zero_point[0] < 64); /* not at the far end */
  intact__arena_fini(&arena);
  intact__observation_release(o);
}

/* Squared error of quantizing the values with what an observer found. */
static double squared_error(const float *values, int64_t n, const intact_qparams *q) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double code = fmin(fmax(nearbyint((double)values[i] / (double)q->scale[0]) + q->zero_point[0], 0), (double)q->quant_max);
    double error = (code - q->zero_point[0]) * (double)q->scale[0] - (double)values[i];
    sum += error * error;
  }
  return sum;
}

/* One outlier: searching observers lose less than the full range; none is worse than it by more than its bins. */
static void searches_cut_outliers(void **state) {
  (void)state;
  enum { N = 40000 };
  static float values[N];
  uint64_t random = test_random_start();
  for (int i = 0; i < N; i++) {
    float sum = 0;
    for (int k = 0; k < 12; k++) sum += test_uniform(&random, 0.0f, 1.0f);
    values[i] = sum - 6.0f; /* about normal */
  }
  values[17] = 30.0f;
  double errors[4];
  static const char *const names[] = {"min_max", "mse", "histogram", "entropy"};
  for (int k = 0; k < 4; k++) {
    const intact_observer *row = intact__find_observer(names[k]);
    intact_quant_spec spec = spec_for(row, NULL);
    spec.dtype = INTACT_U8;
    spec.quant_max = 15; /* coarse, so that clipping pays */
    intact_observation *o;
    intact_arena arena;
    intact__arena_init(&arena, context);
    assert_ok(context, intact__observation_create(context, &spec, &o));
    feed(o, values, 400, 100);
    const intact_qparams q = qparams_of(o, &arena);
    errors[k] = squared_error(values, N, &q);
    intact__observation_release(o);
    intact__arena_fini(&arena);
  }
  assert_true(errors[1] < 0.5 * errors[0]);
  assert_true(errors[3] < errors[0]);
  assert_true(errors[2] <= errors[0] * 1.0001);
}

static void count_warnings(void *user, intact_log_level level, const char *text) {
  if (level == INTACT_LOG_WARNING && strstr(text, "one range to try") != NULL) ++*(int *)user;
}

/* P26, ONNX Runtime 9597, 10261: with as many bins as levels there is one candidate, and it says so; with more there are many. */
static void entropy_has_candidates(void **state) {
  (void)state;
  static const int64_t levels[] = {256, 128, 128}, warned[] = {1, 1, 0};
  static const char *const bins[] = {"bins=128", "bins=128", "bins=2048"};
  const int64_t dims[] = {40, 25};
  float values[1000];
  uint64_t random = test_random_start();
  for (int i = 0; i < 1000; i++) values[i] = test_uniform(&random, 0, 1) * test_uniform(&random, 0, 1);
  values[3] = 40; /* one outlier */
  for (int k = 0; k < 3; k++) {
    int warnings = 0;
    intact_context_options options = intact_context_default_options();
    options.log = count_warnings, options.log_user = &warnings;
    intact_context *own;
    intact_tensor *x;
    intact_observation *o;
    intact_observer_range range;
    assert_ok(context, intact_context_create(&options, &own));
    intact_quant_spec spec = spec_for(intact__find_observer("entropy"), bins[k]);
    spec.quant_max = levels[k] - 1;
    assert_ok(own, intact__observation_create(own, &spec, &o));
    assert_ok(own, intact_tensor_borrow(own, INTACT_F32, 2, dims, values, &x));
    assert_ok(own, intact__observation_update(o, x));
    assert_ok(own, spec.observer->range(own, o->state, &range));
    assert_int_equal(warnings > 0, warned[k]);
    assert_true(k < 2 ? range.high[0] == 40 : range.high[0] < 20);
    intact_tensor_destroy(x);
    intact__observation_release(o);
    intact_context_destroy(own);
  }
}

static void groups_and_tokens(void **state) {
  (void)state;
  static const float x[] = {0, 1, 2, 3, -4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255};
  intact_observation *group = observation_of("per_group_min_max", NULL), *token = observation_of("per_token_min_max", NULL);
  intact_arena arena;
  intact__arena_init(&arena, context);
  feed(group, x, 2, 8);
  feed(token, x, 2, 8);
  const intact_qparams g = qparams_of(group, &arena), t = qparams_of(token, &arena);
  assert_true(g.scheme == INTACT_PER_GROUP_AFFINE && g.axis == 1 && g.group == 4 && g.n == 4);
  assert_true(g.scale[0] == 3.0f / 255 && g.scale[1] == 11.0f / 255 && g.zero_point[1] == 93 && g.scale[3] == 1.0f);
  assert_true(t.n == 2 && t.axis == 0 && t.scale[1] == 1.0f);
  intact__observation_release(group);
  intact__observation_release(token);
  intact__arena_fini(&arena);
}

/* P18, llama.cpp 8661, 20460: a block of zeros has a usable scale. */
static void blocks_of_zeros(void **state) {
  (void)state;
  static const float x[16] = {0, 0, 0, 0, 1e-11f, -1e-11f, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3};
  static const char *const mappings[] = {"mapping=asymmetric", "mapping=symmetric", "mapping=symmetric_no_clipping_err"};
  for (int m = 0; m < 3; m++) {
    intact_observation *o = observation_of("per_group_min_max", mappings[m]);
    intact_arena arena;
    intact__arena_init(&arena, context);
    feed(o, x, 2, 8);
    const intact_qparams q = qparams_of(o, &arena);
    assert_int_equal(q.n, 4);
    for (int i = 0; i < 4; i++) assert_true(q.scale[i] > 0 && isnormal(q.scale[i]));
    intact__observation_release(o);
    intact__arena_fini(&arena);
  }
}

/* Counts go on beyond what 32 bits hold. */
static void counts_have_64_bits(void **state) {
  (void)state;
  intact_observation *o = observation_of("histogram", "bins=4");
  const int64_t three[] = {3}, four[] = {4};
  const float counts[] = {6e9f, 0, 0, 1}, low = 0, high = 4;
  const int64_t tally[] = {6000000001, 0, 1};
  intact_tensor_set *set;
  intact_tensor *t;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 1, four, counts, &t));
  assert_ok(context, intact_tensor_set_add(set, "histogram", t));
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 0, NULL, &low, &t));
  assert_ok(context, intact_tensor_set_add(set, "min_val", t));
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 0, NULL, &high, &t));
  assert_ok(context, intact_tensor_set_add(set, "max_val", t));
  assert_ok(context, intact_tensor_borrow(context, INTACT_S64, 1, three, tally, &t));
  assert_ok(context, intact_tensor_set_add(set, "counts", t));
  assert_ok(context, o->spec.observer->load(context, o->state, "", set));
  const float more[] = {3.5f, 3.5f};
  feed(o, more, 1, 2);
  intact_observer_counts now;
  o->spec.observer->counts(o->state, &now);
  assert_int_equal(now.values, 6000000003);
  intact_tensor_set *after;
  assert_ok(context, intact_tensor_set_create(context, &after));
  assert_ok(context, o->spec.observer->save(context, o->state, "", after));
  assert_true(intact__f32(intact_tensor_set_find(after, "histogram"))[3] == 3.0f);
  intact_tensor_set_destroy(after);
  intact_tensor_set_destroy(set);
  intact__observation_release(o);
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_complete), cmocka_unit_test(nothing_and_non_finite), cmocka_unit_test(constants),
      cmocka_unit_test(merged_and_saved), cmocka_unit_test(bad_options), cmocka_unit_test(torchao_4189),
      cmocka_unit_test(zeros_then_values), cmocka_unit_test(tiny_range_then_wide), cmocka_unit_test(percentiles_are_quantiles),
      cmocka_unit_test(searches_cut_outliers), cmocka_unit_test(groups_and_tokens), cmocka_unit_test(counts_have_64_bits),
      cmocka_unit_test(entropy_has_candidates), cmocka_unit_test(blocks_of_zeros), cmocka_unit_test(presets_work),
      cmocka_unit_test(zeros_do_not_narrow),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
