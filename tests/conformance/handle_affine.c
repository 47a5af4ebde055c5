/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of quantize_dequantize, fake_quantize, fake_quantize_learnable, fused_moving_avg_obs_fake_quant and qparams: the op
   rows on the case's tensors. */
#include <string.h>

#include "conformance/conformance.h"
#include "graph/graph.h"
#include "tensor/fake_quantize.h"
#include "quant/observers/observer_state.h"

enum { MAX_OPERANDS = 8 };

/* Which row an operation is, where its operands come from (inputs or attributes) and what its results are called. */
typedef struct row_map {
  const char *op, *row;
  const char *operands[MAX_OPERANDS], *results[MAX_OPERANDS];
} row_map;

static const row_map maps[] = {
    {"quantize_per_tensor", "quantize_per_tensor", {"x", "scale", "zero_point"}, {"q"}},
    {"quantize_per_channel", "quantize_per_channel", {"x", "scales", "zero_points"}, {"q"}},
    {"quantize_per_channel_float_qparams", "quantize_per_channel", {"x", "scales", "zero_points"}, {"q"}},
    {"quantized_decomposed.quantize_per_tensor", "decomposed_quantize_per_tensor", {"x", "scale", "zero_point"}, {"q"}},
    {"quantized_decomposed.quantize_per_tensor.tensor", "decomposed_quantize_per_tensor", {"x", "scale", "zero_point"}, {"q"}},
    {"quantized_decomposed.dequantize_per_tensor", "decomposed_dequantize_per_tensor", {"q", "scale", "zero_point"}, {"y"}},
    {"quantized_decomposed.dequantize_per_tensor.tensor", "decomposed_dequantize_per_tensor", {"q", "scale", "zero_point"}, {"y"}},
    {"quantized_decomposed.quantize_per_channel", "decomposed_quantize_per_channel", {"x", "scales", "zero_points"}, {"q"}},
    {"quantized_decomposed.dequantize_per_channel", "decomposed_dequantize_per_channel", {"q", "scales", "zero_points"}, {"y"}},
    {"quantized_decomposed.quantize_per_token", "decomposed_quantize_per_token", {"x", "scales", "zero_points"}, {"q"}},
    {"quantized_decomposed.dequantize_per_token", "decomposed_dequantize_per_token", {"q", "scales", "zero_points"}, {"y"}},
    {"quantized_decomposed.quantize_per_channel_group", "decomposed_quantize_per_channel_group", {"x", "scales", "zero_points"}, {"q"}},
    {"quantized_decomposed.dequantize_per_channel_group",
     "decomposed_dequantize_per_channel_group",
     {"q", "scales", "zero_points"},
     {"y"}},
    {"quantized_decomposed.choose_qparams.tensor", "decomposed_choose_qparams", {"x"}, {"scale", "zero_point"}},
    {"quantized_decomposed.choose_qparams_symmetric.tensor", "decomposed_choose_qparams_symmetric", {"x"}, {"scale", "zero_point"}},
    {"quantized_decomposed.choose_qparams_per_token", "decomposed_choose_qparams_per_token", {"x"}, {"scales", "zero_points"}},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric",
     "decomposed_choose_qparams_per_token_asymmetric",
     {"x"},
     {"scales", "zero_points"}},
    {"choose_qparams_per_tensor", "choose_qparams_per_tensor", {"x"}, {"scale", "zero_point"}},
    {"choose_qparams_optimized", "choose_qparams_optimized", {"x"}, {"xmax", "xmin"}},
    {"fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine", {"x", "scale", "zero_point"}, {"y", "mask"}},
    {"fake_quantize_per_tensor_affine_tensor_qparams",
     "fake_quantize_per_tensor_affine",
     {"x", "scale", "zero_point"},
     {"y", "mask"}},
    {"fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine", {"x", "scale", "zero_point"}, {"y", "mask"}},
    {"quantized_decomposed.fake_quant_per_channel", "decomposed_fake_quant_per_channel", {"x", "scale", "zero_point"}, {"y", "mask"}},
    {"fake_quantize_learnable_per_tensor_affine",
     "fake_quantize_learnable_per_tensor_affine",
     {"x", "scale", "zero_point"},
     {"y"}},
    {"fake_quantize_learnable_per_channel_affine",
     "fake_quantize_learnable_per_channel_affine",
     {"x", "scale", "zero_point"},
     {"y"}},
};

/* One node with its operands and, after it ran, its results. */
typedef struct row_run {
  conf_case *c;
  intact_graph *graph;
  intact_node *node;
  int n;
  const intact_tensor *operands[MAX_OPERANDS];
  intact_tensor *made[MAX_OPERANDS]; /* operands made of attributes */
  intact_tensor *results[MAX_OPERANDS];
} row_run;

static void finish(row_run *run) {
  for (int i = 0; i < MAX_OPERANDS; i++) {
    intact_tensor_destroy(run->made[i]);
    intact_tensor_destroy(run->results[i]);
  }
  intact_graph_destroy(run->graph);
}

static intact_status number_operand(row_run *run, int i, const json_t *value) {
  intact_dtype dtype = json_is_integer(value) ? INTACT_S64 : INTACT_F64;
  INTACT_TRY(intact_tensor_create(run->c->context, dtype, 0, NULL, &run->made[i]));
  if (dtype == INTACT_S64)
    intact__tensor_set_s64(run->made[i], 0, conf_json_int(value, 0));
  else
    intact__tensor_set_f64(run->made[i], 0, conf_json_f64(value, 0));
  run->operands[i] = run->made[i];
  return INTACT_OK;
}

static intact_status set_attr(intact_node *node, const intact_attr_spec *spec, const json_t *value) {
  intact_dtype dtype;
  if (!value || json_is_null(value)) return INTACT_OK;
  if (spec->type == INTACT_ATTR_FLOAT) {
    intact__attr_set_float(node, spec->name, conf_json_f64(value, 0));
  } else if (spec->type == INTACT_ATTR_DTYPE) {
    if (!conf_dtype(json_string_value(value), &dtype)) return INTACT_UNSUPPORTED_TYPE;
    intact__attr_set_int(node, spec->name, dtype);
  } else {
    intact__attr_set_int(node, spec->name, conf_json_int(value, 0));
  }
  return INTACT_OK;
}

static intact_status start(row_run *run, const char *row) {
  intact_value *values[MAX_OPERANDS] = {NULL};
  const intact_op *op = intact__find_op(row);
  INTACT_TRY(intact__graph_create(run->c->context, run->c->name, &run->graph));
  for (int i = 0; i < run->n; i++) {
    const intact_tensor *t = run->operands[i];
    char name[20];
    snprintf(name, sizeof name, "in%d", i);
    if (t) INTACT_TRY(intact__graph_add_input(run->graph, name, t->dtype, t->rank, t->dims, &values[i]));
  }
  INTACT_TRY(intact__graph_add_node(run->graph, op, run->c->name, run->n, values, op->schema.n_results, NULL, NULL, &run->node));
  for (int i = 0; i < op->schema.n_attrs; i++)
    INTACT_TRY(set_attr(run->node, &op->schema.attrs[i], conf_attr(run->c, op->schema.attrs[i].name)));
  return INTACT_OK;
}

static intact_status give(conf_case *c, const intact_tensor *tensor, const char *name) {
  intact_tensor *shared;
  if (!tensor || !conf_expects(c, "%s", name)) return INTACT_OK;
  INTACT_TRY(intact_tensor_share(tensor, 0, NULL, &shared));
  return conf_result(c, shared, "%s", name);
}

/* ---- gradients ---- */

/* A gradient in the type of the operand it belongs to. */
static intact_status give_gradient(conf_case *c, intact_tensor *d, intact_dtype dtype, const char *name) {
  intact_tensor *typed;
  if (!conf_expects(c, "%s", name)) {
    intact_tensor_destroy(d);
    return INTACT_OK;
  }
  if (d->dtype == dtype) return conf_result(c, d, "%s", name);
  intact_status status = intact_tensor_cast(d, dtype, &typed);
  intact_tensor_destroy(d);
  return status == INTACT_OK ? conf_result(c, typed, "%s", name) : status;
}

/* The rows' gradients are float32; a float64 case goes to the function below the row. */
static intact_status backward_f64(row_run *run, const intact_tensor *dy) {
  const intact_tensor *scale = run->operands[1], *zero = run->operands[2];
  intact_tensor *s, *z, *dx;
  int axis = (int)conf_attr_int(run->c, "axis", -1);
  INTACT_TRY(intact_tensor_cast(scale, INTACT_F32, &s));
  INTACT_TRY(intact_tensor_cast(zero, INTACT_S32, &z));
  const intact_fake_spec spec = {.where = run->c->name,
                                 .axis = axis,
                                 .low = conf_attr_int(run->c, "quant_min", 0),
                                 .high = conf_attr_int(run->c, "quant_max", 0),
                                 .n = s->count,
                                 .scale = intact__f32(s),
                                 .zero_point = z->data};
  intact_status status = intact__fake_quantize_backward(run->operands[0], dy, &spec, &dx);
  intact_tensor_destroy(s);
  intact_tensor_destroy(z);
  INTACT_TRY(status);
  return give_gradient(run->c, dx, INTACT_F64, "dx");
}

static intact_status backward(row_run *run) {
  conf_case *c = run->c;
  const intact_tensor *dy = conf_input(c, "dy");
  if (!dy) return INTACT_OK;
  bool learned = strstr(c->op, "learnable") != NULL;
  if (run->operands[0]->dtype == INTACT_F64 && !learned) return backward_f64(run, dy);
  const intact_tensor *d_results[MAX_OPERANDS] = {dy};
  intact_tensor *d_operands[MAX_OPERANDS] = {NULL};
  const bool needed[MAX_OPERANDS] = {true, learned, learned};
  intact_grad grad = {.context = c->context,
                      .node = run->node,
                      .n_operands = run->n,
                      .n_results = run->node->n_results,
                      .operands = run->operands,
                      .results = (const intact_tensor *const *)run->results,
                      .d_results = d_results,
                      .needed = needed,
                      .d_operands = d_operands};
  static const char *const names[] = {"dx", "dscale", "dzero_point"};
  INTACT_TRY(run->node->op->grad(&grad));
  for (int i = 0; i < 3; i++)
    if (d_operands[i]) INTACT_TRY(give_gradient(c, d_operands[i], run->operands[i]->dtype, names[i]));
  return INTACT_OK;
}

/* ---- rows ---- */

/* y of quantize_per_*: what the codes stand for. */
static intact_status dequantize_codes(row_run *run) {
  conf_case *c = run->c;
  const intact_tensor *q = run->results[0];
  if (!conf_expects(c, "y") || strncmp(c->op, "quantize_per_", 13) != 0) return INTACT_OK;
  bool channels = strcmp(c->op, "quantize_per_tensor") != 0;
  row_run back = {.c = c, .n = 3, .operands = {q, run->operands[1], run->operands[2]}};
  intact_tensor *narrow = NULL; /* scales are float32 in a quantized tensor */
  intact_status status = intact_tensor_cast(run->operands[1], INTACT_F32, &narrow);
  back.operands[1] = narrow;
  if (status == INTACT_OK) status = start(&back, channels ? "decomposed_dequantize_per_channel" : "decomposed_dequantize_per_tensor");
  if (status == INTACT_OK) {
    intact__attr_set_int(back.node, "quant_min", intact_dtype_min(q->dtype));
    intact__attr_set_int(back.node, "quant_max", intact_dtype_max(q->dtype));
    intact__attr_set_int(back.node, "dtype", q->dtype);
    status = intact__node_infer(back.node);
  }
  if (status == INTACT_OK) status = intact__eval_node(back.node, back.operands, false, back.results);
  if (status == INTACT_OK) status = give(c, back.results[0], "y");
  intact_tensor_destroy(narrow);
  finish(&back);
  return status;
}

static intact_status run_row(row_run *run, const row_map *map) {
  conf_case *c = run->c;
  for (int i = 0; i < MAX_OPERANDS && map->operands[i]; i++) {
    run->operands[i] = conf_input(c, "%s", map->operands[i]);
    if (!run->operands[i] && conf_attr(c, map->operands[i])) INTACT_TRY(number_operand(run, i, conf_attr(c, map->operands[i])));
    run->n = i + 1;
  }
  INTACT_TRY(start(run, map->row));
  if (strcmp(c->op, "fake_quantize_per_tensor_affine_tensor_qparams") == 0) intact__attr_set_int(run->node, "tensor_qparams", 1);
  INTACT_TRY(intact__node_infer(run->node));
  INTACT_TRY(intact__eval_node(run->node, run->operands, false, run->results));
  for (int i = 0; i < MAX_OPERANDS && map->results[i]; i++) INTACT_TRY(give(c, run->results[i], map->results[i]));
  INTACT_TRY(dequantize_codes(run));
  return backward(run);
}

intact_status conf_handle_affine(conf_case *c) {
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
    if (strcmp(maps[i].op, c->op) != 0) continue;
    row_run run = {.c = c};
    intact_status status = run_row(&run, &maps[i]);
    finish(&run);
    return status;
  }
  return conf_skip(c, c->op);
}

/* ---- the fused observer over steps ---- */

static intact_status fused_step(conf_case *c, int step, intact_tensor **state) {
  const json_t *flags = json_array_get(conf_attr(c, "steps"), (size_t)step);
  row_run run = {.c = c, .n = 7};
  run.operands[0] = conf_input(c, "x%d", step);
  for (int i = 0; i < 4; i++) run.operands[3 + i] = state[i];
  intact_status status = number_operand(&run, 1, json_object_get(flags, "observer_on"));
  char name[32];
  if (status == INTACT_OK) status = number_operand(&run, 2, json_object_get(flags, "fake_quant_on"));
  if (status == INTACT_OK) status = start(&run, "fused_moving_avg_obs_fake_quant");
  if (status == INTACT_OK) status = intact__node_infer(run.node);
  if (status == INTACT_OK) status = intact__eval_node(run.node, run.operands, false, run.results);
  static const char *const names[] = {"y", "mask", "running_min", "running_max", "scale", "zero_point"};
  for (int i = 0; i < 6 && status == INTACT_OK; i++) {
    snprintf(name, sizeof name, "%s%d", names[i], step);
    status = give(c, run.results[i], name);
  }
  const intact_tensor *dy = conf_input(c, "dy%d", step);
  if (status == INTACT_OK && dy) {
    const intact_tensor *d_results[MAX_OPERANDS] = {dy};
    intact_tensor *d_operands[MAX_OPERANDS] = {NULL};
    const bool needed[MAX_OPERANDS] = {true};
    intact_grad grad = {.context = c->context,
                        .node = run.node,
                        .n_operands = run.n,
                        .n_results = 6,
                        .operands = run.operands,
                        .results = (const intact_tensor *const *)run.results,
                        .d_results = d_results,
                        .needed = needed,
                        .d_operands = d_operands};
    status = run.node->op->grad(&grad);
    snprintf(name, sizeof name, "dx%d", step);
    if (status == INTACT_OK) status = give_gradient(c, d_operands[0], INTACT_F32, name);
  }
  for (int i = 0; i < 4 && status == INTACT_OK; i++) {
    intact_tensor_destroy(state[i]);
    state[i] = run.results[2 + i];
    run.results[2 + i] = NULL;
  }
  finish(&run);
  return status;
}

intact_status conf_handle_fused(conf_case *c) {
  static const char *const names[] = {"running_min", "running_max", "scale", "zero_point"};
  intact_tensor *state[4] = {NULL};
  intact_status status = INTACT_OK;
  for (int i = 0; i < 4 && status == INTACT_OK; i++) status = intact_tensor_copy(conf_input(c, "%s", names[i]), &state[i]);
  int steps = (int)json_array_size(conf_attr(c, "steps"));
  for (int step = 0; step < steps && status == INTACT_OK; step++) status = fused_step(c, step, state);
  for (int i = 0; i < 4; i++) intact_tensor_destroy(state[i]);
  return status;
}

/* ---- qparams of ranges by the observers' rule ---- */

intact_status conf_handle_observer_qparams(conf_case *c) {
  const intact_tensor *low = conf_input(c, "min_val"), *high = conf_input(c, "max_val");
  intact_quant_spec spec = {.axis = -1,
                            .quant_min = conf_attr_int(c, "quant_min", 0),
                            .quant_max = conf_attr_int(c, "quant_max", 0),
                            .reduce_range = conf_attr_bool(c, "reduce_range", false),
                            .eps = conf_attr_f64(c, "eps", 0)};
  bool given = conf_attr(c, "quant_min") != NULL;
  if (!conf_dtype(conf_attr_text(c, "dtype", ""), &spec.dtype)) return INTACT_UNSUPPORTED_TYPE;
  if (!intact_qscheme_from_text(conf_attr_text(c, "qscheme", ""), &spec.scheme)) return INTACT_WRONG_USE;
  if (given && spec.quant_min == 0 && spec.quant_max == 0) return INTACT_OUT_OF_RANGE;
  spec.legacy_dtype = conf_attr_text(c, "dtype", "")[0] == 'q';
  bool channels = spec.scheme != INTACT_PER_TENSOR_AFFINE && spec.scheme != INTACT_PER_TENSOR_SYMMETRIC;
  const char *name = conf_attr_text(c, "observer", channels && !strstr(c->name, "error-per-channel-scheme") ? "PerChannelMinMaxObserver"
                                                                                                       : "MinMaxObserver");
  if (channels) spec.axis = 0;
  spec.observer = intact__find_observer(name);
  void *state;
  INTACT_TRY(spec.observer->create(c->context, &spec, &state));
  spec.observer->destroy(c->context, state);
  intact_arena arena;
  intact__arena_init(&arena, c->context);
  int64_t n = low->count, each = channels ? n : 1;
  intact_status status = INTACT_OK;
  double *scale = intact__arena_alloc(&arena, (size_t)n, sizeof *scale), *zero = intact__arena_alloc(&arena, (size_t)n, sizeof *zero);
  bool real = false, symmetric = spec.scheme == INTACT_PER_TENSOR_SYMMETRIC || spec.scheme == INTACT_PER_CHANNEL_SYMMETRIC;
  for (int64_t i = 0; i < n && status == INTACT_OK; i += each) {
    intact_qparams *q;
    status = intact__range_qparams(c->context, &spec, each, intact__f32(low) + i, intact__f32(high) + i, &arena, &q);
    for (int64_t k = 0; status == INTACT_OK && k < each; k++) {
      real = q->real_zero_point != NULL;
      scale[i + k] = (double)q->scale[k];
      zero[i + k] = real ? (double)q->real_zero_point[k] : q->zero_point[k];
    }
  }
  if (status == INTACT_OK) status = conf_result_f64(c, INTACT_F32, 1, &n, scale, "scale");
  const intact_dtype whole = symmetric || isinf(intact__f32(low)[0]) ? INTACT_S64 : INTACT_S32;
  if (status == INTACT_OK) status = conf_result_f64(c, real ? INTACT_F32 : whole, 1, &n, zero, "zero_point");
  intact__arena_fini(&arena);
  return status;
}
