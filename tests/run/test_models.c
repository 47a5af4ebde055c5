/* SPDX-License-Identifier: Apache-2.0 */
/* The reference networks: float programs give the recorded outputs; text and .intact forms keep them. */
#include "run/net.h"

#include <unistd.h>

#include "intact/io.h"
#include "intact/run.h"
#include "support/reference.h"

static intact_context *context;
static char folder[1024];

static const char *const names[] = {"cnn", "resnet8", "mobilenet", "mlp", "vit", "lstm"};

typedef struct model {
  intact_graph *graph;
  intact_tensor_set *sample;
  const intact_tensor *x, *y;
} model;

static model load(const char *name) {
  char path[1200];
  model m = {0};
  snprintf(path, sizeof path, "%s/%s/model.onnx", folder, name);
  assert_ok(context, intact_model_read(context, path, &m.graph));
  snprintf(path, sizeof path, "%s/%s/sample.safetensors", folder, name);
  assert_ok(context, intact_tensors_read(context, path, &m.sample));
  m.x = intact_tensor_set_find(m.sample, "x");
  m.y = intact_tensor_set_find(m.sample, "y");
  return m;
}

static void unload(model *m) {
  intact_graph_destroy(m->graph);
  intact_tensor_set_destroy(m->sample);
}

/* The first `n` samples. */
static intact_tensor *first(const intact_tensor *x, int64_t n) {
  int64_t dims[INTACT_MAX_RANK];
  intact_tensor *part;
  memcpy(dims, x->dims, sizeof dims);
  dims[0] = n;
  assert_ok(context, intact_tensor_borrow(context, x->dtype, x->rank, dims, x->data, &part));
  return part;
}

static void assert_near(const intact_tensor *got, const intact_tensor *expected, float tolerance) {
  assert_true(got->count <= expected->count);
  for (int64_t i = 0; i < got->count; i++) {
    const float gap = fabsf(intact__f32(got)[i] - intact__f32(expected)[i]);
    if (!(gap <= tolerance)) print_error("element %lld: %g\n", (long long)i, (double)gap);
    assert_true(gap <= tolerance);
  }
}

static void test_float_programs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    model m = load(names[i]);
    assert_ok(context, intact_graph_verify(m.graph));
    assert_true(intact_graph_input(m.graph, 0).dims[0] < 0);
    assert_true(intact_graph_output(m.graph, 0).dims[0] < 0);
    intact_program *program;
    assert_ok(context, intact_program_create(m.graph, &program));
    const int64_t batches[] = {16, 1, 3, 16};
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
      intact_tensor *x = first(m.x, batches[b]), *y;
      assert_ok(context, intact_program_run(program, (const intact_tensor *[]){x}, &y));
      assert_near(y, m.y, 1e-4f);
      intact_tensor_destroy(y);
      intact_tensor_destroy(x);
    }
    intact_program_destroy(program);
    unload(&m);
  }
}

static void test_interp(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    model m = load(names[i]);
    intact_tensor *x = first(m.x, 2), *y;
    assert_ok(context, intact_graph_interpret(m.graph, (const intact_tensor *[]){x}, false, &y));
    assert_near(y, m.y, 1e-4f);
    intact_tensor_destroy(y);
    intact_tensor_destroy(x);
    unload(&m);
  }
}

static void test_text_reads_back(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    model m = load(names[i]);
    intact_graph *back = NULL;
    char *text, *again;
    assert_ok(context, intact_graph_print(m.graph, &text));
    assert_ok(context, intact_graph_parse(context, text, &back));
    assert_ok(context, intact_graph_print(back, &again));
    assert_string_equal(text, again);
    intact_tensor *x = first(m.x, 2), *y;
    assert_ok(context, intact_graph_interpret(back, (const intact_tensor *[]){x}, true, &y));
    assert_near(y, m.y, 1e-4f);
    intact_tensor_destroy(y);
    intact_tensor_destroy(x);
    intact_text_destroy(context, text);
    intact_text_destroy(context, again);
    intact_graph_destroy(back);
    unload(&m);
  }
}

static void test_intact_files(void **state) {
  (void)state;
  char path[1200];
  snprintf(path, sizeof path, "%s/tests/%ld_model.intact", INTACT_BINARY_DIR, (long)getpid());
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    model m = load(names[i]);
    intact_program *program;
    intact_tensor *y;
    assert_ok(context, intact_model_write(m.graph, path, NULL));
    assert_ok(context, intact_program_load(context, path, &program));
    assert_ok(context, intact_program_run(program, &m.x, &y));
    assert_near(y, m.y, 1e-4f);
    intact_tensor_destroy(y);
    intact_program_destroy(program);
    unload(&m);
  }
  unlink(path);
}

int main(void) {
  context = test_context(2);
  test_reference("models", folder, sizeof folder);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float_programs),
      cmocka_unit_test(test_interp),
      cmocka_unit_test(test_text_reads_back),
      cmocka_unit_test(test_intact_files),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
