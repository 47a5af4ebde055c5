/* SPDX-License-Identifier: Apache-2.0 */
/* intact export: a model in another format. */
#include <string.h>

#include "cli.h"

static const cli_option options[] = {{"-o", "OUT", "the file to write; its extension names the format"},
                                     {"--style", "S", "a variant of the format, where it has some"},
                                     {NULL, NULL, NULL}};

static int run(cli *c) {
  const char *out = cli_get(c, "-o");
  if (!out) return cli_wrong_use(c, "-o is needed: the file to write; 'intact formats' lists the extensions");
  intact_graph *graph;
  if (intact_model_read(c->context, c->positional[0], &graph) != INTACT_OK) return cli_failed(c);
  const size_t n = strlen(out);
  intact_status status = INTACT_OK;
  if (n > 7 && strcmp(out + n - 7, ".intact") == 0 && intact_graph_stage(graph) == INTACT_STAGE_QDQ)
    status = intact_to_integer(graph); /* what the runtime half wants */
  const int64_t nodes = intact_graph_node_count(graph);
  if (status == INTACT_OK) status = intact_model_write(graph, out, cli_get(c, "--style"));
  intact_graph_destroy(graph);
  if (status != INTACT_OK) return cli_failed(c);
  json_object_set_new(c->result, "bytes", json_integer(cli_file_bytes(out)));
  json_object_set_new(c->result, "nodes", json_integer(nodes));
  if (!c->json) printf("wrote %s: %lld nodes, %lld bytes\n", out, (long long)nodes, (long long)cli_file_bytes(out));
  return CLI_DONE;
}

const intact_verb intact_verb_export = {
    .name = "export", .arguments = "MODEL", .doc = "Writes a model in another format.", .options = options, .run = run};
