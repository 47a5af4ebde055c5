/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of observers: the rows over the case's batches, and the fake quantizers made of them. */
#include <stdio.h>
#include <string.h>

#include "conformance/conformance.h"
#include "graph/fake_quantizer.h"
#include "kernels/affine/choose_qparams.h"
#include "tensor/blocks.h"

static intact_status refuse(conf_case *c, const char *text) {
  return intact__fail(c->context, INTACT_WRONG_USE, c->name, __FILE__, __LINE__, "%s", text);
}

static const char *observer_name(const conf_case *c) { return conf_attr_text(c, "observer", c->op); }

static bool per_channel(const conf_case *c) { return strstr(observer_name(c), "PerChannel") != NULL; }

static void add_option(intact_text *text, const conf_case *c, const char *name) {
  if (!conf_attr(c, name)) return;
  intact__text_add(text, "%s%s=", text->length ? "," : "", name);
  intact__text_add_double(text, conf_attr_f64(c, name, 0));
}

/* The block of a granularity as the option that block observers take. */
static void add_block(intact_text *text, const conf_case *c) {
  const json_t *granularity = conf_attr(c, "granularity");
  const char *kind = json_string_value(json_object_get(granularity, "kind"));
  int64_t block[INTACT_MAX_RANK];
  int n = conf_attr_ints(c, "block_size", block, INTACT_MAX_RANK);
  intact__text_add(text, "%smapping=%s,block=", text->length ? "," : "", conf_attr_text(c, "mapping_type", ""));
  if (kind && strcmp(kind, "group-not-dividing") == 0) intact__text_add(text, "4");
  if (kind && strcmp(kind, "block-not-dividing") == 0) intact__text_add(text, "3x5");
  if (kind && strcmp(kind, "block-rank") == 0) intact__text_add(text, "1x2x5");
  for (int i = 0; i < n; i++) intact__text_add(text, "%s%lld", i ? "x" : "", (long long)block[i]);
}

/* Spec of the case; options is to be released by the caller. */
static intact_status make_spec(conf_case *c, intact_quant_spec *spec, intact_text *options) {
  const char *dtype = conf_attr_text(c, "dtype", conf_attr_text(c, "target_dtype", "quint8"));
  const char *scheme = conf_attr_text(c, "qscheme", per_channel(c) ? "per_channel_affine" : "per_tensor_affine");
  const char *name = observer_name(c);
  *spec = (intact_quant_spec){.axis = -1,
                              .quant_min = conf_attr_int(c, "quant_min", 0),
                              .quant_max = conf_attr_int(c, "quant_max", 0),
                              .reduce_range = conf_attr_bool(c, "reduce_range", false),
                              .is_dynamic = conf_attr_bool(c, "is_dynamic", false),
                              .legacy_dtype = dtype[0] == 'q',
                              .eps = conf_attr_f64(c, "eps", 0)};
  if (!conf_dtype(dtype, &spec->dtype)) return refuse(c, "no such type");
  if (!intact_qscheme_from_text(scheme, &spec->scheme)) return refuse(c, "no such scheme");
  if (per_channel(c)) spec->axis = (int)conf_attr_int(c, "ch_axis", 0);
  if (strcmp(name, "FixedQParamsFakeQuantize") == 0) name = "FixedQParamsObserver";
  spec->observer = intact__find_observer(name);
  if (!spec->observer) return refuse(c, "no such observer");
  intact__text_init(options, c->context);
  if (strstr(spec->observer->options, "averaging_constant")) add_option(options, c, "averaging_constant");
  if (strstr(spec->observer->options, "bins")) add_option(options, c, "bins");
  if (strstr(spec->observer->options, "upsample_rate")) add_option(options, c, "upsample_rate");
  if (strstr(spec->observer->options, "zero_point")) {
    add_option(options, c, "scale");
    add_option(options, c, "zero_point");
  }
  if (strstr(spec->observer->options, "block")) add_block(options, c);
  spec->options = options->data;
  return options->failed ? refuse(c, "out of memory") : INTACT_OK;
}

/* ---- results ---- */

static intact_status give_copy(conf_case *c, const intact_tensor *tensor, const char *name, int i) {
  char full[64];
  snprintf(full, sizeof full, i < 0 ? "%s" : "%s%d", name, i);
  intact_tensor *copy;
  if (!tensor || !conf_expects(c, "%s", full)) return INTACT_OK;
  INTACT_TRY(intact_tensor_copy(tensor, &copy));
  return conf_result(c, copy, "%s", full);
}

/* The saved state under the names of batch i (or "min_val_reset"). */
static intact_status give_state(conf_case *c, const intact_observation *observation, int i, bool reset) {
  static const char *const names[] = {"min_val", "max_val", "histogram"};
  intact_tensor_set *set;
  INTACT_TRY(intact_tensor_set_create(c->context, &set));
  intact_status status = observation->spec.observer->save(c->context, observation->state, "", set);
  for (int k = 0; k < 3 && status == INTACT_OK; k++) {
    char name[40];
    snprintf(name, sizeof name, "%s%s", names[k], reset ? "_reset" : "");
    status = give_copy(c, intact_tensor_set_find(set, names[k]), name, reset ? -1 : i);
  }
  for (int k = 0; k <= i && !reset && status == INTACT_OK; k++) {
    char name[40];
    snprintf(name, sizeof name, "tensor_val.%d", k);
    if (i > 0 || !conf_expects(c, "tensor_val1")) status = give_copy(c, intact_tensor_set_find(set, name), "tensor_val", k);
  }
  intact_tensor_set_destroy(set);
  return status;
}

/* PyTorch's zero points: int32 for affine and fixed ones, int64 for symmetric ones and defaults, float for float qparams. */
static intact_status give_qparams(conf_case *c, const intact_observation *observation) {
  if (!conf_expects(c, "scale")) return INTACT_OK;
  const intact_qscheme scheme = observation->spec.scheme;
  intact_arena arena;
  intact_qparams *q = NULL;
  intact__arena_init(&arena, c->context);
  intact_status status = intact__observation_qparams(observation, &arena, &q);
  double *scale = NULL, *zero = NULL;
  if (status == INTACT_OK) {
    scale = intact__arena_alloc(&arena, (size_t)q->n, sizeof *scale);
    zero = intact__arena_alloc(&arena, (size_t)q->n, sizeof *zero);
    for (int64_t i = 0; i < q->n; i++) {
      scale[i] = (double)q->scale[i];
      zero[i] = q->real_zero_point ? (double)q->real_zero_point[i] : q->zero_point[i];
    }
    intact_observer_counts counts;
    observation->spec.observer->counts(observation->state, &counts);
    intact_observer_range range = {0};
    status = observation->spec.observer->range(c->context, observation->state, &range);
    bool fixed = strcmp(observation->spec.observer->name, "fixed_qparams") == 0;
    bool wide = scheme == INTACT_PER_TENSOR_SYMMETRIC || scheme == INTACT_PER_CHANNEL_SYMMETRIC || (!fixed && range.n == 0);
    if (status == INTACT_OK) status = conf_result_f64(c, INTACT_F32, 1, &q->n, scale, "scale");
    if (status == INTACT_OK)
      status = conf_result_f64(c, q->real_zero_point ? INTACT_F32 : wide ? INTACT_S64 : INTACT_S32, 1, &q->n, zero, "zero_point");
  }
  intact__arena_fini(&arena);
  return status;
}

static intact_status give_search(conf_case *c, const intact_observation *observation) {
  if (!conf_expects(c, "search_min")) return INTACT_OK;
  intact_observer_range range;
  INTACT_TRY(observation->spec.observer->range(c->context, observation->state, &range));
  if (range.n != 1) return conf_fail(c, "expected a range, got none");
  const double low = (double)range.low[0], high = (double)range.high[0];
  INTACT_TRY(conf_result_f64(c, INTACT_F32, 0, NULL, &low, "search_min"));
  return conf_result_f64(c, INTACT_F32, 0, NULL, &high, "search_max");
}

/* ---- plain observers ---- */

static intact_status observe_batches(conf_case *c, intact_observation **observation) {
  int64_t reset_after = conf_attr_int(c, "reset_after", -1);
  for (int i = 0; conf_input(c, "x%d", i); i++) {
    const intact_tensor *x = conf_input(c, "x%d", i);
    INTACT_TRY(intact__observation_update(*observation, x));
    INTACT_TRY(give_state(c, *observation, i, false));
    INTACT_TRY(give_copy(c, x, "y", i));
    if (i == reset_after) {
      intact_observation *fresh;
      INTACT_TRY(intact__observation_create(c->context, &(*observation)->spec, &fresh));
      intact__observation_release(*observation);
      *observation = fresh;
      INTACT_TRY(give_state(c, fresh, i, true));
    }
  }
  return INTACT_OK;
}

/* q and dq of block observers. */
static intact_status eval_block_row(conf_case *c, const char *row, int n, const intact_tensor *const *operands, intact_dtype out,
                                    intact_tensor **results) {
  const intact_op *op = intact__find_op(row);
  intact_graph *graph = NULL;
  intact_node *node = NULL;
  intact_value *values[3] = {NULL};
  int64_t block[INTACT_MAX_RANK];
  int n_block = conf_attr_ints(c, "block_size", block, INTACT_MAX_RANK);
  intact_status status = intact__graph_create(c->context, c->name, &graph);
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    char name[20];
    snprintf(name, sizeof name, "in%d", i);
    status = intact__graph_add_input(graph, name, operands[i]->dtype, operands[i]->rank, operands[i]->dims, &values[i]);
  }
  if (status == INTACT_OK) status = intact__graph_add_node(graph, op, row, n, values, op->schema.n_results, NULL, NULL, &node);
  if (status == INTACT_OK) status = intact__attr_set_ints(node, "block_size", n_block, block);
  if (status == INTACT_OK) {
    intact__attr_set_int(node, "output_dtype", out);
    if (strcmp(row, "quantize_affine") == 0 && conf_attr(c, "quant_min")) {
      intact__attr_set_int(node, "quant_min", conf_attr_int(c, "quant_min", 0));
      intact__attr_set_int(node, "quant_max", conf_attr_int(c, "quant_max", 0));
    }
    status = intact__node_infer(node);
  }
  if (status == INTACT_OK) status = intact__eval_node(node, operands, false, results);
  intact_graph_destroy(graph);
  return status;
}

static intact_status give_blocks(conf_case *c, const intact_observation *observation, const intact_tensor *last) {
  intact_observer_range range;
  int64_t block[INTACT_MAX_RANK];
  int n_block = conf_attr_ints(c, "block_size", block, INTACT_MAX_RANK);
  intact_blocks blocks;
  INTACT_TRY(observation->spec.observer->range(c->context, observation->state, &range));
  INTACT_TRY(intact__blocks_create(c->context, c->name, last->rank, last->dims, n_block, block, &blocks));
  const intact_quant_spec *spec = &observation->spec;
  const char *mapping = conf_attr_text(c, "mapping_type", "");
  int64_t low = spec->quant_min, high = spec->quant_max;
  INTACT_TRY(intact__quant_range(c->context, c->name, spec->dtype, false, &low, &high, NULL));
  const intact_qparams_rule rule = intact__block_rule(strcmp(mapping, "asymmetric") == 0   ? INTACT_MAPPING_AFFINE
                                                      : strcmp(mapping, "symmetric") == 0 ? INTACT_MAPPING_SYMMETRIC
                                                                                          : INTACT_MAPPING_SYMMETRIC_NO_CLIPPING,
                                                      low, high, spec->eps);
  intact_tensor *scale = NULL, *zero = NULL, *q = NULL, *dq = NULL;
  intact_status status = intact_tensor_create(c->context, INTACT_F32, blocks.value_rank, blocks.value_dims, &scale);
  if (status == INTACT_OK) status = intact_tensor_create(c->context, INTACT_S32, blocks.value_rank, blocks.value_dims, &zero);
  for (int64_t i = 0; status == INTACT_OK && i < range.n; i++)
    intact__qparams_from_range(&rule, range.low[i], range.high[i], intact__f32(scale) + i, (int32_t *)zero->data + i);
  const intact_tensor *quantize[3] = {last, scale, zero};
  if (status == INTACT_OK) status = eval_block_row(c, "quantize_affine", 3, quantize, spec->dtype, &q);
  const intact_tensor *dequantize[3] = {q, scale, zero};
  if (status == INTACT_OK) status = eval_block_row(c, "dequantize_affine", 3, dequantize, INTACT_F32, &dq);
  if (status == INTACT_OK) status = give_copy(c, scale, "scale", -1);
  if (status == INTACT_OK) status = give_copy(c, zero, "zero_point", -1);
  if (status == INTACT_OK) status = give_copy(c, q, "q", -1);
  if (status == INTACT_OK) status = give_copy(c, dq, "dq", -1);
  intact_tensor_destroy(scale);
  intact_tensor_destroy(zero);
  intact_tensor_destroy(q);
  intact_tensor_destroy(dq);
  return status;
}

static intact_status run_observer(conf_case *c, intact_observation **observation) {
  INTACT_TRY(observe_batches(c, observation));
  if (strcmp(conf_attr_text(c, "calls", ""), "calculate_qparams") == 0) {
    intact_arena arena;
    intact_qparams *q;
    intact__arena_init(&arena, c->context);
    intact_status status = intact__observation_qparams(*observation, &arena, &q);
    intact__arena_fini(&arena);
    return status;
  }
  if (conf_attr(c, "granularity")) {
    int last = 0;
    while (conf_input(c, "x%d", last + 1)) last++;
    return give_blocks(c, *observation, conf_input(c, "x%d", last));
  }
  INTACT_TRY(give_search(c, *observation));
  return give_qparams(c, *observation);
}

intact_status conf_handle_observer(conf_case *c) {
  intact_quant_spec spec;
  intact_text options = {0};
  intact_observation *observation = NULL;
  intact_status status = make_spec(c, &spec, &options);
  if (status == INTACT_OK) status = intact__observation_create(c->context, &spec, &observation);
  if (status == INTACT_OK) status = run_observer(c, &observation);
  intact__observation_release(observation);
  if (options.context) intact__text_fini(&options);
  return status;
}

/* ---- fake quantizers ---- */

static intact_status set_step(conf_case *c, intact_observation *observation, const json_t *step) {
  const char *mode = json_string_value(json_object_get(step, "mode"));
  if (!step) return INTACT_OK;
  if (!mode) {
    intact__fake_quantizer_switch(observation, conf_json_int(json_object_get(step, "observer"), 1) != 0,
                                  conf_json_int(json_object_get(step, "fake_quant"), 1) != 0);
    return INTACT_OK;
  }
  if (strcmp(mode, "enable_static_estimate") == 0 || strcmp(mode, "observer") == 0)
    return intact__fake_quantizer_set_mode(observation, INTACT_FAKE_ESTIMATE);
  if (strcmp(mode, "enable_static_observation") == 0) return intact__fake_quantizer_set_mode(observation, INTACT_FAKE_OBSERVE);
  if (strcmp(mode, "enable_param_learning") == 0 || strcmp(mode, "range_learning") == 0)
    return intact__fake_quantizer_set_mode(observation, INTACT_FAKE_LEARN);
  return conf_fail(c, "expected a mode, got %s", mode);
}

static intact_status run_step(conf_case *c, intact_observation *observation, int i) {
  const intact_tensor *x = conf_input(c, "x%d", i), *dy = conf_input(c, "dy%d", i);
  intact_tensor *y = NULL, *dx = NULL, *ds = NULL, *dz = NULL;
  INTACT_TRY(set_step(c, observation, json_array_get(conf_attr(c, "steps"), (size_t)i)));
  INTACT_TRY(intact__fake_quantizer_forward(observation, x, true, &y));
  intact_status status = give_copy(c, y, "y", i);
  if (status == INTACT_OK && dy) status = intact__fake_quantizer_backward(observation, x, dy, false, &dx, &ds, &dz);
  if (status == INTACT_OK) status = give_copy(c, dx, "dx", i);
  if (status == INTACT_OK) status = give_copy(c, ds, "dscale", i);
  if (status == INTACT_OK) status = give_copy(c, dz, "dzero_point", i);
  if (status == INTACT_OK) status = give_copy(c, observation->fake->scale, "scale", i);
  if (status == INTACT_OK) status = give_copy(c, observation->fake->zero_point, "zero_point", i);
  if (status == INTACT_OK) status = give_state(c, observation, i, false);
  intact_tensor_destroy(y);
  intact_tensor_destroy(dx);
  intact_tensor_destroy(ds);
  intact_tensor_destroy(dz);
  return status;
}

static intact_fake_kind kind_of(const conf_case *c) {
  if (strcmp(c->op, "FusedMovingAvgObsFakeQuantize") == 0) return INTACT_FAKE_FUSED;
  if (strcmp(c->op, "_LearnableFakeQuantize") == 0) return INTACT_FAKE_LEARNED;
  if (strcmp(c->op, "LearnableFakeQuantize") == 0) return INTACT_FAKE_LEARNED_FIRST;
  return INTACT_FAKE_OBSERVED;
}

intact_status conf_handle_fake_quantizer(conf_case *c) {
  intact_quant_spec spec;
  intact_text options = {0};
  intact_observation *observation = NULL;
  const intact_fake_options fake = {.kind = kind_of(c),
                                    .use_grad_scaling = conf_attr_bool(c, "use_grad_scaling", false),
                                    .channels = conf_attr_int(c, "channel_len", 0) > 0 ? conf_attr_int(c, "channel_len", 0) : 0,
                                    .scale = (float)conf_attr_f64(c, "scale", 1.0),
                                    .zero_point = (float)conf_attr_f64(c, "zero_point", 0.0)};
  intact_status status = make_spec(c, &spec, &options);
  if (status == INTACT_OK) status = intact__observation_create(c->context, &spec, &observation);
  if (status == INTACT_OK) status = intact__fake_quantizer_create(observation, &fake);
  for (int i = 0; status == INTACT_OK && conf_input(c, "x%d", i); i++) status = run_step(c, observation, i);
  intact__observation_release(observation);
  if (options.context) intact__text_fini(&options);
  return status;
}
