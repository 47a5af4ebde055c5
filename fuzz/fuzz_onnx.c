/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the ONNX reader; what it accepts must be printed and written as well. */
#include "fuzz.h"
#include "intact/io.h"

static void read_input(intact_context *context, const char *path) {
  const intact_format *format = intact__find_format("onnx");
  intact_graph *graph = NULL;
  char *text = NULL;
  if (format->import_graph(context, path, &graph) != INTACT_OK) {
    if (graph || intact_context_message(context)[0] == 0) abort();
    return;
  }
  if (intact_graph_verify(graph) != INTACT_OK) abort();
  if (intact_graph_print(graph, &text) == INTACT_OK) intact_text_destroy(context, text);
  if (format->export_graph(graph, "/dev/null", NULL) != INTACT_OK && intact_context_message(context)[0] == 0) abort();
  intact_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_run(data, size, 256, read_input);
}
