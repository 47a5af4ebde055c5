/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the .intact reader. The checksum is made right first, so that changes reach the graph's text. */
#include <string.h>

#include "fuzz.h"
#include "graph/graph.h"

static uint64_t load(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static uint64_t hash(uint64_t state, const uint8_t *bytes, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) state = (state ^ bytes[i]) * UINT64_C(1099511628211);
  return state;
}

/* The checksum of io/intact_file/intact_file.c where text and table lie within the data. */
static void seal(uint8_t *data, size_t size) {
  if (size < 64) return;
  const uint64_t text = load(data + 16), text_bytes = load(data + 24), n = load(data + 32), table = load(data + 40);
  if (text > size || text_bytes > size - text || table > size || n > (size - table) / 16) return;
  uint64_t state = hash(hash(UINT64_C(14695981039346656037), data, 56), data + text, text_bytes);
  state = hash(state, data + table, n * 16);
  for (int i = 0; i < 8; i++) data[56 + i] = (uint8_t)(state >> (8 * i));
}

static void read_input(intact_context *context, const char *path) {
  intact_graph *graph = NULL;
  if (intact__find_format("intact")->import_graph(context, path, &graph) != INTACT_OK) {
    if (graph || intact_context_message(context)[0] == 0) abort();
    return;
  }
  if (intact_graph_verify(graph) != INTACT_OK) abort();
  intact_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  seal(copy, size);
  fuzz_run(copy, size, 64, read_input);
  free(copy);
  return 0;
}
