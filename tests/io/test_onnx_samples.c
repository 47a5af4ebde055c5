/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files of the sample set: the outputs that PyTorch or ONNX Runtime gave; the broken ones: the kind of refusal and what
   the message must name. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"

static char samples[512];

static json_t *load_index(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", samples, name);
  json_t *index = json_load_file(path, 0, NULL);
  assert_non_null(index);
  return index;
}

static const intact_tensor *find(const intact_tensor_set *set, json_t *map, const char *name) {
  const char *key = json_string_value(json_object_get(map, name));
  if (key == NULL) print_error("no tensor for %s\n", name);
  assert_non_null(key);
  return intact_tensor_set_find(set, key);
}

/* Largest |a - b| - (abs + rel |b|): at most 0 when within the tolerance. */
static double excess(const intact_tensor *a, const intact_tensor *b, double abs_tolerance, double rel_tolerance) {
  assert_int_equal(a->count, b->count);
  double worst = -INFINITY;
  for (int64_t i = 0; i < a->count; i++) {
    double x = intact__tensor_get_f64(a, i), y = intact__tensor_get_f64(b, i);
    if (isnan(x) && isnan(y)) continue;
    double over = fabs(x - y) - abs_tolerance - rel_tolerance * fabs(y);
    if (!(over <= worst)) worst = over;
  }
  return worst;
}

static bool run_sample(intact_context *context, json_t *entry, const intact_tensor_set *set) {
  const char *file = json_string_value(json_object_get(entry, "file"));
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", samples, file);
  intact_graph *graph = NULL;
  if (intact_model_read(context, path, &graph) != INTACT_OK) {
    print_error("%s\n", intact_context_message(context));
    return false;
  }
  const intact_tensor *inputs[8] = {NULL};
  intact_tensor *outputs[8] = {NULL};
  for (int i = 0; i < intact_graph_input_count(graph); i++) {
    inputs[i] = find(set, json_object_get(entry, "inputs"), intact_graph_input(graph, i).name);
    assert_non_null(inputs[i]);
  }
  bool good = true;
  if (intact_graph_interpret(graph, inputs, false, outputs) != INTACT_OK) {
    print_error("%s: %s\n", file, intact_context_message(context));
    good = false;
  }
  json_t *tolerance = json_object_get(entry, "tolerance");
  for (int i = 0; good && i < intact_graph_output_count(graph); i++) {
    const intact_tensor *wanted = find(set, json_object_get(entry, "outputs"), intact_graph_output(graph, i).name);
    assert_non_null(wanted);
    double over = excess(outputs[i], wanted, json_number_value(json_object_get(tolerance, "abs")),
                         json_number_value(json_object_get(tolerance, "rel")));
    if (over > 0) print_error("%s: output %d is off by %g more than allowed\n", file, i, over);
    good = over <= 0;
  }
  for (int i = 0; i < intact_graph_output_count(graph); i++) intact_tensor_destroy(outputs[i]);
  intact_graph_destroy(graph);
  return good;
}

static void sample_outputs(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  json_t *index = load_index("index.json"), *entry;
  size_t i;
  int run = 0, failed = 0;
  json_array_foreach(json_object_get(index, "files"), i, entry) {
    if (strcmp(json_string_value(json_object_get(entry, "format")), "onnx") != 0) continue;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", samples, json_string_value(json_object_get(entry, "tensors")));
    intact_tensor_set *set = NULL;
    assert_ok(context, intact_tensors_read(context, path, &set));
    failed += !run_sample(context, entry, set);
    run++;
    intact_tensor_set_destroy(set);
  }
  assert_true(run >= 10);
  assert_int_equal(failed, 0);
  json_decref(index);
  intact_context_destroy(context);
}

/* Words of index.json's must_report that name something: the message must hold them. */
static const struct {
  const char *file, *words[4];
} reports[] = {
    {"onnx/truncated.onnx", {"ends inside a field"}},
    {"onnx/unknown_op.onnx", {"ai.onnx.MagicRelu", "node"}},
    {"onnx/opset_999.onnx", {"999", "25"}},
    {"onnx/no_opset.onnx", {"opset_import"}},
    {"onnx/external_traversal.onnx", {"leaves the model's folder"}},
    {"onnx/external_absolute.onnx", {"absolute"}},
    {"onnx/external_missing.onnx", {"nowhere.bin"}},
    {"onnx/raw_data_short.onnx", {"8 bytes", "initializer"}},
    {"onnx/zero_scale.onnx", {"scale", "0", "initializer"}},
    {"onnx/cycle.onnx", {"n1", "n2"}},
    {"onnx/duplicate_output.onnx", {"'y'", "twice"}},
};

static void broken_files(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  json_t *index = load_index("broken/index.json"), *entry;
  size_t i;
  int run = 0, failed = 0;
  json_array_foreach(json_object_get(index, "files"), i, entry) {
    if (strcmp(json_string_value(json_object_get(entry, "format")), "onnx") != 0) continue;
    const char *file = json_string_value(json_object_get(entry, "file"));
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    char path[1024];
    snprintf(path, sizeof path, "%s/broken/%s", samples, file);
    intact_graph *graph = NULL;
    const char *got = intact_status_text(intact_model_read(context, path, &graph));
    bool good = strcmp(got, kind) == 0;
    if (!good) print_error("%s: expected %s, got %s: %s\n", file, kind, got, intact_context_message(context));
    for (size_t r = 0; r < sizeof reports / sizeof reports[0]; r++) {
      for (int w = 0; strcmp(reports[r].file, file) == 0 && w < 4 && reports[r].words[w] != NULL; w++) {
        if (strstr(intact_context_message(context), reports[r].words[w]) != NULL) continue;
        print_error("%s: '%s' is not in: %s\n", file, reports[r].words[w], intact_context_message(context));
        good = false;
      }
    }
    assert_null(graph);
    failed += !good;
    run++;
  }
  assert_true(run >= 11);
  assert_int_equal(failed, 0);
  json_decref(index);
  intact_context_destroy(context);
}

int main(void) {
  test_reference("samples", samples, sizeof samples);
  const struct CMUnitTest tests[] = {cmocka_unit_test(sample_outputs), cmocka_unit_test(broken_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
