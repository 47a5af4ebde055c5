/* SPDX-License-Identifier: Apache-2.0 */
/* The reference networks: float programs give the recorded outputs; text and .intact forms keep them. */
#include "run/net.h"

#include <unistd.h>

#include "intact/data.h"
#include "intact/io.h"
#include "intact/quant.h"
#include "run/program.h"
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

static intact_graph *quantize(const model *m) {
  char path[1200];
  intact_data *data;
  intact_graph *result = NULL;
  const double mean = 0.286, std = 0.353;
  const intact_data_options options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std, .samples = 64};
  snprintf(path, sizeof path, "%s/data/train-512-images-idx3-ubyte", folder);
  assert_ok(context, intact_data_open(context, path, m->graph, &options, &data));
  intact_quantize_options how = intact_quantize_default_options();
  how.equalize = how.bias_correction = false;
  assert_ok(context, intact_quantize(m->graph, data, &how, &result, NULL));
  intact_data_close(data);
  return result;
}

/* A step of the quantized output: of the value that the last node dequantizes; 0 when it computes in float. */
static float output_step(const intact_graph *graph) {
  const intact_node *last = graph->outputs[0]->producer;
  return intact__is_op(last, "dequantize") ? last->operands[0]->qparams->scale[0] : 0;
}

/* Integer programs against the interpreter on the same integer graph: codes that differ are rounding ties that tipped over. */
static void test_integer_programs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    model m = load(names[i]);
    intact_graph *graph = quantize(&m);
    assert_ok(context, intact_to_integer(graph));
    intact_program *program;
    intact_tensor *by_interp, *by_run, *x = first(m.x, 16);
    assert_ok(context, intact_program_create(graph, &program));
    assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *[]){x}, false, &by_interp));
    assert_ok(context, intact_program_run(program, (const intact_tensor *[]){x}, &by_run));
    const float step = output_step(graph);
    int64_t different = 0;
    float worst = 0;
    for (int64_t k = 0; k < by_run->count; k++) {
      const float gap = fabsf(intact__f32(by_run)[k] - intact__f32(by_interp)[k]);
      worst = gap > worst ? gap : worst;
      different += step > 0 ? gap > 0 : gap > 1e-3f;
    }
    int integer = 0, steps = intact_program_step_count(program);
    for (int s = 0; s < steps; s++) integer += intact_program_step(program, s).integer;
    print_message("%-10s %3d of %3d steps integer, arena %zu bytes for 16, %lld of %lld outputs differ, worst %.2f steps\n", names[i],
                  integer, steps, intact_program_arena_bytes(program), (long long)different, (long long)by_run->count,
                  step > 0 ? (double)(worst / step) : (double)worst);
    assert_true(different <= by_run->count / 50);
    intact_tensor_destroy(by_interp);
    intact_tensor_destroy(by_run);
    intact_tensor_destroy(x);
    intact_program_destroy(program);
    intact_graph_destroy(graph);
    unload(&m);
  }
}

int main(void) {
  context = test_context(2);
  test_reference("models", folder, sizeof folder);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float_programs),
      cmocka_unit_test(test_interp),
      cmocka_unit_test(test_text_reads_back),
      cmocka_unit_test(test_intact_files),
      cmocka_unit_test(test_integer_programs),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
