/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of ops: the rows of ops.def as an array, found by name or by foreign name. */
#include "ops/ops.h"

#include <string.h>

const intact_op *const intact__ops[] = {
#define INTACT_OP(name) &intact_op_##name,
#ifndef INTACT_FULL
#define INTACT_OP_FULL(name)
#endif
#include "ops/ops.def"
#undef INTACT_OP
    NULL};

const int intact__n_ops = INTACT_COUNT_OF(intact__ops) - 1;

const intact_op *intact__find_op(const char *name) {
  int low = 0, high = intact__n_ops - 1;
  while (low <= high) {
    int middle = low + (high - low) / 2;
    int order = strcmp(name, intact__ops[middle]->name);
    if (order == 0) return intact__ops[middle];
    if (order < 0) {
      high = middle - 1;
    } else {
      low = middle + 1;
    }
  }
  return NULL;
}

static bool alias_fits(const intact_alias *alias, const char *format, const char *name, int version) {
  if (strcmp(alias->name, name) != 0 || strcmp(alias->format, format) != 0) return false;
  return (alias->since == 0 || alias->since <= version) && (alias->until == 0 || version <= alias->until);
}

const intact_op *intact__find_alias(const char *format, const char *name, int version, const intact_alias **alias) {
  for (int i = 0; i < intact__n_ops; i++) {
    const intact_alias *row = intact__ops[i]->aliases;
    for (; row != NULL && row->name != NULL; row++) {
      if (alias_fits(row, format, name, version)) {
        if (alias != NULL) *alias = row;
        return intact__ops[i];
      }
    }
  }
  return NULL;
}
