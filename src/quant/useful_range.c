/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a value's range that its readers can tell apart. */
#include "quant/useful_range.h"

#include <math.h>

enum { PARTS = 2048 };

static bool is_map(const intact_use *use) {
  const intact_node *node = use->node;
  return use->operand == 0 && node->op->quant.is_unary_map && node->n_results == 1 && node->n_bodies == 0;
}

/* Index of the last grid point from the bottom, and of the first from the top, up to which the map is flat. */
static intact_status flat_ends(const intact_node *node, const intact_tensor *grid, int64_t *bottom, int64_t *top) {
  intact_tensor *mapped = NULL;
  INTACT_TRY(intact__eval_node(node, &grid, false, &mapped));
  const float *y = intact__f32(mapped);
  float least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i <= PARTS; i++) {
    least = fminf(least, y[i]);
    most = fmaxf(most, y[i]);
  }
  float tolerance = (most - least) / 256.0f / 8.0f;
  int64_t first = 0, last = PARTS;
  while (first < PARTS && fabsf(y[first + 1] - y[0]) <= tolerance) first++;
  while (last > 0 && fabsf(y[last - 1] - y[PARTS]) <= tolerance) last--;
  intact_tensor_destroy(mapped);
  *bottom = first;
  *top = last;
  return INTACT_OK;
}

intact_status intact__useful_range(const intact_value *value, float *low, float *high) {
  if (value->is_output || value->n_uses == 0 || !(*low < *high) || !isfinite(*high - *low)) return INTACT_OK;
  for (const intact_use *use = value->uses; use; use = use->next)
    if (!is_map(use)) return INTACT_OK;
  intact_tensor *grid = NULL;
  int64_t points = PARTS + 1, bottom = PARTS, top = 0;
  INTACT_TRY(intact__tensor_create_raw(value->graph->context, INTACT_F32, 1, &points, &grid));
  for (int64_t i = 0; i <= PARTS; i++) intact__f32(grid)[i] = *low + (*high - *low) * ((float)i / (float)PARTS);
  intact_status status = INTACT_OK;
  for (const intact_use *use = value->uses; use && status == INTACT_OK; use = use->next) {
    int64_t first = 0, last = PARTS;
    status = flat_ends(use->node, grid, &first, &last);
    bottom = first < bottom ? first : bottom;
    top = last > top ? last : top;
  }
  /* A map that is flat from one end to the other tells nothing apart; leave such a range alone. */
  if (status == INTACT_OK && bottom < top) {
    float cut_low = intact__f32(grid)[bottom], cut_high = intact__f32(grid)[top];
    *low = cut_low;
    *high = cut_high;
  }
  intact_tensor_destroy(grid);
  return status;
}
