/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping of gradients by their common norm or by value. */
#include <math.h>

#include "base/context.h"
#include "intact/optim.h"
#include "tensor/tensor.h"

static intact_status check_gradients(intact_context *context, int n, intact_tensor *const *gradients) {
  for (int i = 0; i < n; i++) {
    if (gradients[i] && gradients[i]->dtype != INTACT_F32) {
      INTACT_FAIL(context, TYPE_MISMATCH, "", "clipping: gradient %d has type %s; gradients are f32", i,
                  intact_dtype_text(gradients[i]->dtype));
    }
  }
  return INTACT_OK;
}

static double norm_sum(const intact_tensor *tensor, double type) {
  const float *x = intact_tensor_data(tensor);
  double sum = 0;
  for (int64_t i = 0; i < tensor->count; i++) {
    const double size = fabs((double)x[i]);
    if (isinf(type)) {
      sum = size > sum || isnan(size) ? size : sum;
    } else {
      sum += type == 2 ? size * size : type == 1 ? size : pow(size, type);
    }
  }
  return sum;
}

intact_status intact_clip_grad_norm(intact_context *context, int n, intact_tensor *const *gradients, double max_norm,
                                    double norm_type, double *total_norm) {
  if (!(max_norm > 0) || !(norm_type > 0)) {
    INTACT_FAIL(context, OUT_OF_RANGE, "", "clipping to a norm of %g of type %g; both are above 0", max_norm, norm_type);
  }
  INTACT_TRY(check_gradients(context, n, gradients));
  double total = 0;
  for (int i = 0; i < n; i++) {
    if (!gradients[i]) continue;
    const double sum = norm_sum(gradients[i], norm_type);
    total = !isinf(norm_type) ? total + sum : sum > total || isnan(sum) ? sum : total;
  }
  if (!isinf(norm_type)) total = norm_type == 2 ? sqrt(total) : pow(total, 1 / norm_type);
  if (!isfinite(total)) {
    INTACT_FAIL(context, INVALID_VALUE, "", "clipping: the norm of the gradients is %g; a gradient holds infinity or NaN", total);
  }
  const float factor = (float)fmin(1, max_norm / (total + 1e-6));
  for (int i = 0; i < n; i++) {
    float *x = gradients[i] ? intact_tensor_mutable_data(gradients[i]) : NULL;
    for (int64_t k = 0; x && k < gradients[i]->count; k++) x[k] *= factor;
  }
  if (total_norm) *total_norm = total;
  return INTACT_OK;
}

intact_status intact_clip_grad_value(intact_context *context, int n, intact_tensor *const *gradients, double limit) {
  if (!(limit > 0)) INTACT_FAIL(context, OUT_OF_RANGE, "", "clipping to values within %g; the limit is above 0", limit);
  INTACT_TRY(check_gradients(context, n, gradients));
  const float high = (float)limit;
  for (int i = 0; i < n; i++) {
    float *x = gradients[i] ? intact_tensor_mutable_data(gradients[i]) : NULL;
    for (int64_t k = 0; x && k < gradients[i]->count; k++) x[k] = x[k] > high ? high : x[k] < -high ? -high : x[k];
  }
  return INTACT_OK;
}
