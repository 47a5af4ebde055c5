/* SPDX-License-Identifier: Apache-2.0 */
/* External data of ONNX tensors: the place is checked before anything is opened. */
#include "io/onnx/onnx_external.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct intact_onnx_external {
  const char *location;
  intact_mapping *mapping;
  intact_onnx_external *next;
};

typedef struct place {
  const char *location;
  int64_t offset, length; /* length -1: to be what the shape needs */
} place;

static bool leaves_folder(const char *location) {
  for (const char *part = location;; part++) {
    size_t length = strcspn(part, "/\\");
    if (length == 2 && part[0] == '.' && part[1] == '.') return true;
    part += length;
    if (*part == 0) return false;
  }
}

static bool is_absolute(const char *location) {
  bool drive = ((location[0] | 32) >= 'a' && (location[0] | 32) <= 'z') && location[1] == ':';
  return location[0] == '/' || location[0] == '\\' || drive;
}

static intact_status read_number(intact_onnx_file *file, const char *what, const char *key, const char *text,
                                 int64_t *value) {
  if (!intact__parse_int(text, value) || *value < 0) {
    INTACT_FAIL(file->context, INVALID_VALUE, what,
                "cannot read %s: the %s of its external data is '%s', a number >= 0 is needed", what, key, text);
  }
  return INTACT_OK;
}

static intact_status read_place(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what, place *p) {
  *p = (place){NULL, 0, -1};
  for (size_t i = 0; i < proto->n_external_data; i++) {
    const char *key = intact__onnx_text(proto->external_data[i]->key);
    const char *value = intact__onnx_text(proto->external_data[i]->value);
    if (strcmp(key, "location") == 0) p->location = value;
    if (strcmp(key, "offset") == 0) INTACT_TRY(read_number(file, what, key, value, &p->offset));
    if (strcmp(key, "length") == 0) INTACT_TRY(read_number(file, what, key, value, &p->length));
  }
  intact_context *context = file->context;
  if (p->location == NULL || p->location[0] == 0) {
    INTACT_FAIL(context, MISSING_FIELD, what, "cannot read %s: its data are external, but no location is given", what);
  }
  if (is_absolute(p->location)) {
    INTACT_FAIL(
        context, PATH_TRAVERSAL, what,
        "cannot read %s: the location '%s' of its external data is absolute; only files below the model's folder are opened",
        what, p->location);
  }
  if (leaves_folder(p->location)) {
    INTACT_FAIL(
        context, PATH_TRAVERSAL, what,
        "cannot read %s: the location '%s' of its external data leaves the model's folder; only files below it are opened",
        what, p->location);
  }
  return INTACT_OK;
}

static intact_status find_folder(intact_onnx_file *file) {
  if (file->folder != NULL) return INTACT_OK;
  char *real = realpath(file->path, NULL);
  if (real == NULL) {
    INTACT_FAIL(file->context, IO, file->path, "cannot read %s: its real path is not known: %s", file->path,
                strerror(errno));
  }
  char *slash = strrchr(real, '/');
  if (slash != NULL) slash[slash == real ? 1 : 0] = 0;
  file->folder = intact__arena_strdup(&file->arena, real);
  size_t bytes = strlen(real);
  free(real);
  return file->folder == NULL ? intact__no_memory(file->context, bytes) : INTACT_OK;
}

/* The real path of the location, which must lie below the folder also when links are followed. */
static intact_status real_place(intact_onnx_file *file, const char *location, const char *what, char **real) {
  INTACT_TRY(find_folder(file));
  const char *joined = intact__arena_format(&file->arena, "%s/%s", file->folder, location);
  if (joined == NULL) return intact__no_memory(file->context, strlen(location));
  char *found = realpath(joined, NULL);
  if (found == NULL) {
    INTACT_FAIL(file->context, MISSING_ENTRY, what,
                "cannot read %s: its external data file '%s' is not there (%s); keep it beside the model", what, location,
                strerror(errno));
  }
  size_t length = strlen(file->folder);
  bool inside = strncmp(found, file->folder, length) == 0 && (found[length] == '/' || file->folder[length - 1] == '/');
  if (!inside) {
    free(found);
    INTACT_FAIL(
        file->context, PATH_TRAVERSAL, what,
        "cannot read %s: its external data file '%s' is a link that leaves the model's folder; put the file itself there",
        what, location);
  }
  *real = found;
  return INTACT_OK;
}

static intact_status open_place(intact_onnx_file *file, const char *location, const char *what, intact_mapping **mapping) {
  for (const intact_onnx_external *e = file->external; e != NULL; e = e->next) {
    if (strcmp(e->location, location) == 0) {
      *mapping = e->mapping;
      return INTACT_OK;
    }
  }
  intact_onnx_external *added = intact__arena_alloc(&file->arena, 1, sizeof *added);
  if (added == NULL) return intact__no_memory(file->context, sizeof *added);
  char *real = NULL;
  INTACT_TRY(real_place(file, location, what, &real));
  intact_status status = intact__map_file(file->context, real, &added->mapping);
  free(real);
  if (status != INTACT_OK) return intact__fail_in(file->context, "cannot read %s", what);
  added->location = location;
  added->next = file->external;
  file->source_bytes += intact__mapping_bytes(added->mapping);
  file->external = added;
  *mapping = added->mapping;
  return INTACT_OK;
}

intact_status intact__onnx_external_bytes(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what,
                                          size_t need, intact_mapping **mapping, size_t *offset) {
  place p;
  INTACT_TRY(read_place(file, proto, what, &p));
  if (p.length >= 0 && (uint64_t)p.length != need) {
    INTACT_FAIL(file->context, SIZE_MISMATCH, what, "cannot read %s: its external data have %lld bytes, its dims need %zu",
                what, (long long)p.length, need);
  }
  intact_mapping *opened = NULL;
  INTACT_TRY(open_place(file, p.location, what, &opened));
  size_t bytes = intact__mapping_bytes(opened);
  if ((uint64_t)p.offset > bytes || need > bytes - (size_t)p.offset) {
    INTACT_FAIL(file->context, OUT_OF_RANGE, what, "cannot read %s: it needs %zu bytes from %lld on of '%s', which has %zu", what,
                need, (long long)p.offset, p.location, bytes);
  }
  *mapping = opened;
  *offset = (size_t)p.offset;
  return INTACT_OK;
}

void intact__onnx_close_external(intact_onnx_file *file) {
  for (intact_onnx_external *e = file->external; e != NULL; e = e->next) intact__mapping_release(e->mapping);
  file->external = NULL;
}
