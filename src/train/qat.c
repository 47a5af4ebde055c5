/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization-aware training: making a float network ready for it, and its switches. */
#include "intact/qat.h"

#include "graph/fake_quantizer.h"
#include "graph/pass.h"
#include "quant/batch_norm_fold.h"
#include "quant/prepare.h"

intact_qat_options intact_qat_default_options(void) { return (intact_qat_options){.quantize = intact_quantize_default_options()}; }

/* ---- widths ---- */

static intact_status check_bits(const intact_graph *graph, const char *what, int bits) {
  if (bits == 0 || (bits >= 2 && bits <= 8)) return INTACT_OK;
  INTACT_FAIL(graph->context, OUT_OF_RANGE, "", "quantization-aware training: %s of %d bits; 2 to 8 are possible", what, bits);
}

/* The integers of `bits` within the type. Few levels are all used: -2..1 with two bits. */
static void narrow(intact_quant_spec *spec, int bits) {
  const int64_t steps = INT64_C(1) << bits;
  if (spec->dtype != INTACT_U8 && spec->dtype != INTACT_S8) return;
  spec->quant_min = spec->dtype == INTACT_U8 ? 0 : -steps / 2;
  spec->quant_max = spec->dtype == INTACT_U8 ? steps - 1 : steps / 2 - 1;
}

static void narrow_wish(intact_wish *wish, int bits) {
  if (bits > 0 && bits < 8 && wish->kind == INTACT_WISH_OWN) narrow(&wish->spec, bits);
}

/* The widths of a node: for each kind the first pattern that matches and says something of it, else that of the network. */
static void widths_of(const intact_node *node, const intact_qat_options *options, int *activation, int *weight) {
  *activation = *weight = 0;
  for (int i = 0; i < options->n_bits; i++) {
    if (!intact__glob(options->bits[i].pattern, node->name)) continue;
    if (!*activation) *activation = options->bits[i].activation_bits;
    if (!*weight) *weight = options->bits[i].weight_bits;
  }
  if (!*activation) *activation = options->activation_bits;
  if (!*weight) *weight = options->weight_bits;
}

/* The width of a value: the largest that a layer which it flows into asks for, also by way of nodes that only move or clamp it; 8 when
   no layer reads it (what is added up, or averaged). */
static int value_bits(const intact_value *value, const intact_qat_options *options) {
  int most = 0;
  for (const intact_use *use = value->uses; use; use = use->next) {
    int activation = 0, weight;
    if (intact__operand_with_role(use->node->op, INTACT_ROLE_WEIGHT) >= 0)
      widths_of(use->node, options, &activation, &weight);
    else if (use->node->op->quant.result == INTACT_RESULT_SAME_AS && use->node->n_results == 1)
      activation = value_bits(use->node->results[0], options);
    else
      continue;
    if (activation == 0) activation = 8;
    if (activation > most) most = activation;
  }
  return most > 0 ? most : 8;
}

static void narrow_node(const intact_node *node, const intact_qat_options *options) {
  int activation, weight;
  widths_of(node, options, &activation, &weight);
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (value) narrow_wish(&node->annotation->operands[i], value->constant ? weight : value_bits(value, options));
  }
  for (int r = 0; r < node->n_results; r++) narrow_wish(&node->annotation->results[r], value_bits(node->results[r], options));
}

/* A pattern that names nothing is a slip; names before and after the passes count. */
static void count_named(const intact_graph *graph, const intact_qat_options *options, bool *named) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    for (int i = 0; i < options->n_bits; i++) named[i] = named[i] || intact__glob(options->bits[i].pattern, node->name);
    for (int b = 0; b < node->n_bodies; b++) count_named(node->bodies[b], options, named);
  }
}

static intact_status check_patterns(intact_context *context, const intact_qat_options *options, const bool *named) {
  for (int i = 0; i < options->n_bits; i++) {
    if (named[i]) continue;
    INTACT_FAIL(context, WRONG_USE, options->bits[i].pattern, "no node is named '%s' (pattern of nodes with other bits); `intact inspect` lists "
                "them", options->bits[i].pattern);
  }
  return INTACT_OK;
}

static intact_status narrow_all(intact_graph *graph, const intact_qat_options *options) {
  INTACT_TRY(check_bits(graph, "activations", options->activation_bits));
  INTACT_TRY(check_bits(graph, "weights", options->weight_bits));
  for (int i = 0; i < options->n_bits; i++) {
    INTACT_TRY(check_bits(graph, options->bits[i].pattern, options->bits[i].activation_bits));
    INTACT_TRY(check_bits(graph, options->bits[i].pattern, options->bits[i].weight_bits));
  }
  for (intact_node *node = graph->first; node; node = node->next) {
    if (node->annotation) narrow_node(node, options);
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(narrow_all(node->bodies[b], options));
  }
  return INTACT_OK;
}

/* ---- prepare ---- */

static bool is_annotated(const intact_graph *graph) {
  for (const intact_node *node = graph->first; node; node = node->next)
    if (node->annotation) return true;
  return false;
}

/* Batch norms that a training export left in training form compute from batches; from here on the trainable decides that. */
static void evaluate_norms(intact_graph *graph) {
  for (intact_node *node = graph->first; node; node = node->next)
    if (intact__is_op(node, "batch_norm") && node->n_operands > 4) intact__attr_set_int(node, "training", 0);
}

static intact_status prepare(intact_graph *graph, const intact_qat_options *options, intact_norm_memories *memories, intact_note_list *notes) {
  intact_fake_plan plan = {0};
  INTACT_TRY(intact__fake_quantizer_parse(graph->context, options->fake_quantizer ? options->fake_quantizer : "fused", &plan.activation,
                                          &plan.activation_options));
  INTACT_TRY(intact__fake_quantizer_parse(graph->context,
                                          options->weight_fake_quantizer ? options->weight_fake_quantizer : "fused:averaging_constant=1",
                                          &plan.weight, &plan.weight_options));
  evaluate_norms(graph);
  if (!options->keep_batch_norm) {
    INTACT_TRY(intact__remember_norms(graph, memories));
    INTACT_TRY(intact__run_passes(graph, INTACT_STAGE_FLOAT, INTACT_STAGE_FLOAT));
  }
  if (!is_annotated(graph)) INTACT_TRY(intact__annotate(graph, &options->quantize, notes));
  INTACT_TRY(narrow_all(graph, options));
  INTACT_TRY(intact__prepare_for_training(graph, &plan, notes));
  INTACT_TRY(intact__unfold_norms(graph, memories, false));
  return intact_graph_verify(graph);
}

intact_status intact_prepare_qat(intact_graph *graph, const intact_qat_options *options) {
  const intact_qat_options defaults = intact_qat_default_options();
  if (graph->stage != INTACT_STAGE_FLOAT)
    INTACT_FAIL(graph->context, WRONG_USE, graph->name, "only a float network can be prepared for training; this one is at stage %s",
                intact_stage_text(graph->stage));
  intact_norm_memories memories = {.context = graph->context};
  intact_note_list notes;
  intact__notes_init(&notes, graph->context);
  if (!options) options = &defaults;
  bool *named = intact__alloc_zeroed(graph->context, (size_t)options->n_bits + 1, sizeof *named);
  if (!named) return intact__no_memory(graph->context, (size_t)options->n_bits);
  count_named(graph, options, named);
  intact_status status = prepare(graph, options, &memories, &notes);
  if (status == INTACT_OK) {
    count_named(graph, options, named);
    status = check_patterns(graph->context, options, named);
  }
  intact__free(graph->context, named);
  intact__notes_fini(&notes);
  intact__forget_norms(&memories);
  return status;
}

/* ---- switches ---- */

intact_status intact_qat_set_mode(intact_graph *graph, unsigned roles, intact_qat_mode mode) {
  static const intact_fake_mode modes[] = {INTACT_FAKE_FLOAT, INTACT_FAKE_OBSERVE, INTACT_FAKE_ESTIMATE, INTACT_FAKE_FROZEN, INTACT_FAKE_LEARN};
  if ((unsigned)mode > INTACT_QAT_LEARN)
    INTACT_FAIL(graph->context, OUT_OF_RANGE, graph->name, "mode %d of fake quantization: there are 0 to %d", (int)mode, (int)INTACT_QAT_LEARN);
  return intact__graph_set_fake_mode(graph, roles, modes[mode]);
}

intact_qat_schedule intact_qat_default_schedule(void) {
  return (intact_qat_schedule){.fake_quantize_at = 0, .freeze_observers_at = -1, .learn_at = -1, .freeze_batch_norm_at = -1};
}

static bool reached(int64_t at, int64_t step) { return at >= 0 && step >= at; }

intact_status intact_qat_apply_schedule(intact_graph *graph, intact_trainable *trainable, const intact_qat_schedule *schedule, int64_t step) {
  intact_qat_mode mode = INTACT_QAT_OBSERVE;
  if (reached(schedule->fake_quantize_at, step)) mode = INTACT_QAT_ESTIMATE;
  if (reached(schedule->freeze_observers_at, step)) mode = INTACT_QAT_FROZEN;
  if (reached(schedule->learn_at, step)) mode = INTACT_QAT_LEARN;
  INTACT_TRY(intact_qat_set_mode(graph, INTACT_QAT_ACTIVATIONS | INTACT_QAT_WEIGHTS, mode));
  if (trainable) intact_trainable_freeze_batch_norm(trainable, reached(schedule->freeze_batch_norm_at, step));
  return INTACT_OK;
}
