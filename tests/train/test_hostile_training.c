/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings that can't be meant: networks, teachers, samples, schedules and checkpoints that do not fit. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "graph/fake_quantizer.h"
#include "support/lesson.h"

static intact_status train_with(lesson *l, const intact_train_options *options) {
  intact_train_log log = {0};
  const intact_status status = intact_train(l->graph, l->data, l->labels, options, &log);
  intact_train_log_destroy(l->graph->context, &log);
  return status;
}

static void assert_refused(lesson *l, const intact_train_options *options, intact_status status, const char *word) {
  assert_fails(train_with(l, options), status);
  const char *message = intact_context_message(l->graph->context);
  if (!strstr(message, word)) fail_msg("'%s' is not in: %s", word, message);
}

/* ---- parts of unequal size ---- */
static int64_t values_seen(const intact_graph *graph, const char *node_name) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    intact_observer_counts counts;
    if (strcmp(node->name, node_name) != 0) continue;
    node->observation->spec.observer->counts(node->observation->state, &counts);
    return counts.values;
  }
  return -1;
}

/* Three parts of 32 samples: 11, 11 and 10. All of them have seen all 512 pictures of 784 pixels. */
static void parts_may_differ_in_size(void **state) {
  (void)state;
  static const char *const fakes[] = {"fused", "lsq"};
  for (int f = 0; f < 2; f++) {
    intact_train_log logs[2];
    for (int i = 0; i < 2; i++) {
      intact_context *c = test_context(i ? 3 : 1);
      lesson l;
      intact_qat_options qat = intact_qat_default_options();
      intact_train_options options = intact_train_default_options();
      qat.fake_quantizer = qat.weight_fake_quantizer = fakes[f];
      options.replicas = 3;
      options.qat.learn_at = 100; /* observed to the end */
      open_lesson(c, "mlp", &l);
      assert_ok(c, intact_prepare_qat(l.graph, &qat));
      assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, &logs[i]));
      assert_int_equal(values_seen(l.graph, "x_fake_quantize"), 512 * 784);
      if (i == 1) assert_memory_equal(logs[0].losses, logs[1].losses, 16 * sizeof(float));
      if (i == 1) intact_train_log_destroy(c, &logs[0]);
      if (i == 1) intact_train_log_destroy(c, &logs[1]);
      close_lesson(&l);
      intact_context_destroy(c);
    }
  }
}

/* ---- networks and teachers ---- */
static intact_graph *network(intact_context *c, const char *input, const char *classes, const char *batch) {
  char text[800];
  intact_graph *graph;
  const bool few = *classes == '9';
  snprintf(text, sizeof text,
           "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\n%sinput x: %s\nconstant w: f32[%s]{%s}\nf: f32[%s,1,28,28] = cast(x) dtype=f32\n"
           "m: f32[%s,1] = mean(f) dim=[2,3]\ny: f32[%s,%s] = linear(m, w)\noutput y\n",
           *batch == 'N' ? "symbols N\n" : "", input, few ? "9,1" : "10,1", few ? "1, 2, 3, 4, 5, 6, 7, 8, 9" : "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", batch,
           batch, batch, classes);
  assert_ok(c, intact_graph_parse(c, text, &graph));
  return graph;
}

static void a_teacher_takes_the_same_samples(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  static const struct {
    const char *input, *classes, *batch, *word;
  } rows[] = {{"u8[N,1,28,28]", "10", "N", "u8"}, {"f32[8,1,28,28]", "10", "8", "any number"}, {"f32[N,1,28,28]", "9", "N", "f32 [?,9]"}};
  intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  for (int i = 0; i < 3; i++) {
    intact_graph *teacher = network(c, rows[i].input, rows[i].classes, rows[i].batch);
    options.teacher = teacher;
    assert_refused(&l, &options, INTACT_SIZE_MISMATCH, rows[i].word);
    intact_graph_destroy(teacher);
  }
  options.teacher = l.graph;
  options.replicas = 1;
  assert_refused(&l, &options, INTACT_WRONG_USE, "its own teacher");
  close_lesson(&l);
  intact_context_destroy(c);
}

/* A failure while a loss is made up of two: it is let go once. */
static void a_teacher_that_fails_is_told(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_graph *teacher;
  intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_graph_parse(c, /* 784 numbers of a sample in rows of 10 */
                                  "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\nsymbols N, M\ninput x: f32[N,1,28,28]\n"
                                  "f: f32[M,10] = reshape(x) shape=[-1,10]\ny: f32[M,10] = relu(f)\noutput y\n",
                                  &teacher));
  options.teacher = teacher;
  for (int replicas = 1; replicas <= 2; replicas++) {
    options.replicas = replicas;
    assert_refused(&l, &options, INTACT_SIZE_MISMATCH, "reshape");
  }
  intact_graph_destroy(teacher);
  close_lesson(&l);
  intact_context_destroy(c);
}

/* ---- numbers that are none ---- */
static void a_sample_with_nan_is_named(void **state) {
  (void)state;
  char path[] = "/tmp/intact_samples_XXXXXX.safetensors";
  const int fd = mkstemps(path, 12);
  assert_true(fd >= 0);
  close(fd);
  for (int i = 0; i < 2; i++) {
    intact_context *c = test_context(1);
    lesson l;
    intact_tensor_set *set;
    intact_tensor *x;
    const intact_train_options options = intact_train_default_options();
    open_lesson(c, "mlp", &l);
    assert_ok(c, intact_tensor_create(c, INTACT_F32, 4, (const int64_t[]){512, 1, 28, 28}, &x));
    ((float *)intact_tensor_mutable_data(x))[300 * 784 + 5] = i ? INFINITY : NAN;
    assert_ok(c, intact_tensor_set_create(c, &set));
    assert_ok(c, intact_tensor_set_add(set, "x", x));
    assert_ok(c, intact_tensors_write(c, path, set));
    intact_tensor_set_destroy(set);
    intact_data_close(l.data);
    assert_ok(c, intact_data_open(c, path, l.graph, NULL, &l.data));
    if (i) assert_ok(c, intact_prepare_qat(l.graph, NULL)); /* which would make a number of it */
    assert_refused(&l, &options, INTACT_INVALID_VALUE, ": sample 300 holds");
    intact_train_options tested = options;
    lesson good;
    open_lesson(c, "mlp", &good);
    tested.test = l.data;
    tested.test_labels = l.labels;
    assert_refused(&good, &tested, INTACT_INVALID_VALUE, ": test sample 300 holds");
    close_lesson(&good);
    close_lesson(&l);
    intact_context_destroy(c);
  }
  unlink(path);
}

static void a_damaged_network_is_not_trained(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  const intact_train_options options = intact_train_default_options();
  open_lesson(c, "mlp", &l);
  intact_value *value = NULL;
  for (size_t i = 0; i < l.graph->n_values && !value; i++)
    if (l.graph->values[i]->constant && l.graph->values[i]->constant->rank == 2) value = l.graph->values[i];
  float *weights = intact_tensor_mutable_data(value->constant);
  weights[7] = NAN;
  assert_refused(&l, &options, INTACT_INVALID_VALUE, "(element 7) before the first step");
  weights = intact_tensor_mutable_data(value->constant);
  weights[7] = 0;
  for (int64_t i = 0; i < value->constant->count; i++) weights[i] = 3e38f; /* sums that overflow, which fake quantization hides */
  assert_ok(c, intact_prepare_qat(l.graph, NULL));
  assert_refused(&l, &options, INTACT_INVALID_VALUE, "step 0 (epoch 1): all values that");
  close_lesson(&l);
  intact_context_destroy(c);
}

/* ---- options ---- */
static void schedules_that_do_not_fit_are_found_at_once(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_scheduler_options schedule;
  intact_train_options options = intact_train_default_options();
  intact_train_log log;
  options.schedule = "OneCycleLR";
  options.schedule_options = &schedule;
  options.epochs = 2;
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_scheduler_default_options(c, "OneCycleLR", &schedule));
  schedule.total_steps = 31; /* there are 32 */
  assert_refused(&l, &options, INTACT_OUT_OF_RANGE, "total_steps is 31, but the training has 32");
  schedule.total_steps = 0;
  options.schedule_by_epoch = true; /* ends with the last epoch, not behind it */
  assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, &log));
  assert_int_equal(log.n_epochs, 2);
  intact_train_log_destroy(c, &log);
  options.schedule_by_epoch = false;
  options.augment_shift = 28; /* nothing would be left of a picture */
  assert_refused(&l, &options, INTACT_OUT_OF_RANGE, "28 pixels");
  options.augment_shift = 0;
  options.checkpoint_steps = 5;
  assert_refused(&l, &options, INTACT_WRONG_USE, "without a folder");
  options.checkpoint_steps = 0;
  assert_ok(c, intact_prepare_qat(l.graph, NULL));
  options.qat.freeze_observers_at = 0;
  assert_refused(&l, &options, INTACT_WRONG_USE, "observers are frozen from step 0 on");
  options.qat.freeze_observers_at = 1;
  assert_ok(c, train_with(&l, &options));
  options.qat.freeze_observers_at = 0; /* by now they have seen something */
  assert_ok(c, train_with(&l, &options));
  close_lesson(&l);
  intact_context_destroy(c);
}

static void bits_for_no_node_are_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  const intact_qat_bits bits[] = {{"fc1", 4, 4}, {"fc9", 2, 2}};
  intact_qat_options qat = intact_qat_default_options();
  qat.bits = bits;
  for (qat.n_bits = 2; qat.n_bits > 0; qat.n_bits--) {
    open_lesson(c, "mlp", &l);
    assert_fails(intact_prepare_qat(l.graph, &qat), qat.n_bits == 2 ? INTACT_WRONG_USE : INTACT_OK);
    if (qat.n_bits == 2) assert_non_null(strstr(intact_context_message(c), "'fc9'"));
    close_lesson(&l);
  }
  intact_context_destroy(c);
}

/* ---- checkpoints ---- */
typedef struct place {
  char folder[40], file[100];
} place;

static void make_place(place *p) {
  strcpy(p->folder, "/tmp/intact_hostile_XXXXXX");
  assert_non_null(mkdtemp(p->folder));
  snprintf(p->file, sizeof p->file, "%s/checkpoint.safetensors", p->folder);
}

static void clear_place(const place *p) {
  unlink(p->file);
  assert_int_equal(rmdir(p->folder), 0);
}

static intact_status start(intact_context *c, const place *p, intact_train_options options, lesson *l, intact_train_log *log) {
  options.checkpoint = p->folder;
  options.resume = true;
  *log = (intact_train_log){0};
  open_lesson(c, "mlp", l);
  assert_ok(c, intact_prepare_qat(l->graph, NULL));
  return intact_train(l->graph, l->data, l->labels, &options, log);
}

static void going_on_means_with_the_same_options(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  place p;
  lesson l;
  intact_train_log log;
  intact_optimizer_options adamw;
  assert_ok(c, intact_optimizer_default_options(c, "AdamW", &adamw));
  intact_train_options first = intact_train_default_options();
  first.schedule = "CosineAnnealingLR";
  first.optimizer_options = &adamw;
  make_place(&p);
  assert_ok(c, start(c, &p, first, &l, &log));
  close_lesson(&l);
  intact_train_log_destroy(c, &log);
  for (int i = 0; i < 8; i++) {
    static const char *const words[] = {"lr = 0.001', now it is 'lr = 0.5", "schedule", "T_max = 16', now it is 'T_max = 32", "smoothing", "norm = 0", "flips",
                                        "frozen at step = -1', now it is 'observers frozen at step = 9", "labels"};
    intact_train_options options = first;
    adamw.lr = i == 0 ? 0.5 : 0.001;
    if (i == 1) options.schedule = NULL;
    if (i == 2) options.epochs = 2;
    if (i == 3) options.label_smoothing = 0.1;
    if (i == 4) options.clip_norm = 1;
    if (i == 5) options.augment_flip = true;
    if (i == 6) options.qat.freeze_observers_at = 9;
    if (i == 7) {
      open_lesson(c, "mlp", &l);
      assert_ok(c, intact_prepare_qat(l.graph, NULL));
      ((int64_t *)intact_tensor_mutable_data(l.labels))[9] ^= 1;
      options.checkpoint = p.folder;
      options.resume = true;
      assert_fails(train_with(&l, &options), INTACT_WRONG_USE);
    } else {
      assert_fails(start(c, &p, options, &l, &log), INTACT_WRONG_USE);
    }
    if (!strstr(intact_context_message(c), words[i])) fail_msg("'%s' is not in: %s", words[i], intact_context_message(c));
    close_lesson(&l);
  }
  clear_place(&p);
  intact_context_destroy(c);
}

/* What lasts longer goes on as if it had been meant to from the beginning, where the schedule allows that. */
static void a_training_can_be_made_longer(void **state) {
  (void)state;
  static const char *const schedules[] = {NULL, "StepLR", "ExponentialLR"};
  intact_context *c = test_context(1);
  for (int i = 0; i < 3; i++) {
    for (int by_epoch = 0; by_epoch < 2; by_epoch++) {
      place longer, whole;
      lesson l;
      intact_train_log logs[2];
      intact_train_options options = intact_train_default_options();
      options.schedule = schedules[i];
      options.schedule_by_epoch = by_epoch;
      make_place(&longer);
      make_place(&whole);
      assert_ok(c, start(c, &longer, options, &l, &logs[0]));
      close_lesson(&l);
      intact_train_log_destroy(c, &logs[0]);
      options.epochs = 3;
      assert_ok(c, start(c, &longer, options, &l, &logs[0]));
      close_lesson(&l);
      assert_ok(c, start(c, &whole, options, &l, &logs[1]));
      close_lesson(&l);
      assert_int_equal(logs[0].n_steps, 48);
      assert_memory_equal(logs[0].losses, logs[1].losses, 48 * sizeof(float));
      for (int k = 0; k < 2; k++) intact_train_log_destroy(c, &logs[k]);
      clear_place(&longer);
      clear_place(&whole);
    }
  }
  intact_context_destroy(c);
}

/* Two layers whose names differ behind 400 letters: both come back. */
static void long_names_stay_apart(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  char text[4000], letters[401];
  place p;
  lesson l;
  intact_train_options options = intact_train_default_options();
  memset(letters, 'a', 400);
  letters[400] = 0;
  snprintf(text, sizeof text,
           "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\nsymbols N\ninput x: f32[N,1,28,28]\n"
           "constant %s_1: f32[10,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\nconstant %s_2: f32[10]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}\n"
           "m: f32[N,1] = mean(x) dim=[2,3]\ny: f32[N,10] = linear(m, %s_1, %s_2)\noutput y\n", letters, letters, letters, letters);
  make_place(&p);
  options.checkpoint = p.folder;
  options.resume = true;
  for (options.epochs = 1; options.epochs <= 2; options.epochs++) {
    open_lesson(c, "mlp", &l);
    intact_graph_destroy(l.graph);
    assert_ok(c, intact_graph_parse(c, text, &l.graph));
    assert_ok(c, intact_prepare_qat(l.graph, NULL));
    assert_ok(c, train_with(&l, &options));
    close_lesson(&l);
  }
  clear_place(&p);
  intact_context_destroy(c);
}

/* Numbers at an index of a tensor of the checkpoint that no training writes. */
static void a_damaged_checkpoint_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int index;
    double value;
  } rows[] = {{"training.place", 0, 5},       {"training.place", 1, 1},        {"training.place", 2, 1e15},
              {"training.place", 3, -1},      {"training.place", 4, 9e9},      {"training.epochs", 0, NAN},
              {"training.loss_sum", 0, NAN},  {"optimizer.lr", 0, NAN},        {"optimizer.AdamW.step", 0, -3},
              {"optimizer.schedule", 0, 1e300}, {"optimizer.schedule", 4, NAN}, {"network.fc1.bias", 3, NAN},
              {"optimizer.exp_avg.1", 0, INFINITY}, {"training.options", 0, 64},
              {"observer.x_fake_quantize.activation_post_process.min_val", 0, NAN}};
  intact_context *c = test_context(1);
  place p;
  lesson l;
  intact_train_log log;
  intact_train_options options = intact_train_default_options();
  options.schedule = "StepLR";
  make_place(&p);
  assert_ok(c, start(c, &p, options, &l, &log));
  close_lesson(&l);
  intact_train_log_destroy(c, &log);
  options.epochs = 2;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    intact_tensor_set *set, *good;
    assert_ok(c, intact_tensors_read(c, p.file, &good));
    assert_ok(c, intact_tensor_set_create(c, &set));
    for (int k = 0; k < intact_tensor_set_count(good); k++) {
      intact_tensor *copy;
      const char *name = intact_tensor_set_name(good, k);
      assert_ok(c, intact_tensor_copy(intact_tensor_set_get(good, k), &copy));
      if (strcmp(name, rows[i].name) == 0) intact__tensor_set_f64(copy, rows[i].index, rows[i].value);
      assert_ok(c, intact_tensor_set_add(set, name, copy));
    }
    assert_non_null(intact_tensor_set_find(good, rows[i].name));
    assert_ok(c, intact_tensors_write(c, p.file, set));
    const intact_status status = start(c, &p, options, &l, &log);
    if (status != INTACT_INVALID_VALUE && status != INTACT_WRONG_USE) fail_msg("%s[%d]: %s", rows[i].name, rows[i].index, intact_status_text(status));
    close_lesson(&l);
    assert_ok(c, intact_tensors_write(c, p.file, good));
    intact_tensor_set_destroy(set);
    intact_tensor_set_destroy(good);
  }
  clear_place(&p);
  intact_context_destroy(c);
}

/* ---- the library's own doors ---- */
static intact_status nothing_stands_in(void *user, const intact_graph *graph, const intact_tensor *const *inputs, intact_tensor **outputs) {
  (void)graph;
  (void)inputs;
  *outputs = NULL;
  return *(const int *)user ? INTACT_IO : INTACT_OK;
}

static void what_is_left_out_is_refused_or_a_default(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  intact_train_outcome outcome;
  int fails;
  intact_train_options options = intact_train_default_options();
  options.stand_in = nothing_stands_in;
  options.stand_in_user = &fails;
  open_lesson(c, "mlp", &l);
  assert_ok(c, intact_train(l.graph, l.data, l.labels, NULL, NULL));
  assert_fails(intact_train(l.graph, NULL, l.labels, NULL, NULL), INTACT_WRONG_USE);
  assert_fails(intact_train(l.graph, l.data, NULL, NULL, NULL), INTACT_WRONG_USE);
  for (fails = 0; fails < 2; fails++) assert_fails(train_with(&l, &options), fails ? INTACT_IO : INTACT_WRONG_USE);
  assert_fails(intact_train_for_integers(l.graph, l.data, l.labels, NULL, NULL, NULL, NULL), INTACT_WRONG_USE);
  assert_ok(c, intact_train_for_integers(l.graph, l.data, l.labels, NULL, NULL, NULL, &outcome));
  intact_graph_destroy(outcome.qdq);
  close_lesson(&l);
  intact_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_may_differ_in_size),
      cmocka_unit_test(a_teacher_takes_the_same_samples),
      cmocka_unit_test(a_teacher_that_fails_is_told),
      cmocka_unit_test(a_sample_with_nan_is_named),
      cmocka_unit_test(a_damaged_network_is_not_trained),
      cmocka_unit_test(schedules_that_do_not_fit_are_found_at_once),
      cmocka_unit_test(bits_for_no_node_are_refused),
      cmocka_unit_test(going_on_means_with_the_same_options),
      cmocka_unit_test(a_training_can_be_made_longer),
      cmocka_unit_test(long_names_stay_apart),
      cmocka_unit_test(a_damaged_checkpoint_is_refused),
      cmocka_unit_test(what_is_left_out_is_refused_or_a_default),
  };
  test_reference("models", models, sizeof models);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
