/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters: PyTorch's torch.nn.init and the defaults of its modules, from the same draws. */
#ifndef INTACT_INIT_H
#define INTACT_INIT_H

#include "intact/random.h"
#include "intact/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every function fills float32 tensors in place and refuses other types (type-mismatch) or ranks (size-mismatch).
   fan_in of a weight [out, in, k...] is in * prod(k), fan_out out * prod(k). */
typedef enum intact_fan { INTACT_FAN_IN, INTACT_FAN_OUT } intact_fan;

/* "linear" "relu" "leaky_relu" (slope) "tanh" "sigmoid" "selu"; a failure for another name. */
INTACT_API intact_status intact_init_gain(intact_context *context, const char *nonlinearity, double slope, double *gain);

INTACT_API intact_status intact_init_constant(intact_tensor *tensor, double value);
INTACT_API intact_status intact_init_uniform(intact_generator *generator, intact_tensor *tensor, double low, double high);
INTACT_API intact_status intact_init_normal(intact_generator *generator, intact_tensor *tensor, double mean, double std);
/* Uniform within +-sqrt(3) gain / sqrt(fan); normal with std gain / sqrt(fan). */
INTACT_API intact_status intact_init_kaiming_uniform(intact_generator *generator, intact_tensor *tensor, double gain,
                                                     intact_fan fan);
INTACT_API intact_status intact_init_kaiming_normal(intact_generator *generator, intact_tensor *tensor, double gain,
                                                    intact_fan fan);
/* Uniform within +-gain sqrt(6 / (fan_in + fan_out)); normal with std gain sqrt(2 / (fan_in + fan_out)). */
INTACT_API intact_status intact_init_xavier_uniform(intact_generator *generator, intact_tensor *tensor, double gain);
INTACT_API intact_status intact_init_xavier_normal(intact_generator *generator, intact_tensor *tensor, double gain);
/* Normal numbers cut to [low, high]; refuses bounds that keep less than 30 % of them. */
INTACT_API intact_status intact_init_truncated_normal(intact_generator *generator, intact_tensor *tensor, double mean, double std,
                                                      double low, double high);

/* Defaults of modules. bias may be NULL. */
INTACT_API intact_status intact_init_linear(intact_generator *generator, intact_tensor *weight, intact_tensor *bias); /* and conv */
INTACT_API intact_status intact_init_bilinear(intact_generator *generator, intact_tensor *weight, intact_tensor *bias);
INTACT_API intact_status intact_init_norm(intact_tensor *weight, intact_tensor *bias);
INTACT_API intact_status intact_init_embedding(intact_generator *generator, intact_tensor *weight, int64_t padding_index); /* -1 */
/* LSTM, GRU, RNN: the parameters in registration order, all uniform within +-1/sqrt(hidden). */
INTACT_API intact_status intact_init_recurrent(intact_generator *generator, int64_t hidden, int n, intact_tensor *const *parameters);
INTACT_API intact_status intact_init_attention(intact_generator *generator, intact_tensor *in_weight, intact_tensor *in_bias,
                                               intact_tensor *out_weight, intact_tensor *out_bias);

#ifdef __cplusplus
}
#endif
#endif
