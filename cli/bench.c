/* SPDX-License-Identifier: Apache-2.0 */
/* intact bench: the time of one inference. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "intact/run.h"

static const cli_option options[] = {
    {"--batch", "N", "value of open batch dimensions (default 1)"},
    {"--input", "X[,X..]", ".npy files in graph order, or one .npz / .safetensors (default: made from --seed)"},
    {"--output", "Y.npy", "writes the first output"},
    {"--runs", "N", "timed runs (default: about one second)"},
    {"--engine", "E", "int (planned integer program), float (fast float kernels), interp (definitions)"},
    {NULL, NULL, NULL}};

/* Values of a fixed generator in -1..1 (floats), or small integers. */
static intact_status make_input(cli *c, const intact_value_info *info, int64_t batch, uint64_t seed, intact_tensor **tensor) {
  int64_t dims[INTACT_MAX_RANK];
  for (int i = 0; i < info->rank; i++) dims[i] = info->dims[i] < 0 ? (i == 0 ? batch : 1) : info->dims[i];
  intact_status status = intact_tensor_create(c->context, info->dtype, info->rank < 0 ? 0 : info->rank, dims, tensor);
  if (status != INTACT_OK) return status;
  const int64_t n = intact_tensor_count(*tensor);
  uint64_t state = seed + 1;
  for (int64_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t word = (uint32_t)(state >> 40);
    if (info->dtype == INTACT_F32)
      ((float *)intact_tensor_mutable_data(*tensor))[i] = (float)word * 0x1p-23f - 1.0f;
    else if (intact_dtype_bits(info->dtype) == 8 && info->dtype != INTACT_BOOL)
      ((uint8_t *)intact_tensor_mutable_data(*tensor))[i] = (uint8_t)word;
  }
  return INTACT_OK;
}

static intact_status load_inputs(cli *c, const intact_graph *graph, const char *list, intact_tensor **inputs) {
  int n_files = 0;
  char **files = cli_split(list, &n_files);
  intact_status status = files ? INTACT_OK : INTACT_NO_MEMORY;
  const int n = intact_graph_input_count(graph);
  for (int k = 0; k < n_files && status == INTACT_OK; k++) {
    intact_tensor_set *set;
    status = intact_tensors_read(c->context, files[k], &set);
    if (status != INTACT_OK) break;
    for (int i = 0; i < n && status == INTACT_OK; i++) {
      const intact_tensor *found = intact_tensor_set_find(set, intact_graph_input(graph, i).name);
      if (!found && i == k && intact_tensor_set_count(set) == 1) found = intact_tensor_set_get(set, 0);
      if (found && !inputs[i]) status = intact_tensor_share(found, 0, NULL, &inputs[i]);
    }
    intact_tensor_set_destroy(set);
  }
  free(files);
  return status;
}

static json_t *step_list(cli *c, const intact_graph *graph, const intact_tensor *const *inputs) {
  intact_program *program;
  json_t *list = json_array();
  if (intact_program_create(graph, &program) != INTACT_OK) return list;
  intact_tensor **outputs = calloc((size_t)intact_graph_output_count(graph) + 1, sizeof *outputs);
  intact_program_time_steps(program, true);
  if (outputs && intact_program_run(program, inputs, outputs) == INTACT_OK) {
    for (int i = 0; i < intact_graph_output_count(graph); i++) intact_tensor_destroy(outputs[i]);
    for (int i = 0; i < intact_program_step_count(program); i++) {
      const intact_step_info step = intact_program_step(program, i);
      json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:I,s:f}", "name", step.name, "op", step.op, "exec",
                                            step.integer ? "int" : "float", "kernel", step.kernel, "macs", (json_int_t)step.macs,
                                            "ms", step.ms));
    }
  }
  free(outputs);
  intact_program_destroy(program);
  (void)c;
  return list;
}

static intact_status write_first(cli *c, intact_tensor *tensor, const char *path) {
  intact_tensor_set *set;
  intact_status status = intact_tensor_set_create(c->context, &set);
  if (status != INTACT_OK) {
    intact_tensor_destroy(tensor);
    return status;
  }
  status = intact_tensor_set_add(set, "", tensor);
  if (status == INTACT_OK) status = intact_tensors_write(c->context, path, set);
  intact_tensor_set_destroy(set);
  return status;
}

static int bench(cli *c, const intact_graph *graph, intact_tensor **inputs, intact_tensor **outputs) {
  int64_t batch, runs, seed;
  intact_engine engine;
  if (!cli_engine(c, graph, &engine) || !cli_int(c, "--batch", 1, 1, 1 << 20, &batch) ||
      !cli_int(c, "--runs", 0, 1, 1000000, &runs) || !cli_int(c, "--seed", 0, 0, INT64_MAX, &seed))
    return CLI_WRONG_USE;
  const int n = intact_graph_input_count(graph);
  intact_status status = INTACT_OK;
  if (cli_get(c, "--input")) status = load_inputs(c, graph, cli_get(c, "--input"), inputs);
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    const intact_value_info info = intact_graph_input(graph, i);
    if (!inputs[i]) status = make_input(c, &info, batch, (uint64_t)seed + (uint64_t)i, &inputs[i]);
  }
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } cast = {inputs};
  intact_timing timing = {0};
  if (status == INTACT_OK) status = intact_benchmark(graph, engine, cast.to, (int)runs, &timing, outputs);
  const char *path = cli_get(c, "--output");
  if (status == INTACT_OK && path && intact_graph_output_count(graph)) {
    status = write_first(c, outputs[0], path);
    outputs[0] = NULL;
  }
  if (status != INTACT_OK) return cli_failed(c);
  json_object_set_new(c->result, "ms_min", cli_number(timing.ms_min));
  json_object_set_new(c->result, "ms_median", cli_number(timing.ms_median));
  json_object_set_new(c->result, "runs", json_integer(timing.runs));
  if (c->json) json_object_set_new(c->result, "layers", engine == INTACT_ENGINE_INT ? step_list(c, graph, cast.to) : json_array());
  json_object_set_new(c->result, "peak_rss_bytes", json_integer(cli_peak_rss()));
  if (!c->json)
    printf("%d runs, minimum %.4f ms, %d threads, %s\nms %.6f\n", timing.runs, timing.ms_min, intact_context_threads(c->context),
           intact_isa_text(intact_context_isa(c->context)), timing.ms_median);
  return CLI_DONE;
}

static int run(cli *c) {
  intact_graph *graph;
  if (intact_model_read(c->context, c->positional[0], &graph) != INTACT_OK) return cli_failed(c);
  const int n_in = intact_graph_input_count(graph), n_out = intact_graph_output_count(graph);
  intact_tensor **tensors = calloc((size_t)(n_in + n_out) + 1, sizeof *tensors);
  const int code = tensors ? bench(c, graph, tensors, tensors + n_in) : CLI_FAILED;
  for (int i = 0; tensors && i < n_in + n_out; i++) intact_tensor_destroy(tensors[i]);
  free(tensors);
  intact_graph_destroy(graph);
  return code;
}

const intact_verb intact_verb_bench = {
    .name = "bench",
    .arguments = "MODEL",
    .doc = "Times one inference: minimum and median after two warm-ups; the last line is 'ms MEDIAN'.",
    .options = options,
    .run = run};
