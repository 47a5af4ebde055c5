/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer: over the files of the given folders, whole, cut short, and changed at random places
   with a fixed start. Arguments are names below the reference sets ("samples/npy") or paths. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "support/reference.h"

enum { MAX_BYTES = 1 << 20, CUTS = 64, CHANGES = 256 };

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static void feed(const uint8_t *data, size_t size) {
  /* a block of exactly this size, so that a sanitizer sees reads past the end */
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) exit(1);
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void feed_variants(uint8_t *data, size_t size) {
  uint64_t state = size;
  feed(data, size);
  for (size_t cut = 0; cut < CUTS && cut < size; cut++) {
    feed(data, cut);
    feed(data, size - 1 - cut);
  }
  for (int i = 0; i < CUTS && size > 0; i++) feed(data, next_random(&state) % size);
  for (int i = 0; i < CHANGES && size > 0; i++) {
    /* most changes where the headers are */
    const size_t limit = i % 4 && size > 256 ? 256 : size, at = next_random(&state) % limit;
    const uint8_t before = data[at];
    data[at] = i % 2 ? (uint8_t)next_random(&state) : (uint8_t)(before ^ 1u << next_random(&state) % 8);
    feed(data, size);
    data[at] = before;
  }
}

static int feed_file(const char *path) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = malloc(MAX_BYTES);
  if (!file || !data) {
    perror(path);
    exit(1);
  }
  const size_t size = fread(data, 1, MAX_BYTES, file);
  fclose(file);
  feed_variants(data, size);
  free(data);
  return 1;
}

static int feed_path(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) {
    perror(path);
    exit(1);
  }
  if (!S_ISDIR(info.st_mode)) return feed_file(path);
  struct dirent **names;
  const int n = scandir(path, &names, NULL, alphasort);
  int files = 0;
  for (int i = 0; i < n; i++) {
    char inner[4096];
    if (names[i]->d_name[0] != '.' && snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name) < (int)sizeof inner) {
      files += feed_path(inner);
    }
    free(names[i]);
  }
  free(names);
  return files;
}

int main(int argc, char **argv) {
  char path[4096];
  int files = 0;
  for (int i = 1; i < argc; i++)
    files += feed_path(argv[i][0] == '/' ? argv[i] : test_reference(argv[i], path, sizeof path));
  printf("%d files, whole, cut and changed\n", files);
  return files ? 0 : 1;
}
