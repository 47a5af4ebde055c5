/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized values in ONNX: scales, zero points, QuantizeLinear and DequantizeLinear. */
#include <string.h>

#include "io/onnx/onnx_export.h"

/* Scale and zero point of a value are written once and shared by its quantize and dequantize nodes. Per tensor they have no
   axes (ONNX Runtime's integer kernels ask for that); int32 has no zero point. */
static intact_status write_qparams(intact_onnx_out *out, const char *base, const intact_qparams *q,
                                   const intact_tensor *like, const char **scale, const char **zero_point) {
  intact_context *context = out->output->context;
  int64_t dims[INTACT_MAX_RANK] = {q->n};
  int rank = q->axis < 0 ? 0 : 1;
  if (q->axis >= 0 && q->group > 0) {
    if (like == NULL || like->rank < 1) {
      INTACT_FAIL(context, INTERNAL, base, "'%s' is quantized in blocks and is no constant", base);
    }
    rank = like->rank;
    memcpy(dims, like->dims, sizeof dims);
    dims[q->axis] = dims[q->axis] / q->group + (dims[q->axis] % q->group != 0);
  }
  intact_tensor *scales = NULL, *zeros = NULL;
  intact_status status = intact_tensor_create(context, INTACT_F32, rank, dims, &scales);
  if (status == INTACT_OK) status = intact_tensor_create(context, q->dtype, rank, dims, &zeros);
  for (int64_t i = 0; status == INTACT_OK && i < q->n; i++) {
    intact__f32(scales)[i] = q->scale[i];
    intact__tensor_set_s64(zeros, i, q->zero_point[i]);
  }
  if (status == INTACT_OK) status = intact__onnx_out_keep(out, base, "scale", scales, scale);
  *zero_point = NULL;
  if (status == INTACT_OK && q->dtype != INTACT_S32)
    status = intact__onnx_out_keep(out, base, "zero_point", zeros, zero_point);
  intact_tensor_destroy(scales);
  intact_tensor_destroy(zeros);
  return status;
}

static intact_status add_scale(intact_onnx_out *out, Onnx__NodeProto *node, const intact_qparams *q,
                               const intact_onnx_scale *scale) {
  INTACT_TRY(intact__onnx_out_input(out, node, scale->scale));
  if (scale->zero_point != NULL) INTACT_TRY(intact__onnx_out_input(out, node, scale->zero_point));
  if (q->axis >= 0) INTACT_TRY(intact__onnx_out_int(out, node, "axis", q->axis));
  bool wide = intact_dtype_bits(q->dtype) < 8 || intact_dtype_bits(q->dtype) == 16;
  if (wide || q->group > 0) intact__onnx_out_needs(out, INTACT_ONNX_OPSET_WIDE);
  return q->group > 0 ? intact__onnx_out_int(out, node, "block_size", q->group) : INTACT_OK;
}

static intact_status add_qparams(intact_onnx_out *out, Onnx__NodeProto *node, const intact_value *value) {
  const intact_qparams *q = value->qparams;
  intact_onnx_scale *known = &out->scales[value->id];
  if (known->scale == NULL)
    INTACT_TRY(write_qparams(out, out->names[value->id], q, value->constant, &known->scale, &known->zero_point));
  return add_scale(out, node, q, known);
}

intact_status intact__onnx_out_dequantize_as(intact_onnx_out *out, const char *codes, const intact_qparams *qparams,
                                             const char *base, const char **real) {
  intact_onnx_scale scale = {NULL, NULL};
  Onnx__NodeProto *node = NULL;
  INTACT_TRY(write_qparams(out, codes, qparams, NULL, &scale.scale, &scale.zero_point));
  INTACT_TRY(intact__onnx_out_node(out, NULL, "DequantizeLinear", &node));
  INTACT_TRY(intact__onnx_out_input(out, node, codes));
  INTACT_TRY(add_scale(out, node, qparams, &scale));
  *real = intact__onnx_out_fresh(out, base, "real");
  if (*real == NULL) return intact__no_memory(out->output->context, 1);
  return intact__onnx_out_output(out, node, *real);
}

intact_status intact__onnx_out_dequantize(intact_onnx_out *out, const intact_node *source, const intact_value *codes,
                                          const char *real) {
  Onnx__NodeProto *node = NULL;
  const char *name = NULL;
  INTACT_TRY(intact__onnx_out_name(out, codes, &name));
  INTACT_TRY(intact__onnx_out_node(out, source, "DequantizeLinear", &node));
  INTACT_TRY(intact__onnx_out_input(out, node, name));
  INTACT_TRY(add_qparams(out, node, codes));
  return intact__onnx_out_output(out, node, real);
}

/* Codes of a range that the type does not have by itself: the real numbers are cut before. Quantization is monotone and maps
   scale * (bound - zero point) to the bound, so the result is the same. */
static intact_status clip(intact_onnx_out *out, const intact_value *codes, const char **real) {
  const intact_qparams *q = codes->qparams;
  bool low = q->quant_min > intact_dtype_min(q->dtype), high = q->quant_max < intact_dtype_max(q->dtype);
  if (!low && !high) return INTACT_OK;
  if (q->n != 1) {
    INTACT_FAIL(out->output->context, UNSUPPORTED_OP, codes->name,
                "cannot write '%s': it is quantized per channel in a range narrower than its type", codes->name);
  }
  const char *base = out->names[codes->id], *min = "", *max = "";
  float scale = q->scale[0];
  if (low) {
    float bound = (float)(q->quant_min - q->zero_point[0]) * scale;
    INTACT_TRY(intact__onnx_out_float_constant(out, base, "min", (double)bound, &min));
  }
  if (high) {
    float bound = (float)(q->quant_max - q->zero_point[0]) * scale;
    INTACT_TRY(intact__onnx_out_float_constant(out, base, "max", (double)bound, &max));
  }
  Onnx__NodeProto *node = NULL;
  INTACT_TRY(intact__onnx_out_node(out, NULL, "Clip", &node));
  INTACT_TRY(intact__onnx_out_input(out, node, *real));
  INTACT_TRY(intact__onnx_out_input(out, node, min));
  if (high) INTACT_TRY(intact__onnx_out_input(out, node, max));
  *real = intact__onnx_out_fresh(out, base, "cut");
  if (*real == NULL) return intact__no_memory(out->output->context, 1);
  return intact__onnx_out_output(out, node, *real);
}

intact_status intact__onnx_out_quantize(intact_onnx_out *out, const intact_node *source, const char *real,
                                        const intact_value *codes) {
  Onnx__NodeProto *node = NULL;
  INTACT_TRY(clip(out, codes, &real));
  INTACT_TRY(intact__onnx_out_node(out, source, "QuantizeLinear", &node));
  INTACT_TRY(intact__onnx_out_input(out, node, real));
  INTACT_TRY(add_qparams(out, node, codes));
  return intact__onnx_out_output(out, node, out->names[codes->id]);
}

static intact_status write_quantize(intact_onnx_out *out, const intact_node *node) {
  const char *real = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &real));
  return intact__onnx_out_quantize(out, node, real, node->results[0]);
}

/* That of a constant is written where its result is first read. */
static intact_status write_dequantize(intact_onnx_out *out, const intact_node *node) {
  const intact_value *codes = node->operands[0], *real = node->results[0];
  if (codes->constant != NULL && !real->is_output) return INTACT_OK;
  return intact__onnx_out_dequantize(out, node, codes, out->names[real->id]);
}

const intact_onnx_out_row intact__onnx_out_quantized[] = {
    {"dequantize", write_dequantize},
    {"quantize", write_quantize},
    {"requantize", write_quantize},
    {NULL, NULL},
};
