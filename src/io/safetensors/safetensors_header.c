/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON header of a safetensors file. Rules: the format's README and safetensors/src/tensor.rs. */
#include "io/safetensors/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/safetensors/safetensors_json.h"

/* The format's types in the order of its own enumeration, which is that of their alignment. */
static const char *const type_names[] = {
    "BOOL", "F4",  "F6_E2M3", "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
    "I16",  "U16", "F16",     "BF16",    "I32", "U32", "F32",     "C64",     "F64",     "I64",         "U64"};
enum { TYPE_NAMES = sizeof type_names / sizeof type_names[0] };

static const char *const our_names[] = {
#define XX(name, text, bits, kind, safetensors, onnx) safetensors,
    INTACT_DTYPE_MAP(XX)
#undef XX
};

int intact__safetensors_dtype_order(intact_dtype dtype) {
  for (int i = 0; i < TYPE_NAMES; i++) {
    if (strcmp(type_names[i], our_names[dtype]) == 0) return i;
  }
  return -1;
}

typedef struct parse {
  intact_json_scan scan;
  intact_safetensors_header *header;
  uint64_t buffer;
} parse;

static intact_status parse_dtype(parse *p, intact_safetensors_entry *entry) {
  const char *text;
  if (intact__json_peek(&p->scan) != '"') {
    INTACT_FAIL(p->scan.context, TYPE_MISMATCH, p->scan.path, "dtype of tensor %s is no string", entry->name);
  }
  INTACT_TRY(intact__json_string(&p->scan, &p->header->arena, &text));
  for (int i = 0; i < INTACT_DTYPE_COUNT; i++) {
    if (*our_names[i] && strcmp(our_names[i], text) == 0) {
      entry->dtype = (intact_dtype)i;
      return INTACT_OK;
    }
  }
  for (int i = 0; i < TYPE_NAMES; i++) {
    if (strcmp(type_names[i], text) == 0) {
      INTACT_FAIL(p->scan.context, UNSUPPORTED_TYPE, p->scan.path, "dtype %s of tensor %s is not supported", text,
                  entry->name);
    }
  }
  INTACT_FAIL(p->scan.context, INVALID_VALUE, p->scan.path, "unknown dtype %s of tensor %s", text, entry->name);
}

static intact_status parse_shape(parse *p, intact_safetensors_entry *entry) {
  if (intact__json_peek(&p->scan) != '[') {
    INTACT_FAIL(p->scan.context, TYPE_MISMATCH, p->scan.path, "shape of tensor %s is no list", entry->name);
  }
  INTACT_TRY(intact__json_expect(&p->scan, '['));
  bool more = intact__json_peek(&p->scan) != ']';
  if (!more) return intact__json_expect(&p->scan, ']');
  while (more) {
    uint64_t size;
    INTACT_TRY(intact__json_u64(&p->scan, "a size", &size));
    if (entry->rank == INTACT_MAX_RANK) {
      INTACT_FAIL(p->scan.context, OUT_OF_RANGE, p->scan.path, "tensor %s has more than %d dimensions", entry->name,
                  INTACT_MAX_RANK);
    }
    if (size > INT64_MAX) {
      INTACT_FAIL(p->scan.context, OVERFLOW, p->scan.path, "size %" PRIu64 " of tensor %s does not fit 63 bits", size,
                  entry->name);
    }
    entry->dims[entry->rank++] = (int64_t)size;
    INTACT_TRY(intact__json_next(&p->scan, ']', &more));
  }
  return INTACT_OK;
}

static intact_status parse_offsets(parse *p, intact_safetensors_entry *entry) {
  bool more;
  if (intact__json_peek(&p->scan) != '[') {
    INTACT_FAIL(p->scan.context, TYPE_MISMATCH, p->scan.path, "data_offsets of tensor %s is no list", entry->name);
  }
  INTACT_TRY(intact__json_expect(&p->scan, '['));
  INTACT_TRY(intact__json_u64(&p->scan, "an offset", &entry->begin));
  INTACT_TRY(intact__json_expect(&p->scan, ','));
  INTACT_TRY(intact__json_u64(&p->scan, "an offset", &entry->end));
  INTACT_TRY(intact__json_next(&p->scan, ']', &more));
  if (more) INTACT_FAIL(p->scan.context, SYNTAX, p->scan.path, "data_offsets of tensor %s are not two numbers", entry->name);
  return INTACT_OK;
}

/* The sizes of one tensor against each other and against the buffer. */
static intact_status check_entry(const parse *p, const intact_safetensors_entry *entry) {
  intact_context *context = p->scan.context;
  int64_t count;
  size_t bytes;
  char shape[160];
  if (!intact__shape_bytes(entry->dtype, entry->rank, entry->dims, &count, &bytes)) {
    INTACT_FAIL(context, OVERFLOW, p->scan.path, "shape %s of tensor %s overflows",
                intact__shape_text(entry->rank, entry->dims, shape), entry->name);
  }
  if (entry->begin > entry->end) {
    INTACT_FAIL(context, INVALID_VALUE, p->scan.path, "data of tensor %s begin at %" PRIu64 " and end before, at %" PRIu64,
                entry->name, entry->begin, entry->end);
  }
  if (entry->end > p->buffer) {
    INTACT_FAIL(context, OUT_OF_RANGE, p->scan.path,
                "data of tensor %s end at %" PRIu64 ", past the file's %" PRIu64 " bytes of data", entry->name, entry->end,
                p->buffer);
  }
  if ((uint64_t)count * (uint64_t)intact_dtype_bits(entry->dtype) % 8 != 0 || bytes != entry->end - entry->begin) {
    INTACT_FAIL(context, SIZE_MISMATCH, p->scan.path,
                "tensor %s: shape %s of %s needs %zu bytes, its data_offsets give %" PRIu64, entry->name,
                intact__shape_text(entry->rank, entry->dims, shape), intact_dtype_text(entry->dtype), bytes,
                entry->end - entry->begin);
  }
  return INTACT_OK;
}

static intact_status parse_entry(parse *p, const char *name) {
  static const char *const fields[] = {"dtype", "shape", "data_offsets"};
  intact_context *context = p->scan.context;
  intact_safetensors_header *header = p->header;
  INTACT_TRY(intact__reserve(context, (void **)&header->entries, &header->capacity, header->n + 1, sizeof *header->entries));
  intact_safetensors_entry *entry = &header->entries[header->n];
  memset(entry, 0, sizeof *entry);
  entry->name = name;
  if (intact__json_peek(&p->scan) != '{') {
    INTACT_FAIL(context, TYPE_MISMATCH, p->scan.path, "the entry of tensor %s is no object", name);
  }
  INTACT_TRY(intact__json_expect(&p->scan, '{'));
  bool more = intact__json_peek(&p->scan) != '}', seen[3] = {false, false, false};
  if (!more) INTACT_TRY(intact__json_expect(&p->scan, '}'));
  while (more) {
    const char *key;
    INTACT_TRY(intact__json_string(&p->scan, &header->arena, &key));
    INTACT_TRY(intact__json_expect(&p->scan, ':'));
    int field = 0;
    while (field < 3 && strcmp(key, fields[field]) != 0) field++;
    if (field < 3 && seen[field]) INTACT_FAIL(context, DUPLICATE, p->scan.path, "%s of tensor %s stands twice", key, name);
    if (field < 3) seen[field] = true;
    switch (field) {
      case 0:
        INTACT_TRY(parse_dtype(p, entry));
        break;
      case 1:
        INTACT_TRY(parse_shape(p, entry));
        break;
      case 2:
        INTACT_TRY(parse_offsets(p, entry));
        break;
      default:
        INTACT_TRY(intact__json_skip(&p->scan, &header->arena));
    }
    INTACT_TRY(intact__json_next(&p->scan, '}', &more));
  }
  for (int i = 0; i < 3; i++) {
    if (!seen[i]) INTACT_FAIL(context, MISSING_FIELD, p->scan.path, "tensor %s has no %s", name, fields[i]);
  }
  header->n++;
  return check_entry(p, entry);
}

static intact_status parse_object(parse *p, intact_map *names) {
  intact_context *context = p->scan.context;
  INTACT_TRY(intact__json_expect(&p->scan, '{'));
  bool more = intact__json_peek(&p->scan) != '}';
  if (!more) INTACT_TRY(intact__json_expect(&p->scan, '}'));
  while (more) {
    const char *name;
    int64_t before;
    INTACT_TRY(intact__json_string(&p->scan, &p->header->arena, &name));
    if (intact__map_get(names, name, &before)) {
      INTACT_FAIL(context, DUPLICATE, p->scan.path, "tensor %s stands twice in the header", name);
    }
    INTACT_TRY(intact__map_set(names, name, (int64_t)p->header->n));
    INTACT_TRY(intact__json_expect(&p->scan, ':'));
    if (strcmp(name, "__metadata__") == 0) {
      INTACT_TRY(intact__json_skip(&p->scan, &p->header->arena));
    } else {
      INTACT_TRY(parse_entry(p, name));
    }
    INTACT_TRY(intact__json_next(&p->scan, '}', &more));
  }
  intact__json_peek(&p->scan);
  if (p->scan.at != p->scan.end) {
    INTACT_FAIL(context, SYNTAX, p->scan.path, "the header's JSON goes on after its end at position %zu",
                (size_t)(p->scan.at - p->scan.start));
  }
  return INTACT_OK;
}

static int compare_offsets(const void *a, const void *b) {
  const intact_safetensors_entry *left = *(const intact_safetensors_entry *const *)a;
  const intact_safetensors_entry *right = *(const intact_safetensors_entry *const *)b;
  if (left->begin != right->begin) return left->begin < right->begin ? -1 : 1;
  return left->end < right->end ? -1 : left->end > right->end;
}

/* The data of the tensors lie one behind the other and fill the buffer. */
static intact_status check_layout(const parse *p) {
  intact_context *context = p->scan.context;
  const intact_safetensors_header *header = p->header;
  const intact_safetensors_entry **sorted = intact__alloc(context, header->n, sizeof *sorted);
  if (!sorted && header->n) return intact__no_memory(context, header->n * sizeof *sorted);
  for (size_t i = 0; i < header->n; i++) sorted[i] = &header->entries[i];
  if (header->n) qsort(sorted, header->n, sizeof *sorted, compare_offsets);
  intact_status status = INTACT_OK;
  uint64_t at = 0;
  for (size_t i = 0; i < header->n && status == INTACT_OK; i++) {
    if (sorted[i]->begin < at) {
      status = intact__fail(context, INTACT_OUT_OF_RANGE, p->scan.path, __FILE__, __LINE__, "tensors %s and %s overlap",
                            sorted[i - 1]->name, sorted[i]->name);
    } else if (sorted[i]->begin > at) {
      status = intact__fail(context, INTACT_OUT_OF_RANGE, p->scan.path, __FILE__, __LINE__,
                            "%" PRIu64 " bytes before the data of tensor %s belong to no tensor", sorted[i]->begin - at,
                            sorted[i]->name);
    }
    at = sorted[i]->end;
  }
  intact__free(context, sorted);
  INTACT_TRY(status);
  if (at != p->buffer) {
    INTACT_FAIL(context, SIZE_MISMATCH, p->scan.path,
                "the tensors end at byte %" PRIu64 " of the data, the file at %" PRIu64, at, p->buffer);
  }
  return INTACT_OK;
}

void intact__safetensors_header_fini(intact_safetensors_header *header) {
  intact__free(header->arena.context, header->entries);
  intact__arena_fini(&header->arena);
}

intact_status intact__safetensors_header_parse(intact_context *context, const char *path, const uint8_t *text, size_t bytes,
                                               uint64_t buffer, intact_safetensors_header *header) {
  intact_safetensors_header result = {.entries = NULL};
  intact__arena_init(&result.arena, context);
  parse p = {.scan = {context, path, text, text, text + bytes}, .header = &result, .buffer = buffer};
  intact_map names;
  intact__map_init(&names, context);
  intact_status status = parse_object(&p, &names);
  intact__map_fini(&names);
  if (status == INTACT_OK) status = check_layout(&p);
  if (status != INTACT_OK) {
    intact__safetensors_header_fini(&result);
    return status;
  }
  *header = result;
  return INTACT_OK;
}
