/* SPDX-License-Identifier: Apache-2.0 */
/* A small strict JSON scanner over a byte range. */
#include "io/safetensors/safetensors_json.h"

#include <string.h>

#include "base/text.h"

enum { MAX_DEPTH = 100 };

#define SYNTAX_ERROR(scan, ...) INTACT_FAIL((scan)->context, SYNTAX, (scan)->path, __VA_ARGS__)

static size_t position(const intact_json_scan *scan) {
  return (size_t)(scan->at - scan->start);
}

int intact__json_peek(intact_json_scan *scan) {
  while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
    scan->at++;
  return scan->at < scan->end ? *scan->at : 0;
}

intact_status intact__json_expect(intact_json_scan *scan, char wanted) {
  const int found = intact__json_peek(scan);
  if (scan->at == scan->end) {
    SYNTAX_ERROR(scan, "the header's JSON ends at byte %zu where '%c' is needed", position(scan), wanted);
  }
  if (found != (unsigned char)wanted) {
    SYNTAX_ERROR(scan, "byte 0x%02x at position %zu of the header's JSON: '%c' is needed", (unsigned)found, position(scan),
                 wanted);
  }
  scan->at++;
  return INTACT_OK;
}

intact_status intact__json_next(intact_json_scan *scan, char close, bool *more) {
  const int found = intact__json_peek(scan);
  if (found == ',' && scan->at < scan->end) {
    scan->at++;
    *more = true;
    return INTACT_OK;
  }
  INTACT_TRY(intact__json_expect(scan, close));
  *more = false;
  return INTACT_OK;
}

static bool hex4(const intact_json_scan *scan, const uint8_t *at, uint32_t *value) {
  if (scan->end - at < 4) return false;
  uint32_t sum = 0;
  for (int i = 0; i < 4; i++) {
    const uint8_t c = at[i];
    uint32_t digit;
    if (c >= '0' && c <= '9') {
      digit = (uint32_t)(c - '0');
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      digit = (uint32_t)((c | 32) - 'a' + 10);
    } else {
      return false;
    }
    sum = sum * 16 + digit;
  }
  *value = sum;
  return true;
}

static char *put_utf8(char *out, uint32_t code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xc0 | (code >> 6));
    *out++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *out++ = (char)(0xe0 | (code >> 12));
    *out++ = (char)(0x80 | ((code >> 6) & 63));
    *out++ = (char)(0x80 | (code & 63));
  } else {
    *out++ = (char)(0xf0 | (code >> 18));
    *out++ = (char)(0x80 | ((code >> 12) & 63));
    *out++ = (char)(0x80 | ((code >> 6) & 63));
    *out++ = (char)(0x80 | (code & 63));
  }
  return out;
}

/* The escape behind a backslash at scan->at; appends to *out. */
static intact_status unescape(intact_json_scan *scan, char **out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const uint8_t c = scan->at < scan->end ? *scan->at : 0;
  const char *simple = c ? strchr(from, c) : NULL;
  if (simple) {
    *(*out)++ = to[simple - from];
    scan->at++;
    return INTACT_OK;
  }
  uint32_t code, low;
  if (c != 'u' || !hex4(scan, scan->at + 1, &code)) {
    SYNTAX_ERROR(scan, "unknown escape at position %zu of the header's JSON", position(scan));
  }
  scan->at += 5;
  if (code >= 0xd800 && code < 0xdc00 && scan->end - scan->at >= 6 && scan->at[0] == '\\' && scan->at[1] == 'u' &&
      hex4(scan, scan->at + 2, &low) && low >= 0xdc00 && low < 0xe000) {
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    scan->at += 6;
  } else if (code >= 0xd800 && code < 0xe000) {
    SYNTAX_ERROR(scan, "a lone surrogate at position %zu of the header's JSON", position(scan));
  }
  if (code == 0) SYNTAX_ERROR(scan, "a NUL character in a string at position %zu of the header's JSON", position(scan));
  *out = put_utf8(*out, code);
  return INTACT_OK;
}

intact_status intact__json_string(intact_json_scan *scan, intact_arena *arena, const char **text) {
  INTACT_TRY(intact__json_expect(scan, '"'));
  const uint8_t *close = scan->at;
  while (close < scan->end && *close != '"') close += *close == '\\' && scan->end - close > 1 ? 2 : 1;
  if (close == scan->end) {
    SYNTAX_ERROR(scan, "the string that begins at position %zu of the header's JSON has no end", position(scan) - 1);
  }
  const size_t bytes = (size_t)(close - scan->at) + 1; /* unescaping never makes it longer */
  char *start = intact__arena_alloc(arena, bytes, 1), *out = start;
  if (!start) return intact__no_memory(scan->context, bytes);
  while (*scan->at != '"') {
    if (*scan->at == '\\') {
      scan->at++;
      INTACT_TRY(unescape(scan, &out));
      continue;
    }
    const int length = intact__utf8_length(scan->at, close);
    if (*scan->at < 0x20 || length == 0) {
      SYNTAX_ERROR(scan, "byte 0x%02x at position %zu of the header's JSON: strings hold UTF-8 without control characters",
                   (unsigned)*scan->at, position(scan));
    }
    memcpy(out, scan->at, (size_t)length);
    out += length;
    scan->at += length;
  }
  scan->at++;
  *out = 0;
  *text = start;
  return INTACT_OK;
}

intact_status intact__json_u64(intact_json_scan *scan, const char *what, uint64_t *value) {
  const int first = intact__json_peek(scan);
  if (first == '-') {
    INTACT_FAIL(scan->context, INVALID_VALUE, scan->path, "%s is negative at position %zu of the header's JSON", what,
                position(scan));
  }
  if (first < '0' || first > '9') {
    INTACT_FAIL(scan->context, TYPE_MISMATCH, scan->path, "%s at position %zu of the header's JSON is no integer", what,
                position(scan));
  }
  const uint8_t *begin = scan->at;
  uint64_t sum = 0;
  while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
    const uint64_t digit = (uint64_t)(*scan->at++ - '0');
    if (sum > (UINT64_MAX - digit) / 10) {
      INTACT_FAIL(scan->context, OVERFLOW, scan->path, "%s at position %zu of the header's JSON does not fit 64 bits", what,
                  (size_t)(begin - scan->start));
    }
    sum = sum * 10 + digit;
  }
  if (*begin == '0' && scan->at - begin > 1) SYNTAX_ERROR(scan, "%s has a leading zero", what);
  const int next = scan->at < scan->end ? *scan->at : 0;
  if (next == '.' || next == 'e' || next == 'E') {
    INTACT_FAIL(scan->context, TYPE_MISMATCH, scan->path, "%s at position %zu of the header's JSON is no integer", what,
                (size_t)(begin - scan->start));
  }
  *value = sum;
  return INTACT_OK;
}

/* A bare token: number, true, false, null. */
static intact_status skip_token(intact_json_scan *scan) {
  const uint8_t *begin = scan->at;
  while (scan->at < scan->end && *scan->at && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *scan->at)) scan->at++;
  if (scan->at == begin) SYNTAX_ERROR(scan, "no value at position %zu of the header's JSON", position(scan));
  return INTACT_OK;
}

intact_status intact__json_skip(intact_json_scan *scan, intact_arena *arena) {
  char close[MAX_DEPTH];
  int depth = 0;
  for (;;) {
    const int c = intact__json_peek(scan);
    bool more = false;
    if (c == '{' || c == '[') {
      if (depth == MAX_DEPTH) {
        INTACT_FAIL(scan->context, RECURSION_LIMIT, scan->path, "the header's JSON is nested deeper than %d at position %zu",
                    (int)MAX_DEPTH, position(scan));
      }
      scan->at++;
      close[depth++] = c == '{' ? '}' : ']';
      if (intact__json_peek(scan) != (unsigned char)close[depth - 1]) {
        more = true;
      }
    } else if (c == '"') {
      const char *text;
      INTACT_TRY(intact__json_string(scan, arena, &text));
    } else {
      INTACT_TRY(skip_token(scan));
    }
    while (!more && depth > 0) {
      INTACT_TRY(intact__json_next(scan, close[depth - 1], &more));
      if (!more) depth--;
    }
    if (!more) return INTACT_OK;
    if (close[depth - 1] == '}') {
      const char *key;
      INTACT_TRY(intact__json_string(scan, arena, &key));
      INTACT_TRY(intact__json_expect(scan, ':'));
    }
  }
}
