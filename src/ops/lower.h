/* SPDX-License-Identifier: Apache-2.0 */
/* The rows' check_int and lower_int functions, and what they share. A lowering fills lower->step: its params and packed
   constants live in the program's arena, its run function calls kernels only.

   Layout: floats always lie in logical order. With lower->channels_last quantized values of rank >= 3 lie N, spatial..., C; so
   quantize and dequantize change the order on the way. In rows of layout ANY that holds for the values of result 0's rank; those
   of another rank lie in logical order. */
#ifndef INTACT_OPS_LOWER_H
#define INTACT_OPS_LOWER_H

#include "graph/step.h"

/* ---- per family: why not (NULL: it can be done), and how ---- */
const char *intact__check_unary(const intact_node *node); /* maps of one value; also requantize */
intact_status intact__lower_unary(intact_lower *lower);
const char *intact__check_binary(const intact_node *node); /* add, sub, mul, maximum, minimum */
intact_status intact__lower_binary(intact_lower *lower);
const char *intact__check_conv(const intact_node *node); /* conv1d, conv2d, conv3d */
intact_status intact__lower_conv(intact_lower *lower);
const char *intact__check_linear(const intact_node *node);
intact_status intact__lower_linear(intact_lower *lower);
const char *intact__check_addmm(const intact_node *node);
intact_status intact__lower_addmm(intact_lower *lower);
const char *intact__check_matmul(const intact_node *node);
intact_status intact__lower_matmul(intact_lower *lower);
const char *intact__check_pool(const intact_node *node); /* max, average, adaptive */
intact_status intact__lower_pool(intact_lower *lower);
const char *intact__check_mean(const intact_node *node);
intact_status intact__lower_mean(intact_lower *lower);
const char *intact__check_cat(const intact_node *node);
intact_status intact__lower_cat(intact_lower *lower);
const char *intact__check_pad(const intact_node *node); /* constant_pad_nd, reflection_pad ... */
intact_status intact__lower_pad(intact_lower *lower);
const char *intact__check_movement(const intact_node *node); /* results whose elements are elements of operand 0 */
intact_status intact__lower_movement(intact_lower *lower);
const char *intact__check_resize(const intact_node *node); /* movement when the mode is nearest */
const char *intact__check_quantize(const intact_node *node);
intact_status intact__lower_quantize(intact_lower *lower);
const char *intact__check_dequantize(const intact_node *node);
intact_status intact__lower_dequantize(intact_lower *lower);

/* ---- shared (lower.c) ---- */
/* Whether the value is u8 or s8 with qparams per tensor: what integer kernels take as activations. */
bool intact__is_int8(const intact_value *value);
/* NULL if operand i and result 0 are, else the reason. */
const char *intact__check_int8(const intact_node *node, int operand);
/* zero point and range of a value that intact__is_int8. */
int32_t intact__zero_of(const intact_value *value);
static inline bool intact__is_signed(const intact_value *value) { return value->dtype == INTACT_S8; }
/* Elements of a value of known shape. */
int64_t intact__value_count(const intact_value *value);
/* Strides in elements, per logical axis of `value`, of how it lies in memory in a step of layout ANY. */
void intact__lower_strides(const intact_lower *lower, const intact_value *value, int64_t *strides);
/* The data of operand i when it is a constant: a copy in the program's arena, in the order of the step; *data is NULL otherwise. */
intact_status intact__lower_constant(const intact_lower *lower, int operand, const void **data);
/* Says that the step reads no constant operand: all were packed. */
void intact__lower_packed(const intact_lower *lower);
/* Memory of the program; fails with no-memory. */
intact_status intact__lower_alloc(const intact_lower *lower, size_t count, size_t size, void *pointer);
#define INTACT_LOWER_NEW(lower, n, pointer) intact__lower_alloc((lower), (size_t)(n), sizeof **(pointer), (pointer))

#endif
