/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a tensor. */
#include "tensor/blocks.h"

intact_status intact__blocks_create(intact_context *context, const char *where, int rank, const int64_t *dims, int block_rank,
                                    const int64_t *block, intact_blocks *blocks) {
  char shape[160], sizes[160];
  if (block_rank > rank)
    INTACT_FAIL(context, SIZE_MISMATCH, where, "blocks %s have more axes than a tensor of shape %s",
                intact__shape_text(block_rank, block, sizes), intact__shape_text(rank, dims, shape));
  intact_blocks made = {.rank = rank, .n = 1};
  for (int i = 0; i < rank; i++) {
    int at = i - (rank - block_rank);
    int64_t size = at < 0 ? 1 : block[at] == 0 ? (dims[i] > 0 ? dims[i] : 1) : block[at];
    if (size < 1 || dims[i] % size != 0)
      INTACT_FAIL(context, SIZE_MISMATCH, where, "blocks %s do not divide a tensor of shape %s: axis %d of length %lld",
                  intact__shape_text(block_rank, block, sizes), intact__shape_text(rank, dims, shape), i, (long long)dims[i]);
    made.dims[i] = dims[i];
    made.block[i] = size;
    made.counts[i] = dims[i] / size;
    made.n *= made.counts[i];
    if (size == 1 || size != dims[i]) made.value_dims[made.value_rank++] = made.counts[i];
  }
  *blocks = made;
  return INTACT_OK;
}

int64_t intact__block_of(const intact_blocks *blocks, int64_t i) {
  int64_t index = 0, stride = 1;
  for (int axis = blocks->rank - 1; axis >= 0; axis--) {
    index += i % blocks->dims[axis] / blocks->block[axis] * stride;
    stride *= blocks->counts[axis];
    i /= blocks->dims[axis];
  }
  return index;
}
