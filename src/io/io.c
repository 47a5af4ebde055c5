/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing by format: the row is found by content for reading, by extension for writing. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "io/formats.h"

enum { PROBE_HEAD = 4096 };

typedef enum use { USE_IMPORT, USE_EXPORT, USE_READ_TENSORS, USE_WRITE_TENSORS, USE_ANY } use;

static bool offers(const intact_format *format, use what) {
  switch (what) {
    case USE_IMPORT:
      return format->import_graph != NULL;
    case USE_EXPORT:
      return format->export_graph != NULL;
    case USE_READ_TENSORS:
      return format->read_tensors != NULL;
    case USE_WRITE_TENSORS:
      return format->write_tensors != NULL;
    case USE_ANY:
      break;
  }
  return true;
}

/* "onnx (.onnx), npy (.npy,.npz)" of the formats that offer `what`; release with intact__free. */
static char *list_formats(intact_context *context, use what) {
  intact_text text;
  intact__text_init(&text, context);
  const char *separator = "";
  for (int i = 0; i < intact__n_formats; i++) {
    const intact_format *format = intact__formats[i];
    if (!offers(format, what)) continue;
    intact__text_add(&text, "%s%s", separator, format->name);
    if (format->extensions[0] != 0) intact__text_add(&text, " (%s)", format->extensions);
    separator = ", ";
  }
  char *list = intact__text_take(&text);
  intact__text_fini(&text);
  return list;
}

static intact_status fail_unknown(intact_context *context, const char *path, use what, size_t bytes) {
  char *list = list_formats(context, what);
  intact_status status;
  if (what == USE_EXPORT || what == USE_WRITE_TENSORS) {
    status = intact__fail(context, INTACT_WRONG_USE, path, __FILE__, __LINE__,
                          "cannot write %s: its extension names no format that is written; use one of: %s", path,
                          list == NULL ? "" : list);
  } else if (bytes == 0) {
    status = intact__fail(context, INTACT_TRUNCATED, path, __FILE__, __LINE__, "cannot read %s: the file is empty", path);
  } else {
    status = intact__fail(context, INTACT_BAD_MAGIC, path, __FILE__, __LINE__,
                          "cannot read %s: its content (%zu bytes) is of no known format; known: %s", path, bytes,
                          list == NULL ? "" : list);
  }
  intact__free(context, list);
  return status;
}

/* The row whose probe is surest of the file's content. */
static intact_status find_by_content(intact_context *context, const char *path, use what, const intact_format **found) {
  intact_mapping *mapping = NULL;
  INTACT_TRY(intact__map_file(context, path, &mapping));
  size_t bytes = intact__mapping_bytes(mapping);
  const intact_format *best = NULL;
  int best_score = 0;
  for (int i = 0; i < intact__n_formats; i++) {
    const intact_format *format = intact__formats[i];
    static const uint8_t nothing[1];
    const uint8_t *head = bytes > 0 ? intact__mapping_data(mapping) : nothing;
    int score = format->probe(head, bytes < PROBE_HEAD ? bytes : PROBE_HEAD, bytes, path);
    if (score > best_score) {
      best = format;
      best_score = score;
    }
  }
  intact__mapping_release(mapping);
  if (best == NULL) return fail_unknown(context, path, what, bytes);
  *found = best;
  return INTACT_OK;
}

static const intact_format *find_by_extension(const char *path, use what) {
  for (int i = 0; i < intact__n_formats; i++) {
    const intact_format *format = intact__formats[i];
    if (offers(format, what) && intact__has_extension(path, format->extensions)) return format;
  }
  return NULL;
}

intact_status intact_file_format(intact_context *context, const char *path, const char **name) {
  const intact_format *format = NULL;
  INTACT_TRY(find_by_content(context, path, USE_ANY, &format));
  *name = format->name;
  return INTACT_OK;
}

/* A message says which file it is about, whichever reader made it. */
static intact_status name_file(intact_context *context, const char *path, intact_status status) {
  const bool named = status == INTACT_OK || strstr(intact_context_message(context), path) != NULL;
  return named ? status : intact__fail_in(context, "cannot read %s", path);
}

intact_status intact_model_read(intact_context *context, const char *path, intact_graph **graph) {
  const intact_format *format = NULL;
  INTACT_TRY(find_by_content(context, path, USE_IMPORT, &format));
  if (format->import_graph == NULL) {
    char *list = list_formats(context, USE_IMPORT);
    intact_status status = intact__fail(context, INTACT_WRONG_USE, path, __FILE__, __LINE__,
                                        "cannot read %s as a model: it is of format %s; models are read from: %s", path,
                                        format->name, list == NULL ? "" : list);
    intact__free(context, list);
    return status;
  }
  return name_file(context, path, format->import_graph(context, path, graph));
}

intact_status intact_model_write(const intact_graph *graph, const char *path, const char *style) {
  const intact_format *format = find_by_extension(path, USE_EXPORT);
  if (format == NULL) return fail_unknown(graph->context, path, USE_EXPORT, 0);
  return format->export_graph(graph, path, style);
}

intact_status intact_tensors_read(intact_context *context, const char *path, intact_tensor_set **set) {
  const intact_format *format = NULL;
  INTACT_TRY(find_by_content(context, path, USE_READ_TENSORS, &format));
  if (format->read_tensors == NULL) {
    char *list = list_formats(context, USE_READ_TENSORS);
    intact_status status = intact__fail(context, INTACT_WRONG_USE, path, __FILE__, __LINE__,
                                        "cannot read tensors from %s: it is of format %s; tensors are read from: %s", path,
                                        format->name, list == NULL ? "" : list);
    intact__free(context, list);
    return status;
  }
  return name_file(context, path, format->read_tensors(context, path, set));
}

intact_status intact_tensors_write(intact_context *context, const char *path, const intact_tensor_set *set) {
  const intact_format *format = find_by_extension(path, USE_WRITE_TENSORS);
  if (format == NULL) return fail_unknown(context, path, USE_WRITE_TENSORS, 0);
  return format->write_tensors(context, path, set);
}
