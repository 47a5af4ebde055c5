/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance program on a set made here: every kind of tolerance at its edge, groups, refusals, crashes, counts. */
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "intact/io.h"
#include "support/test.h"
#include "tensor/tensor.h"

static char folder[512];
static intact_context *context;
static intact_tensor_set *set;
static FILE *cases;
static int n_cases;

static void add_tensor(const char *key, intact_dtype dtype, int n, const double *values) {
  intact_tensor *tensor;
  const int64_t dims[] = {n};
  assert_ok(context, intact_tensor_create(context, dtype, 1, dims, &tensor));
  for (int i = 0; i < n; i++) intact__tensor_set_f64(tensor, i, values[i]);
  assert_ok(context, intact_tensor_set_add(set, key, tensor));
}

static void add_json(const char *name, const char *op, const char *rest) {
  fprintf(cases, "%s{\"name\": \"%s\", \"op\": \"%s\", \"attrs\": {}, %s}", n_cases++ ? ",\n" : "", name, op, rest);
}

/* A case that gives `got` where `want` is expected. */
static void add_pair(const char *name, intact_dtype dtype, double got, double want, const char *tolerance) {
  char got_key[100], want_key[100], json[600];
  snprintf(got_key, sizeof got_key, "%s/got", name);
  snprintf(want_key, sizeof want_key, "%s/want", name);
  add_tensor(got_key, dtype, 1, &got);
  add_tensor(want_key, dtype, 1, &want);
  snprintf(json, sizeof json, "\"inputs\": {\"y\": \"%s\"}, \"expect\": {\"y\": \"%s\"}, \"tolerance\": {\"y\": %s}",
           got_key, want_key, tolerance);
  add_json(name, "echo", json);
}

static void add_tolerances(void) {
  const float next = nextafterf(1.0f, 2.0f), fourth = 1.0f + 4 * 0x1p-23f;
  add_pair("pass-exact", INTACT_F32, 1.5, 1.5, "{\"kind\": \"exact\"}");
  add_pair("pass-exact-nan", INTACT_F32, NAN, NAN, "{\"kind\": \"exact\"}");
  add_pair("fail-exact-zero", INTACT_F32, 0.0, -0.0, "{\"kind\": \"exact\"}");
  add_pair("fail-exact-last-bit", INTACT_F32, next, 1, "{\"kind\": \"exact\"}");
  add_pair("fail-nan", INTACT_F32, NAN, 1, "{\"kind\": \"abs\", \"value\": 1e30}");
  add_pair("pass-infinite", INTACT_F32, INFINITY, INFINITY, "{\"kind\": \"abs\", \"value\": 0}");
  add_pair("fail-infinite", INTACT_F32, 3e38, INFINITY, "{\"kind\": \"rel\", \"value\": 10}");
  add_pair("pass-ulp", INTACT_F32, fourth, 1, "{\"kind\": \"ulp\", \"value\": 4}");
  add_pair("fail-ulp", INTACT_F32, fourth, 1, "{\"kind\": \"ulp\", \"value\": 3}");
  add_pair("pass-abs", INTACT_F64, 1.25, 1, "{\"kind\": \"abs\", \"value\": 0.25}");
  add_pair("fail-abs", INTACT_F64, 1.25, 1, "{\"kind\": \"abs\", \"value\": 0.2499}");
  add_pair("pass-rel", INTACT_F64, 4.5, 4, "{\"kind\": \"rel\", \"value\": 0.125}");
  add_pair("fail-rel", INTACT_F64, 4, 4.5, "{\"kind\": \"rel\", \"value\": 0.111}");
  add_pair("pass-absrel", INTACT_F64, 5, 4, "{\"kind\": \"absrel\", \"abs\": 0.5, \"rel\": 0.125}");
  add_pair("fail-absrel", INTACT_F64, 5.01, 4, "{\"kind\": \"absrel\", \"abs\": 0.5, \"rel\": 0.125}");
  add_pair("pass-qstep", INTACT_U8, 7, 8, "{\"kind\": \"qstep\", \"value\": 1}");
  add_pair("fail-qstep", INTACT_U8, 6, 8, "{\"kind\": \"qstep\", \"value\": 1}");
  add_pair("fail-integer", INTACT_S64, 3, 4, "{\"kind\": \"exact\"}");
  add_pair("fail-kind", INTACT_S64, 4, 4, "{\"kind\": \"nearly\"}");
}

static void add_rules(void) {
  add_tensor("one", INTACT_F32, 1, (const double[]){1});
  add_tensor("two", INTACT_F32, 1, (const double[]){2});
  add_tensor("pair", INTACT_F32, 2, (const double[]){1, 1});
  add_tensor("double", INTACT_F64, 1, (const double[]){1});
#define GIVES_ONE "\"inputs\": {\"y\": \"one\", \"z\": \"one\"}, "
  add_json("fail-shape", "echo", GIVES_ONE "\"expect\": {\"y\": \"pair\"}");
  add_json("fail-type", "echo", GIVES_ONE "\"expect\": {\"y\": \"double\"}");
  add_json("fail-missing", "echo", GIVES_ONE "\"expect\": {\"x\": \"one\"}");
  add_json("pass-alternative", "echo",
           GIVES_ONE
           "\"expect\": {\"y\": \"two\", \"z\": \"one\"}, "
           "\"alternatives\": {\"rule\": {\"y\": \"one\", \"z\": \"one\"}}");
  add_json("fail-half-alternative", "echo",
           GIVES_ONE
           "\"expect\": {\"y\": \"two\", \"z\": \"one\"}, "
           "\"alternatives\": {\"rule\": {\"y\": \"one\", \"z\": \"two\"}}");
  add_json("pass-engine", "echo", GIVES_ONE "\"expect_fbgemm\": {\"y\": \"two\"}, \"expect_qnnpack\": {\"y\": \"one\"}");
  add_json("fail-engine", "echo", GIVES_ONE "\"expect_fbgemm\": {\"y\": \"two\"}, \"expect_qnnpack\": {\"y\": \"pair\"}");
  add_json("pass-advisory", "echo", GIVES_ONE "\"expect\": {\"y\": \"two\"}, \"advisory\": \"an accident\"");
  add_json("pass-refusal", "refuse", "\"inputs\": {}, \"expect\": {\"error\": true, \"why\": \"bad\"}");
  add_json("fail-no-refusal", "echo", GIVES_ONE "\"expect\": {\"error\": true, \"why\": \"bad\"}");
  add_json("fail-refused", "refuse", GIVES_ONE "\"expect\": {\"y\": \"one\"}");
  add_json("fail-no-memory", "no-memory", "\"inputs\": {}, \"expect\": {\"error\": true, \"why\": \"bad\"}");
  add_json("fail-crash", "abort", GIVES_ONE "\"expect\": {\"y\": \"one\"}");
  add_json("skip-absent", "absent", GIVES_ONE "\"expect\": {\"y\": \"one\"}");
#undef GIVES_ONE
}

static int make_set(void **state) {
  (void)state;
  char path[600];
  context = test_context(1);
  snprintf(folder, sizeof folder, "%s/tests/conformance-XXXXXX", INTACT_BINARY_DIR);
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/own.json", folder);
  cases = fopen(path, "w");
  if (!cases || intact_tensor_set_create(context, &set) != INTACT_OK) return -1;
  fprintf(cases, "{\"suite\": \"selftest\", \"cases\": [\n");
  add_tolerances();
  add_rules();
  fprintf(cases, "]}\n");
  fclose(cases);
  snprintf(path, sizeof path, "%s/own.safetensors", folder);
  const intact_status status = intact_tensors_write(context, path, set);
  intact_tensor_set_destroy(set);
  intact_context_destroy(context);
  return status == INTACT_OK ? 0 : -1;
}

static int drop_set(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

/* Runs the program; its exit code, and what it printed. */
static int run(const char *arguments, char *output, size_t size) {
  char command[2000];
  snprintf(command, sizeof command, "'%s/bin/conformance' %s 2>/dev/null", INTACT_BINARY_DIR, arguments);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const size_t got = fread(output, 1, size - 1, pipe);
  output[got] = 0;
  const int status = pclose(pipe);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static const char *last_line(char *output) {
  size_t length = strlen(output);
  assert_true(length > 0 && output[length - 1] == '\n');
  output[length - 1] = 0;
  const char *start = strrchr(output, '\n');
  return start ? start + 1 : output;
}

/* Every case says in its name what must become of it. */
static void verdicts(void **state) {
  (void)state;
  static char output[1 << 16];
  char arguments[600], line[200];
  snprintf(arguments, sizeof arguments, "'%s'", folder);
  assert_int_equal(run(arguments, output, sizeof output), 1);
  FILE *file;
  snprintf(line, sizeof line, "%.180s/own.json", folder);
  file = fopen(line, "r");
  assert_non_null(file);
  char text[1000], name[100];
  int passed = 0, failed = 0, skipped = 0;
  while (fgets(text, sizeof text, file)) {
    if (sscanf(text, "{\"name\": \"%99[^\"]\"", name) != 1) continue;
    snprintf(line, sizeof line, "FAIL selftest/%s: ", name);
    const bool any = strstr(output, line) != NULL;
    if (any != (strncmp(name, "fail", 4) == 0)) print_error("%s: %s\n%s", name, any ? "failed" : "did not fail", output);
    assert_int_equal(any, strncmp(name, "fail", 4) == 0);
    failed += any;
    passed += strncmp(name, "pass", 4) == 0;
    skipped += strncmp(name, "skip", 4) == 0;
  }
  fclose(file);
  assert_int_equal(failed + passed + skipped, n_cases);
  assert_non_null(strstr(output, "NOTE selftest/pass-advisory: "));
  assert_non_null(strstr(output, "skipped in selftest: absent (1)\n"));
  assert_non_null(strstr(output, "FAIL selftest/fail-crash: expected a result, got a crash"));
  assert_non_null(strstr(output, "y: expected f32 [2], got f32 [1]"));
  snprintf(line, sizeof line, "selftest: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
  assert_non_null(strstr(output, line));
  snprintf(line, sizeof line, "%d passed, %d failed, %d skipped", passed, failed, skipped);
  assert_string_equal(last_line(output), line);
}

static void only(void **state) {
  (void)state;
  char output[4000], arguments[1200];
  snprintf(arguments, sizeof arguments, "--only 'selftest/pass-exact*,selftest/skip-*' '%s'", folder);
  assert_int_equal(run(arguments, output, sizeof output), 0);
  assert_string_equal(last_line(output), "2 passed, 0 failed, 1 skipped");
  snprintf(arguments, sizeof arguments, "--only 'selftest/pass-ulp' '%s' '%s'", folder, folder); /* twice the same folder */
  assert_int_equal(run(arguments, output, sizeof output), 0);
  assert_string_equal(last_line(output), "1 passed, 0 failed, 0 skipped");
  snprintf(arguments, sizeof arguments, "--only 'nothing/*' '%s'", folder);
  assert_int_equal(run(arguments, output, sizeof output), 1);
  assert_int_equal(run("/nowhere", output, sizeof output), 1);
  assert_int_equal(run("", output, sizeof output), 2);
  assert_int_equal(run("--unknown .", output, sizeof output), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts), cmocka_unit_test(only)};
  return cmocka_run_group_tests(tests, make_set, drop_set);
}
