/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy by size, best fit. */
#include "plan/memory.h"

#include <stdlib.h>

typedef struct placed {
  const intact_lifetime *lifetime;
  size_t index, offset, end;
} placed;

static int by_size(const void *left, const void *right) {
  const placed *a = left, *b = right;
  if (a->lifetime->bytes != b->lifetime->bytes) return a->lifetime->bytes > b->lifetime->bytes ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static bool overlap(const intact_lifetime *a, const intact_lifetime *b) { return a->first <= b->last && b->first <= a->last; }

/* The offset of the smallest gap of at least `bytes` between the buffers that live at the same time; `done` is sorted by
   offset. */
static size_t best_gap(const placed *done, size_t n_done, const intact_lifetime *lifetime, size_t bytes) {
  size_t at = 0, best = SIZE_MAX, best_bytes = SIZE_MAX;
  for (size_t i = 0; i < n_done; i++) {
    if (!overlap(done[i].lifetime, lifetime)) continue;
    if (done[i].offset > at && done[i].offset - at >= bytes && done[i].offset - at < best_bytes) {
      best = at;
      best_bytes = done[i].offset - at;
    }
    if (done[i].end > at) at = done[i].end;
  }
  return best == SIZE_MAX ? at : best;
}

static void insert_sorted(placed *done, size_t n_done, placed item) {
  size_t i = n_done;
  while (i > 0 && done[i - 1].offset > item.offset) {
    done[i] = done[i - 1];
    i--;
  }
  done[i] = item;
}

intact_status intact__plan_memory(intact_context *context, size_t n, const intact_lifetime *lifetimes, size_t *offsets,
                                  size_t *total) {
  placed *order = intact__alloc(context, 2 * n + 1, sizeof *order);
  if (order == NULL) return intact__no_memory(context, 2 * n * sizeof *order);
  placed *settled = order + n;
  for (size_t i = 0; i < n; i++) order[i] = (placed){.lifetime = &lifetimes[i], .index = i};
  qsort(order, n, sizeof *order, by_size);
  size_t end = 0, n_done = 0;
  intact_status status = INTACT_OK;
  for (size_t i = 0; i < n; i++) {
    placed item = order[i];
    offsets[item.index] = 0;
    if (item.lifetime->bytes == 0) continue;
    if (item.lifetime->bytes > SIZE_MAX - INTACT_ARENA_ALIGNMENT)
      INTACT_FAIL_TO(done, context, OVERFLOW, "", "a buffer of %zu bytes does not fit into memory", item.lifetime->bytes);
    const size_t bytes = (item.lifetime->bytes + INTACT_ARENA_ALIGNMENT - 1) / INTACT_ARENA_ALIGNMENT * INTACT_ARENA_ALIGNMENT;
    item.offset = best_gap(settled, n_done, item.lifetime, bytes);
    if (item.offset > SIZE_MAX - bytes)
      INTACT_FAIL_TO(done, context, OVERFLOW, "", "the activations of the network do not fit into memory");
    item.end = item.offset + bytes;
    offsets[item.index] = item.offset;
    if (item.end > end) end = item.end;
    insert_sorted(settled, n_done++, item);
  }
  *total = end;
done:
  intact__free(context, order);
  return status;
}
