/* SPDX-License-Identifier: Apache-2.0 */
/* What batch_norm and the rows of its fold in training agree on. */
#ifndef INTACT_OPS_FOLDED_H
#define INTACT_OPS_FOLDED_H

#include <math.h>
#include <stdbool.h>

/* What a channel's weights are multiplied by: weight / sqrt(var + eps), each step rounded to float32 as in PyTorch's modules (the largest
   weight of a channel lies at a tie of its own scale, so the last bit counts). Where weight is 0 the norm's result does not depend on the
   layer, and 1 / sqrt(var + eps) keeps everything finite. `divide` is the rule of PyTorch's modules: no exception. */
static inline float intact__fold_factor(float weight, float var, double eps, bool divide) {
  const float deviation = sqrtf(var + (float)eps);
  return (weight != 0 || divide ? weight : 1.0f) / deviation;
}

/* A running statistic after a batch, every step in float32 as PyTorch does it. */
static inline float intact__running(float old, double seen, double momentum) {
  const float kept = (float)(1 - momentum) * old, taken = (float)momentum * (float)seen;
  return kept + taken;
}

#endif
