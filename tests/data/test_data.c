/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: every kind of file, normalisation against a restatement, batches across files, bad input. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/data.h"
#include "intact/io.h"
#include "support/reference.h"
#include "support/test.h"

static char scratch[512];

static const char *scratch_path(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", scratch, name);
  return path;
}

static int make_scratch(void **state) {
  (void)state;
  snprintf(scratch, sizeof scratch, "%s/tests/data-XXXXXX", INTACT_BINARY_DIR);
  return mkdtemp(scratch) ? 0 : -1;
}

static int drop_scratch(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", scratch);
  return system(command);
}

/* A network of nothing but inputs. */
static intact_graph *network(intact_context *context, int n, const char *const *names, const intact_dtype *dtypes,
                             const int *ranks, const int64_t (*dims)[4]) {
  intact_graph *graph;
  intact_value *values[4];
  assert_ok(context, intact__graph_create(context, "inputs", &graph));
  for (int i = 0; i < n; i++) {
    int64_t shape[4];
    for (int k = 0; k < ranks[i]; k++) shape[k] = dims[i][k] < 0 ? intact__graph_symbol(graph, NULL) : dims[i][k];
    assert_ok(context, intact__graph_add_input(graph, names[i], dtypes[i], ranks[i], shape, &values[i]));
  }
  return graph;
}

static intact_graph *one_input(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims) {
  int64_t shape[1][4];
  memcpy(shape[0], dims, (size_t)rank * sizeof *dims);
  return network(context, 1, (const char *const[]){"x"}, &dtype, &rank, (const int64_t(*)[4])shape);
}

static void write_tensors(intact_context *context, const char *path, int n, const char *const *names,
                          intact_tensor **tensors) {
  intact_tensor_set *set;
  assert_ok(context, intact_tensor_set_create(context, &set));
  for (int i = 0; i < n; i++) assert_ok(context, intact_tensor_set_add(set, names[i], tensors[i]));
  assert_ok(context, intact_tensors_write(context, path, set));
  intact_tensor_set_destroy(set);
}

/* A tensor whose element i is (i * 37 + shift) mod 251. */
static intact_tensor *counted(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims, int shift) {
  intact_tensor *tensor;
  assert_ok(context, intact_tensor_create(context, dtype, rank, dims, &tensor));
  for (int64_t i = 0; i < tensor->count; i++) intact__tensor_set_s64(tensor, i, (i * 37 + shift) % 251);
  return tensor;
}

static void write_one(intact_context *context, const char *name, intact_tensor *tensor) {
  write_tensors(context, scratch_path(name), 1, (const char *const[]){"x"}, &tensor);
}

static void bytes_per_channel(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph = one_input(context, INTACT_F32, 4, (const int64_t[]){-1, 3, 2, 5});
  write_one(context, "u8.npy", counted(context, INTACT_U8, 4, (const int64_t[]){7, 3, 2, 5}, 3));
  const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
  const intact_data_options options = {.n_mean = 3, .n_std = 3, .mean = mean, .std = std};
  intact_data *data;
  intact_tensor *batch;
  assert_ok(context, intact_data_open(context, scratch_path("u8.npy"), graph, &options, &data));
  assert_int_equal(intact_data_count(data), 7);
  assert_ok(context, intact_data_batch(data, 2, 4, &batch));
  assert_int_equal(batch->dtype, INTACT_F32);
  assert_true(intact__shape_equal(batch->rank, batch->dims, 4, (const int64_t[]){4, 3, 2, 5}));
  for (int64_t i = 0; i < batch->count; i++) {
    const int64_t channel = i / 10 % 3;
    const volatile float unit = (float)(((i + 60) * 37 + 3) % 251) / 255.0f; /* every step rounded to float32 */
    const volatile float centred = unit - (float)mean[channel];
    assert_true(intact__f32(batch)[i] == centred / (float)std[channel]);
  }
  intact_tensor_destroy(batch);
  assert_fails(intact_data_batch(data, 4, 4, &batch), INTACT_OUT_OF_RANGE);
  assert_fails(intact_data_batch(data, -1, 1, &batch), INTACT_OUT_OF_RANGE);
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void other_types(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  const double mean = 0.25, std = 4;
  const intact_data_options options = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std, .samples = 2};
  intact_data *data;
  intact_tensor *batch;
  intact_graph *graph = one_input(context, INTACT_F32, 2, (const int64_t[]){-1, 6});
  write_one(context, "f64.npz", counted(context, INTACT_F64, 3, (const int64_t[]){5, 2, 3}, 0));
  assert_ok(context, intact_data_open(context, scratch_path("f64.npz"), graph, &options, &data));
  assert_int_equal(intact_data_count(data), 2);
  assert_ok(context, intact_data_batch(data, 0, 2, &batch));
  for (int i = 0; i < 12; i++) assert_true(intact__f32(batch)[i] == ((float)(i * 37 % 251) - 0.25f) / 4);
  intact_tensor_destroy(batch);
  intact_data_close(data);
  assert_ok(context, intact_data_open(context, scratch_path("f64.npz"), graph, NULL, &data));
  assert_ok(context, intact_data_batch(data, 4, 1, &batch));
  for (int i = 0; i < 6; i++) assert_true(intact__f32(batch)[i] == (float)((i + 24) * 37 % 251));
  intact_tensor_destroy(batch);
  intact_data_close(data);
  intact_graph_destroy(graph);

  graph = one_input(context, INTACT_S64, 2, (const int64_t[]){-1, -1});
  write_one(context, "ids.safetensors", counted(context, INTACT_S32, 2, (const int64_t[]){3, 4}, 9));
  assert_ok(context, intact_data_open(context, scratch_path("ids.safetensors"), graph, &options, &data));
  assert_ok(context, intact_data_batch(data, 1, 1, &batch));
  assert_int_equal(batch->dtype, INTACT_S64);
  for (int i = 0; i < 4; i++) assert_int_equal(((int64_t *)batch->data)[i], ((i + 4) * 37 + 9) % 251);
  intact_tensor_destroy(batch);
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void several_inputs(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph =
      network(context, 2, (const char *const[]){"ids", "mask"}, (const intact_dtype[]){INTACT_S64, INTACT_F32},
              (const int[]){2, 2}, (const int64_t[][4]){{-1, 5}, {-1, 5}});
  intact_tensor *tensors[] = {counted(context, INTACT_F32, 2, (const int64_t[]){6, 5}, 1),
                              counted(context, INTACT_S64, 2, (const int64_t[]){6, 5}, 2)};
  write_tensors(context, scratch_path("two.safetensors"), 2, (const char *const[]){"mask", "ids"}, tensors);
  intact_data *data = NULL;
  intact_tensor *batch[2];
  assert_ok(context, intact_data_open(context, scratch_path("two.safetensors"), graph, NULL, &data));
  assert_ok(context, intact_data_batch(data, 5, 1, batch));
  assert_int_equal(((int64_t *)batch[0]->data)[2], (27 * 37 + 2) % 251);
  assert_true(intact__f32(batch[1])[2] == (float)((27 * 37 + 1) % 251));
  intact_tensor_destroy(batch[0]);
  intact_tensor_destroy(batch[1]);
  intact_data_close(data);

  intact_tensor *uneven[] = {counted(context, INTACT_F32, 2, (const int64_t[]){6, 5}, 1),
                             counted(context, INTACT_S64, 2, (const int64_t[]){5, 5}, 2)};
  write_tensors(context, scratch_path("uneven.npz"), 2, (const char *const[]){"mask", "ids"}, uneven);
  assert_fails(intact_data_open(context, scratch_path("uneven.npz"), graph, NULL, &data), INTACT_SIZE_MISMATCH);
  write_one(context, "single.npz", counted(context, INTACT_F32, 2, (const int64_t[]){6, 5}, 1));
  assert_fails(intact_data_open(context, scratch_path("single.npz"), graph, NULL, &data), INTACT_MISSING_ENTRY);
  assert_non_null(strstr(intact_context_message(context), "'ids'"));
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void folder_of_files(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  assert_int_equal(mkdir(scratch_path("parts"), 0777), 0);
  write_one(context, "parts/b.npy", counted(context, INTACT_U8, 3, (const int64_t[]){4, 2, 2}, 40));
  write_one(context, "parts/a.npy", counted(context, INTACT_U8, 3, (const int64_t[]){3, 2, 2}, 0));
  write_one(context, "parts/c.safetensors", counted(context, INTACT_U8, 2, (const int64_t[]){2, 2}, 80)); /* one sample */
  intact_graph *graph = one_input(context, INTACT_F32, 4, (const int64_t[]){-1, 1, 2, 2});
  intact_data *data;
  intact_tensor *all, *some;
  assert_ok(context, intact_data_open(context, scratch_path("parts"), graph, NULL, &data));
  assert_int_equal(intact_data_count(data), 8);
  assert_ok(context, intact_data_batch(data, 0, 8, &all));
  for (int i = 0; i < 12; i++) assert_true(intact__f32(all)[i] == (float)(i * 37 % 251) / 255.0f);
  for (int i = 0; i < 16; i++) assert_true(intact__f32(all)[12 + i] == (float)((i * 37 + 40) % 251) / 255.0f);
  for (int i = 0; i < 4; i++) assert_true(intact__f32(all)[28 + i] == (float)((i * 37 + 80) % 251) / 255.0f);
  assert_ok(context, intact_data_batch(data, 2, 3, &some));
  assert_memory_equal(intact__f32(some), intact__f32(all) + 8, 12 * sizeof(float));
  intact_tensor_destroy(all);
  intact_tensor_destroy(some);
  intact_data_close(data);
  write_one(context, "parts/d.npy", counted(context, INTACT_U8, 3, (const int64_t[]){4, 3, 2}, 40));
  assert_fails(intact_data_open(context, scratch_path("parts"), graph, NULL, &data), INTACT_SIZE_MISMATCH);
  assert_non_null(strstr(intact_context_message(context), "[3,2]"));
  assert_non_null(strstr(intact_context_message(context), "[1,2,2]"));
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static int64_t resident_kb(void) {
  char line[200];
  long long kb = -1;
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) sscanf(line, "RssFile: %lld kB", &kb);
  fclose(file);
  return kb;
}

/* Streaming through 64 MB of bytes keeps no more of the file in memory than a batch. */
static void fixed_memory(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph = one_input(context, INTACT_F32, 2, (const int64_t[]){-1, 1 << 16});
  intact_tensor *bytes, *batch;
  assert_ok(context, intact_tensor_create(context, INTACT_U8, 2, (const int64_t[]){1024, 1 << 16}, &bytes));
  for (int64_t i = 0; i < bytes->count; i += 4096) ((uint8_t *)bytes->data)[i] = (uint8_t)(i >> 12);
  write_one(context, "large_set.npy", bytes);
  intact_data *data;
  assert_ok(context, intact_data_open(context, scratch_path("large_set.npy"), graph, NULL, &data));
  const int64_t before = resident_kb();
  int64_t most = 0;
  for (int64_t first = 0; first < 1024; first += 16) {
    assert_ok(context, intact_data_batch(data, first, 16, &batch));
    for (int64_t i = 0; i < batch->count; i += 4096) {
      assert_true(intact__f32(batch)[i] == (float)(uint8_t)((first * 65536 + i) >> 12) / 255.0f);
    }
    intact_tensor_destroy(batch);
    if (resident_kb() > most) most = resident_kb();
  }
  if (before < 0) skip();
  assert_true(most - before < 4096);
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void quantized_input(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph;
  intact_value *value;
  const float scale = 0.5f;
  const int32_t zero = 3;
  intact_qparams q = {.scheme = INTACT_PER_TENSOR_AFFINE,
                      .dtype = INTACT_U8,
                      .quant_max = 255,
                      .axis = -1,
                      .n = 1,
                      .scale = &scale,
                      .zero_point = &zero};
  assert_ok(context, intact__graph_create(context, "inputs", &graph));
  assert_ok(context, intact__graph_add_input(graph, "x", INTACT_U8, 2, (const int64_t[]){2, 3}, &value));
  assert_ok(context, intact__value_set_qparams(graph, value, &q));
  write_one(context, "f32.npy", counted(context, INTACT_F32, 2, (const int64_t[]){2, 3}, 1));
  intact_data *data;
  intact_tensor *batch;
  assert_ok(context, intact_data_open(context, scratch_path("f32.npy"), graph, NULL, &data));
  assert_ok(context, intact_data_batch(data, 0, 2, &batch));
  assert_int_equal(batch->dtype, INTACT_U8);
  for (int i = 0; i < 6; i++) { /* twice the value, and the zero point, cut at 255 */
    const int wanted = 2 * ((i * 37 + 1) % 251) + 3;
    assert_int_equal(((uint8_t *)batch->data)[i], wanted > 255 ? 255 : wanted);
  }
  intact_tensor_destroy(batch);
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void refusals(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph = one_input(context, INTACT_F32, 4, (const int64_t[]){-1, 1, 4, 4});
  intact_graph *ids = one_input(context, INTACT_U8, 2, (const int64_t[]){-1, 16});
  intact_data *data = NULL;
  assert_fails(intact_data_open(context, scratch_path("nowhere.npy"), graph, NULL, &data), INTACT_MISSING_ENTRY);
  write_one(context, "none.npy", counted(context, INTACT_F32, 3, (const int64_t[]){0, 4, 4}, 0));
  assert_fails(intact_data_open(context, scratch_path("none.npy"), graph, NULL, &data), INTACT_INVALID_VALUE);
  assert_int_equal(mkdir(scratch_path("empty"), 0777), 0);
  assert_fails(intact_data_open(context, scratch_path("empty"), graph, NULL, &data), INTACT_INVALID_VALUE);
  write_one(context, "other.npy", counted(context, INTACT_F32, 3, (const int64_t[]){3, 5, 4}, 0));
  assert_fails(intact_data_open(context, scratch_path("other.npy"), graph, NULL, &data), INTACT_SIZE_MISMATCH);
  assert_non_null(strstr(intact_context_message(context), "[5,4]"));
  assert_non_null(strstr(intact_context_message(context), "[1,4,4]"));
  write_one(context, "floats.npy", counted(context, INTACT_F32, 3, (const int64_t[]){3, 4, 4}, 0));
  assert_fails(intact_data_open(context, scratch_path("floats.npy"), ids, NULL, &data), INTACT_TYPE_MISMATCH);
  const double zero = 0, not_a_number = NAN, three[] = {1, 2, 3};
  intact_data_options options = {.n_std = 1, .std = &zero};
  assert_fails(intact_data_open(context, scratch_path("floats.npy"), graph, &options, &data), INTACT_INVALID_VALUE);
  options = (intact_data_options){.n_mean = 1, .mean = &not_a_number};
  assert_fails(intact_data_open(context, scratch_path("floats.npy"), graph, &options, &data), INTACT_INVALID_VALUE);
  options = (intact_data_options){.n_mean = 3, .mean = three};
  assert_fails(intact_data_open(context, scratch_path("floats.npy"), graph, &options, &data), INTACT_WRONG_USE);
  write_one(context, "large.npy", counted(context, INTACT_S32, 2, (const int64_t[]){1, 16}, 0));
  intact_tensor *large = counted(context, INTACT_S32, 2, (const int64_t[]){1, 16}, 0);
  ((int32_t *)large->data)[5] = 256;
  write_one(context, "large.npy", large);
  assert_ok(context, intact_data_open(context, scratch_path("large.npy"), ids, NULL, &data));
  intact_tensor *batch;
  assert_fails(intact_data_batch(data, 0, 1, &batch), INTACT_OUT_OF_RANGE);
  intact_data_close(data);
  intact_graph_destroy(ids);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void labels(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_tensor *read;
  write_one(context, "labels.npy", counted(context, INTACT_U8, 1, (const int64_t[]){6}, 5));
  assert_ok(context, intact_labels_read(context, scratch_path("labels.npy"), &read));
  assert_int_equal(read->dtype, INTACT_S64);
  assert_int_equal(read->count, 6);
  for (int i = 0; i < 6; i++) assert_int_equal(((int64_t *)read->data)[i], (i * 37 + 5) % 251);
  intact_tensor_destroy(read);
  write_one(context, "labels.safetensors", counted(context, INTACT_S64, 2, (const int64_t[]){6, 1}, 5));
  assert_ok(context, intact_labels_read(context, scratch_path("labels.safetensors"), &read));
  assert_int_equal(read->rank, 1);
  intact_tensor_destroy(read);
  write_one(context, "labels.npy", counted(context, INTACT_F32, 1, (const int64_t[]){6}, 5));
  assert_fails(intact_labels_read(context, scratch_path("labels.npy"), &read), INTACT_TYPE_MISMATCH);
  write_one(context, "labels.npy", counted(context, INTACT_U8, 2, (const int64_t[]){6, 2}, 5));
  assert_fails(intact_labels_read(context, scratch_path("labels.npy"), &read), INTACT_SIZE_MISMATCH);
  write_one(context, "labels.npy", counted(context, INTACT_U8, 1, (const int64_t[]){0}, 5));
  assert_fails(intact_labels_read(context, scratch_path("labels.npy"), &read), INTACT_INVALID_VALUE);
  intact_context_destroy(context);
}

/* As many as the files hold samples, or as are used of them. */
static void labels_of_other_samples(void **state) {
  (void)state;
  intact_context *context = test_context(1);
  intact_graph *graph;
  intact_data *data;
  intact_tensor *read;
  const intact_data_options options = {.samples = 3};
  assert_ok(context, intact_graph_parse(context,
                                        "intact graph 1\nname \"g\"\nstage float\nrequantize f32_rne\nsymbols N\ninput x: f32[N,2]\n"
                                        "y: f32[N,2] = relu(x)\noutput y\n", &graph));
  write_one(context, "samples.npy", counted(context, INTACT_F32, 2, (const int64_t[]){6, 2}, 5));
  assert_ok(context, intact_data_open(context, scratch_path("samples.npy"), graph, &options, &data));
  for (int64_t n = 1; n <= 7; n++) {
    write_one(context, "labels.npy", counted(context, INTACT_U8, 1, &n, 5));
    const bool good = n == 3 || n == 6;
    assert_fails(intact_data_labels(data, scratch_path("labels.npy"), &read), good ? INTACT_OK : INTACT_SIZE_MISMATCH);
    if (good) intact_tensor_destroy(read);
  }
  intact_data_close(data);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

static void idx_images(void **state) {
  (void)state;
  char path[512];
  intact_context *context = test_context(1);
  intact_graph *graph = one_input(context, INTACT_F32, 4, (const int64_t[]){-1, 1, 6, 7});
  for (int packed = 0; packed < 2; packed++) {
    intact_data *data;
    intact_tensor *batch;
    test_reference(packed ? "samples/idx/images-idx3-ubyte.gz" : "samples/idx/images-idx3-ubyte", path, sizeof path);
    assert_ok(context, intact_data_open(context, path, graph, NULL, &data));
    assert_int_equal(intact_data_count(data), 5);
    assert_ok(context, intact_data_batch(data, 0, 5, &batch));
    for (int k = 0; k < 5 * 42; k++) assert_true(intact__f32(batch)[k] == (float)(k * 37 % 256) / 255.0f);
    intact_tensor_destroy(batch);
    intact_data_close(data);
  }
  intact_tensor *read;
  assert_ok(context, intact_labels_read(context, test_reference("samples/idx/labels-idx1-ubyte", path, sizeof path), &read));
  const int64_t wanted[] = {3, 1, 4, 1, 5};
  assert_memory_equal(read->data, wanted, sizeof wanted);
  intact_tensor_destroy(read);
  intact_graph_destroy(graph);
  intact_context_destroy(context);
}

int main(void) {
  char path[512];
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(bytes_per_channel), cmocka_unit_test(other_types),     cmocka_unit_test(several_inputs),
      cmocka_unit_test(folder_of_files),   cmocka_unit_test(quantized_input), cmocka_unit_test(fixed_memory),
      cmocka_unit_test(refusals),          cmocka_unit_test(labels), cmocka_unit_test(labels_of_other_samples),
  };
  const struct CMUnitTest with_samples[] = {cmocka_unit_test(idx_images)};
  const int failed = cmocka_run_group_tests(alone, make_scratch, drop_scratch);
  if (failed) return failed;
  test_reference("samples/idx/images-idx3-ubyte", path, sizeof path);
  return cmocka_run_group_tests(with_samples, NULL, NULL);
}
