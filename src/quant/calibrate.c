/* SPDX-License-Identifier: Apache-2.0 */
/* Streams samples through an observed graph: one batch in memory at a time. */
#include "base/comm.h"
#include "graph/observer.h"
#include "intact/quant.h"
#include "quant/stream.h"

/* This process's part of a batch; never none, so that all take part in every step. */
static void take_share(const intact_context *context, int64_t *first, int64_t *count) {
  const int64_t rank = intact_comm_rank(context), size = intact_comm_size(context);
  const int64_t begin = *count * rank / size, end = *count * (rank + 1) / size;
  if (end == begin) {
    *count = 1;
    return;
  }
  *first += begin;
  *count = end - begin;
}

intact_status intact__stream(const intact_graph *graph, intact_data *data, const intact_stream_options *options,
                             const intact_interp_options *interp) {
  intact_context *context = graph->context;
  int64_t count = intact_data_count(data), batch = options->batch > 0 ? options->batch : 1;
  if (options->samples > 0 && options->samples < count) count = options->samples;
  if (count <= 0) INTACT_FAIL(context, INVALID_VALUE, "", "the data set is empty: %s needs at least one sample", options->what);
  const int64_t fixed = intact_graph_batch(graph);
  if (fixed > 0) { /* what is left over at the end does not fill a batch */
    batch = fixed;
    count -= count % fixed;
    if (count == 0)
      INTACT_FAIL(context, SIZE_MISMATCH, graph->inputs[0]->name, "%s: the network takes %lld samples at once, there are fewer",
                  options->what, (long long)fixed);
  }
  size_t n = (size_t)graph->n_inputs + (size_t)graph->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(context, n + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(context, n * sizeof *tensors);
  intact_tensor **outputs = tensors + graph->n_inputs;
  intact_status status = INTACT_OK;
  for (int64_t first = 0; first < count && status == INTACT_OK; first += batch) {
    int64_t here = count - first < batch ? count - first : batch, own = first, taken = here;
    if (options->share) take_share(context, &own, &taken);
    status = intact_data_batch(data, own, taken, tensors);
    if (status == INTACT_OK && options->before) status = options->before(options->user, own, taken);
    if (status == INTACT_OK) status = intact__interpret(graph, (const intact_tensor *const *)tensors, interp, outputs);
    for (size_t i = 0; i < n; i++) {
      intact_tensor_destroy(tensors[i]);
      tensors[i] = NULL;
    }
    if (status == INTACT_OK) intact__progress(context, options->what, first + here, count);
  }
  intact__free(context, tensors);
  return status;
}

intact_status intact_calibrate(intact_graph *graph, intact_data *data, int64_t batch) {
  if (graph->stage != INTACT_STAGE_OBSERVED)
    INTACT_FAIL(graph->context, WRONG_USE, graph->name,
                "calibrate needs an observed network; this one is at stage %s: call prepare first", intact_stage_text(graph->stage));
  intact_stream_options options = {.what = "calibrate", .batch = batch, .share = intact__unshared_node(graph) == NULL && intact_graph_batch(graph) == 0};
  intact_interp_options interp = {.fast = true, .observe = true};
  return intact__stream(graph, data, &options, &interp);
}
