/* SPDX-License-Identifier: Apache-2.0 */
/* torchao's primitives: qparams, quantize and dequantize by blocks of any size. */
#include <string.h>

#include "kernels/affine/choose_qparams.h"
#include "kernels/affine/statistics.h"
#include "ops/common.h"
#include "tensor/blocks.h"

static intact_status fail_type(const intact_call *call, const char *what, intact_dtype dtype, const char *wanted) {
  INTACT_FAIL(call->context, TYPE_MISMATCH, call->node->name, "%s '%s': %s is %s; it must be %s", call->node->op->name,
              call->node->name, what, intact_dtype_text(dtype), wanted);
}

static intact_status blocks_of(const intact_call *call, intact_blocks *blocks) {
  const intact_attr *block = intact__attr(call->node, "block_size");
  const intact_tensor *x = call->operands[0];
  return intact__blocks_create(call->context, call->node->name, x->rank, x->dims, block->n, block->ints, blocks);
}

static intact_status range_attrs(const intact_call *call, const char *dtype_name, intact_dtype *dtype, int64_t *low, int64_t *high) {
  const intact_attr *min = intact__attr(call->node, "quant_min"), *max = intact__attr(call->node, "quant_max");
  *dtype = (intact_dtype)intact__attr_int(call->node, dtype_name);
  if (!intact_dtype_is_integer(*dtype) || intact_dtype_bits(*dtype) > 32)
    return fail_type(call, dtype_name, *dtype, "an integer type of up to 32 bits");
  *low = min->present ? min->i : intact_dtype_min(*dtype);
  *high = max->present ? max->i : intact_dtype_max(*dtype);
  if (*low > *high || *low < intact_dtype_min(*dtype) || *high > intact_dtype_max(*dtype))
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "%s '%s': range %lld..%lld is not within %s", call->node->op->name,
                call->node->name, (long long)*low, (long long)*high, intact_dtype_text(*dtype));
  return INTACT_OK;
}

static intact_status check_qparams(const intact_call *call, const intact_blocks *blocks) {
  const intact_tensor *scale = call->operands[1], *zero = call->n_operands > 2 ? call->operands[2] : NULL;
  if (!intact_dtype_is_float(scale->dtype)) return fail_type(call, "scale", scale->dtype, "a floating-point type");
  if (scale->count != blocks->n || (zero && zero->count != blocks->n))
    INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name, "%s '%s': %lld scales and %lld zero points for %lld blocks",
                call->node->op->name, call->node->name, (long long)scale->count, zero ? (long long)zero->count : 0LL,
                (long long)blocks->n);
  return INTACT_OK;
}

static int64_t zero_of(const intact_call *call, int64_t block) {
  const intact_tensor *zero = call->n_operands > 2 ? call->operands[2] : NULL;
  return zero ? intact__clamp_s64(intact__round_s64(intact__tensor_get_f64(zero, block)), INT32_MIN, INT32_MAX) : 0;
}

/* ---- quantize_affine, dequantize_affine ---- */

static intact_status eval_quantize(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_blocks blocks;
  intact_dtype dtype;
  int64_t low, high;
  intact_tensor *q;
  INTACT_TRY(blocks_of(call, &blocks));
  INTACT_TRY(range_attrs(call, "output_dtype", &dtype, &low, &high));
  INTACT_TRY(check_qparams(call, &blocks));
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "input", x->dtype, "a floating-point type");
  INTACT_TRY(intact__call_result(call, 0, dtype, x->rank, x->dims, &q));
  for (int64_t i = 0; i < x->count; i++) {
    int64_t block = intact__block_of(&blocks, i);
    float scale = (float)intact__tensor_get_f64(call->operands[1], block);
    const intact_affine affine = intact__affine(scale, (int32_t)zero_of(call, block), low, high);
    intact__tensor_set_s64(q, i, intact__quantize_one((float)intact__tensor_get_f64(x, i), &affine));
  }
  return INTACT_OK;
}

static intact_status eval_dequantize(const intact_call *call) {
  const intact_tensor *q = call->operands[0];
  intact_blocks blocks;
  intact_tensor *x;
  intact_dtype out = (intact_dtype)intact__attr_int(call->node, "output_dtype");
  INTACT_TRY(blocks_of(call, &blocks));
  INTACT_TRY(check_qparams(call, &blocks));
  if (!intact_dtype_is_integer(q->dtype)) return fail_type(call, "input", q->dtype, "an integer type");
  if (!intact_dtype_is_float(out)) return fail_type(call, "output_dtype", out, "a floating-point type");
  INTACT_TRY(intact__call_result(call, 0, out, q->rank, q->dims, &x));
  for (int64_t i = 0; i < q->count; i++) {
    int64_t block = intact__block_of(&blocks, i);
    float scale = (float)intact__tensor_get_f64(call->operands[1], block);
    intact__tensor_set_f64(x, i, (double)intact__dequantize_one(intact__tensor_get_s64(q, i), scale, (int32_t)zero_of(call, block)));
  }
  return INTACT_OK;
}

static intact_status infer_output(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  return intact__infer_result(infer, 0, (intact_dtype)intact__attr_int(infer->node, "output_dtype"), x->rank, x->dims);
}

#define BLOCK_ATTR {.name = "block_size", .type = INTACT_ATTR_INTS, .required = true}
#define RANGE_ATTRS {.name = "quant_min", .type = INTACT_ATTR_INT, .nullable = true}, \
                    {.name = "quant_max", .type = INTACT_ATTR_INT, .nullable = true}
#define BLOCK_OPERANDS                                                                          \
  INTACT_OPERANDS({"input", INTACT_ROLE_ACTIVATION, 0}, {"scale", INTACT_ROLE_NONE, 0},         \
                  {"zero_point", INTACT_ROLE_NONE, INTACT_OPTIONAL})
#define BLOCK_TRAITS {.result = INTACT_RESULT_NONE, .no_quantize = true}

const intact_op intact_op_quantize_affine = {
    .name = "quantize_affine",
    .doc = "clamp(rne(x * (1/scale)) + zero_point) with a scale and zero point for every block.",
    .schema = {BLOCK_OPERANDS, INTACT_RESULTS("q"),
               INTACT_ATTRS(BLOCK_ATTR, {.name = "output_dtype", .type = INTACT_ATTR_DTYPE, .i = INTACT_S8}, RANGE_ATTRS)},
    .infer = infer_output,
    .eval_f32 = eval_quantize,
    .grad = intact__grad_straight_through,
    .quant = BLOCK_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "torchao::quantize_affine", 0, 0,
                                       "block_size=block_size,output_dtype=output_dtype,quant_min=quant_min,quant_max=quant_max", NULL},
                                      {0}},
};

const intact_op intact_op_dequantize_affine = {
    .name = "dequantize_affine",
    .doc = "(q - zero_point) * scale with a scale and zero point for every block.",
    .schema = {BLOCK_OPERANDS, INTACT_RESULTS("x"),
               INTACT_ATTRS(BLOCK_ATTR, {.name = "output_dtype", .type = INTACT_ATTR_DTYPE, .i = INTACT_F32})},
    .infer = infer_output,
    .eval_f32 = eval_dequantize,
    .grad = intact__grad_straight_through,
    .quant = BLOCK_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "torchao::dequantize_affine", 0, 0, "block_size=block_size,output_dtype=output_dtype", NULL},
                                      {0}},
};

/* ---- choose_qparams_affine ---- */

static intact_status mapping_attr(const intact_call *call, intact_range_mapping *mapping) {
  const char *text = intact__attr_string(call->node, "mapping_type");
  if (strcmp(text, "symmetric") == 0) {
    *mapping = INTACT_MAPPING_SYMMETRIC;
  } else if (strcmp(text, "asymmetric") == 0) {
    *mapping = INTACT_MAPPING_AFFINE;
  } else if (strcmp(text, "symmetric_no_clipping_err") == 0) {
    *mapping = INTACT_MAPPING_SYMMETRIC_NO_CLIPPING;
  } else {
    INTACT_FAIL(call->context, INVALID_VALUE, call->node->name, "%s '%s': mapping_type '%s' is not symmetric, asymmetric or "
                "symmetric_no_clipping_err", call->node->op->name, call->node->name, text);
  }
  return INTACT_OK;
}

static intact_status eval_choose(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_blocks blocks;
  intact_dtype dtype;
  int64_t low, high;
  intact_range_mapping mapping = INTACT_MAPPING_AFFINE;
  intact_tensor *scale, *zero;
  INTACT_TRY(blocks_of(call, &blocks));
  INTACT_TRY(range_attrs(call, "target_dtype", &dtype, &low, &high));
  INTACT_TRY(mapping_attr(call, &mapping));
  if (!intact_dtype_is_float(x->dtype)) return fail_type(call, "input", x->dtype, "a floating-point type");
  if (low >= high)
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "%s '%s': range %lld..%lld is empty", call->node->op->name,
                call->node->name, (long long)low, (long long)high);
  INTACT_TRY(intact__call_result(call, 0, INTACT_F32, blocks.value_rank, blocks.value_dims, &scale));
  INTACT_TRY(intact__call_result(call, 1, INTACT_S32, blocks.value_rank, blocks.value_dims, &zero));
  intact_min_max *ranges = intact__alloc(call->context, (size_t)(blocks.n > 0 ? blocks.n : 1), sizeof *ranges);
  if (!ranges) return intact__no_memory(call->context, (size_t)blocks.n * sizeof *ranges);
  for (int64_t i = 0; i < blocks.n; i++) ranges[i] = (intact_min_max)INTACT_MIN_MAX_START;
  for (int64_t i = 0; i < x->count; i++) {
    float v = (float)intact__tensor_get_f64(x, i);
    intact__min_max_array(0, &v, 1, &ranges[intact__block_of(&blocks, i)]);
  }
  const intact_qparams_rule rule = intact__block_rule(mapping, low, high, intact__attr_float(call->node, "eps"));
  for (int64_t i = 0; i < blocks.n; i++)
    intact__qparams_from_range(&rule, ranges[i].low, ranges[i].high, intact__f32(scale) + i, (int32_t *)zero->data + i);
  intact__free(call->context, ranges);
  return INTACT_OK;
}

static intact_status infer_choose(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  const intact_attr *block = intact__attr(infer->node, "block_size");
  bool known = x->rank >= 0;
  for (int i = 0; i < x->rank; i++) known = known && x->dims[i] >= 0;
  if (!known) {
    INTACT_TRY(intact__infer_result(infer, 0, INTACT_F32, -1, NULL));
    return intact__infer_result(infer, 1, INTACT_S32, -1, NULL);
  }
  intact_blocks blocks;
  INTACT_TRY(intact__blocks_create(infer->context, infer->node->name, x->rank, x->dims, block->n, block->ints, &blocks));
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_F32, blocks.value_rank, blocks.value_dims));
  return intact__infer_result(infer, 1, INTACT_S32, blocks.value_rank, blocks.value_dims);
}

const intact_op intact_op_choose_qparams_affine = {
    .name = "choose_qparams_affine",
    .doc = "Scale and zero point of the range of every block of x.",
    .schema = {INTACT_OPERANDS({"input", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("scale", "zero_point"),
               INTACT_ATTRS({.name = "mapping_type", .type = INTACT_ATTR_STRING, .s = "asymmetric"}, BLOCK_ATTR,
                            {.name = "target_dtype", .type = INTACT_ATTR_DTYPE, .i = INTACT_S8}, RANGE_ATTRS,
                            {.name = "eps", .type = INTACT_ATTR_FLOAT, .f = INTACT_DEFAULT_EPS})},
    .infer = infer_choose,
    .eval_f32 = eval_choose,
    .grad = intact__grad_none,
    .quant = BLOCK_TRAITS,
    .aliases = (const intact_alias[]){{"aten", "torchao::choose_qparams_affine", 0, 0,
                                       "mapping_type=mapping_type,block_size=block_size,target_dtype=target_dtype,quant_min=quant_min,"
                                       "quant_max=quant_max,eps=eps",
                                       NULL},
                                      {0}},
};
