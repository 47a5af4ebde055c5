/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of folded_batch_norm_fake_quantize. */
#include "ops/op_case.h"

static void none(op_case *c) { c->not_run = "its node needs a fake quantizer: tests/quant/test_qat.c"; }

OP_CASES(folded_batch_norm_fake_quantize) = {none, NULL};
