/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of pooling: max, average, and their adaptive forms, over 1 to 3 axes. */
#include "ops/pool.h"

#include <math.h>
#include <string.h>

#include "ops/fast.h"
#include "ops/lower.h"
#include "ops/ops.h"

/* The digit before the d of the name: max_pool2d, max_pool2d_with_indices. */
static int spatial_rank(const intact_node *node) {
  return strstr(node->op->name, "pool")[4] - '0';
}
static bool is_adaptive(const intact_node *node) {
  return strncmp(node->op->name, "adaptive_", 9) == 0;
}
static bool is_max(const intact_node *node) {
  return strstr(node->op->name, "max_pool") != NULL;
}

/* ---- inference ---- */

static intact_status check_rank(intact_infer *infer, int n) {
  const intact_value *x = infer->node->operands[0];
  char text[160];
  INTACT_TRY(intact__infer_floats(infer));
  if (x->rank < 0 || x->rank == n + 1 || x->rank == n + 2) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s: x is %s; it must have rank %d, or %d without a batch",
              infer->node->op->name, intact__shape_text(x->rank, x->dims, text), n + 2, n + 1);
}

static void pool_results(intact_infer *infer, int n, const int64_t *out) {
  const intact_value *x = infer->node->operands[0];
  int64_t dims[INTACT_MAX_RANK];
  for (int i = 0; i < x->rank - n; i++) dims[i] = x->dims[i];
  for (int i = 0; i < n; i++) dims[x->rank - n + i] = out[i];
  intact__layer_result(infer, 0, INTACT_F32, x->rank, dims);
  intact__layer_result(infer, 1, INTACT_S64, x->rank, dims);
}

static void pool_unknown(intact_infer *infer) {
  intact__layer_result(infer, 0, INTACT_F32, -1, NULL);
  intact__layer_result(infer, 1, INTACT_S64, -1, NULL);
}

/* The kernel of a node, one number for all axes or one each. */
static void kernel_of(const intact_node *node, int n, int64_t *kernel) {
  const intact_attr *attr = intact__attr(node, "kernel_size");
  for (int i = 0; i < n; i++) kernel[i] = attr->ints[attr->n == 1 ? 0 : i];
}

static intact_status infer_pool(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int n = spatial_rank(node);
  int64_t kernel[3];
  INTACT_TRY(check_rank(infer, n));
  const intact_attr *attr = intact__attr(node, "kernel_size");
  if (attr->n != 1 && attr->n != n) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: kernel_size holds %d numbers; it must hold %d",
                node->op->name, attr->n, n);
  }
  if (x->rank < 0) {
    pool_unknown(infer);
    return INTACT_OK;
  }
  kernel_of(node, n, kernel);
  intact_window w;
  INTACT_TRY(
      intact__window_resolve(infer, n, x->dims + x->rank - n, kernel, true, intact__attr_int(node, "ceil_mode") != 0, &w));
  for (int a = 3 - n; a < 3; a++) {
    int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    if (w.before[a] >= reach || w.after[a] >= reach) {
      INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                  "%s: padding is %lld and %lld, the window reaches over %lld; padding must be smaller", node->op->name,
                  (long long)w.before[a], (long long)w.after[a], (long long)reach);
    }
  }
  if (!is_max(node) && n > 1 && intact__attr(node, "divisor_override")->present &&
      intact__attr_int(node, "divisor_override") == 0) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name, "%s: divisor_override is 0; it must not be", node->op->name);
  }
  pool_results(infer, n, w.out + 3 - n);
  return INTACT_OK;
}

static intact_status infer_adaptive(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int n = spatial_rank(node);
  INTACT_TRY(check_rank(infer, n));
  const intact_attr *size = intact__attr(node, "output_size");
  if (size->n != n && size->n != 1) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: output_size holds %d numbers; it must hold %d",
                node->op->name, size->n, n);
  }
  if (x->rank < 0) {
    pool_unknown(infer);
    return INTACT_OK;
  }
  int64_t out[3];
  for (int i = 0; i < n; i++) {
    out[i] = size->ints[size->n == 1 ? 0 : i];
    int64_t in = x->dims[x->rank - n + i];
    if (out[i] < 1 || out[i] > INT32_MAX || in == 0 || in > INT32_MAX) {
      INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                  "%s: output_size is %lld over %lld elements; both must be at least 1 and below 2^31", node->op->name,
                  (long long)out[i], (long long)in);
    }
  }
  pool_results(infer, n, out);
  return INTACT_OK;
}

/* ---- evaluation ---- */

void intact__pool_geometry(const intact_node *node, const intact_tensor *x, const intact_tensor *y, intact_pool *pool) {
  int n = spatial_rank(node);
  int64_t kernel[3] = {1, 1, 1};
  pool->adaptive = is_adaptive(node);
  if (!pool->adaptive) kernel_of(node, n, kernel);
  intact__window_known(node, n, x->dims + x->rank - n, kernel, y->dims + y->rank - n, true, &pool->window);
  pool->planes = intact__known_product(x->dims, 0, x->rank - n);
  pool->include_pad = false;
  pool->divisor = 0;
  if (is_max(node) || pool->adaptive) return;
  pool->include_pad = intact__attr_int(node, "count_include_pad") != 0;
  if (n > 1 && intact__attr(node, "divisor_override")->present) pool->divisor = intact__attr_int(node, "divisor_override");
}

intact_pool_cell intact__pool_cell(const intact_pool *pool, int64_t o) {
  const intact_window *w = &pool->window;
  const int64_t at[3] = {o / (w->out[1] * w->out[2]), o / w->out[2] % w->out[1], o % w->out[2]};
  intact_pool_cell c;
  int64_t count = 1;
  for (int a = 0; a < 3; a++) {
    int64_t first, last;
    if (pool->adaptive) { /* PyTorch's cut: floor(o in / out) .. ceil((o + 1) in / out) */
      c.first[a] = at[a] * w->in[a] / w->out[a];
      c.end[a] = ((at[a] + 1) * w->in[a] + w->out[a] - 1) / w->out[a];
      c.step[a] = 1;
      count *= c.end[a] - c.first[a];
      continue;
    }
    intact__window_range(w, a, at[a], &first, &last);
    int64_t start = at[a] * w->stride[a] - w->before[a];
    c.first[a] = start + first * w->dilation[a];
    c.step[a] = w->dilation[a];
    c.end[a] = start + (last - 1) * w->dilation[a] + 1;
    int64_t padded =
        (w->in[a] + w->after[a] - start + w->dilation[a] - 1) / w->dilation[a]; /* taps before the padding's end */
    if (padded > w->kernel[a]) padded = w->kernel[a];
    count *= pool->include_pad ? padded : last - first;
  }
  c.divisor = (double)(pool->divisor != 0 ? pool->divisor : count);
  return c;
}

/* Index of the maximum: the first of equal ones, the last NaN if there is any (PyTorch's choice). */
static int64_t find_max(const intact_window *w, const intact_pool_cell *c, const float *x) {
  int64_t best = (c->first[0] * w->in[1] + c->first[1]) * w->in[2] + c->first[2];
  float max = -INFINITY;
  for (int64_t d = c->first[0]; d < c->end[0]; d += c->step[0]) {
    for (int64_t h = c->first[1]; h < c->end[1]; h += c->step[1]) {
      for (int64_t v = c->first[2]; v < c->end[2]; v += c->step[2]) {
        int64_t i = (d * w->in[1] + h) * w->in[2] + v;
        if (x[i] > max || isnan(x[i])) {
          max = x[i];
          best = i;
        }
      }
    }
  }
  return best;
}

static double find_sum(const intact_window *w, const intact_pool_cell *c, const float *x) {
  double sum = 0;
  for (int64_t d = c->first[0]; d < c->end[0]; d += c->step[0]) {
    for (int64_t h = c->first[1]; h < c->end[1]; h += c->step[1]) {
      for (int64_t v = c->first[2]; v < c->end[2]; v += c->step[2]) sum += x[(d * w->in[1] + h) * w->in[2] + v];
    }
  }
  return sum;
}

/* Of a tensor without planes the sizes may be anything: the product wraps, and nobody looks at it. */
static int64_t volume(const int64_t *sizes) {
  return (int64_t)((uint64_t)sizes[0] * (uint64_t)sizes[1] * (uint64_t)sizes[2]);
}

static intact_status eval_pool(const intact_call *call) {
  intact_tensor *y[2] = {NULL, NULL};
  INTACT_TRY(intact__call_begin(call, y));
  intact_pool pool;
  intact__pool_geometry(call->node, call->operands[0], y[0], &pool);
  int64_t in = volume(pool.window.in), out = volume(pool.window.out);
  bool maximum = is_max(call->node);
  for (int64_t p = 0; p < pool.planes; p++) {
    const float *x = intact__operand_f32(call, 0) + p * in;
    for (int64_t o = 0; o < out; o++) {
      intact_pool_cell c = intact__pool_cell(&pool, o);
      float *to = intact__f32(y[0]) + p * out + o;
      if (maximum) {
        int64_t best = find_max(&pool.window, &c, x);
        *to = x[best];
        if (y[1] != NULL) ((int64_t *)y[1]->data)[p * out + o] = best;
      } else {
        *to = (float)(find_sum(&pool.window, &c, x) / c.divisor);
      }
    }
  }
  return INTACT_OK;
}

static void spread(const intact_window *w, const intact_pool_cell *c, double share, double *dx) {
  for (int64_t d = c->first[0]; d < c->end[0]; d += c->step[0]) {
    for (int64_t h = c->first[1]; h < c->end[1]; h += c->step[1]) {
      for (int64_t v = c->first[2]; v < c->end[2]; v += c->step[2]) dx[(d * w->in[1] + h) * w->in[2] + v] += share;
    }
  }
}

static intact_status grad_pool(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_tensor *dx;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  intact_pool pool;
  intact__pool_geometry(grad->node, grad->operands[0], dy, &pool);
  int64_t in = volume(pool.window.in), out = volume(pool.window.out);
  bool maximum = is_max(grad->node);
  double *sums = intact__alloc(grad->context, (size_t)in + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(grad->context, (size_t)in * sizeof(double));
  for (int64_t p = 0; p < pool.planes; p++) {
    const float *x = intact__f32(grad->operands[0]) + p * in, *d = intact__f32(dy) + p * out;
    for (int64_t i = 0; i < in; i++) sums[i] = 0;
    for (int64_t o = 0; o < out; o++) {
      intact_pool_cell c = intact__pool_cell(&pool, o);
      if (maximum) {
        sums[find_max(&pool.window, &c, x)] += d[o];
      } else {
        spread(&pool.window, &c, d[o] / c.divisor, sums);
      }
    }
    for (int64_t i = 0; i < in; i++) intact__f32(dx)[p * in + i] = (float)sums[i];
  }
  intact__free(grad->context, sums);
  return INTACT_OK;
}

/* ---- rows ---- */

/* onnx fix-ups:
   pool         picks the row by the rank of X (aliases stand at the 2-d rows), writes auto_pad in lower case (NOTSET is
   none); storage_order must be 0. For MaxPool with Indices: max_pool<n>d_with_indices, whose indices count within one plane:
                plane number * plane size is added.
   global_pool  adaptive pool of the rank of X with output_size all 1. */

#define POOL_ATTRS(R) \
  INTACT_INTS_REQUIRED("kernel_size"), INTACT_INTS_ATTR("stride", 0, 0), INTACT_INTS_ATTR("padding", R, 0)

#define POOL_FUNCTIONS(infer_function)                                                                            \
  .infer = infer_function, .eval_f32 = eval_pool, .eval_fast = INTACT_FAST(intact__pool_fast), .grad = grad_pool, \
  .grad_fast = INTACT_FAST(intact__pool_grad_fast), .int_layout = INTACT_INT_CHANNELS_LAST,                       \
  .check_int = intact__check_pool, .lower_int = intact__lower_pool

#define X_OPERAND INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0})
#define SAME_AS_X \
  { .result = INTACT_RESULT_SAME_AS, .same_as = 0, .is_homogeneous = true }
#define OWN_RANGE \
  { .result = INTACT_RESULT_OWN, .is_homogeneous = true }
#define NO_ALIAS

#define MAX_POOL_ROW(R, suffix, results, more, onnx)                                                                 \
  const intact_op intact_op_max_pool##R##d##suffix = {                                                             \
      .name = "max_pool" #R "d" #suffix,                                                                           \
      .doc = "Maximum of each window over " #R " spatial axes; NaN wins, the first of equal ones is chosen.",      \
      .schema = {X_OPERAND, results,                                                                               \
                 INTACT_ATTRS(POOL_ATTRS(R), INTACT_INTS_ATTR("dilation", R, 1), INTACT_BOOL_ATTR("ceil_mode", 0), \
                              INTACT_STRING_ATTR("auto_pad", "none"))},                                            \
      POOL_FUNCTIONS(infer_pool),                                                                                  \
      .quant = SAME_AS_X,                                                                                          \
      .aliases = (const intact_alias[]){more{"aten", "aten::max_pool" #R "d" #suffix, 0, 0, NULL, NULL}, onnx{0}}, \
  };
#define ONE_RESULT INTACT_RESULTS("y")
#define WITH_INDICES INTACT_RESULTS("y", "indices")
#define MAX_POOL_ONNX                                                                                                      \
  {"onnx", "MaxPool", 0, 0, "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode", \
   "pool"},

#define QUANTIZED_ALIAS(name) INTACT_QUANTIZED(name, NULL),

MAX_POOL_ROW(1, , ONE_RESULT, QUANTIZED_ALIAS("quantized::max_pool1d"), NO_ALIAS)
MAX_POOL_ROW(2, , ONE_RESULT, QUANTIZED_ALIAS("quantized::max_pool2d"), MAX_POOL_ONNX)
MAX_POOL_ROW(3, , ONE_RESULT, QUANTIZED_ALIAS("aten::quantized_max_pool3d"), NO_ALIAS)
MAX_POOL_ROW(1, _with_indices, WITH_INDICES, NO_ALIAS, NO_ALIAS)
MAX_POOL_ROW(2, _with_indices, WITH_INDICES, NO_ALIAS, NO_ALIAS)
MAX_POOL_ROW(3, _with_indices, WITH_INDICES, NO_ALIAS, NO_ALIAS)

#define AVG_POOL_DOC(R) \
  "Mean of each window over " #R " spatial axes, over the padding too (count_include_pad) or the data alone."
#define AVG_POOL_ATTRS(R) POOL_ATTRS(R), INTACT_BOOL_ATTR("ceil_mode", 0), INTACT_BOOL_ATTR("count_include_pad", 1)
#define WINDOW_ATTRS(R) INTACT_INTS_ATTR("dilation", R, 1), INTACT_STRING_ATTR("auto_pad", "none")
#define DIVISOR_ATTR \
  { .name = "divisor_override", .type = INTACT_ATTR_INT, .nullable = true }
#define AVG_POOL_ONNX                                                                                                     \
  {"onnx",                                                                                                                \
   "AveragePool",                                                                                                         \
   0,                                                                                                                     \
   0,                                                                                                                     \
   "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode,count_include_pad=count_" \
   "include_pad",                                                                                                         \
   "pool"},

#define AVG_POOL_ROW(R, attrs, onnx)                                                                   \
  const intact_op intact_op_avg_pool##R##d = {                                                         \
      .name = "avg_pool" #R "d",                                                                       \
      .doc = AVG_POOL_DOC(R),                                                                          \
      .schema = {X_OPERAND, ONE_RESULT, attrs},                                                        \
      POOL_FUNCTIONS(infer_pool),                                                                      \
      .quant = OWN_RANGE,                                                                              \
      .aliases = (const intact_alias[]){{"aten", "aten::avg_pool" #R "d", 0, 0, NULL, NULL}, onnx{0}}, \
  };

AVG_POOL_ROW(1, INTACT_ATTRS(AVG_POOL_ATTRS(1), WINDOW_ATTRS(1)), NO_ALIAS)
AVG_POOL_ROW(2, INTACT_ATTRS(AVG_POOL_ATTRS(2), DIVISOR_ATTR, WINDOW_ATTRS(2)), AVG_POOL_ONNX)
AVG_POOL_ROW(3, INTACT_ATTRS(AVG_POOL_ATTRS(3), DIVISOR_ATTR, WINDOW_ATTRS(3)), NO_ALIAS)

#define ATEN_ALIAS(alias) {"aten", alias, 0, 0, NULL, NULL},
#define ONNX_ALIAS(alias, fixup) {"onnx", alias, 0, 0, NULL, fixup},

#define ADAPTIVE_ROW(R, kind, what, results, traits, second, onnx)                                                        \
  const intact_op intact_op_adaptive_##kind##_pool##R##d = {                                                              \
      .name = "adaptive_" #kind "_pool" #R "d",                                                                           \
      .doc = what " of output_size even parts along " #R " spatial axes: part o is floor(o in/out)..ceil((o+1) in/out).", \
      .schema = {X_OPERAND, results, INTACT_ATTRS(INTACT_INTS_REQUIRED("output_size"))},                                  \
      POOL_FUNCTIONS(infer_adaptive),                                                                                     \
      .quant = traits,                                                                                                    \
      .aliases =                                                                                                          \
          (const intact_alias[]){{"aten", "aten::adaptive_" #kind "_pool" #R "d", 0, 0, NULL, NULL}, second onnx{0}},     \
  };

ADAPTIVE_ROW(1, avg, "Mean", ONE_RESULT, OWN_RANGE, NO_ALIAS, NO_ALIAS)
ADAPTIVE_ROW(2, avg, "Mean", ONE_RESULT, OWN_RANGE, ATEN_ALIAS("aten::_adaptive_avg_pool2d"),
             ONNX_ALIAS("GlobalAveragePool", "global_pool"))
ADAPTIVE_ROW(3, avg, "Mean", ONE_RESULT, OWN_RANGE, ATEN_ALIAS("aten::_adaptive_avg_pool3d"), NO_ALIAS)
ADAPTIVE_ROW(1, max, "Maximum", WITH_INDICES, SAME_AS_X, NO_ALIAS, NO_ALIAS)
ADAPTIVE_ROW(2, max, "Maximum", WITH_INDICES, SAME_AS_X, NO_ALIAS, ONNX_ALIAS("GlobalMaxPool", "global_pool"))
ADAPTIVE_ROW(3, max, "Maximum", WITH_INDICES, SAME_AS_X, NO_ALIAS, NO_ALIAS)
