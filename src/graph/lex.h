/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the pieces of a graph's text: words, strings, numbers, marks. */
#ifndef INTACT_GRAPH_LEX_H
#define INTACT_GRAPH_LEX_H

#include "graph/text_form.h"

typedef struct intact_lexer {
  intact_context *context;
  const char *at, *end; /* what is left of the text */
  int64_t line;
  const intact_side_table *side;
  intact_text word; /* the last word or string read */
} intact_lexer;

/* A syntax error at this line: what was expected, and what stands there. */
intact_status intact__lex_fail(intact_lexer *lexer, const char *expected);
void intact__lex_blanks(intact_lexer *lexer);
/* Skips blanks, then eats `mark` if it is there. */
bool intact__lex_mark(intact_lexer *lexer, const char *mark);
intact_status intact__lex_expect(intact_lexer *lexer, const char *mark);
bool intact__lex_line_ends(intact_lexer *lexer); /* at the end of a line (after blanks) or of the text */
intact_status intact__lex_end_line(intact_lexer *lexer);
/* The next line that is not empty; false at the end of the text. */
bool intact__lex_next_line(intact_lexer *lexer);
/* A plain word into lexer->word.data (keywords, op names, types). */
intact_status intact__lex_word(intact_lexer *lexer);
/* A plain word or a quoted string into lexer->word.data; `quoted` (may be NULL) tells which. */
intact_status intact__lex_name(intact_lexer *lexer, bool *quoted);
intact_status intact__lex_string(intact_lexer *lexer);
intact_status intact__lex_int(intact_lexer *lexer, int64_t *value);
intact_status intact__lex_int_in(intact_lexer *lexer, const char *what, int64_t low, int64_t high, int64_t *value);
intact_status intact__lex_double(intact_lexer *lexer, double *value);
intact_status intact__lex_float(intact_lexer *lexer, float *value);

/* "f32[N,3]": the rank is -1 for [*]. Symbols are made in `graph` (NULL: refused). */
intact_status intact__lex_type(intact_lexer *lexer, intact_graph *graph, intact_dtype *dtype, int *rank, int64_t *dims);
/* Content of a tensor of that type and shape: {..}, x"..", @k. */
intact_status intact__lex_content(intact_lexer *lexer, intact_dtype dtype, int rank, const int64_t *dims, intact_tensor **tensor);
bool intact__lex_has_content(intact_lexer *lexer);
/* " q{...}" for a value of that type, made in the arena; *qparams stays NULL when none stands there. */
intact_status intact__lex_qparams(intact_lexer *lexer, intact_arena *arena, intact_dtype dtype, const intact_qparams **qparams);

#endif
