/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: the sample of every type, hostile headers, the writer against the reference writer's bytes. */
#include <string.h>
#include <unistd.h>

#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"
#include "tensor/tensor.h"

static char sample[512];

static const char *scratch(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/%ld_%s", INTACT_BINARY_DIR, (long)getpid(), name);
  return path;
}

/* Writes a file of 8 bytes of header length, the header, and `zeros` zero bytes. */
static const char *write_file(const char *header, uint64_t length, size_t zeros) {
  const char *path = scratch("hostile.safetensors");
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (int i = 0; i < 8; i++) fputc((int)(length >> (8 * i) & 255), file);
  fputs(header, file);
  for (size_t i = 0; i < zeros; i++) fputc(0, file);
  assert_int_equal(fclose(file), 0);
  return path;
}

static void expect_refusal(intact_context *context, const char *header, size_t zeros, intact_status wanted,
                           const char *word) {
  const char *path = write_file(header, strlen(header), zeros);
  intact_tensor_set *set = NULL;
  const intact_status status = intact_tensors_read(context, path, &set);
  if (status != wanted) print_error("%s: %s (%s)\n", header, intact_status_text(status), intact_context_message(context));
  assert_int_equal(status, wanted);
  assert_null(set);
  if (!strstr(intact_context_message(context), word))
    print_error("'%s' not in: %s\n", word, intact_context_message(context));
  assert_non_null(strstr(intact_context_message(context), word));
  unlink(path);
}

static void hostile_headers(void **state) {
  (void)state;
  intact_context *context = test_context(1);
#define A(rest) "{\"a\":{" rest "}}"
#define REFUSED(header, zeros, status, word) expect_refusal(context, header, zeros, INTACT_##status, word)
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]") "x", 8, SYNTAX, "goes on");
  REFUSED("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, SYNTAX, "ends");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2]"), 8, MISSING_FIELD, "data_offsets");
  REFUSED(A("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), 8, MISSING_FIELD, "shape");
  REFUSED(A("\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]"), 8, TYPE_MISMATCH, "dtype");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"), 8, TYPE_MISMATCH, "shape");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]"), 8, TYPE_MISMATCH, "integer");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), 8, INVALID_VALUE, "negative");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), 8, INVALID_VALUE, "end before");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]"), 8, DUPLICATE, "shape");
  REFUSED(A("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]"), 3, UNSUPPORTED_TYPE, "F6_E2M3");
  REFUSED(A("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2, SIZE_MISMATCH, "a");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,8]"), 8, OVERFLOW,
          "overflow");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,8]"), 8, OVERFLOW, "64 bits");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, OUT_OF_RANGE, "dimensions");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), 12, SIZE_MISMATCH, "end at byte 8");
  REFUSED(A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]"), 12, OUT_OF_RANGE, "no tensor");
  REFUSED("{\"\\u00zz\":{}}", 0, SYNTAX, "escape");
  REFUSED("{\"\\ud800\":{}}", 0, SYNTAX, "surrogate");
  REFUSED("{\"\\u0000\":{}}", 0, SYNTAX, "NUL");
  REFUSED("{\"\xff\":{}}", 0, SYNTAX, "UTF-8");
  REFUSED("{\"a\":[]}", 0, TYPE_MISMATCH, "object");
  REFUSED("{\"a", 0, SYNTAX, "no end");
  REFUSED("{\"__metadata__\":{},\"__metadata__\":{}}", 0, DUPLICATE, "__metadata__");
  char deep[600] = "{\"__metadata__\":";
  memset(deep + strlen(deep), '[', 200);
  REFUSED(deep, 0, RECURSION_LIMIT, "nested");
#undef REFUSED
#undef A
  const char *path = write_file("", 1, 0);
  intact_tensor_set *set = NULL;
  assert_fails(intact_tensors_read(context, path, &set), INTACT_SIZE_MISMATCH);
  assert_int_equal(truncate(path, 5), 0);
  assert_fails(intact_tensors_read(context, path, &set), INTACT_TRUNCATED);
  unlink(path);
  intact_context_destroy(context);
}

static void write_and_read_back(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor_set *set, *again;
  assert_ok(context, intact_tensors_read(context, sample, &set));
  assert_int_equal(intact_tensor_set_count(set), 20);
  const intact_tensor *scalar = intact_tensor_set_find(set, "scalar");
  assert_non_null(scalar);
  assert_int_equal(intact_tensor_rank(scalar), 0);
  assert_true(*(const float *)intact_tensor_data(scalar) == 3.25f);
  assert_non_null(intact_tensor_set_find(set, "na\xc3\xafve \"name\""));
  /* the reference writer's order is a function of types and names alone: our writer makes the same data section */
  const char *path = scratch("again.safetensors");
  assert_ok(context, intact_tensors_write(context, path, set));
  assert_ok(context, intact_tensors_read(context, path, &again));
  assert_int_equal(intact_tensor_set_count(again), 20);
  for (int i = 0; i < 20; i++) {
    const intact_tensor *a = intact_tensor_set_get(set, i), *b = intact_tensor_set_get(again, i);
    assert_string_equal(intact_tensor_set_name(set, i), intact_tensor_set_name(again, i));
    assert_int_equal(intact_tensor_dtype(a), intact_tensor_dtype(b));
    assert_true(intact__shape_equal(a->rank, a->dims, b->rank, b->dims));
    assert_memory_equal(intact_tensor_data(a), intact_tensor_data(b), intact_tensor_bytes(a));
  }
  intact_tensor_set_destroy(again);
  intact_tensor_set_destroy(set);
  unlink(path);
  intact_context_destroy(context);
}

static void writer_refuses(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor_set *set;
  intact_tensor *tensor;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, intact_tensor_create(context, INTACT_U4, 1, (const int64_t[]){2}, &tensor));
  assert_ok(context, intact_tensor_set_add(set, "packed", tensor));
  assert_fails(intact_tensors_write(context, scratch("refused.none"), set), INTACT_WRONG_USE);
  const char *path = scratch("refused.safetensors");
  assert_fails(intact_tensors_write(context, path, set), INTACT_UNSUPPORTED_TYPE);
  assert_int_equal(access(path, F_OK), -1);
  intact_tensor_set_destroy(set);
  intact_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest alone[] = {cmocka_unit_test(hostile_headers), cmocka_unit_test(writer_refuses)};
  const struct CMUnitTest with_samples[] = {cmocka_unit_test(write_and_read_back)};
  const int failed = cmocka_run_group_tests(alone, NULL, NULL);
  if (failed) return failed;
  test_reference("samples/safetensors/all_dtypes.safetensors", sample, sizeof sample);
  return cmocka_run_group_tests(with_samples, NULL, NULL);
}
