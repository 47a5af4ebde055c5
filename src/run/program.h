/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of programs: running with a look at every value. */
#ifndef INTACT_RUN_PROGRAM_H
#define INTACT_RUN_PROGRAM_H

#include "intact/run.h"
#include "plan/plan.h"

/* Runs and shows every value to `tap`, in logical order, right after the step that makes it (inputs before the first). The
   values are those of the planned graph: names as in the program's graph, concrete shapes, qparams where they carry any.
   Values that planning made constants are not shown. */
intact_status intact__program_run_tapped(intact_program *program, const intact_tensor *const *inputs, intact_tap_fn tap,
                                         void *user, intact_tensor **outputs);
/* The plan of the last run; NULL before the first. */
const intact_plan *intact__program_plan(const intact_program *program);

#endif
