/* SPDX-License-Identifier: Apache-2.0 */
/* .intact files: round trips, same graph same bytes, mapped tensors, hostile files. */
#include "run/net.h"

#include <unistd.h>

#include "base/file.h"
#include "intact/io.h"
#include "intact/run.h"

static intact_context *context;

static const char *scratch(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/%ld_%s", INTACT_BINARY_DIR, (long)getpid(), name);
  return path;
}

static net make_network(void) {
  net n = net_create(context, INTACT_STAGE_INTEGER);
  const int64_t dims[] = {intact__graph_symbol(n.graph, "batch"), 3, 8, 8};
  intact_value *q = net_quantize(&n, net_input(&n, "x", 4, dims), 0.02f, 120);
  intact_value *a = net_conv(&n, q, 70, 3, 2, 1, 0.05f, 10); /* more scales than stand inline */
  intact_value *b = net_conv(&n, a, 4, 1, 1, 1, 0.05f, 10);
  net_outputs(&n, 1, (intact_value *[]){net_dequantize(&n, b)});
  return n;
}

static uint8_t *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(*bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, *bytes, file), *bytes);
  assert_int_equal(fclose(file), 0);
  return data;
}

static void write_file(const char *path, const uint8_t *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void test_round_trip(void **state) {
  (void)state;
  net n = make_network();
  const char *path = scratch("net.intact"), *format = NULL;
  intact_graph *back = NULL;
  char *before, *after;
  assert_ok(context, intact_model_write(n.graph, path, NULL));
  assert_ok(context, intact_file_format(context, path, &format));
  assert_string_equal(format, "intact");
  assert_ok(context, intact_model_read(context, path, &back));
  assert_ok(context, intact_graph_print(n.graph, &before));
  assert_ok(context, intact_graph_print(back, &after));
  assert_string_equal(before, after);
  size_t first_bytes, second_bytes;
  uint8_t *first = read_file(path, &first_bytes);
  assert_ok(context, intact_model_write(back, path, NULL)); /* over the file that is mapped */
  uint8_t *second = read_file(path, &second_bytes);
  assert_int_equal(first_bytes, second_bytes);
  assert_memory_equal(first, second, first_bytes);
  for (size_t i = 0; i < back->n_values; i++)
    if (back->values[i] != NULL && back->values[i]->constant != NULL && back->values[i]->constant->count > 64)
      assert_int_equal((uintptr_t)back->values[i]->constant->data % 64, 0);
  intact_tensor *x = net_random_tensor(&n, 4, (const int64_t[]){2, 3, 8, 8}, -2, 2), *a, *b;
  intact_program *program;
  assert_ok(context, intact_program_load(context, path, &program));
  assert_int_equal(unlink(path), 0);
  assert_ok(context, intact_program_run(program, (const intact_tensor *[]){x}, &a));
  assert_ok(context, intact_graph_interpret(back, (const intact_tensor *[]){x}, false, &b));
  for (int64_t i = 0; i < a->count; i++) assert_true(fabsf(intact__f32(a)[i] - intact__f32(b)[i]) < 0.051f);
  intact_tensor_destroy(a);
  intact_tensor_destroy(b);
  intact_tensor_destroy(x);
  intact_program_destroy(program);
  intact_text_destroy(context, before);
  intact_text_destroy(context, after);
  free(first);
  free(second);
  intact_graph_destroy(back);
  intact_graph_destroy(n.graph);
}

static void store(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}
static uint64_t load(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

/* FNV-1a over head, text and table, as the format says. */
static void seal(uint8_t *data) {
  uint64_t h = 14695981039346656037u;
  for (int i = 0; i < 56; i++) h = (h ^ data[i]) * 1099511628211u;
  for (uint64_t i = 0; i < load(data + 24); i++) h = (h ^ data[load(data + 16) + i]) * 1099511628211u;
  for (uint64_t i = 0; i < load(data + 32) * 16; i++) h = (h ^ data[load(data + 40) + i]) * 1099511628211u;
  store(data + 56, h, 8);
}

static void refused(const uint8_t *data, size_t bytes, intact_status status) {
  const char *path = scratch("hostile.intact");
  intact_graph *graph = NULL;
  write_file(path, data, bytes);
  const intact_status found = intact_model_read(context, path, &graph);
  if (found != status) print_error("%s\n", intact_context_message(context));
  assert_string_equal(intact_status_text(found), intact_status_text(status));
  assert_null(graph);
  assert_int_equal(unlink(path), 0);
}

static void test_hostile(void **state) {
  (void)state;
  net n = make_network();
  const char *path = scratch("net.intact");
  assert_ok(context, intact_model_write(n.graph, path, NULL));
  size_t bytes;
  uint8_t *good = read_file(path, &bytes), *bad = malloc(bytes + 64);
  assert_int_equal(unlink(path), 0);
  refused(good, 0, INTACT_TRUNCATED);
  refused(good, 4, INTACT_BAD_MAGIC);
  refused(good, 20, INTACT_TRUNCATED);
  refused(good, bytes - 1, INTACT_TRUNCATED);
  memset(bad, 0, bytes + 64);
  memcpy(bad, good, bytes);
  refused(bad, bytes + 64, INTACT_SIZE_MISMATCH);
#define CHANGED(offset, value, size, status) \
  do {                                       \
    memcpy(bad, good, bytes);                \
    store(bad + (offset), (value), (size));  \
    refused(bad, bytes, status);             \
  } while (0)
  CHANGED(8, 2, 4, INTACT_UNSUPPORTED_VERSION);
  CHANGED(16, UINT64_MAX - 8, 8, INTACT_OUT_OF_RANGE);
  CHANGED(24, UINT64_MAX, 8, INTACT_OUT_OF_RANGE);
  CHANGED(32, UINT64_MAX / 16 + 1, 8, INTACT_OUT_OF_RANGE);
  CHANGED(32, 1u << 30, 8, INTACT_OUT_OF_RANGE);
  CHANGED(40, bytes, 8, INTACT_OUT_OF_RANGE);
  CHANGED(70, 'X', 1, INTACT_CHECKSUM);
  CHANGED(56, 0, 8, INTACT_CHECKSUM);
  const uint64_t table = load(good + 40);
#define SEALED(offset, value, size, status) \
  do {                                      \
    memcpy(bad, good, bytes);               \
    store(bad + (offset), (value), (size)); \
    seal(bad);                              \
    refused(bad, bytes, status);            \
  } while (0)
  SEALED(table, bytes, 8, INTACT_OUT_OF_RANGE);
  SEALED(table, UINT64_MAX - 63, 8, INTACT_OUT_OF_RANGE);
  SEALED(table, load(good + table) + 1, 8, INTACT_OUT_OF_RANGE);
  SEALED(table + 8, load(good + table + 8) + 1, 8, INTACT_SIZE_MISMATCH);
  SEALED(32, 0, 8, INTACT_BAD_REFERENCE);
  SEALED(24, load(good + 24) / 2, 8, INTACT_TRUNCATED);
  SEALED(24, 0, 8, INTACT_TRUNCATED);
  free(good);
  free(bad);
  intact_graph_destroy(n.graph);
}

/* A changed byte in head, text or table, checksum renewed: read or refused, no crash, and a graph that was read can be checked. */
static void test_damaged(void **state) {
  (void)state;
  net n = make_network();
  const char *path = scratch("net.intact");
  assert_ok(context, intact_model_write(n.graph, path, NULL));
  size_t bytes;
  uint8_t *good = read_file(path, &bytes), *bad = malloc(bytes);
  uint64_t random = test_random_start();
  const uint32_t front = (uint32_t)(load(good + 40) + load(good + 32) * 16);
  for (int round = 0; round < 3000; round++) {
    memcpy(bad, good, bytes);
    const uint32_t at = test_random(&random) % front;
    bad[at] = round % 2 ? (uint8_t)test_random(&random) : (uint8_t)" \"[]{},=@0918"[test_random(&random) % 13];
    if (load(bad + 16) <= bytes && load(bad + 24) <= bytes - load(bad + 16) && load(bad + 40) <= bytes &&
        load(bad + 32) <= (bytes - load(bad + 40)) / 16)
      seal(bad);
    write_file(path, bad, bytes);
    intact_graph *graph = NULL;
    if (intact_model_read(context, path, &graph) == INTACT_OK) assert_ok(context, intact_graph_verify(graph));
    intact_graph_destroy(graph);
  }
  assert_int_equal(unlink(path), 0);
  free(good);
  free(bad);
  intact_graph_destroy(n.graph);
}

static void test_writing_fails_cleanly(void **state) {
  (void)state;
  net n = make_network();
  assert_fails(intact_model_write(n.graph, "/nonexistent-folder/net.intact", NULL), INTACT_IO);
  assert_fails(intact_model_write(n.graph, scratch("net.intact"), "fancy"), INTACT_WRONG_USE);
  assert_int_equal(access(scratch("net.intact"), F_OK), -1);
  intact_graph_destroy(n.graph);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_damaged),    cmocka_unit_test(test_writing_fails_cleanly),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
