/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of a convolution, shared by the definition and the fast form. */
#ifndef INTACT_OPS_CONV_H
#define INTACT_OPS_CONV_H

#include "ops/layer.h"

/* A correlation from [n, ci, window.in] to [n, co, window.out] with weights [co, ci / groups, kernel]. A transposed
   convolution is the adjoint of the one from its result to its operand, so its result is the `in` side here. */
typedef struct intact_conv {
  int64_t n, ci, co, groups;
  intact_window window;
} intact_conv;

bool intact__conv_is_transposed(const intact_node *node);
/* From operands x, w and result y of a node of the family. */
void intact__conv_geometry(const intact_node *node, const intact_tensor *x, const intact_tensor *w, const intact_tensor *y,
                           intact_conv *conv);

#endif
