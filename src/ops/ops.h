/* SPDX-License-Identifier: Apache-2.0 */
/* The op rows by C name, as ops.def lists them. Finding rows by name or alias is declared in graph/op.h. */
#ifndef INTACT_OPS_OPS_H
#define INTACT_OPS_OPS_H

#include "graph/op.h"

#define INTACT_OP(name) extern const intact_op intact_op_##name;
#include "ops/ops.def"
#undef INTACT_OP

#endif
