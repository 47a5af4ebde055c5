/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: blocks that grow, freed all at once. */
#include "base/arena.h"

#include <stdio.h>
#include <string.h>

struct intact_arena_block {
  intact_arena_block *next;
  size_t bytes; /* of the whole block */
};

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20, HEADER = 64 };

void intact__arena_init(intact_arena *arena, intact_context *context) { *arena = (intact_arena){.context = context}; }

void intact__arena_fini(intact_arena *arena) {
  for (intact_arena_block *block = arena->blocks; block;) {
    intact_arena_block *next = block->next;
    intact__free(arena->context, block);
    block = next;
  }
  *arena = (intact_arena){.context = arena->context};
}

void *intact__arena_alloc(intact_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) return NULL;
  const size_t align = bytes >= 64 ? 64 : 16;
  size_t at = (arena->used + align - 1) / align * align;
  if (!arena->blocks || at + bytes > arena->size) {
    size_t block_bytes = arena->total < LARGEST_BLOCK ? arena->total : LARGEST_BLOCK;
    if (block_bytes < FIRST_BLOCK) block_bytes = FIRST_BLOCK;
    if (block_bytes < bytes + HEADER) block_bytes = bytes + HEADER;
    intact_arena_block *block = intact__alloc(arena->context, block_bytes, 1);
    if (!block) return NULL;
    block->next = arena->blocks;
    block->bytes = block_bytes;
    arena->blocks = block;
    arena->size = block_bytes;
    arena->total += block_bytes;
    at = HEADER;
  }
  arena->used = at + bytes;
  void *memory = (char *)arena->blocks + at;
  memset(memory, 0, bytes);
  return memory;
}

char *intact__arena_strdup(intact_arena *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = intact__arena_alloc(arena, bytes, 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

char *intact__arena_format(intact_arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) return NULL;
  char *text = intact__arena_alloc(arena, (size_t)length + 1, 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}
