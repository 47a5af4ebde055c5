/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the PNG and JPEG readers. */
#include "data/picture.h"
#include "fuzz.h"

static void read_input(intact_context *context, const char *path) {
  intact_mapping *mapping;
  intact_picture_info info;
  if (intact__map_file(context, path, &mapping) != INTACT_OK) return;
  const uint8_t *data = intact__mapping_data(mapping);
  const size_t bytes = intact__mapping_bytes(mapping);
  enum { LARGEST = 1 << 16 }; /* pixels: what a network would ask for */
  if (intact__picture_info(context, path, data, bytes, &info) == INTACT_OK && info.height * info.width <= LARGEST) {
    uint8_t *pixels = intact__alloc(context, (size_t)(info.height * info.width), 3);
    for (int channels = 1; pixels && channels <= 3; channels += 2) {
      if (intact__picture_decode(context, path, data, bytes, &info, channels, pixels) != INTACT_OK) break;
    }
    intact__free(context, pixels);
  }
  intact__mapping_release(mapping);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_run(data, size, 1100, read_input);
}
