/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes, on one machine or many, that train and evaluate together. */
#ifndef INTACT_COMM_H
#define INTACT_COMM_H

#include "intact/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many processes the starter of this one announces; 1 without one. Each should take one thread. */
INTACT_API int intact_comm_started(void);
/* Joins the processes that `mpirun -n N` started, so that intact_train and intact_evaluate share their work (each process calls them
   with the same arguments and gets the same results). One process: nothing to do. Once, before the first of them. wrong-use when
   mpirun started several processes and the library was built without MPI. */
INTACT_API intact_status intact_comm_join(intact_context *context);
/* Ends it. After a failure (`failed`) the other processes are stopped. */
INTACT_API void intact_comm_leave(intact_context *context, bool failed);
INTACT_API int intact_comm_rank(const intact_context *context); /* 0 .. size-1 */
INTACT_API int intact_comm_size(const intact_context *context); /* 1 without others */

#ifdef __cplusplus
}
#endif
#endif
