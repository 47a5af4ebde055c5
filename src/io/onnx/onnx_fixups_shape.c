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
  bool zero = n < 0; /* without one the attribute says nothing and is our default */
  for (int i = 0; i < n; i++) zero = zero || numbers[i] == 0;
  intact__attr_set_int(node->made, "allowzero", !zero || allowzero != 0);
  return INTACT_OK;
}

/* What an unsqueeze node has put in at `axis` alone; NULL: x is no result of such a node. */
static intact_value *before_unsqueeze(const intact_value *x, int64_t axis) {
  if (!intact__is_op(x->producer, "unsqueeze")) return NULL;
  const intact_attr *dim = intact__attr(x->producer, "dim");
  return dim->n == 1 && dim->ints[0] == axis ? x->producer->operands[0] : NULL;
}

/* A Squeeze that takes away what was just put in gives what was there before. */
static intact_status axes_list(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  int n, n_attr;
  const int64_t *axes = NULL;
  INTACT_TRY(intact__onnx_attr_ints(node, "axes", &n_attr, &axes));
  n = n_attr;
  if (n_attr < 0) INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 1), &n, &axes));
  intact_value *before = n == 1 && strcmp(node->op, "Squeeze") == 0 ? before_unsqueeze(node->inputs[0], axes[0]) : NULL;
  if (before != NULL) return intact__onnx_bind(node, 0, before);
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

/* axis is 0 and keepdims 1 unless given. */
static intact_status arg_axis(intact_onnx_node *node) {
  int64_t axis, keep;
  INTACT_TRY(need_input(node));
  INTACT_TRY(intact__onnx_make(node, 1, node->inputs));
  INTACT_TRY(intact__onnx_attr_int(node, "axis", 0, &axis));
  INTACT_TRY(intact__onnx_attr_int(node, "keepdims", 1, &keep));
  intact__attr_set_int(node->made, "dim", axis);
  intact__attr_set_int(node->made, "keepdim", keep != 0);
  return INTACT_OK;
}

/* Operand i as integer attribute `name` where it is known, else as operand. */
static intact_status make_with_number(intact_onnx_node *node, const char *op, const char *name, int i, bool stays) {
  INTACT_TRY(need_input(node));
  int n;
  const int64_t *numbers = NULL;
  intact_value *operands[2] = {node->inputs[0], intact__onnx_input(node, i)};
  INTACT_TRY(intact__onnx_known_ints(node, operands[1], &n, &numbers));
  if (operands[1] != NULL && n != 1 && (n >= 0 || !stays)) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): its input %d must be a constant number", node->name, node->op, i);
  }
  INTACT_TRY(intact__onnx_make_as(node, op, operands[1] == NULL || n == 1 ? 1 : 2, operands));
  if (n == 1) intact__attr_set_int(node->made, name, numbers[0]);
  return INTACT_OK;
}

static intact_status k_number(intact_onnx_node *node) {
  return make_with_number(node, node->row->name, "k", 1, true);
}

static intact_status scan_axis(intact_onnx_node *node) {
  INTACT_TRY(make_with_number(node, node->row->name, "dim", 1, false));
  intact__attr_set_int(node->made, "dtype", node->inputs[0]->dtype);
  return INTACT_OK;
}

static intact_status triangle_side(intact_onnx_node *node) {
  int64_t upper;
  INTACT_TRY(intact__onnx_attr_int(node, "upper", 1, &upper));
  return make_with_number(node, upper ? "triu" : "tril", "diagonal", 1, true);
}

static intact_status in_columns(intact_onnx_node *node) {
  INTACT_TRY(intact__onnx_make(node, node->n_inputs, node->inputs));
  intact__attr_set_int(node->made, "transposed", 1);
  return INTACT_OK;
}

/* ---- Pad ---- */
/* ONNX's pads (all begins, then all ends, of the axes listed or of all) as pairs from the last axis on. */
static intact_status order_pads(intact_onnx_node *node, int rank, int n, const int64_t *pads, int n_axes,
                                const int64_t *axes, int64_t *pairs) {
  int count = n_axes >= 0 ? n_axes : rank;
  bool fits = rank >= 0 && n == 2 * count;
  memset(pairs, 0, 2 * INTACT_MAX_RANK * sizeof *pairs);
  for (int i = 0; fits && i < count; i++) {
    int64_t axis = n_axes >= 0 ? axes[i] : i;
    if (axis < 0) axis += rank;
    fits = axis >= 0 && axis < rank;
    if (!fits) break;
    pairs[2 * (rank - 1 - axis)] = pads[i];
    pairs[2 * (rank - 1 - axis) + 1] = pads[count + i];
  }
  if (fits) return INTACT_OK;
  INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
              "cannot read node '%s' (%s): its %d pads do not fit an input of rank %d", node->name, node->op, n, rank);
}

/* Pads that the model computes: put in our order by an index. */
static intact_status pads_operand(intact_onnx_node *node, int rank, intact_value *pads, intact_value **ordered) {
  int64_t places[2 * INTACT_MAX_RANK];
  if (rank < 0 || intact__onnx_input(node, 3) != NULL) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): its pads must be constants",
                node->name, node->op);
  }
  for (int d = 0; d < rank; d++) {
    places[2 * d] = rank - 1 - d;
    places[2 * d + 1] = 2 * rank - 1 - d;
  }
  intact_value *index = NULL;
  INTACT_TRY(intact__onnx_ints(node, "places", 2 * rank, places, &index));
  return intact__onnx_one(node, "index_select", "pads", pads, index, ordered);
}

static intact_status make_constant_pad(intact_onnx_node *node, int n, const int64_t *pairs, intact_value *pads) {
  intact_value *operands[3] = {node->inputs[0], pads, intact__onnx_input(node, 2)};
  double value = 0;
  bool known = intact__onnx_known_float(operands[2], &value);
  if (known) operands[2] = NULL;
  INTACT_TRY(intact__onnx_make(node, operands[2] != NULL ? 3 : pads != NULL ? 2 : 1, operands));
  if (n >= 0) INTACT_TRY(intact__attr_set_ints(node->made, "pad", n, pairs));
  if (known) intact__attr_set_float(node->made, "value", value);
  return INTACT_OK;
}

static intact_status pad_list(intact_onnx_node *node) {
  INTACT_TRY(need_input(node));
  const char *mode = NULL;
  int n, n_axes, rank = node->inputs[0]->rank;
  const int64_t *pads = NULL, *axes = NULL;
  int64_t pairs[2 * INTACT_MAX_RANK];
  intact_value *operand = intact__onnx_input(node, 1), *ordered = NULL;
  INTACT_TRY(intact__onnx_attr_string(node, "mode", "constant", &mode));
  INTACT_TRY(intact__onnx_attr_ints(node, "pads", &n, &pads));
  INTACT_TRY(intact__onnx_known_ints(node, intact__onnx_input(node, 3), &n_axes, &axes));
  if (n < 0) INTACT_TRY(intact__onnx_known_ints(node, operand, &n, &pads));
  bool constant = strcmp(mode, "constant") == 0;
  if (n < 0 && operand != NULL && constant) {
    INTACT_TRY(pads_operand(node, rank, operand, &ordered));
    return make_constant_pad(node, -1, NULL, ordered);
  }
  INTACT_TRY(order_pads(node, rank, n, pads, n_axes, axes, pairs));
  if (constant) return make_constant_pad(node, 2 * rank, pairs, NULL);
  static const char *const names[][2] = {
      {"reflect", "reflection_pad"}, {"edge", "replication_pad"}, {"wrap", "circular_pad"}};
  for (int i = 0; i < INTACT_COUNT_OF(names); i++) {
    if (strcmp(names[i][0], mode) != 0) continue;
    INTACT_TRY(intact__onnx_make_as(node, names[i][1], 1, node->inputs));
    return intact__attr_set_ints(node->made, "padding", 2 * rank, pairs);
  }
  INTACT_FAIL(node->context, INVALID_VALUE, node->name,
              "cannot read node '%s' (%s): mode is '%s'; it must be constant, reflect, edge or wrap", node->name, node->op,
              mode);
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
    INTACT_ONNX_FIXUP(arg_axis),      INTACT_ONNX_FIXUP(axes_list),
    INTACT_ONNX_FIXUP(constant_size), INTACT_ONNX_FIXUP(depth_to_space_mode),
    INTACT_ONNX_FIXUP(in_columns),    INTACT_ONNX_FIXUP(k_number),
    INTACT_ONNX_FIXUP(norm_order),    INTACT_ONNX_FIXUP(pad_list),
    INTACT_ONNX_FIXUP(reduce_axes),   INTACT_ONNX_FIXUP(repeats_list),
    INTACT_ONNX_FIXUP(reshape_list),  INTACT_ONNX_FIXUP(right_slope),
    INTACT_ONNX_FIXUP(scan_axis),     INTACT_ONNX_FIXUP(size_list),
    INTACT_ONNX_FIXUP(slice_lists),   INTACT_ONNX_FIXUP(split_list),
    INTACT_ONNX_FIXUP(triangle_side), INTACT_ONNX_FIXUPS_END,
};
