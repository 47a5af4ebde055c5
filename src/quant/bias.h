/* SPDX-License-Identifier: Apache-2.0 */
/* Biases as s32 codes: scale x_scale * w_scale, and weight scales large enough that codes and accumulators fit. */
#ifndef INTACT_QUANT_BIAS_H
#define INTACT_QUANT_BIAS_H

#include "graph/graph.h"
#include "quant/notes.h"

/* Raises scales of `weight` (per channel or per tensor, symmetric) so that for every channel
     |bias| / f32(x_scale * w_scale) + sum |w_q| * max |x_q - x_zero_point| <= 2^31 - 1.
   Each scale becomes the smallest float32 that satisfies it; *raised counts those channels that have weights. A channel whose accumulator alone
   needs more than half of the range keeps half of it for the bias. *fitted is new in the arena, or `weight` itself when
   nothing had to change. */
intact_status intact__fit_weight_scales(intact_arena *arena, const intact_tensor *weights, const intact_qparams *weight,
                                        const intact_tensor *bias, const intact_qparams *x, const intact_qparams **fitted,
                                        int64_t *raised);

/* qparams of the s32 bias: scale f32(x_scale * w_scale) per channel of the weights, along the bias's own channel axis.
   NULL in *qparams when the shape of the bias does not fit the channels. */
intact_status intact__bias_qparams(intact_arena *arena, const intact_tensor *bias, const intact_qparams *x,
                                   const intact_qparams *weight, const intact_qparams **qparams);

/* s32 codes of a float bias: rne(b / scale), saturated. */
intact_status intact__quantize_bias_tensor(const intact_tensor *bias, const intact_qparams *qparams, intact_tensor **codes);

#endif
