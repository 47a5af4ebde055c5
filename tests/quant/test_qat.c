/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization-aware training of graphs: what is inserted, what is trained, and that this is what converts. */
#include "intact/qat.h"
#include "autograd/trainable.h"
#include "graph/fake_quantizer.h"
#include "support/lab.h"

static intact_context *context;

static intact_value *random_constant(lab *l, const char *name, float low, float high, int64_t n) {
  return lab_constant(l, name, lab_random(l, low, high, 1, &n));
}

static intact_value *norm(lab *l, const char *name, intact_value *x) {
  const int64_t n = x->dims[1];
  intact_value *const operands[5] = {x, random_constant(l, "gamma", 0.5f, 1.5f, n), random_constant(l, "beta", -0.2f, 0.2f, n),
                                     random_constant(l, "mean", -0.1f, 0.1f, n), random_constant(l, "var", 0.5f, 1.0f, n)};
  return lab_infer(l, lab_node(l, &intact_op_batch_norm, name, 5, operands));
}

/* conv, norm, relu; conv, norm; mean over the plane; linear */
static lab network(void) {
  lab l = lab_create(context);
  intact_value *y = lab_input(&l, "x", LAB_DIMS(1, 2, 6, 6));
  y = lab_unary(&l, &intact_op_relu, "relu", norm(&l, "norm1", lab_conv(&l, "conv1", y, 4, 3, 1)));
  y = norm(&l, "norm2", lab_conv(&l, "conv2", y, 6, 3, 2));
  intact_node *mean = lab_node(&l, &intact_op_mean, "pool", 1, &y);
  assert_ok(context, intact__attr_set_ints(mean, "dim", 2, (const int64_t[]){2, 3}));
  y = lab_linear(&l, "fc", lab_infer(&l, mean), 3);
  lab_outputs(&l, 1, &y);
  return l;
}

static intact_variable *variable_of(intact_tensor *tensor) {
  intact_variable *made;
  assert_ok(context, intact_variable_create(tensor, false, &made));
  intact_tensor_destroy(tensor);
  return made;
}

static intact_variable *forward(intact_trainable *t, intact_variable *x) {
  intact_variable *y;
  assert_ok(context, intact_trainable_forward(t, &x, &y));
  return y;
}

/* One step of plain gradient descent on the mean square of the outputs' distance to a target; the loss before it. */
static float step(intact_trainable *t, intact_variable *x, intact_variable *target, float rate) {
  intact_variable *y = forward(t, x), *gap, *square, *loss;
  assert_ok(context, intact_variable_call(context, "sub", NULL, 2, (intact_variable *const[]){y, target}, 1, &gap));
  assert_ok(context, intact_variable_call(context, "mul", NULL, 2, (intact_variable *const[]){gap, gap}, 1, &square));
  assert_ok(context, intact_variable_call(context, "mean", NULL, 1, &square, 1, &loss));
  intact_trainable_clear_gradients(t);
  assert_ok(context, intact_variable_backward(loss, NULL, false));
  const float value = intact__f32(intact_variable_tensor(loss))[0];
  for (int i = 0; i < intact_trainable_count(t); i++) {
    intact_variable *p = intact_trainable_parameter(t, i);
    const intact_tensor *g = intact_variable_gradient(p);
    if (!g) continue;
    float *w = intact_tensor_mutable_data(intact_variable_tensor(p));
    for (int64_t k = 0; k < g->count; k++) w[k] -= rate * intact__f32(g)[k];
  }
  intact_variable_release(y);
  intact_variable_release(gap);
  intact_variable_release(square);
  intact_variable_release(loss);
  return value;
}

static double largest_gap(const intact_tensor *a, const intact_tensor *b) {
  double most = 0;
  assert_int_equal(a->count, b->count);
  for (int64_t i = 0; i < a->count; i++) most = fmax(most, fabs((double)intact__f32(a)[i] - (double)intact__f32(b)[i]));
  return most;
}

/* Trains, converts, and compares the trained network with the q/dq one and the integer one. */
static void train_and_convert(const intact_qat_options *options, intact_qat_mode last) {
  lab l = network();
  assert_ok(context, intact_prepare_qat(l.graph, options));
  assert_int_equal(lab_count(l.graph, "batch_norm"), 0);
  assert_int_equal(lab_count(l.graph, "folded_batch_norm"), 2);
  assert_int_equal(lab_count(l.graph, "observe"), 0);
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_variable *x = variable_of(lab_random(&l, -1, 1, LAB_DIMS(16, 2, 6, 6))), *target = variable_of(lab_random(&l, -1, 1, LAB_DIMS(16, 3)));
  float first = 0, now = 0;
  for (int i = 0; i < 30; i++) {
    if (i == 20) {
      assert_ok(context, intact_qat_set_mode(l.graph, INTACT_QAT_ACTIVATIONS | INTACT_QAT_WEIGHTS, last));
      intact_trainable_freeze_batch_norm(t, true);
    }
    now = step(t, x, target, last == INTACT_QAT_LEARN && i >= 20 ? 0.01f : 0.05f);
    if (i == 0) first = now;
  }
  assert_true(isfinite(now) && now < first);
  intact_trainable_set_training(t, false);
  intact_variable *y = forward(t, x);
  intact_trainable_destroy(t);
  assert_ok(context, intact_convert(l.graph));
  assert_int_equal(lab_count(l.graph, "fake_quantize") + lab_count(l.graph, "folded_batch_norm") + lab_count(l.graph, "fold_weight"), 0);
  const float step_size = lab_operand_qparams(l.graph->outputs[0]->producer, 0)->scale[0];
  intact_tensor *qdq = lab_run(l.graph, intact_variable_tensor(x));
  assert_true(largest_gap(qdq, intact_variable_tensor(y)) < (double)step_size * 1.01); /* a rounding at a tie, at most */
  assert_ok(context, intact_to_integer(l.graph));
  intact_tensor *integer = lab_run(l.graph, intact_variable_tensor(x));
  assert_true(largest_gap(integer, intact_variable_tensor(y)) < (double)step_size * 1.01);
  intact_tensor_destroy(qdq);
  intact_tensor_destroy(integer);
  intact_variable_release(y);
  intact_variable_release(x);
  intact_variable_release(target);
  intact_graph_destroy(l.graph);
}

static void test_rows(void **state) {
  (void)state;
  intact_qat_options options = intact_qat_default_options();
  train_and_convert(&options, INTACT_QAT_FROZEN);
  options.fake_quantizer = options.weight_fake_quantizer = "straight_through:averaging_constant=0.1";
  train_and_convert(&options, INTACT_QAT_FROZEN);
  options.fake_quantizer = options.weight_fake_quantizer = "lsq";
  train_and_convert(&options, INTACT_QAT_LEARN);
  options.fake_quantizer = "pact";
  train_and_convert(&options, INTACT_QAT_LEARN);
}

/* ---- chains: what runs as one gives what the nodes give ---- */

static void forward_backward(lab *l, bool unfused, intact_variable *x, intact_variable **y, intact_trainable **t) {
  assert_ok(context, intact_trainable_create(l->graph, t));
  (*t)->unfused = unfused;
  intact_variable_clear_gradient(x);
  *y = forward(*t, x);
  intact_variable *square, *loss;
  assert_ok(context, intact_variable_call(context, "mul", NULL, 2, (intact_variable *const[]){*y, *y}, 1, &square));
  assert_ok(context, intact_variable_call(context, "sum", NULL, 1, &square, 1, &loss));
  assert_ok(context, intact_variable_backward(loss, NULL, false));
  intact_variable_release(square);
  intact_variable_release(loss);
}

static void assert_close(const intact_tensor *a, const intact_tensor *b) {
  double most = 0;
  for (int64_t i = 0; i < a->count; i++) most = fmax(most, fabs((double)intact__f32(a)[i]));
  assert_true(largest_gap(a, b) <= 1e-5 * most + 1e-7);
}

static void compare_chains(const char *fake, intact_qat_mode then) {
  lab a = network(), b = network();
  intact_qat_options options = intact_qat_default_options();
  options.fake_quantizer = fake;
  intact_variable *x = variable_of(lab_random(&a, -1, 1, LAB_DIMS(5, 2, 6, 6))), *y[2];
  assert_ok(context, intact_variable_set_requires_grad(x, true));
  intact_trainable *t[2];
  intact_tensor *dx[2];
  lab *labs[2] = {&a, &b};
  for (int k = 0; k < 2; k++) {
    assert_ok(context, intact_prepare_qat(labs[k]->graph, &options));
    forward_backward(labs[k], k == 1, x, &y[k], &t[k]); /* observes, so that there is something to freeze */
    intact_variable_release(y[k]);
    intact_trainable_destroy(t[k]);
    assert_ok(context, intact_qat_set_mode(labs[k]->graph, 3, then));
    forward_backward(labs[k], k == 1, x, &y[k], &t[k]);
    assert_ok(context, intact_tensor_copy(intact_variable_gradient(x), &dx[k]));
  }
  assert_int_equal(t[0]->n_chains, 2);
  for (int i = 0; i < 2; i++) assert_true(t[0]->chains[i].active && !t[1]->chains[i].active);
  assert_close(intact_variable_tensor(y[0]), intact_variable_tensor(y[1]));
  assert_close(dx[0], dx[1]);
  for (int i = 0; i < intact_trainable_count(t[0]); i++) {
    const intact_tensor *one = intact_variable_gradient(intact_trainable_parameter(t[0], i));
    const intact_tensor *other = intact_variable_gradient(intact_trainable_parameter(t[1], i));
    assert_true(one && other);
    assert_close(one, other);
    if (then == INTACT_QAT_LEARN && strstr(intact_trainable_name(t[0], i), "_scale")) assert_true(intact__f32(one)[0] != 0);
  }
  for (int k = 0; k < 2; k++) {
    intact_tensor_destroy(dx[k]);
    intact_variable_release(y[k]);
    intact_trainable_destroy(t[k]);
    intact_graph_destroy(labs[k]->graph);
  }
  intact_variable_release(x);
}

static void test_chains(void **state) {
  (void)state;
  compare_chains("fused", INTACT_QAT_ESTIMATE);
  compare_chains("straight_through", INTACT_QAT_ESTIMATE);
  compare_chains("fused", INTACT_QAT_FROZEN);
  compare_chains("learnable", INTACT_QAT_ESTIMATE);
  compare_chains("learnable", INTACT_QAT_LEARN);
  compare_chains("lsq", INTACT_QAT_ESTIMATE);
  compare_chains("lsq", INTACT_QAT_LEARN);
}

/* PyTorch 85744: a norm weight of 0 leaves everything finite, and what is trained is what converts: that channel is beta. */
static void test_zero_norm_weight(void **state) {
  (void)state;
  lab l = network();
  intact__f32(lab_find(l.graph, "norm1")->operands[1]->constant)[2] = 0;
  assert_ok(context, intact_prepare_qat(l.graph, NULL));
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_variable *x = variable_of(lab_random(&l, -1, 1, LAB_DIMS(8, 2, 6, 6))), *target = variable_of(lab_random(&l, -1, 1, LAB_DIMS(8, 3)));
  for (int i = 0; i < 3; i++) assert_true(isfinite(step(t, x, target, i < 2 ? 0.0f : 0.05f)));
  for (int i = 0; i < intact_trainable_count(t); i++) {
    const intact_tensor *p = intact_variable_tensor(intact_trainable_parameter(t, i));
    for (int64_t k = 0; k < p->count; k++) assert_true(isfinite(intact__f32(p)[k]));
  }
  intact_variable_release(x);
  intact_variable_release(target);
  intact_trainable_destroy(t);
  intact_graph_destroy(l.graph);
}

/* torchao 2138: an epoch of observing with fake quantization off. The fused kind keeps the scale it was trained with; where the scale
   has moved on, convert says so. */
static void test_observed_while_off(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    lab l = network();
    intact_qat_options options = intact_qat_default_options();
    options.fake_quantizer = k ? "straight_through" : "fused";
    assert_ok(context, intact_prepare_qat(l.graph, &options));
    intact_trainable *t;
    assert_ok(context, intact_trainable_create(l.graph, &t));
    intact_variable *x = variable_of(lab_random(&l, -1, 1, LAB_DIMS(8, 2, 6, 6)));
    intact_variable_release(forward(t, x));
    const intact_observation *o = lab_find(l.graph, "x_fake_quantize")->observation;
    const float used = intact__f32(o->fake->scale)[0];
    assert_ok(context, intact_qat_set_mode(l.graph, 3, INTACT_QAT_OBSERVE));
    for (int64_t i = 0; i < 8 * 72; i++) intact__f32(intact_variable_tensor(x))[i] *= 50;
    intact_variable_release(forward(t, x));
    assert_true(o->fake->stale);
    if (k == 0) assert_true(intact__f32(o->fake->scale)[0] == used);
    intact_variable_release(x);
    intact_trainable_destroy(t);
    assert_ok(context, intact_convert(l.graph));
    if (k == 0) assert_true(lab_operand_qparams(lab_find(l.graph, "conv1"), 0)->scale[0] == used);
    intact_graph_destroy(l.graph);
  }
}

/* torchao 3917: linear -> batch norm becomes one layer before anything is observed. */
static void test_linear_norm(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *y = norm(&l, "norm", lab_linear(&l, "fc", lab_input(&l, "x", LAB_DIMS(1, 8)), 4));
  lab_outputs(&l, 1, &y);
  intact_tensor *x = lab_random(&l, -1, 1, LAB_DIMS(32, 8)), *exact = lab_run(l.graph, x);
  assert_ok(context, intact_prepare_qat(l.graph, NULL));
  assert_int_equal(lab_count(l.graph, "folded_batch_norm"), 1);
  assert_int_equal(lab_count(l.graph, "fake_quantize"), 3); /* x, the folded weight, the norm's result */
  intact_trainable *t;
  intact_variable *v, *simulated;
  assert_ok(context, intact_variable_create(x, false, &v));
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_trainable_freeze_batch_norm(t, true);
  simulated = forward(t, v);
  intact_trainable_destroy(t);
  assert_ok(context, intact_convert(l.graph));
  intact_tensor *qdq = lab_run(l.graph, x);
  assert_true(lab_sqnr(exact, intact_variable_tensor(simulated)) > 35);
  assert_true(largest_gap(qdq, intact_variable_tensor(simulated)) == 0);
  intact_variable_release(v);
  intact_variable_release(simulated);
  intact_tensor_destroy(x);
  intact_tensor_destroy(exact);
  intact_tensor_destroy(qdq);
  intact_graph_destroy(l.graph);
}

/* ---- widths, schedules, learned scales ---- */

static const intact_qparams *weight_of(const intact_graph *graph, const char *node) { return lab_operand_qparams(lab_find(graph, node), 1); }

static void trained_once(lab *l, const intact_qat_options *options, int steps, float rate) {
  assert_ok(context, intact_prepare_qat(l->graph, options));
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l->graph, &t));
  intact_variable *x = variable_of(lab_random(l, -1, 1, LAB_DIMS(8, 2, 6, 6))), *target = variable_of(lab_random(l, -1, 1, LAB_DIMS(8, 3)));
  const intact_qat_schedule schedule = {.fake_quantize_at = 1, .freeze_observers_at = 3, .learn_at = 3, .freeze_batch_norm_at = 4};
  for (int i = 0; i < steps; i++) {
    assert_ok(context, intact_qat_apply_schedule(l->graph, t, &schedule, i));
    assert_true(isfinite(step(t, x, target, rate)));
  }
  intact_variable_release(x);
  intact_variable_release(target);
  intact_trainable_destroy(t);
}

/* Layer by layer other widths: the integers stay within them, also after learning. */
static void test_widths(void **state) {
  (void)state;
  static const char *const rows[] = {"fused", "lsq"};
  const intact_qat_bits bits[] = {{"conv2", 3, 2}, {"f*", 0, 4}};
  for (int k = 0; k < 2; k++) {
    lab l = network();
    intact_qat_options options = intact_qat_default_options();
    options.fake_quantizer = options.weight_fake_quantizer = rows[k];
    options.weight_bits = 6;
    options.n_bits = 2;
    options.bits = bits;
    trained_once(&l, &options, 6, 0.02f);
    assert_ok(context, intact_convert(l.graph));
    assert_int_equal(weight_of(l.graph, "conv1")->quant_max, 31);
    assert_int_equal(weight_of(l.graph, "conv2")->quant_max, 1);
    assert_int_equal(weight_of(l.graph, "conv2")->quant_min, -2); /* all four levels of two bits */
    assert_int_equal(weight_of(l.graph, "fc")->quant_max, 7);
    assert_int_equal(lab_operand_qparams(lab_find(l.graph, "conv2"), 0)->quant_max, 7);
    assert_int_equal(lab_operand_qparams(lab_find(l.graph, "fc"), 0)->quant_max, 255);
    const intact_tensor *codes = lab_find(l.graph, "conv2")->operands[1]->producer->operands[0]->constant;
    for (int64_t i = 0; i < codes->count; i++) assert_in_range(intact__tensor_get_s64(codes, i) + 2, 0, 3);
    assert_ok(context, intact_to_integer(l.graph));
    intact_graph_destroy(l.graph);
  }
}

/* Steps far too large for the scales: they stay above zero, and what converts is usable. */
static void test_learned_scales_stay_positive(void **state) {
  (void)state;
  static const char *const rows[] = {"lsq", "pact"};
  for (int k = 0; k < 2; k++) {
    lab l = network();
    intact_qat_options options = intact_qat_default_options();
    options.fake_quantizer = options.weight_fake_quantizer = rows[k];
    assert_ok(context, intact_prepare_qat(l.graph, &options));
    intact_trainable *t;
    assert_ok(context, intact_trainable_create(l.graph, &t));
    intact_variable *x = variable_of(lab_random(&l, -1, 1, LAB_DIMS(8, 2, 6, 6)));
    intact_variable_release(forward(t, x));
    assert_ok(context, intact_qat_set_mode(l.graph, 3, INTACT_QAT_LEARN));
    for (int i = 0; i < intact_trainable_count(t); i++) {
      intact_tensor *p = intact_variable_tensor(intact_trainable_parameter(t, i));
      if (!strstr(intact_trainable_name(t, i), "_scale")) continue;
      for (int64_t c = 0; c < p->count; c++) intact__f32(p)[c] = -1.0f;
    }
    intact_variable *y = forward(t, x);
    for (int64_t i = 0; i < intact_variable_tensor(y)->count; i++) assert_true(isfinite(intact__f32(intact_variable_tensor(y))[i]));
    for (const intact_node *node = l.graph->first; node; node = node->next) {
      if (!node->observation) continue;
      const intact_tensor *scale = node->observation->fake->scale;
      for (int64_t c = 0; c < scale->count; c++) assert_true(intact__f32(scale)[c] > 0);
    }
    intact_variable_release(y);
    intact_variable_release(x);
    intact_trainable_destroy(t);
    assert_ok(context, intact_convert(l.graph));
    intact_graph_destroy(l.graph);
  }
}

/* PyTorch 41968: the gradient of a learned clip's scale follows the incoming gradient. y = clamp(x, low s, high s) away from the grid, so
   that differences of the mean of 1000 points tell the slope: here all x lie outside, and sum(dy y) changes by (high - z) per element
   above and (low - z) per element below. */
static void test_clip_gradient(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *y = lab_linear(&l, "fc", lab_input(&l, "x", LAB_DIMS(1, 4)), 2);
  lab_outputs(&l, 1, &y);
  intact_qat_options options = intact_qat_default_options();
  options.fake_quantizer = "pact";
  assert_ok(context, intact_prepare_qat(l.graph, &options));
  intact_node *fake = lab_find(l.graph, "x_fake_quantize");
  fake->observation->fake->use_grad_scaling = false;
  assert_ok(context, intact__fake_quantizer_set_mode(fake->observation, INTACT_FAKE_LEARN));
  intact__f32(fake->observation->fake->scale)[0] = 0.01f; /* 0..2.55 */
  const intact_tensor *x = lab_tensor(&l, (const float[]){3, -1, 1, 9}, LAB_DIMS(1, 4)), *dy = lab_tensor(&l, (const float[]){2, 5, 7, -0.5f}, LAB_DIMS(1, 4));
  intact_tensor *q, *d[3];
  assert_ok(context, intact__fake_quantizer_forward(fake->observation, x, false, &q));
  assert_ok(context, intact__fake_quantizer_backward(fake->observation, x, dy, false, &d[0], &d[1], &d[2]));
  const float wanted[] = {0, 0, 7, 0};
  for (int i = 0; i < 4; i++) assert_float_equal(intact__f32(d[0])[i], wanted[i], 0);
  assert_float_equal(intact__f32(d[1])[0], 255 * (2 - 0.5f), 1e-3); /* below: low - z = 0 */
  assert_float_equal(intact__f32(d[2])[0], 0, 0);
  for (int i = 0; i < 3; i++) intact_tensor_destroy(d[i]);
  intact_tensor_destroy(q);
  union {
    const intact_tensor *in;
    intact_tensor *out;
  } a = {x}, b = {dy};
  intact_tensor_destroy(a.out);
  intact_tensor_destroy(b.out);
  intact_graph_destroy(l.graph);
}

/* PyTorch 121470: folded and original agree in evaluation, by tolerance; also for transposed convolutions in groups. */
static void test_fold_in_evaluation(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 4, 5, 5)), *operands[3] = {x};
  operands[1] = lab_constant(&l, "w", lab_random(&l, -0.5f, 0.5f, LAB_DIMS(4, 3, 3, 3)));
  operands[2] = lab_constant(&l, "b", lab_random(&l, -0.2f, 0.2f, LAB_DIMS(6)));
  intact_node *up = lab_node(&l, &intact_op_conv_transpose2d, "up", 3, operands);
  intact__attr_set_int(up, "groups", 2);
  intact_value *y = norm(&l, "norm1", lab_infer(&l, up));
  y = norm(&l, "norm2", lab_conv(&l, "conv", y, 64, 3, 1));
  lab_outputs(&l, 1, &y);
  intact_variable *v = variable_of(lab_random(&l, -1, 1, LAB_DIMS(3, 4, 5, 5)));
  intact_tensor *exact = lab_run(l.graph, intact_variable_tensor(v));
  assert_ok(context, intact_prepare_qat(l.graph, NULL));
  assert_int_equal(lab_count(l.graph, "folded_batch_norm"), 2);
  assert_ok(context, intact_qat_set_mode(l.graph, 3, INTACT_QAT_FLOAT));
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_trainable_set_training(t, false);
  intact_variable *folded = forward(t, v);
  double most = 0;
  for (int64_t i = 0; i < exact->count; i++) most = fmax(most, fabs((double)intact__f32(exact)[i]));
  assert_true(largest_gap(exact, intact_variable_tensor(folded)) < 1e-5 * most);
  intact_variable_release(folded);
  intact_variable_release(v);
  intact_tensor_destroy(exact);
  intact_trainable_destroy(t);
  intact_graph_destroy(l.graph);
}

/* A layer of one weight trains it and its bias, also behind a fake quantizer. */
static void test_single_weight(void **state) {
  (void)state;
  lab l = lab_create(context);
  intact_value *y = lab_linear(&l, "fc", lab_input(&l, "x", LAB_DIMS(1, 1)), 1);
  lab_outputs(&l, 1, &y);
  assert_ok(context, intact_prepare_qat(l.graph, NULL));
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  assert_int_equal(intact_trainable_count(t), 2);
  intact_trainable_destroy(t);
  intact_graph_destroy(l.graph);
}

static void test_refusals(void **state) {
  (void)state;
  lab l = network();
  intact_qat_options options = intact_qat_default_options();
  options.fake_quantizer = "fuzed";
  assert_fails(intact_prepare_qat(l.graph, &options), INTACT_WRONG_USE);
  options = intact_qat_default_options();
  options.weight_bits = 1;
  assert_fails(intact_prepare_qat(l.graph, &options), INTACT_OUT_OF_RANGE);
  options = intact_qat_default_options();
  options.fake_quantizer = "fused:averaging=1";
  assert_fails(intact_prepare_qat(l.graph, &options), INTACT_WRONG_USE);
  intact_graph_destroy(l.graph);
  l = network();
  assert_ok(context, intact_prepare_qat(l.graph, NULL));
  assert_fails(intact_prepare_qat(l.graph, NULL), INTACT_WRONG_USE);
  assert_fails(intact_qat_set_mode(l.graph, 3, (intact_qat_mode)9), INTACT_OUT_OF_RANGE);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_chains), cmocka_unit_test(test_zero_norm_weight),
                                     cmocka_unit_test(test_observed_while_off), cmocka_unit_test(test_linear_norm), cmocka_unit_test(test_widths),
                                     cmocka_unit_test(test_learned_scales_stay_positive), cmocka_unit_test(test_clip_gradient),
                                     cmocka_unit_test(test_fold_in_evaluation), cmocka_unit_test(test_single_weight),
                                     cmocka_unit_test(test_refusals)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
