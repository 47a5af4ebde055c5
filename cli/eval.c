/* SPDX-License-Identifier: Apache-2.0 */
/* intact eval: accuracy on labelled samples, or statistics of the outputs. */
#include "cli.h"

static const cli_option options[] = {
    {"--data", "D", "samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--labels", "L", "labels; without them statistics of the outputs are printed"},
    {"--samples", "N", "use the first N samples (default: all)"},
    {"--batch", "N", "samples per step (default 32)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data)"},
    {"--std", "s[,s..]", "then divided by"},
    {"--engine", "E", "int (planned integer program), float (fast float kernels), interp (definitions)"},
    {NULL, NULL, NULL}};

static int evaluate(cli *c, const intact_graph *graph) {
  intact_engine engine;
  int64_t batch;
  bool wrong_use;
  if (!cli_engine(c, graph, &engine) || !cli_int(c, "--batch", 32, 1, 1 << 20, &batch)) return CLI_WRONG_USE;
  intact_data *data = NULL;
  intact_tensor *labels = NULL;
  intact_status status = cli_open_data(c, graph, "--data", &data, &wrong_use);
  if (wrong_use) return CLI_WRONG_USE;
  const char *labels_path = cli_get(c, "--labels");
  if (status == INTACT_OK && labels_path) status = intact_data_labels(data, labels_path, &labels);
  intact_evaluation e;
  if (status == INTACT_OK) status = intact_evaluate(graph, engine, data, labels, batch, &e);
  intact_tensor_destroy(labels);
  intact_data_close(data);
  if (status != INTACT_OK) return cli_failed(c);
  json_object_set_new(c->result, "accuracy", cli_number(e.accuracy));
  json_object_set_new(c->result, "top5", cli_number(e.top5));
  json_object_set_new(c->result, "samples", json_integer(e.samples));
  json_object_set_new(c->result, "seconds", cli_number(e.seconds));
  if (!labels_path)
    json_object_set_new(c->result, "output",
                        json_pack("{s:o,s:o,s:o,s:o}", "mean", cli_number(e.mean), "std", cli_number(e.std), "min",
                                  cli_number(e.min), "max", cli_number(e.max)));
  if (c->json) return CLI_DONE;
  if (labels_path)
    printf("accuracy %.2f %% (top-5 %.2f %%) on %lld samples in %.2f s\n", e.accuracy, e.top5, (long long)e.samples, e.seconds);
  else
    printf("output: mean %.6g, std %.6g, min %.6g, max %.6g over %lld samples in %.2f s\n", e.mean, e.std, e.min, e.max,
           (long long)e.samples, e.seconds);
  return CLI_DONE;
}

static int run(cli *c) {
  intact_graph *graph;
  if (intact_model_read(c->context, c->positional[0], &graph) != INTACT_OK) return cli_failed(c);
  const int code = evaluate(c, graph);
  intact_graph_destroy(graph);
  return code;
}

const intact_verb intact_verb_eval = {.name = "eval",
                                      .arguments = "MODEL",
                                      .doc = "Measures accuracy on labelled samples, or statistics of the outputs without labels.",
                                      .options = options,
                                      .run = run};
