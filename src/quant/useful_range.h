/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a value's range that its readers can tell apart. */
#ifndef INTACT_QUANT_USEFUL_RANGE_H
#define INTACT_QUANT_USEFUL_RANGE_H

#include "graph/graph.h"

/* Cuts [*low, *high] to where the readers of `value` still change, when all of them are unary maps: below -3 hardswish is 0, so
   no code need be spent there. A reader counts as flat from an end on while it stays within an eighth of a 256th of its own
   span: f(clamp(x)) then differs from f(x) by less than an eighth of a step. The cut is made on a grid of 2048 parts, on the
   safe side. */
intact_status intact__useful_range(const intact_value *value, float *low, float *high);

#endif
