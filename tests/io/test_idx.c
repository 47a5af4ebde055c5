/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, plain and gzipped: the samples and hostile files. */
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"
#include "tensor/tensor.h"

static const char *scratch(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/%ld_%s", INTACT_BINARY_DIR, (long)getpid(), name);
  return path;
}

static const char *write_file(const void *bytes, size_t size) {
  const char *path = scratch("hostile-ubyte");
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

static const char *write_gzip(const void *bytes, size_t size) {
  const char *path = scratch("hostile-ubyte");
  gzFile file = gzopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
  assert_int_equal(gzclose(file), Z_OK);
  return path;
}

static void plain(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor_set *set = NULL;
#define REFUSED(bytes, status) \
  assert_fails(intact_tensors_read(context, write_file(bytes, sizeof bytes - 1), &set), INTACT_##status)
  REFUSED("", TRUNCATED);
  REFUSED("\0\0", TRUNCATED);
  REFUSED("\0\0\x07\x01\0\0\0\x01x", UNSUPPORTED_TYPE);
  REFUSED("\0\0\x08\x09\0\0\0\x01", OUT_OF_RANGE);
  REFUSED("\0\0\x08\x02\0\0\0\x01\0\0", TRUNCATED);
  REFUSED("\0\0\x08\x01\0\0\0\x02x", SIZE_MISMATCH);
  REFUSED("\0\0\x08\x01\0\0\0\x02xyz", SIZE_MISMATCH);
  REFUSED(
      "\0\0\x0e\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
      "\xff\xff"
      "\xff\xff\xff\xff",
      OVERFLOW);
#undef REFUSED
  assert_null(set);
  assert_ok(context, intact_tensors_read(context, write_file("\0\0\x0b\x01\0\0\0\x02\xff\xfe\x01\x02", 12), &set));
  const intact_tensor *x = intact_tensor_set_find(set, "");
  assert_int_equal(x->dtype, INTACT_S16);
  assert_int_equal(((const int16_t *)x->data)[0], -2);
  assert_int_equal(((const int16_t *)x->data)[1], 258);
  intact_tensor_set_destroy(set);
  unlink(scratch("hostile-ubyte"));
  intact_context_destroy(context);
}

static void gzipped(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor_set *set = NULL;
  static const char good[] = "\0\0\x08\x01\0\0\0\x05hello";
  assert_ok(context, intact_tensors_read(context, write_gzip(good, 13), &set));
  assert_memory_equal(intact_tensor_data(intact_tensor_set_get(set, 0)), "hello", 5);
  intact_tensor_set_destroy(set);
  set = NULL;
  assert_fails(intact_tensors_read(context, write_gzip(good, 12), &set), INTACT_SIZE_MISMATCH);
  assert_fails(intact_tensors_read(context, write_gzip(good, 14), &set), INTACT_SIZE_MISMATCH);
  assert_fails(intact_tensors_read(context, write_gzip(good, 3), &set), INTACT_TRUNCATED);
  assert_fails(intact_tensors_read(context, write_gzip("\0\0\x08\x02\0\0\xff\xff\0\0\xff\xff", 12), &set),
               INTACT_SIZE_MISMATCH);
  const char *path = write_gzip(good, 13);
  assert_int_equal(truncate(path, 20), 0);
  assert_fails(intact_tensors_read(context, path, &set), INTACT_TRUNCATED);
  path = write_gzip(good, 13);
  FILE *file = fopen(path, "r+b"); /* the checksum stands in the last 8 bytes */
  assert_non_null(file);
  fseek(file, -8, SEEK_END);
  fputc('?', file);
  fclose(file);
  assert_fails(intact_tensors_read(context, path, &set), INTACT_CHECKSUM);
  assert_null(set);
  unlink(path);
  intact_context_destroy(context);
}

static void samples(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  char path[600];
  intact_tensor_set *set;
  for (int packed = 0; packed < 2; packed++) {
    test_reference(packed ? "samples/idx/images-idx3-ubyte.gz" : "samples/idx/images-idx3-ubyte", path, sizeof path);
    assert_ok(context, intact_tensors_read(context, path, &set));
    const intact_tensor *x = intact_tensor_set_find(set, "");
    assert_int_equal(x->dtype, INTACT_U8);
    assert_true(intact__shape_equal(x->rank, x->dims, 3, (const int64_t[]){5, 6, 7}));
    for (int k = 0; k < 210; k++) assert_int_equal(((const uint8_t *)x->data)[k], k * 37 % 256);
    intact_tensor_set_destroy(set);
  }
  assert_ok(context, intact_tensors_read(context, test_reference("samples/idx/values-idx2-float", path, sizeof path), &set));
  const intact_tensor *x = intact_tensor_set_find(set, "");
  const float wanted[] = {1.5f, -2, 3, 0.25f};
  assert_true(intact__shape_equal(x->rank, x->dims, 2, (const int64_t[]){2, 2}));
  assert_memory_equal(x->data, wanted, sizeof wanted);
  intact_tensor_set_destroy(set);
  intact_context_destroy(context);
}

int main(void) {
  char path[600];
  const struct CMUnitTest alone[] = {cmocka_unit_test(plain), cmocka_unit_test(gzipped)};
  const struct CMUnitTest with_samples[] = {cmocka_unit_test(samples)};
  const int failed = cmocka_run_group_tests(alone, NULL, NULL);
  if (failed) return failed;
  test_reference("samples/idx/images-idx3-ubyte", path, sizeof path);
  return cmocka_run_group_tests(with_samples, NULL, NULL);
}
