/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a training: found before it starts; and where a number first went out of hand. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/fake_quantizer.h"
#include "train/trainer.h"

static intact_status check_numbers(const intact_trainer *t) {
  const intact_train_options *o = t->options;
  if (o->epochs < 1) INTACT_FAIL(t->context, OUT_OF_RANGE, "", "%lld epochs; at least 1 is needed", (long long)o->epochs);
  if (o->batch < 1 || o->batch > t->samples) {
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "batches of %lld samples, but there are %lld; give a batch of 1 to %lld",
                (long long)o->batch, (long long)t->samples, (long long)t->samples);
  }
  if (o->batch < t->ranks) {
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "batches of %lld samples for %d processes; give at least one sample to each",
                (long long)o->batch, t->ranks);
  }
  if (!(o->label_smoothing >= 0 && o->label_smoothing < 1) || !(o->clip_norm >= 0)) {
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "label smoothing %g and clipping to a norm of %g; the first is at least 0 and below 1, "
                "the second not below 0", o->label_smoothing, o->clip_norm);
  }
  if (o->checkpoint_steps < 0 || (!o->checkpoint && (o->resume || o->checkpoint_steps > 0))) {
    INTACT_FAIL(t->context, WRONG_USE, "", "a checkpoint every %lld steps%s, %s folder; they need one, and at least 1 step between",
                (long long)o->checkpoint_steps, o->resume ? " to resume from" : "", o->checkpoint ? "with a" : "without a");
  }
  if (o->teacher && (!(o->distill_weight > 0 && o->distill_weight <= 1) || !(o->distill_temperature > 0))) {
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "a teacher with weight %g and temperature %g; the weight is above 0 and at most 1, the "
                "temperature above 0", o->distill_weight, o->distill_temperature);
  }
  for (int i = 0; i < t->graph->n_inputs; i++) {
    const intact_value *input = t->graph->inputs[i];
    if (input->rank < 1 || input->dims[0] < 0) continue;
    INTACT_FAIL(t->context, WRONG_USE, input->name, "input %s takes %lld samples at a time and no other number; training needs a network "
                "whose batch is free: export it so", input->name, (long long)input->dims[0]);
  }
  const intact_value *x = t->graph->inputs[0];
  if ((o->augment_shift > 0 || o->augment_flip) && (x->rank != 4 || x->dtype != INTACT_F32)) {
    INTACT_FAIL(t->context, WRONG_USE, x->name, "only float pictures [n, channels, height, width] can be shifted and mirrored");
  }
  for (int i = 2; i < 4 && o->augment_shift != 0; i++) {
    if (o->augment_shift > 0 && (x->dims[i] < 0 || o->augment_shift < x->dims[i])) continue;
    INTACT_FAIL(t->context, OUT_OF_RANGE, x->name, "shifts of up to %d pixels; at least 0, and fewer than the pictures' %lld, leave something "
                "of a picture", o->augment_shift, (long long)x->dims[i]);
  }
  return INTACT_OK;
}

int64_t intact__train_first_not_finite(const intact_tensor *tensor) {
  if (tensor->dtype != INTACT_F32) return -1;
  for (int64_t i = 0; i < tensor->count; i++) {
    if (!isfinite(intact__f32(tensor)[i])) return i;
  }
  return -1;
}

static bool is_finite(const intact_tensor *tensor) { return intact__train_first_not_finite(tensor) < 0; }

/* NaN that is there from the beginning must not be put down to the training. */
static intact_status check_parameters_before(const intact_trainer *t) {
  for (int i = 0; i < intact_trainable_count(t->trainable); i++) {
    const intact_tensor *parameter = intact_variable_tensor(intact_trainable_parameter(t->trainable, i));
    const int64_t at = intact__train_first_not_finite(parameter);
    const char *name = intact_trainable_name(t->trainable, i);
    if (at < 0) continue;
    INTACT_FAIL(t->context, INVALID_VALUE, name, "parameter %s holds %g (element %lld) before the first step; the network is damaged: export "
                "it again", name, fabs((double)intact__f32(parameter)[at]), (long long)at);
  }
  return INTACT_OK;
}

static intact_status check_labels(const intact_trainer *t, const intact_tensor *labels, int64_t samples, const char *what) {
  char text[160];
  if (labels->dtype != INTACT_S64 || labels->rank != 1 || labels->count < samples) {
    INTACT_FAIL(t->context, SIZE_MISMATCH, "", "%s are %s %s for %lld samples; give one whole number for each, s64 [samples]", what,
                intact_dtype_text(labels->dtype), intact__shape_text(labels->rank, labels->dims, text), (long long)samples);
  }
  for (int64_t i = 0; i < samples; i++) {
    const int64_t label = ((const int64_t *)labels->data)[i];
    if (label >= 0 && label < t->classes) continue;
    INTACT_FAIL(t->context, OUT_OF_RANGE, "", "%s: %lld of sample %lld is outside of 0..%lld, the network's classes", what,
                (long long)label, (long long)i, (long long)t->classes - 1);
  }
  return INTACT_OK;
}

static intact_status check_output(intact_trainer *t) {
  char text[160];
  const intact_value *y = t->graph->n_outputs > 0 ? t->graph->outputs[0] : NULL;
  if (!y || y->dtype != INTACT_F32 || y->rank != 2 || y->dims[1] < 2) {
    INTACT_FAIL(t->context, TYPE_MISMATCH, y ? y->name : "", "the first output is %s%s%s; a classifier gives f32 [samples, classes], of at "
                "least 2 classes: export it so", y ? intact_dtype_text(y->dtype) : "", y ? " " : "",
                y ? intact__shape_text(y->rank, y->dims, text) : "not there");
  }
  if (y->dims[0] >= 0) {
    INTACT_FAIL(t->context, WRONG_USE, y->name, "output %s is %s however many samples there are; training needs a network whose batch is "
                "free: export it so", y->name, intact__shape_text(y->rank, y->dims, text));
  }
  t->classes = y->dims[1];
  return INTACT_OK;
}

/* The same samples go into both. */
static intact_status check_teacher_input(const intact_trainer *t, const intact_value *own, const intact_value *other) {
  char text[160], own_text[160];
  bool same = own->dtype == other->dtype && !own->qparams == !other->qparams && own->rank == other->rank && other->dims[0] < 0;
  for (int i = 1; same && i < own->rank; i++) same = own->dims[i] < 0 || other->dims[i] < 0 || own->dims[i] == other->dims[i];
  if (same) return INTACT_OK;
  INTACT_FAIL(t->context, SIZE_MISMATCH, other->name, "the teacher's input %s is %s %s, the network's input %s %s %s; a teacher takes the same "
              "samples, and any number of them", other->name, intact_dtype_text(other->dtype),
              intact__shape_text(other->rank, other->dims, text), own->name, intact_dtype_text(own->dtype),
              intact__shape_text(own->rank, own->dims, own_text));
}

static intact_status check_teacher(const intact_trainer *t) {
  const intact_graph *teacher = t->options->teacher;
  if (!teacher) return INTACT_OK;
  if (teacher == t->graph) INTACT_FAIL(t->context, WRONG_USE, teacher->name, "the network can't be its own teacher; give a copy");
  const intact_value *y = teacher->n_outputs > 0 ? teacher->outputs[0] : NULL;
  if (teacher->n_inputs != t->graph->n_inputs) {
    INTACT_FAIL(t->context, SIZE_MISMATCH, teacher->name, "the teacher has %d inputs, the network %d; a teacher takes the same samples",
                teacher->n_inputs, t->graph->n_inputs);
  }
  for (int i = 0; i < teacher->n_inputs; i++) INTACT_TRY(check_teacher_input(t, t->graph->inputs[i], teacher->inputs[i]));
  if (!y || y->dtype != INTACT_F32 || y->rank != 2 || y->dims[0] >= 0 || y->dims[1] != t->classes) {
    char text[160];
    INTACT_FAIL(t->context, SIZE_MISMATCH, teacher->name, "the teacher's first output is %s%s%s; f32 [samples, %lld] as the network's is needed",
                y ? intact_dtype_text(y->dtype) : "", y ? " " : "", y ? intact__shape_text(y->rank, y->dims, text) : "not there",
                (long long)t->classes);
  }
  return INTACT_OK;
}

/* ---- gradients ---- */
/* Values that depend on what is learned. */
static void mark_dependent(const intact_trainer *t, bool *depends) {
  for (int i = 0; i < intact_trainable_count(t->trainable); i++) {
    const intact_value *value = intact__graph_find_value(t->graph, intact_trainable_name(t->trainable, i));
    depends[value->id] = intact_variable_requires_grad(intact_trainable_parameter(t->trainable, i));
  }
  for (const intact_node *node = t->graph->first; node; node = node->next) {
    bool any = false;
    for (int i = 0; i < node->n_operands; i++) any = any || (node->operands[i] && depends[node->operands[i]->id]);
    for (int i = 0; i < node->n_results; i++) depends[node->results[i]->id] = any;
  }
}

static intact_status list_obstacles(const intact_trainer *t, const bool *depends, bool *needed) {
  intact_text list;
  int n = 0;
  intact__text_init(&list, t->context);
  needed[t->graph->outputs[0]->id] = true;
  for (const intact_node *node = t->graph->last; node; node = node->prev) {
    bool reached = false;
    for (int i = 0; i < node->n_results; i++) reached = reached || (needed[node->results[i]->id] && depends[node->results[i]->id]);
    if (!reached) continue;
    if (node->op->grad == intact__grad_none) {
      if (n++ < 10) intact__text_add(&list, "%s%s (%s)", n > 1 ? ", " : "", node->name, node->op->name);
      continue;
    }
    for (int i = 0; i < node->n_operands; i++) {
      if (node->operands[i]) needed[node->operands[i]->id] = true;
    }
  }
  const intact_status status =
      n == 0 ? INTACT_OK
             : intact__fail(t->context, INTACT_UNSUPPORTED_OP, t->graph->name, __FILE__, __LINE__,
                            "%d nodes between what is trained and the output have no gradient: %s%s; train what comes behind them, "
                            "or replace them", n, list.data ? list.data : "", n > 10 ? " ..." : "");
  intact__text_fini(&list);
  return status;
}

/* Processes that see parts of a batch have to agree on its statistics. */
static intact_status check_sharing(const intact_trainer *t) {
  const intact_node *node = t->ranks > 1 ? intact__unshared_node(t->graph) : NULL;
  if (!node) return INTACT_OK;
  INTACT_FAIL(t->context, UNSUPPORTED_OP, node->name, "%s: %s looks at whole batches, but %d processes share each; train in one process, or "
              "take an observer of extremes", node->name, node->observation ? node->observation->spec.observer->name : node->op->name, t->ranks);
}

/* Quantization that is frozen from the start needs something to have been observed before. */
static intact_status check_schedule(const intact_trainer *t) {
  const intact_qat_schedule *q = &t->options->qat;
  if (t->graph->stage != INTACT_STAGE_OBSERVED || (q->freeze_observers_at != 0 && q->learn_at != 0)) return INTACT_OK;
  for (const intact_node *node = t->graph->first; node; node = node->next) {
    const intact_observation *o = node->observation;
    intact_observer_counts counts = {0};
    if (!o || !o->fake || !o->state || !o->spec.observer->counts || o->fake->kind == INTACT_FAKE_LEARNED_FIRST) continue;
    o->spec.observer->counts(o->state, &counts);
    if (counts.batches > 0 || strcmp(o->spec.observer->name, "fixed_qparams") == 0) continue;
    INTACT_FAIL(t->context, WRONG_USE, node->name, "%s from step 0 on, but %s has not observed anything yet; let it happen at step 1 or later",
                q->freeze_observers_at == 0 ? "observers are frozen" : "scales are learned", node->name);
  }
  return INTACT_OK;
}

static intact_status check_gradients(const intact_trainer *t) {
  if (t->n_learned == 0) INTACT_FAIL(t->context, WRONG_USE, t->graph->name, "the network has no parameters to train");
  bool *marks = intact__alloc_zeroed(t->context, 2 * t->graph->n_values, sizeof *marks);
  if (!marks) return intact__no_memory(t->context, 2 * t->graph->n_values);
  mark_dependent(t, marks);
  const intact_status status = list_obstacles(t, marks, marks + t->graph->n_values);
  intact__free(t->context, marks);
  return status;
}

/* ---- the rest ---- */
static intact_status check_folder(const intact_trainer *t) {
  const char *folder = t->options->checkpoint;
  struct stat info;
  if (!folder) return INTACT_OK;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
    INTACT_FAIL(t->context, IO, folder, "can't make folder '%s' for checkpoints: %s", folder, strerror(errno));
  }
  if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
    INTACT_FAIL(t->context, IO, folder, "'%s' is no folder; checkpoints need one", folder);
  }
  if (t->rank == 0 && access(folder, W_OK | X_OK) != 0) {
    INTACT_FAIL(t->context, IO, folder, "folder '%s' takes no checkpoints: %s; name one that can be written", folder, strerror(errno));
  }
  return INTACT_OK;
}

intact_status intact__train_check(intact_trainer *t) {
  if (t->graph->n_inputs < 1) INTACT_FAIL(t->context, WRONG_USE, t->graph->name, "the network has no input to train with");
  INTACT_TRY(check_numbers(t));
  INTACT_TRY(check_output(t));
  INTACT_TRY(check_teacher(t));
  INTACT_TRY(check_labels(t, t->labels, t->samples, "labels"));
  if (t->options->test) {
    if (!t->options->test_labels) INTACT_FAIL(t->context, WRONG_USE, "", "test samples without labels");
    INTACT_TRY(check_labels(t, t->options->test_labels, intact_data_count(t->options->test), "test labels"));
  }
  INTACT_TRY(check_sharing(t));
  INTACT_TRY(check_gradients(t));
  INTACT_TRY(check_schedule(t));
  INTACT_TRY(check_parameters_before(t));
  return check_folder(t);
}

/* ---- numbers that are not finite ---- */
typedef struct hunt {
  const intact_value *found;
} hunt;

intact_status intact__train_check_parameters(const intact_trainer *t) {
  for (int i = 0; i < intact_trainable_count(t->trainable); i++) {
    const char *name = intact_trainable_name(t->trainable, i);
    if (is_finite(intact_variable_tensor(intact_trainable_parameter(t->trainable, i)))) continue;
    INTACT_FAIL(t->context, INVALID_VALUE, name, "step %lld (epoch %lld): the update has made parameter %s infinite or NaN. Try a smaller "
                "learning rate or clipping%s", (long long)t->step, (long long)t->epoch + 1, name,
                t->options->checkpoint ? "; the last checkpoint is as it was before" : "");
  }
  return INTACT_OK;
}

/* Fake quantization makes something finite of whatever it gets: what was nothing but NaN and infinity shows in its statistics only. */
intact_status intact__train_check_observed(const intact_trainer *t) {
  for (const intact_node *node = t->graph->first; node; node = node->next) {
    const intact_observation *o = node->observation;
    intact_observer_counts counts = {0};
    if (!o || !o->state || !o->spec.observer->counts) continue;
    o->spec.observer->counts(o->state, &counts);
    if (counts.values == 0 || counts.non_finite < counts.values) continue;
    INTACT_FAIL(t->context, INVALID_VALUE, node->name, "step %lld (epoch %lld): all values that %s has seen are infinite or NaN; look at the weights "
                "before it, and at what normalises the samples", (long long)t->step, (long long)t->epoch + 1, node->name);
  }
  return INTACT_OK;
}

static intact_status look(void *user, const intact_value *value, const intact_tensor *tensor) {
  hunt *h = user;
  if (!h->found && value->producer && !is_finite(tensor)) h->found = value;
  return INTACT_OK;
}

intact_status intact__train_not_finite(intact_trainer *t, double loss) {
  const int n = t->graph->n_inputs, m = t->graph->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(t->context, (size_t)(n + m), sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, 0);
  hunt h = {NULL};
  const char *bad_input = NULL;
  for (int i = 0; i < n; i++) {
    tensors[i] = intact_variable_tensor(t->inputs[i]);
    if (!is_finite(tensors[i])) bad_input = t->graph->inputs[i]->name;
  }
  const intact_interp_options options = {.fast = true, .tap = look, .tap_user = &h};
  if (intact__interpret(t->graph, (const intact_tensor *const *)tensors, &options, tensors + n) == INTACT_OK) {
    for (int i = 0; i < m; i++) intact_tensor_destroy(tensors[n + i]);
  }
  intact__free(t->context, tensors);
  char where[300] = "the loss itself is the first such value";
  if (h.found) {
    snprintf(where, sizeof where, "the first layer with such a value is %s (%s)", h.found->producer->name,
             h.found->producer->op->name);
  }
  if (bad_input) snprintf(where, sizeof where, "input %s of this batch holds such values already", bad_input);
  INTACT_FAIL(t->context, INVALID_VALUE, h.found ? h.found->producer->name : "",
              "step %lld (epoch %lld): the loss is %g; %s. Try a smaller learning rate or clipping%s", (long long)t->step,
              (long long)t->epoch + 1, isnan(loss) ? fabs(loss) : loss, where,
              t->options->checkpoint ? "; the last checkpoint is as it was before" : "");
}
