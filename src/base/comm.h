/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that work on one task together. One operation is asked of a backend, gather; sums are made from it in the order of
   the ranks, so that every process gets the same bits. Without a backend there is one process and nothing is sent. */
#ifndef INTACT_BASE_COMM_H
#define INTACT_BASE_COMM_H

#include "base/context.h"
#include "intact/comm.h"

typedef struct intact_comm {
  int rank, size;
  bool alone;          /* what is at hand is the same for all: nothing is exchanged */
  int64_t part, whole; /* of the batch at hand: samples here, and on all; 0: equal parts */
  /* `all` gets the `bytes` of every process in the order of ranks. All processes call it with the same number of bytes. */
  intact_status (*gather)(intact_context *context, void *user, const void *mine, size_t bytes, void *all);
  void (*leave)(void *user, bool failed); /* failed: stops the others too */
  void *user;
} intact_comm;

/* Makes this the context's (copied). */
intact_status intact__comm_set(intact_context *context, const intact_comm *comm);
/* The context's own, to be changed for a while: one process when none has been set. No-memory. */
intact_status intact__comm_of(intact_context *context, intact_comm **comm);

/* Says how large the part of the batch is that is at hand here. */
void intact__comm_set_part(intact_context *context, int64_t part, int64_t whole);
/* While alone, sums are of what is here, and this looks like one process: for what is the same on all of them. */
void intact__comm_be_alone(intact_context *context, bool alone);
/* Elements of the whole batch, of which `count` are here. */
int64_t intact__comm_whole(const intact_context *context, int64_t count);

/* In place, over all processes; nothing to do for one. Failures are those of the backend. */
intact_status intact__comm_sum_f64(intact_context *context, double *values, size_t n);
intact_status intact__comm_sum_f32(intact_context *context, float *values, size_t n);
intact_status intact__comm_max_f32(intact_context *context, float *values, size_t n);
/* all: `bytes` of every process in the order of ranks. */
intact_status intact__comm_gather(intact_context *context, const void *mine, size_t bytes, void *all);

#endif
