/* SPDX-License-Identifier: Apache-2.0 */
/* The fast forms of float rows (*_fast.c, on kernels/float): there in the full build only, elsewhere their fields are NULL.
 */
#ifndef INTACT_OPS_FAST_H
#define INTACT_OPS_FAST_H

#include "graph/op.h"

#ifdef INTACT_FULL
#define INTACT_FAST(function) function
#else
#define INTACT_FAST(function) NULL
#endif

intact_status intact__conv_fast(const intact_call *call);
intact_status intact__conv_grad_fast(intact_grad *grad);
intact_status intact__linear_fast(const intact_call *call);
intact_status intact__linear_grad_fast(intact_grad *grad);
intact_status intact__addmm_fast(const intact_call *call);
intact_status intact__matmul_fast(const intact_call *call);
intact_status intact__matmul_grad_fast(intact_grad *grad);
intact_status intact__pool_fast(const intact_call *call);
intact_status intact__pool_grad_fast(intact_grad *grad);
intact_status intact__batch_norm_fast(const intact_call *call);
intact_status intact__batch_norm_grad_fast(intact_grad *grad);
intact_status intact__lstm_fast(const intact_call *call);
intact_status intact__layer_norm_fast(const intact_call *call);
intact_status intact__softmax_fast(const intact_call *call);

/* How the kept copy of operand i's constant is found again; NULL when the tensor is not the node's constant, or one whose content
   has been changed in place (a parameter in training). */
struct intact_float_keep;
const struct intact_float_keep *intact__fast_keep(const intact_node *node, int i, const intact_tensor *tensor,
                                                  struct intact_float_keep *keep);

#endif
