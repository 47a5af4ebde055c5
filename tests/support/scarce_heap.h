/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that refuses one request: for tests of what happens when memory ends. */
#ifndef INTACT_TESTS_SUPPORT_SCARCE_HEAP_H
#define INTACT_TESTS_SUPPORT_SCARCE_HEAP_H

#include "support/test.h"

#include <stdatomic.h>

typedef struct heap {
  _Atomic int64_t requests, refuse, live; /* counted so far; the one that is refused, 0: none; blocks that are out */
} heap;

static inline void *heap_allocate(void *user, size_t bytes) {
  heap *h = user;
  if (atomic_fetch_add(&h->requests, 1) + 1 == h->refuse) return NULL;
  h->live++;
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline void heap_release(void *user, void *memory) {
  heap *h = user;
  if (memory) h->live--;
  free(memory);
}

#endif
