/* SPDX-License-Identifier: Apache-2.0 */
/* Rows im2col and col2im (unfold and fold of torch.nn.functional): windows as columns, and their sum back. */
#include "ops/layer.h"

/* Four numbers of two axes: attribute `name` of one or two numbers. */
static void pair_of(const intact_node *node, const char *name, int64_t *values) {
  const intact_attr *attr = intact__attr(node, name);
  values[0] = attr->n > 0 ? attr->ints[0] : 0;
  values[1] = attr->n > 1 ? attr->ints[1] : values[0];
}

static intact_status check_pair(intact_infer *infer, const char *name) {
  int n = intact__attr(infer->node, name)->n;
  if (n == 1 || n == 2) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s: %s holds %d numbers; it must hold 2",
              infer->node->op->name, name, n);
}

static intact_status check_picture(intact_infer *infer, int least, int most) {
  const intact_value *x = infer->node->operands[0];
  char text[160];
  INTACT_TRY(intact__infer_floats(infer));
  INTACT_TRY(check_pair(infer, "kernel_size"));
  if (x->rank < 0 || (x->rank >= least && x->rank <= most)) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s: x is %s; it must have rank %d, or %d without a batch",
              infer->node->op->name, intact__shape_text(x->rank, x->dims, text), most, least);
}

static intact_status infer_im2col(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int64_t kernel[2], dims[3];
  INTACT_TRY(check_picture(infer, 3, 4));
  if (x->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  pair_of(infer->node, "kernel_size", kernel);
  intact_window w;
  INTACT_TRY(intact__window_resolve(infer, 2, x->dims + x->rank - 2, kernel, false, false, &w));
  int64_t channels = x->dims[x->rank - 3];
  dims[0] = x->dims[0];
  dims[x->rank - 3] = channels < 0 ? intact__infer_unknown_dim(infer) : channels * kernel[0] * kernel[1];
  dims[x->rank - 2] = w.out[1] < 0 || w.out[2] < 0 ? intact__infer_unknown_dim(infer) : w.out[1] * w.out[2];
  return intact__infer_result(infer, 0, INTACT_F32, x->rank - 1, dims);
}

static intact_status infer_col2im(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int64_t kernel[2], size[2], dims[4];
  INTACT_TRY(check_picture(infer, 2, 3));
  INTACT_TRY(check_pair(infer, "output_size"));
  if (x->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  pair_of(node, "kernel_size", kernel);
  pair_of(node, "output_size", size);
  intact_window w;
  if (size[0] < 1 || size[1] < 1) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name, "col2im: output_size is %lld, %lld; both must be at least 1",
                (long long)size[0], (long long)size[1]);
  }
  INTACT_TRY(intact__window_resolve(infer, 2, size, kernel, false, false, &w));
  int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], taps = kernel[0] * kernel[1];
  if ((rows >= 0 && rows % taps != 0) || (columns >= 0 && columns != w.out[1] * w.out[2])) {
    char text[160];
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "col2im: x is %s; it must be [..., channels * %lld, %lld] for this kernel and output_size",
                intact__shape_text(x->rank, x->dims, text), (long long)taps, (long long)(w.out[1] * w.out[2]));
  }
  dims[0] = x->dims[0];
  dims[x->rank - 2] = rows < 0 ? intact__infer_unknown_dim(infer) : rows / taps;
  dims[x->rank - 1] = size[0];
  dims[x->rank] = size[1];
  return intact__infer_result(infer, 0, INTACT_F32, x->rank + 1, dims);
}

/* The picture [planes, h, w] and the columns [planes * taps, positions]. */
typedef struct unfolding {
  int64_t planes;
  intact_window w;
} unfolding;

static unfolding unfolding_of(const intact_node *node, const intact_tensor *picture) {
  int64_t kernel[2];
  unfolding u = {.planes = intact__known_product(picture->dims, 0, picture->rank - 2)};
  pair_of(node, "kernel_size", kernel);
  intact__window_known(node, 2, picture->dims + picture->rank - 2, kernel, kernel, false, &u.w);
  for (int a = 1; a < 3; a++) {
    int64_t reach = u.w.dilation[a] * (u.w.kernel[a] - 1) + 1;
    u.w.out[a] = (u.w.in[a] + u.w.before[a] + u.w.after[a] - reach) / u.w.stride[a] + 1;
  }
  return u;
}

/* Element of the picture's plane that tap k of position o lies on; -1 in the padding. */
static int64_t source_of(const intact_window *w, int64_t k, int64_t o) {
  int64_t h = o / w->out[2] * w->stride[1] - w->before[1] + k / w->kernel[2] * w->dilation[1];
  int64_t v = o % w->out[2] * w->stride[2] - w->before[2] + k % w->kernel[2] * w->dilation[2];
  return h >= 0 && h < w->in[1] && v >= 0 && v < w->in[2] ? h * w->in[2] + v : -1;
}

static void gather(const unfolding *u, const float *picture, float *columns) {
  int64_t taps = intact__window_taps(&u->w), positions = u->w.out[1] * u->w.out[2], plane = u->w.in[1] * u->w.in[2];
  for (int64_t i = 0; i < u->planes * taps * positions; i++) {
    int64_t from = source_of(&u->w, i / positions % taps, i % positions);
    columns[i] = from < 0 ? 0 : picture[i / (taps * positions) * plane + from];
  }
}

/* The adjoint: each element of the picture is the sum, in double, of the columns' elements that lie on it. */
static intact_status scatter(intact_context *context, const unfolding *u, const float *columns, float *picture) {
  int64_t taps = intact__window_taps(&u->w), positions = u->w.out[1] * u->w.out[2], plane = u->w.in[1] * u->w.in[2];
  double *sums = intact__alloc(context, (size_t)plane + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(context, (size_t)plane * sizeof(double));
  for (int64_t p = 0; p < u->planes; p++) {
    for (int64_t i = 0; i < plane; i++) sums[i] = 0;
    for (int64_t i = 0; i < taps * positions; i++) {
      int64_t to = source_of(&u->w, i / positions, i % positions);
      if (to >= 0) sums[to] += columns[p * taps * positions + i];
    }
    for (int64_t i = 0; i < plane; i++) picture[p * plane + i] = (float)sums[i];
  }
  intact__free(context, sums);
  return INTACT_OK;
}

static intact_status eval_im2col(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  unfolding u = unfolding_of(call->node, call->operands[0]);
  gather(&u, intact__operand_f32(call, 0), intact__f32(y));
  return INTACT_OK;
}

static intact_status eval_col2im(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  unfolding u = unfolding_of(call->node, y);
  return scatter(call->context, &u, intact__operand_f32(call, 0), intact__f32(y));
}

static intact_status grad_im2col(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  unfolding u = unfolding_of(grad->node, grad->operands[0]);
  return scatter(grad->context, &u, intact__f32(grad->d_results[0]), intact__f32(d));
}

static intact_status grad_col2im(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  unfolding u = unfolding_of(grad->node, grad->d_results[0]);
  gather(&u, intact__f32(grad->d_results[0]), intact__f32(d));
  return INTACT_OK;
}

#define UNFOLD_ATTRS                                                                                          \
  INTACT_INTS_REQUIRED("kernel_size"), INTACT_INTS_ATTR("dilation", 2, 1), INTACT_INTS_ATTR("padding", 2, 0), \
      INTACT_INTS_ATTR("stride", 2, 1)

const intact_op intact_op_im2col = {
    .name = "im2col",
    .doc = "Windows of a picture [N, C, H, W] as columns [N, C * taps, positions]; padding is 0.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"), INTACT_ATTRS(UNFOLD_ATTRS)},
    .infer = infer_im2col,
    .eval_f32 = eval_im2col,
    .grad = grad_im2col,
    .quant = {.result = INTACT_RESULT_SAME_AS, .same_as = 0},
    .int_layout = INTACT_INT_ROWS,
    .aliases = INTACT_ALIASES(INTACT_ATEN("im2col"), INTACT_ATEN("unfold_im2col")),
};

const intact_op intact_op_col2im = {
    .name = "col2im",
    .doc = "Columns [N, C * taps, positions] summed back into a picture [N, C, H, W] of output_size: the adjoint of im2col.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INTS_REQUIRED("output_size"), UNFOLD_ATTRS)},
    .infer = infer_col2im,
    .eval_f32 = eval_col2im,
    .grad = grad_col2im,
    .quant = {.result = INTACT_RESULT_OWN},
    .int_layout = INTACT_INT_ROWS,
    /* onnx fix-up col2im: image_shape and block_shape are constants; two axes. */
    .aliases = INTACT_ALIASES(INTACT_ATEN("col2im"),
                              INTACT_ONNX_AS("Col2Im", "strides=stride,pads=padding,dilations=dilation", "col2im")),
};
