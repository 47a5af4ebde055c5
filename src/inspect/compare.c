/* SPDX-License-Identifier: Apache-2.0 */
/* Two networks layer by layer. A is run once per batch with its values kept; B's values are compared as they are computed
   (accumulated error), and each node of B is run again on A's values (error made here). */
#include <math.h>
#include <string.h>

#include "inspect/counterparts.h"
#include "inspect/difference.h"
#include "inspect/headroom.h"
#include "inspect/report.h"
#include "quant/useful_range.h"
#include "run/program.h"

enum { BATCH = 16 };

/* What is compared at one value of B. */
typedef struct point {
  const intact_node *node;     /* of B */
  const intact_value *other;   /* A's value that B's result 0 stands for */
  intact_difference here, accumulated;
} point;

/* A's value of the batch. */
typedef struct kept_value {
  intact_tensor *tensor;
  const intact_qparams *qparams; /* of the tensor; NULL: plain */
} kept_value;

/* A network and how it is run. */
typedef struct side {
  const intact_graph *graph;
  intact_engine engine;
  intact_program *program; /* of INTACT_ENGINE_INT */
} side;

typedef struct comparison {
  intact_context *context;
  int64_t batch; /* samples at once */
  side a, b;
  intact_counterparts counterparts;
  kept_value *kept; /* per value id of A, for values that are someone's counterpart */
  bool *wanted;     /* per value id of A */
  point *points;
  int n_points;
  int *point_of;    /* per value id of B: index into points, -1 */
  intact_difference *outputs;
  double *max_steps;
} comparison;

static const intact_value *through_quantize(const intact_value *value) {
  while (value->producer && intact__changes_form(value->producer)) value = value->producer->operands[0];
  return value;
}

/* A layer computes: no quantize/dequantize, no pure data movement that keeps its operand's qparams. */
static bool is_layer(const intact_node *node) {
  return !intact__changes_form(node) && !node->op->quant.no_quantize && !node->op->on_integers;
}

/* What B's integers can hold, and the part of it that A's readers tell apart: a range that was cut to that part loses nothing. */
static intact_status set_range(const comparison *c, point *p, const intact_qparams *q) {
  intact_difference *d = &p->accumulated;
  d->low = d->high = NAN;
  d->least = -INFINITY;
  d->most = INFINITY;
  if (q && q->n == 1) {
    d->low = (double)q->scale[0] * ((double)q->quant_min - (double)q->zero_point[0] - 0.5);
    d->high = (double)q->scale[0] * ((double)q->quant_max - (double)q->zero_point[0] + 0.5);
    if (!c->counterparts.rescales[p->other->id].exponents) {
      const float span = (float)(d->high - d->low), bottom = (float)d->low - span, top = (float)d->high + span;
      float least = bottom, most = top;
      INTACT_TRY(intact__useful_range(p->other, &least, &most));
      if (least > bottom) d->least = (double)least;
      if (most < top) d->most = (double)most;
    }
  }
  p->here = *d;
  p->here.low = p->here.high = NAN;
  return INTACT_OK;
}

static intact_status choose_points(comparison *c, intact_arena *arena) {
  const intact_graph *b = c->b.graph;
  const intact_value **of = c->counterparts.of;
  c->points = intact__arena_alloc(arena, (size_t)b->n_nodes + 1, sizeof *c->points);
  c->point_of = intact__arena_alloc(arena, b->n_values + 1, sizeof *c->point_of);
  if (!c->points || !c->point_of) return intact__no_memory(c->context, 1);
  for (size_t i = 0; i < b->n_values; i++) c->point_of[i] = -1;
  for (const intact_node *node = b->first; node; node = node->next) {
    const intact_value *value = node->n_results ? node->results[0] : NULL;
    if (!value || !of[value->id] || !is_layer(node)) continue;
    point *p = &c->points[c->n_points];
    p->node = node;
    p->other = of[value->id];
    INTACT_TRY(set_range(c, p, value->qparams));
    c->point_of[value->id] = c->n_points++;
  }
  for (size_t i = 0; i < b->n_values; i++)
    if (of[i]) c->wanted[of[i]->id] = true;
  return INTACT_OK;
}

/* ---- running ---- */

/* Real values of a tensor as float32: shared when they are, dequantized or cast else. */
static intact_status real_values(const intact_tensor *tensor, const intact_qparams *q, intact_tensor **real) {
  if (q) return intact__dequantize_tensor(tensor, q, real);
  if (tensor->dtype == INTACT_F32) return intact_tensor_share(tensor, 0, NULL, real);
  return intact_tensor_cast(tensor, INTACT_F32, real);
}

static intact_status add_difference(intact_difference *d, const intact_tensor *a, const intact_qparams *qa, const intact_tensor *b,
                                    const intact_qparams *qb) {
  if (a->count != b->count) return INTACT_OK; /* another shape: not the same thing after all */
  intact_tensor *x = NULL, *y = NULL;
  intact_status status = real_values(a, qa, &x);
  if (status == INTACT_OK) status = real_values(b, qb, &y);
  if (status == INTACT_OK) intact__difference_add(d, x, y);
  intact_tensor_destroy(x);
  intact_tensor_destroy(y);
  return status;
}

/* The value of the network's own graph; a program shows those of its plan. NULL: there is none. */
static const intact_value *own_value(const side *s, const intact_value *seen) {
  if (s->program) return intact__graph_find_value(s->graph, seen->name);
  const bool inside = seen->id >= 0 && (size_t)seen->id < s->graph->n_values && s->graph->values[seen->id] == seen;
  return inside ? seen : NULL; /* else of a body */
}

static intact_status keep_a(void *user, const intact_value *seen, const intact_tensor *tensor) {
  comparison *c = user;
  const intact_value *value = own_value(&c->a, seen);
  if (!value || value->constant || !c->wanted[value->id]) return INTACT_OK;
  kept_value *kept = &c->kept[value->id];
  const intact_rescale *rescale = &c->counterparts.rescales[value->id];
  intact_tensor_destroy(kept->tensor);
  *kept = (kept_value){.qparams = rescale->exponents ? NULL : seen->qparams};
  if (!rescale->exponents && c->a.program) return intact_tensor_copy(tensor, &kept->tensor); /* its memory is used again */
  if (!rescale->exponents) return intact_tensor_share(tensor, 0, NULL, &kept->tensor);
  intact_tensor *real = NULL;
  intact_status status = real_values(tensor, seen->qparams, &real);
  if (status == INTACT_OK) status = intact__rescale(rescale, real, &kept->tensor);
  intact_tensor_destroy(real);
  return status;
}

static intact_status look_at_b(void *user, const intact_value *seen, const intact_tensor *tensor) {
  comparison *c = user;
  const intact_value *value = own_value(&c->b, seen);
  if (!value || c->point_of[value->id] < 0) return INTACT_OK;
  point *p = &c->points[c->point_of[value->id]];
  const kept_value *a = &c->kept[p->other->id];
  return a->tensor ? add_difference(&p->accumulated, a->tensor, a->qparams, tensor, seen->qparams) : INTACT_OK;
}

/* What B's node reads, made of A's values; NULL: A has nothing like it. */
static intact_status operand_here(const comparison *c, const intact_value *value, intact_tensor **operand) {
  if (value->constant) return intact_tensor_share(value->constant, 0, NULL, operand);
  const intact_node *producer = value->producer;
  if (producer && intact__changes_form(producer) && producer->operands[0]->constant) {
    const intact_tensor *constant = producer->operands[0]->constant;
    return intact__eval_node(producer, &constant, true, operand);
  }
  const intact_value *other = c->counterparts.of[value->id];
  if (!other || !c->kept[other->id].tensor) return INTACT_OK;
  const kept_value *kept = &c->kept[other->id];
  return intact__tensor_under(kept->tensor, kept->qparams, value->qparams, operand);
}

static intact_status evaluate_here(comparison *c, point *p, const intact_tensor *const *operands) {
  const intact_node *node = p->node;
  const kept_value *a = &c->kept[p->other->id];
  intact_tensor **results = intact__alloc_zeroed(c->context, (size_t)node->n_results, sizeof *results);
  if (!results) return intact__no_memory(c->context, (size_t)node->n_results);
  intact_status status = intact__eval_node(node, operands, true, results);
  if (status == INTACT_OK)
    status = add_difference(&p->here, a->tensor, a->qparams, results[0], node->results[0]->qparams);
  for (int r = 0; r < node->n_results; r++) intact_tensor_destroy(results[r]);
  intact__free(c->context, results);
  return status;
}

/* Runs B's node on A's values of the batch and compares. Nodes with an operand that has no counterpart are left out. */
static intact_status compare_here(comparison *c, point *p) {
  enum { MAX_OPERANDS = 16 };
  const intact_node *node = p->node;
  intact_tensor *operands[MAX_OPERANDS] = {NULL};
  if (node->n_operands > MAX_OPERANDS || node->n_bodies || !c->kept[p->other->id].tensor) return INTACT_OK;
  intact_status status = INTACT_OK;
  bool complete = true;
  for (int i = 0; i < node->n_operands && status == INTACT_OK && complete; i++) {
    if (!node->operands[i]) continue;
    status = operand_here(c, node->operands[i], &operands[i]);
    complete = operands[i] != NULL;
  }
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } cast = {operands};
  if (status == INTACT_OK && complete) status = evaluate_here(c, p, cast.to);
  for (int i = 0; i < node->n_operands; i++) intact_tensor_destroy(operands[i]);
  return status;
}

static intact_status run_side(const side *s, const intact_tensor *const *inputs, intact_tap_fn tap, comparison *c,
                              intact_tensor **outputs) {
  if (s->program) return intact__program_run_tapped(s->program, inputs, tap, c, outputs);
  const intact_interp_options options = {.fast = s->engine != INTACT_ENGINE_INTERP, .tap = tap, .tap_user = c};
  return intact__interpret(s->graph, inputs, &options, outputs);
}

static const intact_qparams *output_qparams(const intact_value *output) {
  if (output->qparams) return output->qparams;
  return output->producer && intact__is_op(output->producer, "dequantize") ? output->producer->operands[0]->qparams : NULL;
}

static intact_status compare_outputs(comparison *c, intact_tensor **a, intact_tensor **b) {
  for (int i = 0; i < c->b.graph->n_outputs; i++) {
    intact_difference once = {.low = NAN, .high = NAN, .least = -INFINITY, .most = INFINITY};
    INTACT_TRY(add_difference(&once, a[i], c->a.graph->outputs[i]->qparams, b[i], c->b.graph->outputs[i]->qparams));
    intact_difference *d = &c->outputs[i];
    d->error += once.error;
    d->a += once.a;
    d->b += once.b;
    d->dot += once.dot;
    d->count += once.count;
    d->max_abs = fmax(d->max_abs, once.max_abs);
    const intact_qparams *q = output_qparams(c->b.graph->outputs[i]);
    if (!q) q = output_qparams(c->a.graph->outputs[i]);
    c->max_steps[i] = q && q->n == 1 ? d->max_abs / (double)q->scale[0] : NAN;
  }
  return INTACT_OK;
}

static void forget(comparison *c) {
  for (size_t i = 0; i < c->a.graph->n_values; i++) {
    intact_tensor_destroy(c->kept[i].tensor);
    c->kept[i] = (kept_value){0};
  }
}

/* What B takes where the data are made for A: one of them may take integers. */
static intact_status input_of_b(const comparison *c, int i, const intact_tensor *tensor, intact_tensor **input) {
  return intact__tensor_under(tensor, c->a.graph->inputs[i]->qparams, c->b.graph->inputs[i]->qparams, input);
}

static intact_status compare_batch(comparison *c, intact_data *data, int64_t first, int64_t count) {
  const size_t n_in = (size_t)c->a.graph->n_inputs, n_out = (size_t)c->a.graph->n_outputs, n = 2 * (n_in + n_out);
  intact_tensor **t = intact__alloc_zeroed(c->context, n + 1, sizeof *t);
  if (!t) return intact__no_memory(c->context, n_in);
  intact_tensor **in_b = t + n_in, **out_a = in_b + n_in, **out_b = out_a + n_out;
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } inputs_a = {t}, inputs_b = {in_b};
  intact_status status = intact_data_batch(data, first, count, t);
  for (size_t i = 0; i < n_in && status == INTACT_OK; i++) status = input_of_b(c, (int)i, t[i], &in_b[i]);
  if (status == INTACT_OK) status = run_side(&c->a, inputs_a.to, keep_a, c, out_a);
  if (status == INTACT_OK) status = run_side(&c->b, inputs_b.to, look_at_b, c, out_b);
  if (status == INTACT_OK) status = compare_outputs(c, out_a, out_b);
  for (int i = 0; i < c->n_points && status == INTACT_OK; i++) status = compare_here(c, &c->points[i]);
  for (size_t i = 0; i < n; i++) intact_tensor_destroy(t[i]);
  intact__free(c->context, t);
  forget(c);
  return status;
}

/* ---- the report ---- */

static int64_t constant_bytes(const intact_node *node) {
  int64_t bytes = 0;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i] ? through_quantize(node->operands[i]) : NULL;
    if (value && value->constant) bytes += (int64_t)intact_tensor_bytes(value->constant);
  }
  return bytes;
}

static intact_status fill_layer(const point *p, intact_report *report, intact_layer_report *layer) {
  const intact_node *node = p->node;
  const intact_value *value = node->results[0];
  const intact_qparams *q = value->qparams;
  const bool integer = q != NULL && !node->why_float;
  const char *why = integer ? "" : node->why_float ? node->why_float : "not quantized";
  *layer = (intact_layer_report){.name = intact__arena_strdup(&report->arena, node->name),
                                 .op = node->op->name,
                                 .integer = integer,
                                 .why = intact__arena_strdup(&report->arena, why),
                                 .sqnr_here_db = intact__difference_sqnr_db(&p->here),
                                 .sqnr_acc_db = intact__difference_sqnr_db(&p->accumulated),
                                 .cosine = intact__difference_cosine(&p->accumulated),
                                 .max_abs = p->accumulated.count ? p->accumulated.max_abs : NAN,
                                 .clipped = NAN,
                                 .range_low = NAN,
                                 .range_high = NAN,
                                 .bias_headroom = intact__bias_headroom(node),
                                 .acc_headroom = intact__accumulator_headroom(node),
                                 .bytes = constant_bytes(node),
                                 .macs = node->op->macs ? node->op->macs(node) : 0,
                                 .ms = NAN};
  if (q && q->n == 1) {
    layer->range_low = (double)q->scale[0] * (double)(q->quant_min - q->zero_point[0]);
    layer->range_high = (double)q->scale[0] * (double)(q->quant_max - q->zero_point[0]);
    if (p->accumulated.count) layer->clipped = (double)p->accumulated.outside / (double)p->accumulated.count;
  }
  return layer->name && layer->why ? INTACT_OK : intact__no_memory(report->context, 1);
}

static void take_times(const intact_program *program, intact_report *report) {
  for (int s = 0; s < intact_program_step_count(program); s++) {
    const intact_step_info step = intact_program_step(program, s);
    for (int i = 0; i < report->n_layers; i++)
      if (strcmp(report->layers[i].name, step.name) == 0 && !(report->layers[i].ms <= step.ms)) report->layers[i].ms = step.ms;
  }
}

/* Time of each layer in the planned program, one sample. */
static intact_status time_layers(const comparison *c, intact_data *data, intact_report *report) {
  enum { RUNS = 5 };
  intact_program *program = c->b.program;
  if (!program) return INTACT_OK;
  const size_t n_in = (size_t)c->b.graph->n_inputs, n_out = (size_t)c->b.graph->n_outputs;
  intact_tensor **t = intact__alloc_zeroed(c->context, 2 * n_in + n_out + 1, sizeof *t);
  if (!t) return intact__no_memory(c->context, 1);
  intact_tensor **in_b = t + n_in, **outputs = in_b + n_in;
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } inputs = {in_b};
  const int64_t fixed = intact_graph_batch(c->b.graph);
  intact_status status = intact_data_batch(data, 0, fixed > 0 ? fixed : 1, t);
  for (size_t i = 0; i < n_in && status == INTACT_OK; i++) status = input_of_b(c, (int)i, t[i], &in_b[i]);
  intact_program_time_steps(program, true);
  for (int run = 0; run < RUNS && status == INTACT_OK; run++) {
    status = intact_program_run(program, inputs.to, outputs);
    if (status == INTACT_OK) take_times(program, report);
    for (size_t i = 0; i < n_out; i++) {
      intact_tensor_destroy(outputs[i]);
      outputs[i] = NULL;
    }
  }
  for (size_t i = 0; i < 2 * n_in; i++) intact_tensor_destroy(t[i]);
  intact__free(c->context, t);
  return status;
}

static intact_status fill_report(const comparison *c, intact_data *data, intact_report *report) {
  report->layers = intact__arena_alloc(&report->arena, (size_t)c->n_points + 1, sizeof *report->layers);
  report->outputs = intact__arena_alloc(&report->arena, (size_t)c->b.graph->n_outputs + 1, sizeof *report->outputs);
  if (!report->layers || !report->outputs) return intact__no_memory(c->context, 1);
  for (int i = 0; i < c->n_points; i++) INTACT_TRY(fill_layer(&c->points[i], report, &report->layers[report->n_layers++]));
  for (int i = 0; i < c->b.graph->n_outputs; i++) {
    const intact_difference *d = &c->outputs[i];
    report->outputs[report->n_outputs++] =
        (intact_output_report){.name = intact__arena_strdup(&report->arena, c->b.graph->outputs[i]->name),
                               .sqnr_db = intact__difference_sqnr_db(d),
                               .cosine = intact__difference_cosine(d),
                               .max_abs = d->count ? d->max_abs : NAN,
                               .max_steps = c->max_steps[i]};
    if (!report->outputs[i].name) return intact__no_memory(c->context, 1);
  }
  INTACT_TRY(time_layers(c, data, report));
  return intact__report_advise(report);
}

static intact_status compare_all(comparison *c, intact_data *data, int64_t samples, intact_report *report) {
  intact_arena *arena = &report->arena;
  const size_t n_out = (size_t)c->b.graph->n_outputs, n_a = c->a.graph->n_values;
  c->kept = intact__arena_alloc(arena, n_a + 1, sizeof *c->kept);
  c->wanted = intact__arena_alloc(arena, n_a + 1, sizeof *c->wanted);
  c->outputs = intact__arena_alloc(arena, n_out + 1, sizeof *c->outputs);
  c->max_steps = intact__arena_alloc(arena, n_out + 1, sizeof *c->max_steps);
  if (!c->kept || !c->wanted || !c->outputs || !c->max_steps) return intact__no_memory(c->context, 1);
  INTACT_TRY(intact__find_counterparts(c->a.graph, c->b.graph, arena, &c->counterparts));
  INTACT_TRY(choose_points(c, arena));
  intact_status status = INTACT_OK;
  for (int64_t first = 0; first < samples && status == INTACT_OK; first += c->batch) {
    const int64_t here = samples - first < c->batch ? samples - first : c->batch;
    status = compare_batch(c, data, first, here);
    if (status == INTACT_OK) intact__progress(c->context, "compare", first + here, samples);
  }
  return status == INTACT_OK ? fill_report(c, data, report) : status;
}

/* The graph that the engine runs; *owned is what was made for it. */
static intact_status open_side(const intact_graph *graph, intact_engine engine, side *s, intact_graph **owned) {
  *s = (side){.graph = graph, .engine = engine};
  if (engine != INTACT_ENGINE_INT) return INTACT_OK;
  if (graph->stage == INTACT_STAGE_QDQ) {
    INTACT_TRY(intact_graph_copy(graph, owned));
    INTACT_TRY(intact_to_integer(*owned));
    s->graph = *owned;
  }
  return intact_program_create(s->graph, &s->program);
}

intact_status intact_compare(const intact_graph *a, intact_engine engine_a, const intact_graph *b, intact_engine engine_b,
                             intact_data *data, int64_t samples, intact_report **report) {
  intact_context *context = a->context;
  if (a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs)
    INTACT_FAIL(context, TYPE_MISMATCH, "", "can't compare networks with %d and %d inputs, %d and %d outputs: they must agree",
                a->n_inputs, b->n_inputs, a->n_outputs, b->n_outputs);
  const int64_t fixed = intact_graph_batch(a) ? intact_graph_batch(a) : intact_graph_batch(b);
  if (samples > intact_data_count(data)) samples = intact_data_count(data);
  if (fixed > 0 && samples < fixed) samples = fixed < intact_data_count(data) ? fixed : intact_data_count(data);
  if (fixed > 0) samples -= samples % fixed; /* what is left over does not fill a batch */
  if (samples < 1)
    INTACT_FAIL(context, SIZE_MISMATCH, "", "can't compare: the networks take %lld samples at once, there are %lld",
                (long long)(fixed > 0 ? fixed : 1), (long long)intact_data_count(data));
  intact_report *r = intact__alloc_zeroed(context, 1, sizeof *r);
  if (!r) return intact__no_memory(context, sizeof *r);
  r->context = context;
  intact__arena_init(&r->arena, context);
  intact_graph *owned_a = NULL, *owned_b = NULL;
  comparison c = {.context = context, .batch = fixed > 0 ? fixed : BATCH};
  intact_status status = open_side(a, engine_a, &c.a, &owned_a);
  if (status == INTACT_OK) status = open_side(b, engine_b, &c.b, &owned_b);
  if (status == INTACT_OK) status = compare_all(&c, data, samples, r);
  intact_program_destroy(c.a.program);
  intact_program_destroy(c.b.program);
  intact_graph_destroy(owned_a);
  intact_graph_destroy(owned_b);
  if (status != INTACT_OK) {
    intact_report_destroy(r);
    return status;
  }
  *report = r;
  return INTACT_OK;
}
