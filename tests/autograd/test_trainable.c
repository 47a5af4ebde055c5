/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs on the tape: parameters, gradients by finite differences, batch norms in training, and the graph afterwards. */
#include "intact/autograd.h"
#include "support/lab.h"

static intact_context *context;

static void random_constant(lab *l, intact_value **value, float low, float high, int64_t n, const char *name) {
  *value = lab_constant(l, name, lab_random(l, low, high, 1, &n));
}

/* conv -> batch norm -> relu -> mean over the plane -> linear */
static lab small_network(void) {
  lab l = lab_create(context);
  intact_value *x = lab_input(&l, "x", LAB_DIMS(1, 2, 6, 6)), *norm[5], *y;
  norm[0] = lab_conv(&l, "conv", x, 4, 3, 1);
  random_constant(&l, &norm[1], 0.5f, 1.5f, 4, "gamma");
  random_constant(&l, &norm[2], -0.2f, 0.2f, 4, "beta");
  random_constant(&l, &norm[3], -0.1f, 0.1f, 4, "mean");
  random_constant(&l, &norm[4], 0.5f, 1.0f, 4, "var");
  y = lab_infer(&l, lab_node(&l, &intact_op_batch_norm, "norm", 5, norm));
  y = lab_unary(&l, &intact_op_relu, "relu", y);
  intact_node *mean = lab_node(&l, &intact_op_mean, "pool", 1, &y);
  assert_ok(context, intact__attr_set_ints(mean, "dim", 2, (const int64_t[]){2, 3}));
  y = lab_linear(&l, "fc", lab_infer(&l, mean), 3);
  lab_outputs(&l, 1, &y);
  return l;
}

static intact_variable *loss_of(intact_trainable *t, intact_variable *x) {
  intact_variable *y, *square, *loss;
  assert_ok(context, intact_trainable_forward(t, &x, &y));
  assert_ok(context, intact_variable_call(context, "mul", NULL, 2, (intact_variable *const[]){y, y}, 1, &square));
  assert_ok(context, intact_variable_call(context, "sum", NULL, 1, &square, 1, &loss));
  intact_variable_release(y);
  intact_variable_release(square);
  return loss;
}

static double loss_value(intact_trainable *t, intact_variable *x) {
  intact_variable *loss = loss_of(t, x);
  double value = (double)intact__f32(intact_variable_tensor(loss))[0];
  intact_variable_release(loss);
  return value;
}

static intact_variable *samples(lab *l) {
  intact_tensor *tensor = lab_random(l, -1, 1, LAB_DIMS(5, 2, 6, 6));
  intact_variable *x;
  assert_ok(context, intact_variable_create(tensor, true, &x));
  intact_tensor_destroy(tensor);
  return x;
}

static void check_gradient(intact_trainable *t, intact_variable *x, intact_variable *of) {
  float *values = intact__f32(intact_variable_tensor(of));
  const float *gradient = intact__f32(intact_variable_gradient(of));
  for (int64_t i = 0; i < intact_tensor_count(intact_variable_tensor(of)) && i < 12; i++) {
    const float keep = values[i], step = 1e-2f;
    values[i] = keep + step;
    const double up = loss_value(t, x);
    values[i] = keep - step;
    const double down = loss_value(t, x);
    values[i] = keep;
    assert_float_equal(gradient[i], (up - down) / (2.0 * (double)step), 2e-2);
  }
}

static void test_gradients(void **state) {
  (void)state;
  lab l = small_network();
  intact_variable *x = samples(&l);
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  assert_int_equal(intact_trainable_count(t), 6); /* two weights, two biases, gamma, beta */
  for (int frozen = 0; frozen < 2; frozen++) {
    intact_trainable_freeze_batch_norm(t, frozen);
    intact_variable *loss = loss_of(t, x);
    intact_variable_clear_gradient(x);
    intact_trainable_clear_gradients(t);
    assert_ok(context, intact_variable_backward(loss, NULL, false));
    intact_variable_release(loss);
    assert_true(intact_grad_set_enabled(context, false));
    for (int i = 0; i < intact_trainable_count(t); i++) check_gradient(t, x, intact_trainable_parameter(t, i));
    check_gradient(t, x, x);
    intact_grad_set_enabled(context, true);
  }
  assert_int_equal(intact_trainable_set_requires_grad(t, "w*", false), 2);
  intact_trainable_clear_gradients(t);
  intact_variable *loss = loss_of(t, x);
  assert_ok(context, intact_variable_backward(loss, NULL, false));
  for (int i = 0; i < intact_trainable_count(t); i++)
    assert_int_equal(intact_variable_gradient(intact_trainable_parameter(t, i)) != NULL, intact_trainable_name(t, i)[0] != 'w');
  intact_variable_release(loss);
  intact_variable_release(x);
  intact_trainable_destroy(t);
  intact_graph_destroy(l.graph);
}

/* running = 0.9 running + 0.1 batch in training; untouched when frozen or not training, and then the outputs are those of the graph
   itself. Afterwards the graph is one like before, with what was trained. */
static void test_batch_norm_statistics(void **state) {
  (void)state;
  lab l = small_network();
  intact_variable *x = samples(&l), *y;
  intact_trainable *t;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_tensor *const *mean = &lab_find(l.graph, "norm")->operands[3]->constant;
  const float before = intact__f32(*mean)[0];
  intact_trainable_freeze_batch_norm(t, true);
  (void)loss_value(t, x);
  assert_true(intact__f32(*mean)[0] == before);
  intact_trainable_freeze_batch_norm(t, false);
  intact_trainable_set_training(t, false);
  (void)loss_value(t, x);
  assert_true(intact__f32(*mean)[0] == before);
  intact_trainable_set_training(t, true);
  (void)loss_value(t, x);
  assert_true(intact__f32(*mean)[0] != before);

  float *gamma = intact__f32(lab_find(l.graph, "norm")->operands[1]->constant);
  gamma[1] = 1.75f;
  intact_trainable_set_training(t, false);
  assert_ok(context, intact_trainable_forward(t, &x, &y));
  intact_trainable_destroy(t);
  assert_ok(context, intact_graph_verify(l.graph));
  assert_int_equal(lab_find(l.graph, "norm")->n_results, 1);
  assert_true(intact__f32(lab_find(l.graph, "norm")->operands[1]->constant)[1] == 1.75f);
  intact_tensor *after = lab_run(l.graph, intact_variable_tensor(x));
  for (int64_t i = 0; i < after->count; i++)
    assert_float_equal(intact__f32(after)[i], intact__f32(intact_variable_tensor(y))[i], 1e-5);
  intact_tensor_destroy(after);
  intact_variable_release(x);
  intact_variable_release(y);
  intact_graph_destroy(l.graph);
}

static void test_refusals(void **state) {
  (void)state;
  lab l = small_network();
  intact_trainable *t = NULL;
  intact_variable *y = NULL, *wrong;
  l.graph->stage = INTACT_STAGE_QDQ;
  assert_fails(intact_trainable_create(l.graph, &t), INTACT_WRONG_USE);
  assert_null(t);
  l.graph->stage = INTACT_STAGE_FLOAT;
  assert_ok(context, intact_trainable_create(l.graph, &t));
  intact_tensor *tensor = lab_random(&l, -1, 1, LAB_DIMS(5, 3, 6, 6));
  assert_ok(context, intact_variable_create(tensor, false, &wrong));
  intact_tensor_destroy(tensor);
  assert_fails(intact_trainable_forward(t, &wrong, &y), INTACT_SIZE_MISMATCH);
  assert_null(y);
  intact_variable_release(wrong);
  intact_trainable_destroy(t);
  intact_graph_destroy(l.graph);
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_batch_norm_statistics),
                                     cmocka_unit_test(test_refusals)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
