/* SPDX-License-Identifier: Apache-2.0 */
/* A float model becomes an integer one, and what that cost is printed layer by layer:
     quantize_model MODEL.onnx SAMPLES OUT.onnx
   SAMPLES: an IDX, .npy, .npz or .safetensors file, or a folder of such files or pictures; u8 samples become (u8/255 - 0.286)/0.353. */
#include <stdio.h>

#include "intact/data.h"
#include "intact/inspect.h"
#include "intact/io.h"
#include "intact/quant.h"

typedef struct work {
  intact_context *context;
  intact_graph *model, *reference, *quantized, *integer;
  intact_data *samples;
  intact_quantize_notes notes;
  intact_report *report;
} work;

static intact_status quantize(work *w, char **args) {
  const double mean = 0.2860, std = 0.3530;
  const intact_data_options how = {.n_mean = 1, .n_std = 1, .mean = &mean, .std = &std};
  intact_quantize_options options = intact_quantize_default_options(); /* change what you like: options.activations = INTACT_S8 */
  intact_status status = intact_model_read(w->context, args[1], &w->model);
  if (status == INTACT_OK) status = intact_data_open(w->context, args[2], w->model, &how, &w->samples);
  /* fold, equalize, annotate, prepare, calibrate, convert, correct biases */
  if (status == INTACT_OK)
    status = intact_quantize_with_reference(w->model, w->samples, &options, &w->reference, &w->quantized, &w->notes);
  if (status == INTACT_OK) status = intact_model_write(w->quantized, args[3], NULL);
  /* what the integer runtime executes, against the float network */
  if (status == INTACT_OK) status = intact_graph_copy(w->quantized, &w->integer);
  if (status == INTACT_OK) status = intact_to_integer(w->integer);
  if (status == INTACT_OK)
    status = intact_compare(w->reference, INTACT_ENGINE_FLOAT, w->integer, INTACT_ENGINE_INT, w->samples, 64, &w->report);
  return status;
}

static void print(const work *w) {
  for (int i = 0; i < w->notes.n; i++) puts(w->notes.lines[i]);
  printf("%-24s %-12s %-6s %9s %9s\n", "layer", "op", "runs", "here dB", "sum dB");
  for (int i = 0; i < intact_report_layer_count(w->report); i++) {
    const intact_layer_report *layer = intact_report_layer(w->report, i);
    printf("%-24s %-12s %-6s %9.1f %9.1f  %s\n", layer->name, layer->op, layer->integer ? "int" : "float", layer->sqnr_here_db,
           layer->sqnr_acc_db, layer->why);
  }
  for (int i = 0; i < intact_report_advice_count(w->report); i++) printf("advice: %s\n", intact_report_advice(w->report, i));
}

int main(int argc, char **argv) {
  work w = {0};
  if (argc != 4) {
    fprintf(stderr, "usage: %s MODEL.onnx SAMPLES OUT.onnx\n", argv[0]);
    return 2;
  }
  if (intact_context_create(NULL, &w.context) != INTACT_OK) return 1;
  const intact_status status = quantize(&w, argv);
  if (status == INTACT_OK)
    print(&w);
  else
    fprintf(stderr, "%s: %s\n", argv[0], intact_context_message(w.context));
  intact_report_destroy(w.report);
  intact_quantize_notes_destroy(w.context, &w.notes);
  intact_data_close(w.samples);
  intact_graph_destroy(w.integer);
  intact_graph_destroy(w.quantized);
  intact_graph_destroy(w.reference);
  intact_graph_destroy(w.model);
  intact_context_destroy(w.context);
  return status == INTACT_OK ? 0 : 1;
}
