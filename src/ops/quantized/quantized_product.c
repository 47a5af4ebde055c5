/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of products of quantized tensors: linear, convolutions, matmul; with float x they quantize it by its own range. */
#include <string.h>

#include "ops/quantized/quantized.h"

/* quantized_conv2d -> conv2d */
static const intact_op *float_row(const intact_node *node) {
  return intact__find_op(node->op->name + strlen("quantized_"));
}

static intact_status infer_product(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  INTACT_TRY(x->qparams == NULL && x->dtype == INTACT_F32 ? INTACT_OK : intact__infer_quantized(infer, 0, true));
  INTACT_TRY(intact__infer_quantized(infer, 1, false));
  INTACT_TRY(intact__twin_infer(infer, float_row(node), 3));
  return intact__infer_output(infer, 3);
}

/* The engine whose arithmetic runs: x86 is fbgemm for linear layers and onednn for convolutions with symmetric weights. */
static intact_status actual_engine(const intact_call *call, bool convolution, intact_engine *engine) {
  INTACT_TRY(intact__engine_of(call->context, call->node, engine));
  if (*engine != INTACT_ENGINE_X86) return INTACT_OK;
  *engine = convolution ? INTACT_ENGINE_ONEDNN : INTACT_ENGINE_FBGEMM;
  const intact_qparams *w = intact__operand_qparams(call->node, 1);
  for (int64_t i = 0; i < w->n; i++)
    if (w->zero_point[i] != 0) *engine = INTACT_ENGINE_FBGEMM;
  return INTACT_OK;
}

/* The evaluations of a kind of product, by the definition of the sums and by the integer kernels. */
#define PRODUCT_EVAL(kind, axis_, other_, convolution)                                                     \
  static intact_status kind##_by(const intact_call *call, intact_sums_fn sums) {                           \
    const bool dynamic = intact__operand_qparams(call->node, 0) == NULL;                                   \
    intact_product product = {.row = float_row(call->node), .axis = axis_, .other = other_, .sums = sums}; \
    product.requantize_x = convolution && dynamic;                                                         \
    INTACT_TRY(actual_engine(call, convolution, &product.engine));                                         \
    return intact__eval_product(call, &product);                                                           \
  }                                                                                                        \
  static intact_status eval_##kind(const intact_call *call) {                                              \
    return kind##_by(call, intact__sums);                                                                  \
  }                                                                                                        \
  static intact_status fast_##kind(const intact_call *call) {                                              \
    return kind##_by(call, intact__sums_fast);                                                             \
  }
PRODUCT_EVAL(linear, -1, 3, false)
PRODUCT_EVAL(conv, 1, 3, true)
PRODUCT_EVAL(matmul, -1, -1, false)

static int64_t product_macs(const intact_node *node) {
  return float_row(node)->macs(node);
}

#define PRODUCT_OPERANDS                                                                                            \
  INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"w", INTACT_ROLE_WEIGHT, 0},                                   \
                  {"bias", INTACT_ROLE_NONE, INTACT_OPTIONAL}, {"other", INTACT_ROLE_ACTIVATION, INTACT_OPTIONAL}), \
      INTACT_RESULTS("y")

const intact_op intact_op_quantized_linear = {
    .name = "quantized_linear",
    .doc =
        "Linear layer on integers: sums of (x - zx)(w - zw), bias, other and post_op added and requantized as `engine` does "
        "it; "
        "float x is quantized by its own range, a result without qparams stays float.",
    .schema = {PRODUCT_OPERANDS, INTACT_ATTRS(INTACT_OUTPUT_ATTRS)},
    .infer = infer_product,
    .eval_f32 = eval_linear,
    .eval_fast = fast_linear,
    INTACT_QUANTIZED_TRAITS,
    .macs = product_macs,
    .aliases = INTACT_ALIASES(
        INTACT_QUANTIZED("quantized::linear", INTACT_OUTPUT),
        INTACT_QUANTIZED("quantized::linear_relu", INTACT_OUTPUT ",=post_op:relu"),
        INTACT_QUANTIZED("quantized::linear_leaky_relu", INTACT_OUTPUT ",negative_slope=post_op_args,=post_op:leaky_relu"),
        INTACT_QUANTIZED("quantized::linear_tanh", INTACT_OUTPUT ",=post_op:tanh"),
        INTACT_QUANTIZED("quantized::linear_dynamic", "reduce_range=reduce_range"),
        INTACT_QUANTIZED("quantized::linear_relu_dynamic", "reduce_range=reduce_range,=post_op:relu"),
        INTACT_QUANTIZED("onednn::qlinear_pointwise", INTACT_OUTPUT ",output_dtype=@dtype,=engine:onednn"),
        INTACT_QUANTIZED("onednn::qlinear_pointwise.binary",
                         INTACT_OUTPUT ",output_dtype=@dtype,binary=,unary=post_op,=engine:onednn"),
        INTACT_QUANTIZED("sparse::qlinear", INTACT_OUTPUT ",out_block=,in_block="),
        INTACT_QUANTIZED("sparse::qlinear_relu", INTACT_OUTPUT ",out_block=,in_block=,=post_op:relu"),
        INTACT_QUANTIZED("sparse::qlinear_dynamic", "out_block=,in_block="),
        INTACT_QUANTIZED("sparse::qlinear_relu_dynamic", "out_block=,in_block=,=post_op:relu")),
};

#define CONV_MAP "stride=stride,padding=padding,dilation=dilation,groups=groups"
#define CONV_NAMES(R)                                                                               \
  INTACT_QUANTIZED("quantized::conv" #R "d", INTACT_OUTPUT "," CONV_MAP),                           \
      INTACT_QUANTIZED("quantized::conv" #R "d_relu", INTACT_OUTPUT "," CONV_MAP ",=post_op:relu"), \
      INTACT_QUANTIZED("quantized::conv" #R "d_dynamic", CONV_MAP ",reduce_range=reduce_range"),    \
      INTACT_QUANTIZED("onednn::qconv" #R "d_pointwise", INTACT_OUTPUT ",output_dtype=@dtype," CONV_MAP ",=engine:onednn")

#define CONV_ROW(R, ...)                                                                                               \
  const intact_op intact_op_quantized_conv##R##d = {                                                                   \
      .name = "quantized_conv" #R "d",                                                                                 \
      .doc = "Convolution over " #R                                                                                    \
             " spatial axes on integers, padded with x's zero point, requantized as `engine` does it; float x is "     \
             "quantized by "                                                                                           \
             "its own range, and the result rounded to that grid.",                                                    \
      .schema = {PRODUCT_OPERANDS,                                                                                     \
                 INTACT_ATTRS(INTACT_INTS_ATTR("stride", R, 1), INTACT_INTS_ATTR("padding", R, 0),                     \
                              INTACT_INTS_ATTR("dilation", R, 1), INTACT_INT_ATTR("groups", 1), INTACT_OUTPUT_ATTRS)}, \
      .infer = infer_product,                                                                                          \
      .eval_f32 = eval_conv,                                                                                           \
      .eval_fast = fast_conv,                                                                                          \
      INTACT_QUANTIZED_TRAITS,                                                                                         \
      .macs = product_macs,                                                                                            \
      .aliases = INTACT_ALIASES(__VA_ARGS__),                                                                          \
  };
CONV_ROW(1, CONV_NAMES(1))
CONV_ROW(2, CONV_NAMES(2), INTACT_QUANTIZED("quantized::conv2d_add", INTACT_OUTPUT "," CONV_MAP),
         INTACT_QUANTIZED("quantized::conv2d_add_relu", INTACT_OUTPUT "," CONV_MAP ",=post_op:relu"),
         INTACT_QUANTIZED("onednn::qconv2d_pointwise.binary",
                          INTACT_OUTPUT ",output_dtype=@dtype," CONV_MAP ",binary=,unary=post_op,=engine:onednn"))
CONV_ROW(3, CONV_NAMES(3))

#define CONV_TRANSPOSE_ROW(R)                                                                                           \
  const intact_op intact_op_quantized_conv_transpose##R##d = {                                                          \
      .name = "quantized_conv_transpose" #R "d",                                                                        \
      .doc = "Transposed convolution over " #R " spatial axes on integers, requantized as `engine` does it.",           \
      .schema = {PRODUCT_OPERANDS,                                                                                      \
                 INTACT_ATTRS(INTACT_INTS_ATTR("stride", R, 1), INTACT_INTS_ATTR("padding", R, 0),                      \
                              INTACT_INTS_ATTR("output_padding", R, 0), INTACT_INTS_ATTR("dilation", R, 1),             \
                              INTACT_INT_ATTR("groups", 1), INTACT_OUTPUT_ATTRS)},                                      \
      .infer = infer_product,                                                                                           \
      .eval_f32 = eval_conv,                                                                                            \
      .eval_fast = fast_conv,                                                                                           \
      INTACT_QUANTIZED_TRAITS,                                                                                          \
      .macs = product_macs,                                                                                             \
      .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::conv_transpose" #R "d",                                    \
                                                 INTACT_OUTPUT "," CONV_MAP ",output_padding=output_padding"),          \
                                INTACT_QUANTIZED("quantized::conv_transpose" #R "d_dynamic",                            \
                                                 CONV_MAP ",output_padding=output_padding,reduce_range=reduce_range")), \
  };
CONV_TRANSPOSE_ROW(1)
CONV_TRANSPOSE_ROW(2)
CONV_TRANSPOSE_ROW(3)

/* ---- matmul ---- */

static intact_status infer_matmul(intact_infer *infer) {
  intact_engine engine;
  INTACT_TRY(intact__engine_of(infer->context, infer->node, &engine));
  INTACT_TRY(intact__infer_quantized(infer, 0, true));
  INTACT_TRY(intact__infer_quantized(infer, 1, true));
  return intact__twin_infer(infer, float_row(infer->node), 2);
}

const intact_op intact_op_quantized_matmul = {
    .name = "quantized_matmul",
    .doc = "Product of quantized matrices: sums of (a - za)(b - zb), requantized.",
    .schema = {INTACT_OPERANDS({"a", INTACT_ROLE_ACTIVATION, 0}, {"b", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_OUTPUT_ATTRS)},
    .infer = infer_matmul,
    .eval_f32 = eval_matmul,
    .eval_fast = fast_matmul,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::matmul", INTACT_OUTPUT)),
};

/* ---- linear with float16 weights ---- */

static intact_status infer_fp16(intact_infer *infer) {
  return intact__twin_infer(infer, &intact_op_linear, 3);
}

static intact_status eval_fp16(const intact_call *call) {
  const intact_tensor *operands[3] = {call->operands[0], NULL, intact__operand(call, 2)};
  intact_tensor *w = NULL, *y = NULL;
  intact_status status = INTACT_OK;
  INTACT_TRY_TO(done, intact_tensor_copy(call->operands[1], &w));
  for (int64_t i = 0; i < w->count; i++) {
    const float v = intact__f32(w)[i], bounded = v > 65504.0f ? 65504.0f : v < -65504.0f ? -65504.0f : v;
    intact__f32(w)[i] = intact__f16_to_f32(intact__f32_to_f16(bounded));
  }
  operands[1] = w;
  INTACT_TRY_TO(done, intact__eval_as(call, &intact_op_linear, 3, operands, &y));
  if (intact__attr_int(call->node, "relu") != 0)
    for (int64_t i = 0; i < y->count; i++) intact__f32(y)[i] = intact__f32(y)[i] > 0 ? intact__f32(y)[i] : 0;
  status = intact__give_result(call, 0, INTACT_F32, y);
  y = NULL;
done:
  intact_tensor_destroy(w);
  intact_tensor_destroy(y);
  return status;
}

const intact_op intact_op_quantized_linear_dynamic_fp16 = {
    .name = "quantized_linear_dynamic_fp16",
    .doc = "Linear layer whose weights are saturated to +-65504 and rounded to float16.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}, {"w", INTACT_ROLE_NONE, 0},
                               {"bias", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_BOOL_ATTR("relu", 0))},
    .infer = infer_fp16,
    .eval_f32 = eval_fp16,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(INTACT_QUANTIZED("quantized::linear_dynamic_fp16", NULL),
                              INTACT_QUANTIZED("quantized::linear_relu_dynamic_fp16", "=relu:1")),
};
