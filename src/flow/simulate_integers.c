/* SPDX-License-Identifier: Apache-2.0 */
/* The integer program of a network in training, made anew from its numbers of the moment. */
#include "flow/simulate_integers.h"

#include "graph/graph.h"
#include "intact/qat.h"
#include "intact/run.h"

static intact_status make_program(const intact_graph *graph, intact_graph **integer, intact_program **program) {
  intact_graph *copy;
  INTACT_TRY(intact_graph_copy(graph, &copy));
  intact_status status = intact_qat_set_mode(copy, INTACT_QAT_ACTIVATIONS | INTACT_QAT_WEIGHTS, INTACT_QAT_FROZEN);
  if (status == INTACT_OK) status = intact_convert(copy);
  if (status == INTACT_OK) status = intact_to_integer(copy);
  if (status == INTACT_OK) status = intact_program_create(copy, program);
  if (status != INTACT_OK) {
    intact_graph_destroy(copy);
    return status;
  }
  *integer = copy;
  return INTACT_OK;
}

intact_status intact__simulate_integers(void *user, const intact_graph *graph, const intact_tensor *const *inputs,
                                        intact_tensor **outputs) {
  intact_graph *integer;
  intact_program *program;
  (void)user;
  INTACT_TRY(make_program(graph, &integer, &program));
  const intact_status status = intact_program_run(program, inputs, outputs);
  intact_program_destroy(program);
  intact_graph_destroy(integer);
  return status;
}
