/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization-aware training of graphs: what is inserted, what is trained, and that this is what converts. */
#include "intact/qat.h"
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

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
