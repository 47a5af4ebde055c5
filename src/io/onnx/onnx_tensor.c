/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ONNX messages: raw bytes, typed numbers, external data, sparse form. */
#include <string.h>

#include "io/onnx/onnx_external.h"
#include "io/onnx/onnx_file.h"
#include "io/onnx/onnx_scan.h"

intact_status intact__onnx_dtype(intact_context *context, int64_t type, const char *what, intact_dtype *dtype) {
  switch (type) {
#define XX(name, text, bits, kind, safetensors, onnx) \
  case onnx:                                          \
    *dtype = INTACT_##name;                           \
    return INTACT_OK;
    INTACT_DTYPE_MAP(XX)
#undef XX
    default:
      break;
  }
  const char *name = type == 8 ? "string" : type == 15 ? "complex128" : type == 0 ? "undefined" : "unknown";
  INTACT_FAIL(context, UNSUPPORTED_TYPE, what, "cannot read %s: its element type is %lld (%s), which is not supported", what,
              (long long)type, name);
}

int intact__onnx_dtype_number(intact_dtype dtype) {
  static const int numbers[] = {
#define XX(name, text, bits, kind, safetensors, onnx) onnx,
      INTACT_DTYPE_MAP(XX)
#undef XX
  };
  return numbers[dtype];
}

/* How large the dense form of a sparse tensor may be: a base, and so many elements per stored value. */
enum { SPARSE_BASE = 1 << 16, SPARSE_RATIO = 1024 };

static intact_status check_dims(intact_onnx_file *file, const char *what, size_t n_dims, const int64_t *dims) {
  if (n_dims > INTACT_MAX_RANK) {
    INTACT_FAIL(file->context, OUT_OF_RANGE, what, "cannot read %s: it has %zu dimensions, at most %d are supported", what,
                n_dims, INTACT_MAX_RANK);
  }
  for (size_t i = 0; i < n_dims; i++) {
    if (dims[i] < 0) {
      INTACT_FAIL(file->context, INVALID_VALUE, what, "cannot read %s: dimension %zu is %lld, it must not be negative", what,
                  i, (long long)dims[i]);
    }
  }
  return INTACT_OK;
}

/* The tensor over `bytes` at `offset` of the mapping: in place where the address suits the type, else a copy. */
static intact_status place_tensor(intact_onnx_file *file, const char *what, intact_dtype dtype, int rank, const int64_t *dims,
                                  intact_mapping *mapping, size_t offset, size_t bytes, intact_tensor **tensor) {
  size_t element = (size_t)(intact_dtype_bits(dtype) + 7) / 8;
  if (dtype == INTACT_C64) element = 4;
  if (bytes > 0 && offset % element == 0) {
    return intact__tensor_map(file->context, dtype, rank, dims, mapping, offset, tensor);
  }
  intact_tensor *copy = NULL;
  INTACT_TRY(intact__onnx_spend(file, what, bytes));
  INTACT_TRY(intact__tensor_create_raw(file->context, dtype, rank, dims, &copy));
  if (bytes > 0) memcpy(copy->data, intact__mapping_data(mapping) + offset, bytes);
  *tensor = copy;
  return INTACT_OK;
}

/* How many numbers of the typed field that belongs to the type are there, and how many elements one number holds. */
static size_t typed_count(const Onnx__TensorProto *proto, intact_dtype dtype, size_t *elements_each, size_t *numbers_each) {
  *elements_each = 1;
  *numbers_each = 1;
  switch (dtype) {
    case INTACT_F32:
      return proto->n_float_data;
    case INTACT_C64:
      *numbers_each = 2;
      return proto->n_float_data;
    case INTACT_F64:
      return proto->n_double_data;
    case INTACT_S64:
      return proto->n_int64_data;
    case INTACT_U32:
    case INTACT_U64:
      return proto->n_uint64_data;
    case INTACT_S4:
    case INTACT_U4:
    case INTACT_F4E2M1:
      *elements_each = 2;
      return proto->n_int32_data;
    case INTACT_S2:
    case INTACT_U2:
      *elements_each = 4;
      return proto->n_int32_data;
    default:
      return proto->n_int32_data;
  }
}

static void copy_typed(const Onnx__TensorProto *proto, intact_tensor *tensor, size_t n) {
  switch (tensor->dtype) {
    case INTACT_F32:
    case INTACT_C64:
      memcpy(tensor->data, proto->float_data, n * sizeof(float));
      return;
    case INTACT_F64:
      memcpy(tensor->data, proto->double_data, n * sizeof(double));
      return;
    case INTACT_S64:
      memcpy(tensor->data, proto->int64_data, n * sizeof(int64_t));
      return;
    case INTACT_U64:
      memcpy(tensor->data, proto->uint64_data, n * sizeof(uint64_t));
      return;
    case INTACT_U32:
      for (size_t i = 0; i < n; i++) ((uint32_t *)tensor->data)[i] = (uint32_t)proto->uint64_data[i];
      return;
    case INTACT_S32:
      memcpy(tensor->data, proto->int32_data, n * sizeof(int32_t));
      return;
    default:
      break;
  }
  bool wide = intact_dtype_bits(tensor->dtype) == 16;
  for (size_t i = 0; i < n; i++) {
    if (wide) {
      ((uint16_t *)tensor->data)[i] = (uint16_t)proto->int32_data[i];
    } else {
      ((uint8_t *)tensor->data)[i] = (uint8_t)proto->int32_data[i];
    }
  }
}

static intact_status typed_tensor(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what,
                                  intact_dtype dtype, size_t count, intact_tensor **tensor) {
  size_t elements_each, numbers_each;
  size_t n = typed_count(proto, dtype, &elements_each, &numbers_each);
  size_t need = (count + elements_each - 1) / elements_each * numbers_each;
  if (n != need) {
    INTACT_FAIL(file->context, SIZE_MISMATCH, what, "cannot read %s: it holds %zu numbers of type %s, its dims need %zu",
                what, n, intact_dtype_text(dtype), need);
  }
  intact_tensor *made = NULL;
  INTACT_TRY(intact__onnx_spend(file, what, n * sizeof(int64_t)));
  INTACT_TRY(intact__tensor_create_raw(file->context, dtype, (int)proto->n_dims, proto->dims, &made));
  copy_typed(proto, made, n);
  *tensor = made;
  return INTACT_OK;
}

intact_status intact__onnx_tensor(intact_onnx_file *file, const Onnx__TensorProto *proto, const char *what,
                                  intact_tensor **tensor) {
  intact_dtype dtype;
  INTACT_TRY(intact__onnx_dtype(file->context, proto->data_type, what, &dtype));
  INTACT_TRY(check_dims(file, what, proto->n_dims, proto->dims));
  int64_t count;
  size_t bytes;
  if (!intact__shape_bytes(dtype, (int)proto->n_dims, proto->dims, &count, &bytes)) {
    INTACT_FAIL(file->context, OVERFLOW, what, "cannot read %s: the number of its elements overflows 64 bits", what);
  }
  if (proto->segment != NULL) {
    INTACT_FAIL(file->context, UNSUPPORTED_TYPE, what, "cannot read %s: it is stored in segments, which ONNX never defined",
                what);
  }
  if (proto->has_data_location && proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
    intact_mapping *mapping = NULL;
    size_t offset = 0;
    INTACT_TRY(intact__onnx_external_bytes(file, proto, what, bytes, &mapping, &offset));
    return place_tensor(file, what, dtype, (int)proto->n_dims, proto->dims, mapping, offset, bytes, tensor);
  }
  if (!proto->has_raw_data) return typed_tensor(file, proto, what, dtype, (size_t)count, tensor);
  intact_onnx_raw raw = {0, 0};
  if (proto->raw_data.len == sizeof raw) memcpy(&raw, proto->raw_data.data, sizeof raw);
  if (raw.bytes != bytes) {
    INTACT_FAIL(file->context, SIZE_MISMATCH, what, "cannot read %s: it has %llu bytes, its dims need %zu", what,
                (unsigned long long)raw.bytes, bytes);
  }
  return place_tensor(file, what, dtype, (int)proto->n_dims, proto->dims, file->mapping, (size_t)raw.offset, bytes, tensor);
}

/* Puts the non-zero elements into place. Indices are positions in row-major order [n], or coordinates [n, rank]. */
static intact_status scatter(intact_onnx_file *file, const char *what, const intact_tensor *values,
                             const intact_tensor *indices, intact_tensor *dense) {
  bool linear = indices->rank == 1 && indices->dims[0] == values->count;
  bool coordinates = indices->rank == 2 && indices->dims[0] == values->count && indices->dims[1] == dense->rank;
  if (indices->dtype != INTACT_S64 || (!linear && !coordinates)) {
    INTACT_FAIL(file->context, SIZE_MISMATCH, what,
                "cannot read %s: its indices must be int64 of shape [values] or [values, rank] for its %lld values", what,
                (long long)values->count);
  }
  const int64_t *index = indices->data;
  size_t element = (size_t)intact_dtype_bits(dense->dtype) / 8;
  for (int64_t i = 0; i < values->count; i++) {
    int64_t at = 0;
    bool inside = true;
    for (int d = 0; d < (linear ? 1 : dense->rank); d++) {
      int64_t size = linear ? dense->count : dense->dims[d], x = *index++;
      if (x < 0 || x >= size) inside = false;
      if (inside) at = at * size + x;
    }
    if (!inside || at >= dense->count) {
      INTACT_FAIL(file->context, OUT_OF_RANGE, what, "cannot read %s: the index of its value %lld lies outside of its dims",
                  what, (long long)i);
    }
    memcpy((char *)dense->data + (size_t)at * element, (const char *)values->data + (size_t)i * element, element);
  }
  return INTACT_OK;
}

intact_status intact__onnx_sparse_tensor(intact_onnx_file *file, const Onnx__SparseTensorProto *proto, const char *what,
                                         intact_tensor **tensor) {
  intact_context *context = file->context;
  if (proto->values == NULL || proto->indices == NULL) {
    INTACT_FAIL(context, MISSING_FIELD, what, "cannot read %s: a sparse tensor needs values and indices", what);
  }
  INTACT_TRY(check_dims(file, what, proto->n_dims, proto->dims));
  intact_tensor *values = NULL, *indices = NULL, *dense = NULL;
  intact_status status = intact__onnx_tensor(file, proto->values, what, &values);
  INTACT_TRY_TO(done, status);
  INTACT_TRY_TO(done, intact__onnx_tensor(file, proto->indices, what, &indices));
  if (intact_dtype_bits(values->dtype) < 8) {
    INTACT_FAIL_TO(done, context, UNSUPPORTED_TYPE, what, "cannot read %s: a sparse tensor of type %s", what,
                   intact_dtype_text(values->dtype));
  }
  int64_t count;
  size_t bytes;
  bool fits = intact__shape_bytes(values->dtype, (int)proto->n_dims, proto->dims, &count, &bytes);
  if (!fits || count / SPARSE_RATIO > SPARSE_BASE / SPARSE_RATIO + values->count) {
    INTACT_FAIL_TO(done, context, OVERFLOW, what,
                   "cannot read %s: its dense form would be over %d times as large as its %lld values", what,
                   (int)SPARSE_RATIO, (long long)values->count);
  }
  INTACT_TRY_TO(done, intact__onnx_spend(file, what, bytes));
  INTACT_TRY_TO(done, intact_tensor_create(context, values->dtype, (int)proto->n_dims, proto->dims, &dense));
  INTACT_TRY_TO(done, scatter(file, what, values, indices, dense));
  *tensor = dense;
  dense = NULL;
done:
  intact_tensor_destroy(values);
  intact_tensor_destroy(indices);
  intact_tensor_destroy(dense);
  return status;
}
