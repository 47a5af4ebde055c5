/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the .npy reader. */
#include "fuzz.h"

static void read_input(intact_context *context, const char *path) {
  fuzz_tensors(context, path, "npy");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_run(data, size, 4, read_input);
}
