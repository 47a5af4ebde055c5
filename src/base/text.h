/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text, number formatting that reads back exactly, glob patterns, names. */
#ifndef INTACT_BASE_TEXT_H
#define INTACT_BASE_TEXT_H

#include "base/context.h"

typedef struct intact_text {
  intact_context *context;
  char *data; /* always ends in 0 once something was added */
  size_t length, capacity;
  bool failed; /* out of memory: later additions do nothing */
} intact_text;

void intact__text_init(intact_text *text, intact_context *context);
void intact__text_fini(intact_text *text);
void intact__text_add(intact_text *text, const char *format, ...) INTACT_PRINTF(2, 3);
void intact__text_add_bytes(intact_text *text, const char *bytes, size_t length);
/* The shortest decimal that reads back to the same double or float; inf, -inf, nan as words. Locale does not matter. */
void intact__text_add_double(intact_text *text, double value);
void intact__text_add_float(intact_text *text, float value);
/* Takes the text out (release with intact__free); NULL when an addition failed. */
char *intact__text_take(intact_text *text);

/* Locale-independent numbers from text; false if not all of it is one number. */
bool intact__parse_double(const char *text, double *value);
bool intact__parse_float(const char *text, float *value); /* rounded once */
bool intact__parse_int(const char *text, int64_t *value);
/* Length of the valid UTF-8 sequence at `at`, 0 if there is none (RFC 3629: no overlong forms, no surrogates). */
int intact__utf8_length(const uint8_t *at, const uint8_t *end);
bool intact__is_utf8(const char *text);
/* Shell-like pattern with * and ?. */
bool intact__glob(const char *pattern, const char *text);

/* String -> index map (open addressing). Keys are borrowed. */
typedef struct intact_map {
  intact_context *context;
  struct intact_map_slot {
    const char *key;
    int64_t value;
  } *slots;
  size_t capacity, count;
} intact_map;
void intact__map_init(intact_map *map, intact_context *context);
void intact__map_fini(intact_map *map);
intact_status intact__map_set(intact_map *map, const char *key, int64_t value);
bool intact__map_get(const intact_map *map, const char *key, int64_t *value);

#endif
