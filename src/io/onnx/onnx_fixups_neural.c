/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of convolution, matrix products, pooling, normalisation and softmax. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

/* ---- windows ---- */
/* The row `<stem><n>d<tail>` for n spatial axes. */
static intact_status make_spatial(intact_onnx_node *node, const char *stem, int axes, const char *tail, int n_operands,
                                  intact_value *const *operands) {
  if (axes < 1 || axes > 3) {
    INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
                "cannot read node '%s' (%s): it works on %d spatial axes; 1 to 3 are supported", node->name, node->op, axes);
  }
  const char *op = intact__arena_format(&node->import->file->arena, "%s%dd%s", stem, axes, tail);
  if (op == NULL) return intact__no_memory(node->context, strlen(stem));
  return intact__onnx_make_as(node, op, n_operands, operands);
}

/* Rank of the first of two values that has one. */
static int rank_of(const intact_value *first, const intact_value *second) {
  if (first != NULL && first->rank >= 0) return first->rank;
  return second != NULL ? second->rank : -1;
}

static intact_status set_auto_pad(intact_onnx_node *node) {
  const char *mode = NULL;
  INTACT_TRY(intact__onnx_attr_string(node, "auto_pad", "NOTSET", &mode));
  static const char *const names[][2] = {
      {"NOTSET", "none"}, {"", "none"}, {"VALID", "valid"}, {"SAME_UPPER", "same_upper"}, {"SAME_LOWER", "same_lower"}};
  for (int i = 0; i < INTACT_COUNT_OF(names); i++) {
    if (strcmp(names[i][0], mode) == 0)
      return i < 2 ? INTACT_OK : intact__attr_set_string(node->made, "auto_pad", names[i][1]);
  }
  INTACT_FAIL(node->context, INVALID_VALUE, node->name,
              "cannot read node '%s' (%s): auto_pad is '%s'; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", node->name,
              node->op, mode);
}

static intact_status check_kernel(intact_onnx_node *node, const intact_value *weight) {
  int n;
  const int64_t *kernel;
  INTACT_TRY(intact__onnx_attr_ints(node, "kernel_shape", &n, &kernel));
  bool fits = n < 0 || weight->rank < 0 || n == weight->rank - 2;
  for (int i = 0; fits && i < n && weight->rank >= 0; i++)
    fits = weight->dims[2 + i] < 0 || weight->dims[2 + i] == kernel[i];
  if (fits) return INTACT_OK;
  char text[160];
  INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
              "cannot read node '%s' (%s): kernel_shape does not fit the weight '%s' of shape %s", node->name, node->op,
              weight->name, intact__shape_text(weight->rank, weight->dims, text));
}

static intact_status check_three(intact_onnx_node *node, int needed) {
  if (node->n_inputs >= needed && node->n_inputs <= 3 && intact__onnx_input(node, 0) != NULL &&
      (needed < 2 || intact__onnx_input(node, 1) != NULL)) {
    return INTACT_OK;
  }
  INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): it has %d inputs, %d to 3 are needed",
              node->name, node->op, node->n_inputs, needed);
}

static intact_status conv(intact_onnx_node *node) {
  INTACT_TRY(check_three(node, 2));
  INTACT_TRY(check_kernel(node, node->inputs[1]));
  int rank = rank_of(node->inputs[1], node->inputs[0]);
  INTACT_TRY(make_spatial(node, "conv", rank - 2, "", node->n_inputs, node->inputs));
  return set_auto_pad(node);
}

/* Padding that gives the wanted output size: total = stride (in - 1) + output_padding + reach - out, the odd one before
   unless SAME_UPPER. */
static intact_status pad_to_size(intact_onnx_node *node, int axes, bool same, bool upper, int n_sizes,
                                 const int64_t *sizes) {
  const intact_value *x = node->inputs[0], *w = node->inputs[1];
  const intact_attr *stride = intact__attr(node->made, "stride"), *dilation = intact__attr(node->made, "dilation");
  const intact_attr *extra = intact__attr(node->made, "output_padding");
  int64_t pads[6];
  for (int i = 0; i < axes; i++) {
    int64_t s = stride->n == axes ? stride->ints[i] : 1, d = dilation->n == axes ? dilation->ints[i] : 1;
    int64_t more = extra->n == axes ? extra->ints[i] : 0, in = x->rank == axes + 2 ? x->dims[2 + i] : -1;
    int64_t kernel = w->rank == axes + 2 ? w->dims[2 + i] : -1;
    if ((!same && (in < 0 || n_sizes < axes)) || kernel < 0 || kernel > INT32_MAX || s < 0 || s > INT32_MAX || d < 0 ||
        d > INT32_MAX || in > INT32_MAX) {
      INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                  "cannot read node '%s' (%s): output_shape needs an input and a kernel of known size; state pads instead",
                  node->name, node->op);
    }
    int64_t reach = (kernel - 1) * d + 1;
    int64_t total = same ? more + reach - s : s * (in - 1) + more + reach - sizes[n_sizes - axes + i];
    if (total < 0) {
      INTACT_FAIL(node->context, OUT_OF_RANGE, node->name,
                  "cannot read node '%s' (%s): its output shape asks for padding of %lld", node->name, node->op,
                  (long long)total);
    }
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[axes + i] = total - pads[i];
  }
  return intact__attr_set_ints(node->made, "padding", 2 * axes, pads);
}

static intact_status conv_transpose(intact_onnx_node *node) {
  INTACT_TRY(check_three(node, 2));
  INTACT_TRY(check_kernel(node, node->inputs[1]));
  int axes = rank_of(node->inputs[1], node->inputs[0]) - 2, n_sizes;
  const int64_t *sizes = NULL;
  const char *mode = NULL;
  INTACT_TRY(make_spatial(node, "conv_transpose", axes, "", node->n_inputs, node->inputs));
  INTACT_TRY(intact__onnx_attr_ints(node, "output_shape", &n_sizes, &sizes));
  INTACT_TRY(intact__onnx_attr_string(node, "auto_pad", "NOTSET", &mode));
  bool upper = strcmp(mode, "SAME_UPPER") == 0, same = upper || strcmp(mode, "SAME_LOWER") == 0;
  if (n_sizes < 0 && !same) return INTACT_OK;
  return pad_to_size(node, axes, same && n_sizes < 0, upper, n_sizes, sizes);
}

/* Indices of our rows count within one plane, ONNX's within the whole tensor. */
static intact_status add_plane_offsets(intact_onnx_node *node, int axes) {
  const intact_value *x = node->inputs[0];
  intact_value *indices = node->made->results[1];
  int64_t plane = 1, planes = 1, dims[INTACT_MAX_RANK];
  for (int d = 0; d < x->rank; d++) {
    if (x->dims[d] < 0) {
      INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                  "cannot read node '%s' (%s): its Indices need an input of known size; '%s' has an open dimension",
                  node->name, node->op, x->name);
    }
    bool spatial = d >= x->rank - axes;
    if (__builtin_mul_overflow(spatial ? plane : planes, x->dims[d], spatial ? &plane : &planes) || planes > (1 << 20) ||
        plane > INT64_MAX / (1 << 20)) {
      INTACT_FAIL(node->context, OVERFLOW, node->name, "cannot read node '%s' (%s): too many planes", node->name, node->op);
    }
    dims[d] = spatial ? 1 : x->dims[d];
  }
  intact_tensor *offsets = NULL;
  intact_value *constant = NULL, *result = NULL;
  INTACT_TRY(intact_tensor_create(node->context, INTACT_S64, x->rank, dims, &offsets));
  for (int64_t i = 0; i < planes; i++) ((int64_t *)offsets->data)[i] = i * plane;
  INTACT_TRY(intact__onnx_constant(node, "plane", offsets, NULL, &constant));
  INTACT_TRY(intact__onnx_one(node, "add", "indices", indices, constant, &result));
  return intact__onnx_bind(node, 1, result);
}

static intact_status pool(intact_onnx_node *node) {
  INTACT_TRY(check_three(node, 1));
  int n;
  const int64_t *kernel;
  int64_t order;
  bool indices = intact__onnx_has_output(node, 1), max = strcmp(node->op, "MaxPool") == 0;
  INTACT_TRY(intact__onnx_attr_ints(node, "kernel_shape", &n, &kernel));
  INTACT_TRY(intact__onnx_attr_int(node, "storage_order", 0, &order));
  if (order != 0 && indices) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): storage_order 1 is not supported",
                node->name, node->op);
  }
  INTACT_TRY(make_spatial(node, max ? "max_pool" : "avg_pool", n, indices ? "_with_indices" : "", 1, node->inputs));
  static const int64_t ones[3] = {1, 1, 1};
  int n_strides;
  const int64_t *strides;
  INTACT_TRY(intact__onnx_attr_ints(node, "strides", &n_strides, &strides));
  if (n_strides < 0) INTACT_TRY(intact__attr_set_ints(node->made, "stride", n, ones));
  if (!max) {
    int64_t include;
    INTACT_TRY(intact__onnx_attr_int(node, "count_include_pad", 0, &include));
    intact__attr_set_int(node->made, "count_include_pad", include != 0);
  }
  INTACT_TRY(set_auto_pad(node));
  INTACT_TRY(intact__node_infer(node->made));
  return indices ? add_plane_offsets(node, n) : INTACT_OK;
}

static intact_status global_pool(intact_onnx_node *node) {
  INTACT_TRY(check_three(node, 1));
  int axes = rank_of(node->inputs[0], NULL) - 2;
  bool max = strcmp(node->op, "GlobalMaxPool") == 0;
  static const int64_t ones[3] = {1, 1, 1};
  INTACT_TRY(make_spatial(node, max ? "adaptive_max_pool" : "adaptive_avg_pool", axes, "", 1, node->inputs));
  return intact__attr_set_ints(node->made, "output_size", axes, ones);
}

/* ---- Gemm ---- */
/* C as a row of n numbers; NULL when it is of another shape. */
static intact_status as_bias(intact_onnx_node *node, intact_value *c, const intact_value *weight, intact_value **bias) {
  *bias = NULL;
  if (c->rank == 1 && (c->dims[0] == weight->dims[0] && weight->dims[0] >= 0)) *bias = c;
  bool row = c->rank == 2 && c->dims[0] == 1 && c->dims[1] == weight->dims[0] && c->constant != NULL && c->qparams == NULL;
  if (!row) return INTACT_OK;
  intact_tensor *shared = NULL;
  INTACT_TRY(intact_tensor_share(c->constant, 1, &c->dims[1], &shared));
  return intact__onnx_constant(node, "bias", shared, NULL, bias);
}

static intact_status gemm_general(intact_onnx_node *node, double alpha, double beta, intact_value *a, intact_value *b,
                                  intact_value *c) {
  if (c == NULL || beta == 0) {
    intact_value *pair[2] = {a, b}, *number = NULL;
    if (alpha == 1) return intact__onnx_make_as(node, "matmul", 2, pair);
    INTACT_TRY(intact__onnx_one(node, "matmul", "product", a, b, &pair[0]));
    INTACT_TRY(intact__onnx_number(node, "alpha", INTACT_F32, alpha, &number));
    pair[1] = number;
    return intact__onnx_make_as(node, "mul", 2, pair);
  }
  intact_value *operands[3] = {c, a, b};
  INTACT_TRY(intact__onnx_make(node, 3, operands));
  intact__attr_set_float(node->made, "alpha", alpha);
  intact__attr_set_float(node->made, "beta", beta);
  return INTACT_OK;
}

static intact_status gemm(intact_onnx_node *node) {
  int64_t turn_a, turn_b;
  double alpha, beta;
  INTACT_TRY(check_three(node, 2));
  INTACT_TRY(intact__onnx_attr_int(node, "transA", 0, &turn_a));
  INTACT_TRY(intact__onnx_attr_int(node, "transB", 0, &turn_b));
  INTACT_TRY(intact__onnx_attr_float(node, "alpha", 1, &alpha));
  INTACT_TRY(intact__onnx_attr_float(node, "beta", 1, &beta));
  intact__onnx_ignore(node, "broadcast");
  intact_value *a = node->inputs[0], *b = node->inputs[1], *c = intact__onnx_input(node, 2), *weight = b, *bias = NULL;
  bool plain = alpha == 1 && (c == NULL || beta == 1) && !turn_a && b->rank == 2;
  if (plain && !turn_b) INTACT_TRY(intact__onnx_transpose(node, "weight", b, &weight));
  if (plain && c != NULL) INTACT_TRY(as_bias(node, c, weight, &bias));
  if (plain && (c == NULL || bias != NULL)) {
    intact_value *operands[3] = {a, weight, bias};
    return intact__onnx_make_as(node, "linear", bias == NULL ? 2 : 3, operands);
  }
  if (turn_a) INTACT_TRY(intact__onnx_transpose(node, "a", a, &a));
  if (turn_b) INTACT_TRY(intact__onnx_transpose(node, "b", b, &b));
  return gemm_general(node, alpha, beta, a, b, c);
}

/* ---- normalisation ---- */
static intact_status refuse_value(intact_onnx_node *node, const char *name, int64_t value) {
  INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): %s = %lld is not supported",
              node->name, node->op, name, (long long)value);
}

static intact_status batch_norm(intact_onnx_node *node) {
  double momentum;
  int64_t training, spatial;
  INTACT_TRY(intact__onnx_attr_float(node, "momentum", (double)0.9f, &momentum));
  INTACT_TRY(intact__onnx_attr_int(node, "training_mode", 0, &training));
  INTACT_TRY(intact__onnx_attr_int(node, "spatial", 1, &spatial));
  if (spatial != 1) return refuse_value(node, "spatial", spatial);
  if (node->version < 14 && intact__onnx_has_output(node, 1)) training = 1;
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  intact__attr_set_int(node->made, "training", training != 0);
  if (training) intact__attr_set_float(node->made, "momentum", 1 - momentum);
  return INTACT_OK;
}

static intact_status layer_norm(intact_onnx_node *node) {
  int64_t axis, stash;
  INTACT_TRY(check_three(node, 2));
  INTACT_TRY(intact__onnx_attr_int(node, "axis", -1, &axis));
  INTACT_TRY(intact__onnx_attr_int(node, "stash_type", 1, &stash));
  if (stash != 1) return refuse_value(node, "stash_type", stash);
  const intact_value *x = node->inputs[0], *scale = node->inputs[1];
  int first = axis >= 0 ? (int)(axis < INTACT_MAX_RANK ? axis : INTACT_MAX_RANK) : x->rank + (int)(axis > -9 ? axis : -9);
  int64_t shape[INTACT_MAX_RANK];
  int n = x->rank - first;
  bool known = x->rank >= 0 && first >= 0 && first < x->rank;
  for (int i = 0; known && i < n; i++) {
    shape[i] = x->dims[first + i];
    if (shape[i] < 0 && scale->rank >= n - i) shape[i] = scale->dims[scale->rank - n + i];
    known = shape[i] >= 0;
  }
  if (!known && x->rank < 0 && axis == -1 && scale->rank == 1 && scale->dims[0] >= 0) {
    n = 1;
    shape[0] = scale->dims[0];
    known = true;
  }
  if (!known) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): the shape from axis %lld on must be known", node->name, node->op,
                (long long)axis);
  }
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  return intact__attr_set_ints(node->made, "normalized_shape", n, shape);
}

/* One number per group as one per channel. */
static intact_status per_channel(intact_onnx_node *node, const char *suffix, intact_value *x, int64_t groups,
                                 int64_t channels, intact_value **result) {
  *result = x;
  if (x == NULL || x->rank != 1 || x->dims[0] != groups || groups == channels) return INTACT_OK;
  if (x->constant == NULL || channels < 0 || channels % groups != 0 || channels > (1 << 24)) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): '%s' must be a constant with one number per group", node->name, node->op,
                x->name);
  }
  intact_tensor *wide = NULL;
  INTACT_TRY(intact_tensor_create(node->context, x->dtype, 1, &channels, &wide));
  for (int64_t c = 0; c < channels; c++) {
    intact__tensor_set_f64(wide, c, intact__tensor_get_f64(x->constant, c / (channels / groups)));
  }
  return intact__onnx_constant(node, suffix, wide, NULL, result);
}

static intact_status group_norm(intact_onnx_node *node) {
  int64_t groups, stash;
  INTACT_TRY(check_three(node, 2));
  INTACT_TRY(intact__onnx_attr_int(node, "num_groups", 0, &groups));
  INTACT_TRY(intact__onnx_attr_int(node, "stash_type", 1, &stash));
  if (stash != 1) return refuse_value(node, "stash_type", stash);
  if (groups < 1) return refuse_value(node, "num_groups", groups);
  intact_value *operands[3] = {node->inputs[0], node->inputs[1], intact__onnx_input(node, 2)};
  if (node->version < 21) {
    int64_t channels = operands[0]->rank >= 2 ? operands[0]->dims[1] : -1;
    INTACT_TRY(per_channel(node, "scale", operands[1], groups, channels, &operands[1]));
    INTACT_TRY(per_channel(node, "bias", operands[2], groups, channels, &operands[2]));
  }
  return intact__onnx_make(node, 3, operands);
}

/* axis is -1 unless given, and nothing is added to the norm. */
static intact_status lp_norm(intact_onnx_node *node) {
  int64_t axis, order;
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  INTACT_TRY(intact__onnx_attr_int(node, "axis", -1, &axis));
  INTACT_TRY(intact__onnx_attr_int(node, "p", 2, &order));
  intact__attr_set_int(node->made, "dim", axis);
  intact__attr_set_float(node->made, "p", (double)order);
  intact__attr_set_float(node->made, "eps", 0);
  return INTACT_OK;
}

/* ---- softmax before opset 13 ---- */
/* All dimensions from axis on count as one: reshape, softmax over the last axis, reshape back. */
static intact_status softmax_flatten(intact_onnx_node *node) {
  INTACT_TRY(check_three(node, 1));
  int64_t axis;
  INTACT_TRY(intact__onnx_attr_int(node, "axis", 1, &axis));
  intact_value *x = node->inputs[0];
  if (axis < 0 && x->rank >= 0) axis += x->rank;
  if (x->rank < 0 || axis < 0 || axis >= (x->rank > 0 ? x->rank : 1)) {
    INTACT_FAIL(node->context, OUT_OF_RANGE, node->name,
                "cannot read node '%s' (%s): axis %lld does not fit its input of rank %d", node->name, node->op,
                (long long)axis, x->rank);
  }
  bool one = true; /* only one of the dimensions is larger than 1 */
  for (int d = (int)axis + 1; d < x->rank; d++) one = one && x->dims[d] == 1;
  if (axis == x->rank - 1 || one) {
    INTACT_TRY(intact__onnx_make(node, 1, &x));
    intact__attr_set_int(node->made, "dim", axis);
    return INTACT_OK;
  }
  int64_t flat[INTACT_MAX_RANK];
  flat[axis] = -1;
  intact_node *reshape = NULL;
  INTACT_TRY(intact__onnx_add(node, "reshape", "flat", 1, &x, &reshape));
  for (int d = 0; d < (int)axis; d++) flat[d] = x->dims[d];
  bool known = true;
  for (int d = 0; d < x->rank; d++) known = known && (x->dims[d] >= 0);
  if (!known) {
    INTACT_FAIL(
        node->context, UNSUPPORTED_OP, node->name,
        "cannot read node '%s' (%s): over several axes its input must be of known size; convert the model to opset 13",
        node->name, node->op);
  }
  INTACT_TRY(intact__attr_set_ints(reshape, "shape", (int)axis + 1, flat));
  INTACT_TRY(intact__node_infer(reshape));
  intact_node *soft = NULL;
  INTACT_TRY(intact__onnx_add(node, node->row->name, "soft", 1, reshape->results, &soft));
  intact__attr_set_int(soft, "dim", -1);
  INTACT_TRY(intact__node_infer(soft));
  intact__onnx_ignore(node, "axis");
  INTACT_TRY(intact__onnx_make_as(node, "reshape", 1, soft->results));
  return intact__attr_set_ints(node->made, "shape", x->rank, x->dims);
}

const intact_onnx_fixup intact__onnx_fixups_neural[] = {
    INTACT_ONNX_FIXUP(batch_norm),
    INTACT_ONNX_FIXUP(conv),
    INTACT_ONNX_FIXUP(conv_transpose),
    INTACT_ONNX_FIXUP(gemm),
    INTACT_ONNX_FIXUP(global_pool),
    INTACT_ONNX_FIXUP(group_norm),
    INTACT_ONNX_FIXUP(layer_norm),
    INTACT_ONNX_FIXUP(lp_norm),
    INTACT_ONNX_FIXUP(pool),
    INTACT_ONNX_FIXUP(softmax_flatten),
    INTACT_ONNX_FIXUPS_END,
};
