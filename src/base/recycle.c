/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping freed large blocks. Builds that look for misuse of memory keep none, so that it is seen. */
#include "base/recycle.h"

#include <malloc.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_NONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_NONE 1
#endif
#endif

#ifdef KEEPS_NONE
static const bool keeps = false;
#else
static const bool keeps = true;
#endif

void intact__recycler_init(intact_recycler *recycler) {
  memset(recycler, 0, sizeof *recycler);
  recycler->most = INTACT_RECYCLE_MOST;
  pthread_mutex_init(&recycler->lock, NULL);
}

static void *take_out(intact_recycler *r, int place) {
  void *memory = r->blocks[place].memory;
  r->total -= r->blocks[place].bytes;
  r->blocks[place].bytes = 0;
  return memory;
}

void *intact__recycler_take(intact_recycler *recycler, size_t bytes) {
  if (!keeps || bytes < INTACT_RECYCLE_LEAST || bytes > recycler->most) return NULL;
  int best = -1;
  void *memory = NULL;
  pthread_mutex_lock(&recycler->lock);
  for (int i = 0; i < recycler->used; i++) {
    size_t have = recycler->blocks[i].bytes;
    if (have < bytes || have > bytes + bytes / 4) continue;
    if (best < 0 || have < recycler->blocks[best].bytes ||
        (have == recycler->blocks[best].bytes && recycler->blocks[i].given > recycler->blocks[best].given))
      best = i;
  }
  if (best >= 0) memory = take_out(recycler, best);
  pthread_mutex_unlock(&recycler->lock);
  return memory;
}

bool intact__recycler_give(intact_recycler *recycler, void *memory, void **evicted) {
  *evicted = NULL;
  if (!keeps || memory == NULL) return false;
  size_t bytes = malloc_usable_size(memory);
  if (bytes < INTACT_RECYCLE_LEAST || bytes > recycler->most / 4) return false;
  pthread_mutex_lock(&recycler->lock);
  int place = 0;
  for (int i = 0; i < recycler->used; i++) {
    if (recycler->blocks[i].bytes < recycler->blocks[place].bytes) place = i;
  }
  if (recycler->used < INTACT_RECYCLE_BLOCKS && (recycler->used == 0 || recycler->blocks[place].bytes > 0)) place = recycler->used++;
  bool fits = recycler->total - recycler->blocks[place].bytes + bytes <= recycler->most;
  if (fits) {
    if (recycler->blocks[place].bytes > 0) *evicted = take_out(recycler, place);
    recycler->blocks[place].memory = memory;
    recycler->blocks[place].bytes = bytes;
    recycler->blocks[place].given = ++recycler->clock;
    recycler->total += bytes;
  }
  pthread_mutex_unlock(&recycler->lock);
  return fits;
}

void *intact__recycler_drain(intact_recycler *recycler) {
  for (int i = 0; i < INTACT_RECYCLE_BLOCKS; i++) {
    if (recycler->blocks[i].bytes > 0) return take_out(recycler, i);
  }
  pthread_mutex_destroy(&recycler->lock);
  return NULL;
}
