/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop against PyTorch's, resuming after a kill, and everything that must be refused.
   Losses: PyTorch 2.13.0 with the same seeds (model, then a loader's generator), batch 32, the first 512 Fashion-MNIST images. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/comm.h"
#include "graph/graph.h"
#include "support/lesson.h"

static void every_network_computes_what_the_reference_does(void **state) {
  (void)state;
  static const char *const names[] = {"mlp", "cnn", "resnet8", "mobilenet"};
  intact_context *c = test_context(1);
  for (int i = 0; i < 4; i++) {
    char path[1200];
    intact_generator *g;
    intact_graph *graph;
    intact_tensor_set *sample;
    intact_tensor *y;
    assert_ok(c, intact_generator_create(c, 0, &g));
    assert_ok(c, intact_network_create(c, names[i], g, &graph));
    assert_ok(c, intact_weights_load(graph, model_file(names[i], "model.safetensors", path, sizeof path)));
    assert_ok(c, intact_tensors_read(c, model_file(names[i], "sample.safetensors", path, sizeof path), &sample));
    const intact_tensor *x = intact_tensor_set_find(sample, "x"), *want = intact_tensor_set_find(sample, "y");
    assert_ok(c, intact_graph_interpret(graph, &x, true, &y));
    for (int64_t k = 0; k < want->count; k++) assert_float_equal(intact__f32(y)[k], intact__f32(want)[k], 2e-5);
    /* another network's */
    const intact_status other = intact_weights_load(graph, model_file(names[(i + 1) % 4], "model.safetensors", path, sizeof path));
    assert_true(other == INTACT_BAD_REFERENCE || other == INTACT_SIZE_MISMATCH || other == INTACT_MISSING_ENTRY);
    intact_tensor_destroy(y);
    intact_tensor_set_destroy(sample);
    intact_graph_destroy(graph);
    intact_generator_destroy(g);
  }
  intact_context_destroy(c);
}

static void losses_are_those_of_pytorch(void **state) {
  (void)state;
  static const double mlp[4] = {2.0033525524, 0.9242053516, 0.7027685251, 0.5368858594}, cnn = 1.6764386;
  intact_context *c = test_context(1);
  intact_train_options options = intact_train_default_options();
  intact_optimizer_options adamw;
  assert_ok(c, intact_optimizer_default_options(c, "AdamW", &adamw));
  adamw.lr = 3e-3;
  options.epochs = 4;
  options.optimizer_options = &adamw;
  options.schedule = "OneCycleLR";
  for (int i = 0; i < 2; i++) {
    lesson l;
    intact_train_log log;
    open_lesson(c, i ? "cnn" : "mlp", &l);
    assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, &log));
    assert_int_equal(log.n_epochs, 4);
    assert_int_equal(log.n_steps, 64);
    for (int e = 0; e < 4 && i == 0; e++) assert_float_equal(log.epochs[e].loss, mlp[e], 1e-5);
    if (i == 1) assert_float_equal(log.epochs[0].loss, cnn, 1e-4);
    intact_train_log_destroy(c, &log);
    close_lesson(&l);
  }
  intact_context_destroy(c);
}

/* A trained mlp teaches a fresh one; label smoothing 0.1, clipping to 0.5, weight 0.7, temperature 3. */
static void a_teacher_is_imitated_as_in_pytorch(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  intact_graph *teacher;
  intact_generator *g;
  char path[1200];
  intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_generator_create(c, 0, &g));
  assert_ok(c, intact_network_create(c, "mlp", g, &teacher));
  assert_ok(c, intact_weights_load(teacher, model_file("mlp", "model.safetensors", path, sizeof path)));
  options.epochs = 2;
  options.teacher = teacher;
  options.distill_weight = 0.7;
  options.distill_temperature = 3;
  options.label_smoothing = 0.1;
  options.clip_norm = 0.5;
  assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, &log));
  assert_float_equal(log.epochs[0].loss, 13.8132222, 1e-4);
  assert_float_equal(log.epochs[1].loss, 11.0411942, 1e-4);
  intact_train_log_destroy(c, &log);
  intact_graph_destroy(teacher);
  intact_generator_destroy(g);
  close_lesson(&l);
  intact_context_destroy(c);
}

/* ---- checkpoints ---- */
static void die_at_step_21(void *user, const char *what, int64_t done, int64_t total) {
  (void)user;
  (void)what;
  (void)total;
  static int steps;
  if (done > 0 && ++steps == 21) _exit(3);
}

/* fake_quantizer NULL: in float. */
static intact_status train_with_checkpoints(intact_context *c, const char *folder, bool resume, const char *fake_quantizer, lesson *l,
                                            intact_train_log *log) {
  intact_train_options options = intact_train_default_options();
  options.epochs = 3;
  options.schedule = "CosineAnnealingLR";
  options.checkpoint = folder;
  options.checkpoint_steps = 5;
  options.resume = resume;
  options.augment_shift = 2;
  options.augment_flip = true;
  options.qat.freeze_batch_norm_at = 10;
  open_lesson(c, "cnn", l);
  if (fake_quantizer) {
    intact_qat_options qat = intact_qat_default_options();
    qat.fake_quantizer = qat.weight_fake_quantizer = fake_quantizer;
    qat.activation_bits = 4;
    if (intact_prepare_qat(l->graph, &qat) != INTACT_OK) return intact_context_status(c);
  }
  return intact_train(l->graph, l->data, l->labels, &options, log);
}

static void kill_and_resume(const char *fake_quantizer, int events) {
  char folder[] = "/tmp/intact_train_XXXXXX", file[100];
  assert_non_null(mkdtemp(folder));
  const pid_t child = fork();
  if (child == 0) {
    intact_context_options options = intact_context_default_options();
    intact_context *c;
    lesson l;
    intact_train_log log;
    options.threads = 1;
    options.progress = die_at_step_21;
    if (intact_context_create(&options, &c) != INTACT_OK) _exit(4);
    train_with_checkpoints(c, folder, false, fake_quantizer, &l, &log);
    _exit(5);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  intact_context *c = test_context(1);
  lesson whole, resumed;
  intact_train_log a, b;
  assert_ok(c, train_with_checkpoints(c, folder, true, fake_quantizer, &resumed, &b));
  snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
  assert_int_equal(unlink(file), 0);
  assert_ok(c, train_with_checkpoints(c, folder, true, fake_quantizer, &whole, &a)); /* nothing to resume from: the whole way */
  assert_int_equal(a.n_steps, 48);
  assert_int_equal(b.n_steps, 48);
  assert_memory_equal(a.losses, b.losses, 48 * sizeof(float));
  assert_int_equal(a.n_events, events);
  assert_int_equal(b.n_events, 1);
  assert_int_equal(strncmp(b.events[0], "step 20: resumed", 16), 0);
  for (size_t i = 0; i < whole.graph->n_values; i++) {
    const intact_value *x = whole.graph->values[i], *y = resumed.graph->values[i];
    if (x && x->constant) assert_memory_equal(x->constant->data, y->constant->data, intact_tensor_bytes(x->constant));
  }
  intact_train_log_destroy(c, &a);
  intact_train_log_destroy(c, &b);
  close_lesson(&whole);
  close_lesson(&resumed);
  unlink(file);
  rmdir(folder);
  intact_context_destroy(c);
}

static void a_killed_training_resumes_to_the_same_bits(void **state) {
  (void)state;
  kill_and_resume(NULL, 1); /* batch norms frozen */
  kill_and_resume("fused", 2);
  kill_and_resume("lsq", 3);
  kill_and_resume("pact", 3);
}

/* ---- replicas ---- */
static void train_replicas(int threads, int replicas, const char *fake_quantizer, intact_train_log *log) {
  intact_context *c = test_context(threads);
  lesson l;
  intact_qat_options qat = intact_qat_default_options();
  intact_train_options options = intact_train_default_options();
  options.replicas = replicas;
  options.batch = 60; /* the last one is smaller */
  options.augment_shift = 1;
  open_lesson(c, "resnet8", &l);
  qat.fake_quantizer = qat.weight_fake_quantizer = fake_quantizer;
  qat.weight_bits = 4;
  assert_ok(c, intact_prepare_qat(l.graph, &qat));
  assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, log));
  close_lesson(&l);
  intact_context_destroy(c);
}

/* As threads, as fibers, with two threads for each: the same bits. Another number of replicas adds up otherwise. */
static void replicas_decide_the_bits_not_threads(void **state) {
  (void)state;
  static const char *const fakes[] = {"fused", "lsq"};
  for (int i = 0; i < 2; i++) {
    intact_context *c = test_context(1);
    intact_train_log log[3];
    train_replicas(1, 4, fakes[i], &log[0]);
    train_replicas(4, 4, fakes[i], &log[1]);
    train_replicas(1, 1, fakes[i], &log[2]);
    assert_int_equal(log[0].n_steps, 9);
    assert_memory_equal(log[0].losses, log[1].losses, 9 * sizeof(float));
    assert_float_equal(log[0].losses[0], log[2].losses[0], 1e-5);
    assert_memory_not_equal(log[0].losses, log[2].losses, 9 * sizeof(float));
    for (int k = 0; k < 3; k++) intact_train_log_destroy(c, &log[k]);
    intact_context_destroy(c);
  }
}

/* A second process that has nothing to say, but zeros. */
static intact_status silent_process(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  (void)context;
  (void)user;
  memcpy(all, mine, bytes);
  memset((uint8_t *)all + bytes, 0, bytes);
  return INTACT_OK;
}

/* One that agrees on the options, and has nothing to say after that. */
static intact_status silent_later(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  int *calls = user;
  silent_process(context, NULL, mine, bytes, all);
  if ((*calls)++ == 0) memcpy((uint8_t *)all + bytes, mine, bytes);
  return INTACT_OK;
}

/* One that was started with another seed. */
static intact_status other_seed(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  silent_process(context, user, mine, bytes, all);
  memcpy((uint8_t *)all + bytes, mine, bytes);
  ((int64_t *)all)[bytes / sizeof(int64_t)]++;
  return INTACT_OK;
}

static void processes_that_disagree_are_found(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  intact_train_options options = intact_train_default_options();
  int calls = 0;
  assert_ok(c, intact__comm_set(c, &(intact_comm){.size = 2, .gather = silent_later, .user = &calls}));
  open_lesson(c, "mlp", &l);
  assert_int_equal(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_INTERNAL);
  assert_non_null(strstr(intact_context_message(c), "of replica 1 is not that of replica 0"));
  assert_ok(c, intact__comm_set(c, &(intact_comm){.size = 2, .gather = other_seed}));
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_WRONG_USE);
  assert_non_null(strstr(intact_context_message(c), "replica 1 was started with another seed than replica 0"));
  close_lesson(&l);
  intact_context_destroy(c);
}

/* Statistics of whole batches: a histogram of a part would be another one. */
static void observers_of_whole_batches_keep_them_whole(void **state) {
  (void)state;
  for (int processes = 1; processes <= 2; processes++) {
    intact_context *c = test_context(1);
    lesson l;
    intact_train_log log = {0};
    intact_quantize_options quantize = intact_quantize_default_options();
    intact_train_options options = intact_train_default_options();
    quantize.observer = "histogram";
    open_lesson(c, "mlp", &l);
    if (processes == 2) assert_ok(c, intact__comm_set(c, &(intact_comm){.size = 2, .gather = silent_process}));
    assert_ok(c, intact_annotate(l.graph, &quantize));
    assert_ok(c, intact_prepare(l.graph));
    const intact_status status = intact_train(l.graph, l.data, l.labels, &options, &log);
    assert_int_equal(status, processes == 1 ? INTACT_OK : INTACT_UNSUPPORTED_OP);
    if (processes == 2) assert_non_null(strstr(intact_context_message(c), "histogram"));
    intact_train_log_destroy(c, &log);
    close_lesson(&l);
    intact_context_destroy(c);
  }
}

static void a_full_disk_leaves_the_old_checkpoint(void **state) {
  (void)state;
  char folder[] = "/tmp/intact_train_XXXXXX", file[100];
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/checkpoint.safetensors", folder);
  FILE *old = fopen(file, "w");
  assert_non_null(old);
  fputs("the old one", old);
  fclose(old);
  const pid_t child = fork();
  if (child == 0) { /* files may not grow beyond 10 kB */
    const struct rlimit limit = {10000, 10000};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    intact_context *c = test_context(1);
    lesson l;
    intact_train_log log;
    if (train_with_checkpoints(c, folder, false, NULL, &l, &log) != INTACT_IO) _exit(1);
    _exit(strstr(intact_context_message(c), "checkpoint") ? 0 : 2);
  }
  int status;
  char text[20] = "";
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  old = fopen(file, "r");
  assert_non_null(fgets(text, sizeof text, old));
  fclose(old);
  assert_string_equal(text, "the old one");
  unlink(file);
  assert_int_equal(rmdir(folder), 0); /* and nothing else lies there */
}

/* ---- refusals ---- */
static void what_can_be_wrong_is_found_before_the_first_step(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  open_lesson(c, "mlp", &l);
  const intact_train_options good = intact_train_default_options();
  intact_train_options options = good;
  options.batch = 513;
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_OUT_OF_RANGE);
  assert_non_null(strstr(intact_context_message(c), "513"));
  options = good;
  options.epochs = 0;
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_OUT_OF_RANGE);
  options = good;
  options.optimizer = "NoSuch";
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_WRONG_USE);
  options = good;
  options.schedule = "NoSuch";
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_WRONG_USE);
  options = good;
  options.checkpoint = "/dev/null/folder";
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_IO);
  int64_t *labels = intact_tensor_mutable_data(l.labels);
  labels[300] = 10;
  assert_fails(intact_train(l.graph, l.data, l.labels, &good, &log), INTACT_OUT_OF_RANGE);
  assert_non_null(strstr(intact_context_message(c), "300"));
  labels[300] = -1;
  assert_fails(intact_train(l.graph, l.data, l.labels, &good, &log), INTACT_OUT_OF_RANGE);
  close_lesson(&l);
  intact_context_destroy(c);
}

static void nodes_without_a_gradient_are_listed(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  intact_graph *graph;
  const intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_graph_parse(c,
                                  "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\nsymbols N\ninput x: f32[N,1,28,28]\n"
                                  "constant w: f32[10,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\nm: f32[N,1] = mean(x) dim=[2,3]\n"
                                  "h: f32[N,10] = linear(m, w)\ns: s64[N,10] = argsort(h) dim=1\n"
                                  "y: f32[N,10] = cast(s) dtype=f32\noutput y\n",
                                  &graph));
  assert_fails(intact_train(graph, l.data, l.labels, &options, &log), INTACT_UNSUPPORTED_OP);
  intact_graph_destroy(graph);
  close_lesson(&l);
  intact_context_destroy(c);
}

static void a_fixed_batch_is_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  intact_graph *graph;
  const intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_graph_parse(c,
                                  "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\ninput x: f32[4,1,28,28]\n"
                                  "constant w: f32[10,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\nm: f32[4,1] = mean(x) dim=[2,3]\n"
                                  "y: f32[4,10] = linear(m, w)\noutput y\n",
                                  &graph));
  assert_fails(intact_train(graph, l.data, l.labels, &options, &log), INTACT_WRONG_USE);
  assert_non_null(strstr(intact_context_message(c), "4 samples at a time"));
  intact_graph_destroy(graph);
  close_lesson(&l);
  intact_context_destroy(c);
}

static void a_loss_that_explodes_says_where(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_log log;
  intact_train_options options = intact_train_default_options();
  intact_optimizer_options sgd;
  assert_ok(c, intact_optimizer_default_options(c, "SGD", &sgd));
  sgd.lr = 1e30;
  options.optimizer = "SGD";
  options.optimizer_options = &sgd;
  open_lesson(c, "mlp", &l);
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_INVALID_VALUE);
  assert_non_null(strstr(intact_context_message(c), "step 1 (epoch 1)"));
  assert_non_null(strstr(intact_context_message(c), "first layer with such a value is fc"));
  close_lesson(&l);
  /* The last update of an epoch breaks the parameters: no checkpoint of them. */
  char folder[] = "/tmp/intact_train_XXXXXX";
  assert_non_null(mkdtemp(folder));
  options.checkpoint = folder;
  options.batch = 512;
  sgd.lr = 1e38;
  sgd.weight_decay = 1e38;
  open_lesson(c, "mlp", &l);
  assert_fails(intact_train(l.graph, l.data, l.labels, &options, &log), INTACT_INVALID_VALUE);
  assert_non_null(strstr(intact_context_message(c), "parameter fc"));
  assert_int_equal(rmdir(folder), 0); /* empty */
  close_lesson(&l);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_network_computes_what_the_reference_does),
      cmocka_unit_test(losses_are_those_of_pytorch),
      cmocka_unit_test(a_teacher_is_imitated_as_in_pytorch),
      cmocka_unit_test(a_killed_training_resumes_to_the_same_bits),
      cmocka_unit_test(replicas_decide_the_bits_not_threads),
      cmocka_unit_test(processes_that_disagree_are_found),
      cmocka_unit_test(observers_of_whole_batches_keep_them_whole),
      cmocka_unit_test(a_full_disk_leaves_the_old_checkpoint),
      cmocka_unit_test(what_can_be_wrong_is_found_before_the_first_step),
      cmocka_unit_test(nodes_without_a_gradient_are_listed),
      cmocka_unit_test(a_fixed_batch_is_refused),
      cmocka_unit_test(a_loss_that_explodes_says_where),
  };
  test_reference("models", models, sizeof models);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
