/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX writer: what is read, written and read again is the same graph and the same bytes; ONNX Runtime gives the outputs
   of the reference sets for the files that we write, and finds its integer kernels in them. */
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"

static char samples[512], models[512];
static const char *const model_names[] = {"cnn", "resnet8", "mobilenet", "mlp", "vit", "lstm"};
static const char *const sample_names[] = {"cnn",          "cnn_external", "cnn_qdq_s16s8", "cnn_qdq_s8s8",
                                           "cnn_qdq_u8s8", "cnn_qdq_u8u8", "cnn_qoperator", "matmul_int4_blocked",
                                           "qdq_float8",   "text",         "text_dynamic"};
enum { MODELS = sizeof model_names / sizeof model_names[0], SAMPLES = sizeof sample_names / sizeof sample_names[0] };

static void scratch(char *path, const char *name) {
  snprintf(path, 1024, "%s/tests/%ld_%s", INTACT_BINARY_DIR, (long)getpid(), name);
}

static void source(char *path, int i) {
  if (i < MODELS) {
    snprintf(path, 1024, "%s/%s/model.onnx", models, model_names[i]);
  } else {
    snprintf(path, 1024, "%s/onnx/%s.onnx", samples, sample_names[i - MODELS]);
  }
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of the graph's text in order of the alphabet: constants stand in order of their first reading. */
static size_t sorted_lines(intact_graph *graph, char **text, char **lines, size_t most) {
  size_t n = 0;
  assert_int_equal(intact_graph_print(graph, text), INTACT_OK);
  for (char *line = strtok(*text, "\n"); line != NULL && n < most; line = strtok(NULL, "\n")) lines[n++] = line;
  qsort(lines, n, sizeof *lines, by_text);
  return n;
}

static void assert_same_graph(intact_context *context, intact_graph *a, intact_graph *b, const char *what) {
  enum { MOST = 2000 };
  static char *lines_a[MOST], *lines_b[MOST];
  char *text_a = NULL, *text_b = NULL;
  size_t n = sorted_lines(a, &text_a, lines_a, MOST);
  size_t m = sorted_lines(b, &text_b, lines_b, MOST);
  if (n != m) print_error("%s: %zu and %zu lines\n", what, n, m);
  assert_int_equal(n, m);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(lines_a[i], lines_b[i]) != 0) print_error("%s:\n%.300s\n%.300s\n", what, lines_a[i], lines_b[i]);
    assert_string_equal(lines_a[i], lines_b[i]);
  }
  intact_text_destroy(context, text_a);
  intact_text_destroy(context, text_b);
}

static void assert_same_bytes(const char *a, const char *b) {
  FILE *file_a = fopen(a, "rb"), *file_b = fopen(b, "rb");
  assert_non_null(file_a);
  assert_non_null(file_b);
  int byte;
  do {
    byte = getc(file_a);
    assert_int_equal(byte, getc(file_b));
  } while (byte != EOF);
  fclose(file_a);
  fclose(file_b);
}

static void round_trips(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  for (int i = 0; i < MODELS + SAMPLES; i++) {
    char path[1024], first[1024], second[1024];
    intact_graph *graph = NULL, *again = NULL;
    source(path, i);
    scratch(first, "first.onnx");
    scratch(second, "second.onnx");
    assert_ok(context, intact_model_read(context, path, &graph));
    assert_ok(context, intact_model_write(graph, first, NULL));
    assert_ok(context, intact_model_read(context, first, &again));
    assert_int_equal(intact_graph_stage(graph), intact_graph_stage(again));
    /* the weights of a recurrent net get names of the node that reads them in the file */
    if (i < MODELS && strcmp(model_names[i], "lstm") == 0) {
      assert_int_equal(intact_graph_node_count(graph), intact_graph_node_count(again));
    } else {
      assert_same_graph(context, graph, again, path);
    }
    assert_ok(context, intact_model_write(again, second, NULL));
    assert_same_bytes(first, second);
    unlink(first);
    unlink(second);
    intact_graph_destroy(graph);
    intact_graph_destroy(again);
  }
  intact_context_destroy(context);
}

static void external_data(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  char path[1024], inside[1024], outside[1024], data[1040];
  intact_graph *graph = NULL, *again = NULL;
  source(path, 0);
  scratch(inside, "inside.onnx");
  scratch(outside, "outside.onnx");
  snprintf(data, sizeof data, "%s.data", outside);
  assert_ok(context, intact_model_read(context, path, &graph));
  assert_ok(context, intact_model_write(graph, outside, "external"));
  assert_ok(context, intact_model_read(context, outside, &again));
  assert_same_graph(context, graph, again, "external");
  intact_graph_destroy(again);
  again = NULL;
  assert_int_equal(truncate(data, 100000), 0);
  assert_fails(intact_model_read(context, outside, &again), INTACT_OUT_OF_RANGE);
  unlink(data);
  assert_fails(intact_model_read(context, outside, &again), INTACT_MISSING_ENTRY);
  assert_null(again);
  unlink(outside);
  assert_fails(intact_model_write(graph, outside, "no-such-style"), INTACT_WRONG_USE);
  assert_int_equal(access(outside, F_OK), -1);
  assert_fails(intact_model_write(graph, "/no/such/folder/x.onnx", NULL), INTACT_IO);
  assert_fails(intact_model_write(graph, "x.nothing", NULL), INTACT_WRONG_USE);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

/* ---- ONNX Runtime ---- */
static int oracle(const char *command, const char *arguments) {
  char line[8192];
  snprintf(line, sizeof line, "python3 '%s/tools/oracle.py' %s %s", INTACT_SOURCE_DIR, command, arguments);
  fflush(NULL);
  int status = system(line);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double largest_difference(const intact_tensor *a, const intact_tensor *b) {
  double worst = 0;
  assert_int_equal(a->count, b->count);
  for (int64_t i = 0; i < a->count; i++) {
    double d = fabs(intact__tensor_get_f64(a, i) - intact__tensor_get_f64(b, i));
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

/* The tensors of one sample as a set with the names of the graph. */
static intact_tensor_set *sample_set(intact_context *context, const intact_tensor_set *all, const char *file) {
  char prefix[256];
  intact_tensor_set *set = NULL;
  snprintf(prefix, sizeof prefix, "onnx.%s.onnx/", file);
  assert_ok(context, intact_tensor_set_create(context, &set));
  for (int i = 0; i < intact_tensor_set_count(all); i++) {
    const char *name = intact_tensor_set_name(all, i);
    intact_tensor *copy = NULL;
    if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
    assert_ok(context, intact_tensor_copy(intact_tensor_set_get(all, i), &copy));
    assert_ok(context, intact_tensor_set_add(set, name + strlen(prefix), copy));
  }
  return set;
}

static intact_tensor_set *wanted_of(intact_context *context, int i, const intact_tensor_set *all) {
  char path[1024];
  intact_tensor_set *set = NULL;
  if (i >= MODELS) return sample_set(context, all, sample_names[i - MODELS]);
  snprintf(path, sizeof path, "%s/%s/sample.safetensors", models, model_names[i]);
  assert_ok(context, intact_tensors_read(context, path, &set));
  return set;
}

static void numbered(char *path, const char *what, int i, const char *extension) {
  char name[64];
  snprintf(name, sizeof name, "%s%d.%s", what, i, extension);
  scratch(path, name);
}

/* Quantized samples are the same function for ONNX Runtime bit by bit; float networks agree to what sums of floats allow. */
static double tolerance_of(int i) {
  bool quantized =
      i >= MODELS && (strstr(sample_names[i - MODELS], "cnn_q") != NULL || strstr(sample_names[i - MODELS], "qdq_") != NULL);
  return quantized ? 0 : 1e-4;
}

static void compare_results(intact_context *context, int i, const char *engine, const intact_tensor_set *wanted) {
  char path[1024];
  intact_tensor_set *results = NULL;
  numbered(path, engine, i, "safetensors");
  assert_ok(context, intact_tensors_read(context, path, &results));
  for (int k = 0; k < intact_tensor_set_count(results); k++) {
    const char *name = intact_tensor_set_name(results, k);
    assert_non_null(intact_tensor_set_find(wanted, name));
    double worst = largest_difference(intact_tensor_set_get(results, k), intact_tensor_set_find(wanted, name));
    if (worst > tolerance_of(i)) {
      source(path, i);
      print_error("%s in %s: %s is off by %g, %g is allowed\n", path, engine, name, worst, tolerance_of(i));
    }
    assert_true(worst <= tolerance_of(i));
  }
  intact_tensor_set_destroy(results);
  unlink(path);
}

/* What we write passes the checker and gives the recorded outputs in ONNX Runtime, float networks in OpenVINO as well. */
static void other_engines_agree(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  char path[1024], written[1024], inputs[1024], results[1024], list[1024], quoted[1100];
  intact_tensor_set *all = NULL;
  snprintf(path, sizeof path, "%s/tensors_other.safetensors", samples);
  assert_ok(context, intact_tensors_read(context, path, &all));
  scratch(list, "batch");
  FILE *batch = fopen(list, "w");
  assert_non_null(batch);
  for (int i = 0; i < MODELS + SAMPLES; i++) {
    intact_graph *graph = NULL;
    intact_tensor_set *set = wanted_of(context, i, all);
    source(path, i);
    numbered(written, "model", i, "onnx");
    numbered(inputs, "inputs", i, "safetensors");
    assert_ok(context, intact_model_read(context, path, &graph));
    assert_ok(context, intact_model_write(graph, written, NULL));
    assert_ok(context, intact_tensors_write(context, inputs, set));
    numbered(results, "ort", i, "safetensors");
    fprintf(batch, "check\t%s\nrun\t%s\t%s\t%s\t--engine\tort\n", written, written, inputs, results);
    numbered(results, "openvino", i, "safetensors");
    if (i < MODELS) fprintf(batch, "run\t%s\t%s\t%s\t--engine\topenvino\n", written, inputs, results);
    intact_tensor_set_destroy(set);
    intact_graph_destroy(graph);
  }
  assert_int_equal(fclose(batch), 0);
  snprintf(quoted, sizeof quoted, "'%s'", list);
  assert_int_equal(oracle("batch", quoted), 0);
  unlink(list);
  for (int i = 0; i < MODELS + SAMPLES; i++) {
    intact_tensor_set *set = wanted_of(context, i, all);
    compare_results(context, i, "ort", set);
    if (i < MODELS) compare_results(context, i, "openvino", set);
    intact_tensor_set_destroy(set);
    numbered(written, "model", i, "onnx");
    unlink(written);
    numbered(inputs, "inputs", i, "safetensors");
    unlink(inputs);
  }
  intact_tensor_set_destroy(all);
  intact_context_destroy(context);
}

/* ONNX Runtime finds its integer kernels: scales without axes, biases of scale x * w. */
static void integer_kernels_are_found(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  char path[1024], written[1024], listed[1024], arguments[2200], line[256];
  intact_graph *graph = NULL;
  snprintf(path, sizeof path, "%s/onnx/cnn_qoperator.onnx", samples);
  scratch(written, "written.onnx");
  scratch(listed, "ops.txt");
  assert_ok(context, intact_model_read(context, path, &graph));
  assert_ok(context, intact_model_write(graph, written, NULL));
  snprintf(arguments, sizeof arguments, "'%s' > '%s'", written, listed);
  assert_int_equal(oracle("fused", arguments), 0);
  FILE *file = fopen(listed, "r");
  assert_non_null(file);
  int conv = 0, add = 0, gemm = 0, left = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    sscanf(line, "QLinearConv %d", &conv);
    sscanf(line, "QLinearAdd %d", &add);
    sscanf(line, "QGemm %d", &gemm);
    left += strncmp(line, "Conv ", 5) == 0 || strncmp(line, "Gemm ", 5) == 0;
  }
  fclose(file);
  assert_int_equal(conv, 2);
  assert_int_equal(add, 1);
  assert_int_equal(gemm, 1);
  assert_int_equal(left, 0);
  unlink(written);
  unlink(listed);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

int main(void) {
  test_reference("samples", samples, sizeof samples);
  test_reference("models", models, sizeof models);
  const struct CMUnitTest ours[] = {cmocka_unit_test(round_trips), cmocka_unit_test(external_data)};
  int failed = cmocka_run_group_tests(ours, NULL, NULL);
  if (failed != 0) return failed;
  if (oracle("prepare", "") != 0) return 77; /* said why */
  const struct CMUnitTest judged[] = {cmocka_unit_test(other_engines_agree), cmocka_unit_test(integer_kernels_are_found)};
  return cmocka_run_group_tests(judged, NULL, NULL);
}
