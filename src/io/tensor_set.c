/* SPDX-License-Identifier: Apache-2.0 */
/* Named tensors in order. */
#include "base/text.h"
#include "intact/io.h"
#include "tensor/tensor.h"

typedef struct entry {
  char *name;
  intact_tensor *tensor;
} entry;

struct intact_tensor_set {
  intact_context *context;
  entry *entries;
  size_t count, capacity;
  intact_map index;
};

intact_status intact_tensor_set_create(intact_context *context, intact_tensor_set **set) {
  intact_tensor_set *made = intact__alloc_zeroed(context, 1, sizeof *made);
  if (made == NULL) return intact__no_memory(context, sizeof *made);
  made->context = context;
  intact__map_init(&made->index, context);
  *set = made;
  return INTACT_OK;
}

void intact_tensor_set_destroy(intact_tensor_set *set) {
  if (set == NULL) return;
  for (size_t i = 0; i < set->count; i++) {
    intact__free(set->context, set->entries[i].name);
    intact_tensor_destroy(set->entries[i].tensor);
  }
  intact__map_fini(&set->index);
  intact__free(set->context, set->entries);
  intact__free(set->context, set);
}

intact_status intact_tensor_set_add(intact_tensor_set *set, const char *name, intact_tensor *tensor) {
  intact_context *context = set->context;
  intact_status status = INTACT_OK;
  char *copy = NULL;
  void *grown = set->entries;
  int64_t there = 0;
  if (!intact__is_utf8(name)) {
    INTACT_FAIL_TO(fail, context, INVALID_VALUE, "", "the name of tensor %zu is no valid UTF-8", (size_t)set->count);
  }
  if (intact__map_get(&set->index, name, &there)) {
    INTACT_FAIL_TO(fail, context, DUPLICATE, name, "cannot add tensor '%s': the set holds one of that name already", name);
  }
  status = intact__reserve(context, &grown, &set->capacity, set->count + 1, sizeof *set->entries);
  set->entries = grown;
  if (status != INTACT_OK) goto fail;
  copy = intact__strdup(context, name);
  if (copy == NULL) {
    status = intact__no_memory(context, 1);
    goto fail;
  }
  INTACT_TRY_TO(fail, intact__map_set(&set->index, copy, (int64_t)set->count));
  set->entries[set->count++] = (entry){copy, tensor};
  return INTACT_OK;
fail:
  intact__free(context, copy);
  intact_tensor_destroy(tensor);
  return status;
}

int intact_tensor_set_count(const intact_tensor_set *set) {
  return (int)set->count;
}

const char *intact_tensor_set_name(const intact_tensor_set *set, int index) {
  return set->entries[index].name;
}

const intact_tensor *intact_tensor_set_get(const intact_tensor_set *set, int index) {
  return set->entries[index].tensor;
}

const intact_tensor *intact_tensor_set_find(const intact_tensor_set *set, const char *name) {
  int64_t index = 0;
  return intact__map_get(&set->index, name, &index) ? set->entries[index].tensor : NULL;
}
