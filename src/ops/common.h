/* SPDX-License-Identifier: Apache-2.0 */
/* What op rows share: axes from attributes, inference with symbolic dims, strided views and walks over them, gradients that
   are summed over broadcast axes. */
#ifndef INTACT_OPS_COMMON_H
#define INTACT_OPS_COMMON_H

#include "graph/graph.h"
#include "ops/ops.h"

/* ---- parts of rows ---- */
#define INTACT_ALIASES(...) ((const intact_alias[]){__VA_ARGS__, {0}})
#define INTACT_ATEN(op) \
  { .format = "aten", .name = "aten::" op }
#define INTACT_ATEN_AS(op, map, how) \
  { .format = "aten", .name = "aten::" op, .attrs = map, .fixup = how }
/* PyTorch's name on quantized tensors; the map may hold result qparams, foreign=@scale and so on (quantized/quantized.h). */
#define INTACT_QUANTIZED(op, map) \
  { .format = "quantized", .name = op, .attrs = map }
#define INTACT_OUTPUT "output_scale=@scale,output_zero_point=@zero_point"
#define INTACT_ONNX(op) \
  { .format = "onnx", .name = op, .attrs = "" }
#define INTACT_ONNX_AS(op, map, how) \
  { .format = "onnx", .name = op, .attrs = map, .fixup = how }
#define INTACT_OPENVINO(op) \
  { .format = "openvino", .name = op, .attrs = "" }
#define INTACT_OPENVINO_AS(op, map, how) \
  { .format = "openvino", .name = op, .attrs = map, .fixup = how }
#define INTACT_A_INT(what, value) \
  { .name = what, .type = INTACT_ATTR_INT, .i = value }
#define INTACT_A_INT_OR_NONE(what) \
  { .name = what, .type = INTACT_ATTR_INT, .nullable = true }
#define INTACT_A_BOOL(what, value) \
  { .name = what, .type = INTACT_ATTR_BOOL, .i = value }
#define INTACT_A_FLOAT(what, value) \
  { .name = what, .type = INTACT_ATTR_FLOAT, .f = value }
#define INTACT_A_FLOAT_OR_NONE(what) \
  { .name = what, .type = INTACT_ATTR_FLOAT, .nullable = true }
#define INTACT_A_INTS(what) \
  { .name = what, .type = INTACT_ATTR_INTS, .nullable = true } /* absent: empty */
#define INTACT_A_STRING(what, value) \
  { .name = what, .type = INTACT_ATTR_STRING, .s = value }
#define INTACT_A_DTYPE(what, value) \
  { .name = what, .type = INTACT_ATTR_DTYPE, .i = value }
#define INTACT_A_DTYPE_OR_NONE(what) \
  { .name = what, .type = INTACT_ATTR_DTYPE, .nullable = true }
#define INTACT_X INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y")

/* ---- attributes ---- */
enum { INTACT_MAX_NUMBERS = 16 };
/* The attributes of type int, bool and float as numbers, in schema order; NAN for an absent one. */
void intact__attr_numbers(const intact_node *node, double *numbers);

/* ---- axes ---- */
/* `axis` of -rank..rank-1 as 0..rank-1 (a rank of 0 counts as 1); refuses others by node and attribute. */
intact_status intact__op_axis(intact_context *context, const intact_node *node, const char *what, int64_t axis, int rank,
                              int *result);
/* Marks the axes that the list attribute `name` gives; all when it is absent or empty. Refuses duplicates. */
intact_status intact__op_axes(intact_context *context, const intact_node *node, const char *name, int rank, bool *is_axis);

/* ---- inference ---- */
intact_status intact__infer_result(intact_infer *infer, int i, intact_dtype dtype, int rank, const int64_t *dims);
/* All results of unknown rank and of this type: what follows from an operand of unknown rank. */
intact_status intact__infer_unranked(intact_infer *infer, intact_dtype dtype);
/* Result 0 has type and shape of operand 0. */
intact_status intact__infer_like_first(intact_infer *infer);
/* Operand i, NULL when it was left out or is behind the node's operands. */
const intact_value *intact__infer_operand(const intact_infer *infer, int i);
/* Broadcast of operands first..end-1 that are present (NumPy's rule; a symbol against a number above 1 is taken to be
   that number). *rank is -1 when an operand's rank is unknown. */
intact_status intact__infer_broadcast(intact_infer *infer, int first, int end, int *rank, int64_t *dims);
/* float16 with bfloat16 gives float32; else the wider of a kind, float before integer before bool. A 0-d operand does not
   widen one that has axes (PyTorch's rule of wrapped numbers) within its kind. */
intact_dtype intact__promote(intact_dtype a, int rank_a, intact_dtype b, int rank_b);
/* An index list: attribute `name` when given, else the known elements of operand i. *n is -1 when nothing is known. Elements
   may be symbols (intact__element_is_symbol). Refuses when neither is there. */
intact_status intact__infer_list(intact_infer *infer, const char *name, int i, int *n, int64_t *elements);

/* ---- call ---- */
/* Operand i, or NULL when it was left out (also behind n_operands). */
const intact_tensor *intact__operand(const intact_call *call, int i);
/* The same list when evaluating: attribute `name`, else the integers of operand i (rank 0 or 1). */
intact_status intact__call_list(const intact_call *call, const char *name, int i, int *n, int64_t *values);
/* The tensor as `dtype`: a share when it is that already, else converted. */
intact_status intact__as_dtype(const intact_tensor *tensor, intact_dtype dtype, intact_tensor **result);
/* Result i from a tensor of any float or integer type (consumed also on failure): converted to dtype if need be. */
intact_status intact__give_result(const intact_call *call, int i, intact_dtype dtype, intact_tensor *tensor);
/* Result 0 = the elements of operand 0 in another shape: shared, or copied when the caller planned the memory. */
intact_status intact__call_reshape(const intact_call *call, int rank, const int64_t *dims);

/* ---- views ---- */
#define INTACT_VIEW_RANK 16
/* Elements offset + sum(index * strides) of some tensor, strides in elements, any sign, 0 to repeat. */
typedef struct intact_view {
  int rank;
  int64_t offset;
  int64_t dims[INTACT_VIEW_RANK], strides[INTACT_VIEW_RANK];
} intact_view;
intact_view intact__view_dense(int rank, const int64_t *dims); /* row-major */
intact_view intact__view_of(const intact_tensor *tensor);
int64_t intact__view_count(const intact_view *view);
void intact__view_add_axis(intact_view *view, int64_t dim, int64_t stride); /* at the end */
/* The tensor's view broadcast to a shape that it fits (NumPy's rule). */
intact_view intact__view_broadcast(const intact_tensor *tensor, int rank, const int64_t *dims);
/* Operand 0 read through `from` is result 0 of this shape (from's dims may be a finer split of it). */
intact_status intact__call_view(const intact_call *call, int rank, const int64_t *dims, const intact_view *from);
/* The call whose operands a gradient sees, to plan views with. */
intact_call intact__call_of_grad(const intact_grad *grad);
/* to[..] = from[..], views of equal dims into tensors of one type (any type). */
void intact__view_copy(intact_tensor *dst, const intact_view *to, const intact_tensor *src, const intact_view *from);
/* Gradient of reading operand i through `from`: d_operand[from[..]] += dy[dense ..], each element summed in double. */
intact_status intact__grad_through_view(intact_grad *grad, int i, const intact_view *from, const intact_tensor *dy);

/* ---- walks: rows over up to four views of equal dims, axes merged where they can be ---- */
#define INTACT_WALK_VIEWS 5
typedef struct intact_walk {
  int n, rank;
  int64_t count;
  int64_t dims[INTACT_VIEW_RANK];
  int64_t strides[INTACT_WALK_VIEWS][INTACT_VIEW_RANK];
  int64_t offset[INTACT_WALK_VIEWS];
} intact_walk;
/* n elements from offset[i] on with stride step[i] in view i. */
typedef void (*intact_row_fn)(void *user, int64_t n, const int64_t *offset, const int64_t *step);
intact_walk intact__walk_make(int n, const intact_view *const *views);
/* Rows that cover elements begin..end of the row-major order. */
void intact__walk_range(const intact_walk *walk, int64_t begin, int64_t end, intact_row_fn fn, void *user);
/* All rows, on the context's threads when there are many elements; fn must write nothing that two elements share. */
void intact__walk_all(intact_context *context, const intact_walk *walk, intact_row_fn fn, void *user);

#endif
