/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that work on one task together. One operation is asked of a backend, gather; sums are made from it in the order of
   the ranks, so that every process gets the same bits. Without a backend there is one process and nothing is sent. */
#ifndef INTACT_BASE_COMM_H
#define INTACT_BASE_COMM_H

#include "base/context.h"
#include "intact/comm.h"

typedef struct intact_comm {
  int rank, size;
  /* `all` gets the `bytes` of every process in the order of ranks. All processes call it with the same number of bytes. */
  intact_status (*gather)(intact_context *context, void *user, const void *mine, size_t bytes, void *all);
  void (*leave)(void *user, bool failed); /* failed: stops the others too */
  void *user;
} intact_comm;

/* Makes this the context's (copied). */
intact_status intact__comm_set(intact_context *context, const intact_comm *comm);

/* In place, over all processes; nothing to do for one. Failures are those of the backend. */
intact_status intact__comm_sum_f64(intact_context *context, double *values, size_t n);
intact_status intact__comm_sum_f32(intact_context *context, float *values, size_t n);
intact_status intact__comm_min_f32(intact_context *context, float *values, size_t n);
intact_status intact__comm_max_f32(intact_context *context, float *values, size_t n);

#endif
