/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all replicas hold the same network, bit for bit: by construction they do, unless processes read other files, or are other builds. */
#include <zlib.h>

#include "base/comm.h"
#include "train/trainer.h"

static uint32_t digest(const intact_tensor *tensor) { return (uint32_t)crc32_z(0, tensor->data, intact_tensor_bytes(tensor)); }

/* sums: [ranks][n] after the exchange. */
static intact_status compare(const intact_trainer *t, const intact_tensor_set *set, const uint32_t *sums) {
  const int n = intact_tensor_set_count(set);
  for (int rank = 1; rank < t->ranks; rank++)
    for (int i = 0; i < n; i++)
      if (sums[rank * n + i] != sums[i])
        INTACT_FAIL(t->context, INTERNAL, intact_tensor_set_name(set, i),
                    "step %lld: '%s' of replica %d is not that of replica 0; all processes need the same data, options and build",
                    (long long)t->step, intact_tensor_set_name(set, i), rank);
  return INTACT_OK;
}

static intact_status exchange(const intact_trainer *t, const intact_tensor_set *set) {
  const size_t n = (size_t)intact_tensor_set_count(set);
  uint32_t *mine = intact__alloc(t->context, n * ((size_t)t->ranks + 1) + 1, sizeof *mine), *all = mine + n;
  if (!mine) return intact__no_memory(t->context, n * (size_t)t->ranks * sizeof *mine);
  for (size_t i = 0; i < n; i++) mine[i] = digest(intact_tensor_set_get(set, (int)i));
  intact_status status = intact__comm_gather(t->context, mine, n * sizeof *mine, all);
  if (status == INTACT_OK) status = compare(t, set, all);
  intact__free(t->context, mine);
  return status;
}

intact_status intact__train_check_agreement(const intact_trainer *t) {
  intact_tensor_set *set;
  if (t->ranks < 2) return INTACT_OK;
  INTACT_TRY(intact_tensor_set_create(t->context, &set));
  intact_status status = intact__checkpoint_network(t, set);
  if (status == INTACT_OK) status = exchange(t, set);
  intact_tensor_set_destroy(set);
  return status;
}
