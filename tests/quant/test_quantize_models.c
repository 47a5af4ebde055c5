/* SPDX-License-Identifier: Apache-2.0 */
/* The reference networks, quantized by default options: accuracy on the 2,000 test images, function of the rewritten float
   network, integer program against the interpreter. */
#include "support/lab.h"

#include "intact/inspect.h"
#include "intact/run.h"
#include "support/reference.h"

static intact_context *context;
static char folder[1024];

static const double mean = 0.2860, std_deviation = 0.3530;

static intact_data *open_images(const intact_graph *graph, const char *name) {
  char path[1200];
  const intact_data_options options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std_deviation};
  intact_data *data;
  snprintf(path, sizeof path, "%s/data/%s", folder, name);
  assert_ok(context, intact_data_open(context, path, graph, &options, &data));
  return data;
}

static intact_graph *read_model(const char *name) {
  char path[1200];
  intact_graph *graph;
  snprintf(path, sizeof path, "%s/%s/model.onnx", folder, name);
  assert_ok(context, intact_model_read(context, path, &graph));
  return graph;
}

/* The recorded outputs of the float network hold for the folded and equalized one. */
static void check_reference(const intact_graph *reference, const char *name) {
  char path[1200];
  intact_tensor_set *sample;
  snprintf(path, sizeof path, "%s/%s/sample.safetensors", folder, name);
  assert_ok(context, intact_tensors_read(context, path, &sample));
  const intact_tensor *x = intact_tensor_set_find(sample, "x"), *y = intact_tensor_set_find(sample, "y");
  intact_tensor *got = lab_run(reference, x);
  for (int64_t i = 0; i < y->count; i++)
    assert_float_equal(intact__f32(got)[i], intact__f32(y)[i], 1e-4);
  intact_tensor_destroy(got);
  intact_tensor_set_destroy(sample);
}

/* Integer program and q/dq interpreter: equal but for single steps, in fewer than one of 200 outputs. */
static void check_program(const intact_graph *quantized, intact_data *data) {
  intact_program *program;
  intact_tensor *x, *exact, *got;
  assert_ok(context, intact_program_create(quantized, &program));
  assert_ok(context, intact_data_batch(data, 0, 64, &x));
  assert_ok(context, intact_graph_interpret(quantized, (const intact_tensor *const *)&x, true, &exact));
  assert_ok(context, intact_program_run(program, (const intact_tensor *const *)&x, &got));
  const intact_node *last = quantized->outputs[0]->producer;
  assert_true(intact__is_op(last, "dequantize"));
  float step = last->operands[0]->qparams->scale[0];
  int64_t differ = 0;
  for (int64_t i = 0; i < exact->count; i++) {
    float gap = fabsf(intact__f32(exact)[i] - intact__f32(got)[i]);
    assert_true(gap <= 1.001f * step);
    differ += gap > 0.001f * step;
  }
  print_message("  %lld of %lld outputs differ by a step\n", (long long)differ, (long long)exact->count);
  assert_true(differ * 200 < exact->count * 10);
  intact_tensor_destroy(x);
  intact_tensor_destroy(exact);
  intact_tensor_destroy(got);
  intact_program_destroy(program);
}

/* float_accuracy: of the float network on these images, by PyTorch (models/NAME/info.json). */
static void check_model(const char *name, double float_accuracy, double may_lose) {
  char path[1200];
  intact_graph *model = read_model(name), *reference, *quantized;
  intact_data *calibration = open_images(model, "train-512-images-idx3-ubyte");
  intact_data *test = open_images(model, "test-2000-images-idx3-ubyte");
  intact_tensor *labels;
  snprintf(path, sizeof path, "%s/data/test-2000-labels-idx1-ubyte", folder);
  assert_ok(context, intact_labels_read(context, path, &labels));
  assert_ok(context, intact_quantize_with_reference(model, calibration, NULL, &reference, &quantized, NULL));
  check_reference(reference, name);
  check_program(quantized, test);
  intact_evaluation result;
  assert_ok(context, intact_evaluate(quantized, INTACT_ENGINE_INT, test, labels, 50, &result));
  print_message("  %s: %.2f %%, float %.2f %%\n", name, result.accuracy, float_accuracy);
  assert_int_equal(result.samples, 2000);
  assert_true(result.accuracy >= float_accuracy - may_lose - 1e-9);
  intact_tensor_destroy(labels);
  intact_data_close(calibration);
  intact_data_close(test);
  intact_graph_destroy(model);
  intact_graph_destroy(reference);
  intact_graph_destroy(quantized);
}

static void test_cnn(void **state) {
  (void)state;
  check_model("cnn", 93.05, 0.3);
}
static void test_resnet8(void **state) {
  (void)state;
  check_model("resnet8", 91.25, 0.3);
}
static void test_mobilenet(void **state) {
  (void)state;
  check_model("mobilenet", 91.70, 0.4);
}
static void test_mlp(void **state) {
  (void)state;
  check_model("mlp", 88.95, 0.3);
}

/* The same call twice gives the same network, and one thread the same as two. */
static void test_same_twice(void **state) {
  (void)state;
  char *texts[2];
  for (int i = 0; i < 2; i++) {
    intact_context *own = test_context(i + 1), *kept = context;
    context = own;
    intact_graph *model = read_model("mobilenet"), *quantized;
    intact_data *data = open_images(model, "train-512-images-idx3-ubyte");
    assert_ok(context, intact_quantize(model, data, NULL, &quantized, NULL));
    assert_ok(context, intact_graph_print(quantized, &texts[i]));
    intact_data_close(data);
    intact_graph_destroy(model);
    intact_graph_destroy(quantized);
    char *copy = strdup(texts[i]);
    intact_text_destroy(context, texts[i]);
    texts[i] = copy;
    context = kept;
    intact_context_destroy(own);
  }
  assert_string_equal(texts[0], texts[1]);
  free(texts[0]);
  free(texts[1]);
}

int main(void) {
  test_reference("models", folder, sizeof folder);
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cnn), cmocka_unit_test(test_resnet8),   cmocka_unit_test(test_mobilenet),
      cmocka_unit_test(test_mlp), cmocka_unit_test(test_same_twice),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
