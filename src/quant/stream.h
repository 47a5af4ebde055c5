/* SPDX-License-Identifier: Apache-2.0 */
/* Samples through a graph, batch by batch. */
#ifndef INTACT_QUANT_STREAM_H
#define INTACT_QUANT_STREAM_H

#include "graph/graph.h"
#include "intact/data.h"

typedef struct intact_stream_options {
  const char *what; /* for progress and messages */
  int64_t batch;    /* samples in memory at a time */
  bool share;       /* several processes take parts of each batch */
  int64_t samples;  /* at most so many; 0: all */
  /* Called before each batch is run; NULL: nothing. */
  intact_status (*before)(void *user, int64_t first, int64_t count);
  void *user;
} intact_stream_options;

/* Runs the graph on each batch; what is wanted of it is seen by the interp options' tap or observers. */
intact_status intact__stream(const intact_graph *graph, intact_data *data, const intact_stream_options *options,
                             const intact_interp_options *interp);

#endif
