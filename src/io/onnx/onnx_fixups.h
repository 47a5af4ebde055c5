/* SPDX-License-Identifier: Apache-2.0 */
/* The families of ONNX fix-ups (each array ends with a row without a name), and the small parts they build nodes of. */
#ifndef INTACT_IO_ONNX_ONNX_FIXUPS_H
#define INTACT_IO_ONNX_ONNX_FIXUPS_H

#include "io/onnx/onnx_import.h"

#define INTACT_ONNX_FIXUP(fixup) \
  { .name = #fixup, .import = fixup }
#define INTACT_ONNX_FIXUP_OF_CODES(fixup) \
  { .name = #fixup, .import = fixup, .takes_codes = true }
#define INTACT_ONNX_FIXUPS_END \
  { .name = NULL }

extern const intact_onnx_fixup intact__onnx_fixups_composed[];
extern const intact_onnx_fixup intact__onnx_fixups_control[];
extern const intact_onnx_fixup intact__onnx_fixups_elementwise[];
extern const intact_onnx_fixup intact__onnx_fixups_neural[];
extern const intact_onnx_fixup intact__onnx_fixups_quantize[];
extern const intact_onnx_fixup intact__onnx_fixups_rnn[];
extern const intact_onnx_fixup intact__onnx_fixups_shape[];
extern const intact_onnx_fixup intact__onnx_fixups_vision[];

/* ---- onnx_build.c ---- */
/* intact__onnx_make_row with a row by name. */
intact_status intact__onnx_make_as(intact_onnx_node *node, const char *op, int n_operands, intact_value *const *operands);
/* A further node of one or two (b not NULL) operands without attributes, inferred. */
intact_status intact__onnx_one(intact_onnx_node *node, const char *op, const char *suffix, intact_value *a, intact_value *b,
                               intact_value **result);
/* A further node of one operand with one list attribute, inferred. */
intact_status intact__onnx_with_ints(intact_onnx_node *node, const char *op, const char *attr, const char *suffix,
                                     intact_value *x, int n, const int64_t *numbers, intact_value **result);
/* Constants: a number without axes; a list of int64. */
intact_status intact__onnx_number(intact_onnx_node *node, const char *suffix, intact_dtype dtype, double number,
                                  intact_value **value);
intact_status intact__onnx_ints(intact_onnx_node *node, const char *suffix, int64_t n, const int64_t *numbers,
                                intact_value **value);
/* x as another type: itself, a converted constant, or a cast node. */
intact_status intact__onnx_cast(intact_onnx_node *node, const char *suffix, intact_value *x, intact_dtype dtype,
                                intact_value **result);
/* The transposed matrix: a constant is turned, also one behind a dequantize node; else a permute node. */
intact_status intact__onnx_transpose(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value **result);

/* ---- onnx_quantize.c ---- */
/* qparams of constant scale and zero point (NULL: 0) for integers of `dtype` in the shape of `like`; *qparams is NULL when
   they are no constants. Refuses scales that are not finite and greater than 0, counts and types that do not fit. */
intact_status intact__onnx_qparams(intact_onnx_node *node, const intact_value *scale, const intact_value *zero_point,
                                   intact_dtype dtype, int64_t axis, int64_t block, const intact_value *like,
                                   const intact_qparams **qparams);
/* The integers x as a value that carries qparams: x itself, a constant beside it, or NULL when neither can be. */
intact_status intact__onnx_carry(intact_onnx_node *node, intact_value *x, const intact_qparams *qparams,
                                 intact_value **carrier);
/* (x - zero_point) * scale in float32: a dequantize node, or arithmetic where scale or zero point are no constants. */
intact_status intact__onnx_dequantize(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value *scale,
                                      intact_value *zero_point, int64_t axis, int64_t block, intact_value **real);
/* A quantize node by ONNX's rule (x / scale). */
intact_status intact__onnx_quantize(intact_onnx_node *node, const char *suffix, intact_value *real,
                                    const intact_qparams *qparams, intact_value **codes);
/* x ready for an op that knows nothing of qparams: plain values as they are; codes dequantized when the row passes on what
   it reads (node->requantize is set then), else as plain integers. */
intact_status intact__onnx_plain_inputs(intact_onnx_node *node);

/* ---- onnx_qoperator.c ---- */
/* Imports operators that are another one between dequantize and quantize (QLinearConv, QGemm ...); *known tells whether
   node->op is one of them. */
intact_status intact__onnx_import_qoperator(intact_onnx_node *node, bool *known);
bool intact__onnx_is_qoperator(const char *op);

/* ---- onnx_dynamic.c ---- */
/* Imports operators that quantize while running, work on plain integers or have packed weights. */
intact_status intact__onnx_import_dynamic(intact_onnx_node *node, bool *known);
bool intact__onnx_is_dynamic(const char *op);

#endif
