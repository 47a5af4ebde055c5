/* SPDX-License-Identifier: Apache-2.0 */
/* The .npz format: a zip archive of .npy arrays, tensors named as the entries without ".npy". */
#include <string.h>
#include <zip.h>

#include "base/text.h"
#include "io/formats.h"
#include "io/npy/npy_header.h"
#include "io/npy/npy_write.h"
#include "io/zip/zip_archive.h"

enum { HEADER_CHUNK = 4096, MAX_HEADER = 1 << 20 };

/* Whether the archive's first entry is an array: its name stands in the local header at the file's begin. */
static bool first_is_array(const uint8_t *head, size_t bytes) {
  if (bytes < 30) return false;
  const size_t length = (size_t)head[26] | (size_t)head[27] << 8;
  return length >= 4 && 30 + length <= bytes && memcmp(head + 30 + length - 4, ".npy", 4) == 0;
}

static int probe(const uint8_t *head, size_t head_bytes, size_t bytes, const char *path) {
  (void)bytes;
  const bool named = intact__has_extension(path, ".npz");
  if (intact__zip_magic(head, head_bytes) && (named || first_is_array(head, head_bytes))) return 2;
  return named ? 1 : 0;
}

/* Reads the header of entry `index`; `bytes` is the entry's size. */
static intact_status read_header(intact_context *context, const char *path, intact_zip *zip, int64_t index, uint64_t bytes,
                                 intact_npy_header *header) {
  const char *name = intact__zip_name(zip, index);
  size_t chunk = bytes < HEADER_CHUNK ? (size_t)bytes : HEADER_CHUNK;
  intact_status status = INTACT_OK;
  uint8_t *start = NULL;
  for (;;) {
    start = intact__alloc(context, chunk + 1, 1);
    if (!start) return intact__no_memory(context, chunk);
    status = intact__zip_read(zip, index, start, chunk);
    const size_t needed = status == INTACT_OK ? intact__npy_header_bytes(start, chunk) : 0;
    if (needed <= chunk || needed > bytes || needed > MAX_HEADER) break;
    intact__free(context, start);
    chunk = needed;
  }
  if (status == INTACT_OK) status = intact__npy_header_parse(context, path, name, start, chunk, header);
  intact__free(context, start);
  return status;
}

static intact_status read_entry(intact_context *context, const char *path, intact_zip *zip, int64_t index,
                                intact_tensor **tensor) {
  const char *name = intact__zip_name(zip, index);
  const uint64_t bytes = intact__zip_entry_bytes(zip, index);
  intact_npy_header header;
  char shape[160];
  INTACT_TRY(read_header(context, path, zip, index, bytes, &header));
  if (header.data_bytes != bytes - header.data_offset) {
    INTACT_FAIL(context, SIZE_MISMATCH, path, "%s: shape %s of %s needs %zu bytes, the entry has %zu behind its header",
                name, intact__shape_text(header.rank, header.dims, shape), intact_dtype_text(header.dtype),
                header.data_bytes, (size_t)bytes - header.data_offset);
  }
  uint8_t *all = intact__alloc(context, (size_t)bytes, 1);
  if (!all) return intact__no_memory(context, (size_t)bytes);
  intact_status status = intact__zip_read(zip, index, all, bytes);
  if (status == INTACT_OK) status = intact__npy_tensor(context, &header, all + header.data_offset, tensor);
  intact__free(context, all);
  return status;
}

static intact_status read_entries(intact_context *context, const char *path, intact_zip *zip, intact_tensor_set *set) {
  for (int64_t i = 0; i < intact__zip_count(zip); i++) {
    const char *entry = intact__zip_name(zip, i);
    const size_t length = strlen(entry);
    if (length < 4 || strcmp(entry + length - 4, ".npy") != 0) {
      INTACT_FAIL(context, INVALID_VALUE, path, "zip entry '%s' is no .npy array", entry);
    }
    intact_tensor *tensor;
    INTACT_TRY(read_entry(context, path, zip, i, &tensor));
    char *name = intact__strdup(context, entry);
    if (!name) {
      intact_tensor_destroy(tensor);
      return intact__no_memory(context, length);
    }
    name[length - 4] = 0;
    intact_status status = intact_tensor_set_add(set, name, tensor);
    intact__free(context, name);
    INTACT_TRY(status);
  }
  return INTACT_OK;
}

static intact_status read_tensors(intact_context *context, const char *path, intact_tensor_set **set) {
  intact_mapping *mapping;
  intact_zip *zip;
  intact_tensor_set *result;
  INTACT_TRY(intact_tensor_set_create(context, &result));
  intact_status status = intact__map_file(context, path, &mapping);
  if (status == INTACT_OK) {
    status = intact__zip_open(context, path, mapping, &zip);
    intact__mapping_release(mapping);
    if (status == INTACT_OK) {
      status = read_entries(context, path, zip, result);
      intact__zip_close(zip);
    }
  }
  if (status != INTACT_OK) {
    intact_tensor_set_destroy(result);
    return status;
  }
  *set = result;
  return INTACT_OK;
}

/* ---- writing: a stored archive without times, made in memory by libzip ---- */

static intact_status zip_failed(intact_context *context, const char *path, zip_error_t *error) {
  if (zip_error_code_zip(error) == ZIP_ER_MEMORY) return intact__no_memory(context, 0);
  INTACT_FAIL(context, IO, path, "can't make the zip archive: %s", zip_error_strerror(error));
}

static intact_status add_array(intact_context *context, const char *path, zip_t *archive, const char *name,
                               const intact_tensor *tensor, const intact_text *header) {
  union {
    const void *in;
    zip_uint8_t *out;
  } elements = {intact_tensor_data(tensor)};
  zip_buffer_fragment_t parts[2] = {{(zip_uint8_t *)header->data, header->length},
                                    {elements.out, intact_tensor_bytes(tensor)}};
  zip_error_t *error = zip_get_error(archive);
  zip_source_t *source = zip_source_buffer_fragment(archive, parts, parts[1].length ? 2 : 1, 0);
  if (!source) return zip_failed(context, path, error);
  intact_text entry;
  intact__text_init(&entry, context);
  intact__text_add(&entry, "%s.npy", name);
  intact_status status = entry.failed ? intact__no_memory(context, strlen(name)) : INTACT_OK;
  zip_int64_t index = -1;
  if (status == INTACT_OK) index = zip_file_add(archive, entry.data, source, ZIP_FL_ENC_UTF_8);
  intact__text_fini(&entry);
  if (index < 0) {
    zip_source_free(source);
    return status != INTACT_OK ? status : zip_failed(context, path, error);
  }
  const zip_uint16_t first_of_january_1980 = 1 << 5 | 1;
  if (zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, (zip_uint64_t)index, 0, first_of_january_1980, 0) != 0) {
    return zip_failed(context, path, error);
  }
  return INTACT_OK;
}

/* Copies the finished archive from memory to the file. */
static intact_status copy_out(intact_context *context, const char *path, zip_source_t *memory) {
  enum { CHUNK = 1 << 16 };
  intact_writer *writer;
  char *chunk = intact__alloc(context, CHUNK, 1);
  if (!chunk) return intact__no_memory(context, CHUNK);
  intact_status status = intact__writer_open(context, path, &writer);
  if (status == INTACT_OK && zip_source_open(memory) != 0) {
    intact__writer_abort(writer);
    status = zip_failed(context, path, zip_source_error(memory));
  } else if (status == INTACT_OK) {
    zip_int64_t got;
    while ((got = zip_source_read(memory, chunk, CHUNK)) > 0) fwrite(chunk, 1, (size_t)got, intact__writer_stream(writer));
    zip_source_close(memory);
    status = intact__writer_commit(writer);
  }
  intact__free(context, chunk);
  return status;
}

static intact_status write_archive(intact_context *context, const char *path, const intact_tensor_set *set,
                                   intact_text *headers) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *memory = zip_source_buffer_create(NULL, 0, 0, &error);
  zip_t *archive = memory ? zip_open_from_source(memory, ZIP_TRUNCATE, &error) : NULL;
  if (!archive) {
    if (memory) zip_source_free(memory);
    intact_status failed = zip_failed(context, path, &error);
    zip_error_fini(&error);
    return failed;
  }
  zip_error_fini(&error);
  zip_source_keep(memory);
  intact_status status = INTACT_OK;
  for (int i = 0; i < intact_tensor_set_count(set) && status == INTACT_OK; i++) {
    status = add_array(context, path, archive, intact_tensor_set_name(set, i), intact_tensor_set_get(set, i), &headers[i]);
  }
  if (status == INTACT_OK && zip_close(archive) != 0) {
    status = zip_failed(context, path, zip_get_error(archive));
    zip_discard(archive);
  } else if (status != INTACT_OK) {
    zip_discard(archive);
  }
  if (status == INTACT_OK) status = copy_out(context, path, memory);
  zip_source_free(memory);
  return status;
}

static intact_status write_tensors(intact_context *context, const char *path, const intact_tensor_set *set) {
  const int n = intact_tensor_set_count(set);
  intact_text *headers = intact__alloc_zeroed(context, (size_t)n + 1, sizeof *headers);
  if (!headers) return intact__no_memory(context, ((size_t)n + 1) * sizeof *headers);
  intact_status status = INTACT_OK;
  for (int i = 0; i < n; i++) intact__text_init(&headers[i], context);
  for (int i = 0; i < n && status == INTACT_OK; i++) {
    status =
        intact__npy_write_header(context, path, intact_tensor_set_name(set, i), intact_tensor_set_get(set, i), &headers[i]);
  }
  if (status == INTACT_OK && n == 0) {
    status = intact__fail(context, INTACT_WRONG_USE, path, __FILE__, __LINE__, "there is no tensor to write");
  }
  if (status == INTACT_OK) status = write_archive(context, path, set, headers);
  for (int i = 0; i < n; i++) intact__text_fini(&headers[i]);
  intact__free(context, headers);
  return status;
}

const intact_format intact_format_npz = {
    .name = "npz",
    .extensions = ".npz",
    .doc = "NumPy arrays by name in a zip archive",
    .probe = probe,
    .read_tensors = read_tensors,
    .write_tensors = write_tensors,
};
