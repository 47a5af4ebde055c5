/* SPDX-License-Identifier: Apache-2.0 */
/* The readers and writers of tensor files when the heap ends at any of their requests: no-memory, no leak, no half file. */
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/data.h"
#include "intact/io.h"
#include "support/reference.h"
#include "support/scarce_heap.h"

static intact_context *make_context(heap *h) {
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  options.allocator = (intact_allocator){h, heap_allocate, heap_release};
  intact_context *context = NULL;
  assert_int_equal(intact_context_create(&options, &context), INTACT_OK);
  return context;
}

/* Does `work` again and again, each time with the next request refused, until it is not hindered any more. */
static void try_all(const char *path, intact_status (*work)(intact_context *context, const char *path)) {
  heap h = {0};
  intact_context *context = make_context(&h);
  const int64_t before = h.live;
  intact_status status = INTACT_NO_MEMORY;
  for (int64_t k = 1; status != INTACT_OK; k++) {
    assert_true(k < 10000);
    h.refuse = h.requests + k;
    const int64_t limit = h.refuse;
    status = work(context, path);
    h.refuse = 0;
    assert_int_equal(h.live, before);
    if (h.requests < limit) break; /* the refused request was never made */
    if (status != INTACT_OK && status != INTACT_NO_MEMORY) print_error("%s: %s\n", path, intact_context_message(context));
    assert_true(status == INTACT_OK || status == INTACT_NO_MEMORY);
  }
  assert_int_equal(status, INTACT_OK);
  intact_context_destroy(context);
}

static intact_status read_only(intact_context *context, const char *path) {
  intact_tensor_set *set = NULL;
  intact_status status = intact_tensors_read(context, path, &set);
  intact_tensor_set_destroy(set);
  return status;
}

static intact_status read_and_write(intact_context *context, const char *path) {
  static const char *const endings[] = {"npz", "safetensors"};
  intact_tensor_set *set = NULL;
  char copy[1200];
  intact_status status = intact_tensors_read(context, path, &set);
  for (int i = 0; i < 2 && status == INTACT_OK; i++) {
    snprintf(copy, sizeof copy, "%s/tests/%ld_copy.%s", INTACT_BINARY_DIR, (long)getpid(), endings[i]);
    status = intact_tensors_write(context, copy, set);
    assert_int_equal(access(copy, F_OK) == 0, status == INTACT_OK);
    unlink(copy);
  }
  intact_tensor_set_destroy(set);
  return status;
}

static intact_status read_samples(intact_context *context, const char *path) {
  intact_graph *graph = NULL;
  intact_value *value;
  intact_data *data = NULL;
  intact_tensor *batch = NULL;
  const int64_t dims[] = {1, 1, 6, 7};
  const double mean = 0.25;
  const intact_data_options options = {.n_mean = 1, .mean = &mean};
  intact_status status = intact__graph_create(context, "inputs", &graph);
  if (status == INTACT_OK) status = intact__graph_add_input(graph, "x", INTACT_F32, 4, dims, &value);
  if (status == INTACT_OK) status = intact_data_open(context, path, graph, &options, &data);
  if (status == INTACT_OK) status = intact_data_batch(data, 1, 3, &batch);
  intact_tensor_destroy(batch);
  intact_data_close(data);
  intact_graph_destroy(graph);
  return status;
}

static void tensor_files(void **state) {
  (void)state;
  static const char *const names[] = {"safetensors/all_dtypes.safetensors",
                                      "npy/f32.npy",
                                      "npy/f32_fortran.npy",
                                      "npy/f32_big_endian.npy",
                                      "npy/arrays.npz",
                                      "npy/arrays_compressed.npz",
                                      "idx/images-idx3-ubyte",
                                      "idx/images-idx3-ubyte.gz",
                                      "idx/values-idx2-float"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char name[200], path[600];
    snprintf(name, sizeof name, "samples/%s", names[i]);
    try_all(test_reference(name, path, sizeof path), read_only);
    if (i == 1 || i == 4) try_all(path, read_and_write);
  }
}

static void data_sets(void **state) {
  (void)state;
  char path[600];
  try_all(test_reference("samples/idx/images-idx3-ubyte", path, sizeof path), read_samples);
  try_all(test_reference("samples/idx/images-idx3-ubyte.gz", path, sizeof path), read_samples);
}

int main(void) {
  char path[600];
  const struct CMUnitTest tests[] = {cmocka_unit_test(tensor_files), cmocka_unit_test(data_sets)};
  test_reference("samples/idx/images-idx3-ubyte", path, sizeof path);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
