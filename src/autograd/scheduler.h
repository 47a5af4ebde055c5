/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of schedules: the learning rate as a function of the step. */
#ifndef INTACT_AUTOGRAD_SCHEDULER_H
#define INTACT_AUTOGRAD_SCHEDULER_H

#include "base/text.h"
#include "intact/optim.h"

typedef struct intact_schedule_point {
  double lr;
  double momentum; /* NaN: not moved */
} intact_schedule_point;

typedef struct intact_scheduler_row {
  const char *name, *doc;
  const char *options; /* "name=default,...": what it takes */
  /* What is wrong with the options, NULL: nothing. NULL function: nothing can be. */
  const char *(*check)(const intact_scheduler_options *options);
  /* At step `step` (0 first) of a group that started with `start`. NULL: goes by a metric (ReduceLROnPlateau). */
  intact_schedule_point (*at)(const intact_scheduler_options *options, double start, int64_t step);
} intact_scheduler_row;

#define INTACT_SCHEDULER(name) extern const intact_scheduler_row intact__scheduler_##name;
#include "autograd/schedulers.def"
#undef INTACT_SCHEDULER

extern const intact_scheduler_row *const intact__schedulers[];
extern const int intact__n_schedulers;
const intact_scheduler_row *intact__find_scheduler(const char *name); /* any case; NULL: none */
int64_t intact__scheduler_step_count(const intact_scheduler *scheduler);
/* Lines "name = value": the schedule, and its options as they are now that nothing is left open. */
void intact__scheduler_text(const intact_scheduler *scheduler, intact_text *text);

#endif
