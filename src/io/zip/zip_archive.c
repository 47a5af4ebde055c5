/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives through libzip, with the checks that libzip leaves to its user. */
#include "io/zip/zip_archive.h"

#include <inttypes.h>
#include <string.h>
#include <zip.h>

#include "base/text.h"

/* Deflate shrinks to no less than 1/1032 of the size. */
enum { DEFLATE_RATIO = 1032 };

struct intact_zip {
  intact_context *context;
  intact_mapping *mapping;
  char *path;
  zip_t *archive;
  intact_map names;
};

bool intact__zip_magic(const uint8_t *data, size_t bytes) {
  return bytes >= 4 && data[0] == 'P' && data[1] == 'K' &&
         ((data[2] == 3 && data[3] == 4) || (data[2] == 5 && data[3] == 6));
}

void intact__zip_close(intact_zip *zip) {
  if (!zip) return;
  if (zip->archive) zip_discard(zip->archive);
  intact__map_fini(&zip->names);
  intact__mapping_release(zip->mapping);
  intact__free(zip->context, zip->path);
  intact__free(zip->context, zip);
}

/* A name that would be written outside of the folder that the archive is unpacked to. */
static bool leaves_archive(const char *name) {
  if (name[0] == '/' || name[0] == '\\' || (name[0] && name[1] == ':')) return true;
  for (const char *at = name; *at;) {
    const size_t length = strcspn(at, "/\\");
    if (length == 2 && at[0] == '.' && at[1] == '.') return true;
    at += length + (at[length] != 0);
  }
  return false;
}

static intact_status check_entries(intact_zip *zip) {
  const int64_t n = zip_get_num_entries(zip->archive, 0);
  for (int64_t i = 0; i < n; i++) {
    zip_stat_t entry;
    int64_t before;
    zip_stat_init(&entry);
    if (zip_stat_index(zip->archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW, &entry) != 0 || !(entry.valid & ZIP_STAT_NAME) ||
        !(entry.valid & ZIP_STAT_SIZE) || !(entry.valid & ZIP_STAT_COMP_SIZE)) {
      INTACT_FAIL(zip->context, SYNTAX, zip->path, "entry %" PRId64 " of the zip archive can't be read", i);
    }
    if (leaves_archive(entry.name)) {
      INTACT_FAIL(zip->context, PATH_TRAVERSAL, zip->path, "zip entry '%s' leaves the archive", entry.name);
    }
    if (intact__map_get(&zip->names, entry.name, &before)) {
      INTACT_FAIL(zip->context, DUPLICATE, zip->path, "two zip entries are named '%s'", entry.name);
    }
    if (entry.size / DEFLATE_RATIO > entry.comp_size) {
      INTACT_FAIL(zip->context, SIZE_MISMATCH, zip->path,
                  "zip entry '%s' promises %" PRIu64 " bytes, %" PRIu64 " compressed bytes can't hold them", entry.name,
                  (uint64_t)entry.size, (uint64_t)entry.comp_size);
    }
    INTACT_TRY(intact__map_set(&zip->names, entry.name, i));
  }
  return INTACT_OK;
}

static intact_status open_archive(intact_zip *zip) {
  const uint8_t *data = intact__mapping_data(zip->mapping);
  const size_t bytes = intact__mapping_bytes(zip->mapping);
  if (bytes == 0) INTACT_FAIL(zip->context, TRUNCATED, zip->path, "the file is empty");
  if (!intact__zip_magic(data, bytes)) INTACT_FAIL(zip->context, BAD_MAGIC, zip->path, "the file is no zip archive");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source = zip_source_buffer_create(data, bytes, 0, &error);
  if (source) zip->archive = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (zip->archive) {
    zip_error_fini(&error);
    return check_entries(zip);
  }
  if (source) zip_source_free(source);
  const int code = zip_error_code_zip(&error);
  intact_status status;
  if (code == ZIP_ER_MEMORY) {
    status = intact__no_memory(zip->context, bytes);
  } else if (code == ZIP_ER_NOZIP) {
    status = intact__fail(zip->context, INTACT_TRUNCATED, zip->path, __FILE__, __LINE__,
                          "zip: end of central directory not found; the file is not whole");
  } else {
    status = intact__fail(zip->context, INTACT_SYNTAX, zip->path, __FILE__, __LINE__, "the zip archive can't be read: %s",
                          zip_error_strerror(&error));
  }
  zip_error_fini(&error);
  return status;
}

intact_status intact__zip_open(intact_context *context, const char *path, intact_mapping *mapping, intact_zip **zip) {
  intact_zip *z = intact__alloc_zeroed(context, 1, sizeof *z);
  if (!z) return intact__no_memory(context, sizeof *z);
  z->context = context;
  z->mapping = intact__mapping_retain(mapping);
  intact__map_init(&z->names, context);
  z->path = intact__strdup(context, path);
  intact_status status = z->path ? open_archive(z) : intact__no_memory(context, strlen(path));
  if (status != INTACT_OK) {
    intact__zip_close(z);
    return status;
  }
  *zip = z;
  return INTACT_OK;
}

int64_t intact__zip_count(const intact_zip *zip) {
  return zip_get_num_entries(zip->archive, 0);
}

const char *intact__zip_name(const intact_zip *zip, int64_t index) {
  return zip_get_name(zip->archive, (zip_uint64_t)index, ZIP_FL_ENC_RAW);
}

int64_t intact__zip_find(const intact_zip *zip, const char *name) {
  int64_t index;
  return intact__map_get(&zip->names, name, &index) ? index : -1;
}

uint64_t intact__zip_entry_bytes(const intact_zip *zip, int64_t index) {
  zip_stat_t entry;
  zip_stat_init(&entry);
  return zip_stat_index(zip->archive, (zip_uint64_t)index, 0, &entry) == 0 ? entry.size : 0;
}

intact_status intact__zip_read(intact_zip *zip, int64_t index, void *out, uint64_t limit) {
  const char *name = intact__zip_name(zip, index);
  const uint64_t size = intact__zip_entry_bytes(zip, index), wanted = size < limit ? size : limit;
  zip_file_t *file = zip_fopen_index(zip->archive, (zip_uint64_t)index, 0);
  if (!file) {
    INTACT_FAIL(zip->context, SYNTAX, zip->path, "zip entry '%s' can't be opened: %s", name, zip_strerror(zip->archive));
  }
  uint64_t done = 0;
  zip_int64_t got = 1;
  while (done < wanted && got > 0) {
    got = zip_fread(file, (uint8_t *)out + done, wanted - done);
    if (got > 0) done += (uint64_t)got;
  }
  char more;
  if (got >= 0 && wanted == size && done == size) got = zip_fread(file, &more, 1); /* compares the checksum */
  intact_status status = INTACT_OK;
  if (got < 0) {
    const int code = zip_error_code_zip(zip_file_get_error(file));
    status = intact__fail(zip->context, code == ZIP_ER_EOF ? INTACT_TRUNCATED : INTACT_CHECKSUM, zip->path, __FILE__,
                          __LINE__, "zip entry '%s' is corrupt: %s", name, zip_file_strerror(file));
  } else if (done < wanted || (got > 0 && wanted == size)) {
    status = intact__fail(zip->context, INTACT_SIZE_MISMATCH, zip->path, __FILE__, __LINE__,
                          "zip entry '%s' does not have the %" PRIu64 " bytes that the directory promises", name, size);
  }
  zip_fclose(file);
  return status;
}
