/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy array: magic, version, length, and a Python dictionary of three entries. */
#include "io/npy/npy_header.h"

#include <string.h>

#include "io/raw/raw_tensor.h"

static const struct {
  char letter; /* NumPy's kind letter and bytes, as in "f4" */
  char bytes;
  intact_dtype dtype;
} types[] = {{'f', 4, INTACT_F32}, {'f', 8, INTACT_F64},  {'f', 2, INTACT_F16}, {'i', 1, INTACT_S8},  {'u', 1, INTACT_U8},
             {'i', 2, INTACT_S16}, {'u', 2, INTACT_U16},  {'i', 4, INTACT_S32}, {'u', 4, INTACT_U32}, {'i', 8, INTACT_S64},
             {'u', 8, INTACT_U64}, {'b', 1, INTACT_BOOL}, {'c', 8, INTACT_C64}};
enum { TYPES = sizeof types / sizeof types[0] };

const char *intact__npy_descr(intact_dtype dtype) {
  static const char *const texts[] = {"<f4", "<f8", "<f2", "|i1", "|u1", "<i2", "<u2",
                                      "<i4", "<u4", "<i8", "<u8", "|b1", "<c8"};
  for (int i = 0; i < TYPES; i++) {
    if (types[i].dtype == dtype) return texts[i];
  }
  return NULL;
}

/* Reads the text of the dictionary. */
typedef struct scan {
  intact_context *context;
  const char *path, *what;
  const char *at, *end;
} scan;

bool intact__npy_magic(const uint8_t *data, size_t bytes) {
  return bytes >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
}

size_t intact__npy_header_bytes(const uint8_t *data, size_t bytes) {
  if (!intact__npy_magic(data, bytes) || bytes < 12) return 0;
  const size_t low = (size_t)data[8] | (size_t)data[9] << 8;
  return data[6] == 1 ? 10 + low : 12 + (low | (size_t)data[10] << 16 | (size_t)data[11] << 24);
}

static char peek(scan *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) s->at++;
  return s->at < s->end ? *s->at : 0;
}

static intact_status expect(scan *s, char wanted) {
  if (peek(s) != wanted) INTACT_FAIL(s->context, SYNTAX, s->path, "%s: '%c' is missing in the header", s->what, wanted);
  s->at++;
  return INTACT_OK;
}

/* A quoted word without escapes into `word` of `size` bytes. */
static intact_status quoted(scan *s, char *word, size_t size) {
  const char quote = peek(s);
  if (quote != '\'' && quote != '"')
    INTACT_FAIL(s->context, SYNTAX, s->path, "%s: no string where the header needs one", s->what);
  const char *begin = ++s->at;
  while (s->at < s->end && *s->at != quote) s->at++;
  const size_t length = (size_t)(s->at - begin);
  if (s->at == s->end || length >= size) {
    INTACT_FAIL(s->context, SYNTAX, s->path, "%s: a string of the header has no end or is too long", s->what);
  }
  memcpy(word, begin, length);
  word[length] = 0;
  s->at++;
  return INTACT_OK;
}

static intact_status parse_descr(scan *s, intact_npy_header *header) {
  char word[64];
  if (peek(s) == '[') {
    INTACT_FAIL(s->context, UNSUPPORTED_TYPE, s->path, "%s: arrays of records are not read; save one array per field",
                s->what);
  }
  INTACT_TRY(quoted(s, word, sizeof word));
  const char *at = word;
  const char order = *at && strchr("<>|=", *at) ? *at++ : '=';
  if (*at == 'O') {
    INTACT_FAIL(s->context, UNSUPPORTED_TYPE, s->path, "%s: object arrays (pickle, descr %s) are not read; save numbers",
                s->what, word);
  }
  for (int i = 0; i < TYPES; i++) {
    if (at[0] == types[i].letter && at[1] == '0' + types[i].bytes && at[2] == 0) {
      header->dtype = types[i].dtype;
      header->big_endian = order == '>';
      return INTACT_OK;
    }
  }
  INTACT_FAIL(s->context, UNSUPPORTED_TYPE, s->path, "%s: descr %s is not supported; save booleans, integers or floats",
              s->what, word);
}

static intact_status parse_order(scan *s, intact_npy_header *header) {
  peek(s);
  const size_t left = (size_t)(s->end - s->at);
  if (left >= 4 && memcmp(s->at, "True", 4) == 0) {
    header->fortran_order = true;
    s->at += 4;
  } else if (left >= 5 && memcmp(s->at, "False", 5) == 0) {
    s->at += 5;
  } else {
    INTACT_FAIL(s->context, TYPE_MISMATCH, s->path, "%s: fortran_order is neither True nor False", s->what);
  }
  return INTACT_OK;
}

static intact_status parse_shape(scan *s, intact_npy_header *header) {
  if (peek(s) != '(') INTACT_FAIL(s->context, TYPE_MISMATCH, s->path, "%s: shape is no tuple", s->what);
  s->at++;
  while (peek(s) != ')') {
    int64_t size = 0;
    const char *begin = s->at;
    if (peek(s) == '-') INTACT_FAIL(s->context, INVALID_VALUE, s->path, "%s: a negative size in shape", s->what);
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
      if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *s->at - '0', &size)) {
        INTACT_FAIL(s->context, OVERFLOW, s->path, "%s: a size in shape does not fit 63 bits", s->what);
      }
      s->at++;
    }
    if (s->at == begin) INTACT_FAIL(s->context, SYNTAX, s->path, "%s: shape holds something else than sizes", s->what);
    if (header->rank == INTACT_MAX_RANK) {
      INTACT_FAIL(s->context, OUT_OF_RANGE, s->path, "%s: more than %d dimensions", s->what, INTACT_MAX_RANK);
    }
    header->dims[header->rank++] = size;
    if (peek(s) == ',') {
      s->at++;
    } else if (peek(s) != ')') {
      INTACT_FAIL(s->context, SYNTAX, s->path, "%s: shape has no end", s->what);
    }
  }
  s->at++;
  return INTACT_OK;
}

static intact_status parse_dictionary(scan *s, intact_npy_header *header) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  static intact_status (*const parsers[])(scan *, intact_npy_header *) = {parse_descr, parse_order, parse_shape};
  bool seen[3] = {false, false, false};
  INTACT_TRY(expect(s, '{'));
  while (peek(s) != '}') {
    char key[64];
    INTACT_TRY(quoted(s, key, sizeof key));
    INTACT_TRY(expect(s, ':'));
    int k = 0;
    while (k < 3 && strcmp(key, keys[k]) != 0) k++;
    if (k == 3) INTACT_FAIL(s->context, INVALID_VALUE, s->path, "%s: unknown key '%s' in the header", s->what, key);
    if (seen[k]) INTACT_FAIL(s->context, DUPLICATE, s->path, "%s: key '%s' twice in the header", s->what, key);
    seen[k] = true;
    INTACT_TRY(parsers[k](s, header));
    if (peek(s) == ',') {
      s->at++;
    } else if (peek(s) != '}') {
      INTACT_FAIL(s->context, SYNTAX, s->path, "%s: the header's dictionary has no end", s->what);
    }
  }
  s->at++;
  if (peek(s) != 0 || s->at != s->end)
    INTACT_FAIL(s->context, SYNTAX, s->path, "%s: the header goes on after its end", s->what);
  for (int k = 0; k < 3; k++) {
    if (!seen[k]) INTACT_FAIL(s->context, MISSING_FIELD, s->path, "%s: the header has no '%s'", s->what, keys[k]);
  }
  return INTACT_OK;
}

intact_status intact__npy_header_parse(intact_context *context, const char *path, const char *what, const uint8_t *data,
                                       size_t bytes, intact_npy_header *header) {
  if (!intact__npy_magic(data, bytes)) INTACT_FAIL(context, BAD_MAGIC, path, "%s does not begin as a .npy array does", what);
  if (bytes < 12) INTACT_FAIL(context, TRUNCATED, path, "%s has %zu bytes: it ends inside its header", what, bytes);
  if (data[6] < 1 || data[6] > 3) {
    INTACT_FAIL(context, UNSUPPORTED_VERSION, path, "%s is of .npy version %d.%d; versions 1 to 3 are read", what, data[6],
                data[7]);
  }
  const size_t offset = intact__npy_header_bytes(data, bytes);
  if (offset > bytes) {
    INTACT_FAIL(context, TRUNCATED, path, "%s has %zu bytes: its header of %zu is not whole", what, bytes, offset);
  }
  intact_npy_header result = {.data_offset = offset};
  const size_t start = data[6] == 1 ? 10 : 12;
  scan s = {context, path, what, (const char *)data + start, (const char *)data + offset};
  INTACT_TRY(parse_dictionary(&s, &result));
  int64_t count;
  char shape[160];
  if (!intact__shape_bytes(result.dtype, result.rank, result.dims, &count, &result.data_bytes)) {
    INTACT_FAIL(context, OVERFLOW, path, "%s: shape %s overflows", what,
                intact__shape_text(result.rank, result.dims, shape));
  }
  *header = result;
  return INTACT_OK;
}

bool intact__npy_plain(const intact_npy_header *header) {
  return !(header->fortran_order && header->rank > 1) && !(header->big_endian && intact__swap_size(header->dtype) > 1);
}

/* Copies from first-axis-fastest to row-major order. */
static void reorder(const intact_npy_header *header, const uint8_t *from, uint8_t *to, size_t size) {
  size_t strides[INTACT_MAX_RANK], step = size;
  int64_t index[INTACT_MAX_RANK] = {0};
  const int rank = header->rank;
  for (int i = 0; i < rank; i++) {
    strides[i] = step;
    step *= (size_t)header->dims[i];
  }
  const size_t count = header->data_bytes / size;
  size_t offset = 0;
  for (size_t i = 0; i < count; i++, to += size) {
    memcpy(to, from + offset, size);
    for (int axis = rank - 1; axis >= 0; axis--) {
      offset += strides[axis];
      if (++index[axis] < header->dims[axis]) break;
      offset -= strides[axis] * (size_t)header->dims[axis];
      index[axis] = 0;
    }
  }
}

intact_status intact__npy_tensor(intact_context *context, const intact_npy_header *header, const uint8_t *data,
                                 intact_tensor **tensor) {
  intact_tensor *t;
  INTACT_TRY(intact__tensor_create_raw(context, header->dtype, header->rank, header->dims, &t));
  if (t->count && header->fortran_order) {
    reorder(header, data, t->data, (size_t)intact_dtype_bits(header->dtype) / 8);
  } else if (t->count) {
    memcpy(t->data, data, header->data_bytes);
  }
  if (header->big_endian) {
    const size_t unit = intact__swap_size(header->dtype);
    intact__swap_bytes(t->data, header->data_bytes / unit, unit);
  }
  *tensor = t;
  return INTACT_OK;
}
