/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel loops: every thread takes pieces of the range until none is left. Workers wait for the next loop spinning for some
   tens of microseconds, then asleep; a worker that the system does not schedule delays nobody, for the caller does its
   pieces as well and waits only for pieces that have begun. */
#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_LEAST = 32, SPIN_MOST = 2048 };
static const uint32_t GATE_OPEN = 1u << 31; /* the loop may be joined; the other bits count who is inside */

typedef struct loop {
  intact_range_fn fn;
  void *user;
  int64_t count, piece;
  _Atomic int64_t next;
} loop;

typedef struct worker {
  struct intact_pool *pool;
  pthread_t thread;
  int index; /* from 1 */
} worker;

struct intact_pool {
  int threads;
  worker *workers; /* threads - 1 */
  loop loop;       /* may be read while the gate is open and by those inside */
  _Atomic uint32_t gate;
  _Atomic uint32_t epoch; /* counts loops; workers sleep on it */
  _Atomic int sleepers;
  _Atomic bool stop;
};

static _Thread_local int thread_index;
static _Thread_local bool inside;

int intact__cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int n = CPU_COUNT(&set);
  return n < 1 ? 1 : n;
}

int intact__thread_index(void) { return thread_index; }
bool intact__parallel_inside(void) { return inside; }

void intact__relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void sleep_while_equal(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

static void work(loop *l) {
  inside = true;
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&l->next, l->piece, memory_order_relaxed);
    if (begin >= l->count) break;
    l->fn(l->user, begin, begin + l->piece < l->count ? begin + l->piece : l->count);
  }
  inside = false;
}

/* Waits until the epoch differs from `seen`. The spin gets shorter each time it was in vain, longer when it paid. */
static uint32_t wait_for_loop(intact_pool *pool, uint32_t seen, int *spin) {
  for (int i = 0; i < *spin; i++) {
    const uint32_t epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire);
    if (epoch != seen) {
      if (*spin < SPIN_MOST) *spin *= 2;
      return epoch;
    }
    intact__relax();
  }
  if (*spin > SPIN_LEAST) *spin /= 2;
  atomic_fetch_add(&pool->sleepers, 1);
  uint32_t epoch;
  while ((epoch = atomic_load(&pool->epoch)) == seen) sleep_while_equal(&pool->epoch, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
  return epoch;
}

static void *worker_main(void *user) {
  worker *w = user;
  intact_pool *pool = w->pool;
  thread_index = w->index;
  uint32_t seen = 0;
  int spin = SPIN_MOST;
  for (;;) {
    seen = wait_for_loop(pool, seen, &spin);
    if (atomic_load(&pool->stop)) return NULL;
    if (atomic_fetch_add(&pool->gate, 1) & GATE_OPEN) work(&pool->loop);
    if (atomic_fetch_sub(&pool->gate, 1) == 1) wake_all(&pool->gate); /* closed, and nobody inside any more */
  }
}

static void start_epoch(intact_pool *pool) {
  atomic_fetch_add(&pool->epoch, 1);
  if (atomic_load(&pool->sleepers)) wake_all(&pool->epoch);
}

intact_pool *intact__pool_create(int threads) {
  intact_pool *pool = calloc(1, sizeof *pool);
  worker *workers = calloc((size_t)threads, sizeof *workers);
  if (!pool || !workers) {
    free(pool);
    free(workers);
    return NULL;
  }
  pool->workers = workers;
  pool->threads = 1;
  for (int i = 0; i < threads - 1; i++) { /* as many as the system gives */
    workers[i] = (worker){.pool = pool, .index = i + 1};
    if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) break;
    pool->threads++;
  }
  return pool;
}

void intact__pool_destroy(intact_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  start_epoch(pool);
  for (int i = 0; i < pool->threads - 1; i++) pthread_join(pool->workers[i].thread, NULL);
  free(pool->workers);
  free(pool);
}

void intact__pool_run(intact_pool *pool, int64_t count, int64_t grain, intact_range_fn fn, void *user) {
  /* about four pieces a thread: little waiting at the end, little overhead */
  const int64_t pieces = (int64_t)pool->threads * 4;
  int64_t piece = (count + pieces - 1) / pieces;
  piece = (piece + grain - 1) / grain * grain;
  loop *l = &pool->loop;
  l->fn = fn;
  l->user = user;
  l->count = count;
  l->piece = piece;
  atomic_store_explicit(&l->next, 0, memory_order_relaxed);
  atomic_fetch_or(&pool->gate, GATE_OPEN);
  start_epoch(pool);
  work(l);
  uint32_t gate = atomic_fetch_and(&pool->gate, ~GATE_OPEN) & ~GATE_OPEN;
  for (int i = 0; gate && i < SPIN_MOST; i++) {
    intact__relax();
    gate = atomic_load(&pool->gate);
  }
  while ((gate = atomic_load(&pool->gate)) != 0) sleep_while_equal(&pool->gate, gate);
}
