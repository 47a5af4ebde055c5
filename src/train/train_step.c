/* SPDX-License-Identifier: Apache-2.0 */
/* One step: batch, forward, loss, backward, update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/comm.h"
#include "tensor/tensor.h"
#include "train/trainer.h"

/* Samples of the batch at hand, over all replicas: the last one of an epoch may be smaller. */
static int64_t whole_batch(const intact_trainer *t) {
  const int64_t left = t->samples - t->step_of_epoch * t->options->batch;
  return left < t->options->batch ? left : t->options->batch;
}

int64_t intact__train_share(const intact_trainer *t, int64_t *samples) {
  const int64_t first = t->step_of_epoch * t->options->batch, all = whole_batch(t);
  int64_t n = 0;
  for (int64_t i = t->rank; i < all; i += t->ranks) samples[n++] = t->order[first + i];
  return n;
}

static void release_all(intact_variable **variables, int n) {
  for (int i = 0; i < n; i++) {
    intact_variable_release(variables[i]);
    variables[i] = NULL;
  }
}

/* n samples, by number or (samples NULL) from `first` on, as tensors of this replica's context. */
static intact_status take_samples(const intact_trainer *t, intact_data *data, int64_t first, int64_t n, const int64_t *samples, intact_tensor **tensors) {
  pthread_mutex_lock(t->outer_lock);
  const intact_status status = samples ? intact_data_gather(data, n, samples, tensors) : intact_data_batch(data, first, n, tensors);
  if (status != INTACT_OK) intact__error_copy(t->context, t->outer);
  pthread_mutex_unlock(t->outer_lock);
  for (int i = 0; i < t->graph->n_inputs && status == INTACT_OK; i++) intact__tensor_move(tensors[i], t->context);
  return status;
}

/* Fake quantization would make something finite of NaN and infinity, and hide them. */
static intact_status check_finite(const intact_trainer *t, intact_tensor *const *tensors, int64_t n, int64_t first, const int64_t *samples) {
  for (int i = 0; i < t->graph->n_inputs; i++) {
    const int64_t at = intact__train_first_not_finite(tensors[i]), within = n > 0 ? tensors[i]->count / n : 0;
    if (at < 0) continue;
    const int64_t row = at / within, sample = samples ? samples[row] : first + row;
    INTACT_FAIL(t->context, INVALID_VALUE, t->graph->inputs[i]->name, "step %lld: %s %lld holds %g for input %s; leave such samples out, "
                "or put numbers there", (long long)t->step, samples ? "sample" : "test sample", (long long)sample, fabs((double)intact__f32(tensors[i])[at]),
                t->graph->inputs[i]->name);
  }
  return INTACT_OK;
}

/* Variables on the batch's tensors, which are let go. `status`: of what came before; a failure is passed on. */
static intact_status make_inputs(intact_trainer *t, intact_tensor **tensors, intact_status status) {
  for (int i = 0; i < t->graph->n_inputs; i++) {
    if (status == INTACT_OK) status = intact_variable_create(tensors[i], false, &t->inputs[i]);
    intact_tensor_destroy(tensors[i]);
  }
  return status;
}

static intact_status read_batch(intact_trainer *t, int64_t n, const int64_t *samples) {
  intact_tensor **tensors = intact__alloc_zeroed(t->context, (size_t)t->graph->n_inputs, sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, 0);
  intact_status status = take_samples(t, t->data, 0, n, samples, tensors);
  const bool taken = status == INTACT_OK;
  if (taken) status = check_finite(t, tensors, n, 0, samples);
  if (status == INTACT_OK) status = intact__augment(t, tensors[0], samples);
  if (taken) status = make_inputs(t, tensors, status);
  intact__free(t->context, tensors);
  return status;
}

static intact_status labels_of(const intact_trainer *t, const intact_tensor *labels, int64_t n, const int64_t *samples,
                               intact_variable **target) {
  intact_tensor *tensor;
  INTACT_TRY(intact_tensor_create(t->context, INTACT_S64, 1, &n, &tensor));
  for (int64_t i = 0; i < n; i++) {
    ((int64_t *)tensor->data)[i] = ((const int64_t *)labels->data)[samples ? samples[i] : i];
  }
  const intact_status status = intact_variable_create(tensor, false, target);
  intact_tensor_destroy(tensor);
  return status;
}

static int64_t count_correct(const intact_tensor *logits, const intact_tensor *labels) {
  const int64_t n = logits->dims[0], classes = n ? logits->count / n : 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < n; i++) {
    const float *row = intact__f32(logits) + i * classes;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++) best = row[k] > row[best] ? k : best;
    correct += best == ((const int64_t *)labels->data)[i];
  }
  return correct;
}

/* ---- the teacher ---- */
/* x times a number. */
static intact_status scaled(intact_context *context, intact_variable *x, double factor, intact_variable **result) {
  intact_tensor *tensor;
  intact_variable *number = NULL;
  INTACT_TRY(intact__tensor_scalar_f32(context, (float)factor, &tensor));
  intact_status status = intact_variable_create(tensor, false, &number);
  intact_tensor_destroy(tensor);
  if (status == INTACT_OK) status = intact_variable_call(context, "mul", NULL, 2, (intact_variable *[]){x, number}, 1, result);
  intact_variable_release(number);
  return status;
}

/* The teacher's probabilities at the temperature. */
static intact_status teach(const intact_trainer *t, intact_variable **probabilities) {
  const intact_graph *teacher = t->teacher;
  const size_t n = (size_t)teacher->n_inputs, all = n + (size_t)teacher->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(t->context, all, sizeof *tensors);
  intact_variable *logits = NULL, *soft = NULL;
  if (!tensors) return intact__no_memory(t->context, all * sizeof *tensors);
  intact_tensor **outputs = tensors + n;
  for (size_t i = 0; i < n; i++) tensors[i] = intact_variable_tensor(t->inputs[i]);
  intact_status status = intact_graph_interpret(teacher, (const intact_tensor *const *)tensors, true, outputs);
  if (status == INTACT_OK) status = intact_variable_create(outputs[0], false, &logits);
  if (status == INTACT_OK) status = scaled(t->context, logits, 1 / t->options->distill_temperature, &soft);
  if (status == INTACT_OK) status = intact_variable_call(t->context, "softmax", "dim=1", 1, &soft, 1, probabilities);
  for (int i = 0; i < teacher->n_outputs; i++) intact_tensor_destroy(outputs[i]);
  intact_variable_release(soft);
  intact_variable_release(logits);
  intact__free(t->context, tensors);
  return status;
}

/* (1 - w) loss + w T^2 crossentropy(y / T, teacher): the gradient of the divergence from the teacher, at its scale. */
static intact_status add_teacher(const intact_trainer *t, intact_variable *logits, intact_variable **loss) {
  const double w = t->options->distill_weight, temperature = t->options->distill_temperature;
  intact_variable *v[5] = {NULL, NULL, NULL, NULL, NULL}, *sum;
  intact_status status = teach(t, &v[0]);
  if (status == INTACT_OK) status = scaled(t->context, logits, 1 / temperature, &v[1]);
  if (status == INTACT_OK) {
    status = intact_variable_call(t->context, "cross_entropy_loss", NULL, 2, (intact_variable *[]){v[1], v[0]}, 1, &v[2]);
  }
  if (status == INTACT_OK) status = scaled(t->context, v[2], w * temperature * temperature, &v[3]);
  if (status == INTACT_OK) status = scaled(t->context, *loss, 1 - w, &v[4]);
  if (status == INTACT_OK) status = intact_variable_call(t->context, "add", NULL, 2, &v[3], 1, &sum);
  release_all(v, 5);
  if (status != INTACT_OK) return status;
  intact_variable_release(*loss);
  *loss = sum;
  return INTACT_OK;
}

static intact_status compute_loss(const intact_trainer *t, intact_variable *target, intact_variable **loss) {
  char attributes[60];
  intact_variable *const operands[2] = {t->outputs[0], target};
  snprintf(attributes, sizeof attributes, "label_smoothing=%.17g", t->options->label_smoothing);
  INTACT_TRY(intact_variable_call(t->context, "cross_entropy_loss", attributes, 2, operands, 1, loss));
  if (!t->teacher) return INTACT_OK;
  return add_teacher(t, t->outputs[0], loss); /* *loss is the caller's, whatever comes of it */
}

/* ---- backward and update ---- */
/* Those of all replicas, in one message. */
static intact_status sum_gradients(intact_trainer *t) {
  size_t n = 0, at = 0;
  for (int i = 0; i < t->n_learned; i++) n += t->gradients[i] ? (size_t)t->gradients[i]->count : 0;
  float *all = intact__alloc(t->context, n, sizeof *all);
  if (!all) return intact__no_memory(t->context, n * sizeof *all);
  for (int i = 0; i < t->n_learned; i++) {
    const intact_tensor *gradient = t->gradients[i];
    if (!gradient) continue;
    memcpy(all + at, gradient->data, intact_tensor_bytes(gradient));
    at += (size_t)gradient->count;
  }
  const intact_status status = intact__comm_sum_f32(t->context, all, n);
  at = 0;
  for (int i = 0; i < t->n_learned && status == INTACT_OK; i++) {
    if (!t->gradients[i]) continue;
    memcpy(intact_tensor_mutable_data(t->gradients[i]), all + at, intact_tensor_bytes(t->gradients[i]));
    at += (size_t)t->gradients[i]->count;
  }
  intact__free(t->context, all);
  return status;
}

/* Gradients of the mean over all machines' samples: each weighs its mean by its share. */
static intact_status backward(intact_trainer *t, intact_variable *loss, double share) {
  intact_tensor *weight;
  intact_trainable_clear_gradients(t->trainable);
  INTACT_TRY(intact__tensor_scalar_f32(t->context, (float)share, &weight));
  const intact_status status = intact_variable_backward(loss, t->ranks > 1 ? weight : NULL, false);
  intact_tensor_destroy(weight);
  if (status != INTACT_OK) return status;
  for (int i = 0; i < t->n_learned; i++) t->gradients[i] = intact_variable_gradient(t->learned[i]);
  return t->ranks > 1 ? sum_gradients(t) : INTACT_OK;
}

static intact_status update(intact_trainer *t) {
  if (t->options->clip_norm > 0) {
    INTACT_TRY(intact_clip_grad_norm(t->context, t->n_learned, t->gradients, t->options->clip_norm, 2, NULL));
  }
  return intact_optimizer_step(t->optimizer, (const intact_tensor *const *)t->gradients);
}

/* What the step adds to the epoch: sums over all machines. */
static intact_status take_stock(intact_trainer *t, double loss, int64_t n, int64_t correct, double *mean) {
  double sums[3] = {loss * (double)n, (double)n, (double)correct};
  INTACT_TRY(intact__comm_sum_f64(t->context, sums, 3));
  *mean = t->ranks > 1 ? sums[0] / sums[1] : loss;
  if (!isfinite(*mean)) return intact__train_not_finite(t, *mean);
  t->loss_sum += t->ranks > 1 ? sums[0] : loss * (double)n;
  t->seen += (int64_t)sums[1];
  t->correct += (int64_t)sums[2];
  return INTACT_OK;
}

static intact_status run_step(intact_trainer *t, const int64_t *samples, int64_t n) {
  intact_variable *target = NULL, *loss = NULL;
  double mean = 0;
  const int64_t whole = whole_batch(t);
  intact__comm_set_part(t->context, n, whole);
  intact_status status = read_batch(t, n, samples);
  if (status == INTACT_OK) status = labels_of(t, t->labels, n, samples, &target);
  if (status == INTACT_OK) status = intact_trainable_forward(t->trainable, t->inputs, t->outputs);
  if (status == INTACT_OK) status = intact__train_stand_in(t);
  if (status == INTACT_OK) status = compute_loss(t, target, &loss);
  if (status == INTACT_OK) {
    const int64_t correct = count_correct(intact_variable_tensor(t->outputs[0]), intact_variable_tensor(target));
    const double value = intact__f32(intact_variable_tensor(loss))[0];
    status = take_stock(t, value, n, correct, &mean);
  }
  if (status == INTACT_OK) status = backward(t, loss, (double)n / (double)whole);
  if (status == INTACT_OK) status = update(t);
  intact_variable_release(loss);
  intact_variable_release(target);
  release_all(t->inputs, t->graph->n_inputs);
  release_all(t->outputs, t->graph->n_outputs);
  INTACT_TRY(status);
  INTACT_TRY(intact__reserve(t->context, (void **)&t->log.losses, &t->losses_capacity, (size_t)t->log.n_steps + 1, sizeof(float)));
  t->log.losses[t->log.n_steps++] = (float)mean;
  return INTACT_OK;
}

intact_status intact__train_step(intact_trainer *t) {
  int64_t *samples = intact__alloc(t->context, (size_t)t->options->batch, sizeof *samples);
  if (!samples) return intact__no_memory(t->context, (size_t)t->options->batch * sizeof *samples);
  const int64_t n = intact__train_share(t, samples);
  const intact_status status = run_step(t, samples, n);
  intact__free(t->context, samples);
  return status;
}

/* ---- accuracy ---- */
static intact_status score_batch(intact_trainer *t, intact_data *data, const intact_tensor *labels, int64_t first, int64_t n,
                                 int64_t *correct) {
  intact_tensor **tensors = intact__alloc_zeroed(t->context, (size_t)t->graph->n_inputs, sizeof *tensors);
  if (!tensors) return intact__no_memory(t->context, 0);
  intact_status status = take_samples(t, data, first, n, NULL, tensors);
  if (status == INTACT_OK) status = make_inputs(t, tensors, check_finite(t, tensors, n, first, NULL));
  if (status == INTACT_OK) status = intact_trainable_forward(t->trainable, t->inputs, t->outputs);
  if (status == INTACT_OK) status = intact__train_stand_in(t);
  if (status == INTACT_OK) {
    intact_tensor own = *labels;
    own.data = (int64_t *)labels->data + first;
    *correct += count_correct(intact_variable_tensor(t->outputs[0]), &own);
  }
  release_all(t->inputs, t->graph->n_inputs);
  release_all(t->outputs, t->graph->n_outputs);
  intact__free(t->context, tensors);
  return status;
}

intact_status intact__train_accuracy(intact_trainer *t, intact_data *data, const intact_tensor *labels, double *accuracy) {
  enum { BATCH = 64 };
  const int64_t samples = intact_data_count(data);
  int64_t correct = 0, turn = 0;
  const bool recorded = intact_grad_set_enabled(t->context, false);
  intact_status status = INTACT_OK;
  intact_trainable_set_training(t->trainable, false);
  for (int64_t first = 0; first < samples && status == INTACT_OK; first += BATCH, turn++) {
    if (turn % t->ranks != t->rank) continue;
    status = score_batch(t, data, labels, first, samples - first < BATCH ? samples - first : BATCH, &correct);
  }
  intact_trainable_set_training(t->trainable, true);
  intact_grad_set_enabled(t->context, recorded);
  INTACT_TRY(status);
  double sum = (double)correct;
  INTACT_TRY(intact__comm_sum_f64(t->context, &sum, 1));
  *accuracy = 100 * sum / (double)samples;
  return INTACT_OK;
}
