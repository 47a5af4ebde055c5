/* SPDX-License-Identifier: Apache-2.0 */
/* How losses are reduced. */
#ifndef INTACT_OPS_LOSS_H
#define INTACT_OPS_LOSS_H

#include "ops/layer.h"

typedef enum intact_reduction {
  INTACT_REDUCE_NONE,
  INTACT_REDUCE_MEAN,
  INTACT_REDUCE_SUM,
  INTACT_REDUCE_BATCHMEAN
} intact_reduction;

/* Attribute "reduction" ("none", "mean", "sum", for kl_div also "batchmean"); refuses others. */
intact_status intact__reduction_of(intact_context *context, const intact_node *node, intact_reduction *reduction);
/* Shape of the result: `dims` with none, else 0-d. */
intact_status intact__infer_reduced(intact_infer *infer, int rank, const int64_t *dims);

#define INTACT_LOSS_TRAITS \
  { .result = INTACT_RESULT_NONE, .no_quantize = true }

#endif
