/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-ups of data movement and reductions: lists that ONNX gives as operands become attributes where they are known. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

static intact_status need_input(intact_onnx_node *node) {
  if (intact__onnx_input(node, 0) != NULL) return INTACT_OK;
  INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): its first input is left out",
              node->name, node->op);
}

/* Operand `i` as list attribute `name` where its integers are known; else it stays an operand of node->made, which is made
   with row `op`. With both left out the attribute stays absent. */
static intact_status make_with_list(intact_onnx_node *node, const char *op, const char *name, int i) {
  INTACT_TRY(need_input(node));
  int n;
  const int64_t *numbers = NULL;
  intact_value *operands[2] = {node->inputs[0], intact__onnx_input(node, i)};
  INTACT_TRY(intact__onnx_known_ints(node, operands[1], &n, &numbers));
  if (n >= 0) operands[1] = NULL;
  INTACT_TRY(intact__onnx_make_as(node, op, operands[1] == NULL ? 1 : 2, operands));
  return n >= 0 ? intact__attr_set_ints(node->made, name, n, numbers) : INTACT_OK;
}

/* A shape in which every unknown entry is the input's dimension at the same place can be written with zeros. */
static intact_status shape_with_zeros(intact_onnx_node *node, const intact_value *x, const intact_value *shape, bool *done) {
  *done = false;
  int64_t numbers[INTACT_MAX_RANK];
  if (shape == NULL || shape->elements == NULL || shape->n_elements > INTACT_MAX_RANK || x->rank < 0) return INTACT_OK;
  for (int k = 0; k < shape->n_elements; k++) {
    int64_t element = shape->elements[k];
    numbers[k] = element;
    if (element == 0) return INTACT_OK;
    if (!intact__element_is_symbol(element)) continue;
    if (k >= x->rank || x->dims[k] != intact__dim_from_element(element)) return INTACT_OK;
    numbers[k] = 0;
  }
  *done = true;
  INTACT_TRY(intact__onnx_make(node, 1, node->inputs));
  intact__attr_set_int(node->made, "allowzero", 0);
  return intact__attr_set_ints(node->made, "shape", shape->n_elements, numbers);
}

static intact_status reshape_list(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  int n;
  const int64_t *numbers = NULL;
  int64_t allowzero;
  bool done = false;
  INTACT_TRY(intact__onnx_attr_int(node, "allowzero", 0, &allowzero));
  INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 1), &n, &numbers));
  if (n < 0) INTACT_TRY(shape_with_zeros(node, node->inputs[0], intact__onnx_input(node, 1), &done));
  if (done) return INTACT_OK;
  INTACT_TRY(make_with_list(node, node->row->name, "shape", 1));
  intact__attr_set_int(node->made, "allowzero", allowzero != 0);
  return INTACT_OK;
}

static intact_status axes_list(intact_onnx_node *node) {
  return make_with_list(node, node->row->name, "dim", 1);
}
static intact_status repeats_list(intact_onnx_node *node) {
  return make_with_list(node, node->row->name, "repeats", 1);
}
static intact_status size_list(intact_onnx_node *node) {
  return make_with_list(node, node->row->name, "size", 1);
}

static intact_status constant_size(intact_onnx_node *node) {
  int n;
  const int64_t *numbers = NULL;
  intact_value *size = intact__onnx_input(node, 0);
  INTACT_TRY(intact__onnx_known_ints(node, size, &n, &numbers));
  INTACT_TRY(intact__onnx_make(node, n >= 0 || size == NULL ? 0 : 1, &size));
  if (n >= 0) INTACT_TRY(intact__attr_set_ints(node->made, "size", n, numbers));
  if (intact__onnx_attribute(node, "value") == NULL) intact__attr_set_int(node->made, "dtype", INTACT_F32);
  return INTACT_OK;
}

static intact_status slice_lists(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  static const char *const names[5] = {NULL, "start", "end", "dim", "step"};
  intact_value *operands[5] = {node->inputs[0]};
  int n[5];
  const int64_t *numbers[5] = {NULL};
  for (int i = 1; i < 5; i++) {
    operands[i] = intact__onnx_input(node, i);
    INTACT_TRY(intact__onnx_known_ints(node, operands[i], &n[i], &numbers[i]));
    if (n[i] >= 0) operands[i] = NULL;
  }
  INTACT_TRY(intact__onnx_make(node, 5, operands));
  for (int i = 1; i < 5; i++) {
    if (n[i] >= 0) INTACT_TRY(intact__attr_set_ints(node->made, names[i], n[i], numbers[i]));
  }
  return INTACT_OK;
}

static intact_status split_list(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  int n;
  const int64_t *sizes = NULL;
  int64_t axis, parts;
  INTACT_TRY(intact__onnx_attr_int(node, "axis", 0, &axis));
  INTACT_TRY(intact__onnx_attr_int(node, "num_outputs", node->n_outputs, &parts));
  INTACT_TRY(intact__onnx_attr_ints(node, "split", &n, &sizes));
  if (n < 0) INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 1), &n, &sizes));
  if (n < 0 && intact__onnx_input(node, 1) != NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): the sizes of its parts must be constants", node->name, node->op);
  }
  if (n >= 0) {
    INTACT_TRY(intact__onnx_make(node, 1, node->inputs));
    return intact__attr_set_ints(node->made, "split_sizes", n, sizes);
  }
  INTACT_TRY(intact__onnx_make_as(node, "chunk", 1, node->inputs));
  intact__attr_set_int(node->made, "chunks", parts);
  intact__attr_set_int(node->made, "dim", axis);
  return INTACT_OK;
}

/* ---- reductions ---- */
static intact_status reduce(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  int n;
  const int64_t *axes = NULL;
  int64_t keep, noop;
  INTACT_TRY(intact__onnx_attr_ints(node, "axes", &n, &axes));
  INTACT_TRY(intact__onnx_attr_int(node, "keepdims", 1, &keep));
  INTACT_TRY(intact__onnx_attr_int(node, "noop_with_empty_axes", 0, &noop));
  intact_value *list = intact__onnx_input(node, 1);
  if (n < 0) INTACT_TRY(intact__onnx_known_ints(node, list, &n, &axes));
  if (n < 0 && list != NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): its axes must be constants",
                node->name, node->op);
  }
  bool plain = strncmp(node->op, "Reduce", 6) == 0 && (strcmp(node->op + 6, "L1") != 0 && strcmp(node->op + 6, "L2") != 0);
  if (noop && n <= 0 && plain) return intact__onnx_make_as(node, "identity", 1, node->inputs);
  INTACT_TRY(intact__onnx_make(node, 1, node->inputs));
  if (n > 0) INTACT_TRY(intact__attr_set_ints(node->made, "dim", n, axes));
  intact__attr_set_int(node->made, "keepdim", keep != 0);
  return INTACT_OK;
}

static bool has_attribute(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return true;
  }
  return false;
}

static intact_status reduce_axes(intact_onnx_node *node) {
  INTACT_TRY(reduce(node));
  const intact_value *x = node->inputs[0];
  if (intact_dtype_is_integer(x->dtype) && has_attribute(node->made, "dtype"))
    intact__attr_set_int(node->made, "dtype", x->dtype);
  return INTACT_OK;
}

static intact_status norm_order(intact_onnx_node *node) {
  INTACT_TRY(reduce(node));
  intact__attr_set_float(node->made, "ord", strcmp(node->op, "ReduceL1") == 0 ? 1 : 2);
  return INTACT_OK;
}

/* ---- others ---- */
static intact_status depth_to_space_mode(intact_onnx_node *node) {
  const char *mode = NULL;
  int64_t size;
  INTACT_TRY(intact__onnx_attr_string(node, "mode", "DCR", &mode));
  INTACT_TRY(intact__onnx_attr_int(node, "blocksize", 0, &size));
  bool crd = strcmp(mode, "CRD") == 0;
  INTACT_TRY(intact__onnx_make_as(node, crd ? "pixel_shuffle" : node->row->name, node->n_inputs, node->inputs));
  if (crd) intact__attr_set_int(node->made, "upscale_factor", size);
  return INTACT_OK;
}

/* A list of slopes lies along the last axis, ours along axis 1. */
static intact_status right_slope(intact_onnx_node *node) {
  intact_value *x = intact__onnx_input(node, 0), *slope = intact__onnx_input(node, 1);
  if (x == NULL || slope == NULL || slope->rank != 1 || slope->dims[0] == 1 || (x->rank >= 0 && x->rank <= 2)) {
    return intact__onnx_make(node, node->n_inputs, node->inputs);
  }
  static const int64_t row[2] = {1, -1};
  intact_value *pair[2] = {x, NULL};
  INTACT_TRY(intact__onnx_with_ints(node, "reshape", "shape", "slope", slope, 2, row, &pair[1]));
  return intact__onnx_make(node, 2, pair);
}

const intact_onnx_fixup intact__onnx_fixups_shape[] = {
    INTACT_ONNX_FIXUP(axes_list),    INTACT_ONNX_FIXUP(constant_size), INTACT_ONNX_FIXUP(depth_to_space_mode),
    INTACT_ONNX_FIXUP(norm_order),   INTACT_ONNX_FIXUP(reduce_axes),   INTACT_ONNX_FIXUP(repeats_list),
    INTACT_ONNX_FIXUP(reshape_list), INTACT_ONNX_FIXUP(right_slope),   INTACT_ONNX_FIXUP(size_list),
    INTACT_ONNX_FIXUP(slice_lists),  INTACT_ONNX_FIXUP(split_list),    INTACT_ONNX_FIXUPS_END,
};
