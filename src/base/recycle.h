/* SPDX-License-Identifier: Apache-2.0 */
/* Large blocks that were freed, kept to be used again: the system would take them back and hand out pages that must be
 * cleared anew. */
#ifndef INTACT_BASE_RECYCLE_H
#define INTACT_BASE_RECYCLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTACT_RECYCLE_BLOCKS = 256, INTACT_RECYCLE_LEAST = 1 << 15, INTACT_RECYCLE_MOST = 48 << 20 };

typedef struct intact_recycler {
  pthread_mutex_t lock;
  uint64_t clock;
  _Atomic size_t most; /* bytes that may be kept; read without the lock */
  size_t total;        /* that are kept */
  int used;            /* places from here on are free */
  struct {
    void *memory;
    size_t bytes;   /* 0: free place */
    uint64_t given; /* when */
  } blocks[INTACT_RECYCLE_BLOCKS];
} intact_recycler;

void intact__recycler_init(intact_recycler *recycler);
/* A kept block of at least `bytes` that is not much larger, or NULL; of equal ones the last that was given: it is still in the cache. */
void *intact__recycler_take(intact_recycler *recycler, size_t bytes);
/* Keeps a block that malloc made (large ones only, `most` bytes in all; the smallest makes room); true when
   `memory` was taken over. *evicted (NULL: none) is to be freed. */
bool intact__recycler_give(intact_recycler *recycler, void *memory, void **evicted);
/* Takes out any block that is left; NULL: none. */
void *intact__recycler_drain(intact_recycler *recycler);

#endif
