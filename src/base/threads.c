/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel loops: every thread takes pieces of the range until none is left. */
#include "base/threads.h"

#include <pthreadpool.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct intact_pool {
  pthreadpool_t pool;
  int threads;
};

typedef struct loop {
  intact_range_fn fn;
  void *user;
  int64_t count, piece;
  _Atomic int64_t next;
} loop;

static _Thread_local int thread_index;
static _Thread_local bool inside;

int intact__cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int n = CPU_COUNT(&set);
  return n < 1 ? 1 : n;
}

int intact__thread_index(void) { return thread_index; }
bool intact__pool_inside(void) { return inside; }

intact_pool *intact__pool_create(int threads) {
  intact_pool *pool = malloc(sizeof *pool);
  if (!pool) return NULL;
  pool->threads = threads;
  pool->pool = pthreadpool_create((size_t)threads);
  if (!pool->pool) {
    free(pool);
    return NULL;
  }
  return pool;
}

void intact__pool_destroy(intact_pool *pool) {
  if (!pool) return;
  pthreadpool_destroy(pool->pool);
  free(pool);
}

static void work(void *user, size_t index) {
  loop *l = user;
  thread_index = (int)index;
  inside = true;
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&l->next, l->piece, memory_order_relaxed);
    if (begin >= l->count) break;
    l->fn(l->user, begin, begin + l->piece < l->count ? begin + l->piece : l->count);
  }
  inside = false;
  thread_index = 0;
}

void intact__pool_run(intact_pool *pool, int64_t count, int64_t grain, intact_range_fn fn, void *user) {
  /* about four pieces a thread: little waiting at the end, little overhead */
  int64_t pieces = (int64_t)pool->threads * 4;
  int64_t piece = (count + pieces - 1) / pieces;
  piece = (piece + grain - 1) / grain * grain;
  loop l = {.fn = fn, .user = user, .count = count, .piece = piece};
  atomic_init(&l.next, 0);
  pthreadpool_parallelize_1d(pool->pool, work, &l, (size_t)pool->threads, 0);
}
