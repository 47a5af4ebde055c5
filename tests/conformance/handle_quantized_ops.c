/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of quantized_ops: an operator called on quantized tensors, by every engine whose result the case lists. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/bind.h"
#include "ops/quantized/quantized.h"

/* ---- quantized inputs ---- */

/* Whether `name` is `stem`_scale, _zero_point, _scales, _zero_points or _axis of an input or result `stem`. */
static bool is_qparam(const json_t *stems, const char *name) {
  static const char *const suffixes[] = {"_scale", "_zero_point", "_scales", "_zero_points", "_axis"};
  const size_t length = strlen(name);
  char stem[100];
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    const size_t end = strlen(suffixes[i]);
    if (length <= end || length - end >= sizeof stem || strcmp(name + length - end, suffixes[i]) != 0) continue;
    snprintf(stem, sizeof stem, "%.*s", (int)(length - end), name);
    if (json_object_get(stems, stem)) return true;
  }
  return false;
}

static bool passes(const conf_case *c, const char *name) {
  static const char *const notes[] = {"memory_format", "channels_used", "bits",
                                      "qscheme",       "output_scale",  "output_zero_point"};
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
    if (strcmp(name, notes[i]) == 0) return true;
  return is_qparam(json_object_get(c->json, "inputs"), name) || is_qparam(conf_bind_expect(c), name);
}

enum { MAX_CHANNELS = 1024 };
typedef struct channels {
  intact_qparams qparams;
  float scale[MAX_CHANNELS];
  int32_t zero_point[MAX_CHANNELS];
} channels;

/* The qparams of input `name`: attributes per tensor, inputs per channel. False: it is plain. */
static bool read_qparams(const conf_case *c, const char *name, const intact_tensor *x, channels *q) {
  char text[100];
  snprintf(text, sizeof text, "%s_scale", name);
  const bool per_tensor = conf_attr(c, text) != NULL;
  const intact_tensor *scales = conf_input(c, "%s_scales", name), *zeros = conf_input(c, "%s_zero_points", name);
  if ((!per_tensor && !scales) || x->dtype == INTACT_F32) return false;
  q->qparams = (intact_qparams){.dtype = x->dtype,
                                .quant_min = intact_dtype_min(x->dtype),
                                .quant_max = intact_dtype_max(x->dtype),
                                .axis = -1,
                                .n = 1,
                                .scale = q->scale,
                                .zero_point = q->zero_point};
  q->zero_point[0] = 0;
  if (per_tensor) {
    q->scale[0] = (float)conf_attr_f64(c, text, 1);
    snprintf(text, sizeof text, "%s_zero_point", name);
    q->zero_point[0] = (int32_t)conf_attr_int(c, text, 0);
    return true;
  }
  snprintf(text, sizeof text, "%s_axis", name);
  q->qparams.n = scales->count;
  if (scales->count > MAX_CHANNELS) return false;
  q->qparams.scheme = q->qparams.n > 1 ? INTACT_PER_CHANNEL_AFFINE : INTACT_PER_TENSOR_AFFINE;
  const int64_t axis = conf_attr_int(c, text, 0);
  q->qparams.axis = axis >= 0 && axis < x->rank && q->qparams.n == x->dims[axis] ? (int)axis : -1;
  if (zeros && zeros->count != scales->count) return false;
  for (int64_t i = 0; i < q->qparams.n; i++) {
    q->scale[i] = (float)intact__tensor_get_f64(scales, i);
    q->zero_point[i] = zeros ? (int32_t)intact__tensor_get_s64(zeros, i) : 0;
  }
  return true;
}

/* ---- the result's qparams ---- */

static bool alias_has(const intact_alias *alias, const char *item) {
  const char *at = alias->attrs ? strstr(alias->attrs, item) : NULL;
  return at != NULL;
}

static intact_result_qparams result_of(const conf_binding *b) {
  const conf_case *c = b->c;
  intact_result_qparams r = {.dtype = -1, .relu = alias_has(b->alias, "=@relu:1")};
  intact_dtype dtype;
  const json_t *scale = conf_attr(c, "output_scale");
  const bool typed = alias_has(b->alias, "=@dtype") && conf_dtype(conf_attr_text(c, "output_dtype", ""), &dtype);
  if (typed && dtype == INTACT_F32) return r;
  if (typed) r.dtype = (int)dtype;
  r.given = scale != NULL && alias_has(b->alias, "output_scale=@scale");
  r.scale = conf_json_f64(scale, 0);
  r.zero_point = conf_attr_int(c, "output_zero_point", 0);
  return r;
}

/* ---- results ---- */

/* The reference keeps scales in double: one that rounds to ours is given as it is expected. */
static intact_status share_scale(conf_binding *b, const json_t *expect, const char *name, const intact_qparams *q) {
  char full[100];
  snprintf(full, sizeof full, "%s_scale", name);
  const json_t *key = json_object_get(expect, full);
  if (!key) return INTACT_OK; /* plain integers are expected */
  const intact_tensor *want = conf_tensor(b->c, json_string_value(key));
  double scale = (double)q->scale[0];
  if (want && (float)intact__tensor_get_f64(want, 0) == q->scale[0]) scale = intact__tensor_get_f64(want, 0);
  const int64_t one = 1, zero = q->zero_point[0];
  intact_status status = conf_result_f64(b->c, INTACT_F64, 1, &one, &scale, "%s", full);
  if (status != INTACT_OK) return status;
  return conf_result_s64(b->c, INTACT_S64, 1, &one, &zero, "%s_zero_point", name);
}

static intact_status share_results(conf_binding *b, const intact_node *node, intact_tensor *const *results) {
  for (int k = 0; k < b->n_expected; k++) {
    const int i = conf_bind_result(b, k);
    if (i >= node->n_results || !results[i]) continue;
    intact_tensor *shared;
    const int64_t one = 1;
    const bool truth = b->op == intact__find_op("equal"); /* Python's bool, stored as [1] */
    intact_status status = intact_tensor_share(results[i], truth, truth ? &one : NULL, &shared);
    if (status == INTACT_OK) status = conf_result(b->c, shared, "%s", b->expected[k]);
    if (status == INTACT_OK && node->results[i]->qparams)
      status = share_scale(b, conf_bind_expect(b->c), b->expected[k], node->results[i]->qparams);
    if (status != INTACT_OK) return status;
  }
  return INTACT_OK;
}

/* ---- engines ---- */

static const char *const engines[] = {"fbgemm", "x86", "qnnpack", "onednn"};

/* The expectations that engine e meets; NULL: the case says nothing of it. */
static const json_t *expect_of_engine(const conf_case *c, const char *engine) {
  const json_t *listed = json_object_get(c->json, "engines"), *item;
  size_t i;
  json_array_foreach(listed, i, item) {
    if (strcmp(json_string_value(item), engine) == 0) return json_object_get(c->json, "expect");
  }
  const char *group = json_string_value(json_object_get(listed, engine));
  return group ? json_object_get(c->json, group) : NULL;
}

static bool has_attr(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++)
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return true;
  return false;
}

static intact_status run_engine(conf_binding *b, intact_node *node, const char *engine, bool fast, const json_t *expect) {
  intact_tensor *results[CONF_MAX_OPERANDS] = {NULL};
  char label[200];
  intact_status status = intact__attr_set_string(node, "engine", engine);
  if (status == INTACT_OK) status = intact__node_infer(node);
  if (status == INTACT_OK) status = intact__eval_node(node, b->operands, fast, results);
  for (int k = 0; k < b->n_expected && status == INTACT_OK; k++) {
    const int i = conf_bind_result(b, k);
    const intact_tensor *want = conf_tensor(b->c, json_string_value(json_object_get(expect, b->expected[k])));
    if (i >= node->n_results || !want) continue;
    snprintf(label, sizeof label, "%s by engine %s%s", b->expected[k], engine, fast ? ", eval_fast" : "");
    conf_compare(b->c, label, results[i], want, json_object_get(json_object_get(b->c->json, "tolerance"), b->expected[k]));
  }
  conf_bind_release(node->n_results, results);
  return status;
}

static intact_status evaluate(conf_binding *b, intact_node *node) {
  intact_tensor *results[CONF_MAX_OPERANDS] = {NULL};
  intact_status status = INTACT_OK;
  const char *last = NULL;
  for (int e = 0; e < 4 && status == INTACT_OK && has_attr(node, "engine"); e++) {
    const json_t *expect = expect_of_engine(b->c, engines[e]);
    if (!expect) continue;
    status = run_engine(b, node, engines[e], false, expect);
    if (status == INTACT_OK && node->op->eval_fast) status = run_engine(b, node, engines[e], true, expect);
    last = engines[e];
  }
  if (status == INTACT_OK && last) status = intact__node_infer(node);
  if (status == INTACT_OK) status = intact__eval_node(node, b->operands, false, results);
  if (status != INTACT_OK) return status;
  for (int i = 0; i < node->n_results; i++) conf_bind_check_inference(b, node->results[i], results[i]);
  status = share_results(b, node, results);
  conf_bind_release(node->n_results, results);
  return status;
}

/* ---- cases ---- */

static intact_status run(conf_binding *b) {
  static channels kept[CONF_MAX_OPERANDS]; /* one case at a time in a process */
  intact_graph *graph = NULL;
  intact_node *node = NULL;
  for (int i = 0; i < b->n; i++)
    if (b->inputs[i] && b->operands[i] && read_qparams(b->c, b->inputs[i], b->operands[i], &kept[i]))
      b->qparams[i] = &kept[i].qparams;
  const intact_result_qparams result = result_of(b);
  intact_status status = conf_bind_node(b, &graph, &node);
  if (status == INTACT_OK) status = intact__set_result_qparams(node, &result);
  if (status == INTACT_OK && b->c->outcome->state != CONF_FAILED) status = evaluate(b, node);
  intact_graph_destroy(graph);
  return status;
}

/* Attributes that the suite calls otherwise than aten. */
static const intact_alias renamed[] = {{"aten", "aten::constant_pad_nd", 0, 0, "padding=pad", NULL},
                                       {"aten", "aten::slice", 0, 0, "starts=start,steps=step", NULL}};

intact_status conf_handle_quantized_op(conf_case *c) {
  conf_binding b = {.c = c, .passes = passes};
  b.op = intact__find_quantized(c->op, &b.alias);
  if (!b.op) return conf_skip(c, c->op);
  for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
    if (strcmp(c->op, renamed[i].name) == 0) b.alias = &renamed[i];
  conf_bind(&b);
  const intact_status status = c->outcome->state == CONF_FAILED ? INTACT_OK : run(&b);
  conf_bind_release(b.n, b.made);
  return status;
}
