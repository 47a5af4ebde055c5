/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format: tensors by name, mapped from the file; the writer gives the bytes that the reference writer gives.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/formats.h"
#include "io/raw/raw_tensor.h"
#include "io/safetensors/safetensors_header.h"

static uint64_t load_u64(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  if (head_bytes >= 9 && head[8] == '{' && load_u64(head) <= INTACT_SAFETENSORS_MAX_HEADER && load_u64(head) <= bytes - 8)
    return 2;
  return intact__has_extension(path, ".safetensors") ? 1 : 0;
}

static intact_status read_mapped(intact_context *context, const char *path, intact_mapping *mapping,
                                 intact_tensor_set *set) {
  const uint8_t *data = intact__mapping_data(mapping);
  const size_t bytes = intact__mapping_bytes(mapping);
  if (bytes < 8) {
    INTACT_FAIL(context, TRUNCATED, path, "the file has %zu bytes: a safetensors file begins with 8 bytes of header length",
                bytes);
  }
  const uint64_t length = load_u64(data);
  if (length > INTACT_SAFETENSORS_MAX_HEADER || length > bytes - 8) {
    INTACT_FAIL(context, SIZE_MISMATCH, path,
                "header length %" PRIu64 " exceeds the file's %zu bytes or the limit of %u: not a whole safetensors file",
                length, bytes, INTACT_SAFETENSORS_MAX_HEADER);
  }
  if (length == 0 || data[8] != '{') INTACT_FAIL(context, SYNTAX, path, "the header does not begin with {");
  intact_safetensors_header header;
  const size_t start = (size_t)length + 8;
  INTACT_TRY(intact__safetensors_header_parse(context, path, data + 8, (size_t)length, bytes - start, &header));
  intact_status status = INTACT_OK;
  for (size_t i = 0; i < header.n && status == INTACT_OK; i++) {
    const intact_safetensors_entry *entry = &header.entries[i];
    intact_tensor *tensor;
    status =
        intact__raw_tensor(context, entry->dtype, entry->rank, entry->dims, mapping, start + (size_t)entry->begin, &tensor);
    if (status == INTACT_OK) status = intact_tensor_set_add(set, entry->name, tensor);
  }
  intact__safetensors_header_fini(&header);
  return status;
}

static intact_status read_tensors(intact_context *context, const char *path, intact_tensor_set **set) {
  intact_mapping *mapping;
  intact_tensor_set *result;
  INTACT_TRY(intact_tensor_set_create(context, &result));
  intact_status status = intact__map_file(context, path, &mapping);
  if (status == INTACT_OK) {
    status = read_mapped(context, path, mapping, result);
    intact__mapping_release(mapping);
  }
  if (status != INTACT_OK) {
    intact_tensor_set_destroy(result);
    return status;
  }
  *set = result;
  return INTACT_OK;
}

/* ---- writing ---- */

typedef struct item {
  const char *name;
  const intact_tensor *tensor;
  int order;
} item;

/* Types of the largest alignment first, then names: the order of the reference writer. */
static int compare_items(const void *a, const void *b) {
  const item *left = a, *right = b;
  if (left->order != right->order) return left->order > right->order ? -1 : 1;
  return strcmp(left->name, right->name);
}

static void add_quoted(intact_text *text, const char *name) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  intact__text_add_bytes(text, "\"", 1);
  for (const char *at = name; *at; at++) {
    const char *simple = strchr(from, *at);
    if (simple) {
      intact__text_add(text, "\\%c", to[simple - from]);
    } else if ((unsigned char)*at < 0x20) {
      intact__text_add(text, "\\u%04x", (unsigned)(unsigned char)*at);
    } else {
      intact__text_add_bytes(text, at, 1);
    }
  }
  intact__text_add_bytes(text, "\"", 1);
}

static void add_header(intact_text *text, const item *items, int n) {
  uint64_t at = 0;
  intact__text_add(text, "{");
  for (int i = 0; i < n; i++) {
    const intact_tensor *tensor = items[i].tensor;
    if (i) intact__text_add(text, ",");
    add_quoted(text, items[i].name);
#define XX(name, words, bits, kind, safetensors, onnx) safetensors,
    static const char *const names[] = {INTACT_DTYPE_MAP(XX)};
#undef XX
    intact__text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", names[intact_tensor_dtype(tensor)]);
    for (int k = 0; k < intact_tensor_rank(tensor); k++) {
      intact__text_add(text, "%s%" PRId64, k ? "," : "", intact_tensor_dims(tensor)[k]);
    }
    const uint64_t end = at + intact_tensor_bytes(tensor);
    intact__text_add(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
    at = end;
  }
  intact__text_add(text, "}");
  while (!text->failed && text->length % 8) intact__text_add(text, " ");
}

static intact_status write_items(intact_context *context, const char *path, const item *items, int n) {
  intact_text text;
  intact__text_init(&text, context);
  add_header(&text, items, n);
  intact_status status = INTACT_OK;
  intact_writer *writer = NULL;
  if (text.failed) status = intact__no_memory(context, text.length);
  if (status == INTACT_OK && text.length > INTACT_SAFETENSORS_MAX_HEADER) {
    status =
        intact__fail(context, INTACT_OVERFLOW, path, __FILE__, __LINE__,
                     "the header of %d tensors has %zu bytes, at most %u go", n, text.length, INTACT_SAFETENSORS_MAX_HEADER);
  }
  if (status == INTACT_OK) status = intact__writer_open(context, path, &writer);
  if (status == INTACT_OK) {
    FILE *stream = intact__writer_stream(writer);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)text.length >> (8 * i));
    fwrite(length, 1, sizeof length, stream);
    fwrite(text.data, 1, text.length, stream);
    for (int i = 0; i < n; i++) {
      const size_t bytes = intact_tensor_bytes(items[i].tensor);
      if (bytes) fwrite(intact_tensor_data(items[i].tensor), 1, bytes, stream);
    }
    status = intact__writer_commit(writer);
  }
  intact__text_fini(&text);
  return status;
}

static intact_status write_tensors(intact_context *context, const char *path, const intact_tensor_set *set) {
  const int n = intact_tensor_set_count(set);
  item *items = intact__alloc(context, (size_t)n + 1, sizeof *items);
  if (!items) return intact__no_memory(context, ((size_t)n + 1) * sizeof *items);
  intact_status status = INTACT_OK;
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    const intact_tensor *tensor = intact_tensor_set_get(set, i);
    const intact_dtype dtype = intact_tensor_dtype(tensor);
    items[i] = (item){intact_tensor_set_name(set, i), tensor, intact__safetensors_dtype_order(dtype)};
    if (items[i].order < 0) {
      status = intact__fail(context, INTACT_UNSUPPORTED_TYPE, path, __FILE__, __LINE__,
                            "tensor %s: safetensors has no type for %s; convert it to 8 bits", items[i].name,
                            intact_dtype_text(dtype));
    } else if (intact_tensor_count(tensor) * intact_dtype_bits(dtype) % 8 != 0) {
      status = intact__fail(context, INTACT_SIZE_MISMATCH, path, __FILE__, __LINE__,
                            "tensor %s of %s fills no whole number of bytes, as safetensors asks", items[i].name,
                            intact_dtype_text(dtype));
    } else if (strcmp(items[i].name, "__metadata__") == 0) {
      status = intact__fail(context, INTACT_INVALID_VALUE, path, __FILE__, __LINE__, "no tensor can be named __metadata__");
    }
  }
  if (status == INTACT_OK) {
    qsort(items, (size_t)n, sizeof *items, compare_items);
    status = write_items(context, path, items, n);
  }
  intact__free(context, items);
  return status;
}

const intact_format intact_format_safetensors = {
    .name = "safetensors",
    .extensions = ".safetensors",
    .doc = "tensors by name (Hugging Face)",
    .probe = probe,
    .read_tensors = read_tensors,
    .write_tensors = write_tensors,
};
