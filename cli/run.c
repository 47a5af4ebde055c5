/* SPDX-License-Identifier: Apache-2.0 */
/* intact run: one inference on given tensors. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "intact/run.h"

static const cli_option options[] = {
    {"--input", "X[,X..]", ".npy files in graph order, or one .npz / .safetensors with the inputs' names"},
    {"--output", "Y", "file for the outputs: .npy (first output), .npz or .safetensors (by name)"},
    {"--engine", "E", "int (planned integer program), float (fast float kernels), interp (definitions)"},
    {NULL, NULL, NULL}};

/* Handle i of `sets` for every graph input: by name if the file names it, else by position. */
static intact_status pick_inputs(cli *c, const intact_graph *graph, intact_tensor_set **sets, int n_sets, intact_tensor **inputs) {
  const int n = intact_graph_input_count(graph);
  for (int i = 0; i < n; i++) {
    const intact_value_info info = intact_graph_input(graph, i);
    const intact_tensor *found = NULL;
    for (int k = 0; k < n_sets && !found; k++) found = intact_tensor_set_find(sets[k], info.name);
    if (!found && i < n_sets && intact_tensor_set_count(sets[i]) == 1) found = intact_tensor_set_get(sets[i], 0);
    if (!found) {
      cli_wrong_use(c, "no tensor given for input '%s' (%d of %d): pass .npy files in graph order, or a file that names it",
                    info.name, i + 1, n);
      return INTACT_WRONG_USE;
    }
    const intact_status status = intact_tensor_share(found, 0, NULL, &inputs[i]);
    if (status != INTACT_OK) {
      cli_failed(c);
      return status;
    }
  }
  return INTACT_OK;
}

static intact_status execute(cli *c, const intact_graph *graph, intact_engine engine, intact_tensor **inputs,
                             intact_tensor **outputs) {
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } cast = {inputs};
  if (engine != INTACT_ENGINE_INT) return intact_graph_interpret(graph, cast.to, engine == INTACT_ENGINE_FLOAT, outputs);
  intact_program *program;
  intact_status status = intact_program_create(graph, &program);
  if (status != INTACT_OK) return status;
  status = intact_program_run(program, cast.to, outputs);
  intact_program_destroy(program);
  (void)c;
  return status;
}

static void show(cli *c, const char *name, const intact_tensor *t, json_t *list) {
  json_t *shape = json_array();
  for (int k = 0; k < intact_tensor_rank(t); k++) json_array_append_new(shape, json_integer(intact_tensor_dims(t)[k]));
  if (!c->json) {
    char *dims = json_dumps(shape, JSON_COMPACT);
    char plain[512];
    printf("%s %s%s", cli_plain(name, plain, sizeof plain), intact_dtype_text(intact_tensor_dtype(t)), dims ? dims : "?");
    free(dims);
    if (intact_tensor_dtype(t) == INTACT_F32) {
      const float *values = intact_tensor_data(t);
      for (int64_t i = 0; i < intact_tensor_count(t) && i < 10; i++) printf(" %.6g", (double)values[i]);
      if (intact_tensor_count(t) > 10) printf(" ...");
    }
    printf("\n");
  }
  json_array_append_new(list, json_pack("{s:s,s:o,s:s}", "name", name, "shape", shape, "dtype",
                                        intact_dtype_text(intact_tensor_dtype(t))));
}

/* Writes (if asked) and shows the outputs; takes them over. */
static intact_status deliver(cli *c, const intact_graph *graph, intact_tensor **outputs) {
  intact_tensor_set *set;
  json_t *list = json_array();
  const char *path = cli_get(c, "--output");
  intact_status status = intact_tensor_set_create(c->context, &set);
  const size_t n = path ? strlen(path) : 0;
  const bool only_first = n > 4 && strcmp(path + n - 4, ".npy") == 0;
  const int n_outputs = intact_graph_output_count(graph);
  for (int i = 0; i < (only_first && n_outputs ? 1 : n_outputs) && status == INTACT_OK; i++) {
    intact_tensor *shared;
    status = intact_tensor_share(outputs[i], 0, NULL, &shared);
    if (status == INTACT_OK) status = intact_tensor_set_add(set, only_first ? "" : intact_graph_output(graph, i).name, shared);
  }
  if (status == INTACT_OK && path) status = intact_tensors_write(c->context, path, set);
  for (int i = 0; i < n_outputs; i++) {
    if (status == INTACT_OK) show(c, intact_graph_output(graph, i).name, outputs[i], list);
    intact_tensor_destroy(outputs[i]);
  }
  json_object_set_new(c->result, "outputs", list);
  intact_tensor_set_destroy(set);
  return status;
}

static int run_graph(cli *c, const intact_graph *graph) {
  intact_engine engine;
  if (!cli_engine(c, graph, &engine)) return CLI_WRONG_USE;
  if (!cli_get(c, "--input")) return cli_wrong_use(c, "--input is needed: the tensors to run on");
  int n_files = 0, opened = 0, code = CLI_DONE;
  char **files = cli_split(cli_get(c, "--input"), &n_files);
  const size_t n_in = (size_t)intact_graph_input_count(graph), n_out = (size_t)intact_graph_output_count(graph);
  intact_tensor_set **sets = calloc((size_t)n_files + 1, sizeof *sets);
  intact_tensor **tensors = calloc(n_in + n_out + 1, sizeof *tensors);
  intact_status status = files && sets && tensors ? INTACT_OK : INTACT_NO_MEMORY;
  for (; opened < n_files && status == INTACT_OK; opened++) status = intact_tensors_read(c->context, files[opened], &sets[opened]);
  if (status != INTACT_OK) code = cli_failed(c);
  if (code == CLI_DONE) {
    status = pick_inputs(c, graph, sets, n_files, tensors);
    if (status != INTACT_OK) code = status == INTACT_WRONG_USE ? CLI_WRONG_USE : CLI_FAILED;
  }
  if (code == CLI_DONE && (execute(c, graph, engine, tensors, tensors + n_in) != INTACT_OK ||
                           deliver(c, graph, tensors + n_in) != INTACT_OK))
    code = cli_failed(c);
  for (size_t i = 0; tensors && i < n_in; i++) intact_tensor_destroy(tensors[i]);
  for (int i = 0; sets && i < n_files; i++) intact_tensor_set_destroy(sets[i]);
  free(tensors);
  free(sets);
  free(files);
  return code;
}

static int run(cli *c) {
  intact_graph *graph;
  if (intact_model_read(c->context, c->positional[0], &graph) != INTACT_OK) return cli_failed(c);
  const int code = run_graph(c, graph);
  intact_graph_destroy(graph);
  return code;
}

const intact_verb intact_verb_run = {.name = "run",
                                     .arguments = "MODEL",
                                     .doc = "Runs one inference on given tensors and shows or writes the outputs.",
                                     .options = options,
                                     .run = run};
