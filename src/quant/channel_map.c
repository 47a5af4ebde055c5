/* SPDX-License-Identifier: Apache-2.0 */
/* How an op that is homogeneous (y(s x) = s y(x)) maps channels of its operand to channels of its result. */
#include "quant/channel_map.h"

#include <math.h>
#include <string.h>

bool intact__is_homogeneous(const intact_node *node) {
  const intact_quant_traits *traits = &node->op->quant;
  if (node->n_bodies > 0 || node->op->has_effect || !node->operands[0] || node->operands[0]->dtype != INTACT_F32) return false;
  for (int i = 1; i < node->n_operands; i++)
    if (node->operands[i] && !node->operands[i]->constant) return false;
  for (int r = 1; r < node->n_results; r++)
    if (node->results[r]->n_uses > 0 || node->results[r]->is_output) return false;
  if (traits->is_clamp) {
    double low, high;
    traits->clamp_range(node, &low, &high);
    return low >= 0.0 && low <= 0.0 && high > 3.5e38;
  }
  return traits->is_homogeneous || (node->op->on_integers && traits->result == INTACT_RESULT_SAME_AS && traits->same_as == 0);
}

/* Labels in 1..2 that are distinct and in another order for the second set. */
static float label(int set, int64_t channel) {
  double step = (double)channel * (set == 0 ? 0.6180339887498949 : 0.7548776662466927);
  double part = step - floor(step);
  return (float)(set == 0 ? 1.0 + part : 2.0 - part);
}

/* Operand 0 with the label of its start channel everywhere; NULL in *tensor when the shape is not known. */
static intact_status labelled(const intact_node *node, const intact_channels *from, int set, intact_tensor **tensor) {
  const intact_value *x = node->operands[0];
  int64_t dims[INTACT_MAX_RANK], inner = 1;
  if (x->rank <= from->axis) return INTACT_OK;
  for (int i = 0; i < x->rank; i++) {
    dims[i] = i == 0 && x->dims[i] < 0 ? 1 : x->dims[i];
    if (dims[i] < 0) return INTACT_OK;
    if (i > from->axis) inner *= dims[i];
  }
  if (dims[from->axis] != from->n) return INTACT_OK;
  intact_tensor *made = NULL;
  INTACT_TRY(intact__tensor_create_raw(node->graph->context, INTACT_F32, x->rank, dims, &made));
  for (int64_t i = 0; i < made->count; i++) intact__f32(made)[i] = label(set, from->map[i / inner % from->n]);
  *tensor = made;
  return INTACT_OK;
}

static intact_status run(const intact_node *node, const intact_tensor *x, intact_tensor **y) {
  intact_context *context = node->graph->context;
  size_t n = (size_t)node->n_operands + (size_t)node->n_results;
  intact_tensor **results = intact__alloc_zeroed(context, n, sizeof *results);
  if (!results) return intact__no_memory(context, n * sizeof *results);
  const intact_tensor **operands = (const intact_tensor **)(void *)(results + node->n_results);
  for (int i = 1; i < node->n_operands; i++) operands[i] = node->operands[i] ? node->operands[i]->constant : NULL;
  operands[0] = x;
  intact_status status = intact__eval_node(node, operands, false, results);
  for (int r = 1; r < node->n_results; r++) intact_tensor_destroy(results[r]);
  if (status == INTACT_OK) *y = results[0];
  intact__free(context, results);
  return status;
}

static float largest(const intact_tensor *y, int64_t inner, int64_t n, int64_t index) {
  float most = -1.0f;
  for (int64_t i = 0; i < y->count; i++)
    if (i / inner % n == index && intact__f32(y)[i] > most) most = intact__f32(y)[i];
  return most;
}

static bool near(float a, float b) { return fabsf(a - b) <= 1e-5f; }

/* Every element of the slice is the same share of both labels. */
static bool shares_agree(const intact_tensor *a, const intact_tensor *b, int64_t inner, int64_t n, int64_t index, int64_t c) {
  float la = label(0, c), lb = label(1, c);
  for (int64_t i = 0; i < a->count; i++) {
    if (i / inner % n != index) continue;
    float share = intact__f32(a)[i] / la;
    if (!(share >= 0.0f && share <= 1.0f + 1e-5f) || !near(share, intact__f32(b)[i] / lb)) return false;
  }
  return true;
}

/* Reads the map off the two results along `axis`. */
static bool read_map(const intact_tensor *a, const intact_tensor *b, int axis, int64_t n_start, int64_t *map) {
  int64_t inner = 1, n = a->dims[axis];
  for (int i = axis + 1; i < a->rank; i++) inner *= a->dims[i];
  for (int64_t index = 0; index < n; index++) {
    float most_a = largest(a, inner, n, index), most_b = largest(b, inner, n, index);
    int64_t c = 0;
    while (c < n_start && !(near(label(0, c), most_a) && near(label(1, c), most_b))) c++;
    if (c == n_start || !shares_agree(a, b, inner, n, index, c)) return false;
    map[index] = c;
  }
  return true;
}

static intact_status find_map(const intact_tensor *a, const intact_tensor *b, int axis, int64_t n_start, intact_arena *arena,
                              intact_channels *to, bool *found) {
  /* Work grows with elements times channels: what is larger is not worth probing. */
  if (axis < 0 || axis >= a->rank || a->dims[axis] <= 0 || a->count > (INT64_C(1) << 31) / a->dims[axis]) return INTACT_OK;
  int64_t *map = intact__arena_alloc(arena, (size_t)a->dims[axis], sizeof *map);
  if (!map) return intact__no_memory(arena->context, (size_t)a->dims[axis] * sizeof *map);
  if (!read_map(a, b, axis, n_start, map)) return INTACT_OK;
  *to = (intact_channels){.axis = axis, .n = a->dims[axis], .map = map};
  *found = true;
  return INTACT_OK;
}

intact_status intact__map_channels(const intact_node *node, const intact_channels *from, int64_t n_start, intact_arena *arena,
                                   intact_channels *to, bool *found) {
  *found = false;
  if (node->op->quant.is_unary_map) {
    *to = *from;
    *found = true;
    return INTACT_OK;
  }
  intact_tensor *x[2] = {NULL, NULL}, *y[2] = {NULL, NULL};
  intact_status status = INTACT_OK;
  for (int set = 0; set < 2 && status == INTACT_OK; set++) {
    status = labelled(node, from, set, &x[set]);
    if (status == INTACT_OK && x[set]) status = run(node, x[set], &y[set]);
  }
  if (status == INTACT_OK && y[0] && y[1] && y[0]->rank >= 2 && y[0]->dtype == INTACT_F32) {
    int axes[] = {from->axis, 1, y[0]->rank - 1};
    for (int k = 0; k < 3 && !*found && status == INTACT_OK; k++)
      status = find_map(y[0], y[1], axes[k], n_start, arena, to, found);
  }
  for (int set = 0; set < 2; set++) {
    intact_tensor_destroy(x[set]);
    intact_tensor_destroy(y[set]);
  }
  return status;
}
