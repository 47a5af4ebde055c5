/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that take turns on one thread: each has a stack of its own and goes on where it stopped. */
#ifndef INTACT_BASE_FIBER_H
#define INTACT_BASE_FIBER_H

#include "base/context.h"

typedef struct intact_fiber intact_fiber;
typedef void (*intact_fiber_fn)(void *user);

/* Ready to run `fn(user)`; nothing of it has run yet. No-memory. */
intact_status intact__fiber_create(intact_context *context, intact_fiber_fn fn, void *user, intact_fiber **fiber);
/* Runs it until it waits or ends; true: it waits. Only from outside of fibers, and not once it has ended. */
bool intact__fiber_resume(intact_fiber *fiber);
/* From inside: back to whoever resumed it. */
void intact__fiber_wait(intact_fiber *fiber);
/* NULL: nothing. What a fiber that still waits holds on its stack is lost. */
void intact__fiber_destroy(intact_fiber *fiber);

#endif
