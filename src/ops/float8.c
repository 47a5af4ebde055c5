/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization to small floats: float8 with a float32 scale, and the MX formats of the OCP (blocks with a shared power of
   two). */
#include <float.h>
#include <string.h>

#include "kernels/affine/affine.h"
#include "ops/common.h"
#include "tensor/blocks.h"

/* Largest finite value, and the exponent of the largest power of two, of a small float type; false for other types. */
static bool small_float(intact_dtype dtype, float *most, int *exponent) {
  switch (dtype) {
    case INTACT_F8E4M3FN: *most = 448.0f; break;
    case INTACT_F8E4M3FNUZ: *most = 240.0f; break;
    case INTACT_F8E5M2:
    case INTACT_F8E5M2FNUZ: *most = 57344.0f; break;
    case INTACT_F4E2M1: *most = 6.0f; break;
    default: return false;
  }
  *exponent = ilogbf(*most);
  return true;
}

static intact_status fail_type(const intact_call *call, const char *what, intact_dtype dtype, const char *wanted) {
  INTACT_FAIL(call->context, TYPE_MISMATCH, call->node->name, "%s '%s': %s is %s; it must be %s", call->node->op->name,
              call->node->name, what, intact_dtype_text(dtype), wanted);
}

/* v rounded half to even into dtype, saturated to +-most; NaN stays NaN where the type has one, else becomes +most. */
static void store_small(intact_tensor *q, int64_t i, float v, float most) {
  if (v > most) v = most;
  if (v < -most) v = -most;
  if (isnan(v) && q->dtype == INTACT_F4E2M1) v = most;
  intact__tensor_set_f64(q, i, (double)v);
}

static intact_status blocks_of(const intact_call *call, const intact_tensor *x, intact_blocks *blocks) {
  const intact_attr *block = intact__attr(call->node, "block_size");
  const int64_t whole[INTACT_MAX_RANK] = {0};
  bool given = block->present && block->n > 0;
  return intact__blocks_create(call->context, call->node->name, x->rank, x->dims, given ? block->n : x->rank,
                               given ? block->ints : whole, blocks);
}

/* ---- float8 with a float32 scale per tensor or block ---- */

static intact_status eval_choose_scale(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_dtype dtype = (intact_dtype)intact__attr_int(call->node, "dtype");
  intact_blocks blocks;
  intact_tensor *scale;
  float most;
  int exponent;
  if (!small_float(dtype, &most, &exponent)) return fail_type(call, "dtype", dtype, "a float type of 8 or 4 bits");
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "input", x->dtype, "a floating-point type");
  INTACT_TRY(blocks_of(call, x, &blocks));
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, blocks.value_rank, blocks.value_dims, &scale));
  for (int64_t i = 0; i < scale->count; i++) intact__f32(scale)[i] = 0.0f;
  for (int64_t i = 0; i < x->count; i++) {
    float v = fabsf((float)intact__tensor_get_f64(x, i)), *s = &intact__f32(scale)[intact__block_of(&blocks, i)];
    if (v <= FLT_MAX && v > *s) *s = v; /* what is not finite does not count */
  }
  float eps = (float)intact__attr_float(call->node, "eps");
  for (int64_t i = 0; i < scale->count; i++) {
    float s = intact__f32(scale)[i] / most;
    intact__f32(scale)[i] = s > eps ? s : eps;
  }
  return INTACT_OK;
}

static intact_status infer_choose_scale(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  const intact_attr *block = intact__attr(infer->node, "block_size");
  const int64_t whole[INTACT_MAX_RANK] = {0};
  bool given = block->present && block->n > 0, known = x->rank >= 0;
  for (int i = 0; i < x->rank; i++) known = known && x->dims[i] >= 0;
  if (!known) return intact__infer_result(infer, 0, INTACT_F32, -1, NULL);
  intact_blocks blocks;
  INTACT_TRY(intact__blocks_create(infer->context, infer->node->name, x->rank, x->dims, given ? block->n : x->rank,
                                   given ? block->ints : whole, &blocks));
  return intact__infer_result(infer, 0, INTACT_F32, blocks.value_rank, blocks.value_dims);
}

static intact_status check_scales(const intact_call *call, const intact_blocks *blocks) {
  const intact_tensor *scale = call->operands[1];
  if (scale->dtype != INTACT_F32) return fail_type(call, "scale", scale->dtype, "f32");
  if (scale->count != blocks->n)
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': %lld scales for %lld blocks", call->node->op->name,
                call->node->name, (long long)scale->count, (long long)blocks->n);
  return INTACT_OK;
}

static intact_status eval_quantize_float8(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_dtype dtype = (intact_dtype)intact__attr_int(call->node, "dtype");
  intact_blocks blocks;
  intact_tensor *q;
  float most;
  int exponent;
  if (!small_float(dtype, &most, &exponent)) return fail_type(call, "dtype", dtype, "a float type of 8 or 4 bits");
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "input", x->dtype, "a floating-point type");
  INTACT_TRY(blocks_of(call, x, &blocks));
  INTACT_TRY(check_scales(call, &blocks));
  INTACT_TRY(intact__call_result(call, 0, dtype, x->rank, x->dims, &q));
  for (int64_t i = 0; i < x->count; i++) {
    float s = intact__f32(call->operands[1])[intact__block_of(&blocks, i)];
    store_small(q, i, (float)intact__tensor_get_f64(x, i) / s, most);
  }
  return INTACT_OK;
}

static intact_status eval_dequantize_float8(const intact_call *call) {
  const intact_tensor *q = call->operands[0];
  intact_blocks blocks;
  intact_tensor *x;
  float most;
  int exponent;
  if (!small_float(q->dtype, &most, &exponent)) return fail_type(call, "input", q->dtype, "a float type of 8 or 4 bits");
  INTACT_TRY(blocks_of(call, q, &blocks));
  INTACT_TRY(check_scales(call, &blocks));
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, q->rank, q->dims, &x));
  for (int64_t i = 0; i < q->count; i++)
    intact__f32(x)[i] = (float)intact__tensor_get_f64(q, i) * intact__f32(call->operands[1])[intact__block_of(&blocks, i)];
  return INTACT_OK;
}

static intact_status infer_codes(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  return intact__infer_result(infer, 0, (intact_dtype)intact__attr_int(infer->node, "dtype"), x->rank, x->dims);
}

static intact_status infer_reals(intact_infer *infer) {
  const intact_value *q = infer->node->operands[0];
  return intact__infer_result(infer, 0, INTACT_F32, q->rank, q->dims);
}

#define SMALL_TRAITS {.result = INTACT_RESULT_NONE, .no_quantize = true}
#define SMALL_DTYPE {.name = "dtype", .type = INTACT_ATTR_DTYPE, .i = INTACT_F8E4M3FN}
#define SMALL_BLOCK {.name = "block_size", .type = INTACT_ATTR_INTS, .nullable = true}

const intact_op intact_op_choose_scale_float8 = {
    .name = "choose_scale_float8",
    .doc = "scale = max(max |x| / largest value of dtype, eps) for the tensor or every block.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scale"),
               INTACT_ATTRS(SMALL_DTYPE, SMALL_BLOCK, {.name = "eps", .type = INTACT_ATTR_FLOAT, .f = 1.1754943508222875e-38})},
    .infer = infer_choose_scale,
    .eval_f32 = eval_choose_scale,
    .grad = intact__grad_none,
    .quant = SMALL_TRAITS,
};

const intact_op intact_op_quantize_float8 = {
    .name = "quantize_float8",
    .doc = "x / scale rounded half to even into a float8 type, saturated to its largest finite value.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_ACTIVATION, 0}, {"scale", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("q"),
               INTACT_ATTRS(SMALL_DTYPE, SMALL_BLOCK)},
    .infer = infer_codes,
    .eval_f32 = eval_quantize_float8,
    .grad = intact__grad_straight_through,
    .quant = SMALL_TRAITS,
};

const intact_op intact_op_dequantize_float8 = {
    .name = "dequantize_float8",
    .doc = "q * scale of a float8 tensor.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}, {"scale", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("x"),
               INTACT_ATTRS(SMALL_BLOCK)},
    .infer = infer_reals,
    .eval_f32 = eval_dequantize_float8,
    .grad = intact__grad_straight_through,
    .quant = SMALL_TRAITS,
};

/* ---- MX ---- */

static intact_status mx_block(const intact_call *call, const intact_tensor *x, intact_blocks *blocks) {
  int64_t block = intact__attr_int(call->node, "block_size");
  if (block < 1)
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "%s '%s': block_size %lld must be 1 or more", call->node->op->name,
                call->node->name, (long long)block);
  return intact__blocks_create(call->context, call->node->name, x->rank, x->dims, 1, &block, blocks);
}

static void mx_scale_dims(int rank, const int64_t *dims, int64_t block, int64_t *scale_dims) {
  for (int i = 0; i < rank; i++) scale_dims[i] = i + 1 < rank ? dims[i] : dims[i] < 0 ? dims[i] : dims[i] / block;
}

/* Shared exponents floor(log2(max |x|)) - exponent of the type's largest power of two, kept within -127..127; a block with
   NaN or infinity gets the NaN scale, all its values then are NaN (OCP MX 1.0, section 6.3). */
static intact_status eval_quantize_mx(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_dtype dtype = (intact_dtype)intact__attr_int(call->node, "dtype");
  intact_blocks blocks;
  intact_tensor *q, *scale;
  float most;
  int top;
  int64_t dims[INTACT_MAX_RANK];
  if (!small_float(dtype, &most, &top)) return fail_type(call, "dtype", dtype, "a float type of 8 or 4 bits");
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "input", x->dtype, "a floating-point type");
  INTACT_TRY(mx_block(call, x, &blocks));
  mx_scale_dims(x->rank, x->dims, intact__attr_int(call->node, "block_size"), dims);
  INTACT_TRY(intact__call_result(call, 0, dtype, x->rank, x->dims, &q));
  INTACT_TRY(intact__call_result(call, 1, INTACT_F8E8M0, x->rank, dims, &scale));
  int64_t block = intact__attr_int(call->node, "block_size");
  for (int64_t b = 0; b < scale->count; b++) {
    float largest = 0.0f;
    bool finite = true;
    for (int64_t i = b * block; i < (b + 1) * block; i++) {
      float v = fabsf((float)intact__tensor_get_f64(x, i));
      finite = finite && v <= FLT_MAX;
      if (v > largest) largest = v;
    }
    int exponent = !finite || largest == 0.0f ? -127 : ilogbf(largest) - top;
    if (exponent < -127) exponent = -127;
    ((uint8_t *)scale->data)[b] = finite ? (uint8_t)(exponent + 127) : 0xff;
    for (int64_t i = b * block; i < (b + 1) * block; i++) {
      double v = finite ? ldexp(intact__tensor_get_f64(x, i), -exponent) : 0.0;
      store_small(q, i, (float)v, most);
    }
  }
  return INTACT_OK;
}

static intact_status infer_quantize_mx(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int64_t block = intact__attr_int(infer->node, "block_size"), dims[INTACT_MAX_RANK];
  mx_scale_dims(x->rank, x->dims, block > 0 ? block : 1, dims);
  INTACT_TRY(intact__infer_result(infer, 0, (intact_dtype)intact__attr_int(infer->node, "dtype"), x->rank, x->dims));
  if (x->rank > 0 && x->dims[x->rank - 1] < 0) dims[x->rank - 1] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 1, INTACT_F8E8M0, x->rank, dims);
}

static intact_status eval_dequantize_mx(const intact_call *call) {
  const intact_tensor *q = call->operands[0], *scale = call->operands[1];
  intact_blocks blocks;
  intact_tensor *x;
  float most;
  int top;
  if (!small_float(q->dtype, &most, &top)) return fail_type(call, "input", q->dtype, "a float type of 8 or 4 bits");
  if (scale->dtype != INTACT_F8E8M0) return fail_type(call, "scale", scale->dtype, "f8e8m0");
  INTACT_TRY(mx_block(call, q, &blocks));
  if (scale->count != blocks.n)
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': %lld scales for %lld blocks", call->node->op->name,
                call->node->name, (long long)scale->count, (long long)blocks.n);
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, q->rank, q->dims, &x));
  for (int64_t i = 0; i < q->count; i++)
    intact__f32(x)[i] = (float)(intact__tensor_get_f64(q, i) * intact__tensor_get_f64(scale, intact__block_of(&blocks, i)));
  return INTACT_OK;
}

#define MX_BLOCK {.name = "block_size", .type = INTACT_ATTR_INT, .i = 32}

const intact_op intact_op_quantize_mx = {
    .name = "quantize_mx",
    .doc = "MX block format: every block_size elements of the last axis share a power of two; elements are rounded half to even.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("q", "scale"), INTACT_ATTRS(SMALL_DTYPE, MX_BLOCK)},
    .infer = infer_quantize_mx,
    .eval_f32 = eval_quantize_mx,
    .grad = intact__grad_straight_through,
    .quant = SMALL_TRAITS,
};

const intact_op intact_op_dequantize_mx = {
    .name = "dequantize_mx",
    .doc = "q * 2^shared exponent of an MX block format.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}, {"scale", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("x"),
               INTACT_ATTRS(MX_BLOCK)},
    .infer = infer_reals,
    .eval_f32 = eval_dequantize_mx,
    .grad = intact__grad_straight_through,
    .quant = SMALL_TRAITS,
};
