/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of neural layers share: checks of operands, results by inference, sliding windows, the plain matrix product.
 */
#ifndef INTACT_OPS_LAYER_H
#define INTACT_OPS_LAYER_H

#include "ops/common.h"

/* ---- attributes of a schema: name, default ---- */
#define INTACT_INT_ATTR(attr, value) \
  { .name = attr, .type = INTACT_ATTR_INT, .i = value }
#define INTACT_BOOL_ATTR(attr, value) \
  { .name = attr, .type = INTACT_ATTR_BOOL, .i = value }
#define INTACT_FLOAT_ATTR(attr, value) \
  { .name = attr, .type = INTACT_ATTR_FLOAT, .f = value }
#define INTACT_STRING_ATTR(attr, value) \
  { .name = attr, .type = INTACT_ATTR_STRING, .s = value }
#define INTACT_INTS_ATTR(attr, length, value) \
  { .name = attr, .type = INTACT_ATTR_INTS, .n = length, .i = value }
#define INTACT_INTS_REQUIRED(attr) \
  { .name = attr, .type = INTACT_ATTR_INTS, .required = true }

/* ---- inference ---- */
/* Operand i is left out or float32 (quantized ones are shown so); refuses other element types. */
intact_status intact__infer_float(intact_infer *infer, int i);
/* The same for all operands. */
intact_status intact__infer_floats(intact_infer *infer);
/* Sets type and shape of result i (rank -1: unknown). Nothing happens when the node has no result i. */
void intact__layer_result(intact_infer *infer, int i, intact_dtype dtype, int rank, const int64_t *dims);
/* Result i is float32 of the shape of operand `like`. */
void intact__layer_like(intact_infer *infer, int i, int like);
/* Two dims that must agree: both are known and differ (refused), or *dim becomes the known one. */
bool intact__dims_agree(int64_t a, int64_t b, int64_t *dim);
/* Product of dims[begin..end), symbols count as 1 (what macs needs) */
int64_t intact__known_product(const int64_t *dims, int begin, int end);

/* ---- evaluation ---- */
/* Runs the row's infer on the operands at hand, so that evaluation refuses what inference refuses, and gives the tensors to
   write the results into (results[0..call->n_results)). */
intact_status intact__call_begin(const intact_call *call, intact_tensor **results);
/* The same without making tensors: only the results' types and shapes. */
intact_status intact__call_shapes(const intact_call *call, int n, intact_value *results);

static inline bool intact__has(const intact_call *call, int i) {
  return i < call->n_operands && call->operands[i] != NULL;
}
static inline bool intact__wants(const intact_grad *grad, int i) {
  return i < grad->n_operands && grad->operands[i] != NULL && grad->needed[i];
}
static inline const float *intact__operand_f32(const intact_call *call, int i) {
  return intact__has(call, i) ? intact__f32(call->operands[i]) : NULL;
}

/* ---- sliding windows over the last 1 to 3 axes ---- */
/* Three axes always; those that the op does not have come first with size 1. */
typedef struct intact_window {
  int n; /* axes of the op */
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} intact_window;

/* Fills stride, dilation, padding (attributes "stride", "padding", "dilation", "auto_pad" where the schema has them; an
   empty stride means 1, or the kernel with stride_is_kernel) and out by floor((in + before + after - dilation * (kernel - 1)
   - 1) / stride) + 1; with ceil_mode rounded up, but no window starts behind the data and its leading padding (PyTorch's
   rule). `in` may hold symbols; out of a symbol is the same symbol when size is kept, else `unknown` gives one. padding
   holds n numbers (both sides) or 2n (all leading, then all trailing). */
intact_status intact__window_resolve(intact_infer *infer, int n, const int64_t *in, const int64_t *kernel,
                                     bool stride_is_kernel, bool ceil_mode, intact_window *window);
/* The same for evaluation and gradients: sizes are known and have been checked. */
void intact__window_known(const intact_node *node, int n, const int64_t *in, const int64_t *kernel, const int64_t *out,
                          bool stride_is_kernel, intact_window *window);
static inline int64_t intact__window_taps(const intact_window *w) {
  return w->kernel[0] * w->kernel[1] * w->kernel[2];
}

/* The part of window position o along axis a that lies on data: taps first..last-1. */
static inline void intact__window_range(const intact_window *w, int a, int64_t o, int64_t *first, int64_t *last) {
  int64_t start = o * w->stride[a] - w->before[a], d = w->dilation[a];
  *first = start >= 0 ? 0 : (-start + d - 1) / d;
  int64_t end = start >= w->in[a] ? 0 : (w->in[a] - start + d - 1) / d;
  *last = end < w->kernel[a] ? end : w->kernel[a];
}

/* ---- the plain matrix product: c[i,j] = (add ? c[i,j] : 0) + alpha * sum over k of a[i,k] * b[k,j], summed in double and
   rounded once. Element (i,k) of a lies at a[i * a_row + k * a_col] and so on. ---- */
typedef struct intact_gemm {
  int64_t m, n, k;
  const float *a;
  int64_t a_row, a_col;
  const float *b;
  int64_t b_row, b_col;
  float *c;
  int64_t c_row;
  double alpha;
  bool add;
} intact_gemm;
void intact__gemm(intact_context *context, const intact_gemm *gemm);

#endif
