/* SPDX-License-Identifier: Apache-2.0 */
/* The memory planner: where buffers of known size and lifetime lie in one arena. A pure function. */
#ifndef INTACT_PLAN_MEMORY_H
#define INTACT_PLAN_MEMORY_H

#include "base/context.h"

enum { INTACT_ARENA_ALIGNMENT = 64 };

/* A buffer that lives from step `first` to step `last`, both included. */
typedef struct intact_lifetime {
  size_t bytes;
  int first, last;
} intact_lifetime;

/* offsets[i] (a multiple of INTACT_ARENA_ALIGNMENT) for each of the n buffers, so that two that live at the same time do not
   overlap; *total is the size of the arena. Largest first, each into the smallest gap that holds it, ties by order: the same
   lifetimes give the same offsets. Buffers of no bytes lie at 0. Fails with overflow when the total exceeds size_t. */
intact_status intact__plan_memory(intact_context *context, size_t n, const intact_lifetime *lifetimes, size_t *offsets,
                                  size_t *total);

#endif
