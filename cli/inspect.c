/* SPDX-License-Identifier: Apache-2.0 */
/* intact inspect: what a model or a tensor file holds. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    {"--stage", "NAME", "print the graph at a stage: float observed qdq integer; qdq and integer of a float model need --data"},
    {"--data", "D", "calibration samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--samples", "N", "use the first N samples (default: all)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data)"},
    {"--std", "s[,s..]", "then divided by"},
    {NULL, NULL, NULL}};

static json_t *value_json(const intact_graph *graph, const intact_value_info *info) {
  char shape[256], plain[1024]; /* a shape that is cut may end within a character */
  return json_pack("{s:s,s:s,s:s}", "name", info->name, "dtype", intact_dtype_text(info->dtype), "shape",
                   cli_plain(cli_shape(graph, info, shape, sizeof shape), plain, sizeof plain));
}

static void print_value(const intact_graph *graph, const char *kind, const intact_value_info *info) {
  char shape[256], plain_shape[512], plain[512];
  cli_plain(cli_shape(graph, info, shape, sizeof shape), plain_shape, sizeof plain_shape);
  printf("%-8s %s %s%s\n", kind, cli_plain(info->name, plain, sizeof plain), intact_dtype_text(info->dtype), plain_shape);
}

static int inspect_tensors(cli *c, const char *path) {
  intact_tensor_set *set;
  if (intact_tensors_read(c->context, path, &set) != INTACT_OK) return cli_failed(c);
  json_t *list = json_array();
  int64_t elements = 0;
  for (int i = 0; i < intact_tensor_set_count(set); i++) {
    const intact_tensor *t = intact_tensor_set_get(set, i);
    json_t *shape = json_array();
    for (int k = 0; k < intact_tensor_rank(t); k++) json_array_append_new(shape, json_integer(intact_tensor_dims(t)[k]));
    elements += intact_tensor_count(t);
    if (!c->json) {
      char *dims = json_dumps(shape, JSON_COMPACT), plain[512];
      printf("%s %s%s\n", cli_plain(intact_tensor_set_name(set, i), plain, sizeof plain), intact_dtype_text(intact_tensor_dtype(t)), dims ? dims : "?");
      free(dims);
    }
    json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "name", intact_tensor_set_name(set, i), "dtype",
                                          intact_dtype_text(intact_tensor_dtype(t)), "shape", shape));
  }
  if (!c->json) printf("%d tensors, %lld elements\n", intact_tensor_set_count(set), (long long)elements);
  json_object_set_new(c->result, "tensors", list);
  json_object_set_new(c->result, "elements", json_integer(elements));
  intact_tensor_set_destroy(set);
  return CLI_DONE;
}

/* Ops that stay float, each reason once with its nodes. */
static int print_float_nodes(cli *c, const intact_graph *graph) {
  intact_float_nodes *list;
  if (intact_float_nodes_create(graph, &list) != INTACT_OK) return cli_failed(c);
  json_t *rows = json_array();
  for (int i = 0; i < list->n; i++) {
    const intact_float_node *f = &list->nodes[i];
    json_array_append_new(rows, json_pack("{s:s,s:s,s:s}", "name", f->name, "op", f->op, "why", f->why));
    int earlier = 0;
    while (earlier < i && (strcmp(list->nodes[earlier].op, f->op) != 0 || strcmp(list->nodes[earlier].why, f->why) != 0)) earlier++;
    if (c->json || earlier < i) continue;
    printf("float    %s (%s):", f->op, f->why);
    for (int k = i; k < list->n; k++)
      if (strcmp(list->nodes[k].op, f->op) == 0 && strcmp(list->nodes[k].why, f->why) == 0) printf(" %s", list->nodes[k].name);
    printf("\n");
  }
  if (!c->json && list->n == 0) printf("float    none\n");
  json_object_set_new(c->result, "float_nodes", rows);
  intact_float_nodes_destroy(c->context, list);
  return CLI_DONE;
}

static int print_facts(cli *c, const intact_graph *graph, const char *format) {
  intact_graph_facts facts;
  if (intact_graph_count_facts(graph, &facts) != INTACT_OK) return cli_failed(c);
  json_t *inputs = json_array(), *outputs = json_array();
  if (!c->json) printf("format   %s, stage %s\n", format, intact_stage_text(intact_graph_stage(graph)));
  for (int i = 0; i < intact_graph_input_count(graph); i++) {
    intact_value_info info = intact_graph_input(graph, i);
    json_array_append_new(inputs, value_json(graph, &info));
    if (!c->json) print_value(graph, "input", &info);
  }
  for (int i = 0; i < intact_graph_output_count(graph); i++) {
    intact_value_info info = intact_graph_output(graph, i);
    json_array_append_new(outputs, value_json(graph, &info));
    if (!c->json) print_value(graph, "output", &info);
  }
  if (!c->json)
    printf("nodes    %lld\nparameters %lld, %lld bytes\nMACs     %lld per sample\n", (long long)facts.nodes,
           (long long)facts.parameters, (long long)facts.bytes, (long long)facts.macs);
  json_object_set_new(c->result, "format", json_string(format));
  json_object_set_new(c->result, "stage", json_string(intact_stage_text(intact_graph_stage(graph))));
  json_object_set_new(c->result, "nodes", json_integer(facts.nodes));
  json_object_set_new(c->result, "parameters", json_integer(facts.parameters));
  json_object_set_new(c->result, "macs", json_integer(facts.macs));
  json_object_set_new(c->result, "bytes", json_integer(facts.bytes));
  json_object_set_new(c->result, "inputs", inputs);
  json_object_set_new(c->result, "outputs", outputs);
  json_object_set_new(c->result, "unsupported", json_array());
  return print_float_nodes(c, graph);
}

/* Float -> qdq by the default quantizer, calibrated on --data. */
static intact_status quantize(cli *c, intact_graph **graph, bool *wrong_use) {
  intact_data *data = NULL;
  intact_graph *quantized = NULL;
  intact_status status = cli_open_data(c, *graph, "--data", &data, wrong_use);
  if (status == INTACT_OK) status = intact_quantize(*graph, data, NULL, &quantized, NULL);
  intact_data_close(data);
  if (status != INTACT_OK) return status;
  intact_graph_destroy(*graph);
  *graph = quantized;
  return INTACT_OK;
}

/* Brings the graph to the stage asked for. */
static int reach_stage(cli *c, intact_graph **graph, const char *stage) {
  const intact_stage now = intact_graph_stage(*graph);
  int want = -1;
  for (int s = INTACT_STAGE_FLOAT; s <= INTACT_STAGE_INTEGER; s++)
    if (strcmp(stage, intact_stage_text((intact_stage)s)) == 0) want = s;
  if (want < 0) return cli_wrong_use(c, "there is no stage '%s': float observed qdq integer", stage);
  if (want < (int)now || (now != INTACT_STAGE_FLOAT && want == INTACT_STAGE_OBSERVED))
    return cli_wrong_use(c, "the model is at stage %s; stage %s comes before it", intact_stage_text(now), stage);
  intact_status status = INTACT_OK;
  if (now == INTACT_STAGE_FLOAT && want == INTACT_STAGE_OBSERVED) {
    const intact_quantize_options defaults = intact_quantize_default_options();
    status = intact_annotate(*graph, &defaults);
    if (status == INTACT_OK) status = intact_prepare(*graph);
  } else if (now == INTACT_STAGE_FLOAT && want > INTACT_STAGE_OBSERVED) {
    bool wrong_use = false;
    status = quantize(c, graph, &wrong_use);
    if (wrong_use) return CLI_WRONG_USE;
  }
  if (status == INTACT_OK && want == INTACT_STAGE_INTEGER && now != INTACT_STAGE_INTEGER) status = intact_to_integer(*graph);
  return status == INTACT_OK ? CLI_DONE : cli_failed(c);
}

static int print_stage(cli *c, intact_graph **graph, const char *stage) {
  const int code = reach_stage(c, graph, stage);
  if (code != CLI_DONE) return code;
  char *text = NULL;
  if (intact_graph_print(*graph, &text) != INTACT_OK) return cli_failed(c);
  if (c->json)
    json_object_set_new(c->result, "graph", json_string(text));
  else
    fputs(text, stdout);
  intact_text_destroy(c->context, text);
  return CLI_DONE;
}

static int run(cli *c) {
  const char *path = c->positional[0], *format;
  if (intact_file_format(c->context, path, &format) != INTACT_OK) return cli_failed(c);
  if (strcmp(format, "onnx") != 0 && strcmp(format, "intact") != 0) return inspect_tensors(c, path);
  intact_graph *graph;
  if (intact_model_read(c->context, path, &graph) != INTACT_OK) return cli_failed(c);
  const char *stage = cli_get(c, "--stage");
  int code = stage ? print_stage(c, &graph, stage) : CLI_DONE;
  if (code == CLI_DONE && (!stage || c->json)) code = print_facts(c, graph, format);
  intact_graph_destroy(graph);
  return code;
}

const intact_verb intact_verb_inspect = {
    .name = "inspect",
    .arguments = "FILE",
    .doc = "Shows a model (nodes, shapes, parameters, MACs, ops without an integer kernel) or a tensor file.",
    .options = options,
    .run = run};
