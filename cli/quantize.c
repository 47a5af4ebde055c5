/* SPDX-License-Identifier: Apache-2.0 */
/* intact quantize: calibrate, convert, write, and say what it cost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    {"--data", "D", "calibration samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--labels", "L", "labels of the samples: accuracy before and after is reported"},
    {"-o", "OUT", "the file to write; its extension names the format: .onnx (QDQ), .intact"},
    {"--samples", "N", "use the first N samples (default: all)"},
    {"--batch", "N", "samples per step (default 32)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data), one value or one per channel"},
    {"--std", "s[,s..]", "then divided by, one value or one per channel"},
    {"--quantizer", "NAME[:o=v..]", "who decides what is quantized how; several joined by +, first claim wins"},
    {"--observer", "NAME[:o=v..]", "observer of activations"},
    {"--weight-observer", "NAME[:o=v..]", "observer of weights"},
    {"--activations", "u8|s8", "type of activations (default u8)"},
    {"--weights", "per-channel|per-tensor", "scales of weights (default per-channel)"},
    {"--io", "float|int", "inputs and outputs of the network (default float)"},
    {"--keep-float", "PATTERN[,..]", "nodes that stay float, by name with * and ?"},
    {"--no-equalize", NULL, "no cross-layer equalization"},
    {"--no-bias-correction", NULL, "no bias correction"},
    {NULL, NULL, NULL}};

enum { REPORT_SAMPLES = 128, BENCH_RUNS = 30 };

typedef struct job {
  intact_graph *model, *reference, *quantized, *integer; /* reference: the float network that was quantized, layer by layer */
  intact_data *data;
  intact_tensor *labels;
  intact_quantize_notes notes;
  intact_report *report;
  intact_evaluation before, after;
  intact_timing time_before, time_after;
} job;

static bool ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* Accuracy and latency of one network; with --io int it takes other samples than the float one. */
static intact_status measure(cli *c, const intact_graph *graph, intact_engine engine, const job *j, int64_t batch,
                             intact_evaluation *evaluation, intact_timing *timing) {
  const int n = intact_graph_input_count(graph);
  intact_tensor **inputs = calloc((size_t)(n ? n : 1), sizeof *inputs);
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } cast = {inputs};
  intact_data *data = NULL;
  bool wrong_use = false;
  intact_status status = inputs ? cli_open_data(c, graph, "--data", &data, &wrong_use) : INTACT_NO_MEMORY;
  if (status == INTACT_OK && j->labels) status = intact_evaluate(graph, engine, data, j->labels, batch, evaluation);
  const int64_t fixed = intact_graph_batch(graph);
  if (status == INTACT_OK) status = intact_data_batch(data, 0, fixed > 0 ? fixed : 1, inputs);
  if (status == INTACT_OK) status = intact_benchmark(graph, engine, cast.to, BENCH_RUNS, timing, NULL);
  for (int i = 0; inputs && i < n; i++) intact_tensor_destroy(inputs[i]);
  free(inputs);
  intact_data_close(data);
  return status;
}

static void print_job(cli *c, const job *j, const char *out, double seconds) {
  if (!c->quiet)
    for (int i = 0; i < j->notes.n; i++) printf("%s\n", j->notes.lines[i]);
  cli_print_report(j->report, stdout);
  if (j->labels)
    printf("accuracy  %.2f %% -> %.2f %% on %lld samples\n", j->before.accuracy, j->after.accuracy, (long long)j->after.samples);
  const int64_t fixed = intact_graph_batch(j->model);
  printf("size      %lld -> %lld bytes\nlatency   %.3f -> %.3f ms (batch %lld)\n", (long long)cli_file_bytes(c->positional[0]),
         (long long)cli_file_bytes(out), j->time_before.ms_median, j->time_after.ms_median, (long long)(fixed > 0 ? fixed : 1));
  printf("wrote %s in %.2f s\n", out, seconds);
}

static void fill_json(cli *c, const job *j, const char *out, double seconds) {
  json_t *r = c->result, *notes = json_array();
  for (int i = 0; i < j->notes.n; i++) json_array_append_new(notes, json_string(j->notes.lines[i]));
  json_object_set_new(r, "accuracy_float", cli_number(j->labels ? j->before.accuracy : NAN));
  json_object_set_new(r, "accuracy_int", cli_number(j->labels ? j->after.accuracy : NAN));
  json_object_set_new(r, "bytes_float", json_integer(cli_file_bytes(c->positional[0])));
  json_object_set_new(r, "bytes_int", json_integer(cli_file_bytes(out)));
  json_object_set_new(r, "ms_float", cli_number(j->time_before.ms_median));
  json_object_set_new(r, "ms_int", cli_number(j->time_after.ms_median));
  json_object_set_new(r, "seconds", cli_number(seconds));
  json_object_set_new(r, "peak_rss_bytes", json_integer(cli_peak_rss()));
  json_object_set_new(r, "layers", cli_report_layers(j->report));
  json_object_set_new(r, "outputs", cli_report_outputs(j->report));
  json_object_set_new(r, "advice", cli_report_advice(j->report));
  json_object_set_new(r, "notes", notes);
}

static int quantize(cli *c, job *j, const intact_quantize_options *o) {
  const double start = cli_seconds();
  const char *out = cli_get(c, "-o"), *labels = cli_get(c, "--labels");
  bool wrong_use;
  if (!out) return cli_wrong_use(c, "-o is needed: the file to write, .onnx or .intact");
  if (!ends_with(out, ".onnx") && !ends_with(out, ".intact"))
    return cli_wrong_use(c, "-o is '%s'; the extension names the format: .onnx or .intact", out);
  if (intact_model_read(c->context, c->positional[0], &j->model) != INTACT_OK) return cli_failed(c);
  intact_status status = cli_open_data(c, j->model, "--data", &j->data, &wrong_use);
  if (wrong_use) return CLI_WRONG_USE;
  if (status == INTACT_OK && labels) status = intact_data_labels(j->data, labels, &j->labels);
  if (status == INTACT_OK) status = intact_quantize_with_reference(j->model, j->data, o, &j->reference, &j->quantized, &j->notes);
  if (status == INTACT_OK) status = intact_graph_copy(j->quantized, &j->integer);
  if (status == INTACT_OK) status = intact_to_integer(j->integer);
  if (status == INTACT_OK)
    status = intact_compare(j->reference, INTACT_ENGINE_FLOAT, j->integer, INTACT_ENGINE_INT, j->data, REPORT_SAMPLES, &j->report);
  if (status == INTACT_OK) status = measure(c, j->model, INTACT_ENGINE_FLOAT, j, o->batch, &j->before, &j->time_before);
  if (status == INTACT_OK) status = measure(c, j->integer, INTACT_ENGINE_INT, j, o->batch, &j->after, &j->time_after);
  if (status == INTACT_OK) status = intact_model_write(ends_with(out, ".intact") ? j->integer : j->quantized, out, NULL);
  if (status != INTACT_OK) return cli_failed(c);
  const double seconds = cli_seconds() - start;
  if (c->json)
    fill_json(c, j, out, seconds);
  else
    print_job(c, j, out, seconds);
  return CLI_DONE;
}

static int run(cli *c) {
  intact_quantize_options o;
  char **keep_float = NULL;
  job j = {0};
  const int code = cli_quantize_options(c, &o, &keep_float) ? quantize(c, &j, &o) : CLI_WRONG_USE;
  intact_report_destroy(j.report);
  intact_quantize_notes_destroy(c->context, &j.notes);
  intact_tensor_destroy(j.labels);
  intact_data_close(j.data);
  intact_graph_destroy(j.integer);
  intact_graph_destroy(j.quantized);
  intact_graph_destroy(j.reference);
  intact_graph_destroy(j.model);
  free(keep_float);
  return code;
}

const intact_verb intact_verb_quantize = {
    .name = "quantize",
    .arguments = "MODEL",
    .doc = "Makes an integer network of a trained one: calibrates on samples, converts, reports what it cost layer by layer.",
    .options = options,
    .run = run};
