/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: plans per input shape, one activation arena, the loop over steps. */
#include "run/program.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "intact/io.h"
#include "intact/quant.h"

enum { PLANS_KEPT = 8 };

/* The program of a body of a planned graph's node. */
typedef struct body_program {
  const intact_plan *plan; /* whose graph the body belongs to */
  const intact_graph *body;
  intact_program *program;
} body_program;

struct intact_program {
  intact_context *context;
  intact_graph *graph; /* with open shapes */
  intact_plan *plans[PLANS_KEPT]; /* the last used first */
  int n_plans;
  uint8_t *memory; /* activation arena of all plans: one runs at a time */
  size_t memory_bytes;
  body_program *bodies;
  size_t n_bodies, bodies_capacity;
  bool time_steps;
};

/* One run. */
typedef struct running {
  intact_program *program;
  intact_plan *plan;
  const intact_tensor *const *inputs;
  intact_tensor **made;    /* by output: tensors that steps write into */
  intact_tensor **dynamic; /* by buffer: tensors of shapes that were not known before */
  intact_tap_fn tap;
  void *user;
  int next_look;
} running;

/* ---- creation ---- */
static intact_status to_runnable(intact_graph *graph) {
  intact_context *context = graph->context;
  if (graph->stage == INTACT_STAGE_OBSERVED)
    INTACT_FAIL(context, WRONG_USE, graph->name, "a graph of stage observed can't become a program: convert it first");
  if (graph->stage != INTACT_STAGE_QDQ) return INTACT_OK;
#if defined(INTACT_FULL)
  return intact_to_integer(graph);
#else
  INTACT_FAIL(context, WRONG_USE, graph->name,
              "a graph of stage qdq can't become a program here: the runtime library takes integer and float graphs; export it as "
              ".intact with the full library");
#endif
}

static intact_status create_program(const intact_graph *graph, intact_program **program) {
  intact_context *context = graph->context;
  intact_program *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(context, sizeof *made);
  made->context = context;
  intact_status status = intact_graph_copy(graph, &made->graph);
  if (status == INTACT_OK) status = to_runnable(made->graph);
  if (status != INTACT_OK) {
    intact_program_destroy(made);
    return status;
  }
  *program = made;
  return INTACT_OK;
}

intact_status intact_program_create(const intact_graph *graph, intact_program **program) {
  INTACT_TRY(intact_graph_verify(graph));
  return create_program(graph, program);
}

intact_status intact_program_load(intact_context *context, const char *path, intact_program **program) {
  intact_graph *graph = NULL;
  INTACT_TRY(intact_model_read(context, path, &graph));
  const intact_status status = intact_program_create(graph, program);
  intact_graph_destroy(graph);
  return status;
}

/* Lets go of a plan and of the programs of its bodies. */
static void drop_plan(intact_program *program, intact_plan *plan) {
  size_t kept = 0;
  for (size_t i = 0; i < program->n_bodies; i++) {
    if (program->bodies[i].plan == plan) {
      intact_program_destroy(program->bodies[i].program);
    } else {
      program->bodies[kept++] = program->bodies[i];
    }
  }
  program->n_bodies = kept;
  intact__plan_destroy(plan);
}

void intact_program_destroy(intact_program *program) {
  if (program == NULL) return;
  for (int i = 0; i < program->n_plans; i++) drop_plan(program, program->plans[i]);
  intact__free(program->context, program->bodies);
  intact_graph_destroy(program->graph);
  intact__free(program->context, program->memory);
  intact__free(program->context, program);
}

/* ---- plans ---- */
static bool plan_fits(const intact_plan *plan, const intact_tensor *const *inputs) {
  const intact_graph *graph = plan->graph;
  for (int i = 0; i < graph->n_inputs; i++) {
    const intact_value *input = graph->inputs[i];
    if (inputs[i]->dtype != input->dtype || !intact__shape_equal(inputs[i]->rank, inputs[i]->dims, input->rank, input->dims))
      return false;
  }
  return true;
}

/* The plan for these shapes as plans[0]. */
static intact_status find_plan(intact_program *program, const intact_tensor *const *inputs) {
  for (int i = 0; i < program->n_plans; i++) {
    intact_plan *plan = program->plans[i];
    if (!plan_fits(plan, inputs)) continue;
    memmove(&program->plans[1], &program->plans[0], (size_t)i * sizeof program->plans[0]);
    program->plans[0] = plan;
    return INTACT_OK;
  }
  intact_plan *made = NULL;
  INTACT_TRY(intact__plan_create(program->graph, inputs, &made));
  if (program->n_plans == PLANS_KEPT) drop_plan(program, program->plans[--program->n_plans]);
  memmove(&program->plans[1], &program->plans[0], (size_t)program->n_plans * sizeof program->plans[0]);
  program->plans[0] = made;
  program->n_plans++;
  return INTACT_OK;
}

static intact_status reserve_memory(intact_program *program, size_t bytes) {
  if (bytes <= program->memory_bytes) return INTACT_OK;
  intact__free(program->context, program->memory);
  program->memory_bytes = 0;
  program->memory = intact__alloc(program->context, bytes, 1);
  if (program->memory == NULL) return intact__no_memory(program->context, bytes);
  program->memory_bytes = bytes;
  return INTACT_OK;
}

/* ---- running ---- */
static void *address(const running *run, int index) {
  if (index < 0) return NULL;
  const intact_buffer *buffer = &run->plan->buffers[index];
  switch (buffer->place) {
    case INTACT_PLACE_INPUT:
      return run->inputs[buffer->index]->data;
    case INTACT_PLACE_CONSTANT:
      return buffer->data;
    case INTACT_PLACE_ARENA:
      return run->program->memory + buffer->offset;
    case INTACT_PLACE_OUTPUT:
      return run->made[buffer->index]->data;
    case INTACT_PLACE_DYNAMIC:
      break;
  }
  return run->dynamic[index] != NULL ? run->dynamic[index]->data : NULL;
}

/* A handle on a value's rows in a buffer. */
static intact_status handle_on(const running *run, const intact_value *value, int buffer, intact_tensor **tensor) {
  if (run->plan->buffers[buffer].place == INTACT_PLACE_DYNAMIC) {
    const intact_tensor *dynamic = run->dynamic[buffer];
    assert(dynamic != NULL);
    return intact_tensor_share(dynamic, dynamic->rank, NULL, tensor);
  }
  return intact_tensor_borrow(run->program->context, value->dtype, value->rank, value->dims, address(run, buffer), tensor);
}

static intact_status keep_dynamic(const running *run, const intact_planned_step *step, intact_tensor **results) {
  const intact_node *node = step->step.node;
  for (int i = 0; i < node->n_results; i++) {
    const int index = step->out_buffers[i];
    if (run->plan->buffers[index].place == INTACT_PLACE_DYNAMIC) {
      intact_tensor_destroy(run->dynamic[index]);
      run->dynamic[index] = results[i];
      results[i] = NULL;
      continue;
    }
    const intact_value *value = node->results[i];
    if (results[i]->dtype != value->dtype || !intact__shape_equal(results[i]->rank, results[i]->dims, value->rank, value->dims))
      INTACT_FAIL(run->program->context, SIZE_MISMATCH, node->name, "result %s of node %s has another shape than planned", value->name,
                  node->name);
    if (intact_tensor_bytes(results[i]) > 0) memcpy(address(run, index), results[i]->data, intact_tensor_bytes(results[i]));
  }
  return INTACT_OK;
}

/* Bodies are programs of their own, planned at their first run. */
static intact_status run_body(void *user, const intact_graph *body, const intact_tensor *const *inputs, intact_tensor **outputs) {
  const running *run = user;
  intact_program *program = run->program;
  for (size_t i = 0; i < program->n_bodies; i++)
    if (program->bodies[i].body == body) return intact_program_run(program->bodies[i].program, inputs, outputs);
  void *array = program->bodies;
  INTACT_TRY(intact__reserve(program->context, &array, &program->bodies_capacity, program->n_bodies + 1, sizeof *program->bodies));
  program->bodies = array;
  intact_program *made = NULL;
  INTACT_TRY(create_program(body, &made));
  program->bodies[program->n_bodies++] = (body_program){run->plan, body, made};
  return intact_program_run(made, inputs, outputs);
}

static intact_status run_dynamic(running *run, const intact_planned_step *step) {
  const intact_node *node = step->step.node;
  intact_context *context = run->program->context;
  const size_t n = (size_t)node->n_operands + (size_t)node->n_results;
  intact_tensor **tensors = intact__alloc_zeroed(context, n, sizeof(intact_tensor *));
  if (tensors == NULL) return intact__no_memory(context, n * sizeof(intact_tensor *));
  intact_tensor **results = tensors + node->n_operands;
  intact_status status = INTACT_OK;
  for (int i = 0; i < node->n_operands; i++)
    if (node->operands[i] != NULL) INTACT_TRY_TO(done, handle_on(run, node->operands[i], step->in_buffers[i], &tensors[i]));
  const intact_interp_options options = {.fast = true, .run_body = run_body, .run_body_user = run};
  INTACT_TRY_TO(done, intact__eval_node_with(node, (const intact_tensor *const *)tensors, &options, results));
  status = keep_dynamic(run, step, results);
done:
  for (size_t i = 0; i < n; i++) intact_tensor_destroy(tensors[i]);
  intact__free(context, tensors);
  return status;
}

static intact_status run_step(running *run, intact_planned_step *step) {
  if (step->kind == INTACT_STEP_DYNAMIC) return run_dynamic(run, step);
  for (int i = 0; i < step->n_in; i++) step->in[i] = address(run, step->in_buffers[i]);
  for (int i = 0; i < step->n_out; i++) step->out[i] = address(run, step->out_buffers[i]);
  step->scratch = address(run, step->scratch_buffer);
  const intact_step_call call = {
      .context = run->program->context, .step = &step->step, .in = step->in, .out = step->out, .scratch = step->scratch};
  return step->step.run(&call);
}

/* Shows the values that are there after `step`. */
static intact_status show(running *run, int step) {
  const intact_plan *plan = run->plan;
  for (; run->next_look < plan->n_looks && plan->looks[run->next_look].after <= step; run->next_look++) {
    const intact_look *look = &plan->looks[run->next_look];
    const intact_value *value = look->value;
    intact_tensor *seen = NULL, *rows = NULL;
    INTACT_TRY(handle_on(run, value, look->buffer, &seen));
    intact_status status = INTACT_OK;
    intact_relayout shape;
    if (look->channels_last && intact__relayout_of(value, false, &shape)) {
      status = intact__tensor_create_raw(plan->context, value->dtype, value->rank, value->dims, &rows);
      if (status == INTACT_OK) intact__relayout(&shape, seen->data, rows->data);
    }
    if (status == INTACT_OK) status = run->tap(run->user, value, rows != NULL ? rows : seen);
    intact_tensor_destroy(rows);
    intact_tensor_destroy(seen);
    INTACT_TRY(status);
  }
  return INTACT_OK;
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static intact_status run_steps(running *run) {
  intact_plan *plan = run->plan;
  if (run->tap != NULL) INTACT_TRY(show(run, -1));
  for (int s = 0; s < plan->n_steps; s++) {
    const double start = run->program->time_steps ? milliseconds() : 0;
    INTACT_TRY(run_step(run, &plan->steps[s]));
    if (run->program->time_steps) plan->steps[s].ms = milliseconds() - start;
    if (run->tap != NULL) INTACT_TRY(show(run, s));
  }
  return INTACT_OK;
}

/* Tensors for the outputs that steps write into. */
static intact_status make_outputs(running *run) {
  const intact_graph *graph = run->plan->graph;
  for (int i = 0; i < graph->n_outputs; i++) {
    const intact_buffer *buffer = &run->plan->buffers[run->plan->outputs[i]];
    const intact_value *value = graph->outputs[i];
    if (buffer->place == INTACT_PLACE_OUTPUT && buffer->index == i)
      INTACT_TRY(intact__tensor_create_raw(run->program->context, value->dtype, value->rank, value->dims, &run->made[i]));
  }
  return INTACT_OK;
}

/* The other outputs: shared with one that was made, with a dynamic one, or copied. */
static intact_status finish_outputs(running *run) {
  const intact_graph *graph = run->plan->graph;
  for (int i = 0; i < graph->n_outputs; i++) {
    const int index = run->plan->outputs[i];
    const intact_buffer *buffer = &run->plan->buffers[index];
    const intact_value *value = graph->outputs[i];
    if (run->made[i] != NULL) continue;
    if (buffer->place == INTACT_PLACE_OUTPUT) {
      INTACT_TRY(intact_tensor_share(run->made[buffer->index], value->rank, value->dims, &run->made[i]));
    } else if (buffer->place == INTACT_PLACE_DYNAMIC) {
      INTACT_TRY(handle_on(run, value, index, &run->made[i]));
    } else {
      intact_tensor *made = NULL;
      INTACT_TRY(intact__tensor_create_raw(run->program->context, value->dtype, value->rank, value->dims, &made));
      if (buffer->bytes > 0) memcpy(made->data, address(run, index), buffer->bytes);
      run->made[i] = made;
    }
  }
  return INTACT_OK;
}

static intact_status run_plan(running *run) {
  INTACT_TRY(reserve_memory(run->program, run->plan->arena_bytes));
  INTACT_TRY(make_outputs(run));
  INTACT_TRY(run_steps(run));
  return finish_outputs(run);
}

intact_status intact__program_run_tapped(intact_program *program, const intact_tensor *const *inputs, intact_tap_fn tap,
                                         void *user, intact_tensor **outputs) {
  intact_context *context = program->context;
  INTACT_TRY(find_plan(program, inputs));
  running run = {.program = program, .plan = program->plans[0], .inputs = inputs, .tap = tap, .user = user};
  const size_t n_outputs = (size_t)run.plan->graph->n_outputs, n_buffers = (size_t)run.plan->n_buffers;
  run.made = intact__alloc_zeroed(context, n_outputs + n_buffers, sizeof(intact_tensor *));
  if (run.made == NULL) return intact__no_memory(context, (n_outputs + n_buffers) * sizeof(intact_tensor *));
  run.dynamic = run.made + n_outputs;
  const intact_status status = run_plan(&run);
  for (size_t i = 0; i < n_buffers; i++) intact_tensor_destroy(run.dynamic[i]);
  for (size_t i = 0; i < n_outputs; i++) {
    if (status == INTACT_OK) {
      outputs[i] = run.made[i];
    } else {
      intact_tensor_destroy(run.made[i]);
    }
  }
  intact__free(context, run.made);
  return status;
}

intact_status intact_program_run(intact_program *program, const intact_tensor *const *inputs, intact_tensor **outputs) {
  return intact__program_run_tapped(program, inputs, NULL, NULL, outputs);
}

/* ---- facts ---- */
const intact_plan *intact__program_plan(const intact_program *program) {
  return program->n_plans > 0 ? program->plans[0] : NULL;
}

int intact_program_input_count(const intact_program *program) { return intact_graph_input_count(program->graph); }
int intact_program_output_count(const intact_program *program) { return intact_graph_output_count(program->graph); }
intact_value_info intact_program_input(const intact_program *program, int index) {
  return intact_graph_input(program->graph, index);
}
intact_value_info intact_program_output(const intact_program *program, int index) {
  return intact_graph_output(program->graph, index);
}

int intact_program_step_count(const intact_program *program) { return program->n_plans > 0 ? program->plans[0]->n_steps : 0; }

intact_step_info intact_program_step(const intact_program *program, int index) {
  if (index < 0 || index >= intact_program_step_count(program)) return (intact_step_info){.name = "", .op = "", .kernel = ""};
  const intact_planned_step *step = &program->plans[0]->steps[index];
  return (intact_step_info){.name = step->name,
                            .op = step->op,
                            .kernel = step->step.kernel,
                            .integer = step->kind == INTACT_STEP_INTEGER || step->kind == INTACT_STEP_RELAYOUT,
                            .macs = step->step.macs,
                            .ms = step->ms};
}

void intact_program_time_steps(intact_program *program, bool on) { program->time_steps = on; }

size_t intact_program_arena_bytes(const intact_program *program) {
  return program->n_plans > 0 ? program->plans[0]->arena_bytes : 0;
}
