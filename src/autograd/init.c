/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters. */
#include "intact/init.h"

#include <math.h>
#include <string.h>

#include "base/context.h"
#include "tensor/tensor.h"

intact_status intact_init_gain(intact_context *context, const char *nonlinearity, double slope, double *gain) {
  if (strcmp(nonlinearity, "linear") == 0 || strcmp(nonlinearity, "sigmoid") == 0) {
    *gain = 1;
  } else if (strcmp(nonlinearity, "relu") == 0) {
    *gain = sqrt(2.0);
  } else if (strcmp(nonlinearity, "leaky_relu") == 0) {
    *gain = sqrt(2.0 / (1 + slope * slope));
  } else if (strcmp(nonlinearity, "tanh") == 0) {
    *gain = 5.0 / 3;
  } else if (strcmp(nonlinearity, "selu") == 0) {
    *gain = 3.0 / 4;
  } else {
    INTACT_FAIL(context, INVALID_VALUE, "", "no gain for '%s'; known: linear, relu, leaky_relu, tanh, sigmoid, selu",
                nonlinearity);
  }
  return INTACT_OK;
}

static intact_status check_type(const intact_tensor *tensor) {
  if (tensor->dtype == INTACT_F32) return INTACT_OK;
  INTACT_FAIL(tensor->context, TYPE_MISMATCH, "", "initial values for a tensor of type %s; parameters are f32",
              intact_dtype_text(tensor->dtype));
}

static intact_status fans(const intact_tensor *tensor, double *fan_in, double *fan_out) {
  INTACT_TRY(check_type(tensor));
  if (tensor->rank < 2) {
    INTACT_FAIL(tensor->context, SIZE_MISMATCH, "", "a weight of rank %d has no fan; it needs at least [out, in]", tensor->rank);
  }
  double field = 1;
  for (int i = 2; i < tensor->rank; i++) field *= (double)tensor->dims[i];
  *fan_in = (double)tensor->dims[1] * field;
  *fan_out = (double)tensor->dims[0] * field;
  return INTACT_OK;
}

static float *elements(intact_tensor *tensor) { return intact_tensor_mutable_data(tensor); }

intact_status intact_init_constant(intact_tensor *tensor, double value) {
  INTACT_TRY(check_type(tensor));
  for (int64_t i = 0; i < tensor->count; i++) elements(tensor)[i] = (float)value;
  return INTACT_OK;
}

intact_status intact_init_uniform(intact_generator *generator, intact_tensor *tensor, double low, double high) {
  INTACT_TRY(check_type(tensor));
  if (tensor->count > 0 && !(isfinite(low) && isfinite(high) && low <= high)) {
    INTACT_FAIL(tensor->context, OUT_OF_RANGE, "", "uniform initial values from %g to %g; finite bounds are needed, the lower one first", low, high);
  }
  intact_random_uniform_f32(generator, tensor->count, (float)low, (float)high, elements(tensor));
  return INTACT_OK;
}

intact_status intact_init_normal(intact_generator *generator, intact_tensor *tensor, double mean, double std) {
  INTACT_TRY(check_type(tensor));
  if (tensor->count > 0 && !(isfinite(mean) && isfinite(std) && std >= 0)) {
    INTACT_FAIL(tensor->context, OUT_OF_RANGE, "", "normal initial values of mean %g and std %g; both are finite, std is at least 0", mean, std);
  }
  intact_random_normal_f32(generator, tensor->count, (float)mean, (float)std, elements(tensor));
  return INTACT_OK;
}

intact_status intact_init_kaiming_uniform(intact_generator *generator, intact_tensor *tensor, double gain, intact_fan fan) {
  double in, out;
  INTACT_TRY(fans(tensor, &in, &out));
  const double bound = sqrt(3.0) * (gain / sqrt(fan == INTACT_FAN_IN ? in : out));
  return intact_init_uniform(generator, tensor, -bound, bound);
}

intact_status intact_init_kaiming_normal(intact_generator *generator, intact_tensor *tensor, double gain, intact_fan fan) {
  double in, out;
  INTACT_TRY(fans(tensor, &in, &out));
  return intact_init_normal(generator, tensor, 0, gain / sqrt(fan == INTACT_FAN_IN ? in : out));
}

intact_status intact_init_xavier_uniform(intact_generator *generator, intact_tensor *tensor, double gain) {
  double in, out;
  INTACT_TRY(fans(tensor, &in, &out));
  const double bound = sqrt(3.0) * (gain * sqrt(2.0 / (in + out)));
  return intact_init_uniform(generator, tensor, -bound, bound);
}

intact_status intact_init_xavier_normal(intact_generator *generator, intact_tensor *tensor, double gain) {
  double in, out;
  INTACT_TRY(fans(tensor, &in, &out));
  return intact_init_normal(generator, tensor, 0, gain * sqrt(2.0 / (in + out)));
}

static double normal_below(double x) { return (1 + erf(x / sqrt(2.0))) / 2; }

/* Draws the whole tensor again until every element was inside once; an element keeps its first value inside. */
intact_status intact_init_truncated_normal(intact_generator *generator, intact_tensor *tensor, double mean, double std,
                                           double low, double high) {
  INTACT_TRY(check_type(tensor));
  const double kept = normal_below((high - mean) / std) - normal_below((low - mean) / std);
  if (!(kept > 0.3)) {
    INTACT_FAIL(tensor->context, OUT_OF_RANGE, "", "[%g, %g] keeps %g of a normal distribution (mean %g, std %g); at least 0.3 is "
                "needed, widen the bounds", low, high, kept, mean, std);
  }
  const float from = (float)low, to = (float)high;
  float *x = elements(tensor);
  float *again = intact__alloc(tensor->context, (size_t)tensor->count, sizeof *again);
  if (!again) return intact__no_memory(tensor->context, (size_t)tensor->count * sizeof *again);
  intact_random_normal_f32(generator, tensor->count, (float)mean, (float)std, x);
  for (;;) {
    bool outside = false;
    for (int64_t i = 0; i < tensor->count; i++) outside = outside || x[i] < from || x[i] > to;
    if (!outside) break;
    intact_random_normal_f32(generator, tensor->count, (float)mean, (float)std, again);
    for (int64_t i = 0; i < tensor->count; i++) {
      if (x[i] < from || x[i] > to) x[i] = again[i];
    }
  }
  intact__free(tensor->context, again);
  return INTACT_OK;
}

/* ---- modules ---- */
intact_status intact_init_linear(intact_generator *generator, intact_tensor *weight, intact_tensor *bias) {
  double in, out;
  INTACT_TRY(fans(weight, &in, &out));
  INTACT_TRY(intact_init_kaiming_uniform(generator, weight, sqrt(2.0 / (1 + sqrt(5.0) * sqrt(5.0))), INTACT_FAN_IN));
  const double bound = in > 0 ? 1 / sqrt(in) : 0;
  return bias ? intact_init_uniform(generator, bias, -bound, bound) : INTACT_OK;
}

intact_status intact_init_bilinear(intact_generator *generator, intact_tensor *weight, intact_tensor *bias) {
  double in, out;
  INTACT_TRY(fans(weight, &in, &out));
  const double bound = 1 / sqrt((double)weight->dims[1]);
  INTACT_TRY(intact_init_uniform(generator, weight, -bound, bound));
  return bias ? intact_init_uniform(generator, bias, -bound, bound) : INTACT_OK;
}

intact_status intact_init_norm(intact_tensor *weight, intact_tensor *bias) {
  INTACT_TRY(intact_init_constant(weight, 1));
  return bias ? intact_init_constant(bias, 0) : INTACT_OK;
}

intact_status intact_init_embedding(intact_generator *generator, intact_tensor *weight, int64_t padding_index) {
  if (weight->rank != 2 || padding_index < -1 || padding_index >= weight->dims[0]) {
    INTACT_FAIL(weight->context, SIZE_MISMATCH, "", "an embedding of rank %d with padding row %lld; it is [rows, size] and the "
                "padding row one of its rows or -1", weight->rank, (long long)padding_index);
  }
  INTACT_TRY(intact_init_normal(generator, weight, 0, 1));
  for (int64_t i = 0; padding_index >= 0 && i < weight->dims[1]; i++) elements(weight)[padding_index * weight->dims[1] + i] = 0;
  return INTACT_OK;
}

intact_status intact_init_recurrent(intact_generator *generator, int64_t hidden, int n, intact_tensor *const *parameters) {
  const double bound = 1 / sqrt((double)hidden);
  for (int i = 0; i < n && hidden < 1; i++) {
    INTACT_FAIL(parameters[i]->context, OUT_OF_RANGE, "", "initial values of a recurrent layer of %lld units; at least 1 is needed", (long long)hidden);
  }
  for (int i = 0; i < n; i++) INTACT_TRY(intact_init_uniform(generator, parameters[i], -bound, bound));
  return INTACT_OK;
}

intact_status intact_init_attention(intact_generator *generator, intact_tensor *in_weight, intact_tensor *in_bias,
                                    intact_tensor *out_weight, intact_tensor *out_bias) {
  INTACT_TRY(intact_init_linear(generator, out_weight, out_bias));
  INTACT_TRY(intact_init_xavier_uniform(generator, in_weight, 1));
  if (in_bias) INTACT_TRY(intact_init_constant(in_bias, 0));
  return out_bias ? intact_init_constant(out_bias, 0) : INTACT_OK;
}
