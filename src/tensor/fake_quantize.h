/* SPDX-License-Identifier: Apache-2.0 */
/* Fake quantization of whole tensors, forward and backward: what the op rows and the training modules call. */
#ifndef INTACT_TENSOR_FAKE_QUANTIZE_H
#define INTACT_TENSOR_FAKE_QUANTIZE_H

#include "kernels/affine/fake_quantize.h"
#include "tensor/tensor.h"

/* Qparams of a fake quantization. Per channel along `axis`, per tensor with axis -1. */
typedef struct intact_fake_spec {
  const char *where; /* node or module, for messages */
  int axis;
  int64_t low, high; /* quant_min, quant_max */
  int64_t n;
  const float *scale;           /* n */
  const int32_t *zero_point;    /* n integers, added after the rounding; or */
  const float *real_zero_point; /* n real numbers, added before it (float qparams) */
  const intact_tensor *over; /* backward: dx goes here, f32 and of x's shape, dy itself if need be; NULL: a new tensor */
  bool keep_nan; /* float arithmetic throughout: NaN stays NaN (quantized_decomposed.fake_quant_per_channel) */
} intact_fake_spec;

/* Refuses low > high, an axis that x does not have and a number of scales that is not its length. */
intact_status intact__fake_quantize_check(intact_context *context, const intact_fake_spec *spec, const intact_tensor *x);
/* y has the type of x (f32, f16, bf16, f64): halves are widened to float32 and y rounded back; float64 multiplies in double,
   and y is rounded to float32 per tensor but not per channel, as in PyTorch. mask (NULL: not wanted) is bool: q within
   low..high. *clamps (may be NULL): false when the mask is known to be ones throughout. */
intact_status intact__fake_quantize_forward(const intact_tensor *x, const intact_fake_spec *spec, intact_tensor **y,
                                            intact_tensor **mask, bool *clamps);
/* dx = dy * mask, of dy's type. */
intact_status intact__fake_quantize_backward(const intact_tensor *x, const intact_tensor *dy, const intact_fake_spec *spec,
                                             intact_tensor **dx);

/* Learned qparams: float scales and zero points ([1] per tensor; [channels]). */
typedef struct intact_learnable_spec {
  const char *where;
  int axis;
  int64_t low, high;
  const intact_tensor *scale, *zero_point;
  float grad_factor;
  const intact_tensor *over; /* backward: as above */
} intact_learnable_spec;
intact_status intact__learnable_forward(const intact_tensor *x, const intact_learnable_spec *spec, intact_tensor **y);
/* Refuses what PyTorch's backward refuses: x or dy not float32, a range without 0. d_scale and d_zero_point are float32 [n];
   sums in the order of kernels/affine/fake_quantize.h, the runs of a channel one after the other. */
intact_status intact__learnable_backward(const intact_tensor *x, const intact_tensor *dy, const intact_learnable_spec *spec,
                                         intact_tensor **dx, intact_tensor **d_scale, intact_tensor **d_zero_point);
/* What the forward of a per-tensor pair quantizes with. */
intact_affine intact__learnable_affine(const intact_learnable_spec *spec);

/* An x that is made when it is needed: elements first .. first + n, n at most a block of sums. */
typedef struct intact_made_values {
  void (*make)(const void *user, int64_t first, int64_t n, float *x);
  const void *user;
  int64_t count;
} intact_made_values;
/* The backward of a per-tensor pair behind a clamp, of such an x: dx (of `count` elements; dy itself if need be) is 0 unless
   low < x < high. The sums are those of the clamped x, in the same order. */
intact_status intact__learnable_backward_clamped(intact_context *context, const intact_made_values *x, const float *dy, float low, float high,
                                                 const intact_learnable_spec *spec, float *dx, intact_tensor **d_scale,
                                                 intact_tensor **d_zero_point);

#endif
