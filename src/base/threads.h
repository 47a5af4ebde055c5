/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool behind intact__parallel. */
#ifndef INTACT_BASE_THREADS_H
#define INTACT_BASE_THREADS_H

#include "base/context.h"

typedef struct intact_pool intact_pool;

int intact__cpu_count(void); /* CPUs that this process may use, at least 1 */
intact_pool *intact__pool_create(int threads); /* NULL: no memory or threads; the caller then works alone */
void intact__pool_destroy(intact_pool *pool);  /* takes NULL */
void intact__relax(void); /* in a loop that waits for another thread */
void intact__pool_run(intact_pool *pool, int64_t count, int64_t grain, intact_range_fn fn, void *user);

#endif
