/* SPDX-License-Identifier: Apache-2.0 */
/* Fast float kernels of the full build, on oneDNN: convolution, matrix products, normalisation, softmax. Plain row-major
   memory in and out; what oneDNN wants to have in another order is copied inside. Each call sets *done to false, and does
   nothing, when oneDNN has no implementation; the caller then takes the op's definition. */
#ifndef INTACT_KERNELS_FLOAT_FLOAT_KERNELS_H
#define INTACT_KERNELS_FLOAT_FLOAT_KERNELS_H

#include "base/context.h"

/* A convolution from [n, ci, in] to [n, co, out] with weights [co, ci / groups, kernel]; the last `axes` of the three axes
 * count. */
typedef struct intact_float_conv {
  int64_t axes, n, ci, co, groups;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} intact_float_conv;

/* Weights whose content never changes: their copy in oneDNN's order is kept with the context and found again by identity.
   `retain` makes a handle that keeps both pointers of the identity from being used for anything else; `release` lets go of
   it. */
typedef struct intact_float_keep {
  const void *identity[2];
  void *(*retain)(const void *object);
  void (*release)(void *handle);
  const void *object;
} intact_float_keep;

/* out = bias + in * w. bias and keep may be NULL. */
intact_status intact__float_conv_forward(intact_context *context, const intact_float_conv *conv, const float *in,
                                         const float *w, const float *bias, float *out, const intact_float_keep *keep,
                                         bool *done);
/* in = adjoint of the convolution applied to out. */
intact_status intact__float_conv_backward_data(intact_context *context, const intact_float_conv *conv, const float *out,
                                               const float *w, float *in, const intact_float_keep *keep, bool *done);
/* w = gradient of the weights; bias (may be NULL) = sums of out per channel. */
intact_status intact__float_conv_backward_weights(intact_context *context, const intact_float_conv *conv, const float *in,
                                                  const float *out, float *w, float *bias, bool *done);

/* c[m,n] = alpha a b + beta c; a is [m,k], or [k,m] when a_transposed; b is [k,n], or [n,k] when b_transposed; rows dense.
 */
typedef struct intact_float_gemm {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  float alpha, beta;
} intact_float_gemm;
intact_status intact__float_gemm(intact_context *context, const intact_float_gemm *gemm, const float *a, const float *b,
                                 float *c);

/* `batch` products of dense matrices one after another; a_shared, b_shared: the same matrix for all. */
typedef struct intact_float_matmul {
  int64_t batch, m, n, k;
  int64_t a_transposed, b_transposed, a_shared, b_shared;
} intact_float_matmul;
intact_status intact__float_matmul(intact_context *context, const intact_float_matmul *matmul, const float *a,
                                   const float *b, float *c, bool *done);

/* Softmax of rows of `length`. */
intact_status intact__float_softmax(intact_context *context, int64_t rows, int64_t length, const float *x, float *y,
                                    bool *done);
/* (x - mean) / sqrt(var + eps) * weight + bias of rows of `length`; weight and bias may be NULL, but only both. */
intact_status intact__float_layer_norm(intact_context *context, int64_t rows, int64_t length, float eps, const float *x,
                                       const float *weight, const float *bias, float *y, bool *done);

#endif
