/* SPDX-License-Identifier: Apache-2.0 */
/* .npy and .npz: the samples, hostile headers and archives, writers that NumPy's own bytes are compared with. */
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"
#include "tensor/tensor.h"

static const char *scratch(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/%ld_%s", INTACT_BINARY_DIR, (long)getpid(), name);
  return path;
}

/* A version 1.0 array of this header text, with `zeros` bytes of elements. Returns its size. */
static size_t array_bytes(const char *header, size_t zeros, char *out) {
  const size_t length = strlen(header);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)(length & 255);
  out[9] = (char)(length >> 8);
  memcpy(out + 10, header, length);
  memset(out + 10 + length, 0, zeros);
  return 10 + length + zeros;
}

static const char *write_file(const char *name, const void *bytes, size_t size) {
  const char *path = scratch(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

static void refused(intact_context *context, const char *header, size_t zeros, intact_status wanted, const char *word) {
  char bytes[2048];
  const char *path = write_file("hostile.npy", bytes, array_bytes(header, zeros, bytes));
  intact_tensor_set *set = NULL;
  const intact_status status = intact_tensors_read(context, path, &set);
  if (status != wanted) print_error("%s: %s\n", header, intact_context_message(context));
  assert_int_equal(status, wanted);
  assert_null(set);
  if (!strstr(intact_context_message(context), word)) print_error("%s: %s\n", header, intact_context_message(context));
  assert_non_null(strstr(intact_context_message(context), word));
  unlink(path);
}

static void hostile_arrays(void **state) {
  (void)state;
  intact_context *context = test_context(1);
#define REFUSED(header, zeros, status, word) refused(context, header, zeros, INTACT_##status, word)
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4, SIZE_MISMATCH, "8 bytes");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 12, SIZE_MISMATCH, "8 bytes");
  REFUSED("{'descr': '<f4', 'fortran_order': False, }", 8, MISSING_FIELD, "shape");
  REFUSED("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, DUPLICATE, "descr");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8, INVALID_VALUE, "more");
  REFUSED("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, TYPE_MISMATCH, "fortran_order");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", 8, TYPE_MISMATCH, "tuple");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, INVALID_VALUE, "negative");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8, OVERFLOW, "63 bits");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 8, OVERFLOW, "overflow");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, OUT_OF_RANGE, "dimensions");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", 24, SYNTAX, "shape");
  REFUSED("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, UNSUPPORTED_TYPE, "records");
  REFUSED("{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }", 32, UNSUPPORTED_TYPE, "<U4");
  REFUSED("{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", 32, UNSUPPORTED_TYPE, "<f16");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, SYNTAX, "after its end");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2,", 8, SYNTAX, "shape");
  REFUSED("'descr'", 8, SYNTAX, "'{'");
  REFUSED("", 8, SYNTAX, "'{'");
#undef REFUSED
  intact_tensor_set *set;
  assert_fails(intact_tensors_read(context, write_file("hostile.npy", "\x93NUMPY\x04\x00\x01\x00 ..", 12), &set),
               INTACT_UNSUPPORTED_VERSION);
  assert_fails(intact_tensors_read(context, write_file("hostile.npy", "\x93NUMPY\x01\x00\xff\xff {", 12), &set),
               INTACT_TRUNCATED);
  assert_fails(intact_tensors_read(context, write_file("hostile.npy", "\x93NUMPY", 6), &set), INTACT_TRUNCATED);
  unlink(scratch("hostile.npy"));
  intact_context_destroy(context);
}

/* What numpy.save writes for np.arange(6, dtype=np.int16).reshape(2, 3): header of version 1.0, padded so that the elements
   begin at a multiple of 64 (numpy.lib.format). */
static void writes_as_numpy(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  static const char head[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
  intact_tensor_set *set;
  intact_tensor *tensor;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, intact_tensor_create(context, INTACT_S16, 2, (const int64_t[]){2, 3}, &tensor));
  for (int i = 0; i < 6; i++) ((int16_t *)tensor->data)[i] = (int16_t)i;
  assert_ok(context, intact_tensor_set_add(set, "any", tensor));
  const char *path = scratch("written.npy");
  assert_ok(context, intact_tensors_write(context, path, set));
  char bytes[200];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(bytes, 1, sizeof bytes, file), 128 + 12);
  fclose(file);
  assert_memory_equal(bytes, head, sizeof head - 1);
  for (size_t i = sizeof head - 1; i < 127; i++) assert_int_equal(bytes[i], ' ');
  assert_int_equal(bytes[127], '\n');
  for (int i = 0; i < 6; i++) assert_int_equal(bytes[128 + 2 * i], i);
  unlink(path);
  intact_tensor_set_destroy(set);
  intact_context_destroy(context);
}

static void npz_round_trip(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor_set *set, *again;
  intact_tensor *a, *b, *c;
  assert_ok(context, intact_tensor_set_create(context, &set));
  assert_ok(context, intact_tensor_create(context, INTACT_F64, 2, (const int64_t[]){2, 3}, &a));
  assert_ok(context, intact_tensor_create(context, INTACT_U8, 1, (const int64_t[]){0}, &b));
  assert_ok(context, intact_tensor_create(context, INTACT_S32, 0, NULL, &c));
  for (int i = 0; i < 6; i++) ((double *)a->data)[i] = i / 3.0;
  *(int32_t *)c->data = -7;
  assert_ok(context, intact_tensor_set_add(set, "first", a));
  assert_ok(context, intact_tensor_set_add(set, "folder/second", b));
  assert_ok(context, intact_tensor_set_add(set, "third", c));
  const char *path = scratch("round.npz");
  char once[4096], twice[4096];
  size_t bytes = 0;
  for (int i = 0; i < 2; i++) { /* the same bytes every time */
    assert_ok(context, intact_tensors_write(context, path, set));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    bytes = fread(i ? twice : once, 1, sizeof once, file);
    fclose(file);
  }
  assert_memory_equal(once, twice, bytes);
  assert_ok(context, intact_tensors_read(context, path, &again));
  assert_int_equal(intact_tensor_set_count(again), 3);
  assert_memory_equal(intact_tensor_data(intact_tensor_set_find(again, "first")), a->data, 48);
  assert_int_equal(intact_tensor_count(intact_tensor_set_find(again, "folder/second")), 0);
  assert_int_equal(*(const int32_t *)intact_tensor_data(intact_tensor_set_find(again, "third")), -7);
  intact_tensor_set_destroy(again);
  intact_tensor_set_destroy(set);
  unlink(path);
  intact_context_destroy(context);
}

typedef struct zip_part {
  const char *name;
  const void *bytes;
  size_t size;
} zip_part;

/* Stored archive of the parts. */
static const char *write_zip(int n, const zip_part *parts) {
  const char *path = scratch("hostile.npz");
  int error;
  zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &error);
  assert_non_null(archive);
  for (int i = 0; i < n; i++) {
    zip_source_t *source = zip_source_buffer(archive, parts[i].bytes, parts[i].size, 0);
    const zip_int64_t index = zip_file_add(archive, parts[i].name, source, 0);
    assert_true(index >= 0);
    assert_int_equal(zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0), 0);
  }
  assert_int_equal(zip_close(archive), 0);
  return path;
}

/* Replaces every `from` in the file by `to` of the same length. */
static void patch(const char *path, const char *from, const char *to) {
  char bytes[8192];
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  const size_t size = fread(bytes, 1, sizeof bytes, file), length = strlen(from);
  for (size_t i = 0; i + length <= size; i++) {
    if (memcmp(bytes + i, from, length) == 0) memcpy(bytes + i, to, length);
  }
  rewind(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void hostile_archives(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  char array[300];
  const size_t size = array_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, array);
  const zip_part good = {"x.npy", array, size}, other = {"y.npy", array, size}, text = {"x.txt", "words", 5};
  intact_tensor_set *set = NULL;
  assert_fails(intact_tensors_read(context, write_zip(1, &text), &set), INTACT_INVALID_VALUE);
  assert_fails(intact_tensors_read(context, write_zip(2, (const zip_part[]){good, text}), &set), INTACT_INVALID_VALUE);
  const char *path = write_zip(2, (const zip_part[]){good, other});
  patch(path, "y.npy", "x.npy");
  assert_fails(intact_tensors_read(context, path, &set), INTACT_DUPLICATE);
  path = write_zip(1, &(const zip_part){"ab/cd.npy", array, size});
  patch(path, "ab/cd.npy", "../cd.npy");
  assert_fails(intact_tensors_read(context, path, &set), INTACT_PATH_TRAVERSAL);
  path = write_zip(1, &good);
  patch(path, "(2,), }", "(3,), }");
  assert_fails(intact_tensors_read(context, path, &set), INTACT_CHECKSUM);
  path = write_zip(1, &good);
  patch(path, "'<f4'", "'<i4'");
  assert_fails(intact_tensors_read(context, path, &set), INTACT_CHECKSUM);
  path = write_zip(1, &good);
  assert_int_equal(truncate(path, (long)size / 2), 0);
  assert_fails(intact_tensors_read(context, path, &set), INTACT_TRUNCATED);
  assert_int_equal(truncate(path, 0), 0);
  assert_fails(intact_tensors_read(context, path, &set), INTACT_TRUNCATED);
  assert_null(set);
  unlink(path);
  intact_context_destroy(context);
}

static void samples(void **state) {
  (void)state;
  static const char *const names[] = {"f32", "f32_fortran", "f64", "f16", "u8", "i64", "f32_big_endian", "v2_header"};
  intact_context *context = test_context(1);
  char path[600], name[100];
  intact_tensor_set *set;
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
    snprintf(name, sizeof name, "samples/npy/%s.npy", names[k]);
    assert_ok(context, intact_tensors_read(context, test_reference(name, path, sizeof path), &set));
    assert_int_equal(intact_tensor_set_count(set), 1);
    const intact_tensor *x = intact_tensor_set_find(set, "");
    assert_non_null(x);
    assert_true(intact__shape_equal(x->rank, x->dims, 3, (const int64_t[]){2, 3, 4}));
    for (int i = 0; i < 24; i++) assert_true(intact__tensor_get_f64(x, i) == i); /* np.arange(24) in every type and order */
    intact_tensor_set_destroy(set);
  }
  intact_tensor_set *stored, *deflated;
  assert_ok(context, intact_tensors_read(context, test_reference("samples/npy/arrays.npz", path, sizeof path), &stored));
  assert_ok(context,
            intact_tensors_read(context, test_reference("samples/npy/arrays_compressed.npz", path, sizeof path), &deflated));
  assert_int_equal(intact_tensor_set_count(stored), 2);
  for (int i = 0; i < 2; i++) {
    const intact_tensor *a = intact_tensor_set_get(stored, i);
    const intact_tensor *b = intact_tensor_set_find(deflated, intact_tensor_set_name(stored, i));
    assert_non_null(b);
    assert_string_equal(intact_tensor_set_name(stored, i), i ? "y" : "x");
    assert_int_equal(a->dtype, b->dtype);
    assert_memory_equal(a->data, b->data, intact_tensor_bytes(a));
  }
  intact_tensor_set_destroy(stored);
  intact_tensor_set_destroy(deflated);
  intact_context_destroy(context);
}

int main(void) {
  char path[600];
  const struct CMUnitTest alone[] = {cmocka_unit_test(hostile_arrays), cmocka_unit_test(writes_as_numpy),
                                     cmocka_unit_test(npz_round_trip), cmocka_unit_test(hostile_archives)};
  const struct CMUnitTest with_samples[] = {cmocka_unit_test(samples)};
  const int failed = cmocka_run_group_tests(alone, NULL, NULL);
  if (failed) return failed;
  test_reference("samples/npy/f32.npy", path, sizeof path);
  return cmocka_run_group_tests(with_samples, NULL, NULL);
}
