/* SPDX-License-Identifier: Apache-2.0 */
/* Types, qparams and the content of tensors in a graph's text. */
#include <string.h>

#include "graph/lex.h"

intact_status intact__lex_type(intact_lexer *lexer, intact_graph *graph, intact_dtype *dtype, int *rank, int64_t *dims) {
  INTACT_TRY(intact__lex_word(lexer));
  if (!intact_dtype_from_text(lexer->word.data, dtype)) {
    lexer->at -= lexer->word.length;
    return intact__lex_fail(lexer, "an element type such as f32");
  }
  INTACT_TRY(intact__lex_expect(lexer, "["));
  *rank = 0;
  if (intact__lex_mark(lexer, "*")) {
    *rank = -1;
    return intact__lex_expect(lexer, "]");
  }
  while (!intact__lex_mark(lexer, "]")) {
    if (*rank > 0) INTACT_TRY(intact__lex_expect(lexer, ","));
    if (*rank >= INTACT_MAX_RANK) {
      intact__lex_fail(lexer, "]");
      return intact__fail_in(lexer->context, "more than %d dimensions", INTACT_MAX_RANK);
    }
    intact__lex_blanks(lexer);
    if (lexer->at < lexer->end && *lexer->at >= '0' && *lexer->at <= '9') {
      INTACT_TRY(intact__lex_int(lexer, &dims[*rank]));
    } else {
      if (graph == NULL) return intact__lex_fail(lexer, "a size");
      INTACT_TRY(intact__lex_name(lexer, NULL));
      INTACT_TRY(intact__check_name(lexer->context, "dimension", lexer->word.data));
      dims[*rank] = intact__graph_symbol(graph, lexer->word.data);
      if (dims[*rank] == 0) return intact__no_memory(lexer->context, 0);
    }
    ++*rank;
  }
  return INTACT_OK;
}

bool intact__lex_has_content(intact_lexer *lexer) {
  intact__lex_blanks(lexer);
  if (lexer->at >= lexer->end) return false;
  return *lexer->at == '{' || *lexer->at == '@' || (*lexer->at == 'x' && lexer->end - lexer->at > 1 && lexer->at[1] == '"');
}

static intact_status fail_count(intact_lexer *lexer, const char *what, uint64_t wanted) {
  intact__lex_fail(lexer, what);
  char where[48];
  snprintf(where, sizeof where, "line %lld", (long long)lexer->line);
  INTACT_FAIL(lexer->context, SIZE_MISMATCH, where, "graph text, line %lld: the shape needs %llu %s, another number stands there",
              (long long)lexer->line, (unsigned long long)wanted, what);
}

static intact_status read_numbers(intact_lexer *lexer, intact_tensor *tensor) {
  for (int64_t i = 0; i < tensor->count; i++) {
    if (i > 0 && !intact__lex_mark(lexer, ",")) return fail_count(lexer, "elements", (uint64_t)tensor->count);
    if (tensor->dtype == INTACT_F64) {
      double value;
      INTACT_TRY(intact__lex_double(lexer, &value));
      intact__tensor_set_f64(tensor, i, value);
    } else if (intact_dtype_is_float(tensor->dtype)) {
      float value;
      INTACT_TRY(intact__lex_float(lexer, &value));
      intact__tensor_set_f64(tensor, i, (double)value);
    } else {
      const bool flag = tensor->dtype == INTACT_BOOL;
      int64_t value;
      INTACT_TRY(intact__lex_int_in(lexer, "an element", flag ? 0 : intact_dtype_min(tensor->dtype),
                                    flag ? 1 : intact_dtype_max(tensor->dtype), &value));
      intact__tensor_set_s64(tensor, i, value);
    }
  }
  return intact__lex_mark(lexer, "}") ? INTACT_OK : fail_count(lexer, "elements", (uint64_t)tensor->count);
}

static int nibble(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static intact_status read_hex(intact_lexer *lexer, intact_tensor *tensor, size_t bytes) {
  uint8_t *data = tensor->data;
  for (size_t i = 0; i < bytes; i++, lexer->at += 2) {
    const int high = nibble(lexer->at[0]), low = high < 0 ? -1 : nibble(lexer->at[1]);
    if (low < 0) return fail_count(lexer, "bytes in hex", bytes);
    data[i] = (uint8_t)(high * 16 + low);
  }
  return lexer->at < lexer->end && *lexer->at++ == '"' ? INTACT_OK : fail_count(lexer, "bytes in hex", bytes);
}

/* Memory is asked for only after the text is seen to be long enough to fill it. */
intact_status intact__lex_content(intact_lexer *lexer, intact_dtype dtype, int rank, const int64_t *dims, intact_tensor **tensor) {
  int64_t count = 0;
  size_t bytes = 0;
  if (rank < 0 || !intact__shape_bytes(dtype, rank, dims, &count, &bytes)) {
    intact__lex_fail(lexer, "a shape that is known and not too large");
    INTACT_FAIL(lexer->context, OVERFLOW, "", "graph text, line %lld: the size of the tensor overflows or is not known",
                (long long)lexer->line);
  }
  if (intact__lex_mark(lexer, "@")) {
    int64_t index;
    INTACT_TRY(intact__lex_int(lexer, &index));
    if (lexer->side == NULL || lexer->side->get == NULL)
      INTACT_FAIL(lexer->context, MISSING_ENTRY, "", "graph text, line %lld: refers to tensor %lld of a table that does not exist",
                  (long long)lexer->line, (long long)index);
    return lexer->side->get(lexer->side->user, index, dtype, rank, dims, tensor);
  }
  const size_t left = (size_t)(lexer->end - lexer->at);
  const bool hex = intact__lex_mark(lexer, "x\"");
  if (!hex) INTACT_TRY(intact__lex_expect(lexer, "{"));
  if (hex ? bytes > left / 2 : (uint64_t)count > left) return fail_count(lexer, hex ? "bytes in hex" : "elements", (uint64_t)count);
  intact_tensor *made = NULL;
  INTACT_TRY(intact_tensor_create(lexer->context, dtype, rank, dims, &made));
  const intact_status status = hex ? read_hex(lexer, made, bytes) : read_numbers(lexer, made);
  if (status != INTACT_OK) {
    intact_tensor_destroy(made);
    return status;
  }
  *tensor = made;
  return INTACT_OK;
}

/* n floats or integers: one for all, a list, or a tensor of the side table. */
static intact_status read_list(intact_lexer *lexer, intact_dtype dtype, int64_t n, void *data) {
  if (intact__lex_has_content(lexer)) {
    intact_tensor *tensor = NULL;
    INTACT_TRY(intact__lex_content(lexer, dtype, 1, &n, &tensor));
    memcpy(data, tensor->data, (size_t)n * 4);
    intact_tensor_destroy(tensor);
    return INTACT_OK;
  }
  const bool list = intact__lex_mark(lexer, "[");
  for (int64_t i = 0; i < n; i++) {
    if (i > 0 && !list) {
      memcpy((char *)data + i * 4, data, 4);
      continue;
    }
    if (i > 0) INTACT_TRY(intact__lex_expect(lexer, ","));
    if (dtype == INTACT_F32) {
      INTACT_TRY(intact__lex_float(lexer, (float *)data + i));
    } else {
      int64_t value;
      INTACT_TRY(intact__lex_int_in(lexer, "a zero point", INT32_MIN, INT32_MAX, &value));
      ((int32_t *)data)[i] = (int32_t)value;
    }
  }
  return list ? intact__lex_expect(lexer, "]") : INTACT_OK;
}

intact_status intact__lex_qparams(intact_lexer *lexer, intact_arena *arena, intact_dtype dtype, const intact_qparams **qparams) {
  if (!intact__lex_mark(lexer, "q{")) return INTACT_OK;
  intact_qparams q = {.dtype = dtype, .axis = -1, .n = 1};
  INTACT_TRY(intact__lex_word(lexer));
  if (!intact_qscheme_from_text(lexer->word.data, &q.scheme)) {
    lexer->at -= lexer->word.length;
    return intact__lex_fail(lexer, "a qscheme such as per_tensor_affine");
  }
  int64_t axis = -1;
  INTACT_TRY(intact__lex_int(lexer, &q.quant_min));
  INTACT_TRY(intact__lex_expect(lexer, ".."));
  INTACT_TRY(intact__lex_int(lexer, &q.quant_max));
  if (intact__lex_mark(lexer, "axis=")) INTACT_TRY(intact__lex_int_in(lexer, "axis", 0, INTACT_MAX_RANK - 1, &axis));
  if (intact__lex_mark(lexer, "group=")) INTACT_TRY(intact__lex_int_in(lexer, "group", 1, INT64_MAX, &q.group));
  /* What is asked of the heap stays in proportion to the text and its tensors. */
  const size_t largest = 4096 + (size_t)(lexer->end - lexer->at) + (lexer->side != NULL ? lexer->side->bytes : 0);
  if (intact__lex_mark(lexer, "n=")) INTACT_TRY(intact__lex_int_in(lexer, "n", 0, (int64_t)(largest & INT64_MAX), &q.n));
  q.axis = (int)axis;
  float *scale = intact__arena_alloc(arena, (size_t)q.n, sizeof *scale);
  int32_t *zero = intact__arena_alloc(arena, (size_t)q.n, sizeof *zero);
  intact_qparams *made = intact__arena_alloc(arena, 1, sizeof *made);
  if (scale == NULL || zero == NULL || made == NULL) return intact__no_memory(lexer->context, (size_t)q.n * sizeof *scale);
  INTACT_TRY(intact__lex_expect(lexer, "scale="));
  INTACT_TRY(read_list(lexer, INTACT_F32, q.n, scale));
  if (q.scheme == INTACT_PER_CHANNEL_AFFINE_FLOAT_QPARAMS && intact__lex_mark(lexer, "real_zero=")) {
    float *real_zero = intact__arena_alloc(arena, (size_t)q.n, sizeof *real_zero);
    if (real_zero == NULL) return intact__no_memory(lexer->context, (size_t)q.n * sizeof *real_zero);
    INTACT_TRY(read_list(lexer, INTACT_F32, q.n, real_zero));
    q.real_zero_point = real_zero;
  } else {
    INTACT_TRY(intact__lex_expect(lexer, "zero="));
    INTACT_TRY(read_list(lexer, INTACT_S32, q.n, zero));
  }
  INTACT_TRY(intact__lex_expect(lexer, "}"));
  q.scale = scale;
  q.zero_point = zero;
  *made = q;
  *qparams = made;
  return INTACT_OK;
}
