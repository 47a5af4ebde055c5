/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of passes and their driver. */
#include <string.h>

#include "graph/pass.h"

#define INTACT_PASS(name) extern const intact_pass intact_pass_##name;
#include "passes/passes.def"
#undef INTACT_PASS

const intact_pass *const intact__passes[] = {
#define INTACT_PASS(name) &intact_pass_##name,
#include "passes/passes.def"
#undef INTACT_PASS
};
const int intact__n_passes = sizeof intact__passes / sizeof intact__passes[0];

const intact_pass *intact__find_pass(const char *name) {
  for (int i = 0; i < intact__n_passes; i++)
    if (strcmp(intact__passes[i]->name, name) == 0) return intact__passes[i];
  return NULL;
}

static intact_status run_in_bodies(const intact_pass *pass, intact_graph *graph, int64_t *changed) {
  INTACT_TRY(pass->run(graph, changed));
  for (intact_node *node = graph->first; node; node = node->next)
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(run_in_bodies(pass, node->bodies[b], changed));
  intact__graph_remove_dead(graph);
  graph->stage = pass->gives;
  return INTACT_OK;
}

intact_status intact__run_passes(intact_graph *graph, intact_stage from, intact_stage to) {
  for (int i = 0; i < intact__n_passes; i++) {
    const intact_pass *pass = intact__passes[i];
    if (pass->needs < from || pass->gives > to || pass->needs != graph->stage) continue;
    int64_t changed = 0;
    if (run_in_bodies(pass, graph, &changed) != INTACT_OK)
      return intact__fail_in(graph->context, "pass %s", pass->name);
    intact__log(graph->context, INTACT_LOG_DEBUG, "pass %s: %lld places", pass->name, (long long)changed);
  }
  return intact_graph_verify(graph);
}
