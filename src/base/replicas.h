/* SPDX-License-Identifier: Apache-2.0 */
/* One process as several: the replicas of a task each see themselves as a process of base/comm. What N processes of n
   replicas each compute is, bit for bit, what one process with N * n replicas computes. */
#ifndef INTACT_BASE_REPLICAS_H
#define INTACT_BASE_REPLICAS_H

#include "base/context.h"

typedef struct intact_replicas intact_replicas;
typedef intact_status (*intact_replica_fn)(void *user, int index);

/* n of them for the work of `context`. Replica 0 works in `context` itself, the others in contexts of their own with the same
   allocator, instruction set and seed, which write no log. Until they are destroyed they divide the threads of `context`; with fewer
   threads than replicas they take turns. */
intact_status intact__replicas_create(intact_context *context, int n, intact_replicas **replicas);
void intact__replicas_destroy(intact_replicas *replicas); /* takes NULL; what was made in their contexts goes before */
intact_context *intact__replicas_context(const intact_replicas *replicas, int index);
/* Calls fn(user, i) for all, 0 on the calling thread. Replica i of process r of N is rank r + N * i of N * n, and waits for all others in
   base/comm's sums. When one fails the others are stopped at their next sum; the first failure is the one that `context` tells. */
intact_status intact__replicas_run(intact_replicas *replicas, intact_replica_fn fn, void *user);

#endif
