/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of interpolation, sampling, one-hot codes and losses. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

static intact_status refuse(intact_onnx_node *node, const char *what) {
  INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): %s", node->name, node->op, what);
}

/* ---- Resize, Upsample ---- */
/* Scales of all axes: the last ones from the first that is not 1 on. */
static intact_status set_scales(intact_onnx_node *node, int n, const double *scales) {
  int first = 0;
  while (first < n - 1 && scales[first] == 1) first++;
  return intact__attr_set_floats(node->made, "scale_factor", n - first, scales + first);
}

static intact_status scales_of(intact_onnx_node *node, const intact_value *value, int *n, double *scales) {
  if (value->constant == NULL || value->constant->rank != 1 || value->constant->count > INTACT_MAX_RANK) {
    return refuse(node, "its scales must be constants, one for each axis");
  }
  *n = (int)value->constant->count;
  for (int i = 0; i < *n; i++) scales[i] = intact__tensor_get_f64(value->constant, i);
  return INTACT_OK;
}

/* Sizes of all axes: leading ones that are the input's own fall away. */
static intact_status set_sizes(intact_onnx_node *node, const intact_value *x, const intact_value *sizes) {
  int n, first = 0;
  const int64_t *numbers = NULL;
  INTACT_TRY(intact__onnx_known_ints(node, sizes, &n, &numbers));
  if (n < 0 && sizes->elements != NULL) {
    n = sizes->n_elements;
    numbers = sizes->elements;
  }
  if (n < 1 || n != x->rank) return refuse(node, "its sizes must be known, one for each axis");
  while (first < n - 1 && x->dims[first] == intact__dim_from_element(numbers[first])) first++;
  for (int i = first; i < n; i++) {
    if (intact__element_is_symbol(numbers[i]))
      return refuse(node, "its sizes depend on an open dimension; state scales instead");
  }
  return intact__attr_set_ints(node->made, "size", n - first, numbers + first);
}

/* axes (opset 18): scales or sizes of those axes only; the others keep theirs. */
static intact_status spread_axes(intact_onnx_node *node, const intact_value *x, int n_axes, const int64_t *axes, int *n,
                                 double *scales) {
  double all[INTACT_MAX_RANK];
  if (x->rank < 0 || *n != n_axes) return refuse(node, "axes and scales must be of one length, the input's rank known");
  for (int d = 0; d < x->rank; d++) all[d] = 1;
  for (int i = 0; i < n_axes; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    if (axis < 0 || axis >= x->rank) return refuse(node, "an axis does not exist");
    all[axis] = scales[i];
  }
  *n = x->rank;
  memcpy(scales, all, sizeof all);
  return INTACT_OK;
}

static intact_status read_places(intact_onnx_node *node) {
  static const char *const unused = "extrapolation_value";
  const char *policy = NULL, *mode = NULL;
  INTACT_TRY(intact__onnx_attr_string(node, "keep_aspect_ratio_policy", "stretch", &policy));
  INTACT_TRY(intact__onnx_attr_string(node, "coordinate_transformation_mode", "", &mode));
  intact__onnx_ignore(node, unused);
  if (strcmp(policy, "stretch") != 0) return refuse(node, "keep_aspect_ratio_policy must be stretch");
  if (strcmp(mode, "tf_crop_and_resize") == 0)
    return refuse(node, "coordinate_transformation_mode tf_crop_and_resize is not supported");
  return INTACT_OK;
}

static intact_status resize(intact_onnx_node *node) {
  intact_value *x = intact__onnx_input(node, 0);
  bool old = node->version < 11;
  intact_value *scales = intact__onnx_input(node, old ? 1 : 2), *sizes = old ? NULL : intact__onnx_input(node, 3);
  if (scales != NULL && scales->constant != NULL && scales->constant->count == 0) scales = NULL;
  if (x == NULL || (scales == NULL && sizes == NULL)) return refuse(node, "it needs scales or sizes");
  INTACT_TRY(read_places(node));
  INTACT_TRY(intact__onnx_make(node, 1, &x));
  if (old) {
    INTACT_TRY(intact__attr_set_string(node->made, "coordinate_transformation_mode", "asymmetric"));
    INTACT_TRY(intact__attr_set_string(node->made, "nearest_mode", "floor"));
  }
  int n_axes, n;
  const int64_t *axes = NULL;
  double numbers[INTACT_MAX_RANK];
  INTACT_TRY(intact__onnx_attr_ints(node, "axes", &n_axes, &axes));
  if (scales == NULL && n_axes >= 0)
    return refuse(node, "sizes of some axes only are not supported; state scales or all sizes");
  if (scales == NULL) return set_sizes(node, x, sizes);
  INTACT_TRY(scales_of(node, scales, &n, numbers));
  if (n_axes >= 0) INTACT_TRY(spread_axes(node, x, n_axes, axes, &n, numbers));
  return set_scales(node, n, numbers);
}

static intact_status upsample(intact_onnx_node *node) {
  intact_value *x = intact__onnx_input(node, 0), *scales = intact__onnx_input(node, 1);
  int n;
  const float *given = NULL;
  double numbers[INTACT_MAX_RANK];
  INTACT_TRY(intact__onnx_attr_floats(node, "scales", &n, &given));
  if (x == NULL || (n < 0 && scales == NULL) || n > INTACT_MAX_RANK) return refuse(node, "it needs scales");
  for (int i = 0; i < n; i++) numbers[i] = (double)given[i];
  if (n < 0) INTACT_TRY(scales_of(node, scales, &n, numbers));
  INTACT_TRY(intact__onnx_make(node, 1, &x));
  INTACT_TRY(intact__attr_set_string(node->made, "coordinate_transformation_mode", "asymmetric"));
  INTACT_TRY(intact__attr_set_string(node->made, "nearest_mode", "floor"));
  return set_scales(node, n, numbers);
}

/* ---- GridSample, Col2Im ---- */
static intact_status grid_sample(intact_onnx_node *node) {
  const char *mode = NULL;
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  INTACT_TRY(intact__onnx_attr_string(node, "mode", "bilinear", &mode));
  if (strcmp(mode, "linear") == 0) return intact__attr_set_string(node->made, "mode", "bilinear");
  if (strcmp(mode, "cubic") == 0) return intact__attr_set_string(node->made, "mode", "bicubic");
  return INTACT_OK;
}

static intact_status col2im(intact_onnx_node *node) {
  int n_image, n_block;
  const int64_t *image = NULL, *block = NULL;
  INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 1), &n_image, &image));
  INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 2), &n_block, &block));
  if (n_image != 2 || n_block != 2) return refuse(node, "image_shape and block_shape must be constants of two axes");
  INTACT_TRY(intact__onnx_make(node, 1, node->inputs));
  INTACT_TRY(intact__attr_set_ints(node->made, "output_size", n_image, image));
  return intact__attr_set_ints(node->made, "kernel_size", n_block, block);
}

/* ---- OneHot ---- */
/* codes [.., depth] of 0 and 1 as values [off, on] of their type. */
static intact_status spread_values(intact_onnx_node *node, intact_value *codes, const intact_value *values,
                                   intact_value **result) {
  const intact_tensor *pair = values->constant;
  if (pair == NULL || pair->count != 2) return refuse(node, "its values must be a constant of two numbers");
  double off = intact__tensor_get_f64(pair, 0), on = intact__tensor_get_f64(pair, 1);
  INTACT_TRY(intact__onnx_cast(node, "codes", codes, values->dtype, result));
  intact_value *number = NULL;
  if (on - off != 1) {
    INTACT_TRY(intact__onnx_number(node, "span", values->dtype, on - off, &number));
    INTACT_TRY(intact__onnx_one(node, "mul", "spread", *result, number, result));
  }
  if (off == 0) return INTACT_OK;
  INTACT_TRY(intact__onnx_number(node, "off", values->dtype, off, &number));
  return intact__onnx_one(node, "add", "moved", *result, number, result);
}

static intact_status one_hot(intact_onnx_node *node) {
  intact_value *indices = intact__onnx_input(node, 0), *values = intact__onnx_input(node, 2), *result = NULL, *number = NULL;
  int64_t axis;
  double depth;
  INTACT_TRY(intact__onnx_attr_int(node, "axis", -1, &axis));
  if (indices == NULL || values == NULL || !intact__onnx_known_float(intact__onnx_input(node, 1), &depth)) {
    return refuse(node, "its depth must be a constant");
  }
  INTACT_TRY(intact__onnx_cast(node, "index", indices, INTACT_S64, &indices));
  INTACT_TRY(intact__onnx_number(node, "depth", INTACT_S64, depth, &number));
  INTACT_TRY(intact__onnx_one(node, "remainder", "place", indices, number, &indices));
  intact_node *hot = NULL;
  INTACT_TRY(intact__onnx_add(node, "one_hot", "hot", 1, &indices, &hot));
  intact__attr_set_int(hot, "num_classes", (int64_t)depth);
  INTACT_TRY(intact__node_infer(hot));
  INTACT_TRY(spread_values(node, hot->results[0], values, &result));
  if (axis == -1 || (indices->rank >= 0 && axis == indices->rank)) return intact__onnx_bind(node, 0, result);
  int rank = result->rank;
  if (axis < 0) axis += rank;
  if (rank < 1 || axis < 0 || axis >= rank) return refuse(node, "its axis does not exist, or its input has no known rank");
  int64_t order[INTACT_MAX_RANK];
  for (int d = 0; d < rank; d++) order[d] = d < axis ? d : d == axis ? rank - 1 : d - 1;
  INTACT_TRY(intact__onnx_with_ints(node, "permute", "dims", "turned", result, rank, order, &result));
  return intact__onnx_bind(node, 0, result);
}

/* ---- losses ---- */
/* An absent ignore_index ignores nothing. */
static intact_status class_loss(intact_onnx_node *node) {
  if (intact__onnx_has_output(node, 1)) return refuse(node, "its output of log probabilities is not supported");
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  if (intact__onnx_attribute(node, "ignore_index") == NULL) intact__attr_set_int(node->made, "ignore_index", INT64_MIN);
  return INTACT_OK;
}

const intact_onnx_fixup intact__onnx_fixups_vision[] = {
    INTACT_ONNX_FIXUP(class_loss), INTACT_ONNX_FIXUP(col2im),   INTACT_ONNX_FIXUP(grid_sample), INTACT_ONNX_FIXUP(one_hot),
    INTACT_ONNX_FIXUP(resize),     INTACT_ONNX_FIXUP(upsample), INTACT_ONNX_FIXUPS_END,
};
