/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of QuantizeLinear and DequantizeLinear. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

static intact_status read_attributes(intact_onnx_node *node, int64_t *axis, int64_t *block) {
  INTACT_TRY(intact__onnx_attr_int(node, "axis", 1, axis));
  INTACT_TRY(intact__onnx_attr_int(node, "block_size", 0, block));
  if (*block < 0) {
    INTACT_FAIL(node->context, INVALID_VALUE, node->name,
                "cannot read node '%s' (%s): block_size is %lld; it must not be negative", node->name, node->op,
                (long long)*block);
  }
  return INTACT_OK;
}

static intact_status stored_type(intact_onnx_node *node, intact_dtype *dtype) {
  const intact_value *zero_point = intact__onnx_input(node, 2);
  int64_t output;
  INTACT_TRY(intact__onnx_attr_int(node, "output_dtype", 0, &output));
  *dtype = INTACT_U8;
  if (output != 0) INTACT_TRY(intact__onnx_dtype(node->context, output, node->name, dtype));
  if (zero_point == NULL) return INTACT_OK;
  if (output != 0 && *dtype != zero_point->dtype) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
                "cannot read node '%s' (%s): output_dtype is %s, its zero point '%s' is %s", node->name, node->op,
                intact_dtype_text(*dtype), zero_point->name, intact_dtype_text(zero_point->dtype));
  }
  *dtype = zero_point->dtype;
  return INTACT_OK;
}

/* A constant is quantized at once. */
static intact_status quantize_constant(intact_onnx_node *node, const intact_value *x, const intact_qparams *qparams) {
  intact_tensor *codes = NULL;
  intact_value *value = NULL;
  INTACT_TRY(intact__quantize_tensor_by(x->constant, qparams, true, &codes));
  INTACT_TRY(intact__onnx_constant(node, "codes", codes, NULL, &value));
  INTACT_TRY(intact__onnx_carry(node, value, qparams, &value));
  return intact__onnx_bind(node, 0, value);
}

/* rne(x / scale) + zero point, clamped, with scale or zero point computed by the model, or to a floating-point type. */
static intact_status quantize_by_arithmetic(intact_onnx_node *node, intact_value *x, intact_dtype dtype) {
  intact_value *scale = intact__onnx_input(node, 1), *zero_point = intact__onnx_input(node, 2), *value = NULL;
  bool to_float = intact_dtype_is_float(dtype);
  if (scale->rank != 0 && !(scale->constant != NULL && scale->constant->count == 1)) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): scales per channel or block must be constants of integer quantization",
                node->name, node->op);
  }
  INTACT_TRY(intact__onnx_cast(node, "x", x, INTACT_F32, &x));
  INTACT_TRY(intact__onnx_cast(node, "scale", scale, INTACT_F32, &scale));
  INTACT_TRY(intact__onnx_one(node, "div", "steps", x, scale, &value));
  if (!to_float) {
    INTACT_TRY(intact__onnx_one(node, "round", "whole", value, NULL, &value));
    if (zero_point != NULL) {
      INTACT_TRY(intact__onnx_cast(node, "zero_point", zero_point, INTACT_F32, &zero_point));
      INTACT_TRY(intact__onnx_one(node, "add", "code", value, zero_point, &value));
    }
    intact_node *clamp = NULL;
    INTACT_TRY(intact__onnx_add(node, "clamp", "cut", 1, &value, &clamp));
    intact__attr_set_float(clamp, "min", (double)intact_dtype_min(dtype));
    intact__attr_set_float(clamp, "max", (double)intact_dtype_max(dtype));
    INTACT_TRY(intact__node_infer(clamp));
    value = clamp->results[0];
  }
  int64_t saturate;
  INTACT_TRY(intact__onnx_attr_int(node, "saturate", 1, &saturate));
  INTACT_TRY(intact__onnx_make_as(node, "cast", 1, &value));
  intact__attr_set_int(node->made, "dtype", dtype);
  if (saturate == 0) intact__attr_set_int(node->made, "saturate", 0);
  return INTACT_OK;
}

static intact_status quantize_linear(intact_onnx_node *node) {
  intact_value *x = intact__onnx_input(node, 0);
  int64_t axis, block;
  intact_dtype dtype;
  INTACT_TRY(read_attributes(node, &axis, &block));
  INTACT_TRY(stored_type(node, &dtype));
  intact__onnx_ignore(node, "saturate,precision");
  if (x == NULL)
    INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): it has no input", node->name,
                node->op);
  const intact_qparams *qparams = NULL;
  INTACT_TRY(
      intact__onnx_qparams(node, intact__onnx_input(node, 1), intact__onnx_input(node, 2), dtype, axis, block, x, &qparams));
  if (qparams == NULL) return quantize_by_arithmetic(node, x, dtype);
  if (x->constant != NULL && x->qparams == NULL) return quantize_constant(node, x, qparams);
  if (!intact_dtype_is_float(x->dtype)) INTACT_TRY(intact__onnx_cast(node, "x", x, INTACT_F32, &x));
  INTACT_TRY(intact__onnx_make(node, 1, &x));
  INTACT_TRY(intact__attr_set_string(node->made, "rule", "divide"));
  return intact__value_set_qparams(node->graph, node->made->results[0], qparams);
}

static intact_status dequantize_linear(intact_onnx_node *node) {
  int64_t axis, block, output;
  INTACT_TRY(read_attributes(node, &axis, &block));
  INTACT_TRY(intact__onnx_attr_int(node, "output_dtype", 0, &output));
  intact_value *x = intact__onnx_input(node, 0), *scale = intact__onnx_input(node, 1),
               *zero_point = intact__onnx_input(node, 2);
  intact_value *carrier = NULL, *real = NULL;
  const intact_qparams *qparams = NULL;
  if (x != NULL) INTACT_TRY(intact__onnx_qparams(node, scale, zero_point, x->dtype, axis, block, x, &qparams));
  if (qparams != NULL) INTACT_TRY(intact__onnx_carry(node, x, qparams, &carrier));
  intact_dtype dtype = scale == NULL ? INTACT_F32 : scale->dtype;
  if (output != 0) INTACT_TRY(intact__onnx_dtype(node->context, output, node->name, &dtype));
  if (carrier != NULL && dtype == INTACT_F32) return intact__onnx_make(node, 1, &carrier);
  INTACT_TRY(intact__onnx_dequantize(node, "", carrier != NULL ? carrier : x, scale, zero_point, axis, block, &real));
  INTACT_TRY(intact__onnx_cast(node, "cast", real, dtype, &real));
  return intact__onnx_bind(node, 0, real);
}

const intact_onnx_fixup intact__onnx_fixups_quantize[] = {
    INTACT_ONNX_FIXUP_OF_CODES(dequantize_linear),
    INTACT_ONNX_FIXUP(quantize_linear),
    INTACT_ONNX_FIXUPS_END,
};
