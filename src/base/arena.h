/* SPDX-License-Identifier: Apache-2.0 */
/* An arena: many small allocations that live and die together. */
#ifndef INTACT_BASE_ARENA_H
#define INTACT_BASE_ARENA_H

#include "base/context.h"

typedef struct intact_arena_block intact_arena_block;

typedef struct intact_arena {
  intact_context *context;
  intact_arena_block *blocks; /* newest first */
  size_t used, size;          /* of the newest block */
  size_t total;               /* bytes of all blocks */
} intact_arena;

void intact__arena_init(intact_arena *arena, intact_context *context);
void intact__arena_fini(intact_arena *arena);
/* Zeroed memory aligned to 64 bytes for sizes from 64 up, else to 16; NULL when there is none. */
void *intact__arena_alloc(intact_arena *arena, size_t count, size_t size);
char *intact__arena_strdup(intact_arena *arena, const char *text);
char *intact__arena_format(intact_arena *arena, const char *format, ...) INTACT_PRINTF(2, 3);

#endif
