/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the safetensors reader. */
#include "fuzz.h"

static void read_input(intact_context *context, const char *path) {
  fuzz_tensors(context, path, "safetensors");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_run(data, size, 64, read_input);
}
