/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from raw bytes of files: mapped where they can be used in place, converted from the other byte order. */
#ifndef INTACT_IO_RAW_RAW_TENSOR_H
#define INTACT_IO_RAW_RAW_TENSOR_H

#include "intact/io.h"
#include "tensor/tensor.h"

/* Elements at `offset` of a mapping that holds them (the caller has checked): in place when their alignment allows it, else
   a copy. */
intact_status intact__raw_tensor(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                 intact_mapping *mapping, size_t offset, intact_tensor **tensor);
/* A set of the one tensor, named "". Takes it over, also on failure. */
intact_status intact__raw_single(intact_context *context, intact_tensor *tensor, intact_tensor_set **set);
/* Turns `count` elements of `size` bytes around, in place. */
void intact__swap_bytes(void *data, size_t count, size_t size);
/* Bytes of the unit that has a byte order: the element, or half of a complex number; 1 for packed types. */
size_t intact__swap_size(intact_dtype dtype);

#endif
