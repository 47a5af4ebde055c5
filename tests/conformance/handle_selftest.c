/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of the runner's own test (suite "selftest"): gives its inputs back as results, refuses, crashes. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "conformance/conformance.h"

intact_status conf_handle_selftest(conf_case *c) {
  const char *name;
  json_t *key;
  if (strcmp(c->op, "abort") == 0) abort();
  if (strcmp(c->op, "absent") == 0) return conf_skip(c, c->op);
  if (strcmp(c->op, "refuse") == 0) INTACT_FAIL(c->context, INVALID_VALUE, c->name, "refused as asked");
  if (strcmp(c->op, "no-memory") == 0) return intact__no_memory(c->context, 1);
  json_object_foreach(json_object_get(c->json, "inputs"), name, key) {
    intact_tensor *shared;
    const intact_tensor *input = conf_input(c, "%s", name);
    if (!input) return conf_fail(c, "expected input %s, got none", name);
    INTACT_TRY(intact_tensor_share(input, 0, NULL, &shared));
    INTACT_TRY(conf_result(c, shared, "%s", name));
  }
  return INTACT_OK;
}
