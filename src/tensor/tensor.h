/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of tensors and qparams. */
#ifndef INTACT_TENSOR_TENSOR_H
#define INTACT_TENSOR_TENSOR_H

#include "base/arena.h"
#include "base/file.h"
#include "intact/tensor.h"

typedef struct intact_storage intact_storage; /* counted bytes: heap, borrowed, or part of a mapping */

struct intact_tensor {
  intact_context *context;
  intact_storage *storage;
  intact_dtype dtype;
  int rank;
  int64_t dims[INTACT_MAX_RANK];
  int64_t count; /* product of dims; 1 for rank 0 */
  void *data;
};

/* Makes a tensor another context's, which has the same allocator. */
void intact__tensor_move(intact_tensor *tensor, intact_context *context);
/* Another holder of the same elements, in a context with the same allocator. */
intact_status intact__tensor_share_in(intact_context *context, const intact_tensor *tensor, intact_tensor **other);
/* Elements not cleared. */
intact_status intact__tensor_create_raw(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                        intact_tensor **tensor);
/* Elements inside a mapping (which is retained). The caller has checked the range. */
intact_status intact__tensor_map(intact_context *context, intact_dtype dtype, int rank, const int64_t *dims,
                                 intact_mapping *mapping, size_t offset, intact_tensor **tensor);
/* Lets the memory of elements first .. first+count-1 go when they lie in a mapping (see intact__mapping_forget). */
void intact__tensor_forget(const intact_tensor *tensor, int64_t first, int64_t count);
/* How often the elements were opened for writing through intact_tensor_mutable_data, by any handle. */
uint32_t intact__tensor_version(const intact_tensor *tensor);
bool intact__tensor_is_sole(const intact_tensor *tensor); /* no other handle shares the elements */
intact_status intact__tensor_scalar_f32(intact_context *context, float value, intact_tensor **tensor);
intact_status intact__tensor_from_s64(intact_context *context, int rank, const int64_t *dims, const int64_t *values,
                                      intact_tensor **tensor);

/* Checked product of dims into *count and bytes into *bytes (packed sub-byte types round up); false on overflow or a
   negative dim. */
bool intact__shape_bytes(intact_dtype dtype, int rank, const int64_t *dims, int64_t *count, size_t *bytes);
/* "[2,3,4]" into buffer (of at least 160 bytes); returns buffer. Negative dims print as ?. */
const char *intact__shape_text(int rank, const int64_t *dims, char *buffer);
bool intact__shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* NumPy broadcasting of two shapes; false when they do not fit. */
bool intact__broadcast_shapes(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);

/* Element i read as double / int64 whatever the type (4- and 2-bit types are unpacked, low bits first). */
double intact__tensor_get_f64(const intact_tensor *tensor, int64_t i);
int64_t intact__tensor_get_s64(const intact_tensor *tensor, int64_t i);
void intact__tensor_set_f64(intact_tensor *tensor, int64_t i, double value); /* rounds to even, saturates integers */
void intact__tensor_set_s64(intact_tensor *tensor, int64_t i, int64_t value);
static inline float *intact__f32(const intact_tensor *tensor) { return (float *)tensor->data; }

/* Single conversions, round to nearest even, saturating where the type has no infinity. */
float intact__f16_to_f32(uint16_t bits);
uint16_t intact__f32_to_f16(float value);
float intact__bf16_to_f32(uint16_t bits);
uint16_t intact__f32_to_bf16(float value);
float intact__f8_to_f32(intact_dtype dtype, uint8_t bits);
uint8_t intact__f32_to_f8(intact_dtype dtype, float value, bool saturate);

/* qparams in an arena. */
intact_qparams *intact__qparams_create(intact_arena *arena, intact_qscheme scheme, intact_dtype dtype, int64_t quant_min,
                                       int64_t quant_max, int axis, int64_t n, const float *scale, const int32_t *zero_point);
intact_qparams *intact__qparams_copy(intact_arena *arena, const intact_qparams *qparams);
/* Same scheme kind, type, range and bit-equal scales and zero points. */
bool intact__qparams_equal(const intact_qparams *a, const intact_qparams *b);
/* tensor/qtensor.c: whole tensors by the rule of kernels/affine, z + rne(x * (1/s)) clamped to quant_min..quant_max, per
   tensor, channel or group; any float type in, float32 out, 2- and 4-bit codes packed. `divide`: the rule "divide" of ONNX,
   x / s instead of x * (1/s). Errors: size-mismatch, out-of-range, type-mismatch, unsupported-type. */
intact_status intact__dequantize_tensor(const intact_tensor *q, const intact_qparams *qparams, intact_tensor **x);
intact_status intact__quantize_tensor(const intact_tensor *x, const intact_qparams *qparams, intact_tensor **q);
/* The same numbers under other qparams (NULL: a plain tensor, float32 where it was quantized); shared when nothing changes. */
intact_status intact__tensor_under(const intact_tensor *tensor, const intact_qparams *from, const intact_qparams *to,
                                   intact_tensor **other);
intact_status intact__quantize_tensor_by(const intact_tensor *x, const intact_qparams *qparams, bool divide, intact_tensor **q);

#endif
