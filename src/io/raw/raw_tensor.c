/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from raw bytes of files. */
#include "io/raw/raw_tensor.h"

#include <string.h>

size_t intact__swap_size(intact_dtype dtype) {
  if (dtype == INTACT_C64) return sizeof(float);
  const int bits = intact_dtype_bits(dtype);
  return bits < 8 ? 1 : (size_t)bits / 8;
}

intact_status intact__raw_tensor(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                 intact_mapping *mapping, size_t offset, intact_tensor **tensor) {
  if (offset % intact__swap_size(dtype) == 0) {
    return intact__tensor_map(context, dtype, rank, dims, mapping, offset, tensor);
  }
  INTACT_TRY(intact__tensor_create_raw(context, dtype, rank, dims, tensor));
  const size_t bytes = intact_tensor_bytes(*tensor);
  if (bytes) memcpy((*tensor)->data, intact__mapping_data(mapping) + offset, bytes);
  return INTACT_OK;
}

intact_status intact__raw_single(intact_context *context, intact_tensor *tensor, intact_tensor_set **set) {
  intact_tensor_set *result;
  intact_status status = intact_tensor_set_create(context, &result);
  if (status != INTACT_OK) {
    intact_tensor_destroy(tensor);
    return status;
  }
  status = intact_tensor_set_add(result, "", tensor);
  if (status != INTACT_OK) {
    intact_tensor_set_destroy(result);
    return status;
  }
  *set = result;
  return INTACT_OK;
}

void intact__swap_bytes(void *data, size_t count, size_t size) {
  uint8_t *at = data;
  for (size_t i = 0; i < count; i++, at += size) {
    for (size_t low = 0, high = size - 1; low < high; low++, high--) {
      const uint8_t byte = at[low];
      at[low] = at[high];
      at[high] = byte;
    }
  }
}
