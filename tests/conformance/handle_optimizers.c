/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of the suite optimizers: optimizers over given gradients, schedules, clipping. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "conformance/conformance.h"
#include "intact/optim.h"

enum { MAX_GROUPS = 4, MAX_STEPS = 64, MAX_CHILDREN = 4 };

/* A JSON value as the text that the options take. */
static char *text_of(const json_t *value, char *buffer, size_t size) {
  if (json_is_string(value)) {
    snprintf(buffer, size, "%s", json_string_value(value));
  } else {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    snprintf(buffer, size, "%s", text);
    free(text);
  }
  return buffer;
}

static intact_status read_options(conf_case *c, const json_t *object, intact_optimizer_options *options) {
  static const char *const ignored[] = {"optimizer", "steps", "groups", "no_gradient", "scheduler", "metrics", "params"};
  const char *name;
  json_t *value;
  char text[100];
  json_object_foreach(conf_iterable(object), name, value) {
    bool skip = false;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) skip = skip || strcmp(ignored[i], name) == 0;
    if (skip) continue;
    if (strcmp(name, "betas") == 0) {
      options->beta1 = conf_json_f64(json_array_get(value, 0), NAN);
      options->beta2 = conf_json_f64(json_array_get(value, 1), NAN);
    } else {
      INTACT_TRY(intact_optimizer_set_option(c->context, options, name, text_of(value, text, sizeof text)));
    }
  }
  return INTACT_OK;
}

static double power_of_step(void *user, int64_t step) { return pow(*(const double *)user, (double)step); }

/* Schedules with the memory that their options point to. */
typedef struct schedule {
  intact_scheduler_options options, child_options[MAX_CHILDREN];
  intact_scheduler_child children[MAX_CHILDREN];
  double base; /* of LambdaLR's "b ** epoch" */
} schedule;

static intact_status read_schedule(conf_case *c, const char *scheduler, const json_t *object, schedule *s) {
  static const char *const ignored[] = {"name", "scheduler", "lr", "steps", "metrics", "schedulers", "lambda",
                                      "epochs", "steps_per_epoch"};
  char text[100];
  const char *name;
  json_t *value;
  INTACT_TRY(intact_scheduler_default_options(c->context, scheduler, &s->options));
  json_object_foreach(conf_iterable(object), name, value) {
    bool skip = false;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) skip = skip || strcmp(ignored[i], name) == 0;
    if (!skip) {
      const char *given = json_is_string(value) ? json_string_value(value) : text_of(value, text, sizeof text);
      INTACT_TRY(intact_scheduler_set_option(c->context, &s->options, name, given));
    }
  }
  if (json_object_get(object, "epochs")) { /* OneCycleLR's other way to say total_steps */
    s->options.total_steps =
        conf_json_int(json_object_get(object, "epochs"), 0) * conf_json_int(json_object_get(object, "steps_per_epoch"), 0);
  }
  if (json_object_get(object, "lambda")) {
    char *end;
    s->base = strtod(json_string_value(json_object_get(object, "lambda")), &end);
    if (strcmp(end, " ** epoch") != 0) return conf_skip(c, "LambdaLR with another function");
    s->options.lambda = power_of_step;
    s->options.user = &s->base;
  }
  size_t i;
  json_array_foreach(json_object_get(object, "schedulers"), i, value) {
    if (i == MAX_CHILDREN) break;
    schedule child;
    const char *child_name = json_string_value(json_array_get(value, 0));
    INTACT_TRY(read_schedule(c, child_name, json_array_get(value, 1), &child));
    s->child_options[i] = child.options;
    s->children[i] = (intact_scheduler_child){child_name, &s->child_options[i]};
    s->options.n_children = (int)i + 1;
    s->options.children = s->children;
  }
  return INTACT_OK;
}

typedef struct training {
  conf_case *c;
  int64_t steps, n_groups;
  intact_optimizer *optimizer;
  intact_scheduler *scheduler;
  const intact_tensor *gradients[2];
  intact_tensor *parameters[2], *history[2];
  double lr[MAX_STEPS * MAX_GROUPS], momentum[MAX_STEPS * MAX_GROUPS];
} training;

static double momentum_of(const intact_optimizer_options *options) {
  return options->beta1 != 0 ? options->beta1 : options->momentum;
}

static intact_status add_groups(training *t, const intact_optimizer_options *defaults) {
  const json_t *groups = conf_attr(t->c, "groups"), *value;
  size_t i;
  if (!groups) {
    t->n_groups = 1;
    return intact_optimizer_add_group(t->optimizer, NULL, t->parameters[1] ? 2 : 1, t->parameters);
  }
  json_array_foreach(groups, i, value) {
    intact_optimizer_options options = *defaults;
    INTACT_TRY(read_options(t->c, value, &options));
    const int64_t k = conf_json_int(json_array_get(json_object_get(value, "params"), 0), 0);
    INTACT_TRY(intact_optimizer_add_group(t->optimizer, &options, 1, &t->parameters[k]));
    t->n_groups++;
  }
  return INTACT_OK;
}

static intact_status set_up(training *t, schedule *s) {
  conf_case *c = t->c;
  const bool alone = strncmp(c->op, "lr_scheduler.", 13) == 0; /* the reference drives SGD with one parameter */
  const char *name = alone ? "SGD" : conf_attr_text(c, "optimizer", "");
  intact_optimizer_options options;
  INTACT_TRY(intact_optimizer_default_options(c->context, name, &options));
  if (alone) {
    options.lr = conf_attr_f64(c, "lr", 0);
    options.momentum = 0.9;
  } else {
    INTACT_TRY(read_options(c, json_object_get(c->json, "attrs"), &options));
  }
  t->steps = conf_attr_int(c, "steps", 0);
  INTACT_TRY(intact_optimizer_create(c->context, name, &options, &t->optimizer));
  for (int i = 0; i < 2 && !alone; i++) {
    const intact_tensor *start = conf_input(c, "param%d", i);
    t->gradients[i] = conf_input(c, "grad%d", i);
    INTACT_TRY(intact_tensor_copy(start, &t->parameters[i]));
    int64_t dims[INTACT_MAX_RANK] = {t->steps};
    for (int k = 0; k < start->rank; k++) dims[k + 1] = start->dims[k];
    INTACT_TRY(intact_tensor_create(c->context, INTACT_F32, start->rank + 1, dims, &t->history[i]));
  }
  const int64_t one = 1;
  if (alone) INTACT_TRY(intact_tensor_create(c->context, INTACT_F32, 1, &one, &t->parameters[0]));
  INTACT_TRY(add_groups(t, &options));
  const json_t *scheduler = alone ? json_object_get(c->json, "attrs") : conf_attr(c, "scheduler");
  if (!scheduler) return INTACT_OK;
  const char *scheduler_name = json_string_value(json_object_get(scheduler, alone ? "scheduler" : "name"));
  INTACT_TRY(read_schedule(c, scheduler_name, scheduler, s));
  return intact_scheduler_create(t->optimizer, scheduler_name, &s->options, &t->scheduler);
}

static bool has_gradient(const conf_case *c, int parameter, int64_t step) {
  const json_t *rule = conf_attr(c, "no_gradient"), *value;
  size_t i;
  if (!rule || conf_json_int(json_object_get(rule, "param"), -1) != parameter) return true;
  json_array_foreach(json_object_get(rule, "steps"), i, value) {
    if (conf_json_int(value, -1) == step) return false;
  }
  return true;
}

static intact_status step(training *t, int64_t s) {
  intact_tensor *gradients[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  for (int64_t g = 0; g < t->n_groups; g++) {
    const intact_optimizer_options *options = intact_optimizer_group_options(t->optimizer, (int)g);
    t->lr[s * t->n_groups + g] = options->lr;
    t->momentum[s * t->n_groups + g] = momentum_of(options);
  }
  for (int i = 0; i < 2 && status == INTACT_OK; i++) {
    if (!t->gradients[i] || !has_gradient(t->c, i, s)) continue;
    status = intact_tensor_borrow(t->c->context, INTACT_F32, t->parameters[i]->rank, t->parameters[i]->dims,
                                  (const float *)intact_tensor_data(t->gradients[i]) + s * t->parameters[i]->count, &gradients[i]);
  }
  if (status == INTACT_OK) status = intact_optimizer_step(t->optimizer, (const intact_tensor *const *)gradients);
  for (int i = 0; i < 2; i++) {
    intact_tensor_destroy(gradients[i]);
    if (!t->history[i]) continue;
    memcpy((float *)intact_tensor_mutable_data(t->history[i]) + s * t->parameters[i]->count, intact_tensor_data(t->parameters[i]),
           intact_tensor_bytes(t->parameters[i]));
  }
  const json_t *metrics = conf_attr(t->c, "metrics");
  const double metric = metrics ? conf_json_f64(json_array_get(metrics, (size_t)s), NAN) : 0;
  if (status == INTACT_OK && t->scheduler) status = intact_scheduler_step(t->scheduler, metric);
  return status;
}

intact_status conf_handle_optimizer(conf_case *c) {
  training t = {.c = c};
  schedule s;
  memset(&s, 0, sizeof s);
  intact_status status = set_up(&t, &s);
  for (int64_t i = 0; status == INTACT_OK && i < t.steps && i < MAX_STEPS; i++) status = step(&t, i);
  const int64_t dims[2] = {t.steps, t.n_groups};
  const int rank = strncmp(c->op, "lr_scheduler.", 13) == 0 ? 1 : 2;
  if (status == INTACT_OK) status = conf_result_f64(c, INTACT_F64, rank, dims, t.lr, "lr");
  if (status == INTACT_OK && conf_expects(c, "momentum")) {
    status = conf_result_f64(c, INTACT_F64, rank, dims, t.momentum, "momentum");
  }
  for (int i = 0; i < 2; i++) {
    if (status == INTACT_OK && t.history[i]) status = conf_result(c, t.history[i], "param%d", i);
    intact_tensor_destroy(t.parameters[i]);
  }
  intact_scheduler_destroy(t.scheduler);
  intact_optimizer_destroy(t.optimizer);
  return status;
}

intact_status conf_handle_clip(conf_case *c) {
  intact_tensor *gradients[2];
  double norm;
  for (int i = 0; i < 2; i++) INTACT_TRY(intact_tensor_copy(conf_input(c, "grad%d", i), &gradients[i]));
  INTACT_TRY(intact_clip_grad_norm(c->context, 2, gradients, conf_attr_f64(c, "max_norm", 0), conf_attr_f64(c, "norm_type", 2),
                                   &norm));
  for (int i = 0; i < 2; i++) INTACT_TRY(conf_result(c, gradients[i], "grad%d", i));
  const int64_t one = 1;
  return conf_result_f64(c, INTACT_F32, 1, &one, &norm, "total_norm");
}
