/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of iteration: loop (as often as a count and a condition say) and scan (over the slices of tensors). */
#include <string.h>

#include "ops/control.h"

enum { MOST_ITERATIONS = INT32_MAX, WIDENINGS = 2 * INTACT_MAX_RANK };

/* Widens the types of `n` carried inputs of the body (from `first` on) until its outputs (from `from` on) are of them too.
 */
static intact_status settle_carried(intact_infer *infer, intact_graph *body, int first, int from, int n) {
  bool changed = true;
  for (int round = 0; changed && round < WIDENINGS * (n + 1); round++) {
    changed = false;
    INTACT_TRY(intact__graph_infer(body));
    for (int i = 0; i < n; i++) {
      intact_value *input = body->inputs[first + i];
      const intact_value *output = body->outputs[from + i];
      bool own = input->rank == output->rank;
      for (int k = 0; k < input->rank && own; k++) own = input->dims[k] < 0 || input->dims[k] == output->dims[k];
      if (own && input->rank >= 0 && input->dtype == output->dtype) continue;
      INTACT_TRY(intact__join_type(infer, input, output, &changed));
    }
  }
  return INTACT_OK;
}

/* ---- loop: operands count, condition, carried .., captured ..; body inputs iteration, condition, carried .., captured ..;
   body outputs condition, carried .., collected .. ---- */

static intact_status loop_counts(intact_context *context, const intact_node *node, int *carried, int *collected) {
  int64_t n = intact__attr_int(node, "carried");
  if (n < 0 || n > node->n_operands - 2 || n > node->n_results) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name,
                "loop '%s': carried is %lld of %d operands and %d results; each carried value is "
                "an operand and a result",
                node->name, (long long)n, node->n_operands, node->n_results);
  }
  *carried = (int)n;
  *collected = node->n_results - (int)n;
  return intact__check_bodies(context, node, 1, node->n_operands, node->n_results + 1);
}

static intact_status loop_infer(intact_infer *infer) {
  intact_node *node = infer->node;
  int carried = 0, collected = 0;
  int64_t dims[INTACT_MAX_RANK + 1];
  INTACT_TRY(loop_counts(infer->context, node, &carried, &collected));
  intact_graph *body = node->bodies[0];
  body->inputs[0]->dtype = INTACT_S64;
  body->inputs[1]->dtype = INTACT_BOOL;
  body->inputs[0]->rank = body->inputs[1]->rank = 0;
  for (int k = 2; k < node->n_operands; k++) {
    if (node->operands[k] != NULL) intact__body_input_like(body, k, node->operands[k]);
  }
  INTACT_TRY(settle_carried(infer, body, 2, 1, carried));
  for (int i = 0; i < carried; i++) {
    const intact_value *value = body->inputs[2 + i];
    INTACT_TRY(intact__infer_result(infer, i, value->dtype, value->rank, value->dims));
  }
  for (int i = carried; i < node->n_results; i++) {
    const intact_value *value = body->outputs[1 + i];
    dims[0] = intact__infer_unknown_dim(infer);
    for (int k = 0; k < value->rank; k++) dims[k + 1] = value->dims[k];
    INTACT_TRY(intact__infer_result(infer, i, value->dtype, value->rank < 0 ? -1 : value->rank + 1, dims));
  }
  return INTACT_OK;
}

typedef struct loop_state {
  int n_now, carried, collected;
  intact_tensor **now;     /* n_now first inputs of the next round, owned; in a loop: iteration, condition, carried */
  intact_tensor **outputs; /* of a round */
  const intact_tensor **inputs;
  intact_pile *piles;
} loop_state;

/* One round of the body: `now` becomes the next round's, collected outputs are piled up. */
static intact_status loop_round(const intact_call *call, loop_state *state, int64_t iteration) {
  const intact_graph *body = call->node->bodies[0];
  intact__tensor_set_s64(state->now[0], 0, iteration);
  for (int k = 0; k < call->n_operands; k++) {
    state->inputs[k] = k < state->n_now ? state->now[k] : call->operands[k];
  }
  memset(state->outputs, 0, sizeof *state->outputs * (size_t)body->n_outputs);
  INTACT_TRY(intact__call_body(call, 0, state->inputs, state->outputs));
  for (int i = 0; i <= state->carried; i++) {
    intact_tensor_destroy(state->now[1 + i]);
    state->now[1 + i] = state->outputs[i];
    state->outputs[i] = NULL;
  }
  intact_status status = INTACT_OK;
  for (int i = 0; i < state->collected; i++) {
    intact_tensor *made = state->outputs[1 + state->carried + i];
    state->outputs[1 + state->carried + i] = NULL;
    if (status == INTACT_OK) {
      status = intact__pile_add(call->context, &state->piles[i], made);
    } else {
      intact_tensor_destroy(made);
    }
  }
  return status;
}

static void loop_close(const intact_call *call, loop_state *state) {
  for (int k = 0; state->now != NULL && k < state->n_now; k++) intact_tensor_destroy(state->now[k]);
  for (int i = 0; state->piles != NULL && i < state->collected; i++) intact__pile_clear(call->context, &state->piles[i]);
  intact__free(call->context, state->now);
  intact__free(call->context, state->outputs);
  intact__free(call->context, state->inputs);
  intact__free(call->context, state->piles);
}

/* Room, and the first round's inputs. */
static intact_status loop_open(const intact_call *call, loop_state *state) {
  intact_context *context = call->context;
  size_t n = (size_t)call->n_operands + (size_t)call->n_results + 3;
  state->now = intact__alloc_zeroed(context, n, sizeof *state->now);
  state->outputs = intact__alloc_zeroed(context, n, sizeof *state->outputs);
  state->inputs = intact__alloc_zeroed(context, n, sizeof *state->inputs);
  state->piles = intact__alloc_zeroed(context, n, sizeof *state->piles);
  if (state->now == NULL || state->outputs == NULL || state->inputs == NULL || state->piles == NULL) {
    return intact__no_memory(context, n * sizeof(void *));
  }
  const intact_tensor *condition = call->operands[1];
  INTACT_TRY(intact_tensor_create(context, INTACT_S64, 0, NULL, &state->now[0]));
  INTACT_TRY(intact_tensor_create(context, INTACT_BOOL, 0, NULL, &state->now[1]));
  intact__tensor_set_s64(state->now[1], 0,
                         condition == NULL || condition->count == 0 || intact__tensor_get_s64(condition, 0) != 0);
  for (int i = 0; i < state->carried; i++)
    INTACT_TRY(intact_tensor_share(call->operands[2 + i], call->operands[2 + i]->rank, NULL, &state->now[2 + i]));
  return INTACT_OK;
}

static bool goes_on(const loop_state *state) {
  const intact_tensor *condition = state->now[1];
  return condition->count > 0 && intact__tensor_get_s64(condition, 0) != 0;
}

static intact_status loop_eval(const intact_call *call) {
  loop_state state = {0};
  INTACT_TRY(loop_counts(call->context, call->node, &state.carried, &state.collected));
  const intact_tensor *count = call->operands[0];
  int64_t rounds = count != NULL && count->count > 0 ? intact__tensor_get_s64(count, 0) : INT64_MAX;
  state.n_now = state.carried + 2;
  intact_status status = loop_open(call, &state);
  for (int64_t i = 0; status == INTACT_OK && i < rounds && goes_on(&state); i++) {
    if (i == MOST_ITERATIONS) {
      status = intact__fail(call->context, INTACT_OUT_OF_RANGE, call->node->name, __FILE__, __LINE__,
                            "loop '%s': does not end within %d rounds", call->node->name, MOST_ITERATIONS);
      break;
    }
    status = loop_round(call, &state, i);
  }
  for (int i = 0; status == INTACT_OK && i < state.carried; i++) {
    intact_tensor *value = NULL;
    status = intact_tensor_share(state.now[2 + i], state.now[2 + i]->rank, NULL, &value);
    if (status == INTACT_OK) status = intact__give_result(call, i, value->dtype, value);
  }
  for (int i = 0; status == INTACT_OK && i < state.collected; i++) {
    const intact_value *like = call->node->bodies[0]->outputs[1 + state.carried + i];
    status = intact__pile_stack(call, state.carried + i, &state.piles[i], 0, false, like);
  }
  loop_close(call, &state);
  return status;
}

const intact_op intact_op_loop = {
    .name = "loop",
    .doc =
        "Runs body 0 `count` times while the condition holds; carried values go from round to round, further outputs are "
        "collected.",
    .schema = {INTACT_OPERANDS({"count", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"condition", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"inputs", INTACT_ROLE_NONE, INTACT_VARIADIC}),
               .n_results = -1, INTACT_ATTRS(INTACT_A_INT("carried", 0))},
    .infer = loop_infer,
    .eval_f32 = loop_eval,
    .grad = intact__control_grad,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    /* loop_body: operands behind the second are carried; outer values that the body reads are operands behind those */
    .aliases = INTACT_ALIASES(INTACT_ONNX_AS("Loop", "body=", "loop_body")),
};

/* ---- scan: operands states .., scanned .., captured ..; body inputs states .., one slice of each scanned .., captured ..;
   body outputs states .., collected .. ---- */

typedef struct scan_counts {
  int states, scanned, collected;
} scan_counts;

static intact_status count_scan(intact_context *context, const intact_node *node, scan_counts *counts) {
  int64_t states = intact__attr_int(node, "states"), scanned = intact__attr_int(node, "scanned");
  if (states < 0 || scanned < 1 || states > node->n_results || scanned > node->n_operands - states) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name,
                "scan '%s': %lld states and %lld scanned tensors of %d operands and %d results; "
                "at least one must be scanned and each state is an operand and a result",
                node->name, (long long)states, (long long)scanned, node->n_operands, node->n_results);
  }
  *counts = (scan_counts){(int)states, (int)scanned, node->n_results - (int)states};
  return intact__check_bodies(context, node, 1, node->n_operands, node->n_results);
}

/* Entry i of a list attribute, 0 when it is absent. */
static int64_t entry(const intact_node *node, const char *name, int i) {
  const intact_attr *list = intact__attr(node, name);
  return i < list->n ? list->ints[i] : 0;
}

static intact_status scan_infer(intact_infer *infer) {
  intact_node *node = infer->node;
  scan_counts counts;
  int64_t dims[INTACT_MAX_RANK + 1], length = INT64_MIN;
  INTACT_TRY(count_scan(infer->context, node, &counts));
  intact_graph *body = node->bodies[0];
  for (int k = 0; k < node->n_operands; k++) {
    bool slice = k >= counts.states && k < counts.states + counts.scanned;
    intact__body_input_like(body, k, node->operands[k]);
    if (!slice || node->operands[k]->rank < 0) continue;
    int axis = 0;
    const intact_value *x = node->operands[k];
    INTACT_TRY(
        intact__op_axis(infer->context, node, "input_axes", entry(node, "input_axes", k - counts.states), x->rank, &axis));
    if (x->rank == 0) INTACT_TRY(intact__op_axis(infer->context, node, "input_axes", 1, 0, &axis));
    if (length == INT64_MIN || length < 0) length = x->dims[axis];
    for (int d = axis; d + 1 < x->rank; d++) body->inputs[k]->dims[d] = x->dims[d + 1];
    body->inputs[k]->rank = x->rank - 1;
  }
  INTACT_TRY(settle_carried(infer, body, 0, 0, counts.states));
  for (int i = 0; i < counts.states; i++) {
    const intact_value *value = body->inputs[i];
    INTACT_TRY(intact__infer_result(infer, i, value->dtype, value->rank, value->dims));
  }
  if (length == INT64_MIN) length = intact__infer_unknown_dim(infer);
  for (int i = counts.states; i < node->n_results; i++) {
    const intact_value *value = body->outputs[i];
    int axis = 0;
    if (value->rank < 0) {
      INTACT_TRY(intact__infer_result(infer, i, value->dtype, -1, NULL));
      continue;
    }
    INTACT_TRY(intact__op_axis(infer->context, node, "output_axes", entry(node, "output_axes", i - counts.states),
                               value->rank + 1, &axis));
    for (int k = 0, from = 0; k <= value->rank; k++) dims[k] = k == axis ? length : value->dims[from++];
    INTACT_TRY(intact__infer_result(infer, i, value->dtype, value->rank + 1, dims));
  }
  return INTACT_OK;
}

/* Slice `at` of x along an axis as a tensor of its own. */
static intact_status take_slice(const intact_tensor *x, int axis, int64_t at, intact_tensor **slice) {
  intact_view dense = intact__view_of(x), from = {.offset = at * dense.strides[axis]};
  for (int k = 0; k < x->rank; k++) {
    if (k != axis) intact__view_add_axis(&from, dense.dims[k], dense.strides[k]);
  }
  INTACT_TRY(intact__tensor_create_raw(x->context, x->dtype, from.rank, from.dims, slice));
  intact_view to = intact__view_dense(from.rank, from.dims);
  intact__view_copy(*slice, &to, x, &from);
  return INTACT_OK;
}

/* Length of the scanned axes, which must agree; their places in axes. */
static intact_status scan_length(const intact_call *call, const scan_counts *counts, int *axes, int64_t *length) {
  for (int i = 0; i < counts->scanned; i++) {
    const intact_tensor *x = call->operands[counts->states + i];
    INTACT_TRY(
        intact__op_axis(call->context, call->node, "input_axes", entry(call->node, "input_axes", i), x->rank, &axes[i]));
    if (x->rank > 0 && i == 0) *length = x->dims[axes[i]];
    if (x->rank > 0 && x->dims[axes[i]] == *length) continue;
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name,
                "scan '%s': the scanned tensors have different lengths along their "
                "axes; they must agree",
                call->node->name);
  }
  return INTACT_OK;
}

static intact_status scan_round(const intact_call *call, const scan_counts *counts, const int *axes, int64_t length,
                                int64_t round, loop_state *state) {
  intact_status status = INTACT_OK;
  for (int k = 0; k < call->n_operands && status == INTACT_OK; k++) {
    int scanned = k - counts->states;
    if (scanned >= 0 && scanned < counts->scanned) {
      int64_t at = entry(call->node, "input_directions", scanned) != 0 ? length - 1 - round : round;
      intact_tensor_destroy(state->now[k]);
      state->now[k] = NULL;
      status = take_slice(call->operands[k], axes[scanned], at, &state->now[k]);
    }
    state->inputs[k] = k < state->n_now ? state->now[k] : call->operands[k];
  }
  INTACT_TRY(status);
  memset(state->outputs, 0, sizeof *state->outputs * (size_t)call->n_results);
  INTACT_TRY(intact__call_body(call, 0, state->inputs, state->outputs));
  for (int i = 0; i < call->n_results; i++) {
    if (i < counts->states) {
      intact_tensor_destroy(state->now[i]);
      state->now[i] = state->outputs[i];
    } else if (status == INTACT_OK) {
      status = intact__pile_add(call->context, &state->piles[i - counts->states], state->outputs[i]);
    } else {
      intact_tensor_destroy(state->outputs[i]);
    }
  }
  return status;
}

static intact_status scan_results(const intact_call *call, const scan_counts *counts, loop_state *state) {
  for (int i = 0; i < counts->states; i++) {
    intact_tensor *value = NULL;
    INTACT_TRY(intact_tensor_share(state->now[i], state->now[i]->rank, NULL, &value));
    INTACT_TRY(intact__give_result(call, i, value->dtype, value));
  }
  for (int i = 0; i < counts->collected; i++) {
    const intact_pile *pile = &state->piles[i];
    const intact_value *like = call->node->bodies[0]->outputs[counts->states + i];
    int axis = 0, rank = pile->n > 0 ? pile->tensors[0]->rank : like->rank < 0 ? 0 : like->rank;
    INTACT_TRY(
        intact__op_axis(call->context, call->node, "output_axes", entry(call->node, "output_axes", i), rank + 1, &axis));
    INTACT_TRY(
        intact__pile_stack(call, counts->states + i, pile, axis, entry(call->node, "output_directions", i) != 0, like));
  }
  return INTACT_OK;
}

static intact_status scan_eval(const intact_call *call) {
  intact_context *context = call->context;
  scan_counts counts;
  INTACT_TRY(count_scan(context, call->node, &counts));
  loop_state state = {.n_now = counts.states + counts.scanned, .collected = counts.collected};
  size_t n = (size_t)call->n_operands + (size_t)call->n_results + 1;
  int64_t length = 0;
  state.now = intact__alloc_zeroed(context, n, sizeof *state.now);
  state.outputs = intact__alloc_zeroed(context, n, sizeof *state.outputs);
  state.inputs = intact__alloc_zeroed(context, n, sizeof *state.inputs);
  state.piles = intact__alloc_zeroed(context, n, sizeof *state.piles);
  int *axes = intact__alloc_zeroed(context, n, sizeof *axes);
  bool room = state.now != NULL && state.outputs != NULL && state.inputs != NULL && state.piles != NULL && axes != NULL;
  intact_status status = room ? scan_length(call, &counts, axes, &length) : intact__no_memory(context, n * sizeof(void *));
  for (int i = 0; status == INTACT_OK && i < counts.states; i++) {
    status = intact_tensor_share(call->operands[i], call->operands[i]->rank, NULL, &state.now[i]);
  }
  for (int64_t i = 0; status == INTACT_OK && i < length; i++) status = scan_round(call, &counts, axes, length, i, &state);
  if (status == INTACT_OK) status = scan_results(call, &counts, &state);
  intact__free(context, axes);
  loop_close(call, &state);
  return status;
}

const intact_op intact_op_scan = {
    .name = "scan",
    .doc =
        "Runs body 0 for each slice of the scanned tensors; states go from round to round, further outputs are collected.",
    .schema = {INTACT_OPERANDS({"inputs", INTACT_ROLE_NONE, INTACT_VARIADIC}), .n_results = -1,
               INTACT_ATTRS(INTACT_A_INT("states", 0), INTACT_A_INT("scanned", 1), INTACT_A_INTS("input_axes"),
                            INTACT_A_INTS("output_axes"), INTACT_A_INTS("input_directions"),
                            INTACT_A_INTS("output_directions"))},
    .infer = scan_infer,
    .eval_f32 = scan_eval,
    .grad = intact__control_grad,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    /* scan_body: num_scan_inputs is scanned, the operands before are states; outer values that the body reads are operands
       behind */
    .aliases = INTACT_ALIASES(
        INTACT_ONNX_AS("Scan",
                       "body=,num_scan_inputs=scanned,scan_input_axes=input_axes,scan_output_axes=output_axes,"
                       "scan_input_directions=input_directions,scan_output_directions=output_directions",
                       "scan_body")),
};
