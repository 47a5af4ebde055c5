/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor cut into blocks of equal size, one set of qparams each: torchao's block_size. */
#ifndef INTACT_TENSOR_BLOCKS_H
#define INTACT_TENSOR_BLOCKS_H

#include "tensor/tensor.h"

typedef struct intact_blocks {
  int rank;
  int64_t dims[INTACT_MAX_RANK], block[INTACT_MAX_RANK], counts[INTACT_MAX_RANK]; /* of the tensor; of a block; of blocks */
  int64_t n;                                                                      /* all blocks, row-major */
  /* Shape of a tensor with a value per block: axes that are one whole block are left out (unless they have length 1). */
  int value_rank;
  int64_t value_dims[INTACT_MAX_RANK];
} intact_blocks;

/* `block` has block_rank entries, aligned with the last axes and padded with 1 in front; 0 stands for the whole axis.
   Refuses blocks with more axes than the tensor and sizes that do not divide its axes. */
intact_status intact__blocks_create(intact_context *context, const char *where, int rank, const int64_t *dims, int block_rank,
                                    const int64_t *block, intact_blocks *blocks);
/* Block of element i of the tensor. */
int64_t intact__block_of(const intact_blocks *blocks, int64_t i);

#endif
