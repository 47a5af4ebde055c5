/* SPDX-License-Identifier: Apache-2.0 */
/* The fast form of the convolution rows. */
#include <string.h>

#include "kernels/float/float_kernels.h"
#include "ops/conv.h"
#include "ops/fast.h"

static void *retain(const void *object) {
  intact_tensor *handle = NULL;
  return intact_tensor_share(object, 0, NULL, &handle) == INTACT_OK ? handle : NULL;
}

static void release(void *handle) {
  intact_tensor_destroy(handle);
}

const struct intact_float_keep *intact__fast_keep(const intact_node *node, int i, const intact_tensor *tensor,
                                                  intact_float_keep *keep) {
  const intact_tensor *constant = node->operands[i]->constant;
  if (constant == NULL || constant->storage != tensor->storage || constant->data != tensor->data) return NULL;
  if (intact__tensor_version(tensor) > 0) return NULL;
  *keep = (intact_float_keep){{tensor->storage, tensor->data}, retain, release, tensor};
  return keep;
}

static intact_float_conv fast_geometry(const intact_conv *conv) {
  const intact_window *w = &conv->window;
  intact_float_conv f = {.axes = w->n, .n = conv->n, .ci = conv->ci, .co = conv->co, .groups = conv->groups};
  memcpy(f.in, w->in, sizeof f.in);
  memcpy(f.out, w->out, sizeof f.out);
  memcpy(f.kernel, w->kernel, sizeof f.kernel);
  memcpy(f.stride, w->stride, sizeof f.stride);
  memcpy(f.dilation, w->dilation, sizeof f.dilation);
  memcpy(f.before, w->before, sizeof f.before);
  memcpy(f.after, w->after, sizeof f.after);
  return f;
}

static void add_bias(const intact_tensor *y, const float *bias) {
  int64_t plane = intact__known_product(y->dims, 2, y->rank), channels = y->dims[1];
  for (int64_t p = 0; p < y->dims[0] * channels; p++) {
    float *to = intact__f32(y) + p * plane, b = bias[p % channels];
    for (int64_t i = 0; i < plane; i++) to[i] += b;
  }
}

intact_status intact__conv_fast(const intact_call *call) {
  intact_tensor *y;
  bool done = false;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *x = call->operands[0], *w = call->operands[1];
  const float *bias = intact__operand_f32(call, 2);
  if (x->count == 0 || y->count == 0 || w->count == 0) return call->node->op->eval_f32(call);
  intact_conv conv;
  intact_float_keep keep;
  intact__conv_geometry(call->node, x, w, y, &conv);
  intact_float_conv f = fast_geometry(&conv);
  const intact_float_keep *kept = intact__fast_keep(call->node, 1, w, &keep);
  if (intact__conv_is_transposed(call->node)) {
    INTACT_TRY(
        intact__float_conv_backward_data(call->context, &f, intact__f32(x), intact__f32(w), intact__f32(y), kept, &done));
    if (done && bias != NULL) add_bias(y, bias);
  } else {
    INTACT_TRY(
        intact__float_conv_forward(call->context, &f, intact__f32(x), intact__f32(w), bias, intact__f32(y), kept, &done));
  }
  return done ? INTACT_OK : call->node->op->eval_f32(call);
}

static void channel_sums(const intact_tensor *dy, float *result) {
  int64_t plane = intact__known_product(dy->dims, 2, dy->rank), channels = dy->dims[1];
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int64_t n = 0; n < dy->dims[0]; n++) {
      const float *from = intact__f32(dy) + (n * channels + c) * plane;
      for (int64_t i = 0; i < plane; i++) sum += from[i];
    }
    result[c] = (float)sum;
  }
}

/* The gradient of x: data of the correlation, or for the transposed form the correlation itself. */
static intact_status grad_data(intact_grad *grad, const intact_float_conv *f, bool transposed, bool *done) {
  const float *w = intact__f32(grad->operands[1]), *dy = intact__f32(grad->d_results[0]);
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand_raw(grad, 0, &d));
  return transposed ? intact__float_conv_forward(grad->context, f, dy, w, NULL, intact__f32(d), NULL, done)
                    : intact__float_conv_backward_data(grad->context, f, dy, w, intact__f32(d), NULL, done);
}

static intact_status grad_weights(intact_grad *grad, const intact_float_conv *f, bool transposed, bool *done) {
  const float *x = intact__f32(grad->operands[0]), *dy = intact__f32(grad->d_results[0]);
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand_raw(grad, 1, &d));
  return intact__float_conv_backward_weights(grad->context, f, transposed ? dy : x, transposed ? x : dy, intact__f32(d),
                                             NULL, done);
}

intact_status intact__conv_grad_fast(intact_grad *grad) {
  const intact_tensor *x = grad->operands[0], *w = grad->operands[1], *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  if (x->count == 0 || dy->count == 0 || w->count == 0) return grad->node->op->grad(grad);
  intact_conv conv;
  intact__conv_geometry(grad->node, x, w, dy, &conv);
  intact_float_conv f = fast_geometry(&conv);
  bool transposed = intact__conv_is_transposed(grad->node), done = true;
  if (intact__wants(grad, 0)) INTACT_TRY(grad_data(grad, &f, transposed, &done));
  if (done && intact__wants(grad, 1)) INTACT_TRY(grad_weights(grad, &f, transposed, &done));
  if (!done) {
    intact__grad_forget(grad);
    return grad->node->op->grad(grad);
  }
  if (intact__wants(grad, 2)) {
    intact_tensor *d;
    INTACT_TRY(intact__grad_operand_raw(grad, 2, &d));
    channel_sums(dy, intact__f32(d));
  }
  return INTACT_OK;
}
