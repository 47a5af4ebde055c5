/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to plan: buffers, steps, lifetimes, places in the arena. */
#include "plan/plan.h"

#include <assert.h>
#include <string.h>

#include "plan/memory.h"

typedef struct builder {
  intact_plan *plan;
  intact_graph *graph;
  size_t steps_capacity, buffers_capacity, looks_capacity;
} builder;

/* ---- lists ---- */
static intact_status grow(builder *b, void **array, size_t *capacity, int n, size_t size) {
  if (n >= INT32_MAX / 2) INTACT_FAIL(b->plan->context, OVERFLOW, "", "the network has too many steps");
  return intact__reserve(b->plan->context, array, capacity, (size_t)n + 1, size);
}

static intact_status add_buffer(builder *b, intact_buffer buffer, int *index) {
  intact_plan *plan = b->plan;
  void *array = plan->buffers;
  INTACT_TRY(grow(b, &array, &b->buffers_capacity, plan->n_buffers, sizeof *plan->buffers));
  plan->buffers = array;
  buffer.first = plan->n_steps;
  buffer.last = plan->n_steps;
  plan->buffers[plan->n_buffers] = buffer;
  *index = plan->n_buffers++;
  return INTACT_OK;
}

static intact_status add_step(builder *b, intact_step_kind kind, int n_in, int n_out, intact_planned_step **step) {
  intact_plan *plan = b->plan;
  void *array = plan->steps;
  INTACT_TRY(grow(b, &array, &b->steps_capacity, plan->n_steps, sizeof *plan->steps));
  plan->steps = array;
  intact_planned_step *made = &plan->steps[plan->n_steps];
  memset(made, 0, sizeof *made);
  made->kind = kind;
  made->n_in = n_in;
  made->n_out = n_out;
  made->in_buffers = intact__arena_alloc(&plan->arena, (size_t)n_in, sizeof *made->in_buffers);
  made->out_buffers = intact__arena_alloc(&plan->arena, (size_t)n_out, sizeof *made->out_buffers);
  made->in = intact__arena_alloc(&plan->arena, (size_t)n_in, sizeof *made->in);
  made->out = intact__arena_alloc(&plan->arena, (size_t)n_out, sizeof *made->out);
  if (made->in_buffers == NULL || made->out_buffers == NULL || made->in == NULL || made->out == NULL)
    return intact__no_memory(plan->context, (size_t)n_in * sizeof *made->in);
  made->step.kernel = "";
  made->scratch_buffer = -1;
  plan->n_steps++;
  *step = made;
  return INTACT_OK;
}

static intact_status add_look(builder *b, const intact_value *value) {
  intact_plan *plan = b->plan;
  void *array = plan->looks;
  INTACT_TRY(grow(b, &array, &b->looks_capacity, plan->n_looks, sizeof *plan->looks));
  plan->looks = array;
  const intact_home home = plan->homes[value->id];
  const bool last = home.rows < 0;
  plan->looks[plan->n_looks++] = (intact_look){
      .after = plan->n_steps - 1, .buffer = last ? home.channels_last : home.rows, .channels_last = last, .value = value};
  return INTACT_OK;
}

/* ---- buffers of values ---- */
static bool known_bytes(const intact_value *value, size_t *bytes) {
  int64_t count;
  return value->rank >= 0 && intact__shape_bytes(value->dtype, value->rank, value->dims, &count, bytes);
}

static intact_status new_buffer(builder *b, const intact_value *value, int *index) {
  intact_buffer buffer = {.place = INTACT_PLACE_ARENA};
  if (!known_bytes(value, &buffer.bytes)) buffer.place = INTACT_PLACE_DYNAMIC;
  return add_buffer(b, buffer, index);
}

static intact_status add_constant(builder *b, const intact_value *value) {
  intact_buffer buffer = {.place = INTACT_PLACE_CONSTANT, .data = value->constant->data, .bytes = intact_tensor_bytes(value->constant)};
  return add_buffer(b, buffer, &b->plan->homes[value->id].rows);
}

/* The other form of a value, by a step or, for constants, at once. */
static intact_status relayout(builder *b, const intact_value *value, bool to_channels_last) {
  intact_plan *plan = b->plan;
  intact_home *home = &plan->homes[value->id];
  int *to = to_channels_last ? &home->channels_last : &home->rows;
  const int from = to_channels_last ? home->rows : home->channels_last;
  assert(*to < 0 && from >= 0);
  if (intact__orders_agree(value)) {
    *to = from;
    return INTACT_OK;
  }
  intact_relayout *shape = intact__arena_alloc(&plan->arena, 1, sizeof *shape);
  if (shape == NULL) return intact__no_memory(plan->context, sizeof *shape);
  if (!intact__relayout_of(value, to_channels_last, shape))
    INTACT_FAIL(plan->context, UNSUPPORTED_TYPE, value->name, "value %s of type %s can't change its layout", value->name,
                intact_dtype_text(value->dtype));
  if (value->constant != NULL) {
    intact_buffer buffer = {.place = INTACT_PLACE_CONSTANT, .bytes = intact_tensor_bytes(value->constant)};
    buffer.data = intact__arena_alloc(&plan->arena, buffer.bytes, 1);
    if (buffer.data == NULL) return intact__no_memory(plan->context, buffer.bytes);
    intact__relayout(shape, value->constant->data, buffer.data);
    return add_buffer(b, buffer, to);
  }
  intact_planned_step *step = NULL;
  INTACT_TRY(new_buffer(b, value, to));
  INTACT_TRY(add_step(b, INTACT_STEP_RELAYOUT, 1, 1, &step));
  step->name = value->name;
  step->op = "relayout";
  step->step.run = intact__run_relayout_step;
  step->step.params = shape;
  step->in_buffers[0] = from;
  step->out_buffers[0] = *to;
  return INTACT_OK;
}

static intact_status home_of(builder *b, const intact_value *value, bool channels_last, int *buffer) {
  intact_home *home = &b->plan->homes[value->id];
  int *wanted = channels_last ? &home->channels_last : &home->rows;
  if (*wanted < 0) INTACT_TRY(relayout(b, value, channels_last));
  *buffer = *wanted;
  return INTACT_OK;
}

/* Whether a node of this layout reads operand i channels last. */
static bool operand_last(const intact_node *node, int i, bool channels_last) {
  const intact_value *operand = node->operands[i];
  if (!channels_last || operand->qparams == NULL || operand->rank < 3) return false;
  return intact__operand_spec(node->op, i)->role == INTACT_ROLE_ACTIVATION;
}

/* ---- steps of nodes ---- */
static intact_status lower_node(builder *b, intact_planned_step *step, const intact_node *node, bool channels_last) {
  intact_plan *plan = b->plan;
  intact_lower lower = {.context = plan->context,
                        .arena = &plan->arena,
                        .node = node,
                        .requantize = b->graph->requantize,
                        .isa_set = intact__isa_set(plan->context),
                        .channels_last = channels_last,
                        .step = &step->step};
  INTACT_TRY(node->op->lower_int(&lower));
  assert(step->step.run != NULL);
  if (step->step.kernel == NULL) step->step.kernel = "";
  if (step->step.scratch_bytes == 0) return INTACT_OK;
  return add_buffer(b, (intact_buffer){.place = INTACT_PLACE_ARENA, .bytes = step->step.scratch_bytes}, &step->scratch_buffer);
}

static intact_status add_node(builder *b, const intact_node *node, bool channels_last) {
  intact_plan *plan = b->plan;
  const char *why;
  const bool dynamic = intact__plan_is_dynamic(node), integer = !dynamic && intact__plan_is_integer(node, &why);
  int *in = intact__arena_alloc(&plan->arena, (size_t)node->n_operands, sizeof *in);
  if (in == NULL) return intact__no_memory(plan->context, (size_t)node->n_operands * sizeof *in);
  for (int i = 0; i < node->n_operands; i++) {
    in[i] = -1;
    if (node->operands[i] != NULL)
      INTACT_TRY(home_of(b, node->operands[i], operand_last(node, i, channels_last), &in[i]));
  }
  int *out = intact__arena_alloc(&plan->arena, (size_t)node->n_results, sizeof *out);
  if (out == NULL) return intact__no_memory(plan->context, (size_t)node->n_results * sizeof *out);
  for (int i = 0; i < node->n_results; i++) {
    const intact_value *result = node->results[i];
    const bool last = channels_last && i == 0 && result->rank >= 3 && result->qparams != NULL;
    intact_home *home = &plan->homes[result->id];
    INTACT_TRY(new_buffer(b, result, last ? &home->channels_last : &home->rows));
    out[i] = last ? home->channels_last : home->rows;
  }
  intact_planned_step *step = NULL;
  INTACT_TRY(add_step(b, dynamic ? INTACT_STEP_DYNAMIC : integer ? INTACT_STEP_INTEGER : INTACT_STEP_FLOAT, node->n_operands,
                      node->n_results, &step));
  step->name = node->name;
  step->op = node->op->name;
  step->step.node = node;
  for (int i = 0; i < node->n_operands; i++) step->in_buffers[i] = in[i];
  for (int i = 0; i < node->n_results; i++) step->out_buffers[i] = out[i];
  step->step.macs = node->op->macs != NULL ? node->op->macs(node) : 0;
  if (!integer) {
    step->step.run = dynamic ? NULL : intact__run_float_step;
    return INTACT_OK;
  }
  INTACT_TRY(lower_node(b, step, node, channels_last));
  for (int i = 0; i < node->n_operands && i < 64; i++)
    if ((step->step.packed >> i & 1u) != 0) step->in_buffers[i] = -1;
  return INTACT_OK;
}

/* Reshapes and the like share the operand's rows. */
static bool is_alias(const intact_node *node) {
  if (!node->op->same_elements || intact__plan_is_dynamic(node) || node->n_results != 1) return false;
  const intact_value *x = node->operands[0], *y = node->results[0];
  if (x->dtype != y->dtype) return false;
  return x->qparams == NULL ? y->qparams == NULL : y->qparams != NULL && intact__node_on_integers(node);
}

static intact_status add_nodes(builder *b, const bool *channels_last) {
  int n = 0;
  for (const intact_node *node = b->graph->first; node != NULL; node = node->next, n++) {
    if (is_alias(node)) {
      INTACT_TRY(home_of(b, node->operands[0], false, &b->plan->homes[node->results[0]->id].rows));
    } else {
      INTACT_TRY(add_node(b, node, channels_last[n]));
    }
    for (int i = 0; i < node->n_results; i++) INTACT_TRY(add_look(b, node->results[i]));
  }
  return INTACT_OK;
}

/* ---- ends ---- */
static intact_status add_inputs(builder *b) {
  intact_plan *plan = b->plan;
  for (int i = 0; i < b->graph->n_inputs; i++) {
    const intact_value *input = b->graph->inputs[i];
    intact_buffer buffer = {.place = INTACT_PLACE_INPUT, .index = i};
    if (!known_bytes(input, &buffer.bytes)) INTACT_FAIL(plan->context, INTERNAL, input->name, "input %s has no shape", input->name);
    INTACT_TRY(add_buffer(b, buffer, &plan->homes[input->id].rows));
    INTACT_TRY(add_look(b, input));
  }
  for (size_t i = 0; i < b->graph->n_values; i++)
    if (b->graph->values[i] != NULL && b->graph->values[i]->constant != NULL) INTACT_TRY(add_constant(b, b->graph->values[i]));
  return INTACT_OK;
}

/* Outputs are computed in their own tensors where possible; else they are copied after the last step. */
static intact_status add_outputs(builder *b) {
  intact_plan *plan = b->plan;
  plan->outputs = intact__arena_alloc(&plan->arena, (size_t)b->graph->n_outputs, sizeof *plan->outputs);
  if (plan->outputs == NULL) return intact__no_memory(plan->context, (size_t)b->graph->n_outputs * sizeof *plan->outputs);
  for (int i = 0; i < b->graph->n_outputs; i++) {
    INTACT_TRY(home_of(b, b->graph->outputs[i], false, &plan->outputs[i]));
    intact_buffer *buffer = &plan->buffers[plan->outputs[i]];
    if (buffer->place != INTACT_PLACE_ARENA) continue;
    buffer->place = INTACT_PLACE_OUTPUT;
    buffer->index = i;
  }
  return INTACT_OK;
}

/* ---- lifetimes ---- */
static void read_at(intact_plan *plan, int buffer, int step) {
  if (buffer >= 0 && plan->buffers[buffer].last < step) plan->buffers[buffer].last = step;
}

static void find_lifetimes(intact_plan *plan) {
  for (int i = 0; i < plan->n_buffers; i++) plan->buffers[i].first = INT32_MAX;
  for (int s = 0; s < plan->n_steps; s++) {
    const intact_planned_step *step = &plan->steps[s];
    for (int i = 0; i < step->n_out; i++) {
      plan->buffers[step->out_buffers[i]].first = s;
      plan->buffers[step->out_buffers[i]].last = s;
    }
    for (int i = 0; i < step->n_in; i++) read_at(plan, step->in_buffers[i], s);
    if (step->scratch_buffer >= 0) plan->buffers[step->scratch_buffer].first = plan->buffers[step->scratch_buffer].last = s;
  }
  for (int i = 0; i < plan->n_looks; i++) read_at(plan, plan->looks[i].buffer, plan->looks[i].after);
}

/* A step that may write over its first operand does so where nobody reads that operand later. */
static void run_in_place(intact_plan *plan, int *same_as) {
  for (int s = 0; s < plan->n_steps; s++) {
    const intact_planned_step *step = &plan->steps[s];
    if (!step->step.can_run_in_place || step->n_in == 0 || step->in_buffers[0] < 0) continue;
    int in = step->in_buffers[0];
    const int out = step->out_buffers[0];
    while (same_as[in] >= 0) in = same_as[in];
    intact_buffer *from = &plan->buffers[in], *to = &plan->buffers[out];
    if (from->place != INTACT_PLACE_ARENA || to->place != INTACT_PLACE_ARENA || from->last != s || from->bytes < to->bytes) continue;
    same_as[out] = in;
    from->last = to->last;
  }
}

static intact_status place_buffers(intact_plan *plan) {
  const size_t n = (size_t)plan->n_buffers;
  intact_lifetime *lifetimes = intact__alloc_zeroed(plan->context, n + 1, sizeof *lifetimes);
  size_t *offsets = intact__alloc(plan->context, n + 1, sizeof *offsets);
  int *same_as = intact__alloc(plan->context, n + 1, sizeof *same_as);
  intact_status status = INTACT_OK;
  if (lifetimes == NULL || offsets == NULL || same_as == NULL)
    INTACT_TRY_TO(done, intact__no_memory(plan->context, n * sizeof *lifetimes));
  for (size_t i = 0; i < n; i++) same_as[i] = -1;
  run_in_place(plan, same_as);
  for (size_t i = 0; i < n; i++) {
    const intact_buffer *buffer = &plan->buffers[i];
    if (buffer->place != INTACT_PLACE_ARENA || same_as[i] >= 0 || buffer->first > buffer->last) continue;
    lifetimes[i] = (intact_lifetime){.bytes = buffer->bytes, .first = buffer->first, .last = buffer->last};
  }
  INTACT_TRY_TO(done, intact__plan_memory(plan->context, n, lifetimes, offsets, &plan->arena_bytes));
  for (size_t i = 0; i < n; i++) {
    size_t root = i;
    while (same_as[root] >= 0) root = (size_t)same_as[root];
    plan->buffers[i].offset = offsets[root];
  }
done:
  intact__free(plan->context, lifetimes);
  intact__free(plan->context, offsets);
  intact__free(plan->context, same_as);
  return status;
}

/* ---- all of it ---- */
static intact_status build(builder *b) {
  intact_plan *plan = b->plan;
  intact_graph *graph = b->graph;
  INTACT_TRY(intact__plan_prepare(graph));
  plan->homes = intact__arena_alloc(&plan->arena, graph->n_values, sizeof *plan->homes);
  bool *channels_last = intact__alloc_zeroed(plan->context, (size_t)graph->n_nodes + 1, sizeof *channels_last);
  intact_status status = INTACT_OK;
  if (plan->homes == NULL || channels_last == NULL)
    INTACT_TRY_TO(done, intact__no_memory(plan->context, graph->n_values * sizeof *plan->homes));
  for (size_t i = 0; i < graph->n_values; i++) plan->homes[i] = (intact_home){-1, -1};
  INTACT_TRY_TO(done, intact__plan_layouts(graph, channels_last));
  INTACT_TRY_TO(done, add_inputs(b));
  INTACT_TRY_TO(done, add_nodes(b, channels_last));
  INTACT_TRY_TO(done, add_outputs(b));
  find_lifetimes(plan);
  status = place_buffers(plan);
done:
  intact__free(plan->context, channels_last);
  return status;
}

intact_status intact__plan_create(const intact_graph *graph, const intact_tensor *const *inputs, intact_plan **plan) {
  intact_context *context = graph->context;
  intact_plan *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(context, sizeof *made);
  made->context = context;
  intact__arena_init(&made->arena, context);
  builder b = {.plan = made};
  intact_status status = intact__graph_with_shapes(graph, inputs, &made->graph);
  b.graph = made->graph;
  if (status == INTACT_OK) status = build(&b);
  if (status != INTACT_OK) {
    intact__plan_destroy(made);
    return status;
  }
  *plan = made;
  return INTACT_OK;
}

void intact__plan_destroy(intact_plan *plan) {
  if (plan == NULL) return;
  intact_graph_destroy(plan->graph);
  intact__free(plan->context, plan->steps);
  intact__free(plan->context, plan->buffers);
  intact__free(plan->context, plan->looks);
  intact__arena_fini(&plan->arena);
  intact__free(plan->context, plan);
}
