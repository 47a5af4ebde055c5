/* SPDX-License-Identifier: Apache-2.0 */
/* The FakeQuantize state machine: modes, whole networks, learned qparams, saving; and that what was trained is what
 * converts. */
#include <math.h>
#include <string.h>

#include "graph/fake_quantizer.h"
#include "support/test.h"

static intact_context *context;

static intact_observation *quantizer_of(intact_fake_kind kind, const char *observer, intact_dtype dtype,
                                        intact_qscheme scheme, bool is_weight) {
  const intact_quant_spec spec = {.dtype = dtype,
                                  .scheme = scheme,
                                  .axis = scheme == INTACT_PER_CHANNEL_SYMMETRIC ? 0 : -1,
                                  .observer = intact__find_observer(observer)};
  const intact_fake_options options = {.kind = kind,
                                       .is_weight = is_weight,
                                       .scale = 0.1f,
                                       .zero_point = 0.0f,
                                       .channels = scheme == INTACT_PER_CHANNEL_SYMMETRIC ? 2 : 0};
  intact_observation *made = NULL;
  assert_ok(context, intact__observation_create(context, &spec, &made));
  assert_ok(context, intact__fake_quantizer_create(made, &options));
  return made;
}

static intact_tensor *tensor_of(const float *values, int64_t n) {
  const int64_t dims[] = {2, n / 2};
  intact_tensor *x;
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 2, dims, values, &x));
  return x;
}

static intact_tensor *forward(intact_observation *o, const intact_tensor *x) {
  intact_tensor *y = NULL;
  assert_ok(context, intact__fake_quantizer_forward(o, x, true, &y));
  return y;
}

static bool same(const intact_tensor *a, const intact_tensor *b) {
  return memcmp(a->data, b->data, intact_tensor_bytes(a)) == 0;
}

static float scale_of(const intact_observation *o) {
  return intact__f32(o->fake->scale)[0];
}

static const float small[] = {-1, 0.3f, 0.62f, 1, 0.77f, -0.2f, 0.11f, 0.5f},
                   large[] = {-4, 0.3f, 0.62f, 8, 0.77f, -0.2f, 0.11f, 0.5f};

/* P77, torchao 2138: qparams move only while they are observed; switched off, y = x; frozen, they stay. */
static void modes(void **state) {
  (void)state;
  intact_observation *o = quantizer_of(INTACT_FAKE_OBSERVED, "min_max", INTACT_U8, INTACT_PER_TENSOR_AFFINE, false);
  intact_tensor *a = tensor_of(small, 8), *b = tensor_of(large, 8), *y, *again;
  y = forward(o, a); /* estimate */
  assert_false(same(y, a));
  assert_true(scale_of(o) == 2.0f / 255);
  intact_tensor_destroy(y);
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_FROZEN));
  y = forward(o, b);
  assert_true(scale_of(o) == 2.0f / 255 && intact__f32(y)[3] <= 1.01f); /* 8 is cut */
  intact_tensor_destroy(y);
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_FLOAT));
  y = forward(o, b);
  assert_true(same(y, b));
  intact_tensor_destroy(y);
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_OBSERVE));
  y = forward(o, b);
  assert_true(same(y, b) && scale_of(o) == 12.0f / 255);
  intact_tensor_destroy(y);
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_FROZEN));
  y = forward(o, b);
  again = forward(o, b);
  assert_true(same(y, again) && scale_of(o) == 12.0f / 255);
  /* convert takes what the last forward used: sim equals int */
  intact_arena arena;
  intact_qparams *q;
  intact_tensor *codes, *back;
  intact__arena_init(&arena, context);
  assert_ok(context, intact__fake_quantizer_qparams(o, &arena, &q));
  assert_ok(context, intact__quantize_tensor(b, q, &codes));
  assert_ok(context, intact__dequantize_tensor(codes, q, &back));
  assert_true(same(back, y));
  assert_fails(intact__fake_quantizer_set_mode(o, INTACT_FAKE_LEARN), INTACT_WRONG_USE);
  intact__arena_fini(&arena);
  intact_tensor *all[] = {a, b, y, again, codes, back};
  for (int i = 0; i < 6; i++) intact_tensor_destroy(all[i]);
  intact__observation_release(o);
}

/* P28, torchao 4824: -8..7 symmetric, min -1.149422, max 2.533506. Observed: max / 7.5; fused: max / 7, by fbgemm's rule.
   What the forward rounds to is what converts, for both. */
static void one_scale_for_training_and_convert(void **state) {
  (void)state;
  static const float values[] = {-1.149422f, 2.533506f, 0.5f, -0.25f};
  static const double wanted[] = {0.337801, 0.361929};
  for (int fused = 0; fused < 2; fused++) {
    const intact_quant_spec spec = {.dtype = INTACT_S8,
                                    .quant_min = -8,
                                    .quant_max = 7,
                                    .scheme = INTACT_PER_TENSOR_SYMMETRIC,
                                    .axis = -1,
                                    .observer = intact__find_observer("moving_average_min_max"),
                                    .options = "averaging_constant=1"};
    const intact_fake_options options = {.kind = fused ? INTACT_FAKE_FUSED : INTACT_FAKE_OBSERVED, .is_weight = true};
    intact_observation *o = NULL;
    intact_arena arena;
    intact_qparams *q;
    intact_tensor *x = tensor_of(values, 4), *y, *codes, *back;
    intact__arena_init(&arena, context);
    assert_ok(context, intact__observation_create(context, &spec, &o));
    assert_ok(context, intact__fake_quantizer_create(o, &options));
    y = forward(o, x);
    assert_ok(context, intact__fake_quantizer_qparams(o, &arena, &q));
    assert_true(fabs((double)q->scale[0] - wanted[fused]) < 1e-6 && q->zero_point[0] == 0);
    assert_ok(context, intact__quantize_tensor(x, q, &codes));
    assert_ok(context, intact__dequantize_tensor(codes, q, &back));
    assert_true(same(back, y));
    intact__arena_fini(&arena);
    intact_tensor *all[] = {x, y, codes, back};
    for (int i = 0; i < 4; i++) intact_tensor_destroy(all[i]);
    intact__observation_release(o);
  }
}

/* dx = dy * mask(x), whatever went through the quantizer between the forward of x and its backward: -12.8..12.7 by steps of 0.1. */
static void masks_are_of_their_own_samples(void **state) {
  (void)state;
  static const float wide[] = {-20, 1, 20, 12.7f}, narrow[] = {-1, 1, 2, 3}, upstream[] = {1, 2, 3, 4}, masked[] = {0, 2, 0, 4};
  const intact_quant_spec spec = {
      .dtype = INTACT_S8, .quant_min = -128, .quant_max = 127, .scheme = INTACT_PER_TENSOR_AFFINE, .axis = -1};
  const intact_fake_options options = {.kind = INTACT_FAKE_OBSERVED};
  intact_observation *o = NULL;
  assert_ok(context, intact__observation_create(context, &spec, &o));
  o->fixed_scale = 0.1f;
  assert_ok(context, intact__fake_quantizer_create(o, &options));
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_FROZEN));
  intact_tensor *x = tensor_of(wide, 4), *other = tensor_of(narrow, 4), *dy = tensor_of(upstream, 4), *want = tensor_of(masked, 4);
  intact_tensor *y = forward(o, x), *between = forward(o, other), *dx = NULL, *d_other = NULL;
  assert_ok(context, intact__fake_quantizer_backward(o, x, dy, false, &dx, NULL, NULL));
  assert_ok(context, intact__fake_quantizer_backward(o, other, dy, false, &d_other, NULL, NULL));
  assert_true(same(dx, want));
  assert_true(same(d_other, dy));
  intact_tensor *all[] = {x, other, dy, want, y, between, dx, d_other};
  for (int i = 0; i < 8; i++) intact_tensor_destroy(all[i]);
  intact__observation_release(o);
}

/* Esser et al., Learned Step Size Quantization, section 2.1: steps start at 2 mean|x| / sqrt(quant_max). One large value
   among small ones, -2..1: mean|x| = (7 * 0.1 + 8) / 8 = 1.0875, the step 2.175; by the range it would be 8 / 1.5. Where the
   range asks for less, it stays: 255 levels of the same values. */
static void learned_steps_start_from_means(void **state) {
  (void)state;
  static const float values[] = {0.1f, -0.1f, 0.1f, 8.0f, -0.1f, 0.1f, 0.1f, -0.1f};
  static const int64_t lows[] = {-2, -127}, highs[] = {1, 127};
  static const double wanted[2][2] = {{8 / 1.5, 2.175}, {8.0 / 127, 8.0 / 127}};
  for (int k = 0; k < 2; k++)
    for (int means = 0; means < 2; means++) {
      const intact_quant_spec spec = {.dtype = INTACT_S8,
                                      .quant_min = lows[k],
                                      .quant_max = highs[k],
                                      .scheme = INTACT_PER_TENSOR_SYMMETRIC,
                                      .axis = -1,
                                      .observer = intact__find_observer("moving_average_min_max")};
      const intact_fake_options options = {.kind = INTACT_FAKE_LEARNED, .is_weight = true, .scale = 1, .mean_start = means};
      intact_observation *o = NULL;
      intact_tensor *x = tensor_of(values, 8), *y;
      assert_ok(context, intact__observation_create(context, &spec, &o));
      assert_ok(context, intact__fake_quantizer_create(o, &options));
      y = forward(o, x);
      assert_float_equal(scale_of(o), wanted[k][means], 1e-6);
      intact_tensor_destroy(x), intact_tensor_destroy(y);
      intact__observation_release(o);
    }
}

/* Gradients of learned qparams: the straight-through model y = s * (clamp(r) - z) with r = x / s + z, whose derivative by s
   is taken numerically with the rounding held (PyTorch 41968: it must carry dy). */
static void learned_gradients(void **state) {
  (void)state;
  intact_observation *o = quantizer_of(INTACT_FAKE_LEARNED, "min_max", INTACT_S8, INTACT_PER_TENSOR_AFFINE, false);
  float values[64], upstream[64];
  uint64_t random = test_random_start();
  for (int i = 0; i < 64; i++) {
    values[i] = test_uniform(&random, -20.0f, 20.0f); /* some outside of -12.8..12.7 */
    upstream[i] = test_uniform(&random, -1.0f, 1.0f);
  }
  intact_tensor *x = tensor_of(values, 64), *dy = tensor_of(upstream, 64), *y, *dx, *ds, *dz;
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_LEARN));
  y = forward(o, x);
  assert_ok(context, intact__fake_quantizer_backward(o, x, dy, false, &dx, &ds, &dz));
  double s = (double)scale_of(o), numeric_s = 0, numeric_z = 0, size = 0;
  for (int i = 0; i < 64; i++) {
    double rounded = nearbyint((double)values[i] / s), residue = rounded - (double)values[i] / s, h = 1e-6;
    bool inside = rounded >= -128 && rounded <= 127;
    double low = (fmin(fmax((double)values[i] / (s - h) + (inside ? residue : 0), -128), 127)) * (s - h);
    double high = (fmin(fmax((double)values[i] / (s + h) + (inside ? residue : 0), -128), 127)) * (s + h);
    numeric_s += (double)upstream[i] * (high - low) / (2 * h);
    if (!inside) numeric_z -= (double)upstream[i] * s;
    size += fabs((double)upstream[i]) * 128;
    assert_true(intact__f32(dx)[i] == (inside ? upstream[i] : 0.0f));
  }
  assert_true(fabs(numeric_s - (double)intact__f32(ds)[0]) < size * 1e-5);
  assert_true(fabs(numeric_z - (double)intact__f32(dz)[0]) < 1e-4);
  intact_tensor *all[] = {x, dy, y, dx, ds, dz};
  for (int i = 0; i < 6; i++) intact_tensor_destroy(all[i]);
  intact__observation_release(o);
}

/* AIMET 4009, brevitas 1328: a learned scale that went negative or to NaN still converts to a usable one. */
static void learned_scales_stay_usable(void **state) {
  (void)state;
  intact_observation *o = quantizer_of(INTACT_FAKE_LEARNED, "min_max", INTACT_S8, INTACT_PER_TENSOR_SYMMETRIC, true);
  intact_tensor *x = tensor_of(small, 8), *y;
  assert_ok(context, intact__fake_quantizer_set_mode(o, INTACT_FAKE_LEARN));
  intact__f32(o->fake->scale)[0] = -0.5f;
  y = forward(o, x);
  assert_true(scale_of(o) > 0);
  for (int i = 0; i < 8; i++) assert_true(isfinite(intact__f32(y)[i]));
  intact__f32(o->fake->scale)[0] = NAN;
  intact_arena arena;
  intact_qparams *q;
  intact__arena_init(&arena, context);
  assert_ok(context, intact__fake_quantizer_qparams(o, &arena, &q));
  assert_true(q->scale[0] > 0 && isfinite(q->scale[0]));
  intact__arena_fini(&arena);
  intact_tensor_destroy(x);
  intact_tensor_destroy(y);
  intact__observation_release(o);
}

static void saved_and_loaded(void **state) {
  (void)state;
  static const intact_fake_kind kinds[] = {INTACT_FAKE_OBSERVED, INTACT_FAKE_FUSED, INTACT_FAKE_LEARNED,
                                           INTACT_FAKE_LEARNED_FIRST};
  for (int k = 0; k < 4; k++) {
    const char *observer = "moving_average_per_channel_min_max";
    intact_observation *from = quantizer_of(kinds[k], observer, INTACT_S8, INTACT_PER_CHANNEL_SYMMETRIC, true);
    intact_observation *to = quantizer_of(kinds[k], observer, INTACT_S8, INTACT_PER_CHANNEL_SYMMETRIC, true), *copy;
    intact_tensor *x = tensor_of(large, 8), *y, *z, *w;
    intact_tensor_set *set;
    intact_tensor_destroy(forward(from, x));
    assert_ok(context, intact__fake_quantizer_set_mode(from, INTACT_FAKE_FROZEN));
    y = forward(from, x);
    assert_ok(context, intact_tensor_set_create(context, &set));
    assert_ok(context, intact__fake_quantizer_save(from, "layer.weight_fake_quant.", set));
    assert_non_null(intact_tensor_set_find(set, "layer.weight_fake_quant.scale"));
    assert_non_null(intact_tensor_set_find(set, "layer.weight_fake_quant.fake_quant_enabled"));
    assert_non_null(intact_tensor_set_find(set, "layer.weight_fake_quant.activation_post_process.min_val"));
    assert_ok(context, intact__fake_quantizer_load(to, "layer.weight_fake_quant.", set));
    assert_true(to->frozen);
    z = forward(to, x);
    assert_true(same(y, z));
    assert_ok(context, intact__observation_copy(context, from, &copy));
    w = forward(copy, x);
    assert_true(same(y, w));
    assert_fails(intact__fake_quantizer_load(to, "other.", set), INTACT_MISSING_ENTRY);
    intact_tensor_set_destroy(set);
    intact_tensor *all[] = {x, y, z, w};
    for (int i = 0; i < 4; i++) intact_tensor_destroy(all[i]);
    intact__observation_release(from);
    intact__observation_release(to);
    intact__observation_release(copy);
  }
}

/* x -> fake_quantize -> y, w -> fake_quantize -> v: switched over the graph by role, run by the interpreter. */
static void whole_network(void **state) {
  (void)state;
  const intact_op *op = intact__find_op("fake_quantize");
  intact_graph *graph;
  intact_value *x[2];
  intact_node *node[2];
  const int64_t dims[] = {2, 4};
  assert_ok(context, intact__graph_create(context, "net", &graph));
  for (int i = 0; i < 2; i++) {
    assert_ok(context, intact__graph_add_input(graph, i ? "w" : "x", INTACT_F32, 2, dims, &x[i]));
    assert_ok(context, intact__graph_add_node(graph, op, i ? "fw" : "fx", 1, &x[i], 1, NULL, NULL, &node[i]));
    node[i]->observation = quantizer_of(INTACT_FAKE_OBSERVED, "min_max", INTACT_S8, INTACT_PER_TENSOR_SYMMETRIC, i == 1);
  }
  intact_value *outputs[2] = {node[0]->results[0], node[1]->results[0]};
  assert_ok(context, intact__graph_set_outputs(graph, 2, outputs));
  assert_ok(context, intact__graph_infer(graph));
  graph->stage = INTACT_STAGE_OBSERVED;
  assert_ok(context, intact_graph_verify(graph));
  intact_tensor *a = tensor_of(small, 8), *b = tensor_of(large, 8), *y[2];
  const intact_tensor *inputs[2] = {a, b};
  const intact_interp_options observe = {.observe = true}, plain = {0};
  assert_ok(context, intact__graph_set_fake_mode(graph, INTACT_FAKE_ACTIVATIONS, INTACT_FAKE_OBSERVE));
  assert_ok(context, intact__interpret(graph, inputs, &observe, y));
  assert_true(same(y[0], a));
  assert_false(same(y[1], b));
  for (int i = 0; i < 2; i++) intact_tensor_destroy(y[i]);
  assert_ok(context, intact__graph_set_fake_mode(graph, INTACT_FAKE_ACTIVATIONS | INTACT_FAKE_WEIGHTS, INTACT_FAKE_FROZEN));
  const intact_tensor *swapped[2] = {b, a};
  assert_ok(context, intact__interpret(graph, swapped, &observe, y));
  assert_true(scale_of(node[0]->observation) == 1.0f / 127.5f && scale_of(node[1]->observation) == 8.0f / 127.5f);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(y[i]);
  assert_ok(context, intact__interpret(graph, inputs, &plain, y));
  assert_false(same(y[0], a));
  for (int i = 0; i < 2; i++) intact_tensor_destroy(y[i]);
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
  intact_graph_destroy(graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(modes),
      cmocka_unit_test(learned_steps_start_from_means),
      cmocka_unit_test(masks_are_of_their_own_samples),
      cmocka_unit_test(learned_gradients),
      cmocka_unit_test(learned_scales_stay_usable),
      cmocka_unit_test(saved_and_loaded),
      cmocka_unit_test(whole_network),
      cmocka_unit_test(one_scale_for_training_and_convert),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
