/* SPDX-License-Identifier: Apache-2.0 */
/* The table of handlers. */
#include "base/text.h"
#include "conformance/conformance.h"

static const struct {
  const char *suite, *op;
  conf_handler function;
} handlers[] = {
#define CONF_HANDLER(suite, op, function) {suite, op, function},
#include "conformance/handlers.def"
#undef CONF_HANDLER
};

conf_handler conf_find_handler(const conf_case *c) {
  for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
    if (intact__glob(handlers[i].suite, c->suite) && intact__glob(handlers[i].op, c->op)) return handlers[i].function;
  }
  return NULL;
}
