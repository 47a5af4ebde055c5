/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON header of a safetensors file: what it says of each tensor, parsed and checked. */
#ifndef INTACT_IO_SAFETENSORS_SAFETENSORS_HEADER_H
#define INTACT_IO_SAFETENSORS_SAFETENSORS_HEADER_H

#include "tensor/tensor.h"

#define INTACT_SAFETENSORS_MAX_HEADER 100000000u

typedef struct intact_safetensors_entry {
  const char *name; /* in the header's arena */
  intact_dtype dtype;
  int rank;
  int64_t dims[INTACT_MAX_RANK];
  uint64_t begin, end; /* within the byte buffer behind the header */
} intact_safetensors_entry;

typedef struct intact_safetensors_header {
  intact_arena arena;
  intact_safetensors_entry *entries; /* in the order of the text */
  size_t n, capacity;
} intact_safetensors_header;

/* Parses `bytes` of JSON `text` that describe a buffer of `buffer` bytes and checks all rules of the format: types known,
   names once, sizes that agree with the shapes, no holes, no overlaps, nothing outside of the buffer. On success the header
   is released with intact__safetensors_header_fini. */
intact_status intact__safetensors_header_parse(intact_context *context, const char *path, const uint8_t *text, size_t bytes,
                                               uint64_t buffer, intact_safetensors_header *header);
void intact__safetensors_header_fini(intact_safetensors_header *header);

/* Place of a type in the format's own order of alignment (-1: the format has no such type). */
int intact__safetensors_dtype_order(intact_dtype dtype);

#endif
