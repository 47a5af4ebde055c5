/* SPDX-License-Identifier: Apache-2.0 */
/* How rows that write elements by index combine a written element with the one that is there. */
#ifndef INTACT_OPS_SCATTER_H
#define INTACT_OPS_SCATTER_H

#include "ops/common.h"

typedef enum intact_scatter_kind {
  INTACT_SCATTER_SET,
  INTACT_SCATTER_ADD,
  INTACT_SCATTER_MUL,
  INTACT_SCATTER_MAX,
  INTACT_SCATTER_MIN,
  INTACT_SCATTER_UNKNOWN
} intact_scatter_kind;

/* The kind by PyTorch's or ONNX's name: none, add, mul or prod, max or amax, min or amin. */
intact_scatter_kind intact__scatter_kind(const char *name);
/* Element `at` of y = element i of src combined with it; the number stands for src when that is NULL. */
void intact__scatter_element(intact_tensor *y, int64_t at, const intact_tensor *src, int64_t i, double number,
                             intact_scatter_kind kind);
/* to[at] = from[i], both of one type. */
void intact__copy_element(intact_tensor *to, int64_t at, const intact_tensor *from, int64_t i);

#endif
