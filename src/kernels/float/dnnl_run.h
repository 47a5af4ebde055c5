/* SPDX-License-Identifier: Apache-2.0 */
/* Running a oneDNN primitive on plain memory: primitives, the copies around them and kept weights live in a bounded cache
   that belongs to the context. */
#ifndef INTACT_KERNELS_FLOAT_DNNL_RUN_H
#define INTACT_KERNELS_FLOAT_DNNL_RUN_H

#include <oneapi/dnnl/dnnl.h>

#include "kernels/float/float_kernels.h"

enum { INTACT_DNNL_PORTS = 6 };

/* One memory of a primitive as the caller holds it. */
typedef struct intact_dnnl_port {
  int arg; /* DNNL_ARG_... */
  bool output;
  dnnl_memory_desc_t plain;
} intact_dnnl_port;

/* What makes a primitive: the build function and the shape together are the key of the cache. */
typedef struct intact_dnnl_recipe {
  dnnl_status_t (*build)(const void *shape, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                         dnnl_primitive_desc_t *desc, intact_dnnl_port *ports, int *n_ports);
  const void *shape; /* no padding bytes */
  size_t shape_bytes;
  int64_t work; /* multiply-accumulates: large ones may use oneDNN's own threads */
} intact_dnnl_recipe;

/* Runs on data[i] for port i (NULL: port left out). keep (may be NULL) speaks of the weights port. */
intact_status intact__dnnl_run(intact_context *context, const intact_dnnl_recipe *recipe, void *const *data,
                               const intact_float_keep *keep, bool *done);

/* Row-major float32. */
dnnl_status_t intact__dnnl_plain(dnnl_memory_desc_t *desc, int rank, const int64_t *dims);
/* Sets the number of oneDNN's threads for calls of this thread: the context's for much work outside of our own parallel loops,
   else one. */
void intact__dnnl_set_threads(const intact_context *context, int64_t work);

/* A batch of n samples run in pieces of `piece` on the context's threads, one oneDNN thread each. The pieces depend on the work
   alone, so the results do not depend on the number of threads. */
typedef struct intact_dnnl_batch {
  int64_t n, piece;
  intact_status (*run)(intact_context *context, const void *user, int64_t first, int64_t count, bool *done);
  const void *user;
} intact_dnnl_batch;
intact_status intact__dnnl_run_batch(intact_context *context, const intact_dnnl_batch *batch, bool *done);

#endif
