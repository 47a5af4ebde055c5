/* SPDX-License-Identifier: Apache-2.0 */
/* "name=value,name,..." taken apart. */
#ifndef INTACT_AUTOGRAD_OPTION_LIST_H
#define INTACT_AUTOGRAD_OPTION_LIST_H

#include "base/context.h"

/* Calls set(context, target, name, value) for every option of the list; the value of a bare name is "". Stops at a failure. */
typedef intact_status (*intact_set_option_fn)(intact_context *context, void *target, const char *name, const char *value);
intact_status intact__each_option(intact_context *context, const char *list, intact_set_option_fn set, void *target);
/* Whether an option of that name is in the list. */
bool intact__option_listed(const char *list, const char *name);

#endif
