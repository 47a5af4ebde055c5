/* SPDX-License-Identifier: Apache-2.0 */
/* Words, strings and numbers of a graph's text. */
#include "graph/lex.h"

#include <string.h>

enum { NUMBER_BYTES = 64 };

intact_status intact__lex_fail(intact_lexer *lexer, const char *expected) {
  char found[24];
  size_t n = 0;
  while (n + 1 < sizeof found && lexer->at + n < lexer->end && lexer->at[n] != '\n') {
    found[n] = lexer->at[n] >= 0x20 && lexer->at[n] < 0x7f ? lexer->at[n] : '?';
    n++;
  }
  found[n] = 0;
  char where[48];
  snprintf(where, sizeof where, "line %lld", (long long)lexer->line);
  if (lexer->at >= lexer->end)
    INTACT_FAIL(lexer->context, TRUNCATED, where, "graph text ends at line %lld: expected %s", (long long)lexer->line, expected);
  INTACT_FAIL(lexer->context, SYNTAX, where, "graph text, line %lld: expected %s, found \"%s\"", (long long)lexer->line, expected,
              found);
}

void intact__lex_blanks(intact_lexer *lexer) {
  while (lexer->at < lexer->end && *lexer->at == ' ') lexer->at++;
}

bool intact__lex_mark(intact_lexer *lexer, const char *mark) {
  intact__lex_blanks(lexer);
  const size_t length = strlen(mark);
  if ((size_t)(lexer->end - lexer->at) < length || memcmp(lexer->at, mark, length) != 0) return false;
  lexer->at += length;
  return true;
}

intact_status intact__lex_expect(intact_lexer *lexer, const char *mark) {
  return intact__lex_mark(lexer, mark) ? INTACT_OK : intact__lex_fail(lexer, mark);
}

bool intact__lex_line_ends(intact_lexer *lexer) {
  intact__lex_blanks(lexer);
  return lexer->at >= lexer->end || *lexer->at == '\n';
}

intact_status intact__lex_end_line(intact_lexer *lexer) {
  if (!intact__lex_line_ends(lexer)) return intact__lex_fail(lexer, "the end of the line");
  if (lexer->at >= lexer->end) return INTACT_OK;
  lexer->at++;
  lexer->line++;
  return INTACT_OK;
}

bool intact__lex_next_line(intact_lexer *lexer) {
  while (lexer->at < lexer->end && intact__lex_line_ends(lexer) && lexer->at < lexer->end) {
    lexer->at++;
    lexer->line++;
  }
  return lexer->at < lexer->end;
}

static intact_status word_done(intact_lexer *lexer) {
  return lexer->word.failed ? intact__no_memory(lexer->context, lexer->word.length) : INTACT_OK;
}

static void word_start(intact_lexer *lexer) {
  lexer->word.length = 0;
  intact__text_add_bytes(&lexer->word, "", 0);
}

intact_status intact__lex_word(intact_lexer *lexer) {
  intact__lex_blanks(lexer);
  const char *start = lexer->at;
  while (lexer->at < lexer->end && intact__is_word_byte(*lexer->at, lexer->at == start)) lexer->at++;
  if (lexer->at == start) return intact__lex_fail(lexer, "a word");
  word_start(lexer);
  intact__text_add_bytes(&lexer->word, start, (size_t)(lexer->at - start));
  return word_done(lexer);
}

static int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

intact_status intact__lex_string(intact_lexer *lexer) {
  INTACT_TRY(intact__lex_expect(lexer, "\""));
  word_start(lexer);
  for (;;) {
    if (lexer->at >= lexer->end || *lexer->at == '\n' || *lexer->at == 0) return intact__lex_fail(lexer, "\" at the end of a string");
    char byte = *lexer->at++;
    if (byte == '"') return word_done(lexer);
    if (byte == '\\') {
      const ptrdiff_t left = lexer->end - lexer->at;
      if (left >= 1 && (*lexer->at == '"' || *lexer->at == '\\')) {
        byte = *lexer->at++;
      } else if (left >= 3 && *lexer->at == 'x' && hex_digit(lexer->at[1]) >= 0 && hex_digit(lexer->at[2]) >= 0) {
        byte = (char)(hex_digit(lexer->at[1]) * 16 + hex_digit(lexer->at[2]));
        if (byte == 0) return intact__lex_fail(lexer, "a string without a zero byte");
        lexer->at += 3;
      } else {
        return intact__lex_fail(lexer, "one of \\\" \\\\ \\xhh in a string");
      }
    }
    intact__text_add_bytes(&lexer->word, &byte, 1);
  }
}

intact_status intact__lex_name(intact_lexer *lexer, bool *quoted) {
  intact__lex_blanks(lexer);
  const bool is_string = lexer->at < lexer->end && *lexer->at == '"';
  if (quoted != NULL) *quoted = is_string;
  return is_string ? intact__lex_string(lexer) : intact__lex_word(lexer);
}

/* The bytes of a number into `buffer`. ".." ends a whole number. */
static bool take_number(intact_lexer *lexer, bool whole, char *buffer) {
  intact__lex_blanks(lexer);
  size_t n = 0;
  const char *at = lexer->at;
  for (; at < lexer->end && n + 1 < NUMBER_BYTES; at++) {
    const bool digit = *at >= '0' && *at <= '9';
    const bool other = whole ? *at == '-' : ((*at >= 'a' && *at <= 'z') || strchr("+-.", *at) != NULL) && *at != 0;
    if (!digit && !other) break;
    buffer[n++] = *at;
  }
  buffer[n] = 0;
  return n > 0;
}

intact_status intact__lex_int(intact_lexer *lexer, int64_t *value) {
  char number[NUMBER_BYTES];
  if (!take_number(lexer, true, number) || !intact__parse_int(number, value))
    return intact__lex_fail(lexer, "a whole number of 64 bits");
  lexer->at += strlen(number);
  return INTACT_OK;
}

intact_status intact__lex_int_in(intact_lexer *lexer, const char *what, int64_t low, int64_t high, int64_t *value) {
  int64_t read;
  INTACT_TRY(intact__lex_int(lexer, &read));
  if (read < low || read > high) {
    char where[48];
    snprintf(where, sizeof where, "line %lld", (long long)lexer->line);
    INTACT_FAIL(lexer->context, OUT_OF_RANGE, where, "graph text, line %lld: %s is %lld, it must lie in %lld..%lld",
                (long long)lexer->line, what, (long long)read, (long long)low, (long long)high);
  }
  *value = read;
  return INTACT_OK;
}

intact_status intact__lex_double(intact_lexer *lexer, double *value) {
  char number[NUMBER_BYTES];
  if (!take_number(lexer, false, number) || !intact__parse_double(number, value)) return intact__lex_fail(lexer, "a number");
  lexer->at += strlen(number);
  return INTACT_OK;
}

intact_status intact__lex_float(intact_lexer *lexer, float *value) {
  char number[NUMBER_BYTES];
  if (!take_number(lexer, false, number) || !intact__parse_float(number, value)) return intact__lex_fail(lexer, "a number");
  lexer->at += strlen(number);
  return INTACT_OK;
}
