/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, tensors and quantization parameters. */
#ifndef INTACT_TENSOR_H
#define INTACT_TENSOR_H

#include "intact/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* enumerator, name in texts and files, bits per element, kind (f float, s signed, u unsigned, b bool), safetensors name,
   ONNX TensorProto.DataType */
#define INTACT_DTYPE_MAP(XX)                            \
  XX(F32, "f32", 32, 'f', "F32", 1)                     \
  XX(F16, "f16", 16, 'f', "F16", 10)                    \
  XX(BF16, "bf16", 16, 'f', "BF16", 16)                 \
  XX(F64, "f64", 64, 'f', "F64", 11)                    \
  XX(S8, "s8", 8, 's', "I8", 3)                         \
  XX(U8, "u8", 8, 'u', "U8", 2)                         \
  XX(S16, "s16", 16, 's', "I16", 5)                     \
  XX(U16, "u16", 16, 'u', "U16", 4)                     \
  XX(S32, "s32", 32, 's', "I32", 6)                     \
  XX(U32, "u32", 32, 'u', "U32", 12)                    \
  XX(S64, "s64", 64, 's', "I64", 7)                     \
  XX(U64, "u64", 64, 'u', "U64", 13)                    \
  XX(BOOL, "bool", 8, 'b', "BOOL", 9)                   \
  XX(S4, "s4", 4, 's', "", 22)                          \
  XX(U4, "u4", 4, 'u', "", 21)                          \
  XX(S2, "s2", 2, 's', "", 26)                          \
  XX(U2, "u2", 2, 'u', "", 25)                          \
  XX(F8E4M3FN, "f8e4m3fn", 8, 'f', "F8_E4M3", 17)       \
  XX(F8E4M3FNUZ, "f8e4m3fnuz", 8, 'f', "F8_E4M3FNUZ", 18) \
  XX(F8E5M2, "f8e5m2", 8, 'f', "F8_E5M2", 19)           \
  XX(F8E5M2FNUZ, "f8e5m2fnuz", 8, 'f', "F8_E5M2FNUZ", 20) \
  XX(F8E8M0, "f8e8m0", 8, 'f', "F8_E8M0", 24)           \
  XX(F4E2M1, "f4e2m1", 4, 'f', "F4", 23)                \
  XX(C64, "c64", 64, 'c', "C64", 14)

typedef enum intact_dtype {
#define XX(name, text, bits, kind, safetensors, onnx) INTACT_##name,
  INTACT_DTYPE_MAP(XX)
#undef XX
  INTACT_DTYPE_COUNT
} intact_dtype;

INTACT_API const char *intact_dtype_text(intact_dtype dtype);
INTACT_API int intact_dtype_bits(intact_dtype dtype);
INTACT_API bool intact_dtype_from_text(const char *text, intact_dtype *dtype);
INTACT_API bool intact_dtype_is_float(intact_dtype dtype);
INTACT_API bool intact_dtype_is_integer(intact_dtype dtype); /* bool is not */
/* Smallest and largest integer of an integer type (u64 is cut to INT64_MAX). */
INTACT_API int64_t intact_dtype_min(intact_dtype dtype);
INTACT_API int64_t intact_dtype_max(intact_dtype dtype);

#define INTACT_MAX_RANK 8

/* PyTorch's schemes; per_group is per channel along `axis` in blocks of `group` elements. */
#define INTACT_QSCHEME_MAP(XX)                                             \
  XX(PER_TENSOR_AFFINE, "per_tensor_affine")                               \
  XX(PER_TENSOR_SYMMETRIC, "per_tensor_symmetric")                         \
  XX(PER_CHANNEL_AFFINE, "per_channel_affine")                             \
  XX(PER_CHANNEL_SYMMETRIC, "per_channel_symmetric")                       \
  XX(PER_CHANNEL_AFFINE_FLOAT_QPARAMS, "per_channel_affine_float_qparams") \
  XX(PER_GROUP_AFFINE, "per_group_affine")

typedef enum intact_qscheme {
#define XX(name, text) INTACT_##name,
  INTACT_QSCHEME_MAP(XX)
#undef XX
  INTACT_QSCHEME_COUNT
} intact_qscheme;

INTACT_API const char *intact_qscheme_text(intact_qscheme scheme);
INTACT_API bool intact_qscheme_from_text(const char *text, intact_qscheme *scheme);

/* real = scale * (q - zero_point), quant_min <= q <= quant_max. Immutable once made; whoever holds a pointer does not own
   it unless said so. scale is float32 and > 0; zero_point lies within the range of dtype. n = 1 per tensor, the length of
   `axis` per channel, all blocks in row-major order of the scale tensor per group. */
typedef struct intact_qparams {
  intact_qscheme scheme;
  intact_dtype dtype; /* stored type of q */
  int64_t quant_min, quant_max;
  int axis;      /* -1 per tensor */
  int64_t group; /* 0, or elements per block along axis */
  int64_t n;
  const float *scale;        /* n */
  const int32_t *zero_point; /* n */
  const float *real_zero_point; /* n, per_channel_affine_float_qparams only (zero_point is then all 0); else NULL */
} intact_qparams;

/* A dense, row-major tensor with shared storage. */
typedef struct intact_tensor intact_tensor;

/* New tensor with zeroed elements. Fails with overflow when the bytes do not fit. */
INTACT_API intact_status intact_tensor_create(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                              intact_tensor **tensor);
/* A tensor over memory that the caller keeps alive and unchanged in place as long as any tensor shares it. */
INTACT_API intact_status intact_tensor_borrow(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                              const void *data, intact_tensor **tensor);
/* Another handle on the same elements, possibly of another shape with the same element count (dims NULL: same shape). */
INTACT_API intact_status intact_tensor_share(const intact_tensor *tensor, int rank, const int64_t *dims, intact_tensor **other);
INTACT_API intact_status intact_tensor_copy(const intact_tensor *tensor, intact_tensor **copy);
/* Takes NULL. Storage goes when its last handle goes. */
INTACT_API void intact_tensor_destroy(intact_tensor *tensor);

INTACT_API intact_dtype intact_tensor_dtype(const intact_tensor *tensor);
INTACT_API int intact_tensor_rank(const intact_tensor *tensor);
INTACT_API const int64_t *intact_tensor_dims(const intact_tensor *tensor);
INTACT_API int64_t intact_tensor_count(const intact_tensor *tensor);
INTACT_API size_t intact_tensor_bytes(const intact_tensor *tensor);
INTACT_API const void *intact_tensor_data(const intact_tensor *tensor);
/* Counts as a change in place, see intact_variable_tensor. */
INTACT_API void *intact_tensor_mutable_data(intact_tensor *tensor);
/* Elements converted to another type; float to integer saturates, NaN becomes 0. */
INTACT_API intact_status intact_tensor_cast(const intact_tensor *tensor, intact_dtype dtype, intact_tensor **result);

#ifdef __cplusplus
}
#endif
#endif
