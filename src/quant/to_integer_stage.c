/* SPDX-License-Identifier: Apache-2.0 */
/* q/dq graph -> integer graph. */
#include "graph/pass.h"
#include "intact/quant.h"

intact_status intact_to_integer(intact_graph *graph) {
  if (graph->stage != INTACT_STAGE_QDQ)
    INTACT_FAIL(graph->context, WRONG_USE, graph->name, "only a q/dq network becomes an integer one; this one is at stage %s",
                intact_stage_text(graph->stage));
  return intact__run_passes(graph, INTACT_STAGE_QDQ, INTACT_STAGE_INTEGER);
}
