/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes are matched by source names; what equalization recorded in either network is followed through A. */
#include "inspect/counterparts.h"

#include <math.h>
#include <string.h>

#include "quant/channel_map.h"
#include "quant/equalize.h"
#include "quant/quant_layer.h"

/* Nodes of a graph by their own names and by source names. */
typedef struct source_index {
  const intact_graph *graph;
  intact_map by_name, by_source; /* one name -> position in nodes */
  const intact_node **nodes;
} source_index;

typedef struct matcher {
  source_index a, b;
  intact_arena *arena;
  intact_counterparts *found;
} matcher;

bool intact__changes_form(const intact_node *node) {
  return intact__is_op(node, "quantize") || intact__is_op(node, "dequantize") || intact__is_op(node, "requantize");
}

/* The first of "a+b+c" as a text of its own; *rest is where the next one starts, NULL at the end. NULL: no memory. */
static char *first_source(const char *source, intact_arena *arena, const char **rest) {
  const size_t length = strcspn(source, "+");
  char *name = intact__arena_alloc(arena, length + 1, 1);
  if (name) memcpy(name, source, length);
  *rest = source[length] ? source + length + 1 : NULL;
  return name;
}

/* A fused node answers to each of its names. */
static intact_status index_sources(source_index *index, intact_arena *arena) {
  const intact_graph *graph = index->graph;
  int64_t at = 0;
  index->nodes = intact__arena_alloc(arena, (size_t)graph->n_nodes + 1, sizeof *index->nodes);
  if (!index->nodes) return intact__no_memory(graph->context, (size_t)graph->n_nodes);
  for (const intact_node *node = graph->first; node; node = node->next, at++) {
    index->nodes[at] = node;
    INTACT_TRY(intact__map_set(&index->by_name, node->name, at));
    for (const char *source = node->source && *node->source ? node->source : NULL; source;) {
      char *name = first_source(source, arena, &source);
      if (!name) return intact__no_memory(graph->context, 1);
      INTACT_TRY(intact__map_set(&index->by_source, name, at));
    }
  }
  return INTACT_OK;
}

/* The last of "a+b+c" is among the names of `sources`. */
static bool ends_within(const char *source, const char *sources) {
  const char *plus = strrchr(source, '+'), *last = plus ? plus + 1 : source;
  const size_t length = strlen(last);
  for (const char *at = sources; at && *at; at += strcspn(at, "+"), at += *at == '+')
    if (strcspn(at, "+") == length && strncmp(at, last, length) == 0) return true;
  return false;
}

/* Latest node among the names of `source` that does not go on after the last of them; NULL in *node: none. */
static intact_status latest_node(const source_index *index, intact_arena *arena, const char *source, const intact_node **node) {
  const char *sources = source;
  int64_t latest = -1, at;
  while (source && *source) {
    char *name = first_source(source, arena, &source);
    if (!name) return intact__no_memory(index->graph->context, 1);
    if (intact__map_get(&index->by_source, name, &at) && at > latest) latest = at;
  }
  *node = latest >= 0 && ends_within(index->nodes[latest]->source, sources) ? index->nodes[latest] : NULL;
  return INTACT_OK;
}

/* The node that was copied: of several that one imported node became, each has its own. */
static const intact_node *same_node(const source_index *a, const intact_node *node) {
  int64_t at;
  const intact_node *twin = intact__map_get(&a->by_name, node->name, &at) ? a->nodes[at] : NULL;
  return twin && twin->op == node->op && *node->source && strcmp(twin->source, node->source) == 0 ? twin : NULL;
}

/* Whether node number `at` is the last one that stands for the last of its sources: what came out of it. */
static bool gives_its_source(const source_index *index, const intact_node *node, int64_t at) {
  const char *plus = strrchr(node->source, '+');
  int64_t last = -1;
  return intact__map_get(&index->by_source, plus ? plus + 1 : node->source, &last) && last == at;
}

static intact_status match_values(matcher *m) {
  const intact_graph *a = m->a.graph, *b = m->b.graph;
  const intact_value **of = m->found->of;
  int64_t at = 0;
  for (int i = 0; i < b->n_inputs && i < a->n_inputs; i++) of[b->inputs[i]->id] = a->inputs[i];
  for (const intact_node *node = b->first; node; node = node->next, at++) {
    if (intact__changes_form(node)) {
      of[node->results[0]->id] = of[node->operands[0]->id];
      continue;
    }
    const intact_node *twin = same_node(&m->a, node);
    if (!twin && gives_its_source(&m->b, node, at)) INTACT_TRY(latest_node(&m->a, m->arena, node->source, &twin));
    for (int r = 0; twin && r < node->n_results && r < twin->n_results; r++) of[node->results[r]->id] = twin->results[r];
  }
  return INTACT_OK;
}

/* ---- equalized values ---- */

/* The network that is followed: the one with float operations, where channels can be told apart. */
static bool follows_b(const matcher *m) {
  return m->a.graph->stage != INTACT_STAGE_FLOAT && m->b.graph->stage == INTACT_STAGE_FLOAT;
}

/* Gives `value`, whose channels along `channels` are those of the layer, its exponents, and all that follows from it. */
static intact_status follow(matcher *m, const intact_value *value, const intact_channels *channels, int64_t n_start,
                            const int *exponents) {
  const intact_value *of_a = follows_b(m) ? m->found->of[value->id] : value;
  int *own = intact__arena_alloc(m->arena, (size_t)channels->n, sizeof *own);
  if (!own) return intact__no_memory(value->graph->context, (size_t)channels->n * sizeof *own);
  for (int64_t c = 0; c < channels->n; c++) own[c] = exponents[channels->map[c]];
  if (of_a) m->found->rescales[of_a->id] = (intact_rescale){channels->axis, channels->n, own};
  for (const intact_use *use = value->uses; use; use = use->next) {
    intact_channels next = *channels;
    intact_layer layer;
    bool goes_on = intact__changes_form(use->node);
    if (!goes_on && use->operand == 0 && !intact__layer_describe(use->node, &layer) && intact__is_homogeneous(use->node))
      INTACT_TRY(intact__map_channels(use->node, channels, n_start, m->arena, &next, &goes_on));
    if (goes_on) INTACT_TRY(follow(m, use->node->results[0], &next, n_start, exponents));
  }
  return INTACT_OK;
}

/* What one network was equalized by from the layer on, less what the other one was; sign: 1 for B, -1 for A. */
static intact_status rescale_layer(matcher *m, const char *source, const intact_equalization *e, const intact_equalization *twin,
                                   int sign) {
  const bool both = twin->n == e->n;
  const intact_node *node = NULL;
  INTACT_TRY(latest_node(follows_b(m) ? &m->b : &m->a, m->arena, source, &node));
  if (!node || node->results[0]->rank <= e->axis) return INTACT_OK;
  const int64_t along = node->results[0]->dims[e->axis];
  if (along >= 0 && along != e->n) return INTACT_OK;
  intact_channels channels = {.axis = e->axis, .n = e->n};
  channels.map = intact__arena_alloc(m->arena, (size_t)e->n, sizeof *channels.map);
  int *exponents = intact__arena_alloc(m->arena, (size_t)e->n, sizeof *exponents);
  if (!exponents || !channels.map) return intact__no_memory(node->graph->context, (size_t)e->n * sizeof *channels.map);
  bool any = false;
  for (int64_t c = 0; c < e->n; c++) {
    channels.map[c] = c;
    exponents[c] = sign * (e->exponents[c] - (both ? twin->exponents[c] : 0));
    any = any || exponents[c] != 0;
  }
  return any ? follow(m, node->results[0], &channels, e->n, exponents) : INTACT_OK;
}

static intact_status rescale_all(matcher *m, const intact_graph *graph, const intact_graph *other, int sign) {
  for (int i = 0; i < graph->n_meta; i++) {
    intact_equalization e, twin;
    const char *source = intact__equalization_source(graph->meta[2 * i]);
    if (!source) continue;
    INTACT_TRY(intact__equalization_find(graph, source, m->arena, &e));
    INTACT_TRY(intact__equalization_find(other, source, m->arena, &twin));
    if (e.n == 0 || (sign < 0 && twin.n == e.n)) continue; /* nothing, or done from B's side */
    INTACT_TRY(rescale_layer(m, source, &e, &twin, sign));
  }
  return INTACT_OK;
}

static intact_status find_all(matcher *m) {
  INTACT_TRY(index_sources(&m->a, m->arena));
  INTACT_TRY(index_sources(&m->b, m->arena));
  INTACT_TRY(match_values(m));
  INTACT_TRY(rescale_all(m, m->b.graph, m->a.graph, 1));
  return rescale_all(m, m->a.graph, m->b.graph, -1);
}

intact_status intact__find_counterparts(const intact_graph *a, const intact_graph *b, intact_arena *arena,
                                        intact_counterparts *counterparts) {
  matcher m = {.a.graph = a, .b.graph = b, .arena = arena, .found = counterparts};
  counterparts->of = intact__arena_alloc(arena, b->n_values + 1, sizeof *counterparts->of);
  counterparts->rescales = intact__arena_alloc(arena, a->n_values + 1, sizeof *counterparts->rescales);
  if (!counterparts->of || !counterparts->rescales) return intact__no_memory(a->context, b->n_values);
  intact_map *const maps[] = {&m.a.by_name, &m.a.by_source, &m.b.by_name, &m.b.by_source};
  for (int i = 0; i < 4; i++) intact__map_init(maps[i], a->context);
  const intact_status status = find_all(&m);
  for (int i = 0; i < 4; i++) intact__map_fini(maps[i]);
  return status;
}

intact_status intact__rescale(const intact_rescale *rescale, const intact_tensor *tensor, intact_tensor **rescaled) {
  INTACT_TRY(intact_tensor_copy(tensor, rescaled));
  if (tensor->rank <= rescale->axis || tensor->dims[rescale->axis] != rescale->n) return INTACT_OK;
  int64_t inner = 1;
  for (int i = rescale->axis + 1; i < tensor->rank; i++) inner *= tensor->dims[i];
  float *x = intact__f32(*rescaled);
  for (int64_t i = 0; i < tensor->count; i++) x[i] = ldexpf(x[i], rescale->exponents[i / inner % rescale->n]);
  return INTACT_OK;
}
