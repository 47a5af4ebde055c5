/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share: the input as a file, a context whose heap refuses to grow out of proportion to it.

   How to add a target: fuzz/fuzz_<reader>.c with LLVMFuzzerTestOneInput. The build makes of it `fuzz_<reader>` (libFuzzer,
   with INTACT_FUZZ) and the test fuzz/<reader> (regression_driver.c over the samples in the folders of the reference sets
   that fuzz/CMakeLists.txt names, cut and changed). */
#ifndef INTACT_FUZZ_FUZZ_H
#define INTACT_FUZZ_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/context.h"
#include "graph/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes that one request may ask for: a fixed part, and `ratio` times the input. */
typedef struct fuzz_limit {
  size_t largest;
} fuzz_limit;

static inline void *fuzz_allocate(void *user, size_t bytes) {
  const fuzz_limit *limit = user;
  if (bytes > limit->largest) {
    fprintf(stderr, "%zu bytes of heap asked for, at most %zu are in proportion to the input\n", bytes, limit->largest);
    abort();
  }
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline void fuzz_release(void *user, void *memory) {
  (void)user;
  free(memory);
}

/* Makes a file of the input, gives its name and a context of one thread to `fn`, and cleans up. */
static inline int fuzz_run(const uint8_t *data, size_t size, size_t ratio,
                           void (*fn)(intact_context *context, const char *path)) {
  fuzz_limit limit = {((size_t)1 << 20) + ratio * size};
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  options.allocator.user = &limit;
  options.allocator.allocate = fuzz_allocate;
  options.allocator.release = fuzz_release;
  intact_context *context = NULL;
  char path[64];
  const int fd = memfd_create("input", 0);
  if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size)) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (intact_context_create(&options, &context) != INTACT_OK) abort();
  fn(context, path);
  intact_context_destroy(context);
  close(fd);
  return 0;
}

/* Reads tensors by a format's row and touches every byte of them. */
static inline void fuzz_tensors(intact_context *context, const char *path, const char *format) {
  intact_tensor_set *set = NULL;
  if (intact__find_format(format)->read_tensors(context, path, &set) != INTACT_OK) {
    if (set || intact_context_message(context)[0] == 0) abort();
    return;
  }
  volatile uint8_t sum = 0;
  for (int i = 0; i < intact_tensor_set_count(set); i++) {
    const intact_tensor *tensor = intact_tensor_set_get(set, i);
    const uint8_t *bytes = intact_tensor_data(tensor);
    for (size_t k = 0; k < intact_tensor_bytes(tensor); k++) sum = (uint8_t)(sum + bytes[k]);
  }
  intact_tensor_set_destroy(set);
}

#endif
