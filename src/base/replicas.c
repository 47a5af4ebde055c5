/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas over a backend of base/comm that gathers from them first, then from the other processes. With a thread for each they work at
   the same time; with fewer they are fibers that take turns: to wake a thread at every sum would cost more than the sum. */
#include "base/replicas.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/comm.h"
#include "base/fiber.h"
#include "base/threads.h"

enum { SPIN = 4096 }; /* some tens of microseconds: parts of a batch take equally long */

typedef struct replica {
  intact_replicas *all;
  intact_context *context;
  int index;
  pthread_t thread;
  intact_fiber *fiber; /* NULL when it is a thread, or has ended */
  const void *mine;    /* what it waits with */
  size_t bytes;
  void *gathered;
} replica;

struct intact_replicas {
  intact_context *context;
  intact_comm outer; /* the processes */
  intact_replica_fn fn;
  void *user;
  int n;
  bool threads; /* each is one */
  replica *replicas;

  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  int waiting, ended;
  intact_status status;    /* of the first that failed */
  intact_context *told_by; /* where its error is */
  _Atomic uint32_t exchanges; /* so many are done */
};

/* ---- exchanges; the lock is held ---- */

static void note(intact_replicas *r, intact_status status, intact_context *teller) {
  if (r->status != INTACT_OK || status == INTACT_OK) return;
  r->status = status;
  r->told_by = teller;
}

/* From process by process to rank by rank: replica j of process i of N is rank i + N j. */
static void put_in_order(const intact_replicas *r, const uint8_t *all, size_t bytes, uint8_t *to) {
  for (int i = 0; i < r->outer.size; i++)
    for (int j = 0; j < r->n; j++)
      memcpy(to + (size_t)(i + r->outer.size * j) * bytes, all + (size_t)(i * r->n + j) * bytes, bytes);
}

static intact_status exchange_over_processes(intact_replicas *r, intact_context *context, size_t bytes) {
  const size_t own = bytes * (size_t)r->n, total = own * (size_t)r->outer.size;
  uint8_t *room = intact__alloc(context, own + total, 1);
  if (!room) return intact__no_memory(context, own + total);
  for (int i = 0; i < r->n; i++) memcpy(room + (size_t)i * bytes, r->replicas[i].mine, bytes);
  const intact_status status = r->outer.gather(context, r->outer.user, room, own, room + own);
  for (int i = 0; i < r->n && status == INTACT_OK; i++) put_in_order(r, room + own, bytes, r->replicas[i].gathered);
  intact__free(context, room);
  return status;
}

/* All wait: what each has goes to each. `context`: of the one that came last. */
static intact_status exchange(intact_replicas *r, intact_context *context) {
  const size_t bytes = r->replicas[0].bytes;
  for (int i = 1; i < r->n; i++)
    if (r->replicas[i].bytes != bytes)
      INTACT_FAIL(context, INTERNAL, "", "replica %d sums %zu bytes where the first sums %zu", i, r->replicas[i].bytes, bytes);
  if (r->outer.size > 1) return exchange_over_processes(r, context, bytes);
  for (int i = 0; i < r->n; i++)
    for (int j = 0; j < r->n; j++)
      memcpy((uint8_t *)r->replicas[i].gathered + (size_t)j * bytes, r->replicas[j].mine, bytes);
  return INTACT_OK;
}

/* When nobody works any more towards the exchange that some wait for: it takes place, or can't. */
static void settle(intact_replicas *r, intact_context *context) {
  if (r->waiting == 0 || r->waiting + r->ended < r->n) return;
  if (r->status == INTACT_OK)
    note(r, r->ended == 0 ? exchange(r, context)
                          : intact__fail(context, INTACT_INTERNAL, "", __FILE__, __LINE__,
                                         "%d of %d replicas wait for the others, which have ended", r->waiting, r->n),
         context);
  r->waiting = 0;
  atomic_fetch_add(&r->exchanges, 1);
  pthread_cond_broadcast(&r->changed);
}

/* ---- a replica's life ---- */

static void wait_awake(intact_replicas *r, uint32_t seen) {
  pthread_mutex_unlock(&r->lock);
  for (int i = 0; i < SPIN && atomic_load_explicit(&r->exchanges, memory_order_acquire) == seen; i++) intact__relax();
  pthread_mutex_lock(&r->lock);
}

/* The backend that a replica sees. */
static intact_status wait_for_all(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  replica *own = user;
  intact_replicas *r = own->all;
  pthread_mutex_lock(&r->lock);
  own->mine = mine;
  own->bytes = bytes;
  own->gathered = all;
  r->waiting++;
  const uint32_t seen = atomic_load(&r->exchanges);
  settle(r, context);
  if (r->threads && atomic_load(&r->exchanges) == seen) wait_awake(r, seen);
  while (atomic_load(&r->exchanges) == seen) {
    if (r->threads) {
      pthread_cond_wait(&r->changed, &r->lock);
      continue;
    }
    pthread_mutex_unlock(&r->lock);
    intact__fiber_wait(own->fiber);
    pthread_mutex_lock(&r->lock);
  }
  const intact_status status = r->status;
  pthread_mutex_unlock(&r->lock);
  return status;
}

static void end(intact_replicas *r, int n, intact_status status, intact_context *context) {
  pthread_mutex_lock(&r->lock);
  note(r, status, context);
  r->ended += n;
  settle(r, context);
  pthread_mutex_unlock(&r->lock);
}

static void live(void *user) {
  replica *own = user;
  end(own->all, 1, own->all->fn(own->all->user, own->index), own->context);
}

static void *thread_main(void *user) {
  live(user);
  return NULL;
}

/* ---- all of them ---- */

static void run_threads(intact_replicas *r) {
  int started = 1;
  while (started < r->n && pthread_create(&r->replicas[started].thread, NULL, thread_main, &r->replicas[started]) == 0) started++;
  if (started == r->n)
    live(&r->replicas[0]);
  else /* the others are told at their next sum */
    end(r, r->n - started + 1, intact__fail(r->context, INTACT_NO_MEMORY, "", __FILE__, __LINE__, "no thread for replica %d of %d; take fewer replicas",
                                            started, r->n), r->context);
  for (int i = 1; i < started; i++) pthread_join(r->replicas[i].thread, NULL);
}

static void run_fibers(intact_replicas *r) {
  intact_status status = INTACT_OK;
  for (int i = 0; i < r->n && status == INTACT_OK; i++) status = intact__fiber_create(r->context, live, &r->replicas[i], &r->replicas[i].fiber);
  note(r, status, r->context);
  while (status == INTACT_OK && r->ended < r->n) {
    for (int i = 0; i < r->n; i++) {
      intact_fiber **fiber = &r->replicas[i].fiber;
      if (*fiber == NULL || intact__fiber_resume(*fiber)) continue;
      intact__fiber_destroy(*fiber);
      *fiber = NULL;
    }
  }
  for (int i = 0; i < r->n; i++) intact__fiber_destroy(r->replicas[i].fiber);
}

intact_status intact__replicas_run(intact_replicas *r, intact_replica_fn fn, void *user) {
  r->fn = fn;
  r->user = user;
  r->waiting = r->ended = 0;
  r->status = INTACT_OK;
  if (r->threads)
    run_threads(r);
  else
    run_fibers(r);
  if (r->status != INTACT_OK) intact__error_copy(r->context, r->told_by);
  return r->status;
}

static intact_status make_replica(intact_replicas *r, int index, int threads) {
  replica *own = &r->replicas[index];
  *own = (replica){.all = r, .context = index > 0 ? NULL : r->context, .index = index}; /* NULL: nothing to destroy yet */
  if (index > 0) INTACT_TRY(intact__context_like(r->context, threads, &own->context));
  intact_comm *comm;
  const intact_status status = intact__comm_of(own->context, &comm);
  if (status != INTACT_OK && index > 0) intact__error_copy(r->context, own->context);
  if (status != INTACT_OK) return status;
  *comm = (intact_comm){.rank = r->outer.rank + r->outer.size * index, .size = r->outer.size * r->n, .gather = wait_for_all, .user = own};
  return INTACT_OK;
}

intact_status intact__replicas_create(intact_context *context, int n, intact_replicas **replicas) {
  intact_comm *comm;
  INTACT_TRY(intact__comm_of(context, &comm));
  intact_replicas *r = intact__alloc_zeroed(context, 1, sizeof *r);
  if (!r) return intact__no_memory(context, sizeof *r);
  const int all = intact_context_threads(context), each = all < n ? all : all / n;
  *r = (intact_replicas){.context = context, .outer = *comm, .n = n, .threads = all >= n};
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->changed, NULL);
  intact__limit_threads(context, each);
  r->replicas = intact__alloc_zeroed(context, (size_t)n, sizeof *r->replicas);
  intact_status status = r->replicas ? INTACT_OK : intact__no_memory(context, (size_t)n * sizeof *r->replicas);
  for (int i = 0; i < n && status == INTACT_OK; i++) status = make_replica(r, i, each);
  if (status != INTACT_OK) {
    intact__replicas_destroy(r);
    return status;
  }
  *replicas = r;
  return INTACT_OK;
}

void intact__replicas_destroy(intact_replicas *r) {
  if (!r) return;
  intact_comm *comm;
  intact_context *context = r->context;
  if (intact__comm_of(context, &comm) == INTACT_OK) *comm = r->outer;
  for (int i = 1; r->replicas && i < r->n; i++) intact_context_destroy(r->replicas[i].context);
  intact__limit_threads(context, intact_context_threads(context));
  pthread_cond_destroy(&r->changed);
  pthread_mutex_destroy(&r->lock);
  intact__free(context, r->replicas);
  intact__free(context, r);
}

intact_context *intact__replicas_context(const intact_replicas *r, int index) { return r->replicas[index].context; }
