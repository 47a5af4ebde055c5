/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/comm.h"
#include "base/replicas.h"
#include "graph/observer.h"
#include "train/trainer.h"

intact_train_options intact_train_default_options(void) {
  return (intact_train_options){.epochs = 1,
                                .batch = 32,
                                .replicas = 2,
                                .distill_weight = 0.5,
                                .distill_temperature = 2,
                                .qat = intact_qat_default_schedule(),
                                .qparams_lr = 0.1};
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void intact_train_log_destroy(intact_context *context, intact_train_log *log) {
  for (int i = 0; i < log->n_events; i++) intact__free(context, log->events[i]);
  intact__free(context, log->events);
  intact__free(context, log->epochs);
  intact__free(context, log->losses);
  *log = (intact_train_log){0};
}

intact_status intact__train_event(intact_trainer *t, const char *format, ...) {
  char text[300];
  va_list args;
  const int n = snprintf(text, sizeof text, "step %lld: ", (long long)t->step);
  va_start(args, format);
  vsnprintf(text + n, sizeof text - (size_t)n, format, args);
  va_end(args);
  if (t->speaks) intact__log(t->context, INTACT_LOG_INFO, "%s", text);
  INTACT_TRY(intact__reserve(t->context, (void **)&t->log.events, &t->events_capacity, (size_t)t->log.n_events + 1, sizeof(char *)));
  char *kept = intact__strdup(t->context, text);
  if (!kept) return intact__no_memory(t->context, strlen(text));
  t->log.events[t->log.n_events++] = kept;
  return INTACT_OK;
}

/* ---- set-up ---- */
/* A last batch with fewer samples than replicas, or of one sample (it has no variance), is left out. */
static int64_t count_steps(const intact_trainer *t) {
  const int64_t batch = t->options->batch, rest = t->samples % batch;
  const int64_t least = t->ranks > 1 ? t->ranks : 2;
  return t->samples / batch + (rest >= least || (rest > 0 && t->samples < batch));
}

static intact_status find_learned(intact_trainer *t) {
  const int n = intact_trainable_count(t->trainable);
  t->learned = intact__alloc_zeroed(t->context, (size_t)n + 1, sizeof(intact_variable *));
  t->gradients = intact__alloc_zeroed(t->context, (size_t)n + 1, sizeof(intact_tensor *));
  if (!t->learned || !t->gradients) return intact__no_memory(t->context, (size_t)n * sizeof(void *));
  for (int i = 0; i < n; i++) {
    intact_variable *parameter = intact_trainable_parameter(t->trainable, i);
    if (intact_variable_requires_grad(parameter)) t->learned[t->n_learned++] = parameter;
  }
  return INTACT_OK;
}

/* Scales and zero points of fake quantization. */
static bool is_qparam(const intact_trainer *t, const intact_variable *parameter) {
  for (int i = 0; i < intact_trainable_count(t->trainable); i++) {
    if (intact_trainable_parameter(t->trainable, i) != parameter) continue;
    const intact_value *value = intact__graph_find_value(t->graph, intact_trainable_name(t->trainable, i));
    return value && value->uses && intact__is_op(value->uses->node, "fake_quantize") && value->uses->operand > 0;
  }
  return false;
}

/* Qparams come last: a group of their own, without weight decay. */
static int sort_learned(intact_trainer *t) {
  int n = 0;
  for (int i = 0; i < t->n_learned; i++) {
    intact_variable *parameter = t->learned[i];
    if (is_qparam(t, parameter)) continue;
    memmove(t->learned + n + 1, t->learned + n, (size_t)(i - n) * sizeof *t->learned);
    t->learned[n++] = parameter;
  }
  return n;
}

static intact_status make_optimizer(intact_trainer *t) {
  const intact_train_options *o = t->options;
  const char *name = o->optimizer ? o->optimizer : "AdamW";
  INTACT_TRY(intact_optimizer_create(t->context, name, o->optimizer_options, &t->optimizer));
  const int n = sort_learned(t);
  intact_tensor **tensors = intact__alloc(t->context, (size_t)t->n_learned + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, 0);
  for (int i = 0; i < t->n_learned; i++) tensors[i] = intact_variable_tensor(t->learned[i]);
  intact_status status = intact_optimizer_add_group(t->optimizer, NULL, n, tensors);
  if (status == INTACT_OK && n < t->n_learned) {
    intact_optimizer_options options = *intact_optimizer_group_options(t->optimizer, 0);
    options.lr *= o->qparams_lr;
    options.weight_decay = 0;
    if (t->qat.learn_at < 0) t->qat.learn_at = t->steps_per_epoch / 20 + 1; /* until then estimated from what is seen */
    status = intact_optimizer_add_group(t->optimizer, &options, t->n_learned - n, tensors + n);
  }
  intact__free(t->context, tensors);
  return status;
}

static intact_status make_schedule(intact_trainer *t) {
  const intact_train_options *o = t->options;
  intact_scheduler_options options;
  if (!o->schedule) return INTACT_OK;
  INTACT_TRY(intact_scheduler_default_options(t->context, o->schedule, &options));
  const intact_scheduler_options defaults = options;
  if (o->schedule_options) options = *o->schedule_options;
  const int64_t total = o->schedule_by_epoch ? o->epochs : o->epochs * t->steps_per_epoch;
  const bool waves = strcasecmp(o->schedule, "CosineAnnealingLR") == 0, falls = strcasecmp(o->schedule, "PolynomialLR") == 0;
  if (options.total_steps == 0) options.total_steps = total;
  if (waves && options.t_max == defaults.t_max) options.t_max = total;
  if (falls && options.total_iters == defaults.total_iters) options.total_iters = total;
  if (strcasecmp(o->schedule, "OneCycleLR") == 0 && options.total_steps > 0 && options.total_steps < total) {
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "OneCycleLR: total_steps is %lld, but the training has %lld; leave it out, or give as many",
                (long long)options.total_steps, (long long)total);
  }
  return intact_scheduler_create(t->optimizer, o->schedule, &options, &t->scheduler);
}

static intact_status set_up(intact_trainer *t) {
  const size_t n_inputs = (size_t)t->graph->n_inputs + 1, n_outputs = (size_t)t->graph->n_outputs + 1;
  INTACT_TRY(intact_trainable_create(t->graph, &t->trainable));
  INTACT_TRY(find_learned(t));
  INTACT_TRY(intact__train_check(t));
  t->steps_per_epoch = count_steps(t);
  t->inputs = intact__alloc_zeroed(t->context, n_inputs, sizeof(intact_variable *));
  t->outputs = intact__alloc_zeroed(t->context, n_outputs, sizeof(intact_variable *));
  t->order = intact__alloc(t->context, (size_t)t->samples, sizeof *t->order);
  if (!t->inputs || !t->outputs || !t->order) return intact__no_memory(t->context, (size_t)t->samples * sizeof *t->order);
  INTACT_TRY(intact_generator_create(t->context, t->options->seed, &t->generator));
  INTACT_TRY(make_optimizer(t));
  return make_schedule(t);
}

static void tear_down(intact_trainer *t) {
  intact_scheduler_destroy(t->scheduler);
  intact_optimizer_destroy(t->optimizer);
  intact_generator_destroy(t->generator);
  intact_trainable_destroy(t->trainable);
  intact__free(t->context, t->learned);
  intact__free(t->context, t->gradients);
  intact__free(t->context, t->inputs);
  intact__free(t->context, t->outputs);
  intact__free(t->context, t->order);
}

/* ---- what changes at given steps ---- */
static intact_status apply_schedule(intact_trainer *t) {
  const intact_qat_schedule *schedule = &t->qat;
  if (t->graph->stage == INTACT_STAGE_OBSERVED) return intact_qat_apply_schedule(t->graph, t->trainable, schedule, t->step);
  intact_trainable_freeze_batch_norm(t->trainable, schedule->freeze_batch_norm_at >= 0 && t->step >= schedule->freeze_batch_norm_at);
  return INTACT_OK;
}

static intact_status tell_changes(intact_trainer *t) {
  const intact_qat_schedule *schedule = &t->qat;
  const bool observed = t->graph->stage == INTACT_STAGE_OBSERVED;
  if (observed && t->step == 0 && schedule->fake_quantize_at != 0) INTACT_TRY(intact__train_event(t, "observing only"));
  if (observed && t->step == schedule->fake_quantize_at) INTACT_TRY(intact__train_event(t, "fake quantization on"));
  if (observed && t->step == schedule->freeze_observers_at) INTACT_TRY(intact__train_event(t, "observers frozen"));
  if (observed && t->step == schedule->learn_at) INTACT_TRY(intact__train_event(t, "scales are learned"));
  if (t->step == schedule->freeze_batch_norm_at) INTACT_TRY(intact__train_event(t, "statistics of batch norms frozen"));
  return INTACT_OK;
}

/* ---- the loop ---- */
intact_status intact__train_draw_order(intact_trainer *t) {
  intact_generator_get_state(t->generator, t->epoch_start);
  intact_random_epoch_order(t->generator, t->samples, t->order);
  return INTACT_OK;
}

static void report(const intact_trainer *t) {
  char what[160];
  if (!t->speaks) return;
  snprintf(what, sizeof what, "epoch %lld/%lld  loss %.4f  accuracy %.2f %%", (long long)t->epoch + 1, (long long)t->options->epochs,
           t->loss_sum / (double)t->seen, 100 * (double)t->correct / (double)t->seen);
  intact__progress(t->context, what, t->step_of_epoch, t->steps_per_epoch);
}

static intact_status finish_epoch(intact_trainer *t, double start, double lr) {
  intact_train_epoch e = {.epoch = t->epoch + 1,
                          .loss = t->loss_sum / (double)t->seen,
                          .accuracy = 100 * (double)t->correct / (double)t->seen,
                          .test_accuracy = NAN,
                          .lr = lr};
  if (t->options->test) INTACT_TRY(intact__train_accuracy(t, t->options->test, t->options->test_labels, &e.test_accuracy));
  e.seconds = seconds_now() - start;
  INTACT_TRY(intact__reserve(t->context, (void **)&t->log.epochs, &t->epochs_capacity, (size_t)t->log.n_epochs + 1, sizeof e));
  t->log.epochs[t->log.n_epochs++] = e;
  if (t->scheduler && t->options->schedule_by_epoch && t->epoch + 1 < t->options->epochs) {
    INTACT_TRY(intact_scheduler_step(t->scheduler, e.loss));
  }
  t->epoch++;
  t->step_of_epoch = 0;
  t->loss_sum = 0;
  t->correct = t->seen = 0;
  intact_generator_get_state(t->generator, t->epoch_start);
  INTACT_TRY(intact__train_check_agreement(t));
  return intact__checkpoint_write(t);
}

static bool is_last_step(const intact_trainer *t) {
  return t->epoch + 1 == t->options->epochs && t->step_of_epoch == t->steps_per_epoch;
}

static intact_status run_epoch(intact_trainer *t) {
  const double start = seconds_now();
  double lr = 0;
  INTACT_TRY(intact__train_draw_order(t));
  while (t->step_of_epoch < t->steps_per_epoch) {
    INTACT_TRY(tell_changes(t));
    INTACT_TRY(apply_schedule(t));
    lr = intact_optimizer_group_options(t->optimizer, 0)->lr;
    INTACT_TRY(intact__train_step(t));
    INTACT_TRY(intact__train_check_observed(t));
    t->step++;
    t->step_of_epoch++;
    if (t->scheduler && !t->options->schedule_by_epoch && !is_last_step(t)) INTACT_TRY(intact_scheduler_step(t->scheduler, NAN));
    report(t);
    const bool between = t->step_of_epoch < t->steps_per_epoch;
    if (between && t->options->checkpoint_steps > 0 && t->step % t->options->checkpoint_steps == 0) {
      INTACT_TRY(intact__checkpoint_write(t));
    }
  }
  return finish_epoch(t, start, lr);
}

static intact_status run(intact_trainer *t) {
  bool resumed;
  INTACT_TRY(set_up(t));
  INTACT_TRY(intact__checkpoint_read(t, &resumed));
  INTACT_TRY(intact__train_check_options_agree(t));
  if (resumed) INTACT_TRY(intact__train_event(t, "resumed from '%s'", t->options->checkpoint));
  while (t->epoch < t->options->epochs) INTACT_TRY(run_epoch(t));
  return INTACT_OK;
}

/* ---- replicas ---- */
typedef struct task {
  intact_data *data;
  const intact_tensor *labels;
  const intact_train_options *options;
  int n;                            /* replicas in this process */
  intact_graph **graphs, **teachers; /* one for each; the first are the caller's */
  pthread_mutex_t lock;             /* of the caller's context */
  intact_train_log log;             /* of the first */
} task;

static intact_status train_one(void *user, int index) {
  task *k = user;
  intact_graph *graph = k->graphs[index];
  intact_trainer t = {.context = graph->context,
                      .graph = graph,
                      .data = k->data,
                      .labels = k->labels,
                      .options = k->options,
                      .teacher = k->teachers[index],
                      .outer = k->graphs[0]->context,
                      .outer_lock = &k->lock,
                      .qat = k->options->qat,
                      .samples = intact_data_count(k->data),
                      .rank = intact_comm_rank(graph->context),
                      .ranks = intact_comm_size(graph->context),
                      .speaks = index == 0};
  const intact_status status = run(&t);
  intact__comm_set_part(t.context, 0, 0);
  tear_down(&t);
  if (status == INTACT_OK && index == 0)
    k->log = t.log;
  else
    intact_train_log_destroy(t.context, &t.log);
  return status;
}

/* Of one process: an equal share of those asked for, rounded up; one when a batch would not have a sample for each, or an observer
   must see whole batches. */
static int count_replicas(const intact_graph *graph, const intact_train_options *options) {
  const int64_t processes = intact_comm_size(graph->context), n = (options->replicas + processes - 1) / processes;
  return n < 1 || n * processes > options->batch || intact__unshared_node(graph) ? 1 : (int)n;
}

static intact_status copy_networks(const task *k, const intact_replicas *replicas) {
  intact_status status = INTACT_OK;
  for (int i = 1; i < k->n && status == INTACT_OK; i++) {
    intact_context *context = intact__replicas_context(replicas, i);
    status = intact__graph_copy_to(k->graphs[0], context, &k->graphs[i]);
    if (status == INTACT_OK && k->teachers[0]) status = intact__graph_copy_to(k->teachers[0], context, &k->teachers[i]);
    if (status != INTACT_OK) intact__error_copy(k->graphs[0]->context, context);
  }
  return status;
}

static intact_status train_together(task *k) {
  intact_replicas *replicas;
  INTACT_TRY(intact__replicas_create(k->graphs[0]->context, k->n, &replicas));
  intact_status status = copy_networks(k, replicas);
  if (status == INTACT_OK) status = intact__replicas_run(replicas, train_one, k);
  for (int i = 1; i < k->n; i++) {
    intact_graph_destroy(k->graphs[i]);
    intact_graph_destroy(k->teachers[i]);
  }
  intact__replicas_destroy(replicas);
  return status;
}

intact_status intact_train(intact_graph *graph, intact_data *data, const intact_tensor *labels, const intact_train_options *options,
                           intact_train_log *log) {
  intact_context *context = graph->context;
  const intact_train_options defaults = intact_train_default_options();
  if (!options) options = &defaults;
  if (!data || !labels) INTACT_FAIL(context, WRONG_USE, "", "a training needs samples and their labels");
  task k = {.data = data, .labels = labels, .options = options, .n = count_replicas(graph, options), .lock = PTHREAD_MUTEX_INITIALIZER};
  if (options->replicas < 0 || options->replicas > INTACT_MAX_REPLICAS)
    INTACT_FAIL(context, OUT_OF_RANGE, "", "%d replicas; 0 (as many as processes) to %d are possible", options->replicas, INTACT_MAX_REPLICAS);
  k.graphs = intact__alloc_zeroed(context, 2 * (size_t)k.n, sizeof(intact_graph *));
  if (!k.graphs) return intact__no_memory(context, 2 * (size_t)k.n * sizeof(intact_graph *));
  k.teachers = k.graphs + k.n;
  k.graphs[0] = graph;
  memcpy(k.teachers, &options->teacher, sizeof options->teacher); /* only read */
  const intact_status status = k.n == 1 ? train_one(&k, 0) : train_together(&k);
  intact__free(context, k.graphs);
  if (status == INTACT_OK && log)
    *log = k.log;
  else
    intact_train_log_destroy(context, &k.log);
  return status;
}
