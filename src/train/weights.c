/* SPDX-License-Identifier: Apache-2.0 */
/* A state dict into the constants of a network, by name. */
#include <string.h>

#include "graph/graph.h"
#include "intact/io.h"
#include "intact/train.h"

static bool is_counter(const char *name) {
  static const char end[] = "num_batches_tracked";
  const size_t n = strlen(name), m = sizeof end - 1;
  return n >= m && strcmp(name + n - m, end) == 0;
}

static intact_status check(const intact_graph *graph, const char *path, const intact_tensor_set *set) {
  char have[160], want[160];
  for (int i = 0; i < intact_tensor_set_count(set); i++) {
    const char *name = intact_tensor_set_name(set, i);
    const intact_tensor *tensor = intact_tensor_set_get(set, i);
    if (is_counter(name)) continue;
    const intact_value *value = intact__graph_find_value(graph, name);
    if (!value || !value->constant) {
      INTACT_FAIL(graph->context, BAD_REFERENCE, name, "'%s' holds '%s', which network %s does not have; are these its weights?",
                  path, name, graph->name);
    }
    if (tensor->dtype != value->dtype || !intact__shape_equal(tensor->rank, tensor->dims, value->rank, value->dims)) {
      INTACT_FAIL(graph->context, SIZE_MISMATCH, name, "'%s' of '%s' is %s %s; the network's is %s %s", name, path,
                  intact_dtype_text(tensor->dtype), intact__shape_text(tensor->rank, tensor->dims, have),
                  intact_dtype_text(value->dtype), intact__shape_text(value->rank, value->dims, want));
    }
  }
  for (size_t i = 0; i < graph->n_values; i++) {
    const intact_value *value = graph->values[i];
    if (!value || !value->constant || intact_tensor_set_find(set, value->name)) continue;
    INTACT_FAIL(graph->context, MISSING_ENTRY, value->name, "'%s' has no '%s', which network %s needs", path, value->name,
                graph->name);
  }
  return INTACT_OK;
}

intact_status intact_weights_load(intact_graph *graph, const char *path) {
  intact_tensor_set *set;
  INTACT_TRY(intact_tensors_read(graph->context, path, &set));
  const intact_status status = check(graph, path, set);
  for (int i = 0; status == INTACT_OK && i < intact_tensor_set_count(set); i++) {
    if (is_counter(intact_tensor_set_name(set, i))) continue;
    intact_value *value = intact__graph_find_value(graph, intact_tensor_set_name(set, i));
    memcpy(intact_tensor_mutable_data(value->constant), intact_tensor_set_get(set, i)->data, intact_tensor_bytes(value->constant));
  }
  intact_tensor_set_destroy(set);
  return status;
}
