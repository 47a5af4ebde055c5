/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: shapes, storage that is shared by counting, handles. */
#include "tensor/tensor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct intact_storage {
  atomic_int holders;
  void *data;
  bool on_heap;
  uint32_t version; /* changes in place */
  intact_mapping *mapping;
};

bool intact__shape_bytes(intact_dtype dtype, int rank, const int64_t *dims, int64_t *count, size_t *bytes) {
  if (rank < 0 || rank > INTACT_MAX_RANK) return false;
  int64_t n = 1;
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, dims[i], &n)) /* also of an empty tensor: code may multiply any of its lengths */
      return false;
  }
  int64_t bits;
  if (__builtin_mul_overflow(n, (int64_t)intact_dtype_bits(dtype), &bits) || bits > INT64_MAX - 7) return false;
  if (empty) n = bits = 0;
  *count = n;
  *bytes = (size_t)((bits + 7) / 8);
  return true;
}

const char *intact__shape_text(int rank, const int64_t *dims, char *buffer) {
  char *at = buffer;
  *at++ = '[';
  for (int i = 0; i < rank; i++) {
    if (i) *at++ = ',';
    if (dims[i] < 0)
      *at++ = '?';
    else
      at += sprintf(at, "%lld", (long long)dims[i]);
  }
  *at++ = ']';
  *at = 0;
  return buffer;
}

bool intact__shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
  return rank_a == rank_b && (rank_a <= 0 || memcmp(a, b, (size_t)rank_a * sizeof *a) == 0);
}

bool intact__broadcast_shapes(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims) {
  const int n = rank_a > rank_b ? rank_a : rank_b;
  for (int i = 1; i <= n; i++) {
    const int64_t x = i <= rank_a ? a[rank_a - i] : 1, y = i <= rank_b ? b[rank_b - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    dims[n - i] = x == 1 ? y : x;
  }
  *rank = n;
  return true;
}

/* A handle without storage; checks the shape. */
static intact_status new_handle(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims, size_t *bytes,
                                intact_tensor **tensor) {
  char text[200];
  int64_t count;
  if (rank < 0 || rank > INTACT_MAX_RANK)
    INTACT_FAIL(context, OUT_OF_RANGE, "", "can't make a tensor of rank %d: ranks go from 0 to %d", rank, INTACT_MAX_RANK);
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      INTACT_FAIL(context, INVALID_VALUE, "", "can't make a tensor: dimension %d is %lld, it must not be negative", i,
                  (long long)dims[i]);
  if (!intact__shape_bytes(dtype, rank, dims, &count, bytes))
    INTACT_FAIL(context, OVERFLOW, "", "can't make a %s tensor %s: its size overflows 64 bits", intact_dtype_text(dtype),
                intact__shape_text(rank, dims, text));
  intact_tensor *t = intact__alloc_zeroed(context, 1, sizeof *t);
  intact_storage *storage = intact__alloc_zeroed(context, 1, sizeof *storage);
  if (!t || !storage) {
    intact__free(context, t);
    intact__free(context, storage);
    return intact__no_memory(context, sizeof *t);
  }
  atomic_init(&storage->holders, 1);
  *t = (intact_tensor){.context = context, .storage = storage, .dtype = dtype, .rank = rank, .count = count};
  if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
  *tensor = t;
  return INTACT_OK;
}

intact_status intact__tensor_create_raw(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                        intact_tensor **tensor) {
  intact_tensor *t;
  size_t bytes;
  INTACT_TRY(new_handle(context, dtype, rank, dims, &bytes, &t));
  t->storage->data = intact__alloc(context, bytes ? bytes : 1, 1);
  t->storage->on_heap = true;
  if (!t->storage->data) {
    intact_tensor_destroy(t);
    return intact__no_memory(context, bytes);
  }
  t->data = t->storage->data;
  *tensor = t;
  return INTACT_OK;
}

intact_status intact_tensor_create(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                   intact_tensor **tensor) {
  intact_tensor *t;
  INTACT_TRY(intact__tensor_create_raw(context, dtype, rank, dims, &t));
  memset(t->data, 0, intact_tensor_bytes(t));
  *tensor = t;
  return INTACT_OK;
}

intact_status intact_tensor_borrow(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims, const void *data,
                                   intact_tensor **tensor) {
  intact_tensor *t;
  size_t bytes;
  INTACT_TRY(new_handle(context, dtype, rank, dims, &bytes, &t));
  union {
    const void *in;
    void *out;
  } cast = {data};
  t->storage->data = t->data = cast.out;
  *tensor = t;
  return INTACT_OK;
}

intact_status intact__tensor_map(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                 intact_mapping *mapping, size_t offset, intact_tensor **tensor) {
  intact_tensor *t;
  INTACT_TRY(intact_tensor_borrow(context, dtype, rank, dims, intact__mapping_data(mapping) + offset, &t));
  t->storage->mapping = intact__mapping_retain(mapping);
  *tensor = t;
  return INTACT_OK;
}

void intact__tensor_forget(const intact_tensor *tensor, int64_t first, int64_t count) {
  const intact_mapping *mapping = tensor->storage->mapping;
  if (!mapping || count < 1 || first < 0 || first > tensor->count || count > tensor->count - first) return;
  const size_t bits = (size_t)intact_dtype_bits(tensor->dtype), begin = (size_t)first * bits / 8;
  const size_t offset = (size_t)((const uint8_t *)tensor->data - intact__mapping_data(mapping));
  intact__mapping_forget(mapping, offset + begin, ((size_t)(first + count) * bits + 7) / 8 - begin);
}

intact_status intact_tensor_share(const intact_tensor *tensor, int rank, const int64_t *dims, intact_tensor **other) {
  char from[200], to[200];
  int64_t count = tensor->count;
  size_t bytes;
  if (dims && (!intact__shape_bytes(tensor->dtype, rank, dims, &count, &bytes) || count != tensor->count))
    INTACT_FAIL(tensor->context, SIZE_MISMATCH, "", "can't view a tensor %s as %s: the element counts differ",
                intact__shape_text(tensor->rank, tensor->dims, from), intact__shape_text(rank, dims, to));
  intact_tensor *t = intact__alloc(tensor->context, 1, sizeof *t);
  if (!t) return intact__no_memory(tensor->context, sizeof *t);
  *t = *tensor;
  if (dims) {
    t->rank = rank;
    if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
  }
  atomic_fetch_add(&t->storage->holders, 1);
  *other = t;
  return INTACT_OK;
}

void intact__tensor_move(intact_tensor *tensor, intact_context *context) { tensor->context = context; }

intact_status intact__tensor_share_in(intact_context *context, const intact_tensor *tensor, intact_tensor **other) {
  INTACT_TRY(intact_tensor_share(tensor, tensor->rank, NULL, other));
  intact__tensor_move(*other, context);
  return INTACT_OK;
}

intact_status intact_tensor_copy(const intact_tensor *tensor, intact_tensor **copy) {
  intact_tensor *t;
  INTACT_TRY(intact__tensor_create_raw(tensor->context, tensor->dtype, tensor->rank, tensor->dims, &t));
  if (tensor->count) memcpy(t->data, tensor->data, intact_tensor_bytes(tensor));
  *copy = t;
  return INTACT_OK;
}

void intact_tensor_destroy(intact_tensor *tensor) {
  if (!tensor) return;
  intact_storage *storage = tensor->storage;
  if (atomic_fetch_sub(&storage->holders, 1) == 1) {
    if (storage->on_heap) intact__free(tensor->context, storage->data);
    intact__mapping_release(storage->mapping);
    intact__free(tensor->context, storage);
  }
  intact__free(tensor->context, tensor);
}

intact_dtype intact_tensor_dtype(const intact_tensor *tensor) { return tensor->dtype; }
int intact_tensor_rank(const intact_tensor *tensor) { return tensor->rank; }
const int64_t *intact_tensor_dims(const intact_tensor *tensor) { return tensor->dims; }
int64_t intact_tensor_count(const intact_tensor *tensor) { return tensor->count; }
const void *intact_tensor_data(const intact_tensor *tensor) { return tensor->data; }
void *intact_tensor_mutable_data(intact_tensor *tensor) {
  tensor->storage->version++;
  return tensor->data;
}
uint32_t intact__tensor_version(const intact_tensor *tensor) { return tensor->storage->version; }
bool intact__tensor_is_sole(const intact_tensor *tensor) { return atomic_load(&tensor->storage->holders) == 1; }
size_t intact_tensor_bytes(const intact_tensor *tensor) {
  return (size_t)((tensor->count * intact_dtype_bits(tensor->dtype) + 7) / 8);
}

intact_status intact__tensor_scalar_f32(intact_context *context, float value, intact_tensor **tensor) {
  INTACT_TRY(intact__tensor_create_raw(context, INTACT_F32, 0, NULL, tensor));
  *intact__f32(*tensor) = value;
  return INTACT_OK;
}

intact_status intact__tensor_from_s64(intact_context *context, int rank, const int64_t *dims, const int64_t *values,
                                      intact_tensor **tensor) {
  intact_tensor *t;
  INTACT_TRY(intact__tensor_create_raw(context, INTACT_S64, rank, dims, &t));
  if (t->count) memcpy(t->data, values, intact_tensor_bytes(t));
  *tensor = t;
  return INTACT_OK;
}
