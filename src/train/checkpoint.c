/* SPDX-License-Identifier: Apache-2.0 */
/* A training in a file: all that the next step depends on, as named tensors. Written beside and renamed, so that there is always a
   whole one. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "autograd/scheduler.h"
#include "graph/fake_quantizer.h"
#include "train/trainer.h"

enum { EPOCH_COLUMNS = 6, PLACE = 5, SETTING = 4, PATH_BYTES = 4400 /* a system's paths have at most 4096 */ };

static const char *path_of(const intact_trainer *t, char *buffer, size_t size) {
  snprintf(buffer, size, "%s/checkpoint.safetensors", t->options->checkpoint);
  return buffer;
}

static intact_status add(intact_tensor_set *set, intact_context *context, const char *name, intact_dtype dtype, int rank,
                         const int64_t *dims, const void *data) {
  intact_tensor *tensor;
  INTACT_TRY(intact_tensor_create(context, dtype, rank, dims, &tensor));
  if (intact_tensor_bytes(tensor) > 0) memcpy(tensor->data, data, intact_tensor_bytes(tensor));
  return intact_tensor_set_add(set, name, tensor);
}

/* Names are kept up to this length; of longer ones the beginning, and a checksum of the whole. */
enum { NAME = 200, NAME_BYTES = NAME + 60 };

static void name_in_file(const char *kind, const char *name, const char *end, char *buffer) {
  const size_t length = strlen(name);
  if (length <= NAME)
    snprintf(buffer, NAME_BYTES, "%s.%s%s", kind, name, end);
  else
    snprintf(buffer, NAME_BYTES, "%s.%.*s#%08lx%s", kind, NAME - 9, name, (unsigned long)crc32_z(0, (const uint8_t *)name, length), end);
}

/* The state of what observes and simulates at a node. */
static intact_status save_observation(const intact_node *node, intact_tensor_set *set) {
  char prefix[NAME_BYTES];
  const intact_observation *o = node->observation;
  name_in_file("observer", node->name, ".", prefix);
  if (o->fake) return intact__fake_quantizer_save(o, prefix, set);
  return o->state ? o->spec.observer->save(o->context, o->state, prefix, set) : INTACT_OK;
}

static intact_status load_observation(const intact_node *node, const intact_tensor_set *set) {
  char prefix[NAME_BYTES];
  intact_observation *o = node->observation;
  name_in_file("observer", node->name, ".", prefix);
  if (o->fake) return intact__fake_quantizer_load(o, prefix, set);
  return o->state ? o->spec.observer->load(o->context, o->state, prefix, set) : INTACT_OK;
}

static bool is_kept(const intact_value *value) { return value && value->constant && value->dtype == INTACT_F32; }

intact_status intact__checkpoint_network(const intact_trainer *t, intact_tensor_set *set) {
  char name[NAME_BYTES];
  for (size_t i = 0; i < t->graph->n_values; i++) {
    const intact_value *value = t->graph->values[i];
    if (!is_kept(value)) continue;
    name_in_file("network", value->name, "", name);
    INTACT_TRY(add(set, t->context, name, INTACT_F32, value->rank, value->constant->dims, value->constant->data));
  }
  for (const intact_node *node = t->graph->first; node; node = node->next) {
    if (node->observation) INTACT_TRY(save_observation(node, set));
  }
  return INTACT_OK;
}

static intact_status save_settings(const intact_trainer *t, intact_tensor_set *set) {
  char *text;
  INTACT_TRY(intact__train_settings(t, &text));
  const int64_t length = (int64_t)strlen(text) + 1;
  const intact_status status = add(set, t->context, "training.options", INTACT_U8, 1, &length, text);
  intact__free(t->context, text);
  return status;
}

static intact_status save_place(const intact_trainer *t, intact_tensor_set *set) {
  const int64_t place[PLACE] = {t->epoch, t->step_of_epoch, t->step, t->correct, t->seen}, n_place = PLACE, one = 1;
  const int64_t bytes = INTACT_GENERATOR_STATE_BYTES, dims[2] = {t->log.n_epochs, EPOCH_COLUMNS};
  const int64_t setting[SETTING] = {(int64_t)t->options->seed, t->options->batch, t->samples, t->ranks}, n_setting = SETTING;
  INTACT_TRY(add(set, t->context, "training.place", INTACT_S64, 1, &n_place, place));
  INTACT_TRY(add(set, t->context, "training.setting", INTACT_S64, 1, &n_setting, setting));
  INTACT_TRY(save_settings(t, set));
  INTACT_TRY(add(set, t->context, "training.loss_sum", INTACT_F64, 1, &one, &t->loss_sum));
  INTACT_TRY(add(set, t->context, "training.generator", INTACT_U8, 1, &bytes, t->epoch_start));
  INTACT_TRY(add(set, t->context, "training.losses", INTACT_F32, 1, &t->log.n_steps, t->log.losses));
  intact_tensor *epochs;
  INTACT_TRY(intact_tensor_create(t->context, INTACT_F64, 2, dims, &epochs));
  double *out = epochs->data;
  for (int i = 0; i < t->log.n_epochs; i++) {
    const intact_train_epoch *e = &t->log.epochs[i];
    const double row[EPOCH_COLUMNS] = {(double)e->epoch, e->loss, e->accuracy, e->test_accuracy, e->lr, e->seconds};
    memcpy(out + i * EPOCH_COLUMNS, row, sizeof row);
  }
  return intact_tensor_set_add(set, "training.epochs", epochs);
}

static intact_status save_all(const intact_trainer *t, intact_tensor_set *set) {
  INTACT_TRY(save_place(t, set));
  INTACT_TRY(intact__checkpoint_network(t, set));
  INTACT_TRY(intact_optimizer_save(t->optimizer, "optimizer.", set));
  return t->scheduler ? intact_scheduler_save(t->scheduler, "optimizer.", set) : INTACT_OK;
}

/* Refuses, with or without a folder, to go on with parameters that are not finite. */
intact_status intact__checkpoint_write(intact_trainer *t) {
  char path[PATH_BYTES];
  intact_tensor_set *set;
  INTACT_TRY(intact__train_check_parameters(t));
  if (!t->options->checkpoint || t->rank != 0) return INTACT_OK;
  INTACT_TRY(intact_tensor_set_create(t->context, &set));
  intact_status status = save_all(t, set);
  if (status == INTACT_OK) status = intact_tensors_write(t->context, path_of(t, path, sizeof path), set);
  intact_tensor_set_destroy(set);
  if (status != INTACT_OK) intact__fail_in(t->context, "writing a checkpoint at step %lld", (long long)t->step);
  return status;
}

/* ---- reading ---- */
static intact_status find(const intact_trainer *t, const intact_tensor_set *set, const char *name, intact_dtype dtype,
                          int64_t count, const intact_tensor **tensor) {
  *tensor = intact_tensor_set_find(set, name);
  if (*tensor && (*tensor)->dtype == dtype && (count < 0 || (*tensor)->count == count)) return INTACT_OK;
  INTACT_FAIL(t->context, MISSING_ENTRY, name, "checkpoint '%s': '%s' is not there or of another shape; it was made by another "
              "training. Start with an empty folder, or without resuming", t->options->checkpoint, name);
}

static intact_status load_network(const intact_trainer *t, const intact_tensor_set *set) {
  char name[NAME_BYTES];
  const intact_tensor *from;
  for (int pass = 0; pass < 2; pass++) { /* the first only looks */
    for (size_t i = 0; i < t->graph->n_values; i++) {
      const intact_value *value = t->graph->values[i];
      if (!is_kept(value)) continue;
      name_in_file("network", value->name, "", name);
      INTACT_TRY(find(t, set, name, INTACT_F32, value->constant->count, &from));
      if (pass == 1) memcpy(intact_tensor_mutable_data(value->constant), from->data, intact_tensor_bytes(from));
    }
  }
  for (const intact_node *node = t->graph->first; node; node = node->next) {
    if (node->observation) INTACT_TRY(load_observation(node, set));
  }
  return INTACT_OK;
}

static intact_status load_log(intact_trainer *t, const intact_tensor *epochs, const intact_tensor *losses) {
  const int64_t n = epochs->count / EPOCH_COLUMNS;
  INTACT_TRY(intact__reserve(t->context, (void **)&t->log.epochs, &t->epochs_capacity, (size_t)n + 1, sizeof *t->log.epochs));
  INTACT_TRY(intact__reserve(t->context, (void **)&t->log.losses, &t->losses_capacity, (size_t)losses->count + 1, sizeof(float)));
  for (int64_t i = 0; i < n; i++) {
    const double *row = (const double *)epochs->data + i * EPOCH_COLUMNS;
    t->log.epochs[i] = (intact_train_epoch){(int64_t)row[0], row[1], row[2], row[3], row[4], row[5]};
  }
  t->log.n_epochs = (int)n;
  t->log.n_steps = losses->count;
  if (losses->count > 0) memcpy(t->log.losses, losses->data, intact_tensor_bytes(losses));
  return INTACT_OK;
}

/* Numbers that a training has, where it can go on from. */
static bool is_place(const intact_trainer *t, const int64_t *at, double loss_sum, const intact_tensor *epochs, const intact_tensor *losses) {
  const int64_t most = INT64_C(1) << 40;
  for (int i = 0; i < PLACE; i++)
    if (at[i] < 0 || at[i] > most) return false;
  for (int64_t i = 0; i < epochs->count; i++) {
    const double value = ((const double *)epochs->data)[i];
    if (i % EPOCH_COLUMNS == 0 && value != (double)(i / EPOCH_COLUMNS + 1)) return false;
  }
  return at[1] < t->steps_per_epoch && at[2] == at[0] * t->steps_per_epoch + at[1] && at[2] == losses->count &&
         epochs->count == at[0] * EPOCH_COLUMNS && at[3] <= at[4] && at[4] <= t->samples && isfinite(loss_sum);
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* What is loaded must be numbers; ranges of which nothing is known yet are infinite. */
static bool is_sound(const char *name, const intact_tensor *tensor) {
  if (begins(name, "network.") || begins(name, "optimizer.")) return intact__train_first_not_finite(tensor) < 0;
  if (!begins(name, "observer.") || tensor->dtype != INTACT_F32) return true;
  for (int64_t i = 0; i < tensor->count; i++)
    if (isnan(intact__f32(tensor)[i])) return false;
  return true;
}

static intact_status check_numbers(const intact_trainer *t, const intact_tensor_set *set) {
  for (int i = 0; i < intact_tensor_set_count(set); i++) {
    const char *name = intact_tensor_set_name(set, i);
    if (is_sound(name, intact_tensor_set_get(set, i))) continue;
    INTACT_FAIL(t->context, INVALID_VALUE, name, "checkpoint '%s': '%s' holds NaN or infinity, which no training writes; the file is damaged, "
                "begin in an empty folder", t->options->checkpoint, name);
  }
  return INTACT_OK;
}

/* The options now against those then. */
static intact_status check_settings(const intact_trainer *t, const intact_tensor_set *set) {
  const intact_tensor *text;
  INTACT_TRY(find(t, set, "training.options", INTACT_U8, -1, &text));
  if (text->count < 1 || ((const char *)text->data)[text->count - 1] != 0) {
    INTACT_FAIL(t->context, INVALID_VALUE, t->options->checkpoint, "checkpoint '%s': training.options is no text; the file is damaged",
                t->options->checkpoint);
  }
  return intact__train_compare_settings(t, text->data);
}

/* A training that ended leaves its schedule at the last step; one that goes on from there, longer, takes the next. */
static intact_status catch_up(intact_trainer *t) {
  const int64_t wanted = t->options->schedule_by_epoch ? t->epoch : t->step;
  if (!t->scheduler || t->epoch >= t->options->epochs || intact__scheduler_step_count(t->scheduler) + 1 != wanted) return INTACT_OK;
  return intact_scheduler_step(t->scheduler, t->log.n_epochs > 0 ? t->log.epochs[t->log.n_epochs - 1].loss : NAN);
}

static intact_status load_all(intact_trainer *t, const intact_tensor_set *set) {
  const intact_tensor *place, *setting, *loss_sum, *generator, *losses, *epochs;
  const intact_train_options *o = t->options;
  INTACT_TRY(find(t, set, "training.place", INTACT_S64, PLACE, &place));
  INTACT_TRY(find(t, set, "training.setting", INTACT_S64, SETTING, &setting));
  INTACT_TRY(find(t, set, "training.loss_sum", INTACT_F64, 1, &loss_sum));
  INTACT_TRY(find(t, set, "training.generator", INTACT_U8, INTACT_GENERATOR_STATE_BYTES, &generator));
  INTACT_TRY(find(t, set, "training.losses", INTACT_F32, -1, &losses));
  INTACT_TRY(find(t, set, "training.epochs", INTACT_F64, -1, &epochs));
  const int64_t *at = place->data, *was = setting->data;
  if (was[0] != (int64_t)o->seed || was[1] != o->batch || was[2] != t->samples || was[3] != t->ranks) {
    INTACT_FAIL(t->context, WRONG_USE, o->checkpoint, "checkpoint '%s' was made with seed %lld, batch %lld, %lld samples and %lld replicas; "
                "resume with the same", o->checkpoint, (long long)was[0], (long long)was[1], (long long)was[2], (long long)was[3]);
  }
  if (!is_place(t, at, *(const double *)loss_sum->data, epochs, losses)) {
    INTACT_FAIL(t->context, INVALID_VALUE, o->checkpoint, "checkpoint '%s' says epoch %lld, step %lld of it, step %lld in all, which can't be; the "
                "file is damaged, begin in an empty folder", o->checkpoint, (long long)at[0], (long long)at[1], (long long)at[2]);
  }
  INTACT_TRY(check_settings(t, set));
  INTACT_TRY(check_numbers(t, set));
  INTACT_TRY(intact_generator_set_state(t->generator, generator->data));
  INTACT_TRY(load_network(t, set));
  INTACT_TRY(intact_optimizer_load(t->optimizer, "optimizer.", set));
  if (t->scheduler) INTACT_TRY(intact_scheduler_load(t->scheduler, "optimizer.", set));
  t->epoch = at[0];
  t->step_of_epoch = at[1];
  t->step = at[2];
  t->correct = at[3];
  t->seen = at[4];
  t->loss_sum = *(const double *)loss_sum->data;
  INTACT_TRY(load_log(t, epochs, losses));
  return catch_up(t);
}

intact_status intact__checkpoint_read(intact_trainer *t, bool *found) {
  char path[PATH_BYTES];
  intact_tensor_set *set;
  *found = false;
  if (!t->options->checkpoint || !t->options->resume) return INTACT_OK;
  if (access(path_of(t, path, sizeof path), F_OK) != 0) return INTACT_OK;
  INTACT_TRY(intact_tensors_read(t->context, path, &set));
  const intact_status status = load_all(t, set);
  intact_tensor_set_destroy(set);
  *found = status == INTACT_OK;
  return status;
}
