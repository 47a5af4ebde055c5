/* SPDX-License-Identifier: Apache-2.0 */
/* What the two rows of a batch norm that training folds into the layer before it agree on. */
#ifndef INTACT_OPS_FOLDED_H
#define INTACT_OPS_FOLDED_H

#include <math.h>
#include <stdbool.h>

/* What a channel's weights are multiplied by: weight / sqrt(var + eps), rounded once; where weight is 0 the norm's result does not
   depend on the layer, and 1 / sqrt(var + eps) keeps everything finite. `divide` is the rule of PyTorch's modules: no exception. */
static inline float intact__fold_factor(float weight, float var, double eps, bool divide) {
  const double inverse = 1 / sqrt((double)var + eps);
  return (float)(weight != 0 || divide ? (double)weight * inverse : inverse);
}

#endif
