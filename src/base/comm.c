/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over processes, from gather. */
#include "base/comm.h"

#include <string.h>

static const char key; /* of the attachment */

static intact_comm *comm_of(const intact_context *context) { return intact__attachment(context, &key); }

static void destroy(intact_context *context, void *object) {
  intact_comm *comm = object;
  if (comm->leave) comm->leave(comm->user, false);
  intact__free(context, comm);
}

intact_status intact__comm_set(intact_context *context, const intact_comm *comm) {
  intact_comm *kept = intact__alloc(context, 1, sizeof *kept);
  if (!kept) return intact__no_memory(context, sizeof *kept);
  *kept = *comm;
  return intact__attach(context, &key, kept, destroy);
}

intact_status intact__comm_of(intact_context *context, intact_comm **comm) {
  if (!comm_of(context)) INTACT_TRY(intact__comm_set(context, &(intact_comm){.size = 1}));
  *comm = comm_of(context);
  return INTACT_OK;
}

int intact_comm_rank(const intact_context *context) {
  const intact_comm *comm = comm_of(context);
  return comm ? comm->rank : 0;
}

int intact_comm_size(const intact_context *context) {
  const intact_comm *comm = comm_of(context);
  return comm && !comm->alone ? comm->size : 1;
}

void intact__comm_set_part(intact_context *context, int64_t part, int64_t whole) {
  intact_comm *comm = comm_of(context);
  if (!comm) return;
  comm->part = part;
  comm->whole = whole;
}

void intact__comm_be_alone(intact_context *context, bool alone) {
  intact_comm *comm = comm_of(context);
  if (comm) comm->alone = alone;
}

int64_t intact__comm_whole(const intact_context *context, int64_t count) {
  const intact_comm *comm = comm_of(context);
  if (intact_comm_size(context) < 2) return count;
  return comm->part > 0 ? count / comm->part * comm->whole : count * comm->size;
}

void intact_comm_leave(intact_context *context, bool failed) {
  intact_comm *comm = comm_of(context);
  if (!comm || !comm->leave) return;
  comm->leave(comm->user, failed);
  *comm = (intact_comm){.size = 1};
}

intact_status intact__comm_gather(intact_context *context, const void *mine, size_t bytes, void *all) {
  const intact_comm *comm = comm_of(context);
  if (intact_comm_size(context) > 1) return comm->gather(context, comm->user, mine, bytes, all);
  memcpy(all, mine, bytes);
  return INTACT_OK;
}

/* Adds (or takes the extreme of) n elements of every process, rank by rank. */
typedef void (*combine_fn)(void *into, const void *from, size_t n);

static intact_status reduce(intact_context *context, void *values, size_t n, size_t size, combine_fn combine) {
  enum { PIECE = 1 << 18 };
  const intact_comm *comm = comm_of(context);
  if (intact_comm_size(context) < 2 || n == 0) return INTACT_OK;
  const size_t piece = n < PIECE ? n : PIECE;
  uint8_t *all = intact__alloc(context, piece * (size_t)comm->size, size);
  if (!all) return intact__no_memory(context, piece * (size_t)comm->size * size);
  intact_status status = INTACT_OK;
  for (size_t done = 0; done < n && status == INTACT_OK; done += piece) {
    const size_t here = n - done < piece ? n - done : piece;
    uint8_t *at = (uint8_t *)values + done * size;
    status = comm->gather(context, comm->user, at, here * size, all);
    if (status != INTACT_OK) break;
    memcpy(at, all, here * size);
    for (int r = 1; r < comm->size; r++) combine(at, all + (size_t)r * here * size, here);
  }
  intact__free(context, all);
  return status;
}

#define COMBINE(name, type, expression)                            \
  static void name(void *into, const void *from, size_t n) {       \
    type *a = into;                                                \
    const type *b = from;                                          \
    for (size_t i = 0; i < n; i++) a[i] = expression;              \
  }
COMBINE(add_f64, double, a[i] + b[i])
COMBINE(add_f32, float, a[i] + b[i])
COMBINE(max_f32, float, b[i] > a[i] ? b[i] : a[i])

intact_status intact__comm_sum_f64(intact_context *context, double *values, size_t n) {
  return reduce(context, values, n, sizeof *values, add_f64);
}
intact_status intact__comm_sum_f32(intact_context *context, float *values, size_t n) {
  return reduce(context, values, n, sizeof *values, add_f32);
}
intact_status intact__comm_max_f32(intact_context *context, float *values, size_t n) {
  return reduce(context, values, n, sizeof *values, max_f32);
}
