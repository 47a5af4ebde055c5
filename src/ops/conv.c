/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of convolution: conv1d, conv2d, conv3d and their transposed forms. */
#include "ops/conv.h"

#include <string.h>

#include "ops/fast.h"
#include "ops/lower.h"
#include "ops/ops.h"

/* conv<n>d and conv_transpose<n>d: the digit stands before the final d. */
static int spatial_rank(const intact_node *node) {
  size_t length = strlen(node->op->name);
  return node->op->name[length - 2] - '0';
}

bool intact__conv_is_transposed(const intact_node *node) {
  return strncmp(node->op->name, "conv_transpose", 14) == 0;
}

/* ---- inference ---- */

static intact_status check_operands(intact_infer *infer, int64_t *groups) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *w = node->operands[1];
  int n = spatial_rank(node);
  char a[160], b[160];
  INTACT_TRY(intact__infer_floats(infer));
  if ((x->rank >= 0 && x->rank != n + 2) || (w->rank >= 0 && w->rank != n + 2)) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: x is %s, w is %s; both must have rank %d", node->op->name,
                x->rank < 0 ? "of unknown rank" : intact__shape_text(x->rank, x->dims, a),
                w->rank < 0 ? "of unknown rank" : intact__shape_text(w->rank, w->dims, b), n + 2);
  }
  *groups = intact__attr_int(node, "groups");
  if (*groups < 1 || *groups > INT32_MAX) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "%s: groups is %lld; it must be at least 1", node->op->name,
                (long long)*groups);
  }
  return INTACT_OK;
}

/* Channels of x and w fit each other and groups; out_channels is what w says. */
static intact_status check_channels(intact_infer *infer, int64_t groups, bool transposed, int64_t *out_channels) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *w = node->operands[1];
  const intact_value *bias = node->n_operands > 2 ? node->operands[2] : NULL;
  int64_t in = transposed ? w->dims[0] : w->dims[1] < 0 ? w->dims[1] : w->dims[1] * groups;
  int64_t out = !transposed ? w->dims[0] : w->dims[1] < 0 ? intact__infer_unknown_dim(infer) : w->dims[1] * groups;
  int64_t divided = transposed ? in : out, agreed;
  char a[160], b[160];
  if (!intact__dims_agree(x->dims[1], in, &agreed) || (divided >= 0 && divided % groups != 0)) {
    INTACT_FAIL(
        infer->context, SIZE_MISMATCH, node->name,
        "%s: x is %s, w is %s, groups %lld; w must be [%s...] with the channels of x and channels divisible by groups",
        node->op->name, intact__shape_text(x->rank, x->dims, a), intact__shape_text(w->rank, w->dims, b), (long long)groups,
        transposed ? "in, out/groups, " : "out, in/groups, ");
  }
  if (bias != NULL && bias->rank >= 0 && (bias->rank != 1 || !intact__dims_agree(bias->dims[0], out, &agreed))) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: bias is %s; it must be [%lld], one per output channel",
                node->op->name, intact__shape_text(bias->rank, bias->dims, a), (long long)out);
  }
  *out_channels = out;
  return INTACT_OK;
}

static intact_status infer_conv(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *w = node->operands[1];
  int n = spatial_rank(node);
  int64_t groups, dims[INTACT_MAX_RANK];
  INTACT_TRY(check_operands(infer, &groups));
  if (x->rank < 0 || w->rank < 0) {
    intact__layer_result(infer, 0, INTACT_F32, -1, NULL);
    return INTACT_OK;
  }
  INTACT_TRY(check_channels(infer, groups, false, &dims[1]));
  for (int i = 0; i < n; i++) {
    if (w->dims[2 + i] < 0)
      INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "%s: the kernel size of w is unknown", node->op->name);
  }
  intact_window window;
  INTACT_TRY(intact__window_resolve(infer, n, x->dims + 2, w->dims + 2, false, false, &window));
  dims[0] = x->dims[0];
  for (int i = 0; i < n; i++) dims[2 + i] = window.out[3 - n + i];
  intact__layer_result(infer, 0, INTACT_F32, n + 2, dims);
  return INTACT_OK;
}

/* out = (in - 1) * stride - padding + dilation * (kernel - 1) + output_padding + 1; auto_pad "same" cuts to in * stride. */
static intact_status transposed_size(intact_infer *infer, int n, int i, const intact_window *window, int64_t in,
                                     int64_t *out) {
  const intact_node *node = infer->node;
  const intact_attr *extra = intact__attr(node, "output_padding");
  int a = 3 - n + i;
  int64_t more = extra->n == 0 ? 0 : extra->ints[extra->n == 1 ? 0 : i];
  bool allowed = more >= 0 && (more < window->stride[a] || more < window->dilation[a]);
  if (!allowed) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                "%s: output_padding is %lld; it must be at least 0 and below stride %lld or dilation %lld", node->op->name,
                (long long)more, (long long)window->stride[a], (long long)window->dilation[a]);
  }
  if (in < 0) {
    *out = intact__infer_unknown_dim(infer);
    return INTACT_OK;
  }
  *out = (in - 1) * window->stride[a] - window->before[a] - window->after[a] +
         window->dilation[a] * (window->kernel[a] - 1) + more + 1;
  if (*out < 1) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s: spatial axis %d would have %lld elements; padding must leave at least one", node->op->name, i,
                (long long)*out);
  }
  return INTACT_OK;
}

static intact_status infer_conv_transpose(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *w = node->operands[1];
  int n = spatial_rank(node);
  int64_t groups, dims[INTACT_MAX_RANK];
  INTACT_TRY(check_operands(infer, &groups));
  if (x->rank < 0 || w->rank < 0) {
    intact__layer_result(infer, 0, INTACT_F32, -1, NULL);
    return INTACT_OK;
  }
  INTACT_TRY(check_channels(infer, groups, true, &dims[1]));
  const intact_attr *extra = intact__attr(node, "output_padding");
  if (extra->n > 1 && extra->n != n) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: output_padding holds %d numbers; it must hold %d",
                node->op->name, extra->n, n);
  }
  intact_window window;
  int64_t reach[3] = {INT32_MAX, INT32_MAX, INT32_MAX}; /* only the attributes are wanted: sizes that always fit */
  for (int i = 0; i < n; i++) {
    if (w->dims[2 + i] < 0)
      INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "%s: the kernel size of w is unknown", node->op->name);
  }
  INTACT_TRY(intact__window_resolve(infer, n, reach, w->dims + 2, false, false, &window));
  dims[0] = x->dims[0];
  for (int i = 0; i < n; i++) {
    INTACT_TRY(transposed_size(infer, n, i, &window, x->dims[2 + i], &dims[2 + i]));
  }
  intact__layer_result(infer, 0, INTACT_F32, n + 2, dims);
  return INTACT_OK;
}

void intact__conv_geometry(const intact_node *node, const intact_tensor *x, const intact_tensor *w, const intact_tensor *y,
                           intact_conv *conv) {
  bool transposed = intact__conv_is_transposed(node);
  const intact_tensor *in = transposed ? y : x, *out = transposed ? x : y;
  conv->n = x->dims[0];
  conv->ci = in->dims[1];
  conv->co = out->dims[1];
  conv->groups = intact__attr_int(node, "groups");
  intact__window_known(node, x->rank - 2, in->dims + 2, w->dims + 2, out->dims + 2, false, &conv->window);
}

/* ---- the three sums of a correlation, each with a double accumulator in the order channel, then tap ---- */

typedef struct sums {
  intact_conv c;
  const float *in, *out, *w, *bias; /* what is read */
  float *result;
} sums;

/* result[n,co,o] = bias + sum of in * w; pieces are (n, co) planes. */
static void forward_planes(void *user, int64_t begin, int64_t end) {
  const sums *s = user;
  const intact_window *w = &s->c.window;
  int64_t cg = s->c.ci / s->c.groups, og = s->c.co / s->c.groups, taps = intact__window_taps(w);
  int64_t plane_in = w->in[0] * w->in[1] * w->in[2], plane_out = w->out[0] * w->out[1] * w->out[2];
  for (int64_t p = begin; p < end; p++) {
    int64_t n = p / s->c.co, co = p % s->c.co;
    const float *in = s->in + (n * s->c.ci + co / og * cg) * plane_in, *weights = s->w + co * cg * taps;
    float *out = s->result + p * plane_out;
    for (int64_t o = 0; o < plane_out; o++) {
      int64_t od = o / (w->out[1] * w->out[2]), oh = o / w->out[2] % w->out[1], ow = o % w->out[2], d0, d1, h0, h1, w0, w1;
      intact__window_range(w, 0, od, &d0, &d1);
      intact__window_range(w, 1, oh, &h0, &h1);
      intact__window_range(w, 2, ow, &w0, &w1);
      double sum = 0;
      for (int64_t c = 0; c < cg; c++) {
        for (int64_t kd = d0; kd < d1; kd++) {
          int64_t id = od * w->stride[0] - w->before[0] + kd * w->dilation[0];
          for (int64_t kh = h0; kh < h1; kh++) {
            int64_t ih = oh * w->stride[1] - w->before[1] + kh * w->dilation[1];
            const float *row = in + c * plane_in + (id * w->in[1] + ih) * w->in[2] + ow * w->stride[2] - w->before[2];
            const float *tap = weights + c * taps + (kd * w->kernel[1] + kh) * w->kernel[2];
            for (int64_t kw = w0; kw < w1; kw++) sum += (double)row[kw * w->dilation[2]] * tap[kw];
          }
        }
      }
      out[o] = (float)(s->bias != NULL ? sum + s->bias[co] : sum);
    }
  }
}

/* Window position along axis a whose tap k lies on element i; -1 if there is none. */
static int64_t position_of(const intact_window *w, int a, int64_t i, int64_t k) {
  int64_t distance = i + w->before[a] - k * w->dilation[a];
  if (distance < 0 || distance % w->stride[a] != 0 || distance / w->stride[a] >= w->out[a]) return -1;
  return distance / w->stride[a];
}

/* result[n,ci,i] = bias + sum of out * w over the windows that hold i; pieces are (n, ci) planes. */
static void adjoint_planes(void *user, int64_t begin, int64_t end) {
  const sums *s = user;
  const intact_window *w = &s->c.window;
  int64_t cg = s->c.ci / s->c.groups, og = s->c.co / s->c.groups, taps = intact__window_taps(w);
  int64_t plane_in = w->in[0] * w->in[1] * w->in[2], plane_out = w->out[0] * w->out[1] * w->out[2];
  for (int64_t p = begin; p < end; p++) {
    int64_t n = p / s->c.ci, ci = p % s->c.ci, first = ci / cg * og;
    for (int64_t i = 0; i < plane_in; i++) {
      int64_t id = i / (w->in[1] * w->in[2]), ih = i / w->in[2] % w->in[1], iw = i % w->in[2];
      double sum = 0;
      for (int64_t co = first; co < first + og; co++) {
        const float *out = s->out + (n * s->c.co + co) * plane_out, *weights = s->w + (co * cg + ci % cg) * taps;
        for (int64_t k = 0; k < taps; k++) {
          int64_t od = position_of(w, 0, id, k / (w->kernel[1] * w->kernel[2]));
          int64_t oh = position_of(w, 1, ih, k / w->kernel[2] % w->kernel[1]);
          int64_t ow = position_of(w, 2, iw, k % w->kernel[2]);
          if (od >= 0 && oh >= 0 && ow >= 0) sum += (double)out[(od * w->out[1] + oh) * w->out[2] + ow] * weights[k];
        }
      }
      s->result[p * plane_in + i] = (float)(s->bias != NULL ? sum + s->bias[ci] : sum);
    }
  }
}

/* result[co,c,k] = sum of in * out over batch and positions; pieces are (co, c) pairs. */
static void weight_planes(void *user, int64_t begin, int64_t end) {
  const sums *s = user;
  const intact_window *w = &s->c.window;
  int64_t cg = s->c.ci / s->c.groups, og = s->c.co / s->c.groups, taps = intact__window_taps(w);
  int64_t plane_in = w->in[0] * w->in[1] * w->in[2], plane_out = w->out[0] * w->out[1] * w->out[2];
  for (int64_t p = begin; p < end; p++) {
    int64_t co = p / cg, ci = co / og * cg + p % cg;
    for (int64_t k = 0; k < taps; k++) {
      int64_t kd = k / (w->kernel[1] * w->kernel[2]), kh = k / w->kernel[2] % w->kernel[1], kw = k % w->kernel[2];
      double sum = 0;
      for (int64_t n = 0; n < s->c.n; n++) {
        const float *in = s->in + (n * s->c.ci + ci) * plane_in, *out = s->out + (n * s->c.co + co) * plane_out;
        for (int64_t o = 0; o < plane_out; o++) {
          int64_t id = o / (w->out[1] * w->out[2]) * w->stride[0] - w->before[0] + kd * w->dilation[0];
          int64_t ih = o / w->out[2] % w->out[1] * w->stride[1] - w->before[1] + kh * w->dilation[1];
          int64_t iw = o % w->out[2] * w->stride[2] - w->before[2] + kw * w->dilation[2];
          bool inside = id >= 0 && id < w->in[0] && ih >= 0 && ih < w->in[1] && iw >= 0 && iw < w->in[2];
          if (inside) sum += (double)in[(id * w->in[1] + ih) * w->in[2] + iw] * out[o];
        }
      }
      s->result[p * taps + k] = (float)sum;
    }
  }
}

static void channel_sums(int64_t n, int64_t channels, int64_t plane, const float *values, float *result) {
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int64_t b = 0; b < n; b++) {
      for (int64_t i = 0; i < plane; i++) sum += values[(b * channels + c) * plane + i];
    }
    result[c] = (float)sum;
  }
}

static intact_status eval_conv(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0], *w = call->operands[1];
  sums s = {.w = intact__f32(w), .bias = intact__operand_f32(call, 2), .result = intact__f32(y)};
  intact__conv_geometry(call->node, x, w, y, &s.c);
  if (intact__conv_is_transposed(call->node)) {
    s.out = intact__f32(x);
    intact__parallel(call->context, s.c.n * s.c.ci, 1, adjoint_planes, &s);
  } else {
    s.in = intact__f32(x);
    intact__parallel(call->context, s.c.n * s.c.co, 1, forward_planes, &s);
  }
  return INTACT_OK;
}

static intact_status grad_conv(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *w = grad->operands[1], *dy = grad->d_results[0];
  intact_tensor *d;
  if (dy == NULL) return INTACT_OK;
  bool transposed = intact__conv_is_transposed(grad->node);
  sums s = {.in = intact__f32(transposed ? dy : x), .out = intact__f32(transposed ? x : dy), .w = intact__f32(w)};
  intact__conv_geometry(grad->node, x, w, dy, &s.c);
  if (intact__wants(grad, 0)) {
    INTACT_TRY(intact__grad_operand(grad, 0, &d));
    s.result = intact__f32(d);
    if (transposed) {
      intact__parallel(grad->context, s.c.n * s.c.co, 1, forward_planes, &s);
    } else {
      intact__parallel(grad->context, s.c.n * s.c.ci, 1, adjoint_planes, &s);
    }
  }
  if (intact__wants(grad, 1)) {
    INTACT_TRY(intact__grad_operand(grad, 1, &d));
    s.result = intact__f32(d);
    intact__parallel(grad->context, s.c.co * (s.c.ci / s.c.groups), 1, weight_planes, &s);
  }
  if (intact__wants(grad, 2)) {
    INTACT_TRY(intact__grad_operand(grad, 2, &d));
    int64_t plane = dy->count / (dy->dims[0] * dy->dims[1] > 0 ? dy->dims[0] * dy->dims[1] : 1);
    channel_sums(dy->dims[0], dy->dims[1], plane, intact__f32(dy), intact__f32(d));
  }
  return INTACT_OK;
}

/* ---- traits ---- */

static int conv_weight_axis(const intact_node *node, int *groups) {
  (void)node;
  *groups = 1;
  return 0;
}

/* Output channel co of group g lies at w[g * in/groups ..., co]. */
static int transposed_weight_axis(const intact_node *node, int *groups) {
  *groups = (int)intact__attr_int(node, "groups");
  return 1;
}

/* One multiply-accumulate per weight and position of the smaller side. */
static int64_t conv_macs(const intact_node *node) {
  const intact_value *x = node->operands[0], *w = node->operands[1], *y = node->results[0];
  const intact_value *positions = intact__conv_is_transposed(node) ? x : y;
  if (positions->rank < 3 || w->rank < 3) return 0;
  int64_t spatial = intact__known_product(positions->dims, 2, positions->rank);
  int64_t batch = positions->dims[0] < 0 ? 1 : positions->dims[0];
  return batch * spatial * intact__known_product(w->dims, 0, w->rank);
}

#define CONV_TRAITS(axis) \
  { .result = INTACT_RESULT_OWN, .bias_of = {0, 1}, .may_fuse_clamp = true, .weight_axis = axis }

#define CONV_OPERANDS                                                             \
  INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"w", INTACT_ROLE_WEIGHT, 0}, \
                  {"bias", INTACT_ROLE_BIAS, INTACT_OPTIONAL}),                   \
      INTACT_RESULTS("y")

/* onnx fix-ups:
   conv            picks the row by the rank of the weight (alias stands at the 2-d row), drops kernel_shape after comparing
   it with the weight, writes auto_pad in lower case (NOTSET is none). conv_transpose  the same; output_shape becomes padding
   by ONNX's rule. */
#define ONNX_CONV "strides=stride,pads=padding,dilations=dilation,group=groups"

#define CONV_ROW(R, onnx)                                                                                         \
  const intact_op intact_op_conv##R##d = {                                                                        \
      .name = "conv" #R "d",                                                                                      \
      .doc = "Convolution over " #R                                                                               \
             " spatial axes: y[n,o,p] = bias[o] + sum of x[n,c,p*stride-padding+k*dilation] * w[o,c,k].",         \
      .schema = {CONV_OPERANDS, INTACT_ATTRS(INTACT_INTS_ATTR("stride", R, 1), INTACT_INTS_ATTR("padding", R, 0), \
                                             INTACT_INTS_ATTR("dilation", R, 1), INTACT_INT_ATTR("groups", 1),    \
                                             INTACT_STRING_ATTR("auto_pad", "none"))},                            \
      .infer = infer_conv,                                                                                        \
      .eval_f32 = eval_conv,                                                                                      \
      .eval_fast = INTACT_FAST(intact__conv_fast),                                                                \
      .grad = grad_conv,                                                                                          \
      .grad_fast = INTACT_FAST(intact__conv_grad_fast),                                                           \
      .quant = CONV_TRAITS(conv_weight_axis),                                                                     \
      .int_layout = INTACT_INT_CHANNELS_LAST,                                                                     \
      .check_int = intact__check_conv,                                                                            \
      .lower_int = intact__lower_conv,                                                                            \
      .macs = conv_macs,                                                                                          \
      .aliases = (const intact_alias[]){{"aten", "aten::conv" #R "d", 0, 0, NULL, NULL},                          \
                                        {"aten", "aten::conv" #R "d.padding", 0, 0, "padding=auto_pad", NULL},    \
                                        onnx{0}},                                                                 \
  };

#define CONV_TRANSPOSE_ROW(R, aten, onnx)                                                                            \
  const intact_op intact_op_conv_transpose##R##d = {                                                                 \
      .name = "conv_transpose" #R "d",                                                                               \
      .doc = "Transposed convolution over " #R " spatial axes: the adjoint of conv" #R                               \
             "d in x, with w [in, out/groups, kernel].",                                                             \
      .schema = {CONV_OPERANDS, INTACT_ATTRS(INTACT_INTS_ATTR("stride", R, 1), INTACT_INTS_ATTR("padding", R, 0),    \
                                             INTACT_INTS_ATTR("output_padding", R, 0), INTACT_INT_ATTR("groups", 1), \
                                             INTACT_INTS_ATTR("dilation", R, 1))},                                   \
      .infer = infer_conv_transpose,                                                                                 \
      .eval_f32 = eval_conv,                                                                                         \
      .eval_fast = INTACT_FAST(intact__conv_fast),                                                                   \
      .grad = grad_conv,                                                                                             \
      .grad_fast = INTACT_FAST(intact__conv_grad_fast),                                                              \
      .quant = CONV_TRAITS(transposed_weight_axis),                                                                  \
      .int_layout = INTACT_INT_CHANNELS_LAST,                                                                        \
      .macs = conv_macs,                                                                                             \
      .aliases =                                                                                                     \
          (const intact_alias[]){                                                                                    \
              {"aten", "aten::conv_transpose" #R "d", 0, 0, NULL, NULL}, {"aten", aten, 0, 0, NULL, NULL}, onnx{0}}, \
  };

#define NO_ONNX
#define CONV_ONNX {"onnx", "Conv", 0, 0, ONNX_CONV, "conv"},
#define CONV_TRANSPOSE_ONNX {"onnx", "ConvTranspose", 0, 0, ONNX_CONV ",output_padding=output_padding", "conv_transpose"},

CONV_ROW(1, NO_ONNX)
CONV_ROW(2, CONV_ONNX)
CONV_ROW(3, NO_ONNX)
CONV_TRANSPOSE_ROW(1, "aten::conv_transpose1d.default", NO_ONNX)
CONV_TRANSPOSE_ROW(2, "aten::conv_transpose2d.input", CONV_TRANSPOSE_ONNX)
CONV_TRANSPOSE_ROW(3, "aten::conv_transpose3d.input", NO_ONNX)
