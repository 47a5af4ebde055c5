/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy array. Source: numpy.lib.format (versions 1.0, 2.0, 3.0). */
#ifndef INTACT_IO_NPY_NPY_HEADER_H
#define INTACT_IO_NPY_NPY_HEADER_H

#include "tensor/tensor.h"

typedef struct intact_npy_header {
  intact_dtype dtype;
  bool big_endian;
  bool fortran_order; /* first axis fastest */
  int rank;
  int64_t dims[INTACT_MAX_RANK];
  size_t data_offset; /* bytes before the elements */
  size_t data_bytes;
} intact_npy_header;

/* Whether `data` begins as a .npy array does. */
bool intact__npy_magic(const uint8_t *data, size_t bytes);
/* Parses the header at `data`; `what` names the array in messages. `bytes` may end anywhere behind the header; whether the
   elements are there is for the caller to check. */
intact_status intact__npy_header_parse(intact_context *context, const char *path, const char *what, const uint8_t *data,
                                       size_t bytes, intact_npy_header *header);
/* Bytes up to the end of the header as the first 12 bytes tell it; 0 if they tell none. */
size_t intact__npy_header_bytes(const uint8_t *data, size_t bytes);
/* A new tensor in row-major order and our byte order from elements at `data`. */
intact_status intact__npy_tensor(intact_context *context, const intact_npy_header *header, const uint8_t *data,
                                 intact_tensor **tensor);
/* Whether the elements can be used as they lie. */
bool intact__npy_plain(const intact_npy_header *header);
/* "<f4" for a type, NULL when NumPy has none. */
const char *intact__npy_descr(intact_dtype dtype);

#endif
