/* SPDX-License-Identifier: Apache-2.0 */
/* The backend over MPI. Compiled in when CMake finds MPI; used only in processes that mpirun has started. */
#include <stdlib.h>

#include "base/comm.h"

/* As Open MPI announces it, or MPICH and its relatives. */
int intact_comm_started(void) {
  const char *text = getenv("OMPI_COMM_WORLD_SIZE");
  if (!text) text = getenv("PMI_SIZE");
  return text && atoi(text) > 1 ? atoi(text) : 1;
}

#ifdef INTACT_MPI
#include <limits.h>
#include <mpi.h>

static intact_status gather(intact_context *context, void *user, const void *mine, size_t bytes, void *all) {
  (void)user;
  if (bytes > INT_MAX) INTACT_FAIL(context, OVERFLOW, "", "%zu bytes in one message between processes", bytes);
  const int code = MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
  if (code == MPI_ERR_TRUNCATE)
    INTACT_FAIL(context, WRONG_USE, "", "the processes send each other different amounts of numbers; all need the same data, options and build");
  if (code != MPI_SUCCESS) INTACT_FAIL(context, IO, "", "the processes can't reach each other any more (MPI error %d)", code);
  return INTACT_OK;
}

static void leave(void *user, bool failed) {
  int over = 0;
  (void)user;
  MPI_Finalized(&over);
  if (over) return;
  if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
}

intact_status intact_comm_join(intact_context *context) {
  if (intact_comm_started() < 2 || intact_comm_size(context) > 1) return INTACT_OK;
  intact_comm comm = {.gather = gather, .leave = leave};
  int level = MPI_THREAD_SINGLE; /* replicas call it one after the other, each from its thread */
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS || level < MPI_THREAD_SERIALIZED)
    INTACT_FAIL(context, IO, "", "MPI does not start, or not for processes with threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &comm.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &comm.size);
  return intact__comm_set(context, &comm);
}
#else
intact_status intact_comm_join(intact_context *context) {
  if (intact_comm_started() < 2) return INTACT_OK;
  INTACT_FAIL(context, WRONG_USE, "", "%d processes were started, but this build has no MPI; install libopenmpi-dev and build again, "
              "or start one process", intact_comm_started());
}
#endif
