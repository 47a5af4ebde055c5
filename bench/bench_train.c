/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of one network on random pictures: bench_train NETWORK float|qat|lsq|learn BATCH. lsq estimates its learned scales at
   every step, as at the start of a training; learn learns them, as in the rest of it. Every line on standard input is one step (gradients
   cleared, forward, loss, backward, SGD with momentum); the answer is its milliseconds. tools/bench_train.py lets several of these and
   PyTorch take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "intact/qat.h"
#include "intact/train.h"

typedef struct training {
  intact_context *context;
  intact_graph *graph;
  intact_trainable *trainable;
  intact_optimizer *optimizer;
  intact_variable *x, *labels;
  int n;
  intact_variable **learned;
  intact_tensor **gradients;
} training;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void must(const training *t, intact_status status) {
  if (status == INTACT_OK) return;
  fprintf(stderr, "bench_train: %s\n", intact_context_message(t->context));
  exit(1);
}

static void make_network(training *t, const char *name, const char *kind) {
  intact_generator *generator;
  must(t, intact_generator_create(t->context, 0, &generator));
  must(t, intact_network_create(t->context, name, generator, &t->graph));
  intact_generator_destroy(generator);
  if (strcmp(kind, "float") == 0) return;
  intact_qat_options options = intact_qat_default_options();
  if (strcmp(kind, "lsq") == 0 || strcmp(kind, "learn") == 0) options.fake_quantizer = options.weight_fake_quantizer = "lsq";
  must(t, intact_prepare_qat(t->graph, &options));
}

static void make_batch(training *t, int64_t batch) {
  intact_tensor *x, *labels;
  const int64_t dims[4] = {batch, 1, 28, 28};
  must(t, intact_tensor_create(t->context, INTACT_F32, 4, dims, &x));
  must(t, intact_tensor_create(t->context, INTACT_S64, 1, dims, &labels));
  float *values = intact_tensor_mutable_data(x);
  int64_t *classes = intact_tensor_mutable_data(labels);
  uint32_t random = 1;
  for (int64_t i = 0; i < batch * 784; i++) {
    random = random * 1664525u + 1013904223u;
    values[i] = (float)(random >> 8) * 0x1p-23f - 1.0f;
  }
  for (int64_t i = 0; i < batch; i++) classes[i] = i % 10;
  must(t, intact_variable_create(x, false, &t->x));
  must(t, intact_variable_create(labels, false, &t->labels));
  intact_tensor_destroy(x);
  intact_tensor_destroy(labels);
}

static void make_optimizer(training *t) {
  const int count = intact_trainable_count(t->trainable);
  t->learned = calloc((size_t)count, sizeof *t->learned);
  t->gradients = calloc((size_t)count, sizeof *t->gradients);
  intact_tensor **parameters = calloc((size_t)count, sizeof *parameters);
  if (!t->learned || !t->gradients || !parameters) exit(1);
  for (int i = 0; i < count; i++) {
    intact_variable *p = intact_trainable_parameter(t->trainable, i);
    if (!intact_variable_requires_grad(p)) continue;
    t->learned[t->n] = p;
    parameters[t->n++] = intact_variable_tensor(p);
  }
  intact_optimizer_options options;
  must(t, intact_optimizer_default_options(t->context, "SGD", &options));
  options.lr = 0.01, options.momentum = 0.9;
  must(t, intact_optimizer_create(t->context, "SGD", &options, &t->optimizer));
  must(t, intact_optimizer_add_group(t->optimizer, NULL, t->n, parameters));
  free(parameters);
}

static double step(training *t) {
  intact_variable *y = NULL, *loss = NULL;
  const double start = now_ms();
  intact_trainable_clear_gradients(t->trainable);
  must(t, intact_trainable_forward(t->trainable, &t->x, &y));
  must(t, intact_variable_call(t->context, "cross_entropy_loss", NULL, 2, (intact_variable *[]){y, t->labels}, 1, &loss));
  must(t, intact_variable_backward(loss, NULL, false));
  for (int i = 0; i < t->n; i++) t->gradients[i] = intact_variable_gradient(t->learned[i]);
  must(t, intact_optimizer_step(t->optimizer, (const intact_tensor *const *)t->gradients));
  intact_variable_release(loss);
  intact_variable_release(y);
  return now_ms() - start;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "bench_train NETWORK float|qat|lsq|learn BATCH\n");
    return 2;
  }
  training t = {0};
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  if (intact_context_create(&options, &t.context) != INTACT_OK) return 1;
  make_network(&t, argv[1], argv[2]);
  must(&t, intact_trainable_create(t.graph, &t.trainable));
  make_batch(&t, strtoll(argv[3], NULL, 10));
  make_optimizer(&t);
  if (strcmp(argv[2], "learn") == 0) { /* from where one batch says */
    step(&t);
    must(&t, intact_qat_set_mode(t.graph, INTACT_QAT_ACTIVATIONS | INTACT_QAT_WEIGHTS, INTACT_QAT_LEARN));
  }
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    printf("%.4f\n", step(&t));
    fflush(stdout);
  }
  intact_optimizer_destroy(t.optimizer);
  intact_variable_release(t.x);
  intact_variable_release(t.labels);
  intact_trainable_destroy(t.trainable);
  intact_graph_destroy(t.graph);
  free(t.learned);
  free(t.gradients);
  intact_context_destroy(t.context);
  return 0;
}
