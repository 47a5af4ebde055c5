/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped files; files that appear whole or not at all. */
#include "support/test.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64];

static const char *path_of(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int files_in_folder(void) {
  DIR *dir = opendir(folder);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(dir));) n += entry->d_name[0] != '.';
  closedir(dir);
  return n;
}

static void a_file_appears_when_committed(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_writer *writer;
  assert_ok(c, intact__writer_open(c, path_of("a.bin"), &writer));
  fputs("hello", intact__writer_stream(writer));
  fflush(intact__writer_stream(writer));
  assert_int_not_equal(access(path_of("a.bin"), F_OK), 0);
  assert_ok(c, intact__writer_commit(writer));
  assert_int_equal(files_in_folder(), 1);
  intact_mapping *mapping;
  assert_ok(c, intact__map_file(c, path_of("a.bin"), &mapping));
  assert_int_equal(intact__mapping_bytes(mapping), 5);
  assert_memory_equal(intact__mapping_data(mapping), "hello", 5);
  intact_mapping *second = intact__mapping_retain(mapping);
  intact__mapping_release(mapping);
  assert_memory_equal(intact__mapping_data(second), "hello", 5);
  intact__mapping_release(second);
  intact_context_destroy(c);
}

static void an_aborted_file_leaves_the_old_one(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_writer *writer;
  assert_ok(c, intact__writer_open(c, path_of("a.bin"), &writer));
  fputs("other", intact__writer_stream(writer));
  intact__writer_abort(writer);
  intact__writer_abort(NULL);
  assert_int_equal(files_in_folder(), 1);
  intact_mapping *mapping;
  assert_ok(c, intact__map_file(c, path_of("a.bin"), &mapping));
  assert_memory_equal(intact__mapping_data(mapping), "hello", 5);
  intact__mapping_release(mapping);
  assert_ok(c, intact__writer_open(c, path_of("a.bin"), &writer));
  fputs("new", intact__writer_stream(writer));
  assert_ok(c, intact__writer_commit(writer));
  assert_ok(c, intact__map_file(c, path_of("a.bin"), &mapping));
  assert_int_equal(intact__mapping_bytes(mapping), 3);
  intact__mapping_release(mapping);
  intact_context_destroy(c);
}

static void unwritable_places_are_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_writer *writer;
  assert_fails(intact__writer_open(c, "/nowhere/at/all.onnx", &writer), INTACT_IO);
  assert_non_null(strstr(intact_context_message(c), "/nowhere/at/all.onnx"));
  assert_fails(intact__writer_open(c, folder, &writer), INTACT_IO);
  if (access("/dev/full", W_OK) == 0) {
    assert_ok(c, intact__writer_open(c, "/dev/full", &writer));
    fputs("x", intact__writer_stream(writer));
    assert_fails(intact__writer_commit(writer), INTACT_IO);
  }
  intact_context_destroy(c);
}

static void unreadable_files_are_refused(void **state) {
  (void)state;
  intact_context *c = test_context(1);
  intact_mapping *mapping;
  assert_fails(intact__map_file(c, path_of("absent"), &mapping), INTACT_MISSING_ENTRY);
  assert_fails(intact__map_file(c, folder, &mapping), INTACT_IO);
  FILE *empty = fopen(path_of("empty"), "w");
  fclose(empty);
  assert_ok(c, intact__map_file(c, path_of("empty"), &mapping));
  assert_int_equal(intact__mapping_bytes(mapping), 0);
  intact__mapping_release(mapping);
  intact__mapping_release(NULL);
  unlink(path_of("empty"));
  intact_context_destroy(c);
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/intact-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path_of("a.bin"));
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_appears_when_committed),
      cmocka_unit_test(an_aborted_file_leaves_the_old_one),
      cmocka_unit_test(unwritable_places_are_refused),
      cmocka_unit_test(unreadable_files_are_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
