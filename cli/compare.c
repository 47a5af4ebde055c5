/* SPDX-License-Identifier: Apache-2.0 */
/* intact compare: two networks (or one by two engines) layer by layer. */
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    {"--data", "D", "samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--samples", "N", "compare over the first N samples (default: all)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data)"},
    {"--std", "s[,s..]", "then divided by"},
    {"--engine-a", "E", "how A is executed: int, float or interp"},
    {"--engine-b", "E", "how B is executed: int, float or interp"},
    {NULL, NULL, NULL}};

static bool engine_of(cli *c, const char *option, const intact_graph *graph, intact_engine *engine) {
  const char *name = cli_get(c, option);
  cli plain = *c;
  plain.n_options = 0;
  if (name) {
    plain.options[0].name = "--engine";
    plain.options[0].value = name;
    plain.n_options = 1;
  }
  return cli_engine(&plain, graph, engine);
}

static int compare(cli *c, const intact_graph *a, const intact_graph *b) {
  intact_engine engine_a, engine_b;
  if (!engine_of(c, "--engine-a", a, &engine_a) || !engine_of(c, "--engine-b", b, &engine_b)) return CLI_WRONG_USE;
  intact_data *data = NULL;
  intact_report *report = NULL;
  bool wrong_use;
  intact_status status = cli_open_data(c, a, "--data", &data, &wrong_use);
  if (wrong_use) return CLI_WRONG_USE;
  if (status == INTACT_OK) status = intact_compare(a, engine_a, b, engine_b, data, intact_data_count(data), &report);
  intact_data_close(data);
  if (status != INTACT_OK) return cli_failed(c);
  if (c->json) {
    json_object_set_new(c->result, "layers", cli_report_layers(report));
    json_object_set_new(c->result, "outputs", cli_report_outputs(report));
    json_object_set_new(c->result, "advice", cli_report_advice(report));
  } else {
    cli_print_report(report, stdout);
  }
  intact_report_destroy(report);
  return CLI_DONE;
}

static int run(cli *c) {
  intact_graph *a = NULL, *b = NULL;
  int code = CLI_FAILED;
  if (intact_model_read(c->context, c->positional[0], &a) != INTACT_OK ||
      intact_model_read(c->context, c->positional[1], &b) != INTACT_OK)
    cli_failed(c);
  else
    code = compare(c, a, b);
  intact_graph_destroy(b);
  intact_graph_destroy(a);
  return code;
}

const intact_verb intact_verb_compare = {
    .name = "compare",
    .arguments = "A B",
    .doc = "Compares two networks layer by layer on samples: error made here, error accumulated, clipping, headroom.",
    .options = options,
    .run = run};
