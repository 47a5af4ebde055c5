/* SPDX-License-Identifier: Apache-2.0 */
/* From a float network to a trained integer one: prepare, train, convert, and check that the integers compute what was trained. */
#include "flow/simulate_integers.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "intact/comm.h"
#include "intact/quant.h"
#include "intact/run.h"
#include "quant/equalize_norms.h"

void intact_train_border_layers(const intact_graph *graph, const char **first, const char **last) {
  *first = *last = NULL;
  for (const intact_node *node = graph->first; node; node = node->next) {
    const int weight = intact__operand_with_role(node->op, INTACT_ROLE_WEIGHT);
    if (weight < 0 || weight >= node->n_operands || !node->operands[weight]->constant) continue;
    if (!*first) *first = node->name;
    *last = node->name;
  }
}

/* ---- the check ---- */
/* The scale that output i of a q/dq graph is a multiple of; 0: none. */
static float output_scale(const intact_graph *qdq, int i) {
  const intact_node *node = qdq->outputs[i]->producer;
  const intact_qparams *qparams = qdq->outputs[i]->qparams;
  if (!qparams && intact__is_op(node, "dequantize")) qparams = node->operands[0]->qparams;
  return qparams && qparams->n == 1 ? qparams->scale[0] : 0;
}

static void compare_outputs(const intact_graph *qdq, intact_tensor *const *a, intact_tensor *const *b, intact_train_outcome *outcome) {
  for (int i = 0; i < qdq->n_outputs; i++) {
    const float scale = output_scale(qdq, i);
    for (int64_t k = 0; k < a[i]->count && k < b[i]->count; k++) {
      const double gap = fabs(intact__tensor_get_f64(a[i], k) - intact__tensor_get_f64(b[i], k));
      const double steps = scale > 0 ? rint(gap / (double)scale) : NAN;
      outcome->compared++;
      outcome->differing += scale > 0 ? steps >= 1 : gap > 0;
      if (gap > outcome->max_abs) outcome->max_abs = gap;
      if (!(steps <= outcome->max_steps)) outcome->max_steps = steps;
    }
  }
}

static intact_status compare_batch(const intact_graph *trained, bool simulated, intact_program *program, const intact_graph *qdq, intact_data *data,
                                   int64_t first, int64_t count, intact_train_outcome *outcome) {
  const size_t n = (size_t)trained->n_inputs, m = (size_t)trained->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(trained->context, n + 2 * m, sizeof *tensors);
  if (!tensors) return intact__no_memory(trained->context, (n + 2 * m) * sizeof *tensors);
  const intact_tensor *const *inputs = (const intact_tensor *const *)tensors;
  intact_status status = intact_data_batch(data, first, count, tensors);
  if (status == INTACT_OK) {
    status = simulated ? intact__simulate_integers(NULL, trained, inputs, tensors + n)
                       : intact_graph_interpret(trained, inputs, true, tensors + n);
  }
  if (status == INTACT_OK) status = intact_program_run(program, inputs, tensors + n + m);
  if (status == INTACT_OK) compare_outputs(qdq, tensors + n, tensors + n + m, outcome);
  for (size_t i = 0; i < n + 2 * m; i++) intact_tensor_destroy(tensors[i]);
  intact__free(trained->context, tensors);
  return status;
}

static intact_status check_all(const intact_graph *trained, bool simulated, intact_data *data, intact_train_outcome *outcome) {
  enum { BATCH = 32, SAMPLES = 512 };
  intact_graph *integer;
  intact_program *program;
  INTACT_TRY(intact_graph_copy(outcome->qdq, &integer));
  intact_status status = intact_to_integer(integer);
  if (status == INTACT_OK) status = intact_program_create(integer, &program);
  if (status == INTACT_OK) {
    const int64_t count = intact_data_count(data) < SAMPLES ? intact_data_count(data) : SAMPLES;
    for (int64_t first = 0; first < count && status == INTACT_OK; first += BATCH) {
      status = compare_batch(trained, simulated, program, outcome->qdq, data, first, count - first < BATCH ? count - first : BATCH, outcome);
    }
    intact_program_destroy(program);
  }
  intact_graph_destroy(integer);
  return status;
}

/* Channels whose ranges differ much are made alike before scales are put on them. */
static intact_status equalize(intact_graph *graph, intact_data *data, const intact_qat_options *qat) {
  const intact_qat_options defaults = intact_qat_default_options();
  const intact_quantize_options *options = &(qat ? qat : &defaults)->quantize;
  if (!options->equalize || graph->stage != INTACT_STAGE_FLOAT) return INTACT_OK;
  intact_note_list notes;
  intact__notes_init(&notes, graph->context);
  const intact_status status = intact__equalize_with_norms(graph, options, data, &notes);
  intact__notes_fini(&notes);
  return status;
}

intact_status intact_train_for_integers(intact_graph *graph, intact_data *data, const intact_tensor *labels,
                                        const intact_train_options *options, const intact_qat_options *qat, intact_train_log *log,
                                        intact_train_outcome *outcome) {
  intact_train_outcome made = {0};
  intact_train_log own = {0};
  if (!data || !labels || !outcome)
    INTACT_FAIL(graph->context, WRONG_USE, "", "a training for integers needs samples, their labels, and a place for what it makes");
  INTACT_TRY(equalize(graph, data, qat));
  INTACT_TRY(intact_prepare_qat(graph, qat));
  intact_train_options with = options ? *options : intact_train_default_options();
  if (with.simulate_integers) with.stand_in = intact__simulate_integers;
  INTACT_TRY(intact_train(graph, data, labels, &with, &own));
  intact_status status = intact_qat_set_mode(graph, INTACT_QAT_ACTIVATIONS | INTACT_QAT_WEIGHTS, INTACT_QAT_FROZEN);
  if (status == INTACT_OK) status = intact_graph_copy(graph, &made.qdq);
  if (status == INTACT_OK) status = intact_convert(made.qdq);
  if (status == INTACT_OK) status = check_all(graph, with.simulate_integers, data, &made);
  if (status != INTACT_OK) {
    intact_graph_destroy(made.qdq);
    intact_train_log_destroy(graph->context, &own);
    return status;
  }
  *outcome = made;
  if (log)
    *log = own;
  else
    intact_train_log_destroy(graph->context, &own);
  return INTACT_OK;
}
