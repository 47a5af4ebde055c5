/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of options as text. */
#include "autograd/option_list.h"

#include <string.h>

intact_status intact__each_option(intact_context *context, const char *list, intact_set_option_fn set, void *target) {
  char option[100];
  for (const char *at = list; *at;) {
    const size_t length = strcspn(at, ",");
    if (length >= sizeof option) INTACT_FAIL(context, WRONG_USE, "", "the option at '%s' is too long", at);
    memcpy(option, at, length);
    option[length] = 0;
    char *equals = strchr(option, '=');
    if (equals) *equals = 0;
    INTACT_TRY(set(context, target, option, equals ? equals + 1 : ""));
    at += length + (at[length] == ',');
  }
  return INTACT_OK;
}

bool intact__option_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; *at;) {
    const size_t n = strcspn(at, ",");
    if (strcspn(at, "=,") == length && strncmp(at, name, length) == 0) return true;
    at += n + (at[n] == ',');
  }
  return false;
}
