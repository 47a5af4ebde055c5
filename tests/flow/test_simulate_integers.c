/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that stand in for those of a network in training: their loss is seen, gradients pass, and the integer program stands in bit for
   bit. */
#include <math.h>
#include <stdio.h>

#include "graph/graph.h"
#include "intact/train.h"
#include "support/reference.h"
#include "support/test.h"

static char models[1024];

typedef struct lesson {
  intact_graph *graph;
  intact_data *data;
  intact_tensor *labels;
} lesson;

static void open_lesson(intact_context *c, lesson *l) {
  const double mean = 0.286, std = 0.353;
  const intact_data_options options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std};
  char path[1200];
  intact_generator *g;
  assert_ok(c, intact_generator_create(c, 0, &g));
  assert_ok(c, intact_network_create(c, "mlp", g, &l->graph));
  intact_generator_destroy(g);
  snprintf(path, sizeof path, "%s/data/train-512-images-idx3-ubyte", models);
  assert_ok(c, intact_data_open(c, path, l->graph, &options, &l->data));
  snprintf(path, sizeof path, "%s/data/train-512-labels-idx1-ubyte", models);
  assert_ok(c, intact_labels_read(c, path, &l->labels));
}

static void close_lesson(lesson *l) {
  intact_graph_destroy(l->graph);
  intact_data_close(l->data);
  intact_tensor_destroy(l->labels);
}

static intact_status zeros(void *user, const intact_graph *graph, const intact_tensor *const *inputs, intact_tensor **outputs) {
  const int64_t dims[2] = {intact_tensor_dims(inputs[0])[0], 10};
  ++*(int *)user;
  return intact_tensor_create(graph->context, INTACT_F32, 2, dims, outputs);
}

/* Ten equal logits: the loss is ln 10, whatever the network says; its gradient still trains the network. */
static void test_stand_in(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  lesson l;
  int calls = 0;
  intact_train_log log = {0};
  open_lesson(c, &l);
  const intact_value *weight = NULL;
  for (size_t i = 0; i < l.graph->n_values; i++)
    if (l.graph->values[i] && l.graph->values[i]->constant && l.graph->values[i]->rank == 2) weight = l.graph->values[i];
  const float before = intact__f32(weight->constant)[0];
  intact_train_options options = intact_train_default_options();
  options.batch = 128;
  options.stand_in = zeros;
  options.stand_in_user = &calls;
  assert_ok(c, intact_train(l.graph, l.data, l.labels, &options, &log));
  assert_int_equal(calls, 4 * options.replicas);
  assert_int_equal(log.n_steps, 4);
  for (int i = 0; i < 4; i++) assert_float_equal(log.losses[i], 2.302585093, 1e-6);
  assert_true(intact__f32(weight->constant)[0] != before);
  intact_train_log_destroy(c, &log);
  close_lesson(&l);
  intact_context_destroy(c);
}

static void test_integers_stand_in(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  for (int bits = 8; bits >= 4; bits -= 4) {
    lesson l;
    intact_train_log log = {0};
    intact_train_outcome outcome = {0};
    open_lesson(c, &l);
    intact_train_options options = intact_train_default_options();
    intact_qat_options qat = intact_qat_default_options();
    qat.activation_bits = qat.weight_bits = bits;
    options.simulate_integers = true;
    assert_ok(c, intact_train_for_integers(l.graph, l.data, l.labels, &options, &qat, &log, &outcome));
    assert_int_equal(outcome.compared, 512 * 10);
    assert_int_equal(outcome.differing, 0);
    assert_float_equal(outcome.max_steps, 0, 0);
    assert_true(log.losses[log.n_steps - 1] < log.losses[0]);
    intact_graph_destroy(outcome.qdq);
    intact_train_log_destroy(c, &log);
    close_lesson(&l);
  }
  intact_context_destroy(c);
}

int main(void) {
  test_reference("models", models, sizeof models);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stand_in), cmocka_unit_test(test_integers_stand_in)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
