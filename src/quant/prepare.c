/* SPDX-License-Identifier: Apache-2.0 */
/* Annotated graph -> observed graph: one observation per group, observe nodes (for training fake_quantize nodes) on the edges it
   stands for. */
#include "quant/prepare.h"

#include "ops/ops.h"
#include "quant/annotate.h"
#include "quant/groups.h"

typedef struct prepare_state {
  intact_graph *graph;
  const intact_op *observe, *fake_quantize;
  const intact_fake_plan *fakes; /* NULL: only observed */
  intact_groups groups;
  intact_observation **observations; /* by group */
} prepare_state;

static intact_status observation_of(prepare_state *state, int32_t group, const intact_value *value, intact_observation **observation) {
  intact_context *context = state->graph->context;
  const intact_wish *wish = state->groups.wish[group];
  const intact_fake_plan *fakes = state->fakes;
  *observation = state->observations[group];
  if (*observation) return INTACT_OK;
  if (fakes) {
    const bool weight = value->constant != NULL;
    const int axis = wish->spec.axis;
    INTACT_TRY(intact__fake_observation(context, wish, weight ? fakes->weight : fakes->activation,
                                        weight ? fakes->weight_options : fakes->activation_options, weight,
                                        axis >= 0 && axis < value->rank ? value->dims[axis] : 1, observation));
  } else {
    INTACT_TRY(intact__observation_create(context, &wish->spec, observation));
    (*observation)->fixed_scale = wish->kind == INTACT_WISH_FIXED ? wish->fixed_scale : 1.0f;
    (*observation)->fixed_zero_point = wish->fixed_zero_point;
  }
  state->observations[group] = *observation;
  return INTACT_OK;
}

/* A learned pair as constants that share its elements: what training updates. */
static intact_status add_learned(prepare_state *state, const intact_observation *observation, const char *base, intact_value **operands) {
  intact_graph *graph = state->graph;
  intact_tensor *const pair[2] = {observation->fake->scale, observation->fake->zero_point};
  static const char *const suffixes[2] = {"scale", "zero_point"};
  for (int i = 0; i < 2; i++) {
    intact_tensor *shared;
    const char *wanted = intact__arena_format(&graph->arena, "%s_%s", base, suffixes[i]);
    const char *name = wanted ? intact__graph_fresh_name(graph, wanted) : NULL;
    if (!name) return intact__no_memory(graph->context, 0);
    INTACT_TRY(intact_tensor_share(pair[i], 0, NULL, &shared));
    INTACT_TRY(intact__graph_add_constant(graph, name, shared, NULL, &operands[i]));
  }
  return INTACT_OK;
}

static bool is_learned(const prepare_state *state, const intact_value *value, const intact_observation *observation) {
  if (!state->fakes || !observation->spec.observer) return false;
  return (value->constant ? state->fakes->weight : state->fakes->activation)->is_learned;
}

/* An observe or fake_quantize node on `value`. Without training a constant is seen here, once. */
static intact_status insert(prepare_state *state, int32_t group, intact_value *value, intact_node *before,
                            intact_node **observer) {
  intact_graph *graph = state->graph;
  intact_observation *observation = NULL;
  INTACT_TRY(observation_of(state, group, value, &observation));
  const char *base = intact__arena_format(&graph->arena, state->fakes ? "%s_fake_quantize" : "%s_observed", value->name);
  const char *name = base ? intact__graph_fresh_name(graph, base) : NULL;
  if (!name) return intact__no_memory(graph->context, 0);
  intact_node *node = NULL;
  intact_value *operands[3] = {value};
  const bool learned = is_learned(state, value, observation);
  if (learned) INTACT_TRY(add_learned(state, observation, value->name, operands + 1));
  INTACT_TRY(intact__graph_add_node(graph, state->fakes ? state->fake_quantize : state->observe, name, learned ? 3 : 1, operands, 1, NULL,
                                    before, &node));
  node->observation = intact__observation_retain(observation);
  INTACT_TRY(intact__node_infer(node));
  if (!state->fakes && value->constant && !observation->frozen) {
    INTACT_TRY(intact__observation_update(observation, value->constant));
    observation->frozen = true;
  }
  *observer = node;
  return INTACT_OK;
}

/* The observe node of this observation that reads the value already. */
static intact_node *existing(const intact_value *value, const intact_observation *observation) {
  for (const intact_use *use = value->uses; use; use = use->next)
    if (observation && use->node->observation == observation) return use->node;
  return NULL;
}

static intact_status prepare_operand(prepare_state *state, intact_node *node, int operand) {
  int32_t group = intact__group_of(&state->groups, intact__operand_edge(node, operand));
  intact_value *value = node->operands[operand];
  if (group < 0 || !value) return INTACT_OK;
  intact_observation *observation = state->observations[group];
  if (value->producer && observation && value->producer->observation == observation) return INTACT_OK;
  /* A result that shares its group without being observed gets its qparams when it is converted. */
  if (value->producer && value->producer->annotation &&
      intact__group_of(&state->groups, intact__result_edge(value->producer, value->result)) == group)
    return INTACT_OK;
  intact_node *observer = existing(value, observation);
  if (!observer) INTACT_TRY(insert(state, group, value, node, &observer));
  intact__node_set_operand(node, operand, observer->results[0]);
  return INTACT_OK;
}

static intact_status prepare_result(prepare_state *state, intact_node *node, int result) {
  int32_t group = intact__group_of(&state->groups, intact__result_edge(node, result));
  const bool passive = group >= 0 && node->annotation->results[result].passive;
  /* Passive values that arithmetic made (averages) are put on the grid too where quantization is simulated, but not observed. */
  if (group < 0 || (passive && (!state->fakes || node->op->on_integers))) return INTACT_OK;
  intact_value *value = node->results[result];
  intact_node *observer = NULL;
  INTACT_TRY(insert(state, group, value, node->next, &observer));
  if (passive) intact__attr_set_int(observer, "observe", 0);
  intact__value_replace_uses(value, observer->results[0]);
  intact__node_set_operand(observer, 0, value);
  return INTACT_OK;
}

static intact_status prepare_graph(intact_graph *graph, const intact_fake_plan *fakes, intact_note_list *notes) {
  prepare_state state = {.graph = graph,
                         .observe = intact__find_op("observe"),
                         .fake_quantize = intact__find_op("fake_quantize"),
                         .fakes = fakes};
  INTACT_TRY(intact__groups_solve(graph, notes, &state.groups));
  intact_status status = INTACT_OK;
  state.observations = intact__alloc_zeroed(graph->context, (size_t)state.groups.n_edges + 1, sizeof *state.observations);
  if (!state.observations) INTACT_TRY_TO(done, intact__no_memory(graph->context, (size_t)state.groups.n_edges));
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (node->annotation) {
      for (int i = 0; i < node->n_operands; i++) INTACT_TRY_TO(done, prepare_operand(&state, node, i));
      for (int r = 0; r < node->n_results; r++) INTACT_TRY_TO(done, prepare_result(&state, node, r));
    }
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY_TO(done, prepare_graph(node->bodies[b], fakes, notes));
  }
  graph->stage = INTACT_STAGE_OBSERVED;
done:
  for (int32_t i = 0; state.observations && i < state.groups.n_edges; i++)
    intact__observation_release(state.observations[i]);
  intact__free(graph->context, state.observations);
  intact__groups_fini(&state.groups);
  return status;
}

intact_status intact__prepare_for_training(intact_graph *graph, const intact_fake_plan *fakes, intact_note_list *notes) {
  return prepare_graph(graph, fakes, notes);
}

intact_status intact__prepare(intact_graph *graph, intact_note_list *notes) {
  if (graph->stage != INTACT_STAGE_FLOAT)
    INTACT_FAIL(graph->context, WRONG_USE, graph->name, "prepare needs a float network with annotations; this one is at stage %s",
                intact_stage_text(graph->stage));
  return prepare_graph(graph, NULL, notes);
}

intact_status intact_prepare(intact_graph *graph) {
  intact_note_list notes;
  intact__notes_init(&notes, graph->context);
  intact_status status = intact__prepare(graph, &notes);
  intact__notes_fini(&notes);
  return status;
}
