/* SPDX-License-Identifier: Apache-2.0 */
/* Scale and zero point from a range: PyTorch's two rules, total over every input. */
#ifndef INTACT_KERNELS_AFFINE_CHOOSE_QPARAMS_H
#define INTACT_KERNELS_AFFINE_CHOOSE_QPARAMS_H

#include "kernels/affine/affine.h"

#define INTACT_DEFAULT_EPS 1.1920928955078125e-07 /* float32 machine epsilon */

/* The integers that may be used. *quant_min and *quant_max both 0: the dtype's full range (4-bit for u4, 2-bit for u2 ...).
   reduce_range halves it (floor) for 8-bit types and for given ranges. *custom (may be NULL) says whether the caller gave it.
   Refuses given ranges without 0, empty ones and ones wider than the dtype (calculate_qmin_qmax of torch.ao). */
intact_status intact__quant_range(intact_context *context, const char *where, intact_dtype dtype, bool reduce_range,
                                  int64_t *quant_min, int64_t *quant_max, bool *custom);

typedef enum intact_range_mapping {
  INTACT_MAPPING_AFFINE,
  INTACT_MAPPING_SYMMETRIC,
  INTACT_MAPPING_SYMMETRIC_NO_CLIPPING, /* torchao: scale = max(low / quant_min, high / quant_max) */
  INTACT_MAPPING_FLOAT_QPARAMS          /* the zero point is a real number, 0 need not be in the range */
} intact_range_mapping;

typedef struct intact_qparams_rule {
  intact_range_mapping mapping;
  int64_t quant_min, quant_max;
  int64_t symmetric_zero_point; /* of the symmetric mappings */
  float eps;                    /* smallest scale */
} intact_qparams_rule;

/* Rule of a scheme as torch.ao's observers have it. custom: the range was given by the caller (moves the symmetric zero
   point of 8-bit unsigned types from 128 to (quant_min + quant_max) // 2). */
intact_qparams_rule intact__qparams_rule(intact_qscheme scheme, intact_dtype dtype, int64_t quant_min, int64_t quant_max,
                                         bool custom, double eps);

/* Rule of torchao's block observers: the symmetric zero point is trunc((quant_max + quant_min + 1) / 2). */
intact_qparams_rule intact__block_rule(intact_range_mapping mapping, int64_t quant_min, int64_t quant_max, double eps);

/* Observer form (torch.ao _calculate_qparams, float32 throughout), for one range:
     affine:     lo = min(low, 0), hi = max(high, 0); s = max((hi - lo) / (qmax - qmin), eps); z = clamp(qmin - rne(lo / s))
     symmetric:  s = max(max(-lo, hi) / ((qmax - qmin) / 2), eps); z fixed
     float:      s = (high - low) / (qmax - qmin), 1 if <= eps; z = -low / s (a float)
   Total: low > high means nothing observed (scale 1, zero point 0); infinite ends count as the largest finite value, NaN as 0;
   a range wider than float32 is divided in double. zero_point receives the integer (0 for the float mapping). */
void intact__qparams_from_range(const intact_qparams_rule *rule, float low, float high, float *scale, int32_t *zero_point);
/* The float mapping's zero point too. */
void intact__float_qparams_from_range(const intact_qparams_rule *rule, float low, float high, float *scale, float *zero_point);

/* The next scale that has at most `bits` bits (2 to 24), and the zero point that keeps the lower end of the range:
     s' = ceil(s 2^k) / 2^k with 2^(bits-1) <= s 2^k < 2^bits;  z' = clamp(qmin - rne((qmin - z) s / s')), symmetric ranges keep z.
   scale * (q - zero_point) of 8-bit q is then exact in float32 up to 15 bits, and so is the product of an activation's and a
   weight's scale up to 12. The fewer the bits, the fewer sums round in a runtime that computes the network in float: its
   results then differ more rarely from the integer kernels'. */
void intact__qparams_shorten(const intact_qparams_rule *rule, int bits, float *scale, int32_t *zero_point);

/* Integer-library form (ChooseQuantizationParams of PyTorch's C++ code), used by dynamic quantization and by the fused
   observer. The two libraries differ where a zero point lies on or near a half. */
typedef enum intact_choose_form {
  INTACT_CHOOSE_FBGEMM, /* float scale before the zero-point step, errors added: what x86 builds use in the fused op */
  INTACT_CHOOSE_ATEN    /* double scale, errors subtracted: _choose_qparams_per_tensor */
} intact_choose_form;
/* preserve_sparsity: symmetric around 0 when the range has both signs. Total: NaN counts as 0, low > high is swapped to an
   empty range. */
void intact__choose_qparams(intact_choose_form form, float low, float high, int32_t quant_min, int32_t quant_max,
                            bool preserve_sparsity, double *scale, int32_t *zero_point);

#endif
