/* SPDX-License-Identifier: Apache-2.0 */
/* The .intact format: a graph's text and its tensors, which are mapped and not copied.

   All numbers are little endian. 64 bytes of head:
      0  magic "\x89intact\n"          8  u32 version, u32 zero
     16  u64 offset, 24 u64 length of the text (graph/text_form.h)
     32  u64 number of tensors         40  u64 offset of the table: u64 offset, u64 bytes for each tensor
     48  u64 size of the file          56  u64 FNV-1a of the head before it, the text and the table
   Tensors begin at multiples of 64 behind the table, in the order in which the text first refers to them. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "graph/text_form.h"
#include "io/formats.h"

enum { VERSION = 1, HEAD = 64, ENTRY = 16, ALIGNMENT = 64 };
static const char magic[] = "\x89intact\n";
enum { MAGIC = sizeof magic - 1 };

typedef struct entry {
  uint64_t offset, bytes;
} entry;

static uint64_t load(const uint8_t *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static void store(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t hash(uint64_t state, const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) state = (state ^ bytes[i]) * UINT64_C(1099511628211);
  return state;
}

static uint64_t checksum(const uint8_t *head, const uint8_t *text, size_t text_bytes, const uint8_t *table, size_t table_bytes) {
  const uint64_t state = hash(hash(UINT64_C(14695981039346656037), head, HEAD - 8), text, text_bytes);
  return hash(state, table, table_bytes);
}

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  (void)bytes;
  if (head_bytes >= MAGIC && memcmp(head, magic, MAGIC) == 0) return 2;
  return intact__has_extension(path, ".intact") ? 1 : 0;
}

/* ---- reading ---- */
typedef struct reader {
  intact_context *context;
  const char *path;
  intact_mapping *mapping;
  const uint8_t *data;
  uint64_t size, n_tensors;
  const uint8_t *text, *table;
  size_t text_bytes;
} reader;

static bool little_endian(void) {
  const uint16_t one = 1;
  uint8_t first;
  memcpy(&first, &one, 1);
  return first == 1;
}

/* offset .. offset + bytes lies behind the head and within the file. */
static bool inside(const reader *r, uint64_t offset, uint64_t bytes) {
  return offset >= HEAD && offset <= r->size && bytes <= r->size - offset;
}

static intact_status read_head(reader *r) {
  const uint8_t *head = r->data;
  if (r->size == 0) INTACT_FAIL(r->context, TRUNCATED, r->path, "%s is empty", r->path);
  if (r->size < MAGIC || memcmp(head, magic, MAGIC) != 0)
    INTACT_FAIL(r->context, BAD_MAGIC, r->path, "%s is no .intact file: it does not begin with the magic bytes", r->path);
  if (r->size < HEAD)
    INTACT_FAIL(r->context, TRUNCATED, r->path, "%s ends in its head: %llu of %d bytes", r->path, (unsigned long long)r->size, HEAD);
  if (load(head + 8, 4) != VERSION)
    INTACT_FAIL(r->context, UNSUPPORTED_VERSION, r->path, "%s has version %llu: this library reads version %d", r->path,
                (unsigned long long)load(head + 8, 4), VERSION);
  if (!little_endian())
    INTACT_FAIL(r->context, UNSUPPORTED_TYPE, r->path, "%s can't be mapped: this machine is not little endian", r->path);
  const uint64_t stated = load(head + 48, 8);
  if (stated != r->size)
    return intact__fail(r->context, r->size < stated ? INTACT_TRUNCATED : INTACT_SIZE_MISMATCH, r->path, __FILE__, __LINE__,
                        "%s has %llu bytes, its head says %llu: the file is not whole", r->path, (unsigned long long)r->size,
                        (unsigned long long)stated);
  const uint64_t text = load(head + 16, 8), text_bytes = load(head + 24, 8), table = load(head + 40, 8);
  r->n_tensors = load(head + 32, 8);
  if (!inside(r, text, text_bytes))
    INTACT_FAIL(r->context, OUT_OF_RANGE, r->path, "%s: the text, %llu bytes at %llu, reaches beyond the file", r->path,
                (unsigned long long)text_bytes, (unsigned long long)text);
  if (r->n_tensors > r->size / ENTRY || !inside(r, table, r->n_tensors * ENTRY))
    INTACT_FAIL(r->context, OUT_OF_RANGE, r->path, "%s: the table of %llu tensors at %llu reaches beyond the file", r->path,
                (unsigned long long)r->n_tensors, (unsigned long long)table);
  r->text = r->data + text;
  r->text_bytes = (size_t)text_bytes;
  r->table = r->data + table;
  const uint64_t found = checksum(head, r->text, r->text_bytes, r->table, (size_t)r->n_tensors * ENTRY);
  if (found != load(head + 56, 8))
    INTACT_FAIL(r->context, CHECKSUM, r->path, "%s is damaged: the checksum of its text and table is %016llx, it should be %016llx",
                r->path, (unsigned long long)found, (unsigned long long)load(head + 56, 8));
  for (uint64_t i = 0; i < r->n_tensors; i++) {
    const uint64_t offset = load(r->table + i * ENTRY, 8), bytes = load(r->table + i * ENTRY + 8, 8);
    if (!inside(r, offset, bytes) || offset % ALIGNMENT != 0)
      INTACT_FAIL(r->context, OUT_OF_RANGE, r->path,
                  "%s: tensor %llu, %llu bytes at %llu, must lie within the file at a multiple of %d", r->path, (unsigned long long)i,
                  (unsigned long long)bytes, (unsigned long long)offset, ALIGNMENT);
  }
  return INTACT_OK;
}

static intact_status get_tensor(void *user, int64_t index, intact_dtype dtype, int rank, const int64_t *dims,
                                intact_tensor **tensor) {
  const reader *r = user;
  char shape[200];
  int64_t count;
  size_t bytes;
  if (index < 0 || (uint64_t)index >= r->n_tensors)
    INTACT_FAIL(r->context, BAD_REFERENCE, r->path, "%s: its graph refers to tensor %lld of %llu", r->path, (long long)index,
                (unsigned long long)r->n_tensors);
  const uint8_t *at = r->table + (size_t)index * ENTRY;
  if (!intact__shape_bytes(dtype, rank, dims, &count, &bytes) || bytes != load(at + 8, 8))
    INTACT_FAIL(r->context, SIZE_MISMATCH, r->path, "%s: tensor %lld has %llu bytes, which is not %s%s", r->path, (long long)index,
                (unsigned long long)load(at + 8, 8), intact_dtype_text(dtype), intact__shape_text(rank, dims, shape));
  return intact__tensor_map(r->context, dtype, rank, dims, r->mapping, (size_t)load(at, 8), tensor);
}

static intact_status import_graph(intact_context *context, const char *path, intact_graph **graph) {
  reader r = {.context = context, .path = path};
  INTACT_TRY(intact__map_file(context, path, &r.mapping));
  r.data = intact__mapping_data(r.mapping);
  r.size = intact__mapping_bytes(r.mapping);
  intact_status status = read_head(&r);
  if (status == INTACT_OK) {
    const intact_side_table side = {.user = &r, .bytes = (size_t)r.size, .get = get_tensor};
    status = intact__graph_read_text(context, (const char *)r.text, r.text_bytes, &side, graph);
    if (status != INTACT_OK) intact__fail_in(context, "%s", path);
  }
  intact__mapping_release(r.mapping);
  return status;
}

/* ---- writing ---- */
typedef struct writer {
  intact_context *context;
  const void **data; /* of each tensor, in the graph */
  entry *entries;
  size_t n, data_capacity, entries_capacity;
  intact_arena arena;
  intact_map known; /* hash and size -> index */
  uint64_t end; /* of the tensors, counted from their start */
} writer;

/* Tensors of equal bytes are stored once. */
static intact_status put_tensor(void *user, const intact_tensor *tensor, int64_t *index) {
  writer *w = user;
  const size_t bytes = intact_tensor_bytes(tensor);
  const uint64_t code = hash(UINT64_C(14695981039346656037), tensor->data, bytes);
  char *key = intact__arena_format(&w->arena, "%016llx %zu", (unsigned long long)code, bytes);
  if (key == NULL) return intact__no_memory(w->context, 64);
  if (intact__map_get(&w->known, key, index) && (bytes == 0 || memcmp(w->data[*index], tensor->data, bytes) == 0)) return INTACT_OK;
  void *data = w->data, *entries = w->entries;
  INTACT_TRY(intact__reserve(w->context, &data, &w->data_capacity, w->n + 1, sizeof *w->data));
  w->data = data;
  INTACT_TRY(intact__reserve(w->context, &entries, &w->entries_capacity, w->n + 1, sizeof *w->entries));
  w->entries = entries;
  INTACT_TRY(intact__map_set(&w->known, key, (int64_t)w->n));
  w->data[w->n] = tensor->data;
  w->entries[w->n] = (entry){.offset = w->end, .bytes = bytes};
  w->end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  *index = (int64_t)w->n++;
  return INTACT_OK;
}

static intact_status write_bytes(writer *w, const char *path, FILE *stream, const void *data, size_t bytes) {
  if (bytes == 0 || fwrite(data, 1, bytes, stream) == bytes) return INTACT_OK;
  INTACT_FAIL(w->context, IO, path, "can't write %s: the disk may be full", path);
}

static intact_status write_zeros(writer *w, const char *path, FILE *stream, uint64_t at) {
  static const uint8_t zeros[ALIGNMENT];
  return write_bytes(w, path, stream, zeros, (size_t)((ALIGNMENT - at % ALIGNMENT) % ALIGNMENT));
}

static intact_status write_parts(writer *w, const char *path, FILE *stream, const intact_text *text) {
  const uint64_t table = (HEAD + text->length + 7) / 8 * 8;
  const uint64_t tensors = (table + w->n * ENTRY + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  uint8_t head[HEAD] = {0};
  uint8_t *entries = intact__arena_alloc(&w->arena, w->n * ENTRY, 1);
  if (entries == NULL) return intact__no_memory(w->context, w->n * ENTRY);
  for (size_t i = 0; i < w->n; i++) {
    store(entries + i * ENTRY, tensors + w->entries[i].offset, 8);
    store(entries + i * ENTRY + 8, w->entries[i].bytes, 8);
  }
  memcpy(head, magic, MAGIC);
  store(head + 8, VERSION, 4);
  store(head + 16, HEAD, 8);
  store(head + 24, text->length, 8);
  store(head + 32, w->n, 8);
  store(head + 40, table, 8);
  store(head + 48, tensors + w->end, 8);
  store(head + 56, checksum(head, (const uint8_t *)text->data, text->length, entries, w->n * ENTRY), 8);
  static const uint8_t zeros[8];
  INTACT_TRY(write_bytes(w, path, stream, head, HEAD));
  INTACT_TRY(write_bytes(w, path, stream, text->data, text->length));
  INTACT_TRY(write_bytes(w, path, stream, zeros, (size_t)(table - HEAD - text->length)));
  INTACT_TRY(write_bytes(w, path, stream, entries, w->n * ENTRY));
  INTACT_TRY(write_zeros(w, path, stream, table + w->n * ENTRY));
  for (size_t i = 0; i < w->n; i++) {
    INTACT_TRY(write_bytes(w, path, stream, w->data[i], (size_t)w->entries[i].bytes));
    INTACT_TRY(write_zeros(w, path, stream, w->entries[i].bytes));
  }
  return INTACT_OK;
}

static intact_status write_file(writer *w, const char *path, const intact_text *text) {
  intact_writer *file = NULL;
  INTACT_TRY(intact__writer_open(w->context, path, &file));
  const intact_status status = write_parts(w, path, intact__writer_stream(file), text);
  if (status == INTACT_OK) return intact__writer_commit(file);
  intact__writer_abort(file);
  return status;
}

static intact_status export_graph(const intact_graph *graph, const char *path, const char *style) {
  intact_context *context = graph->context;
  if (style != NULL && style[0] != 0)
    INTACT_FAIL(context, WRONG_USE, path, "style %s: .intact files have no styles", style);
  if (graph->stage == INTACT_STAGE_OBSERVED)
    INTACT_FAIL(context, WRONG_USE, path, "a graph of stage observed is not written as .intact, its statistics would be lost: convert it first");
  if (!little_endian()) INTACT_FAIL(context, UNSUPPORTED_TYPE, path, ".intact files are written on little-endian machines only");
  INTACT_TRY(intact_graph_verify(graph));
  writer w = {.context = context};
  intact_text text;
  intact__text_init(&text, context);
  intact__arena_init(&w.arena, context);
  intact__map_init(&w.known, context);
  const intact_side_table side = {.user = &w, .put = put_tensor};
  intact_status status = intact__graph_write_text(graph, &side, &text);
  if (status == INTACT_OK) status = write_file(&w, path, &text);
  intact__free(context, w.data);
  intact__free(context, w.entries);
  intact__map_fini(&w.known);
  intact__arena_fini(&w.arena);
  intact__text_fini(&text);
  return status;
}

const intact_format intact_format_intact_file = {
    .name = "intact",
    .extensions = ".intact",
    .doc = "intact's own file: a graph of stage float, qdq or integer as text, its tensors mapped and not copied",
    .runtime = true,
    .probe = probe,
    .import_graph = import_graph,
    .export_graph = export_graph,
};
