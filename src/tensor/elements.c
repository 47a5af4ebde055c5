/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any type as double or int64, and whole-tensor casts. */
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

/* The code of a 4- or 2-bit element, low bits first. */
static unsigned packed_code(const intact_tensor *tensor, int64_t i) {
  const int bits = intact_dtype_bits(tensor->dtype), per_byte = 8 / bits;
  const uint8_t byte = ((const uint8_t *)tensor->data)[i / per_byte];
  return byte >> (int)(i % per_byte) * bits & ((1u << bits) - 1);
}

static void set_packed_code(intact_tensor *tensor, int64_t i, unsigned code) {
  const int bits = intact_dtype_bits(tensor->dtype), per_byte = 8 / bits, shift = (int)(i % per_byte) * bits;
  uint8_t *byte = (uint8_t *)tensor->data + i / per_byte;
  const unsigned mask = ((1u << bits) - 1) << shift;
  *byte = (uint8_t)((*byte & ~mask) | (code << shift & mask));
}

static int64_t sign_extend(unsigned code, int bits) {
  return (int64_t)code - (code >> (bits - 1) ? (int64_t)1 << bits : 0);
}

int64_t intact__tensor_get_s64(const intact_tensor *tensor, int64_t i) {
  const void *data = tensor->data;
  switch (tensor->dtype) {
    case INTACT_S8:
      return ((const int8_t *)data)[i];
    case INTACT_U8:
    case INTACT_BOOL:
      return ((const uint8_t *)data)[i];
    case INTACT_S16:
      return ((const int16_t *)data)[i];
    case INTACT_U16:
      return ((const uint16_t *)data)[i];
    case INTACT_S32:
      return ((const int32_t *)data)[i];
    case INTACT_U32:
      return ((const uint32_t *)data)[i];
    case INTACT_S64:
      return ((const int64_t *)data)[i];
    case INTACT_U64: {
      const uint64_t value = ((const uint64_t *)data)[i];
      return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    case INTACT_U4:
    case INTACT_U2:
      return packed_code(tensor, i);
    case INTACT_S4:
    case INTACT_S2:
      return sign_extend(packed_code(tensor, i), intact_dtype_bits(tensor->dtype));
    default: {
      const double value = intact__tensor_get_f64(tensor, i);
      if (isnan(value)) return 0;
      if (value >= 0x1p63) return INT64_MAX;
      return value < -0x1p63 ? INT64_MIN : (int64_t)value;
    }
  }
}

double intact__tensor_get_f64(const intact_tensor *tensor, int64_t i) {
  const void *data = tensor->data;
  switch (tensor->dtype) {
    case INTACT_F32:
      return (double)((const float *)data)[i];
    case INTACT_F64:
      return ((const double *)data)[i];
    case INTACT_F16:
      return (double)intact__f16_to_f32(((const uint16_t *)data)[i]);
    case INTACT_BF16:
      return (double)intact__bf16_to_f32(((const uint16_t *)data)[i]);
    case INTACT_F8E4M3FN:
    case INTACT_F8E4M3FNUZ:
    case INTACT_F8E5M2:
    case INTACT_F8E5M2FNUZ:
    case INTACT_F8E8M0:
      return (double)intact__f8_to_f32(tensor->dtype, ((const uint8_t *)data)[i]);
    case INTACT_F4E2M1:
      return (double)intact__f8_to_f32(tensor->dtype, (uint8_t)packed_code(tensor, i));
    case INTACT_C64:
      return (double)((const float *)data)[2 * i]; /* the real part */
    case INTACT_U64:
      return (double)((const uint64_t *)data)[i];
    default:
      return (double)intact__tensor_get_s64(tensor, i);
  }
}

static int64_t saturate(intact_dtype dtype, int64_t value) {
  const int64_t low = intact_dtype_min(dtype), high = intact_dtype_max(dtype);
  return value < low ? low : value > high ? high : value;
}

void intact__tensor_set_s64(intact_tensor *tensor, int64_t i, int64_t value) {
  void *data = tensor->data;
  switch (tensor->dtype) {
    case INTACT_S8:
      ((int8_t *)data)[i] = (int8_t)saturate(INTACT_S8, value);
      return;
    case INTACT_U8:
      ((uint8_t *)data)[i] = (uint8_t)saturate(INTACT_U8, value);
      return;
    case INTACT_BOOL:
      ((uint8_t *)data)[i] = value != 0;
      return;
    case INTACT_S16:
      ((int16_t *)data)[i] = (int16_t)saturate(INTACT_S16, value);
      return;
    case INTACT_U16:
      ((uint16_t *)data)[i] = (uint16_t)saturate(INTACT_U16, value);
      return;
    case INTACT_S32:
      ((int32_t *)data)[i] = (int32_t)saturate(INTACT_S32, value);
      return;
    case INTACT_U32:
      ((uint32_t *)data)[i] = (uint32_t)saturate(INTACT_U32, value);
      return;
    case INTACT_S64:
      ((int64_t *)data)[i] = value;
      return;
    case INTACT_U64:
      ((uint64_t *)data)[i] = value < 0 ? 0 : (uint64_t)value;
      return;
    case INTACT_S4:
    case INTACT_U4:
    case INTACT_S2:
    case INTACT_U2:
      set_packed_code(tensor, i, (unsigned)saturate(tensor->dtype, value));
      return;
    default:
      intact__tensor_set_f64(tensor, i, (double)value);
  }
}

void intact__tensor_set_f64(intact_tensor *tensor, int64_t i, double value) {
  void *data = tensor->data;
  switch (tensor->dtype) {
    case INTACT_F32:
      ((float *)data)[i] = (float)value;
      return;
    case INTACT_F64:
      ((double *)data)[i] = value;
      return;
    case INTACT_F16:
      ((uint16_t *)data)[i] = intact__f32_to_f16((float)value);
      return;
    case INTACT_BF16:
      ((uint16_t *)data)[i] = intact__f32_to_bf16((float)value);
      return;
    case INTACT_F8E4M3FN:
    case INTACT_F8E4M3FNUZ:
    case INTACT_F8E5M2:
    case INTACT_F8E5M2FNUZ:
    case INTACT_F8E8M0:
      ((uint8_t *)data)[i] = intact__f32_to_f8(tensor->dtype, (float)value, false);
      return;
    case INTACT_F4E2M1:
      set_packed_code(tensor, i, intact__f32_to_f8(tensor->dtype, (float)value, true));
      return;
    case INTACT_C64:
      ((float *)data)[2 * i] = (float)value;
      ((float *)data)[2 * i + 1] = 0;
      return;
    case INTACT_BOOL:
      ((uint8_t *)data)[i] = value != 0;
      return;
    default: {
      const double rounded = isnan(value) ? 0 : nearbyint(value);
      const int64_t whole = rounded >= 0x1p63 ? INT64_MAX : rounded < -0x1p63 ? INT64_MIN : (int64_t)rounded;
      intact__tensor_set_s64(tensor, i, whole);
    }
  }
}

intact_status intact_tensor_cast(const intact_tensor *tensor, intact_dtype dtype, intact_tensor **result) {
  if (tensor->dtype == dtype) return intact_tensor_copy(tensor, result);
  intact_tensor *t;
  INTACT_TRY(intact_tensor_create(tensor->context, dtype, tensor->rank, tensor->dims, &t));
  const bool whole = !intact_dtype_is_float(tensor->dtype) && tensor->dtype != INTACT_C64;
  const bool to_whole = !intact_dtype_is_float(dtype) && dtype != INTACT_C64;
  for (int64_t i = 0; i < t->count; i++) {
    if (whole && to_whole)
      intact__tensor_set_s64(t, i, intact__tensor_get_s64(tensor, i));
    else if (to_whole && dtype != INTACT_BOOL)
      intact__tensor_set_s64(t, i, intact__tensor_get_s64(tensor, i)); /* float to integer truncates, as casts do */
    else
      intact__tensor_set_f64(t, i, intact__tensor_get_f64(tensor, i));
  }
  *result = t;
  return INTACT_OK;
}
