/* SPDX-License-Identifier: Apache-2.0 */
/* Finds reference sets by their files: NAME.json + NAME.safetensors, expect.json, index.json. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "conformance/conformance.h"

static void *grow(void *array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return array;
  *capacity = need * 2 + 16;
  void *grown = realloc(array, *capacity * size);
  if (!grown) {
    fprintf(stderr, "conformance: no memory\n");
    exit(1);
  }
  return grown;
}

static char *format_text(const char *format, const char *a, const char *b) {
  const int length = snprintf(NULL, 0, format, a, b);
  char *text = malloc((size_t)length + 1);
  if (!text) {
    fprintf(stderr, "conformance: no memory\n");
    exit(1);
  }
  snprintf(text, (size_t)length + 1, format, a, b);
  return text;
}

static bool wanted(const char *only, const char *suite, const char *name) {
  if (!only) return true;
  char *full = format_text("%s/%s", suite, name), *patterns = format_text("%s%s", only, ""), *rest = patterns;
  bool match = false;
  while (rest && !match) {
    char *pattern = strsep(&rest, ",");
    match = intact__glob(pattern, full);
  }
  free(full);
  free(patterns);
  return match;
}

/* The case keeps `suite`, `name`, `op`: texts that live as long as the set, or are never freed. */
static void add_case(conf_list *list, conf_set *set, const char *only, const char *suite, const char *name, const char *op,
                     const json_t *json) {
  if (!wanted(only, suite, name)) return;
  list->cases = grow(list->cases, &list->cases_capacity, list->n_cases + 1, sizeof *list->cases);
  list->cases[list->n_cases++] = (conf_case){.suite = suite, .name = name, .op = op, .set = set, .json = json};
}

static conf_set *add_set(conf_list *list, const char *folder, const char *file, const char *tensors, json_t *root) {
  conf_set *set = calloc(1, sizeof *set);
  list->sets = grow(list->sets, &list->sets_capacity, list->n_sets + 1, sizeof(conf_set *));
  if (!set) exit(1);
  set->path = format_text("%s/%s", folder, file);
  set->folder = format_text("%s%s", folder, "");
  set->root = root;
  if (tensors) set->tensors_path = format_text("%s/%s", folder, tensors);
  if (set->tensors_path && access(set->tensors_path, R_OK) != 0) {
    free(set->tensors_path);
    set->tensors_path = NULL;
  }
  list->sets[list->n_sets++] = set;
  return set;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : otherwise;
}

static void add_cases(conf_list *list, conf_set *set, const char *only) {
  const char *suite = text_of(set->root, "suite", "?");
  size_t i;
  const json_t *json;
  json_array_foreach(json_object_get(set->root, "cases"), i, json) {
    add_case(list, set, only, suite, text_of(json, "name", "?"), text_of(json, "op", "?"), json);
  }
}

/* flows/MODEL/expect.json: a case per flow of each of the three kinds. */
static void add_flows(conf_list *list, conf_set *set, const char *only) {
  static const char *const kinds[][2] = {{"pt2e", "flows.pt2e"}, {"fx", "flows.fx"}, {"eager", "flows.eager"}};
  const char *model = text_of(set->root, "model", "?");
  for (int k = 0; k < 3; k++) {
    const char *flow;
    json_t *record;
    json_object_foreach(json_object_get(set->root, kinds[k][0]), flow, record) {
      char *name = format_text("%s.%s", model, flow);
      json_object_set_new(set->root, name, json_string(name)); /* the text lives with the set */
      add_case(list, set, only, kinds[k][1], text_of(set->root, name, "?"), flow, record);
      free(name);
    }
  }
}

/* samples/index.json and broken/index.json: a case per file; the op is the format. */
static void add_files(conf_list *list, conf_set *set, const char *only) {
  const char *suite = json_object_get(set->root, "kinds") ? "broken" : "samples";
  size_t i;
  const json_t *json;
  json_array_foreach(json_object_get(set->root, "files"), i, json) {
    add_case(list, set, only, suite, text_of(json, "file", "?"), text_of(json, "format", "?"), json);
  }
}

static json_t *load(const char *folder, const char *file) {
  json_error_t error;
  char *path = format_text("%s/%s", folder, file);
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) fprintf(stderr, "conformance: can't read %s: %s at line %d\n", path, error.text, error.line);
  free(path);
  return root;
}

static bool ends_in(const char *text, const char *end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool take_file(conf_list *list, const char *folder, const char *file, const char *only) {
  char stem[256];
  if (!ends_in(file, ".json") || strlen(file) >= sizeof stem) return true;
  snprintf(stem, sizeof stem, "%.*s", (int)(strlen(file) - 5), file);
  char *tensors = format_text("%s/%s.safetensors", folder, stem);
  const bool expect = strcmp(stem, "expect") == 0, index = strcmp(stem, "index") == 0;
  const bool pair = access(tensors, R_OK) == 0;
  free(tensors);
  if (!expect && !index && !pair) return true;
  json_t *root = load(folder, file);
  if (!root) return false;
  tensors = format_text("%s%s", stem, ".safetensors");
  if (json_is_array(json_object_get(root, "cases"))) {
    add_cases(list, add_set(list, folder, file, pair ? tensors : "tensors.safetensors", root), only);
  } else if (expect && json_object_get(root, "model")) {
    add_flows(list, add_set(list, folder, file, tensors, root), only);
  } else if (index && json_is_array(json_object_get(root, "files"))) {
    add_files(list, add_set(list, folder, file, NULL, root), only);
  } else {
    json_decref(root);
  }
  free(tensors);
  return true;
}

static bool known_folder(const conf_list *list, const char *folder) {
  for (size_t i = 0; i < list->n_sets; i++) {
    if (strcmp(list->sets[i]->folder, folder) == 0) return true;
  }
  return false;
}

static bool walk(const char *folder, const char *only, conf_list *list) {
  struct dirent **names;
  const int n = scandir(folder, &names, NULL, alphasort);
  if (n < 0) {
    perror(folder);
    return false;
  }
  const bool again = known_folder(list, folder);
  bool good = true;
  for (int i = 0; i < n; i++) {
    const char *name = names[i]->d_name;
    char *path = format_text("%s/%s", folder, name);
    struct stat info;
    if (name[0] == '.' || stat(path, &info) != 0) {
      good = good && name[0] == '.';
    } else if (S_ISDIR(info.st_mode)) {
      good = walk(path, only, list) && good;
    } else if (!again) {
      good = take_file(list, folder, name, only) && good;
    }
    free(path);
    free(names[i]);
  }
  free(names);
  return good;
}

bool conf_find(const char *folder, const char *only, conf_list *list) {
  char *real = realpath(folder, NULL);
  if (!real) {
    perror(folder);
    return false;
  }
  const bool good = walk(real, only, list);
  free(real);
  return good;
}

void conf_list_destroy(conf_list *list) {
  for (size_t i = 0; i < list->n_sets; i++) {
    json_decref(list->sets[i]->root);
    free(list->sets[i]->path);
    free(list->sets[i]->folder);
    free(list->sets[i]->tensors_path);
    free(list->sets[i]);
  }
  free(list->sets);
  free(list->cases);
}
