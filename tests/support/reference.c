/* SPDX-License-Identifier: Apache-2.0 */
/* Where the reference sets are. */
#include "support/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool test_reference_find(const char *name, char *path, size_t size) {
  const char *const places[] = {getenv("INTACT_SHARED"), INTACT_SOURCE_DIR "/tests/data/reference",
                                INTACT_SOURCE_DIR "/../shared"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    if (!places[i]) continue;
    const int length = snprintf(path, size, "%s/%s", places[i], name);
    if (length > 0 && (size_t)length < size && access(path, R_OK) == 0) return true;
  }
  return false;
}

const char *test_reference(const char *name, char *path, size_t size) {
  if (test_reference_find(name, path, size)) return path;
  fprintf(stderr,
          "\n*** SKIPPED: no reference data '%s' in $INTACT_SHARED, tests/data/reference or ../shared.\n"
          "*** Nothing was compared. tools/refresh_reference.py copies the sets.\n\n",
          name);
  exit(77);
}
