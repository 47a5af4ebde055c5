/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: every row converges and resumes to the same bits; refusals. The rules themselves: reference suite `optimizers`. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "autograd/optimizer.h"
#include "autograd/scheduler.h"
#include "intact/init.h"
#include "tensor/tensor.h"

enum { N = 100 };

static const char *const names[] = {
#define INTACT_OPTIMIZER(name) #name,
#include "autograd/optimizers.def"
#undef INTACT_OPTIMIZER
};

static intact_tensor *filled(intact_context *c, double value) {
  const int64_t n = N;
  intact_tensor *tensor;
  assert_int_equal(intact_tensor_create(c, INTACT_F32, 1, &n, &tensor), INTACT_OK);
  assert_int_equal(intact_init_constant(tensor, value), INTACT_OK);
  return tensor;
}

/* Steps down the parabola (x - 1)^2. */
static void descend(intact_optimizer *optimizer, const intact_tensor *x, intact_tensor *gradient, int steps) {
  for (int s = 0; s < steps; s++) {
    for (int i = 0; i < N; i++) intact__f32(gradient)[i] = 2 * (intact__f32(x)[i] - 1) * (float)(1 + i % 3);
    const intact_tensor *gradients[] = {gradient};
    assert_int_equal(intact_optimizer_step(optimizer, gradients), INTACT_OK);
  }
}

static intact_optimizer *make(intact_context *c, const char *name, intact_tensor *x, double momentum) {
  intact_optimizer *optimizer;
  intact_optimizer_options options;
  assert_int_equal(intact_optimizer_default_options(c, name, &options), INTACT_OK);
  options.lr = strcmp(name, "adadelta") == 0 ? 1 : 0.05;
  options.momentum = momentum;
  options.amsgrad = options.centered = momentum != 0;
  assert_int_equal(intact_optimizer_create(c, name, &options, &optimizer), INTACT_OK);
  assert_int_equal(intact_optimizer_add_group(optimizer, NULL, 1, &x), INTACT_OK);
  return optimizer;
}

static void every_row_goes_downhill_and_resumes(void **state) {
  (void)state;
  intact_context *c = test_context(2);
  for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
    intact_tensor *x = filled(c, 3), *y, *gradient = filled(c, 0);
    const double momentum = i % 2 ? 0.5 : 0;
    intact_optimizer *optimizer = make(c, names[i / 2], x, momentum);
    descend(optimizer, x, gradient, 7);
    for (int k = 0; k < N; k++) assert_true(intact__f32(x)[k] < 3 && intact__f32(x)[k] > -3);
    intact_tensor_set *set;
    assert_int_equal(intact_tensor_set_create(c, &set), INTACT_OK);
    assert_int_equal(intact_optimizer_save(optimizer, "optimizer.", set), INTACT_OK);
    assert_int_equal(intact_tensor_copy(x, &y), INTACT_OK);
    intact_optimizer *resumed = make(c, names[i / 2], y, momentum);
    intact_optimizer_group_options(resumed, 0)->lr = 9;
    assert_int_equal(intact_optimizer_load(resumed, "optimizer.", set), INTACT_OK);
    descend(optimizer, x, gradient, 5);
    descend(resumed, y, gradient, 5);
    assert_memory_equal(intact__f32(x), intact__f32(y), N * sizeof(float));
    intact_optimizer_destroy(optimizer);
    intact_optimizer_destroy(resumed);
    intact_tensor_set_destroy(set);
    intact_tensor_destroy(x);
    intact_tensor_destroy(y);
    intact_tensor_destroy(gradient);
  }
  intact_context_destroy(c);
}

static void bad_input_is_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_optimizer *optimizer = NULL;
  intact_optimizer_options options;
  assert_int_equal(intact_optimizer_create(c, "NoSuch", NULL, &optimizer), INTACT_WRONG_USE);
  assert_non_null(strstr(intact_context_message(c), "AdamW"));
  assert_int_equal(intact_optimizer_default_options(c, "SGD", &options), INTACT_OK);
  for (int i = 0; i < 4; i++) {
    options.lr = (double[]){0, -1, NAN, INFINITY}[i];
    assert_int_equal(intact_optimizer_create(c, "SGD", &options, &optimizer), INTACT_OUT_OF_RANGE);
  }
  options.lr = 0.1;
  options.nesterov = true;
  assert_int_equal(intact_optimizer_create(c, "SGD", &options, &optimizer), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_optimizer_set_option(c, &options, "betas", "1"), INTACT_WRONG_USE);
  assert_int_equal(intact_optimizer_set_option(c, &options, "lr", "fast"), INTACT_WRONG_USE);
  assert_int_equal(intact_optimizer_set_option(c, &options, "nesterov", "false"), INTACT_OK);
  assert_false(options.nesterov);
  options.beta1 = 1;
  assert_int_equal(intact_optimizer_create(c, "Adam", &options, &optimizer), INTACT_OUT_OF_RANGE);
  assert_null(optimizer);

  intact_tensor *x = filled(c, 1), *wrong;
  const int64_t two = 2;
  assert_int_equal(intact_tensor_create(c, INTACT_F32, 1, &two, &wrong), INTACT_OK);
  assert_int_equal(intact_optimizer_create(c, "Adam", NULL, &optimizer), INTACT_OK);
  assert_int_equal(intact_optimizer_add_group(optimizer, NULL, 1, &x), INTACT_OK);
  assert_int_equal(intact_optimizer_add_group(optimizer, NULL, 1, &x), INTACT_DUPLICATE);
  const intact_tensor *gradients[] = {wrong};
  assert_int_equal(intact_optimizer_step(optimizer, gradients), INTACT_SIZE_MISMATCH);
  assert_true(intact__f32(x)[0] == 1);
  gradients[0] = NULL; /* no gradient: nothing moves */
  assert_int_equal(intact_optimizer_step(optimizer, gradients), INTACT_OK);
  assert_true(intact__f32(x)[0] == 1);
  intact_tensor_set *set;
  assert_int_equal(intact_tensor_set_create(c, &set), INTACT_OK);
  assert_int_equal(intact_optimizer_load(optimizer, "", set), INTACT_MISSING_ENTRY);
  intact_optimizer *other = make(c, "sgd", wrong, 0);
  assert_int_equal(intact_optimizer_save(other, "", set), INTACT_OK);
  assert_int_equal(intact_optimizer_load(optimizer, "", set), INTACT_MISSING_ENTRY); /* another optimizer's */
  intact_optimizer_destroy(other);
  intact_tensor_set_destroy(set);
  intact_optimizer_destroy(optimizer);
  intact_tensor_destroy(x);
  intact_tensor_destroy(wrong);
  intact_context_destroy(c);
}

static void schedules_refuse_and_resume(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_tensor *x = filled(c, 1);
  intact_optimizer *optimizer = make(c, "adagrad", x, 0);
  intact_scheduler_options options;
  intact_scheduler *a = NULL, *b;
  assert_int_equal(intact_scheduler_create(optimizer, "NoSuch", NULL, &a), INTACT_WRONG_USE);
  assert_int_equal(intact_scheduler_create(optimizer, "OneCycleLR", NULL, &a), INTACT_OUT_OF_RANGE); /* total_steps */
  assert_int_equal(intact_scheduler_default_options(c, "OneCycleLR", &options), INTACT_OK);
  assert_int_equal(intact_scheduler_set_option(c, &options, "max_lr", "1"), INTACT_OK);
  assert_int_equal(intact_scheduler_set_option(c, &options, "total_steps", "2"), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "OneCycleLR", &options, &a), INTACT_WRONG_USE); /* no momentum */
  assert_int_equal(intact_scheduler_set_option(c, &options, "cycle_momentum", "false"), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "OneCycleLR", &options, &a), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_WRONG_USE); /* past its end */
  intact_scheduler_destroy(a);

  /* A phase of one step (up for 2 * 0.5 - 1 = 0 steps) is at its end: the top. Numbers that are none, and where they would lead. */
  assert_int_equal(intact_scheduler_set_option(c, &options, "pct_start", "0.5"), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "OneCycleLR", &options, &a), INTACT_OK);
  assert_true(intact_optimizer_group_options(optimizer, 0)->lr == 1);
  intact_scheduler_destroy(a);
  assert_int_equal(intact_scheduler_set_option(c, &options, "div_factor", "inf"), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "OneCycleLR", &options, &a), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_scheduler_default_options(c, "ExponentialLR", &options), INTACT_OK);
  options.gamma = 1e300;
  assert_int_equal(intact_scheduler_create(optimizer, "ExponentialLR", &options, &a), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_OUT_OF_RANGE); /* 1e600 */
  assert_true(intact_optimizer_group_options(optimizer, 0)->lr == 1e300); /* as before */
  intact_scheduler_destroy(a);
  intact_optimizer_group_options(optimizer, 0)->lr = 1;
  options.gamma = -1;
  assert_int_equal(intact_scheduler_create(optimizer, "ExponentialLR", &options, &a), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_OUT_OF_RANGE); /* a rate of -1 */
  intact_scheduler_destroy(a);
  assert_true(intact_scheduler_has_option("onecyclelr", "pct_start") && !intact_scheduler_has_option("StepLR", "T_max"));
  assert_true(intact_optimizer_has_option("sgd", "momentum") && !intact_optimizer_has_option("Adam", "momentum"));
  assert_true(!intact_optimizer_has_option("NoSuch", "lr") && !intact_optimizer_has_option("SGD", "l"));

  assert_int_equal(intact_scheduler_default_options(c, "CosineAnnealingWarmRestarts", &options), INTACT_OK);
  options.t_0 = 2;
  options.t_mult = INT64_MAX; /* the second wave never ends */
  intact_optimizer_group_options(optimizer, 0)->lr = 1;
  assert_int_equal(intact_scheduler_create(optimizer, "CosineAnnealingWarmRestarts", &options, &a), INTACT_OK);
  for (int i = 0; i < 5; i++) assert_int_equal(intact_scheduler_step(a, 0), INTACT_OK);
  assert_true(intact_optimizer_group_options(optimizer, 0)->lr == 1);
  intact_scheduler_destroy(a);
  assert_int_equal(intact_scheduler_default_options(c, "ConstantLR", &options), INTACT_OK);
  options.factor = 0.5;
  options.total_iters = 0;
  assert_int_equal(intact_scheduler_create(optimizer, "ConstantLR", &options, &a), INTACT_OK);
  assert_int_equal(intact_scheduler_step(a, 0), INTACT_OK);
  assert_true(intact_optimizer_group_options(optimizer, 0)->lr == 0.5); /* as PyTorch: the factor stays */
  intact_scheduler_destroy(a);

  assert_int_equal(intact_scheduler_default_options(c, "multisteplr", &options), INTACT_OK);
  assert_int_equal(intact_scheduler_set_option(c, &options, "milestones", "5;3"), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "MultiStepLR", &options, &a), INTACT_OUT_OF_RANGE);
  options.n_milestones = 17;
  assert_int_equal(intact_scheduler_create(optimizer, "MultiStepLR", &options, &a), INTACT_OUT_OF_RANGE);
  options.n_milestones = 0;
  options.n_children = 1;
  options.children = &(intact_scheduler_child){"StepLR", NULL};
  assert_int_equal(intact_scheduler_create(optimizer, "SequentialLR", &options, &a), INTACT_OUT_OF_RANGE);
  options.children = &(intact_scheduler_child){NULL, &options};
  assert_int_equal(intact_scheduler_create(optimizer, "SequentialLR", &options, &a), INTACT_OUT_OF_RANGE);
  options.n_children = 0;
  options.children = NULL;
  assert_int_equal(intact_scheduler_set_option(c, &options, "milestones", "2;4"), INTACT_OK);
  intact_optimizer_group_options(optimizer, 0)->lr = 1;
  assert_int_equal(intact_scheduler_create(optimizer, "MultiStepLR", &options, &a), INTACT_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(intact_scheduler_step(a, 0), INTACT_OK);
  intact_tensor_set *set;
  assert_int_equal(intact_tensor_set_create(c, &set), INTACT_OK);
  assert_int_equal(intact_scheduler_save(a, "", set), INTACT_OK);
  assert_int_equal(intact_scheduler_create(optimizer, "MultiStepLR", &options, &b), INTACT_OK);
  assert_int_equal(intact_scheduler_load(b, "", set), INTACT_OK);
  assert_true(intact_optimizer_group_options(optimizer, 0)->lr == 0.1);
  assert_int_equal(intact_scheduler_step(b, 0), INTACT_OK);
  assert_float_equal(intact_optimizer_group_options(optimizer, 0)->lr, 0.01, 1e-15);
  intact_tensor_set_destroy(set);
  intact_scheduler_destroy(a);
  intact_scheduler_destroy(b);
  intact_optimizer_destroy(optimizer);
  intact_tensor_destroy(x);
  intact_context_destroy(c);
}

static void clipping_refuses_what_is_not_finite(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_tensor *x = filled(c, 3), *gradients[2] = {x, NULL};
  double norm;
  assert_int_equal(intact_clip_grad_norm(c, 2, gradients, 0, 2, &norm), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_clip_grad_value(c, 2, gradients, -1), INTACT_OUT_OF_RANGE);
  assert_int_equal(intact_clip_grad_value(c, 2, gradients, 2), INTACT_OK);
  assert_true(intact__f32(x)[7] == 2);
  intact__f32(x)[50] = NAN;
  assert_int_equal(intact_clip_grad_norm(c, 2, gradients, 1, 2, &norm), INTACT_INVALID_VALUE);
  assert_true(intact__f32(x)[7] == 2);
  intact_tensor_destroy(x);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_goes_downhill_and_resumes),
      cmocka_unit_test(bad_input_is_refused),
      cmocka_unit_test(schedules_refuse_and_resume),
      cmocka_unit_test(clipping_refuses_what_is_not_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
