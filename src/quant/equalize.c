/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-layer equalization: channel scales moved between layers, the function unchanged. */
#include "quant/equalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/quantizer.h"
#include "quant/channel_map.h"
#include "quant/quant_layer.h"
#include "quant/stream.h"

enum { MAX_READERS = 16, MAX_SWEEPS = 10, RANGE_SAMPLES = 256 };

typedef struct reader {
  intact_layer layer;
  intact_channels channels; /* its input channels -> channels of the start */
} reader;

typedef struct link {
  intact_layer start;
  const intact_value *ranged; /* what is quantized between: after the clamps that follow the start at once */
  int n_readers;
  reader readers[MAX_READERS];
  float *reach;  /* largest |value| of each channel in `ranged` */
  float *factor; /* scratch */
  int *exponents; /* log2 of all factors so far */
  double spread_before;
  bool changed;
} link;

typedef struct equalizer {
  intact_graph *graph;
  intact_arena arena;
  link **links;
  size_t n, capacity;
} equalizer;

static bool is_float_layer(intact_node *node, intact_layer *layer) {
  if (!intact__layer_describe(node, layer)) return false;
  const intact_value *weight = node->operands[layer->weight];
  if (!weight->constant || weight->dtype != INTACT_F32) return false;
  bool has_bias = layer->bias >= 0 && layer->bias < node->n_operands && node->operands[layer->bias];
  return !has_bias || (node->operands[layer->bias]->constant && node->operands[layer->bias]->dtype == INTACT_F32);
}

/* ---- finding links ---- */

/* Follows everything that reads `value`; false when some way does not end in a layer. */
static intact_status follow(equalizer *e, link *l, const intact_value *value, const intact_channels *channels, int depth,
                            bool *ends) {
  *ends = false;
  if (value->is_output || value->n_uses == 0 || depth > 32) return INTACT_OK;
  for (const intact_use *use = value->uses; use; use = use->next) {
    intact_layer layer;
    if (is_float_layer(use->node, &layer)) {
      if (layer.x != use->operand || layer.x_axis != channels->axis || layer.in_channels != channels->n) return INTACT_OK;
      if (l->n_readers == MAX_READERS || layer.node == l->start.node) return INTACT_OK;
      l->readers[l->n_readers++] = (reader){layer, *channels};
      continue;
    }
    if (use->operand != 0 || !intact__is_homogeneous(use->node)) return INTACT_OK;
    intact_channels next;
    bool found;
    INTACT_TRY(intact__map_channels(use->node, channels, l->start.out_channels, &e->arena, &next, &found));
    if (!found) return INTACT_OK;
    INTACT_TRY(follow(e, l, use->node->results[0], &next, depth + 1, ends));
    if (!*ends) return INTACT_OK;
    *ends = false;
  }
  *ends = true;
  return INTACT_OK;
}

static bool is_quantized(const reader *r) {
  const intact_wish *wish = intact__edge_wish(intact__operand_edge(r->layer.node, r->layer.x));
  return wish && wish->kind != INTACT_WISH_FLOAT;
}

static const intact_value *after_clamps(const intact_value *value) {
  for (;;) {
    const intact_node *next = intact__value_single_user(value);
    if (!next || !next->op->quant.is_clamp) return value;
    value = next->results[0];
  }
}

static intact_status find_link(equalizer *e, intact_node *node) {
  link *l = intact__arena_alloc(&e->arena, 1, sizeof *l);
  if (!l) return intact__no_memory(e->graph->context, sizeof *l);
  if (!is_float_layer(node, &l->start) || l->start.out_channels < 2) return INTACT_OK;
  size_t n = (size_t)l->start.out_channels;
  intact_channels channels = {.axis = l->start.y_axis, .n = l->start.out_channels};
  channels.map = intact__arena_alloc(&e->arena, n, sizeof *channels.map);
  l->reach = intact__arena_alloc(&e->arena, n, sizeof *l->reach);
  l->factor = intact__arena_alloc(&e->arena, n, sizeof *l->factor);
  l->exponents = intact__arena_alloc(&e->arena, n, sizeof *l->exponents);
  if (!channels.map || !l->reach || !l->factor || !l->exponents) return intact__no_memory(e->graph->context, n * sizeof *channels.map);
  for (int64_t c = 0; c < channels.n; c++) channels.map[c] = c;
  bool ends, quantized = false;
  INTACT_TRY(follow(e, l, node->results[0], &channels, 0, &ends));
  for (int i = 0; i < l->n_readers; i++) quantized = quantized || is_quantized(&l->readers[i]);
  if (!ends || !quantized) return INTACT_OK;
  l->ranged = after_clamps(node->results[0]);
  void *links = e->links;
  intact_status status = intact__reserve(e->graph->context, &links, &e->capacity, e->n + 1, sizeof *e->links);
  e->links = links;
  INTACT_TRY(status);
  e->links[e->n++] = l;
  return INTACT_OK;
}

/* ---- ranges of activations ---- */

static intact_status see(void *user, const intact_value *value, const intact_tensor *tensor) {
  equalizer *e = user;
  for (size_t k = 0; k < e->n; k++) {
    link *l = e->links[k];
    if (l->ranged != value) continue;
    int axis = l->start.y_axis;
    int64_t inner = 1, n = tensor->dims[axis];
    for (int i = axis + 1; i < tensor->rank; i++) inner *= tensor->dims[i];
    const float *x = intact__f32(tensor);
    for (int64_t i = 0; i < tensor->count; i += inner) {
      float most = l->reach[i / inner % n];
      for (int64_t p = 0; p < inner; p++) {
        float size = fabsf(x[i + p]);
        if (size > most && size <= 3.0e38f) most = size;
      }
      l->reach[i / inner % n] = most;
    }
  }
  return INTACT_OK;
}

/* Largest |weight| of each output channel. */
static void row_reach(const intact_layer *layer, double *reach) {
  const intact_tensor *weight = layer->node->operands[layer->weight]->constant;
  for (int64_t c = 0; c < layer->out_channels; c++) reach[c] = 0.0;
  for (int64_t i = 0; i < weight->count; i++) {
    double size = fabs((double)intact__f32(weight)[i]);
    int64_t c = intact__layer_out_channel(layer, weight, i);
    if (size > reach[c]) reach[c] = size;
  }
}

static int compare_doubles(double a, double b) { return (a > b) - (a < b); }

/* Median of a copy by selection; n >= 1. */
static double median(double *values, int64_t n) {
  for (int64_t gap = n / 2; gap > 0; gap /= 2)
    for (int64_t i = gap; i < n; i++)
      for (int64_t k = i; k >= gap && compare_doubles(values[k - gap], values[k]) > 0; k -= gap) {
        double swapped = values[k];
        values[k] = values[k - gap];
        values[k - gap] = swapped;
      }
  return values[n / 2];
}

/* A channel that the samples hardly woke is not taken at its word: it counts for at least a twentieth of what channels with
   such weights usually reach. */
static intact_status floor_reach(equalizer *e, link *l) {
  int64_t n = l->start.out_channels, live = 0;
  double *rows = intact__arena_alloc(&e->arena, (size_t)n * 2, sizeof *rows), *gain = rows + n;
  if (!rows) return intact__no_memory(e->graph->context, (size_t)n * 2 * sizeof *rows);
  row_reach(&l->start, rows);
  for (int64_t c = 0; c < n; c++)
    if (l->reach[c] > 0.0f && rows[c] > 0.0) gain[live++] = (double)l->reach[c] / rows[c];
  double usual = live ? median(gain, live) / 20.0 : 0.0;
  for (int64_t c = 0; c < n; c++)
    if ((double)l->reach[c] < usual * rows[c]) l->reach[c] = (float)(usual * rows[c]);
  return INTACT_OK;
}

static double spread(const link *l) {
  double low = INFINITY, high = 0.0;
  for (int64_t c = 0; c < l->start.out_channels; c++) {
    if (!(l->reach[c] > 0.0f)) continue;
    if ((double)l->reach[c] < low) low = (double)l->reach[c];
    if ((double)l->reach[c] > high) high = (double)l->reach[c];
  }
  return high > 0.0 ? high / low : 1.0;
}

/* ---- factors ---- */

/* Whether all channels of this weight operand share one scale. */
static bool per_tensor(const intact_layer *layer) {
  const intact_wish *wish = intact__edge_wish(intact__operand_edge(layer->node, layer->weight));
  return wish && wish->kind == INTACT_WISH_OWN && wish->spec.axis < 0;
}

/* Largest |weight| of the readers' columns that belong to each channel, relative to the scale that the column shares: of its
   row, or of the tensor. Readers whose channels have a scale to themselves don't count. */
static intact_status column_reach(equalizer *e, const link *l, double *reach, bool *any) {
  *any = false;
  for (int64_t c = 0; c < l->start.out_channels; c++) reach[c] = 0.0;
  for (int k = 0; k < l->n_readers; k++) {
    const reader *r = &l->readers[k];
    const intact_tensor *weight = r->layer.node->operands[r->layer.weight]->constant;
    bool whole = per_tensor(&r->layer);
    if (!is_quantized(r) || (!whole && weight->dims[r->layer.in_axis] == 1)) continue;
    double *rows = intact__alloc(e->graph->context, (size_t)r->layer.out_channels, sizeof *rows);
    if (!rows) return intact__no_memory(e->graph->context, (size_t)r->layer.out_channels * sizeof *rows);
    row_reach(&r->layer, rows);
    double tensor = 0.0;
    for (int64_t o = 0; o < r->layer.out_channels; o++)
      if (rows[o] > tensor) tensor = rows[o];
    for (int64_t i = 0; i < weight->count; i++) {
      double shared = whole ? tensor : rows[intact__layer_out_channel(&r->layer, weight, i)];
      double size = shared > 0.0 ? fabs((double)intact__f32(weight)[i]) / shared : 0.0;
      int64_t c = r->channels.map[intact__layer_in_channel(&r->layer, weight, i)];
      if (size > reach[c]) reach[c] = size;
    }
    intact__free(e->graph->context, rows);
    *any = true;
  }
  return INTACT_OK;
}

/* log2 of the factor that evens out what shares a scale; 0 mean over the channels. */
static intact_status find_factors(equalizer *e, link *l, double *logs) {
  int64_t n = l->start.out_channels, live = 0;
  bool columns_count, rows_count = per_tensor(&l->start);
  double *columns = logs + n, *rows = logs + 2 * n, mean = 0.0;
  INTACT_TRY(column_reach(e, l, columns, &columns_count));
  row_reach(&l->start, rows);
  for (int64_t c = 0; c < n; c++) {
    double sum = log2((double)l->reach[c]), terms = 1.0;
    bool defined = l->reach[c] > 0.0f && (!columns_count || columns[c] > 0.0) && (!rows_count || rows[c] > 0.0);
    if (columns_count) sum -= log2(columns[c]), terms += 1.0;
    if (rows_count) sum += log2(rows[c]), terms += 1.0;
    logs[c] = defined ? sum / terms : NAN;
    if (defined) mean += logs[c], live++;
  }
  for (int64_t c = 0; c < n; c++) {
    double s = isnan(logs[c]) ? 0.0 : logs[c] - mean / (double)live;
    logs[c] = s > 20.0 ? 20.0 : s < -20.0 ? -20.0 : s;
  }
  return INTACT_OK;
}

/* One link made even; *moved is false when nothing was left to do. */
static intact_status apply(equalizer *e, link *l, double *logs, bool *moved) {
  int64_t n = l->start.out_channels;
  INTACT_TRY(find_factors(e, l, logs));
  bool any = false;
  for (int64_t c = 0; c < n; c++) {
    const double exponent = -nearbyint(logs[c]);
    l->factor[c] = (float)exp2(exponent);
    l->exponents[c] += (int)exponent;
    any = any || l->factor[c] < 1.0f || l->factor[c] > 1.0f;
  }
  if (!any) return INTACT_OK;
  *moved = l->changed = true;
  INTACT_TRY(intact__layer_scale_outputs(&l->start, l->factor));
  for (int64_t c = 0; c < n; c++) {
    l->reach[c] *= l->factor[c];
    l->factor[c] = 1.0f / l->factor[c];
  }
  for (int k = 0; k < l->n_readers; k++)
    INTACT_TRY(intact__layer_scale_inputs(&l->readers[k].layer, l->factor, l->readers[k].channels.map));
  return INTACT_OK;
}

static intact_status sweep_all(equalizer *e) {
  int64_t widest = 1;
  for (size_t k = 0; k < e->n; k++)
    if (e->links[k]->start.out_channels > widest) widest = e->links[k]->start.out_channels;
  double *logs = intact__alloc(e->graph->context, (size_t)widest * 3, sizeof *logs);
  if (!logs) return intact__no_memory(e->graph->context, (size_t)widest * 3 * sizeof *logs);
  intact_status status = INTACT_OK;
  bool moved = true;
  for (int sweep = 0; sweep < MAX_SWEEPS && moved && status == INTACT_OK; sweep++) {
    moved = false;
    for (size_t k = 0; k < e->n && status == INTACT_OK; k++) status = apply(e, e->links[k], logs, &moved);
  }
  intact__free(e->graph->context, logs);
  return status;
}

/* ---- the record ---- */

#define RECORD "intact.equalize."

const char *intact__equalization_source(const char *key) {
  const size_t n = sizeof RECORD - 1;
  return strncmp(key, RECORD, n) == 0 && key[n] ? key + n : NULL;
}

/* "AXIS EXPONENT EXPONENT ..." under the layer's source name, which readers of exported files find again. */
static intact_status record(const equalizer *e, const link *l) {
  const char *source = l->start.node->source;
  if (!source || !*source) return INTACT_OK;
  intact_text text;
  intact__text_init(&text, e->graph->context);
  intact__text_add(&text, "%d", l->start.y_axis);
  for (int64_t c = 0; c < l->start.out_channels; c++) intact__text_add(&text, " %d", l->exponents[c]);
  const char *key = intact__arena_format(&e->graph->arena, RECORD "%s", source);
  intact_status status = key && !text.failed ? intact__graph_add_meta(e->graph, key, text.data) : intact__no_memory(text.context, text.length);
  intact__text_fini(&text);
  return status;
}

static const char *record_of(const intact_graph *graph, const char *source) {
  for (int i = graph->n_meta - 1; i >= 0; i--) { /* the last one counts */
    const char *named = intact__equalization_source(graph->meta[2 * i]);
    if (named && strcmp(named, source) == 0) return graph->meta[2 * i + 1];
  }
  return NULL;
}

intact_status intact__equalization_find(const intact_graph *graph, const char *source, intact_arena *arena,
                                        intact_equalization *equalization) {
  const char *text = record_of(graph, source);
  int64_t n = 0;
  for (const char *at = text; at && (at = strchr(at, ' ')) != NULL; at++) n++;
  *equalization = (intact_equalization){0};
  if (n == 0) return INTACT_OK;
  char *end;
  const long axis = strtol(text, &end, 10);
  int *exponents = intact__arena_alloc(arena, (size_t)n, sizeof *exponents);
  if (!exponents) return intact__no_memory(graph->context, (size_t)n * sizeof *exponents);
  for (int64_t c = 0; c < n; c++) {
    const char *at = end;
    const long exponent = *at == ' ' ? strtol(at + 1, &end, 10) : 999;
    if (end == at || exponent < -300 || exponent > 300) return INTACT_OK; /* written by somebody else */
    exponents[c] = (int)exponent;
  }
  if (*end == 0 && axis >= 0 && axis < INTACT_MAX_RANK) *equalization = (intact_equalization){(int)axis, n, exponents};
  return INTACT_OK;
}

static intact_status equalize(equalizer *e, intact_data *data, int64_t batch, intact_note_list *notes) {
  for (intact_node *node = e->graph->first; node; node = node->next) INTACT_TRY(find_link(e, node));
  if (e->n == 0) return INTACT_OK;
  intact_stream_options options = {.what = "equalize", .batch = batch, .samples = RANGE_SAMPLES};
  intact_interp_options interp = {.fast = true, .tap = see, .tap_user = e};
  INTACT_TRY(intact__stream(e->graph, data, &options, &interp));
  for (size_t k = 0; k < e->n; k++) {
    INTACT_TRY(floor_reach(e, e->links[k]));
    e->links[k]->spread_before = spread(e->links[k]);
  }
  INTACT_TRY(sweep_all(e));
  for (size_t k = 0; k < e->n; k++) {
    const link *l = e->links[k];
    if (!l->changed) continue;
    INTACT_TRY(record(e, l));
    INTACT_TRY(intact__note(notes, "equalize %s -> %s%s: ranges of channels differ by %.3g before, %.3g after", l->start.node->name,
                            l->readers[0].layer.node->name, l->n_readers > 1 ? " and others" : "", l->spread_before, spread(l)));
  }
  intact__graph_remove_dead(e->graph);
  return INTACT_OK;
}

intact_status intact__equalize(intact_graph *graph, intact_data *data, int64_t batch, intact_note_list *notes) {
  equalizer e = {.graph = graph};
  intact__arena_init(&e.arena, graph->context);
  intact_status status = equalize(&e, data, batch, notes);
  intact__free(graph->context, e.links);
  intact__arena_fini(&e.arena);
  return status;
}
