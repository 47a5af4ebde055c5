/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of PyTorch's operators on quantized tensors (quantized::*, onednn::*, sparse::*, and aten's where quantized tensors
   have an arithmetic of their own). Operands and results are values with qparams; the rows work on the stored integers.
   Everything that is only "dequantize, float row, quantize" or data movement has no row here: the float row has an alias of
   format "quantized". */
#ifndef INTACT_OPS_QUANTIZED_QUANTIZED_H
#define INTACT_OPS_QUANTIZED_QUANTIZED_H

#include "kernels/affine/affine.h"
#include "ops/layer.h"

/* ---- calls by name (result_qparams.c) ---- */
/* Row and alias of an operator when it is called on quantized tensors: format "quantized", else "aten". */
const intact_op *intact__find_quantized(const char *name, const intact_alias **alias);
/* Attributes by the alias items =ours:value. */
intact_status intact__set_alias_constants(intact_node *node, const intact_alias *alias);
/* What a call says of its result: alias items foreign=@scale, foreign=@zero_point, foreign=@dtype, =@relu:1. */
typedef struct intact_result_qparams {
  bool given; /* scale and zero_point */
  int dtype;  /* of the integers, -1: the operand's */
  double scale;
  int64_t zero_point;
  bool relu; /* nothing below zero_point */
} intact_result_qparams;
/* Types of a node's results by PyTorch's rules for quantized tensors: what the row derives by itself, else what is given,
   else the row's fixed qparams, else those of operand 0. Infers the node. */
intact_status intact__set_result_qparams(intact_node *node, const intact_result_qparams *result);

/* ---- another row on this node's operands (twin.c) ---- */
enum { INTACT_TWIN_ATTRS = 20, INTACT_TWIN_OPERANDS = 72 };
typedef struct intact_twin {
  intact_node node;
  intact_attr attrs[INTACT_TWIN_ATTRS];
  int64_t ints[INTACT_TWIN_ATTRS][3]; /* of defaults */
  intact_value values[INTACT_TWIN_OPERANDS];
  intact_value *operands[INTACT_TWIN_OPERANDS];
} intact_twin;
/* A node of row `op` that stands for `node`: its first n operands as plain f32 values, attributes of equal names taken over,
   the others by default. Points into itself and into node. */
void intact__twin_make(intact_twin *twin, const intact_node *node, const intact_op *op, int n);
/* Results by the inference of row `op` on the first n operands. */
intact_status intact__twin_infer(intact_infer *infer, const intact_op *op, int n);
/* Evaluates the twin's row by its definition on these operands; results are the caller's. */
intact_status intact__twin_eval(const intact_call *call, const intact_twin *twin, int n,
                                const intact_tensor *const *operands, intact_tensor **results);
/* Both at once. */
intact_status intact__eval_as(const intact_call *call, const intact_op *op, int n, const intact_tensor *const *operands,
                              intact_tensor **results);

/* ---- steps: q - zero_point as f32 (twin.c) ---- */
static inline const intact_qparams *intact__operand_qparams(const intact_node *node, int i) {
  return i < node->n_operands && node->operands[i] != NULL ? node->operands[i]->qparams : NULL;
}
intact_status intact__steps(const intact_call *call, int operand, intact_tensor **steps);
/* Refuses an operand without qparams, per channel where only per tensor is meant, or of a type other than u8 and s8. */
intact_status intact__infer_quantized(intact_infer *infer, int operand, bool per_tensor);
/* The qparams of result 0; refuses a result without. */
intact_status intact__result_grid(const intact_call *call, const intact_qparams **grid);
/* Result 0 from steps of its grid: clamp(rne(values) + zero_point); inside: clamp(rne(values + zero_point)). Takes `values`.
 */
intact_status intact__give_rounded(const intact_call *call, intact_tensor *values, bool inside);
/* Result 0 carries these qparams, by the row itself. */
intact_status intact__infer_qparams(intact_infer *infer, intact_dtype dtype, double scale, int64_t zero_point, int64_t low);

/* ---- requantization of sums as PyTorch's engines do it (engine.c) ---- */
#define INTACT_ENGINE_MAP(XX) \
  XX(X86, "x86")              \
  XX(FBGEMM, "fbgemm")        \
  XX(QNNPACK, "qnnpack")      \
  XX(ONEDNN, "onednn")
typedef enum intact_engine {
#define XX(name, text) INTACT_ENGINE_##name,
  INTACT_ENGINE_MAP(XX)
#undef XX
      INTACT_ENGINE_COUNT
} intact_engine;
/* torch.backends.quantized.engine; x86 is fbgemm for products and onednn for convolutions. */
#define INTACT_ENGINE_ATTR \
  { .name = "engine", .type = INTACT_ATTR_STRING, .s = "x86" }
intact_status intact__engine_of(intact_context *context, const intact_node *node, intact_engine *engine);

/* Attributes of rows with an output stage. */
#define INTACT_OUTPUT_ATTRS                                                         \
  INTACT_ENGINE_ATTR, {.name = "post_op", .type = INTACT_ATTR_STRING, .s = "none"}, \
      {.name = "post_op_args", .type = INTACT_ATTR_FLOATS, .nullable = true}, {     \
    .name = "reduce_range", .type = INTACT_ATTR_BOOL                                \
  }
intact_status intact__infer_output(intact_infer *infer, int other);

/* Integers of operand 0 and their qparams: stored ones, or made by dynamic quantization. */
typedef struct intact_codes {
  const intact_tensor *q;
  float scale;
  int32_t zero_point;
} intact_codes;

/* f32(sum of (x - zx)(w - zw) + bias) by row `row`, operand 1 of the call being w; bias: whole numbers in f32, NULL: none.
 */
typedef intact_status (*intact_sums_fn)(const intact_call *call, const intact_op *row, const intact_codes *x,
                                        const intact_tensor *bias, intact_tensor **sums);
intact_status intact__sums(const intact_call *call, const intact_op *row, const intact_codes *x, const intact_tensor *bias,
                           intact_tensor **sums);
/* The same by the integer kernels; falls back on intact__sums where they have no form for it. */
intact_status intact__sums_fast(const intact_call *call, const intact_op *row, const intact_codes *x,
                                const intact_tensor *bias, intact_tensor **sums);

/* The product of quantized operands 0 (x; f32 without qparams: quantized by its own range) and 1 (w):
     fbgemm   y = clamp(rne(f32(f32(acc) + f32(bias / aw)) * f32(aw / sy)) + zy)      aw = f32(sx * sw), one per channel of
   `axis` qnnpack  y = clamp(rne(f32(acc + rne(f32(bias / aw))) * f32(aw * f32(1 / sy))) + zy) onednn   y = clamp(rne(f32(t *
   f32(1 / sy)) + zy)), t = post_op(f32(f32(acc) * aw) + bias + other); float: t itself A post-op other than relu and an
   operand `other` take the form onednn. requantize_x: the result of a product with dynamic x is quantized with x's qparams
   and dequantized (PyTorch's dynamic convolutions). */
typedef struct intact_product {
  const intact_op *row;
  int axis;  /* of the channels, negative: from the end */
  int other; /* operand that is added, -1: none */
  intact_engine engine;
  bool requantize_x;
  intact_sums_fn sums;
} intact_product;
intact_status intact__eval_product(const intact_call *call, const intact_product *product);

/* Rows here: what all of them say. */
#define INTACT_QUANTIZED_TRAITS                                                                                           \
  .grad = intact__grad_none, .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true}, .int_layout = INTACT_INT_ROWS, \
  .on_integers = true

#endif
