/* SPDX-License-Identifier: Apache-2.0 */
/* Empirical bias correction: what quantization adds to the mean of a layer's output is taken off its bias. */
#include "quant/bias_correction.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "quant/quant_layer.h"

enum { MAX_SAMPLES = 128, MIN_SAMPLES = 8, WORK_BYTES = 48 << 20 };

/* Per-channel means of a layer's output over the two halves of the samples. */
typedef struct target {
  int64_t channels;
  double *mean[2]; /* NULL: not seen; sums until all parts were */
} target;

typedef struct corrector {
  intact_graph *graph;
  const intact_graph *reference;
  intact_note_list *notes;
  intact_arena arena;
  intact_map layers; /* name of a correctable node -> index */
  target *targets;
  int64_t samples, parts; /* a network of a fixed batch gets the samples in parts, each layer all parts before the next layer */
  int64_t part;           /* that runs through the reference */
  intact_tensor **tensors; /* by value id of graph, `parts` each; the others are NULL where the first stands for all */
  int *left;
  size_t n_values;
  int64_t corrected_layers, corrected_channels;
} corrector;

/* Adds the sums of each channel of one part to those of its half of the samples. */
static void add_sums(const corrector *c, int64_t part, const intact_tensor *y, int axis, double *const sum[2]) {
  int64_t inner = 1, n = y->dims[axis], half = (c->samples + 1) / 2, rows = c->samples / c->parts;
  for (int i = axis + 1; i < y->rank; i++) inner *= y->dims[i];
  int64_t per_sample = y->count / rows;
  for (int64_t i = 0; i < y->count; i += inner) {
    double here = 0.0;
    for (int64_t p = 0; p < inner; p++) here += (double)intact__f32(y)[i + p];
    sum[part * rows + i / per_sample >= half][i / inner % n] += here;
  }
}

/* Sums to means; y: one part. */
static void divide_sums(const corrector *c, const intact_tensor *y, int64_t channels, double *const mean[2]) {
  int64_t half = (c->samples + 1) / 2, per_channel = y->count / (c->samples / c->parts) / channels;
  for (int64_t k = 0; k < channels; k++) {
    mean[0][k] /= (double)(half * per_channel);
    mean[1][k] /= (double)((c->samples - half) * per_channel);
  }
}

/* The channels lie along `axis`, the samples of a part along the first. */
static bool has_samples(const corrector *c, const intact_tensor *y, int axis, int64_t channels) {
  return y->dtype == INTACT_F32 && axis > 0 && axis < y->rank && y->dims[axis] == channels &&
         y->dims[0] == c->samples / c->parts && y->count > 0;
}

/* ---- the float network's means ---- */

static intact_status see_reference(void *user, const intact_value *value, const intact_tensor *tensor) {
  corrector *c = user;
  int64_t index;
  intact_layer layer;
  if (!value->producer || !intact__map_get(&c->layers, value->producer->name, &index)) return INTACT_OK;
  if (!intact__layer_describe(value->producer, &layer) || !has_samples(c, tensor, layer.y_axis, layer.out_channels))
    return INTACT_OK;
  target *t = &c->targets[index];
  if (!t->mean[0]) {
    t->channels = layer.out_channels;
    double *means = intact__arena_alloc(&c->arena, (size_t)t->channels * 2, sizeof *means);
    if (!means) return intact__no_memory(c->graph->context, (size_t)t->channels * 2 * sizeof *means);
    t->mean[0] = means;
    t->mean[1] = means + t->channels;
  }
  add_sums(c, c->part, tensor, layer.y_axis, t->mean);
  if (c->part + 1 == c->parts) divide_sums(c, tensor, t->channels, t->mean);
  return INTACT_OK;
}

/* ---- one layer ---- */

/* The s32 bias of the layer; made of zeros when it has none. NULL in *bias: the layer takes none, or not such a one. */
static intact_status bias_of(corrector *c, const intact_layer *layer, intact_value **bias) {
  intact_node *node = layer->node;
  intact_graph *graph = c->graph;
  *bias = NULL;
  if (layer->bias < 0) return INTACT_OK;
  intact_value *found = intact__layer_constant(node, layer->bias);
  if (found || (layer->bias < node->n_operands && node->operands[layer->bias])) {
    if (found && found->dtype == INTACT_S32 && found->qparams) *bias = found;
    return INTACT_OK;
  }
  const intact_value *x = node->operands[layer->x], *w = node->operands[layer->weight];
  if (!intact__is_op(x->producer, "dequantize") || !intact__is_op(w->producer, "dequantize")) return INTACT_OK;
  const intact_qparams *qx = x->producer->operands[0]->qparams, *qw = w->producer->operands[0]->qparams;
  if (!qx || !qw || qx->n != 1 || (qw->n != 1 && qw->n != layer->out_channels)) return INTACT_OK;
  size_t n = (size_t)layer->out_channels;
  float *scale = intact__arena_alloc(&graph->arena, n, sizeof *scale);
  int32_t *zero = intact__arena_alloc(&graph->arena, n, sizeof *zero);
  const char *name = intact__arena_format(&graph->arena, "%s_bias", node->name);
  name = name ? intact__graph_fresh_name(graph, name) : NULL;
  if (!scale || !zero || !name) return intact__no_memory(graph->context, n * sizeof *scale);
  for (size_t i = 0; i < n; i++) scale[i] = qx->scale[0] * qw->scale[qw->n > 1 ? i : 0];
  const intact_qparams *qparams = intact__qparams_create(&graph->arena, INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S32, INT32_MIN,
                                                         INT32_MAX, 0, layer->out_channels, scale, zero);
  if (!qparams) return intact__no_memory(graph->context, sizeof *qparams);
  intact_tensor *codes = NULL;
  intact_node *dequantize = NULL;
  INTACT_TRY(intact_tensor_create(graph->context, INTACT_S32, 1, &layer->out_channels, &codes));
  INTACT_TRY(intact__graph_add_constant(graph, name, codes, qparams, bias));
  INTACT_TRY(intact__graph_add_node(graph, intact__find_op("dequantize"), NULL, 1, bias, 1, NULL, node, &dequantize));
  INTACT_TRY(intact__node_infer(dequantize));
  INTACT_TRY(intact__node_extend(node, layer->bias + 1));
  intact__node_set_operand(node, layer->bias, dequantize->results[0]);
  return INTACT_OK;
}

/* Error to take off a channel: 0 where the two halves don't agree that it helps. */
static double agreed_error(double first, double second) {
  bool helps = fabs(second - first) < fabs(second) && fabs(first - second) < fabs(first);
  return helps ? (first + second) / 2 : 0.0;
}

/* Adds the shifts to the codes of the bias and to the outputs at hand; returns how many channels changed. */
static intact_status shift(corrector *c, intact_value *bias, const double *error, int64_t channels, int axis, intact_tensor **y,
                           int64_t *changed) {
  intact_tensor *codes = NULL;
  INTACT_TRY(intact_tensor_copy(bias->constant, &codes));
  float *added = intact__arena_alloc(&c->arena, (size_t)channels, sizeof *added);
  if (!added) {
    intact_tensor_destroy(codes);
    return intact__no_memory(c->graph->context, (size_t)channels * sizeof *added);
  }
  int32_t *code = codes->data;
  int64_t count = 0;
  for (int64_t k = 0; k < channels; k++) {
    double scale = (double)bias->qparams->scale[bias->qparams->n > 1 ? k : 0];
    double wanted = (double)code[k] + nearbyint(error[k] / scale);
    /* A quarter of the range is left to the accumulator, as the scales were fitted for. */
    if (!(fabs(wanted) <= 1.6e9) && fabs(wanted) > fabs((double)code[k])) continue;
    added[k] = (float)((wanted - (double)code[k]) * scale);
    count += wanted < (double)code[k] || wanted > (double)code[k];
    code[k] = (int32_t)wanted;
  }
  intact_tensor_destroy(bias->constant);
  bias->constant = codes;
  int64_t inner = 1;
  for (int i = axis + 1; i < y[0]->rank; i++) inner *= y[0]->dims[i];
  for (int64_t part = 0; part < c->parts; part++)
    for (int64_t i = 0; i < y[part]->count; i++) intact__f32(y[part])[i] += added[i / inner % channels];
  *changed = count;
  return INTACT_OK;
}

/* y: result 0 of the node, all parts. */
static intact_status correct(corrector *c, intact_node *node, intact_tensor **y) {
  int64_t index;
  intact_layer layer;
  if (!intact__map_get(&c->layers, node->name, &index)) return INTACT_OK;
  const target *t = &c->targets[index];
  if (!intact__layer_describe(node, &layer) || !t->mean[0] || t->channels != layer.out_channels ||
      !y[c->parts - 1] || !has_samples(c, y[0], layer.y_axis, t->channels))
    return INTACT_OK;
  intact_value *bias = NULL;
  INTACT_TRY(bias_of(c, &layer, &bias));
  if (!bias || bias->n_uses != 1 || bias->constant->count != t->channels) return INTACT_OK;
  size_t n = (size_t)t->channels;
  double *mean = intact__arena_alloc(&c->arena, n * 2, sizeof *mean), *halves[2] = {mean, mean + n};
  if (!mean) return intact__no_memory(c->graph->context, n * 2 * sizeof *mean);
  for (int64_t part = 0; part < c->parts; part++) add_sums(c, part, y[part], layer.y_axis, halves);
  divide_sums(c, y[0], t->channels, halves);
  for (size_t k = 0; k < n; k++)
    mean[k] = agreed_error(t->mean[0][k] - halves[0][k], t->mean[1][k] - halves[1][k]);
  int64_t changed = 0;
  INTACT_TRY(shift(c, bias, mean, t->channels, layer.y_axis, y, &changed));
  c->corrected_layers += changed > 0;
  c->corrected_channels += changed;
  return INTACT_OK;
}

/* ---- the quantized network, node by node ---- */

static void drop(corrector *c, const intact_value *value) {
  if ((size_t)value->id >= c->n_values || value->constant || --c->left[value->id] > 0) return;
  for (int64_t part = 0; part < c->parts; part++) {
    intact_tensor **tensor = &c->tensors[value->id * c->parts + part];
    intact_tensor_destroy(*tensor);
    *tensor = NULL;
  }
}

/* The value in a part; *varies: it is not the same in all of them. */
static const intact_tensor *in_part(const corrector *c, const intact_value *value, int64_t part, bool *varies) {
  if (!value) return NULL;
  if (value->constant) return value->constant;
  intact_tensor *const *parts = &c->tensors[value->id * c->parts];
  if (c->parts == 1 || !parts[c->parts - 1]) return parts[0];
  *varies = true;
  return parts[part];
}

/* Evaluates the node on a part; *varies: the other parts have to be evaluated too. */
static intact_status run_part(corrector *c, const intact_node *node, int64_t part, intact_tensor **results, bool *varies) {
  intact_context *context = c->graph->context;
  const intact_tensor **operands = intact__alloc_zeroed(context, (size_t)node->n_operands + 1, sizeof *operands);
  if (!operands) return intact__no_memory(context, (size_t)node->n_operands * sizeof *operands);
  for (int i = 0; i < node->n_operands; i++) operands[i] = in_part(c, node->operands[i], part, varies);
  const intact_status status = intact__eval_node(node, operands, true, results);
  intact__free(context, (void *)operands);
  return status;
}

static intact_status run_node(corrector *c, intact_node *node) {
  intact_context *context = c->graph->context;
  const int n_operands = node->n_operands, n_results = node->n_results; /* correcting may add a bias */
  const size_t parts = (size_t)c->parts, n = (size_t)n_results * parts;
  intact_tensor **results = intact__alloc_zeroed(context, n + (size_t)n_results, sizeof *results), **now = results + n;
  if (!results) return intact__no_memory(context, n * sizeof *results);
  intact_status status = INTACT_OK;
  bool varies = true;
  for (size_t part = 0; part < parts && varies && status == INTACT_OK; part++) {
    varies = false;
    status = run_part(c, node, (int64_t)part, now, &varies);
    for (int r = 0; status == INTACT_OK && r < n_results; r++) results[(size_t)r * parts + part] = now[r];
  }
  if (status == INTACT_OK) status = correct(c, node, results);
  for (size_t i = 0; i < n; i++) {
    const intact_value *value = node->results[i / parts];
    if (status == INTACT_OK && c->left[value->id] > 0)
      c->tensors[(size_t)value->id * parts + i % parts] = results[i];
    else
      intact_tensor_destroy(results[i]);
  }
  intact__free(context, results);
  for (int i = 0; i < n_operands; i++)
    if (node->operands[i]) drop(c, node->operands[i]);
  return status;
}

static intact_status run_graph(corrector *c, intact_tensor *const *inputs) {
  intact_graph *graph = c->graph;
  c->n_values = graph->n_values;
  c->tensors = intact__alloc_zeroed(graph->context, c->n_values * (size_t)c->parts + 1, sizeof *c->tensors);
  c->left = intact__alloc_zeroed(graph->context, c->n_values + 1, sizeof *c->left);
  if (!c->tensors || !c->left) return intact__no_memory(graph->context, c->n_values * sizeof *c->tensors);
  for (size_t i = 0; i < c->n_values; i++)
    if (graph->values[i]) c->left[i] = graph->values[i]->n_uses;
  for (int64_t part = 0; part < c->parts; part++)
    for (int i = 0; i < graph->n_inputs; i++)
      INTACT_TRY(intact__tensor_under(inputs[part * graph->n_inputs + i], c->reference->inputs[i]->qparams, graph->inputs[i]->qparams,
                                      &c->tensors[graph->inputs[i]->id * c->parts + part]));
  for (intact_node *node = graph->first; node; node = node->next) INTACT_TRY(run_node(c, node));
  return INTACT_OK;
}

/* ---- both ---- */

/* As many samples as keep the largest value of the network within WORK_BYTES. */
static int64_t sample_count(const intact_graph *graph, int64_t available) {
  int64_t largest = 1;
  for (size_t i = 0; i < graph->n_values; i++) {
    const intact_value *value = graph->values[i];
    if (!value || value->constant || value->rank < 1) continue;
    int64_t count = 1;
    for (int k = value->dims[0] < 0 ? 1 : 0; k < value->rank; k++)
      if (value->dims[k] > 0 && count < INT64_MAX / 4 / value->dims[k]) count *= value->dims[k];
    if (count > largest) largest = count;
  }
  const int64_t fixed = intact_graph_batch(graph);
  if (fixed > 0) largest = (largest + fixed - 1) / fixed;
  int64_t fitting = WORK_BYTES / 4 / largest;
  if (fitting > MAX_SAMPLES) fitting = MAX_SAMPLES;
  if (fitting < MIN_SAMPLES) fitting = MIN_SAMPLES;
  if (fitting > available) fitting = available;
  return fixed > 0 ? fitting - fitting % fixed : fitting;
}

static intact_status find_layers(corrector *c) {
  int64_t n = 0;
  for (intact_node *node = c->graph->first; node; node = node->next) {
    intact_layer layer;
    if (!intact__layer_describe(node, &layer) || layer.bias < 0) continue;
    if (!intact__is_op(node->operands[layer.x]->producer, "dequantize")) continue;
    INTACT_TRY(intact__map_set(&c->layers, node->name, n++));
  }
  c->targets = intact__arena_alloc(&c->arena, (size_t)n + 1, sizeof *c->targets);
  return c->targets ? INTACT_OK : intact__no_memory(c->graph->context, (size_t)n * sizeof *c->targets);
}

/* The means of the float network's layers, part by part. */
static intact_status see_parts(corrector *c, intact_data *data, intact_tensor **inputs, intact_tensor **outputs) {
  const intact_graph *graph = c->graph;
  const int64_t rows = c->samples / c->parts;
  intact_interp_options interp = {.fast = true, .tap = see_reference, .tap_user = c};
  for (c->part = 0; c->part < c->parts; c->part++) {
    intact_tensor **here = inputs + c->part * graph->n_inputs;
    INTACT_TRY(intact_data_batch(data, c->part * rows, rows, here));
    INTACT_TRY(intact__interpret(c->reference, (const intact_tensor *const *)here, &interp, outputs));
    for (int i = 0; i < graph->n_outputs; i++) {
      intact_tensor_destroy(outputs[i]);
      outputs[i] = NULL;
    }
  }
  return INTACT_OK;
}

static intact_status correct_all(corrector *c, intact_data *data) {
  intact_graph *graph = c->graph;
  const int64_t fixed = intact_graph_batch(graph);
  c->samples = sample_count(graph, intact_data_count(data));
  INTACT_TRY(find_layers(c));
  if (c->samples < MIN_SAMPLES)
    return intact__note(c->notes, "bias correction skipped: it needs at least %d samples, there are %lld", (int)MIN_SAMPLES,
                        (long long)c->samples);
  c->parts = fixed > 0 ? c->samples / fixed : 1;
  const size_t n_in = (size_t)graph->n_inputs * (size_t)c->parts, n = n_in + (size_t)graph->n_outputs;
  intact_tensor **tensors = intact__alloc_zeroed(graph->context, n + 1, sizeof *tensors);
  if (!tensors) return intact__no_memory(graph->context, n * sizeof *tensors);
  intact_status status = see_parts(c, data, tensors, tensors + n_in);
  if (status == INTACT_OK) status = run_graph(c, tensors);
  for (size_t i = 0; i < n; i++) intact_tensor_destroy(tensors[i]);
  intact__free(graph->context, tensors);
  INTACT_TRY(status);
  intact__progress(graph->context, "correct biases", 1, 1);
  if (c->corrected_layers == 0) return INTACT_OK;
  return intact__note(c->notes, "bias correction: %lld channels of %lld layers, by %lld samples",
                      (long long)c->corrected_channels, (long long)c->corrected_layers, (long long)c->samples);
}

intact_status intact__correct_biases(intact_graph *graph, const intact_graph *reference, intact_data *data,
                                     intact_note_list *notes) {
  corrector c = {.graph = graph, .reference = reference, .notes = notes};
  intact__arena_init(&c.arena, graph->context);
  intact__map_init(&c.layers, graph->context);
  const intact_status status = correct_all(&c, data);
  for (size_t i = 0; c.tensors && i < c.n_values * (size_t)c.parts; i++) intact_tensor_destroy(c.tensors[i]);
  intact__free(graph->context, c.tensors);
  intact__free(graph->context, c.left);
  intact__map_fini(&c.layers);
  intact__arena_fini(&c.arena);
  return status;
}
