/* SPDX-License-Identifier: Apache-2.0 */
/* Growing texts, exact number texts, patterns, the string map. */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void intact__text_init(intact_text *text, intact_context *context) { *text = (intact_text){.context = context}; }

void intact__text_fini(intact_text *text) {
  intact__free(text->context, text->data);
  *text = (intact_text){.context = text->context};
}

static bool text_room(intact_text *text, size_t more) {
  if (text->failed) return false;
  void *data = text->data;
  text->failed = more > SIZE_MAX - text->length - 1 ||
                 intact__reserve(text->context, &data, &text->capacity, text->length + more + 1, 1) != INTACT_OK;
  text->data = data;
  return !text->failed;
}

void intact__text_add_bytes(intact_text *text, const char *bytes, size_t length) {
  if (!text_room(text, length)) return;
  memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = 0;
}

void intact__text_add(intact_text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0 || !text_room(text, (size_t)length)) return;
  va_start(args, format);
  vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
  va_end(args);
  text->length += (size_t)length;
}

/* Puts '.' where the locale's decimal sign stands. */
static void undo_locale(char *buffer) {
  const char *point = localeconv()->decimal_point;
  if (strcmp(point, ".") == 0) return;
  char *at = strstr(buffer, point);
  if (!at) return;
  *at = '.';
  memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
}

static void add_number(intact_text *text, double value, int first_digits, int digits, bool is_float) {
  if (isnan(value) || isinf(value)) {
    intact__text_add(text, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return;
  }
  char buffer[64];
  for (int d = first_digits; d <= digits; d++) {
    snprintf(buffer, sizeof buffer, "%.*g", d, value);
    if (is_float ? strtof(buffer, NULL) == (float)value : strtod(buffer, NULL) == value) break;
  }
  undo_locale(buffer);
  intact__text_add(text, "%s", buffer);
}

void intact__text_add_double(intact_text *text, double value) { add_number(text, value, 6, 17, false); }
void intact__text_add_float(intact_text *text, float value) { add_number(text, (double)value, 6, 9, true); }

char *intact__text_take(intact_text *text) {
  if (text->failed) {
    intact__text_fini(text);
    return NULL;
  }
  if (!text->data) intact__text_add_bytes(text, "", 0);
  char *data = text->data;
  *text = (intact_text){.context = text->context};
  return data;
}

bool intact__parse_double(const char *text, double *value) {
  if (!*text || *text == ' ' || *text == '\t' || *text == '\n') return false;
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!locale) return false;
  char *end;
  double parsed = strtod_l(text, &end, locale);
  freelocale(locale);
  if (*end || end == text) return false;
  *value = parsed;
  return true;
}

bool intact__parse_float(const char *text, float *value) {
  if (!*text || *text == ' ' || *text == '\t' || *text == '\n') return false;
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!locale) return false;
  char *end;
  float parsed = strtof_l(text, &end, locale);
  freelocale(locale);
  if (*end || end == text) return false;
  *value = parsed;
  return true;
}

bool intact__parse_int(const char *text, int64_t *value) {
  if (!*text || *text == ' ' || *text == '\t' || *text == '\n') return false;
  char *end;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (errno || *end || end == text) return false;
  *value = parsed;
  return true;
}

int intact__utf8_length(const uint8_t *at, const uint8_t *end) {
  const uint8_t first = at[0];
  if (first < 0x80) return 1;
  const int length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || end - at < length) return 0;
  for (int i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = at[1];
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

bool intact__is_utf8(const char *text) {
  const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);
  for (int length = 1; at < end && length > 0; at += length) length = intact__utf8_length(at, end);
  return at == end;
}

bool intact__glob(const char *pattern, const char *text) {
  const char *star = NULL, *resume = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = pattern++;
      resume = text;
    } else if (*pattern == '?' || (*pattern == *text && *pattern)) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star + 1;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

void intact__map_init(intact_map *map, intact_context *context) { *map = (intact_map){.context = context}; }

void intact__map_fini(intact_map *map) {
  intact__free(map->context, map->slots);
  *map = (intact_map){.context = map->context};
}

static uint64_t hash(const char *key) { /* FNV-1a */
  uint64_t h = 14695981039346656037u;
  for (; *key; key++) h = (h ^ (uint8_t)*key) * 1099511628211u;
  return h;
}

static struct intact_map_slot *find_slot(const intact_map *map, const char *key) {
  size_t i = (size_t)hash(key) & (map->capacity - 1);
  while (map->slots[i].key && strcmp(map->slots[i].key, key) != 0) i = (i + 1) & (map->capacity - 1);
  return &map->slots[i];
}

intact_status intact__map_set(intact_map *map, const char *key, int64_t value) {
  if (map->count * 4 >= map->capacity * 3) {
    intact_map grown = {.context = map->context, .capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
    grown.slots = intact__alloc_zeroed(map->context, grown.capacity, sizeof *grown.slots);
    if (!grown.slots) return intact__no_memory(map->context, grown.capacity * sizeof *grown.slots);
    for (size_t i = 0; i < map->capacity; i++)
      if (map->slots[i].key) *find_slot(&grown, map->slots[i].key) = map->slots[i];
    intact__free(map->context, map->slots);
    *map = grown;
  }
  struct intact_map_slot *slot = find_slot(map, key);
  if (!slot->key) {
    slot->key = key;
    map->count++;
  }
  slot->value = value;
  return INTACT_OK;
}

bool intact__map_get(const intact_map *map, const char *key, int64_t *value) {
  if (!map->capacity) return false;
  const struct intact_map_slot *slot = find_slot(map, key);
  if (!slot->key) return false;
  *value = slot->value;
  return true;
}
