/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of reductions: sums, means, extremes, norms over axes. Sums are made in double and rounded once. */
#include <math.h>
#include <string.h>

#include "ops/lanes.h"
#include "ops/lower.h"

#define KEEPDIM INTACT_A_BOOL("keepdim", 0)
#define REDUCE_X \
  INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"dim_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}), INTACT_RESULTS("y")

#define OWN_RANGE \
  { .result = INTACT_RESULT_OWN }
#define MEAN_RANGE \
  { .result = INTACT_RESULT_OWN, .is_homogeneous = true }
#define KEPT_RANGE \
  { .result = INTACT_RESULT_SAME_AS }
#define NO_RANGE \
  { .result = INTACT_RESULT_NONE, .no_quantize = true }
#define ATTRIBUTES(...) INTACT_ATTRS(INTACT_A_INTS("dim"), KEEPDIM, __VA_ARGS__)
#define NO_MORE INTACT_ATTRS(INTACT_A_INTS("dim"), KEEPDIM)

/* lowering: check_int and lower_int */
#define NO_KERNEL
#define REDUCTION_ROW(lowering, op, text, attributes, gradient, traits, ...) \
  static intact_status op##_infer(intact_infer *infer) {                     \
    return intact__reduction_infer(infer, &op##_def);                        \
  }                                                                          \
  static intact_status op##_eval(const intact_call *call) {                  \
    return intact__reduction_eval(call, &op##_def);                          \
  }                                                                          \
  const intact_op intact_op_##op = {                                         \
      .name = #op,                                                           \
      .doc = text,                                                           \
      .schema = {REDUCE_X, attributes},                                      \
      .infer = op##_infer,                                                   \
      .eval_f32 = op##_eval,                                                 \
      .grad = gradient,                                                      \
      .quant = traits,                                                       \
      .int_layout = INTACT_INT_CHANNELS_LAST,                                \
      lowering.aliases = INTACT_ALIASES(__VA_ARGS__),                        \
  };
#define GRADIENT(op)                                  \
  static intact_status op##_grad(intact_grad *grad) { \
    return intact__reduction_grad(grad, &op##_def);   \
  }

/* reduce_axes: attribute axes or constant operand 1 becomes dim; keepdims is 1 unless given; noop_with_empty_axes without
   axes makes it identity; a sum or product of integers gets dtype = the operand's. */
#define ONNX_REDUCE(op) INTACT_ONNX_AS(op, "axes=dim,keepdims=keepdim,noop_with_empty_axes=", "reduce_axes")
#define OPENVINO_REDUCE(name) INTACT_OPENVINO_AS(name, "keep_dims=keepdim", "axes_list")

/* ---- sums ---- */

static double sum_real(const double *v, int64_t n, const double *p) {
  (void)p;
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += v[i];
  return total;
}

static int64_t sum_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  uint64_t total = 0;
  for (int64_t i = 0; i < n; i++) total += (uint64_t)v[i];
  return (int64_t)total;
}

static void sum_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  (void)v, (void)r, (void)p;
  for (int64_t i = 0; i < n; i++) dv[i] = d;
}

static const intact_reduction sum_def = {sum_real, sum_integer, sum_d, INTACT_REDUCED_WIDENS, false};
GRADIENT(sum)
REDUCTION_ROW(NO_KERNEL, sum, "y = sum over the axes dim (all when empty); integers add up in s64.",
              ATTRIBUTES(INTACT_A_DTYPE_OR_NONE("dtype")), sum_grad, OWN_RANGE, INTACT_ATEN("sum"),
              INTACT_ATEN("sum.dim_IntList"), ONNX_REDUCE("ReduceSum"), OPENVINO_REDUCE("ReduceSum"))

static double mean_real(const double *v, int64_t n, const double *p) {
  return sum_real(v, n, p) / (double)n;
}
static void mean_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  sum_d(v, n, r, d / (double)n, dv, p);
}
static const intact_reduction mean_def = {mean_real, NULL, mean_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(mean)
#define MEAN_LOWERING .check_int = intact__check_mean, .lower_int = intact__lower_mean,
REDUCTION_ROW(MEAN_LOWERING, mean, "y = mean over the axes dim (all when empty).",
              ATTRIBUTES(INTACT_A_DTYPE_OR_NONE("dtype")), mean_grad, MEAN_RANGE, INTACT_ATEN("mean"),
              INTACT_ATEN("mean.dim"), ONNX_REDUCE("ReduceMean"), OPENVINO_REDUCE("ReduceMean"))

static double prod_real(const double *v, int64_t n, const double *p) {
  (void)p;
  double product = 1;
  for (int64_t i = 0; i < n; i++) product *= v[i];
  return product;
}

static int64_t prod_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  uint64_t product = 1;
  for (int64_t i = 0; i < n; i++) product *= (uint64_t)v[i];
  return (int64_t)product;
}

/* dv[i] = d times the product of the others: products from both sides, so that zeros need no division. */
static void prod_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  (void)r, (void)p;
  double before = d, behind = 1;
  for (int64_t i = 0; i < n; i++) {
    dv[i] = before;
    before *= v[i];
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    dv[i] *= behind;
    behind *= v[i];
  }
}
static const intact_reduction prod_def = {prod_real, prod_integer, prod_d, INTACT_REDUCED_WIDENS, false};
GRADIENT(prod)
REDUCTION_ROW(NO_KERNEL, prod, "y = product over the axes dim (all when empty).",
              ATTRIBUTES(INTACT_A_DTYPE_OR_NONE("dtype")), prod_grad, OWN_RANGE, INTACT_ATEN("prod"),
              INTACT_ATEN("prod.dim_int"), ONNX_REDUCE("ReduceProd"), OPENVINO_REDUCE("ReduceProd"))

static double sum_square_real(const double *v, int64_t n, const double *p) {
  (void)p;
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += v[i] * v[i];
  return total;
}
static void sum_square_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  (void)r, (void)p;
  for (int64_t i = 0; i < n; i++) dv[i] = 2 * d * v[i];
}
static const intact_reduction sum_square_def = {sum_square_real, NULL, sum_square_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(sum_square)
REDUCTION_ROW(NO_KERNEL, sum_square, "y = sum of squares over the axes dim (all when empty).", NO_MORE, sum_square_grad,
              OWN_RANGE, ONNX_REDUCE("ReduceSumSquare"))

static double log_sum_real(const double *v, int64_t n, const double *p) {
  return log(sum_real(v, n, p));
}
static void log_sum_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  sum_d(v, n, r, d / exp(r), dv, p);
}
static const intact_reduction log_sum_def = {log_sum_real, NULL, log_sum_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(log_sum)
REDUCTION_ROW(NO_KERNEL, log_sum, "y = logarithm of the sum over the axes dim (all when empty).", NO_MORE, log_sum_grad,
              OWN_RANGE, ONNX_REDUCE("ReduceLogSum"))

static double max_of(const double *v, int64_t n) {
  double best = -(double)INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(v[i])) return v[i];
    if (v[i] > best) best = v[i];
  }
  return best;
}

static double logsumexp_real(const double *v, int64_t n, const double *p) {
  (void)p;
  double best = max_of(v, n), total = 0;
  double shift = isinf(best) ? 0 : best;
  for (int64_t i = 0; i < n; i++) total += exp(v[i] - shift);
  return log(total) + shift;
}
static void logsumexp_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  double exact = logsumexp_real(v, n, p);
  (void)r;
  for (int64_t i = 0; i < n; i++) dv[i] = d * (v[i] == exact ? 1 : exp(v[i] - exact));
}
static const intact_reduction logsumexp_def = {logsumexp_real, NULL, logsumexp_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(logsumexp)
REDUCTION_ROW(NO_KERNEL, logsumexp, "y = logarithm of the sum of exp(x) over the axes dim (all when empty).", NO_MORE,
              logsumexp_grad, OWN_RANGE, INTACT_ATEN("logsumexp"), ONNX_REDUCE("ReduceLogSumExp"))

/* ---- extremes: NaN wins; ties share the gradient equally ---- */

static double amax_real(const double *v, int64_t n, const double *p) {
  (void)p;
  return max_of(v, n);
}

static int64_t amax_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  int64_t best = v[0];
  for (int64_t i = 1; i < n; i++) best = v[i] > best ? v[i] : best;
  return best;
}

static double amin_real(const double *v, int64_t n, const double *p) {
  (void)p;
  double best = (double)INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(v[i])) return v[i];
    if (v[i] < best) best = v[i];
  }
  return best;
}

static int64_t amin_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  int64_t best = v[0];
  for (int64_t i = 1; i < n; i++) best = v[i] < best ? v[i] : best;
  return best;
}

static void extreme_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  (void)p;
  int64_t ties = 0;
  for (int64_t i = 0; i < n; i++) ties += v[i] == r || (isnan(v[i]) && isnan(r));
  for (int64_t i = 0; i < n; i++) dv[i] = d * (v[i] == r || (isnan(v[i]) && isnan(r))) / (double)ties;
}

static const intact_reduction amax_def = {amax_real, amax_integer, extreme_d, INTACT_REDUCED_KEEPS, true};
static const intact_reduction amin_def = {amin_real, amin_integer, extreme_d, INTACT_REDUCED_KEEPS, true};
GRADIENT(amax)
GRADIENT(amin)
REDUCTION_ROW(NO_KERNEL, amax, "y = largest element over the axes dim (all when empty).", NO_MORE, amax_grad, KEPT_RANGE,
              INTACT_ATEN("amax"), INTACT_ATEN("max"), ONNX_REDUCE("ReduceMax"), OPENVINO_REDUCE("ReduceMax"))
REDUCTION_ROW(NO_KERNEL, amin, "y = smallest element over the axes dim (all when empty).", NO_MORE, amin_grad, KEPT_RANGE,
              INTACT_ATEN("amin"), INTACT_ATEN("min"), ONNX_REDUCE("ReduceMin"), OPENVINO_REDUCE("ReduceMin"))

/* ---- spread; the attributes' numbers are keepdim, correction ---- */

static double mean_square(const double *v, int64_t n, double correction, double *mean) {
  double total = 0, divisor = (double)n - correction;
  *mean = sum_real(v, n, NULL) / (double)n;
  for (int64_t i = 0; i < n; i++) total += (v[i] - *mean) * (v[i] - *mean);
  return total / (divisor > 0 ? divisor : 0);
}

static double var_real(const double *v, int64_t n, const double *p) {
  double mean;
  return mean_square(v, n, p[1], &mean);
}

/* As PyTorch's: by the count minus correction also where that is negative. */
static void var_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  double mean, divisor = (double)n - p[1];
  (void)r;
  (void)mean_square(v, n, p[1], &mean);
  for (int64_t i = 0; i < n; i++) dv[i] = 2 / divisor * d * (v[i] - mean);
}

static double std_real(const double *v, int64_t n, const double *p) {
  return sqrt(var_real(v, n, p));
}

static void std_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  double exact = std_real(v, n, p);
  (void)r;
  var_d(v, n, exact, exact == 0 ? 0 : d / (2 * exact), dv, p);
}

static const intact_reduction var_def = {var_real, NULL, var_d, INTACT_REDUCED_KEEPS, false};
static const intact_reduction std_def = {std_real, NULL, std_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(var)
GRADIENT(std)
REDUCTION_ROW(NO_KERNEL, var, "y = sum of (x - mean)^2 over the axes dim, by the count minus correction.",
              ATTRIBUTES(INTACT_A_FLOAT("correction", 1.0)), var_grad, OWN_RANGE, INTACT_ATEN("var.correction"),
              /* unbiased_correction: correction = unbiased ? 1 : 0 */
              INTACT_ATEN_AS("var", "unbiased=", "unbiased_correction"),
              INTACT_ATEN_AS("var.dim", "dim=dim,keepdim=keepdim,unbiased=", "unbiased_correction"))
REDUCTION_ROW(NO_KERNEL, std, "y = square root of var.", ATTRIBUTES(INTACT_A_FLOAT("correction", 1.0)), std_grad, OWN_RANGE,
              INTACT_ATEN("std.correction"), INTACT_ATEN_AS("std", "unbiased=", "unbiased_correction"),
              INTACT_ATEN_AS("std.dim", "dim=dim,keepdim=keepdim,unbiased=", "unbiased_correction"))

/* ---- norms; the attributes' numbers are keepdim, ord ---- */

static double norm_real(const double *v, int64_t n, const double *p) {
  double order = p[1], total = 0;
  if (isinf(order)) {
    double best = order > 0 ? 0 : (double)INFINITY;
    for (int64_t i = 0; i < n; i++) {
      if (isnan(v[i])) return v[i];
      if (order > 0 ? fabs(v[i]) > best : fabs(v[i]) < best) best = fabs(v[i]);
    }
    return best;
  }
  for (int64_t i = 0; i < n; i++) {
    total += order == 0 ? v[i] != 0 : order == 1 ? fabs(v[i]) : order == 2 ? v[i] * v[i] : pow(fabs(v[i]), order);
  }
  return order == 0 || order == 1 ? total : order == 2 ? sqrt(total) : pow(total, 1 / order);
}

static double sign_of(double v) {
  return v > 0 ? 1 : v < 0 ? -1 : 0;
}

static void norm_d(const double *v, int64_t n, double r, double d, double *dv, const double *p) {
  double order = p[1];
  int64_t ties = 0;
  if (!isinf(order)) r = norm_real(v, n, p); /* not rounded to float */
  for (int64_t i = 0; i < n; i++) ties += fabs(v[i]) == r;
  for (int64_t i = 0; i < n; i++) {
    if (order == 0 || (r == 0 && !isinf(order) && order != 1)) {
      dv[i] = 0;
    } else if (order == 1) {
      dv[i] = d * sign_of(v[i]);
    } else if (isinf(order)) {
      dv[i] = fabs(v[i]) == r ? d * sign_of(v[i]) / (double)ties : 0;
    } else if (order == 2) {
      dv[i] = d * v[i] / r;
    } else {
      dv[i] = v[i] == 0 ? 0 : d * v[i] * pow(fabs(v[i]), order - 2) / pow(r, order - 1);
    }
  }
}

static const intact_reduction linalg_vector_norm_def = {norm_real, NULL, norm_d, INTACT_REDUCED_KEEPS, false};
GRADIENT(linalg_vector_norm)
REDUCTION_ROW(NO_KERNEL, linalg_vector_norm,
              "y = (sum |x|^ord)^(1/ord) over the axes dim; largest or smallest |x| for ord = inf, -inf.",
              ATTRIBUTES(INTACT_A_FLOAT("ord", 2.0), INTACT_A_DTYPE_OR_NONE("dtype")), linalg_vector_norm_grad, OWN_RANGE,
              INTACT_ATEN("linalg_vector_norm"), INTACT_ATEN_AS("norm.ScalarOpt_dim", "p=ord,dim=dim,keepdim=keepdim", NULL),
              INTACT_ATEN_AS("norm.Scalar", "p=ord", NULL),
              /* norm_order: reduce_axes, and ord is 1 or 2 by the name */
              INTACT_ONNX_AS("ReduceL1", "axes=dim,keepdims=keepdim,noop_with_empty_axes=", "norm_order"),
              INTACT_ONNX_AS("ReduceL2", "axes=dim,keepdims=keepdim,noop_with_empty_axes=", "norm_order"),
              INTACT_OPENVINO_AS("ReduceL1", "keep_dims=keepdim", "norm_order"),
              INTACT_OPENVINO_AS("ReduceL2", "keep_dims=keepdim", "norm_order"))

/* ---- truth ---- */

static double all_real(const double *v, int64_t n, const double *p) {
  (void)p;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] == 0) return 0;
  }
  return 1;
}
static double any_real(const double *v, int64_t n, const double *p) {
  (void)p;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] != 0) return 1;
  }
  return 0;
}
static int64_t all_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] == 0) return 0;
  }
  return 1;
}
static int64_t any_integer(const int64_t *v, int64_t n, const double *p) {
  (void)p;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] != 0) return 1;
  }
  return 0;
}
static const intact_reduction all_def = {all_real, all_integer, NULL, INTACT_REDUCED_BOOL, false};
static const intact_reduction any_def = {any_real, any_integer, NULL, INTACT_REDUCED_BOOL, false};
REDUCTION_ROW(NO_KERNEL, all, "y = whether all elements over the axes dim are true.", NO_MORE, intact__grad_none, NO_RANGE,
              INTACT_ATEN("all"), INTACT_ATEN("all.dim"), INTACT_ATEN("all.dims"), OPENVINO_REDUCE("ReduceLogicalAnd"))
REDUCTION_ROW(NO_KERNEL, any, "y = whether an element over the axes dim is true.", NO_MORE, intact__grad_none, NO_RANGE,
              INTACT_ATEN("any"), INTACT_ATEN("any.dim"), INTACT_ATEN("any.dims"), OPENVINO_REDUCE("ReduceLogicalOr"))
