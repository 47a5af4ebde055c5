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

#endif
