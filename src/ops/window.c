/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of sliding windows: stride, padding and dilation read from a node, and the output size. */
#include <assert.h>
#include <string.h>

#include "ops/layer.h"

static const intact_attr *find_ints(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return &node->attrs[i];
  }
  return NULL;
}

/* Number i of an attribute that holds one number for all axes or one per axis; `none` when it is empty. */
static int64_t per_axis(const intact_attr *attr, int i, int64_t none) {
  if (attr == NULL || attr->n == 0) return none;
  return attr->ints[attr->n == 1 ? 0 : i];
}

static void fill(const intact_node *node, int n, const int64_t *in, const int64_t *kernel, bool stride_is_kernel,
                 intact_window *w) {
  const intact_attr *stride = find_ints(node, "stride"), *dilation = find_ints(node, "dilation");
  const intact_attr *padding = find_ints(node, "padding");
  w->n = n;
  for (int a = 0; a < 3; a++) {
    int i = a - (3 - n);
    bool own = i >= 0;
    w->in[a] = own ? in[i] : 1;
    w->out[a] = 1;
    w->kernel[a] = own ? kernel[i] : 1;
    w->stride[a] = own ? per_axis(stride, i, stride_is_kernel ? kernel[i] : 1) : 1;
    w->dilation[a] = own ? per_axis(dilation, i, 1) : 1;
    bool pairs = padding != NULL && n > 0 && padding->n == 2 * n;
    w->before[a] = !own ? 0 : pairs ? padding->ints[i] : per_axis(padding, i, 0);
    w->after[a] = !own ? 0 : pairs ? padding->ints[n + i] : w->before[a];
  }
}

/* auto_pad: "same" puts the odd one behind (PyTorch, "same_upper" of ONNX), "same_lower" before; sizes out = ceil(in /
 * stride). */
static void apply_auto_pad(const intact_node *node, intact_window *w) {
  const char *mode = find_ints(node, "auto_pad") != NULL ? intact__attr_string(node, "auto_pad") : "";
  if (mode == NULL || mode[0] == 0 || strcmp(mode, "none") == 0) return;
  for (int a = 3 - w->n; a < 3; a++) {
    int64_t total = 0, reach = w->dilation[a] * (w->kernel[a] - 1) + 1;
    if (strcmp(mode, "valid") != 0) {
      int64_t in = w->in[a] < 0 ? 0 : w->in[a];
      int64_t steps = (in + w->stride[a] - 1) / w->stride[a];
      total = w->in[a] < 0 ? reach - 1 : (steps - 1) * w->stride[a] + reach - in;
      if (total < 0) total = 0;
    }
    int64_t less = total / 2, more = total - less;
    bool lower = strcmp(mode, "same_lower") == 0;
    w->before[a] = lower ? more : less;
    w->after[a] = lower ? less : more;
  }
}

static intact_status check_length(intact_infer *infer, const char *name, int n, bool pairs) {
  const intact_attr *attr = find_ints(infer->node, name);
  if (attr == NULL || attr->n == 0 || attr->n == 1 || attr->n == n || (pairs && attr->n == 2 * n)) return INTACT_OK;
  INTACT_FAIL(infer->context, SIZE_MISMATCH, infer->node->name, "%s: %s holds %d numbers; it must hold %d%s",
              infer->node->op->name, name, attr->n, n, pairs ? ", or twice as many (leading, then trailing)" : "");
}

static intact_status check_auto_pad(intact_infer *infer) {
  if (find_ints(infer->node, "auto_pad") == NULL) return INTACT_OK;
  static const char *const modes[] = {"", "none", "valid", "same", "same_upper", "same_lower"};
  const char *mode = intact__attr_string(infer->node, "auto_pad");
  bool known = mode == NULL;
  for (size_t i = 0; i < sizeof modes / sizeof modes[0] && !known; i++) known = strcmp(mode, modes[i]) == 0;
  if (!known) {
    INTACT_FAIL(infer->context, INVALID_VALUE, infer->node->name,
                "%s: auto_pad is \"%s\"; it must be none, valid, same, same_upper or same_lower", infer->node->op->name,
                mode);
  }
  return INTACT_OK;
}

static bool in_range(int64_t value, int64_t least) {
  return value >= least && value <= INT32_MAX;
}

static intact_status check_numbers(intact_infer *infer, const intact_window *w) {
  for (int a = 3 - w->n; a < 3; a++) {
    bool fine = in_range(w->kernel[a], 1) && in_range(w->stride[a], 1) && in_range(w->dilation[a], 1) &&
                in_range(w->before[a], 0) && in_range(w->after[a], 0) && w->in[a] <= INT32_MAX;
    if (!fine) {
      INTACT_FAIL(
          infer->context, OUT_OF_RANGE, infer->node->name,
          "%s: spatial axis %d has kernel %lld, stride %lld, dilation %lld, padding %lld and %lld; kernel, stride and "
          "dilation must be at least 1, padding at least 0, all below 2^31",
          infer->node->op->name, a - (3 - w->n), (long long)w->kernel[a], (long long)w->stride[a], (long long)w->dilation[a],
          (long long)w->before[a], (long long)w->after[a]);
    }
  }
  return INTACT_OK;
}

static intact_status output_size(intact_infer *infer, bool ceil_mode, intact_window *w, int a) {
  int64_t reach = w->dilation[a] * (w->kernel[a] - 1) + 1;
  if (w->in[a] < 0) {
    bool kept = w->stride[a] == 1 && w->before[a] + w->after[a] == reach - 1;
    w->out[a] = kept ? w->in[a] : intact__infer_unknown_dim(infer);
    return INTACT_OK;
  }
  int64_t room = w->in[a] + w->before[a] + w->after[a] - reach;
  /* Rounded up, one window that starts inside is left even where it reaches beyond the end. */
  if (room < 0 && !(ceil_mode && room + w->stride[a] > 0)) {
    INTACT_FAIL(
        infer->context, SIZE_MISMATCH, infer->node->name,
        "%s: spatial axis %d has %lld elements and padding %lld and %lld, but the window reaches over %lld; the window "
        "must fit",
        infer->node->op->name, a - (3 - w->n), (long long)w->in[a], (long long)w->before[a], (long long)w->after[a],
        (long long)reach);
  }
  w->out[a] = (ceil_mode ? room + w->stride[a] - 1 : room) / w->stride[a] + 1;
  if (ceil_mode && (w->out[a] - 1) * w->stride[a] >= w->in[a] + w->before[a]) w->out[a]--;
  return INTACT_OK;
}

intact_status intact__window_resolve(intact_infer *infer, int n, const int64_t *in, const int64_t *kernel,
                                     bool stride_is_kernel, bool ceil_mode, intact_window *window) {
  INTACT_TRY(check_length(infer, "stride", n, false));
  INTACT_TRY(check_length(infer, "dilation", n, false));
  INTACT_TRY(check_length(infer, "padding", n, true));
  fill(infer->node, n, in, kernel, stride_is_kernel, window);
  INTACT_TRY(check_numbers(infer, window));
  INTACT_TRY(check_auto_pad(infer));
  apply_auto_pad(infer->node, window);
  for (int a = 3 - n; a < 3; a++) INTACT_TRY(output_size(infer, ceil_mode, window, a));
  return INTACT_OK;
}

void intact__window_known(const intact_node *node, int n, const int64_t *in, const int64_t *kernel, const int64_t *out,
                          bool stride_is_kernel, intact_window *window) {
  fill(node, n, in, kernel, stride_is_kernel, window);
  apply_auto_pad(node, window);
  for (int i = 0; i < n; i++) window->out[3 - n + i] = out[i];
}
