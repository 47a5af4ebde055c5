/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of formats: the rows of formats.def as an array, found by name or extension. */
#include "io/formats.h"

#include <string.h>
#include <strings.h>

const intact_format *const intact__formats[] = {
#define INTACT_FORMAT_RUNTIME(name) &intact_format_##name,
#ifdef INTACT_FULL
#define INTACT_FORMAT(name) &intact_format_##name,
#else
#define INTACT_FORMAT(name)
#endif
#include "io/formats.def"
#undef INTACT_FORMAT
#undef INTACT_FORMAT_RUNTIME
    NULL};

const int intact__n_formats = INTACT_COUNT_OF(intact__formats) - 1;

const intact_format *intact__find_format(const char *name) {
  for (int i = 0; i < intact__n_formats; i++) {
    if (strcmp(intact__formats[i]->name, name) == 0) return intact__formats[i];
  }
  return NULL;
}

bool intact__has_extension(const char *path, const char *extensions) {
  size_t path_length = strlen(path);
  while (*extensions != 0) {
    size_t length = strcspn(extensions, ",");
    if (length > 0 && path_length > length && strncasecmp(path + path_length - length, extensions, length) == 0) return true;
    extensions += length + (extensions[length] == ',');
  }
  return false;
}
