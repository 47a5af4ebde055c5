/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings whose heap ends at any of their requests: no-memory, no leak, and a checkpoint that is whole or not there. */
#include <string.h>
#include <unistd.h>

#include "intact/io.h"
#include "intact/train.h"
#include "support/scarce_heap.h"

static const char *const network =
    "intact graph 1\nname \"net\"\nstage float\nrequantize f32_rne\nsymbols N\ninput x: f32[N,1,4,4]\n"
    "constant k: f32[2,1,3,3]{1, 2, 0, -1, 0.5, 0, 1, 0, 1, 0, 2, 1, 1, -1, 1, 0, 1, -2}\nconstant g: f32[2]{1, 2}\nconstant b: f32[2]{0, 0.5}\n"
    "constant m: f32[2]{0.1, 0}\nconstant v: f32[2]{1, 2}\nconstant w: f32[3,8]{1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, 1, 2, 3, 4, 0, 1, 0, 1, 0, 1, 0, 1}\n"
    "c: f32[N,2,2,2] = conv2d(x, k)\nn: f32[N,2,2,2] = batch_norm(c, g, b, m, v)\nr: f32[N,2,2,2] = relu(n)\n"
    "f: f32[N,8] = flatten(r) start_dim=1\ny: f32[N,3] = linear(f, w)\noutput y\n";

static char folder[] = "/tmp/intact_starved_XXXXXX", samples[100], checkpoint[100];

static intact_status open_all(intact_context *c, intact_graph **graph, intact_graph **teacher, intact_data **data, intact_tensor **labels) {
  const int64_t n = 6;
  intact_status status = intact_graph_parse(c, network, graph);
  if (status == INTACT_OK) status = intact_graph_copy(*graph, teacher);
  if (status == INTACT_OK) status = intact_data_open(c, samples, *graph, NULL, data);
  if (status == INTACT_OK) status = intact_tensor_create(c, INTACT_S64, 1, &n, labels);
  for (int64_t i = 0; status == INTACT_OK && i < n; i++) ((int64_t *)intact_tensor_mutable_data(*labels))[i] = i % 3;
  return status;
}

enum { PLAIN, FUSED, LEARNED, SIMULATED, RESUMED, KINDS };

static intact_status work(intact_context *c, int kind) {
  intact_graph *graph = NULL, *teacher = NULL;
  intact_data *data = NULL;
  intact_tensor *labels = NULL;
  intact_train_log log = {0};
  intact_train_outcome outcome = {0};
  intact_train_options options = intact_train_default_options();
  intact_qat_options qat = intact_qat_default_options();
  options.batch = 4;
  options.epochs = kind == RESUMED ? 2 : 1;
  options.schedule = "StepLR";
  options.clip_norm = 1;
  options.simulate_integers = kind == SIMULATED;
  options.resume = kind == RESUMED;
  options.augment_flip = kind == PLAIN;
  if (kind == RESUMED || kind == FUSED) options.checkpoint = folder;
  if (kind == LEARNED) qat.fake_quantizer = qat.weight_fake_quantizer = "lsq";
  intact_status status = open_all(c, &graph, &teacher, &data, &labels);
  if (kind == PLAIN) options.teacher = teacher;
  if (kind == FUSED) options.test = data;
  options.test_labels = labels;
  if (status == INTACT_OK && kind == PLAIN) status = intact_train(graph, data, labels, &options, &log);
  else if (status == INTACT_OK) status = intact_train_for_integers(graph, data, labels, &options, &qat, &log, &outcome);
  if (status == INTACT_OK && kind == SIMULATED) assert_int_equal(outcome.differing, 0); /* what was trained is what runs */
  intact_train_log_destroy(c, &log);
  intact_graph_destroy(outcome.qdq);
  intact_tensor_destroy(labels);
  intact_data_close(data);
  intact_graph_destroy(teacher);
  intact_graph_destroy(graph);
  return status;
}

/* The k-th request is refused; the requests that were made. */
static int64_t starve(int kind, int64_t k, intact_status *status) {
  heap h = {0};
  intact_context_options options = intact_context_default_options();
  options.threads = 1 + (int)(k & 1); /* replicas as fibers, and as threads */
  options.allocator = (intact_allocator){&h, heap_allocate, heap_release};
  intact_context *c = NULL;
  assert_int_equal(intact_context_create(&options, &c), INTACT_OK);
  h.refuse = h.requests + k;
  const int64_t before = h.requests;
  *status = work(c, kind);
  const int64_t made = h.requests - before;
  if (*status != INTACT_OK && *status != INTACT_NO_MEMORY) fail_msg("kind %d, request %lld: %s", kind, (long long)k, intact_context_message(c));
  intact_context_destroy(c);
  if (h.live != 0) fail_msg("kind %d, request %lld: %lld pieces are left", kind, (long long)k, (long long)h.live);
  return made;
}

static bool checkpoint_is_whole(void) {
  intact_context *c = test_context(1);
  intact_tensor_set *set = NULL;
  const bool whole = access(checkpoint, F_OK) != 0 || intact_tensors_read(c, checkpoint, &set) == INTACT_OK;
  intact_tensor_set_destroy(set);
  intact_context_destroy(c);
  return whole;
}

static void any_request_may_be_the_last(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    intact_status status;
    int64_t made = starve(kind, -1, &status);
    assert_int_equal(status, INTACT_OK);
    const char *step = getenv("INTACT_TEST_EVERY"); /* all of them take a minute under sanitizers */
    const int64_t stride = step ? strtoll(step, NULL, 10) : 19;
    for (int64_t k = 1 + kind % stride; k <= made; k += stride) {
      starve(kind, k, &status);
      assert_true(checkpoint_is_whole());
    }
  }
}

int main(void) {
  intact_context *c = test_context(1);
  intact_tensor_set *set;
  intact_tensor *x;
  assert_non_null(mkdtemp(folder));
  snprintf(samples, sizeof samples, "%s/x.safetensors", folder);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.safetensors", folder);
  assert_ok(c, intact_tensor_create(c, INTACT_F32, 4, (const int64_t[]){6, 1, 4, 4}, &x));
  uint64_t random = test_random_start();
  for (int i = 0; i < 6 * 16; i++) ((float *)intact_tensor_mutable_data(x))[i] = test_uniform(&random, -1, 1);
  assert_ok(c, intact_tensor_set_create(c, &set));
  assert_ok(c, intact_tensor_set_add(set, "x", x));
  assert_ok(c, intact_tensors_write(c, samples, set));
  intact_tensor_set_destroy(set);
  intact_context_destroy(c);
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_request_may_be_the_last)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(checkpoint);
  unlink(samples);
  return rmdir(folder) == 0 ? failed : 1;
}
