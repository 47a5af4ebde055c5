/* SPDX-License-Identifier: Apache-2.0 */
/* intact train: trains a network, converts it, and checks what was made. */
#include "train.h"

#include <math.h>
#include <string.h>

enum { EVALUATION_BATCH = 64 };

typedef struct job {
  cli_training training;
  intact_graph *model, *teacher;
  intact_data *data, *test;
  intact_tensor *labels, *test_labels;
  intact_train_log log;
  intact_train_outcome outcome; /* qdq NULL: trained in float */
  double accuracy;
} job;

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static intact_status make_network(cli *c, job *j) {
  const char *name = cli_get(c, "--from-scratch"), *weights = cli_get(c, "--weights");
  intact_generator *generator;
  if (!name) return intact_model_read(c->context, c->positional[0], &j->model);
  intact_status status = intact_generator_create(c->context, j->training.options.seed, &generator);
  if (status != INTACT_OK) return status;
  status = intact_network_create(c->context, name, generator, &j->model);
  if (status == INTACT_OK && weights) status = intact_weights_load(j->model, weights);
  intact_generator_destroy(generator);
  return status;
}

/* 0, or an exit code after a message. */
static int open_all(cli *c, job *j) {
  const char *labels = cli_get(c, "--labels"), *test = cli_get(c, "--test-data"), *teacher = cli_get(c, "--distill");
  bool wrong_use;
  intact_status status = make_network(c, j);
  if (status == INTACT_OK) {
    status = cli_open_data(c, j->model, "--data", &j->data, &wrong_use);
    if (wrong_use) return CLI_WRONG_USE;
  }
  if (status == INTACT_OK) status = intact_data_labels(j->data, labels, &j->labels);
  if (status == INTACT_OK && test) {
    status = cli_open_data(c, j->model, "--test-data", &j->test, &wrong_use);
    if (wrong_use) return CLI_WRONG_USE;
    if (status == INTACT_OK) status = intact_data_labels(j->test, cli_get(c, "--test-labels"), &j->test_labels);
  }
  if (status == INTACT_OK && teacher) status = intact_model_read(c->context, teacher, &j->teacher);
  j->training.options.teacher = j->teacher;
  j->training.options.test = j->test;
  j->training.options.test_labels = j->test_labels;
  return status == INTACT_OK ? 0 : cli_failed(c);
}

/* Accuracy of what was made, as it will run; then the file. */
static intact_status finish(cli *c, job *j) {
  const bool integer = j->outcome.qdq != NULL;
  const char *out = cli_get(c, "-o");
  intact_graph *made = j->model;
  intact_evaluation result;
  intact_status status = INTACT_OK;
  if (integer) status = intact_graph_copy(j->outcome.qdq, &made);
  if (status != INTACT_OK) return status;
  if (integer) status = intact_to_integer(made);
  if (status == INTACT_OK) {
    status = intact_evaluate(made, integer ? INTACT_ENGINE_INT : INTACT_ENGINE_FLOAT, j->test ? j->test : j->data,
                             j->test ? j->test_labels : j->labels, EVALUATION_BATCH, &result);
  }
  j->accuracy = status == INTACT_OK ? result.accuracy : NAN;
  if (status == INTACT_OK && !c->silent) {
    status = intact_model_write(integer && ends_with(out, ".onnx") ? j->outcome.qdq : made, out, NULL);
  }
  if (integer) intact_graph_destroy(made);
  return status;
}

static intact_status train_network(cli *c, job *j) {
  const intact_train_options *o = &j->training.options;
  if (cli_get(c, "--float")) return intact_train(j->model, j->data, j->labels, o, &j->log);
  const intact_qat_options *qat = cli_training_qat(&j->training, j->model);
  return intact_train_for_integers(j->model, j->data, j->labels, o, qat, &j->log, &j->outcome);
}

static void tell(cli *c, const job *j, double seconds) {
  if (c->json) {
    json_t *events = json_array();
    for (int i = 0; i < j->log.n_events; i++) json_array_append_new(events, json_string(j->log.events[i]));
    json_object_set_new(c->result, "epochs", cli_training_epochs(&j->log));
    json_object_set_new(c->result, "accuracy", cli_number(j->accuracy));
    json_object_set_new(c->result, "events", events);
    if (j->outcome.qdq) {
      json_object_set_new(c->result, "max_steps", cli_number(j->outcome.max_steps));
      json_object_set_new(c->result, "max_abs", cli_number(j->outcome.max_abs));
      json_object_set_new(c->result, "differing", json_integer(j->outcome.differing));
      json_object_set_new(c->result, "compared", json_integer(j->outcome.compared));
    }
    json_object_set_new(c->result, "seconds", cli_number(seconds));
    json_object_set_new(c->result, "peak_rss_bytes", json_integer(cli_peak_rss()));
    return;
  }
  for (int i = 0; i < j->log.n_events && !c->quiet; i++) printf("%s\n", j->log.events[i]);
  for (int i = 0; i < j->log.n_epochs; i++) {
    const intact_train_epoch *e = &j->log.epochs[i];
    printf("epoch %-3lld loss %.4f  accuracy %.2f %%", (long long)e->epoch, e->loss, e->accuracy);
    if (!isnan(e->test_accuracy)) printf("  test %.2f %%", e->test_accuracy);
    printf("  %.1f s\n", e->seconds);
  }
  if (j->outcome.qdq) {
    printf("check     integer program against the trained network: largest difference %.3g steps, %lld of %lld outputs differ\n",
           j->outcome.max_steps, (long long)j->outcome.differing, (long long)j->outcome.compared);
  }
  printf("accuracy  %.2f %% on the %s samples\nwrote %s in %.2f s\n", j->accuracy, j->test ? "test" : "training", cli_get(c, "-o"), seconds);
}

/* Options that would be ignored say that something else was meant. */
static int check_company(cli *c) {
  static const char *const only_integers[] = {"--bits-weights", "--bits-activations", "--method", "--activations", "--simulate-integers", "--per-tensor",
                                              "--keep-float", "--learn-scales-at", "--fake-quantize-at", "--freeze-observers-at"};
  static const char *const only_distilled[] = {"--distill-weight", "--distill-temperature"};
  for (size_t i = 0; cli_get(c, "--float") && i < sizeof only_integers / sizeof *only_integers; i++)
    if (cli_get(c, only_integers[i])) return cli_wrong_use(c, "%s says how to quantize, but --float is to train without", only_integers[i]);
  for (size_t i = 0; !cli_get(c, "--distill") && i < sizeof only_distilled / sizeof *only_distilled; i++)
    if (cli_get(c, only_distilled[i])) return cli_wrong_use(c, "%s goes with --distill MODEL", only_distilled[i]);
  return 0;
}

/* What is missing or does not go together; 0 when nothing. */
static int check_use(cli *c) {
  const char *out = cli_get(c, "-o"), *name = cli_get(c, "--from-scratch");
  if ((c->n_positional > 0) == (name != NULL)) return cli_wrong_use(c, "give either a MODEL or --from-scratch NAME");
  if (cli_get(c, "--weights") && !name) return cli_wrong_use(c, "--weights goes with --from-scratch NAME");
  if (!cli_get(c, "--labels")) return cli_wrong_use(c, "--labels is needed: what the samples are");
  if (!cli_get(c, "--test-data") != !cli_get(c, "--test-labels")) return cli_wrong_use(c, "--test-data and --test-labels go together");
  if (!out) return cli_wrong_use(c, "-o is needed: the file to write, .onnx or .intact");
  if (!ends_with(out, ".onnx") && !ends_with(out, ".intact")) {
    return cli_wrong_use(c, "-o is '%s'; the extension names the format: .onnx or .intact", out);
  }
  static const char *const files[] = {"-o", "--report", "--log"};
  for (int i = 0; i < 3; i++) {
    const char *path = cli_get(c, files[i]);
    if (path && !cli_can_write(path)) return cli_wrong_use(c, "%s is '%s', whose folder is not there or takes no files", files[i], path);
    for (int k = 0; k < i && path; k++) {
      const char *other = cli_get(c, files[k]);
      if (other && strcmp(other, path) == 0) return cli_wrong_use(c, "%s and %s are both '%s'; give each a file", files[k], files[i], path);
    }
  }
  return check_company(c);
}

static int train(cli *c, job *j) {
  const double start = cli_seconds();
  int code = check_use(c);
  if (!code) code = cli_training_read(c, &j->training);
  if (code) return code;
  code = open_all(c, j);
  if (code) return code;
  intact_status status = train_network(c, j);
  if (status == INTACT_OK) status = finish(c, j);
  if (status != INTACT_OK) return cli_failed(c);
  code = cli_training_write(c, &j->log);
  if (!code) tell(c, j, cli_seconds() - start);
  return code;
}

static int run(cli *c) {
  job j = {.accuracy = NAN};
  const int code = train(c, &j);
  intact_train_log_destroy(c->context, &j.log);
  cli_training_free(&j.training);
  intact_graph_destroy(j.outcome.qdq);
  intact_tensor_destroy(j.labels);
  intact_tensor_destroy(j.test_labels);
  intact_data_close(j.data);
  intact_data_close(j.test);
  intact_graph_destroy(j.model);
  intact_graph_destroy(j.teacher);
  return code;
}

const intact_verb intact_verb_train = {.name = "train",
                                       .arguments = "[MODEL]",
                                       .doc = "Trains a network on labelled samples so that it is accurate in integers, or in float; "
                                              "several processes of mpirun share the work.",
                                       .options = cli_train_options,
                                       .run = run};
