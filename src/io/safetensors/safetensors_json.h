/* SPDX-License-Identifier: Apache-2.0 */
/* A small strict JSON scanner over a byte range: what safetensors headers need, without building a tree. */
#ifndef INTACT_IO_SAFETENSORS_SAFETENSORS_JSON_H
#define INTACT_IO_SAFETENSORS_SAFETENSORS_JSON_H

#include "base/arena.h"

typedef struct intact_json_scan {
  intact_context *context;
  const char *path; /* for messages */
  const uint8_t *start, *at, *end;
} intact_json_scan;

/* The next character that is no white space, 0 at the end; not consumed. */
int intact__json_peek(intact_json_scan *scan);
/* Consumes `wanted` or fails with syntax. */
intact_status intact__json_expect(intact_json_scan *scan, char wanted);
/* After an element: consumes ',' (*more = true) or `close` (*more = false). */
intact_status intact__json_next(intact_json_scan *scan, char close, bool *more);
/* A string, unescaped, valid UTF-8 without NUL, in the arena. */
intact_status intact__json_string(intact_json_scan *scan, intact_arena *arena, const char **text);
/* A non-negative integer below 2^64. `what` names it in messages. */
intact_status intact__json_u64(intact_json_scan *scan, const char *what, uint64_t *value);
/* Steps over any value; nesting of at most 100. */
intact_status intact__json_skip(intact_json_scan *scan, intact_arena *arena);

#endif
