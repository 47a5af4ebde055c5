/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in ONNX: convolution, matrix products, pooling, normalisation, look-up. */
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

static const intact_attr *find_attr(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return &node->attrs[i];
  }
  return NULL;
}

/* ---- windows ---- */
/* A list of one number for each axis; empty stands for `otherwise`. */
static void widen(const intact_attr *attr, int axes, const int64_t *otherwise, int64_t *wide) {
  for (int i = 0; i < axes; i++) {
    wide[i] = attr == NULL || attr->n == 0 ? otherwise[i] : attr->n == 1 ? attr->ints[0] : attr->ints[i];
  }
}

static intact_status write_padding(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, int axes) {
  static const char *const words[][2] = {
      {"valid", "VALID"}, {"same", "SAME_UPPER"}, {"same_upper", "SAME_UPPER"}, {"same_lower", "SAME_LOWER"}};
  const intact_attr *automatic = find_attr(node, "auto_pad");
  for (int i = 0; automatic != NULL && i < INTACT_COUNT_OF(words); i++) {
    if (strcmp(words[i][0], automatic->s) == 0) return intact__onnx_out_string(out, made, "auto_pad", words[i][1]);
  }
  const intact_attr *padding = intact__attr(node, "padding");
  static const int64_t none[3] = {0, 0, 0};
  int64_t pads[6];
  if (padding->n == 2 * axes && axes > 0) {
    memcpy(pads, padding->ints, 2 * (size_t)axes * sizeof *pads);
  } else {
    widen(padding, axes, none, pads);
    memcpy(pads + axes, pads, (size_t)axes * sizeof *pads);
  }
  return intact__onnx_out_ints(out, made, "pads", 2 * axes, pads);
}

static intact_status write_window(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, int axes,
                                  const int64_t *kernel, bool pooled) {
  static const int64_t ones[3] = {1, 1, 1};
  int64_t wide[3];
  const intact_attr *dilation = find_attr(node, "dilation");
  INTACT_TRY(intact__onnx_out_ints(out, made, "kernel_shape", axes, kernel));
  widen(intact__attr(node, "stride"), axes, pooled ? kernel : ones, wide);
  INTACT_TRY(intact__onnx_out_ints(out, made, "strides", axes, wide));
  if (dilation != NULL) {
    widen(dilation, axes, ones, wide);
    INTACT_TRY(intact__onnx_out_ints(out, made, "dilations", axes, wide));
  }
  return write_padding(out, made, node, axes);
}

static intact_status write_conv(intact_onnx_out *out, const intact_node *node) {
  bool transposed = strncmp(node->op->name, "conv_transpose", 14) == 0;
  const intact_value *w = node->operands[1];
  if (w->rank < 3 || w->rank > 5 || w->dims[2] < 0)
    return intact__onnx_out_refuse(out, node, "the kernel's size is not known");
  int axes = w->rank - 2;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, transposed ? "ConvTranspose" : "Conv", &made));
  for (int i = 0; i < node->n_operands && (i < 2 || node->operands[i] != NULL); i++) {
    INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  }
  INTACT_TRY(write_window(out, made, node, axes, w->dims + 2, false));
  INTACT_TRY(intact__onnx_out_int(out, made, "group", intact__attr_int(node, "groups")));
  if (transposed) {
    static const int64_t none[3] = {0, 0, 0};
    int64_t wide[3];
    widen(intact__attr(node, "output_padding"), axes, none, wide);
    INTACT_TRY(intact__onnx_out_ints(out, made, "output_padding", axes, wide));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* max_pool2d, avg_pool1d, max_pool2d_with_indices ...: the digit before the d. */
static int pool_axes(const intact_node *node) {
  return strstr(node->op->name, "pool")[4] - '0';
}

static intact_status write_pool(intact_onnx_out *out, const intact_node *node) {
  bool max = strstr(node->op->name, "max_") != NULL;
  int axes = pool_axes(node);
  const intact_value *x = node->operands[0];
  if (node->n_results > 1 && (node->results[1]->n_uses > 0 || node->results[1]->is_output)) {
    return intact__onnx_out_refuse(out, node, "the indices of its maxima are counted in another way by ONNX");
  }
  if (x->rank >= 0 && x->rank != axes + 2) return intact__onnx_out_refuse(out, node, "its input has no batch dimension");
  const intact_attr *divisor = find_attr(node, "divisor_override");
  if (divisor != NULL && divisor->present) return intact__onnx_out_refuse(out, node, "ONNX has no divisor_override");
  int64_t kernel[3];
  static const int64_t ones[3] = {1, 1, 1};
  Onnx__NodeProto *made = NULL;
  widen(intact__attr(node, "kernel_size"), axes, ones, kernel);
  INTACT_TRY(intact__onnx_out_node(out, node, max ? "MaxPool" : "AveragePool", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  const intact_attr *dilation = find_attr(node, "dilation");
  for (int i = 0; !max && dilation != NULL && i < dilation->n; i++) {
    if (dilation->ints[i] != 1) intact__onnx_out_needs(out, 19);
  }
  if (!max && out->output->opset < 19) {
    INTACT_TRY(intact__onnx_out_ints(out, made, "kernel_shape", axes, kernel));
    int64_t wide[3];
    widen(intact__attr(node, "stride"), axes, kernel, wide);
    INTACT_TRY(intact__onnx_out_ints(out, made, "strides", axes, wide));
    INTACT_TRY(write_padding(out, made, node, axes));
  } else {
    INTACT_TRY(write_window(out, made, node, axes, kernel, true));
  }
  INTACT_TRY(intact__onnx_out_int(out, made, "ceil_mode", intact__attr_int(node, "ceil_mode") != 0));
  if (!max)
    INTACT_TRY(intact__onnx_out_int(out, made, "count_include_pad", intact__attr_int(node, "count_include_pad") != 0));
  return intact__onnx_out_result(out, made, node, 0);
}

/* Adaptive pools to one element are ONNX's global ones; to a divisor of the size they are plain ones. */
static intact_status write_adaptive(intact_onnx_out *out, const intact_node *node) {
  bool max = strstr(node->op->name, "max_") != NULL, global = true;
  int axes = pool_axes(node);
  const intact_value *x = node->operands[0];
  const intact_attr *size = intact__attr(node, "output_size");
  int64_t kernel[3] = {0};
  if (x->rank != axes + 2) return intact__onnx_out_refuse(out, node, "its input has no batch dimension or no known rank");
  if (node->n_results > 1 && (node->results[1]->n_uses > 0 || node->results[1]->is_output)) {
    return intact__onnx_out_refuse(out, node, "ONNX gives no indices here");
  }
  for (int i = 0; i < axes; i++) {
    int64_t want = size->ints[size->n == 1 ? 0 : i], in = x->dims[2 + i];
    global = global && want == 1;
    kernel[i] = want > 0 && in > 0 && in % want == 0 ? in / want : 0;
  }
  Onnx__NodeProto *made = NULL;
  for (int i = 0; i < axes && !global; i++) {
    if (kernel[i] == 0) return intact__onnx_out_refuse(out, node, "its output size is no divisor of a known input size");
  }
  const char *op = global ? (max ? "GlobalMaxPool" : "GlobalAveragePool") : max ? "MaxPool" : "AveragePool";
  INTACT_TRY(intact__onnx_out_node(out, node, op, &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  if (!global) {
    INTACT_TRY(intact__onnx_out_ints(out, made, "kernel_shape", axes, kernel));
    INTACT_TRY(intact__onnx_out_ints(out, made, "strides", axes, kernel));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- matrix products ---- */
/* The matrix behind a value: a constant, or codes that are dequantized; NULL when it is neither. */
static const intact_value *matrix_of(const intact_value *value) {
  const intact_node *producer = value->producer;
  if (intact__is_op(producer, "dequantize")) value = producer->operands[0];
  return value->constant != NULL && value->rank == 2 && (value->qparams == NULL || value->qparams->group == 0) ? value
                                                                                                               : NULL;
}

static intact_status turned_constant(intact_onnx_out *out, const intact_node *node, const intact_value *matrix,
                                     const char **name) {
  intact_context *context = out->output->context;
  static const int exchange[2] = {1, 0};
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact__onnx_permute_tensor(matrix->constant, exchange, &tensor));
  intact_status status = intact__onnx_out_keep(out, matrix->name, "t", tensor, name);
  intact_tensor_destroy(tensor);
  if (status != INTACT_OK || matrix->qparams == NULL) return status;
  intact_qparams *q = intact__qparams_copy(&out->output->arena, matrix->qparams);
  if (q == NULL) return intact__no_memory(context, sizeof *q);
  if (q->axis >= 0) q->axis = 1 - q->axis;
  return intact__onnx_out_dequantize_as(out, *name, q, node->name, name);
}

/* w [out, in] as [in, out]: the constant turned, else a Transpose node. */
static intact_status turn(intact_onnx_out *out, const intact_node *node, const intact_value *w, const char **name) {
  const intact_value *matrix = matrix_of(w);
  if (matrix != NULL) return turned_constant(out, node, matrix, name);
  static const int64_t exchange[2] = {1, 0};
  Onnx__NodeProto *made = NULL;
  const char *x = NULL;
  INTACT_TRY(intact__onnx_out_real(out, w, &x));
  INTACT_TRY(intact__onnx_out_node(out, NULL, "Transpose", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, x));
  INTACT_TRY(intact__onnx_out_ints(out, made, "perm", 2, exchange));
  *name = intact__onnx_out_fresh(out, node->name, "w_t");
  if (*name == NULL) return intact__no_memory(out->output->context, 1);
  return intact__onnx_out_output(out, made, *name);
}

/* A quantized constant bias as the float32 numbers that it stands for: behind a MatMul ONNX Runtime quantizes it by itself.
 */
static intact_status float_bias(intact_onnx_out *out, const intact_value *bias, const char **name) {
  const intact_value *codes = intact__is_op(bias->producer, "dequantize") ? bias->producer->operands[0] : bias;
  if (codes->constant == NULL || codes->qparams == NULL) return intact__onnx_out_real(out, bias, name);
  intact_tensor *real = NULL;
  INTACT_TRY(intact__dequantize_tensor(codes->constant, codes->qparams, &real));
  intact_status status = intact__onnx_out_keep(out, bias->name, "real", real, name);
  intact_tensor_destroy(real);
  return status;
}

static intact_status write_linear(intact_onnx_out *out, const intact_node *node) {
  const intact_value *bias = node->n_operands > 2 ? node->operands[2] : NULL;
  Onnx__NodeProto *made = NULL;
  const char *x = NULL, *w = NULL, *product = NULL, *b = NULL;
  if (node->operands[0]->rank == 2) {
    INTACT_TRY(intact__onnx_out_node(out, node, "Gemm", &made));
    for (int i = 0; i < (bias != NULL ? 3 : 2); i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
    INTACT_TRY(intact__onnx_out_int(out, made, "transB", 1));
    return intact__onnx_out_result(out, made, node, 0);
  }
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(turn(out, node, node->operands[1], &w));
  if (bias == NULL) return intact__onnx_out_last(out, node, "MatMul", x, w);
  INTACT_TRY(intact__onnx_out_step(out, node, "MatMul", x, w, "product", &product));
  INTACT_TRY(float_bias(out, bias, &b));
  return intact__onnx_out_last(out, node, "Add", product, b);
}

static intact_status write_addmm(intact_onnx_out *out, const intact_node *node) {
  static const int order[3] = {1, 2, 0};
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Gemm", &made));
  for (int i = 0; i < 3; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, order[i]));
  INTACT_TRY(intact__onnx_out_float(out, made, "alpha", intact__attr_float(node, "alpha")));
  INTACT_TRY(intact__onnx_out_float(out, made, "beta", intact__attr_float(node, "beta")));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- normalisation ---- */
/* Operand i, or a constant of n equal numbers where it is left out. */
static intact_status operand_or(intact_onnx_out *out, Onnx__NodeProto *made, const intact_node *node, int i, int rank,
                                const int64_t *dims, float value) {
  if (i < node->n_operands && node->operands[i] != NULL) return intact__onnx_out_operand(out, made, node, i);
  intact_tensor *tensor = NULL;
  const char *name = NULL;
  INTACT_TRY(intact_tensor_create(out->output->context, INTACT_F32, rank, dims, &tensor));
  for (int64_t k = 0; k < tensor->count; k++) intact__f32(tensor)[k] = value;
  intact_status status = intact__onnx_out_keep(out, node->name, value == 1 ? "scale" : "bias", tensor, &name);
  intact_tensor_destroy(tensor);
  return status == INTACT_OK ? intact__onnx_out_input(out, made, name) : status;
}

static intact_status write_batch_norm(intact_onnx_out *out, const intact_node *node) {
  const intact_value *x = node->operands[0];
  if (intact__attr_int(node, "training") || node->n_operands < 5 || node->operands[3] == NULL || node->operands[4] == NULL) {
    return intact__onnx_out_refuse(out, node, "it uses the statistics of the batch");
  }
  if (x->rank < 2 || x->dims[1] < 0) return intact__onnx_out_refuse(out, node, "the number of channels is not known");
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "BatchNormalization", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(operand_or(out, made, node, 1, 1, &x->dims[1], 1));
  INTACT_TRY(operand_or(out, made, node, 2, 1, &x->dims[1], 0));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 3));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 4));
  INTACT_TRY(intact__onnx_out_float(out, made, "epsilon", intact__attr_float(node, "eps")));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_layer_norm(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *shape = intact__attr(node, "normalized_shape");
  Onnx__NodeProto *made = NULL;
  intact__onnx_out_needs(out, 17);
  INTACT_TRY(intact__onnx_out_node(out, node, "LayerNormalization", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(operand_or(out, made, node, 1, shape->n, shape->ints, 1));
  if (node->n_operands > 2 && node->operands[2] != NULL) INTACT_TRY(intact__onnx_out_operand(out, made, node, 2));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", -(int64_t)shape->n));
  INTACT_TRY(intact__onnx_out_float(out, made, "epsilon", intact__attr_float(node, "eps")));
  return intact__onnx_out_result(out, made, node, 0);
}

/* GroupNormalization with one scale per channel is of opset 21; InstanceNormalization. */
static intact_status write_group_norm(intact_onnx_out *out, const intact_node *node) {
  bool group = strcmp(node->op->name, "group_norm") == 0;
  const intact_value *x = node->operands[0];
  if (x->rank < 2 || x->dims[1] < 0) return intact__onnx_out_refuse(out, node, "the number of channels is not known");
  Onnx__NodeProto *made = NULL;
  if (group) intact__onnx_out_needs(out, 21);
  INTACT_TRY(intact__onnx_out_node(out, node, group ? "GroupNormalization" : "InstanceNormalization", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(operand_or(out, made, node, 1, 1, &x->dims[1], 1));
  INTACT_TRY(operand_or(out, made, node, 2, 1, &x->dims[1], 0));
  if (group) INTACT_TRY(intact__onnx_out_int(out, made, "num_groups", intact__attr_int(node, "num_groups")));
  INTACT_TRY(intact__onnx_out_float(out, made, "epsilon", intact__attr_float(node, "eps")));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- look-up ---- */
static intact_status write_embedding(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Gather", &made));
  for (int i = 0; i < 2; i++) INTACT_TRY(intact__onnx_out_operand(out, made, node, i));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", 0));
  return intact__onnx_out_result(out, made, node, 0);
}

const intact_onnx_out_row intact__onnx_out_neural[] = {
    {"adaptive_avg_pool1d", write_adaptive},
    {"adaptive_avg_pool2d", write_adaptive},
    {"adaptive_avg_pool3d", write_adaptive},
    {"adaptive_max_pool1d", write_adaptive},
    {"adaptive_max_pool2d", write_adaptive},
    {"adaptive_max_pool3d", write_adaptive},
    {"addmm", write_addmm},
    {"avg_pool1d", write_pool},
    {"avg_pool2d", write_pool},
    {"avg_pool3d", write_pool},
    {"batch_norm", write_batch_norm},
    {"conv1d", write_conv},
    {"conv2d", write_conv},
    {"conv3d", write_conv},
    {"conv_transpose1d", write_conv},
    {"conv_transpose2d", write_conv},
    {"conv_transpose3d", write_conv},
    {"embedding", write_embedding},
    {"group_norm", write_group_norm},
    {"instance_norm", write_group_norm},
    {"layer_norm", write_layer_norm},
    {"linear", write_linear},
    {"max_pool1d", write_pool},
    {"max_pool1d_with_indices", write_pool},
    {"max_pool2d", write_pool},
    {"max_pool2d_with_indices", write_pool},
    {"max_pool3d", write_pool},
    {"max_pool3d_with_indices", write_pool},
    {NULL, NULL},
};
