/* SPDX-License-Identifier: Apache-2.0 */
/* Two networks layer by layer. A is run once per batch with its values kept; B's values are compared as they are computed
   (accumulated error), and each node of B is run again on A's values (error made here). Layers are matched by source names. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "inspect/difference.h"
#include "inspect/headroom.h"
#include "inspect/report.h"
#include "intact/run.h"

enum { BATCH = 16 };

/* What is compared at one value of B. */
typedef struct point {
  const intact_node *node;     /* of B */
  const intact_value *other;   /* A's value that B's result 0 stands for */
  intact_difference here, accumulated;
} point;

typedef struct comparison {
  intact_context *context;
  const intact_graph *a, *b;
  intact_engine engine_a, engine_b;
  const intact_value **other;  /* per value id of B: A's value, NULL: none */
  intact_tensor **kept;        /* per value id of A: the batch's tensor, for values that are someone's counterpart */
  bool *wanted;                /* per value id of A */
  point *points;
  int n_points;
  int *point_of;               /* per value id of B: index into points, -1 */
  intact_difference *outputs;
  double *max_steps;
} comparison;

/* ---- matching ---- */

/* Latest node of A among the "+"-joined names of `source`. */
static const intact_node *latest_source(const intact_graph *a, const intact_map *by_source, const intact_node *const *nodes,
                                        const char *source) {
  char name[512];
  const intact_node *latest = NULL;
  int64_t latest_at = -1, at;
  (void)a;
  while (source && *source) {
    const char *plus = strchr(source, '+');
    const size_t n = plus ? (size_t)(plus - source) : strlen(source);
    if (n < sizeof name) {
      memcpy(name, source, n);
      name[n] = 0;
      if (intact__map_get(by_source, name, &at) && at > latest_at) {
        latest_at = at;
        latest = nodes[at];
      }
    }
    source = plus ? plus + 1 : NULL;
  }
  return latest;
}

static const intact_value *through_quantize(const intact_value *value) {
  while (value->producer && (intact__is_op(value->producer, "quantize") || intact__is_op(value->producer, "dequantize")))
    value = value->producer->operands[0];
  return value;
}

static intact_status match_values(comparison *c, intact_arena *arena) {
  intact_map by_source;
  intact__map_init(&by_source, c->context);
  const intact_node **nodes = intact__arena_alloc(arena, (size_t)c->a->n_nodes + 1, sizeof *nodes);
  intact_status status = nodes ? INTACT_OK : intact__no_memory(c->context, 1);
  int64_t at = 0;
  for (const intact_node *node = c->a->first; node && status == INTACT_OK; node = node->next, at++) {
    nodes[at] = node;
    if (!node->source || !*node->source) continue;
    /* a fused node of A answers to each of its names */
    const char *source = node->source;
    while (source && status == INTACT_OK) {
      const char *plus = strchr(source, '+');
      char *name = intact__arena_alloc(arena, (plus ? (size_t)(plus - source) : strlen(source)) + 1, 1);
      if (name) memcpy(name, source, plus ? (size_t)(plus - source) : strlen(source));
      status = name ? intact__map_set(&by_source, name, at) : intact__no_memory(c->context, 1);
      source = plus ? plus + 1 : NULL;
    }
  }
  for (int i = 0; i < c->b->n_inputs && i < c->a->n_inputs; i++) c->other[c->b->inputs[i]->id] = c->a->inputs[i];
  for (const intact_node *node = c->b->first; node && status == INTACT_OK; node = node->next) {
    if (intact__is_op(node, "quantize") || intact__is_op(node, "dequantize")) {
      c->other[node->results[0]->id] = c->other[node->operands[0]->id];
      continue;
    }
    const intact_node *twin = latest_source(c->a, &by_source, nodes, node->source);
    for (int r = 0; twin && r < node->n_results && r < twin->n_results; r++) c->other[node->results[r]->id] = twin->results[r];
  }
  intact__map_fini(&by_source);
  return status;
}

/* A layer computes: no quantize/dequantize, no pure data movement that keeps its operand's qparams. */
static bool is_layer(const intact_node *node) {
  if (intact__is_op(node, "quantize") || intact__is_op(node, "dequantize")) return false;
  return !node->op->quant.no_quantize && !node->op->on_integers;
}

static void set_range(intact_difference *d, const intact_qparams *q) {
  d->low = d->high = NAN;
  if (!q || q->n != 1) return;
  d->low = (double)q->scale[0] * ((double)q->quant_min - (double)q->zero_point[0] - 0.5);
  d->high = (double)q->scale[0] * ((double)q->quant_max - (double)q->zero_point[0] + 0.5);
}

static intact_status choose_points(comparison *c, intact_arena *arena) {
  c->points = intact__arena_alloc(arena, (size_t)c->b->n_nodes + 1, sizeof *c->points);
  c->point_of = intact__arena_alloc(arena, c->b->n_values + 1, sizeof *c->point_of);
  if (!c->points || !c->point_of) return intact__no_memory(c->context, 1);
  for (size_t i = 0; i < c->b->n_values; i++) c->point_of[i] = -1;
  for (const intact_node *node = c->b->first; node; node = node->next) {
    const intact_value *value = node->n_results ? node->results[0] : NULL;
    if (!value || !c->other[value->id] || !is_layer(node)) continue;
    point *p = &c->points[c->n_points];
    p->node = node;
    p->other = c->other[value->id];
    set_range(&p->accumulated, value->qparams);
    set_range(&p->here, NULL);
    c->point_of[value->id] = c->n_points++;
  }
  for (size_t i = 0; i < c->b->n_values; i++)
    if (c->other[i]) c->wanted[c->other[i]->id] = true;
  for (int i = 0; i < c->a->n_outputs; i++) c->wanted[c->a->outputs[i]->id] = true;
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

static intact_status keep_a(void *user, const intact_value *value, const intact_tensor *tensor) {
  comparison *c = user;
  if (value->id < 0 || value->constant || !c->wanted[value->id] || value != c->a->values[value->id]) return INTACT_OK;
  intact_tensor_destroy(c->kept[value->id]);
  c->kept[value->id] = NULL;
  return intact_tensor_share(tensor, 0, NULL, &c->kept[value->id]);
}

static intact_status look_at_b(void *user, const intact_value *value, const intact_tensor *tensor) {
  comparison *c = user;
  if (value->id < 0 || (size_t)value->id >= c->b->n_values || c->b->values[value->id] != value) return INTACT_OK;
  const int at = c->point_of[value->id];
  if (at < 0) return INTACT_OK;
  point *p = &c->points[at];
  const intact_tensor *a = c->kept[p->other->id];
  return a ? add_difference(&p->accumulated, a, p->other->qparams, tensor, value->qparams) : INTACT_OK;
}

/* Runs B's node on A's values of the batch and compares. Nodes with an operand that has no counterpart are left out. */
static intact_status compare_here(comparison *c, point *p) {
  enum { MAX_OPERANDS = 16 };
  const intact_node *node = p->node;
  intact_tensor *operands[MAX_OPERANDS] = {NULL}, **results = NULL;
  if (node->n_operands > MAX_OPERANDS || node->n_bodies) return INTACT_OK;
  intact_status status = INTACT_OK;
  bool complete = c->kept[p->other->id] != NULL;
  for (int i = 0; i < node->n_operands && status == INTACT_OK && complete; i++) {
    const intact_value *value = node->operands[i];
    if (!value) continue;
    if (value->constant) {
      status = intact_tensor_share(value->constant, 0, NULL, &operands[i]);
      continue;
    }
    const intact_value *other = c->other[value->id];
    const intact_tensor *kept = other ? c->kept[other->id] : NULL;
    complete = kept != NULL;
    if (!complete) break;
    if (!value->qparams) {
      status = other->qparams ? intact__dequantize_tensor(kept, other->qparams, &operands[i])
                              : intact_tensor_share(kept, 0, NULL, &operands[i]);
      continue;
    }
    intact_tensor *real = NULL;
    status = real_values(kept, other->qparams, &real);
    if (status == INTACT_OK) status = intact__quantize_tensor(real, value->qparams, &operands[i]);
    intact_tensor_destroy(real);
  }
  if (status == INTACT_OK && complete) {
    results = intact__alloc_zeroed(c->context, (size_t)node->n_results, sizeof *results);
    status = results ? INTACT_OK : intact__no_memory(c->context, 1);
    union {
      intact_tensor **from;
      const intact_tensor *const *to;
    } cast = {operands};
    if (status == INTACT_OK) status = intact__eval_node(node, cast.to, true, results);
    if (status == INTACT_OK)
      status = add_difference(&p->here, c->kept[p->other->id], p->other->qparams, results[0], node->results[0]->qparams);
    for (int r = 0; results && r < node->n_results; r++) intact_tensor_destroy(results[r]);
    intact__free(c->context, results);
  }
  for (int i = 0; i < node->n_operands; i++) intact_tensor_destroy(operands[i]);
  return status;
}

static intact_status run_side(const intact_graph *graph, intact_engine engine, const intact_tensor *const *inputs, intact_tap_fn tap,
                              comparison *c, intact_tensor **outputs) {
  const intact_interp_options options = {.fast = engine != INTACT_ENGINE_INTERP, .tap = tap, .tap_user = c};
  return intact__interpret(graph, inputs, &options, outputs);
}

static const intact_qparams *output_qparams(const intact_value *output) {
  if (output->qparams) return output->qparams;
  return output->producer && intact__is_op(output->producer, "dequantize") ? output->producer->operands[0]->qparams : NULL;
}

static intact_status compare_outputs(comparison *c, intact_tensor **a, intact_tensor **b) {
  for (int i = 0; i < c->b->n_outputs; i++) {
    intact_difference once = {.low = NAN, .high = NAN};
    INTACT_TRY(add_difference(&once, a[i], c->a->outputs[i]->qparams, b[i], c->b->outputs[i]->qparams));
    intact_difference *d = &c->outputs[i];
    d->error += once.error;
    d->a += once.a;
    d->b += once.b;
    d->dot += once.dot;
    d->count += once.count;
    d->max_abs = fmax(d->max_abs, once.max_abs);
    const intact_qparams *q = output_qparams(c->b->outputs[i]);
    if (!q) q = output_qparams(c->a->outputs[i]);
    c->max_steps[i] = q && q->n == 1 ? d->max_abs / (double)q->scale[0] : NAN;
  }
  return INTACT_OK;
}

static intact_status compare_batch(comparison *c, intact_data *data, int64_t first, int64_t count) {
  const size_t n_in = (size_t)c->a->n_inputs, n_out = (size_t)c->a->n_outputs;
  intact_tensor **t = intact__alloc_zeroed(c->context, n_in + 2 * n_out + 1, sizeof *t);
  if (!t) return intact__no_memory(c->context, n_in);
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } inputs = {t};
  intact_tensor **out_a = t + n_in, **out_b = out_a + n_out;
  intact_status status = intact_data_batch(data, first, count, t);
  for (size_t i = 0; i < n_in && status == INTACT_OK; i++) status = keep_a(c, c->a->inputs[i], t[i]);
  if (status == INTACT_OK) status = run_side(c->a, c->engine_a, inputs.to, keep_a, c, out_a);
  if (status == INTACT_OK) status = run_side(c->b, c->engine_b, inputs.to, look_at_b, c, out_b);
  if (status == INTACT_OK) status = compare_outputs(c, out_a, out_b);
  for (int i = 0; i < c->n_points && status == INTACT_OK; i++) status = compare_here(c, &c->points[i]);
  for (size_t i = 0; i < n_in + 2 * n_out; i++) intact_tensor_destroy(t[i]);
  intact__free(c->context, t);
  for (size_t i = 0; i < c->a->n_values; i++) {
    intact_tensor_destroy(c->kept[i]);
    c->kept[i] = NULL;
  }
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

static intact_status fill_layer(const comparison *c, const point *p, intact_report *report, intact_layer_report *layer) {
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
  (void)c;
  return layer->name && layer->why ? INTACT_OK : intact__no_memory(report->context, 1);
}

/* Time of each layer in the planned program, one sample. */
static intact_status time_layers(const comparison *c, intact_data *data, intact_report *report) {
  if (c->engine_b != INTACT_ENGINE_INT) return INTACT_OK;
  enum { RUNS = 5 };
  intact_program *program = NULL;
  const size_t n_in = (size_t)c->b->n_inputs, n_out = (size_t)c->b->n_outputs;
  intact_tensor **t = intact__alloc_zeroed(c->context, n_in + n_out + 1, sizeof *t);
  if (!t) return intact__no_memory(c->context, 1);
  union {
    intact_tensor **from;
    const intact_tensor *const *to;
  } inputs = {t};
  intact_status status = intact_program_create(c->b, &program);
  if (status == INTACT_OK) status = intact_data_batch(data, 0, 1, t);
  if (status == INTACT_OK) intact_program_time_steps(program, true);
  for (int run = 0; run < RUNS && status == INTACT_OK; run++) {
    status = intact_program_run(program, inputs.to, t + n_in);
    for (size_t i = 0; i < n_out; i++) {
      intact_tensor_destroy(t[n_in + i]);
      t[n_in + i] = NULL;
    }
    for (int s = 0; status == INTACT_OK && s < intact_program_step_count(program); s++) {
      const intact_step_info step = intact_program_step(program, s);
      for (int i = 0; i < report->n_layers; i++)
        if (strcmp(report->layers[i].name, step.name) == 0 && !(report->layers[i].ms <= step.ms)) report->layers[i].ms = step.ms;
    }
  }
  for (size_t i = 0; i < n_in; i++) intact_tensor_destroy(t[i]);
  intact__free(c->context, t);
  intact_program_destroy(program);
  return status;
}

static intact_status fill_report(const comparison *c, intact_data *data, intact_report *report) {
  report->layers = intact__arena_alloc(&report->arena, (size_t)c->n_points + 1, sizeof *report->layers);
  report->outputs = intact__arena_alloc(&report->arena, (size_t)c->b->n_outputs + 1, sizeof *report->outputs);
  if (!report->layers || !report->outputs) return intact__no_memory(c->context, 1);
  for (int i = 0; i < c->n_points; i++) INTACT_TRY(fill_layer(c, &c->points[i], report, &report->layers[report->n_layers++]));
  for (int i = 0; i < c->b->n_outputs; i++) {
    const intact_difference *d = &c->outputs[i];
    report->outputs[report->n_outputs++] =
        (intact_output_report){.name = intact__arena_strdup(&report->arena, c->b->outputs[i]->name),
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
  c->other = intact__arena_alloc(arena, c->b->n_values + 1, sizeof *c->other);
  c->kept = intact__arena_alloc(arena, c->a->n_values + 1, sizeof *c->kept);
  c->wanted = intact__arena_alloc(arena, c->a->n_values + 1, sizeof *c->wanted);
  c->outputs = intact__arena_alloc(arena, (size_t)c->b->n_outputs + 1, sizeof *c->outputs);
  c->max_steps = intact__arena_alloc(arena, (size_t)c->b->n_outputs + 1, sizeof *c->max_steps);
  if (!c->other || !c->kept || !c->wanted || !c->outputs || !c->max_steps) return intact__no_memory(c->context, 1);
  INTACT_TRY(match_values(c, arena));
  INTACT_TRY(choose_points(c, arena));
  intact_status status = INTACT_OK;
  for (int64_t first = 0; first < samples && status == INTACT_OK; first += BATCH) {
    status = compare_batch(c, data, first, samples - first < BATCH ? samples - first : BATCH);
    if (status == INTACT_OK) intact__progress(c->context, "compare", first + BATCH < samples ? first + BATCH : samples, samples);
  }
  for (size_t i = 0; i < c->a->n_values; i++) intact_tensor_destroy(c->kept[i]);
  return status == INTACT_OK ? fill_report(c, data, report) : status;
}

intact_status intact_compare(const intact_graph *a, intact_engine engine_a, const intact_graph *b, intact_engine engine_b,
                             intact_data *data, int64_t samples, intact_report **report) {
  intact_context *context = a->context;
  if (a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs)
    INTACT_FAIL(context, TYPE_MISMATCH, "", "can't compare networks with %d and %d inputs, %d and %d outputs: they must agree",
                a->n_inputs, b->n_inputs, a->n_outputs, b->n_outputs);
  if (samples > intact_data_count(data)) samples = intact_data_count(data);
  intact_report *r = intact__alloc_zeroed(context, 1, sizeof *r);
  intact_graph *integer = NULL;
  if (!r) return intact__no_memory(context, sizeof *r);
  r->context = context;
  intact__arena_init(&r->arena, context);
  intact_status status = INTACT_OK;
  if (engine_b == INTACT_ENGINE_INT && b->stage == INTACT_STAGE_QDQ) { /* what the integer engine runs */
    status = intact_graph_copy(b, &integer);
    if (status == INTACT_OK) status = intact_to_integer(integer);
  }
  comparison c = {.context = context, .a = a, .b = integer ? integer : b, .engine_a = engine_a, .engine_b = engine_b};
  if (status == INTACT_OK) status = compare_all(&c, data, samples, r);
  intact_graph_destroy(integer);
  if (status != INTACT_OK) {
    intact_report_destroy(r);
    return status;
  }
  *report = r;
  return INTACT_OK;
}
