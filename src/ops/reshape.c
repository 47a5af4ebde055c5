/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that keep all elements in order and change the shape: reshape, flatten, unflatten, squeeze, unsqueeze, identity. */
#include <string.h>

#include "ops/common.h"
#include "ops/lower.h"

/* The gradient of the same elements in another shape. */
static intact_status same_elements_grad(intact_grad *grad) {
  intact_tensor *dx = NULL;
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  memcpy(dx->data, dy->data, intact_tensor_bytes(dy));
  return INTACT_OK;
}

#define MOVES_ROW(op, text, schema_, ...)         \
  const intact_op intact_op_##op = {              \
      .name = #op,                                \
      .doc = text,                                \
      .schema = schema_,                          \
      .infer = op##_infer,                        \
      .eval_f32 = op##_eval,                      \
      .grad = same_elements_grad,                 \
      .quant = {.result = INTACT_RESULT_SAME_AS}, \
      .int_layout = INTACT_INT_ROWS,              \
      .check_int = intact__check_movement,        \
      .lower_int = intact__lower_movement,        \
      .on_integers = true,                        \
      .same_elements = true,                      \
      .aliases = INTACT_ALIASES(__VA_ARGS__),     \
  };
#define SCHEMA(...) \
  { __VA_ARGS__ }

/* ---- reshape ---- */

/* The known numbers of a shape multiplied (-1: too large), its symbols collected. */
static int64_t split_shape(int rank, const int64_t *dims, int *n_symbols, int64_t *symbols) {
  int64_t product = 1;
  for (int k = 0; k < rank; k++) {
    if (dims[k] < 0) {
      symbols[(*n_symbols)++] = dims[k];
    } else if (dims[k] != 0 && product > INT64_MAX / dims[k]) {
      return -1;
    } else {
      product *= dims[k];
    }
  }
  return product;
}

/* Takes symbols that stand in both lists out of both. */
static void cancel_symbols(int *n_a, int64_t *a, int *n_b, int64_t *b) {
  for (int i = 0; i < *n_a; i++) {
    for (int k = 0; k < *n_b; k++) {
      if (a[i] != b[k]) continue;
      a[i--] = a[--*n_a];
      b[k] = b[--*n_b];
      break;
    }
  }
}

static intact_status refuse_reshape(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int n,
                                    const int64_t *shape) {
  char from[160], to[160];
  INTACT_FAIL(context, SIZE_MISMATCH, node->name,
              "%s '%s': %s can't become %s; the element counts must agree and at most one "
              "entry may be -1",
              node->op->name, node->name, intact__shape_text(rank, dims, from),
              n <= INTACT_MAX_RANK ? intact__shape_text(n, shape, to) : "a shape of so many axes");
}

/* How entries of a shape are read, and what to write where nothing is known. */
typedef struct shape_rules {
  bool zero_copies, symbols;
  int64_t open;
} shape_rules;

/* The shape asked for as dims: -1 replaced. */
static intact_status resolve_shape(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int n,
                                   const int64_t *elements, shape_rules rules, int64_t *result) {
  int at = -1, n_from = 0, n_to = 0;
  int64_t from_symbols[INTACT_MAX_RANK], to_symbols[INTACT_MAX_RANK];
  if (n > INTACT_MAX_RANK) return refuse_reshape(context, node, rank, dims, n, elements);
  for (int k = 0; k < n; k++) {
    bool symbol = intact__element_is_symbol(elements[k]);
    if (symbol && !rules.symbols) return refuse_reshape(context, node, rank, dims, n, elements);
    if (!symbol && elements[k] == -1 && at >= 0) return refuse_reshape(context, node, rank, dims, n, elements);
    if (!symbol && elements[k] < -1) return refuse_reshape(context, node, rank, dims, n, elements);
    result[k] = intact__dim_from_element(elements[k]);
    if (!symbol && elements[k] == -1) {
      at = k;
      result[k] = 1;
    } else if (elements[k] == 0 && rules.zero_copies) {
      if (k >= rank) return refuse_reshape(context, node, rank, dims, n, elements);
      result[k] = dims[k];
    }
  }
  int64_t have = split_shape(rank, dims, &n_from, from_symbols), want = split_shape(n, result, &n_to, to_symbols);
  if (have < 0 || want < 0) return refuse_reshape(context, node, rank, dims, n, elements);
  cancel_symbols(&n_from, from_symbols, &n_to, to_symbols);
  if (at < 0) {
    if (n_from == 0 && n_to == 0 && have != want) return refuse_reshape(context, node, rank, dims, n, elements);
    return INTACT_OK;
  }
  if (n_from == 0 && n_to == 0) {
    if (want == 0 ? have != 0 : have % want != 0) return refuse_reshape(context, node, rank, dims, n, elements);
    result[at] = want == 0 ? 0 : have / want;
  } else if (n_to == 0 && n_from == 1 && have == want) {
    result[at] = from_symbols[0];
  } else {
    result[at] = rules.open;
  }
  return INTACT_OK;
}

static intact_status reshape_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0], *shape = intact__infer_operand(infer, 1);
  int n = 0;
  int64_t elements[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__infer_list(infer, "shape", 1, &n, elements));
  if (n < 0 && shape->rank == 1 && shape->dims[0] >= 0 && shape->dims[0] <= INTACT_MAX_RANK) {
    for (int k = 0; k < (int)shape->dims[0]; k++) dims[k] = intact__infer_unknown_dim(infer);
    return intact__infer_result(infer, 0, x->dtype, (int)shape->dims[0], dims);
  }
  if (n < 0 || x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  shape_rules rules = {intact__attr_int(node, "allowzero") == 0, !intact__attr(node, "shape")->present, INT64_MIN};
  INTACT_TRY(resolve_shape(infer->context, node, x->rank, x->dims, n, elements, rules, dims));
  for (int k = 0; k < n; k++) {
    if (dims[k] == INT64_MIN) dims[k] = intact__infer_unknown_dim(infer);
  }
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status reshape_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int n = 0;
  int64_t elements[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  INTACT_TRY(intact__call_list(call, "shape", 1, &n, elements));
  shape_rules rules = {intact__attr_int(call->node, "allowzero") == 0, false, -1};
  INTACT_TRY(resolve_shape(call->context, call->node, x->rank, x->dims, n, elements, rules, dims));
  return intact__call_reshape(call, n, dims);
}

MOVES_ROW(
    reshape, "y = the elements of x in the given shape; one entry may be -1, a 0 copies x's dimension unless allowzero.",
    SCHEMA(INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"shape_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}),
           INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INTS("shape"), INTACT_A_BOOL("allowzero", 1))),
    INTACT_ATEN("reshape"), INTACT_ATEN_AS("view", "size=shape", NULL), INTACT_ATEN_AS("view_copy", "size=shape", NULL),
    INTACT_ATEN_AS("_unsafe_view", "size=shape", NULL), INTACT_ATEN_AS("_reshape_copy", "size=shape", NULL),
    /* constant_list: a constant operand 1 becomes attribute shape, another stays an operand; allowzero is 0 unless given */
    INTACT_ONNX_AS("Reshape", "shape=shape,allowzero=allowzero", "reshape_list"),
    /* special_zero is the contrary of allowzero */
    INTACT_OPENVINO_AS("Reshape", "special_zero=", "reshape_list"))

/* ---- flatten ---- */

/* Merges axes first..last; a product of several dims of which one is a symbol becomes `open` unless the others are 1. */
static int merge_axes(int rank, const int64_t *dims, int first, int last, int64_t open, int64_t *result) {
  int n = 0;
  for (int k = 0; k < first; k++) result[n++] = dims[k];
  int64_t product = 1;
  for (int k = first; k <= last && k < rank; k++) {
    if (product == 0 || dims[k] == 0) {
      product = 0;
    } else if (dims[k] > 0 && product > 0) {
      product = dims[k] > INT64_MAX / product ? open : product * dims[k];
    } else if (dims[k] != 1) {
      product = product == 1 ? dims[k] : open;
    }
  }
  result[n++] = product;
  for (int k = last + 1; k < rank; k++) result[n++] = dims[k];
  return n;
}

static intact_status flatten_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int *n,
                                  int64_t *result) {
  int first = 0, last = 0;
  INTACT_TRY(intact__op_axis(context, node, "start_dim", intact__attr_int(node, "start_dim"), rank, &first));
  INTACT_TRY(intact__op_axis(context, node, "end_dim", intact__attr_int(node, "end_dim"), rank, &last));
  if (first > last) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "flatten '%s': start_dim %d lies behind end_dim %d", node->name, first,
                last);
  }
  *n = merge_axes(rank, dims, first, last, INT64_MIN, result);
  return INTACT_OK;
}

static intact_status give_dims(intact_infer *infer, int n, int64_t *dims) {
  for (int k = 0; k < n; k++) {
    if (dims[k] == INT64_MIN) dims[k] = intact__infer_unknown_dim(infer);
  }
  return intact__infer_result(infer, 0, infer->node->operands[0]->dtype, n, dims);
}

static intact_status flatten_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int n = 0;
  int64_t dims[INTACT_MAX_RANK + 1];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(flatten_dims(infer->context, infer->node, x->rank, x->dims, &n, dims));
  return give_dims(infer, n, dims);
}

static intact_status flatten_eval(const intact_call *call) {
  int n = 0;
  int64_t dims[INTACT_MAX_RANK + 1];
  INTACT_TRY(flatten_dims(call->context, call->node, call->operands[0]->rank, call->operands[0]->dims, &n, dims));
  return intact__call_reshape(call, n, dims);
}

MOVES_ROW(flatten, "y = x with axes start_dim..end_dim merged into one.",
          SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT("start_dim", 0), INTACT_A_INT("end_dim", -1))), INTACT_ATEN("flatten"),
          INTACT_ATEN("flatten.using_ints"))

static intact_status flatten2d_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                    int64_t *result) {
  int64_t axis = intact__attr_int(node, "axis"), all[INTACT_MAX_RANK + 1];
  if (axis < -rank || axis > rank) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "flatten2d '%s': axis is %lld; it must lie in %d..%d", node->name,
                (long long)axis, -rank, rank);
  }
  if (axis < 0) axis += rank;
  merge_axes((int)axis, dims, 0, (int)axis - 1, INT64_MIN, &result[0]);
  int first = merge_axes(rank, dims, (int)axis, rank - 1, INT64_MIN, all) - 1;
  result[1] = all[first];
  return INTACT_OK;
}

static intact_status flatten2d_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int64_t dims[2];
  if (x->rank < 0) {
    dims[0] = dims[1] = INT64_MIN;
    return give_dims(infer, 2, dims);
  }
  INTACT_TRY(flatten2d_dims(infer->context, infer->node, x->rank, x->dims, dims));
  return give_dims(infer, 2, dims);
}

static intact_status flatten2d_eval(const intact_call *call) {
  int64_t dims[2];
  INTACT_TRY(flatten2d_dims(call->context, call->node, call->operands[0]->rank, call->operands[0]->dims, dims));
  return intact__call_reshape(call, 2, dims);
}

MOVES_ROW(flatten2d, "y = x as a matrix: axes before `axis` are its rows, those from it on its columns.",
          SCHEMA(INTACT_X, INTACT_ATTRS(INTACT_A_INT("axis", 1))), INTACT_ONNX_AS("Flatten", "axis=axis", NULL))

/* ---- unflatten ---- */

static intact_status unflatten_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims, int *n,
                                    int64_t *result) {
  const intact_attr *sizes = intact__attr(node, "sizes");
  int axis = 0;
  int64_t part[INTACT_MAX_RANK];
  INTACT_TRY(intact__op_axis(context, node, "dim", intact__attr_int(node, "dim"), rank, &axis));
  if (rank == 0 || rank - 1 + sizes->n > INTACT_MAX_RANK)
    return refuse_reshape(context, node, rank, dims, sizes->n, sizes->ints);
  INTACT_TRY(resolve_shape(context, node, 1, &dims[axis], sizes->n, sizes->ints, (shape_rules){.open = INT64_MIN}, part));
  *n = 0;
  for (int k = 0; k < axis; k++) result[(*n)++] = dims[k];
  for (int k = 0; k < sizes->n; k++) result[(*n)++] = part[k];
  for (int k = axis + 1; k < rank; k++) result[(*n)++] = dims[k];
  return INTACT_OK;
}

static intact_status unflatten_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int n = 0;
  int64_t dims[INTACT_MAX_RANK];
  if (x->rank < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(unflatten_dims(infer->context, infer->node, x->rank, x->dims, &n, dims));
  return give_dims(infer, n, dims);
}

static intact_status unflatten_eval(const intact_call *call) {
  int n = 0;
  int64_t dims[INTACT_MAX_RANK];
  INTACT_TRY(unflatten_dims(call->context, call->node, call->operands[0]->rank, call->operands[0]->dims, &n, dims));
  return intact__call_reshape(call, n, dims);
}

MOVES_ROW(unflatten, "y = x with axis `dim` split into `sizes`; one of them may be -1.",
          SCHEMA(INTACT_X, INTACT_ATTRS({.name = "dim", .type = INTACT_ATTR_INT, .required = true},
                                        {.name = "sizes", .type = INTACT_ATTR_INTS, .required = true})),
          INTACT_ATEN("unflatten"), INTACT_ATEN("unflatten.int"))

/* ---- squeeze ---- */

/* Without a list all axes of length 1 go; with one, those of the list whose length is 1 (a symbol counts as 1). */
static intact_status squeeze_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                  bool listed, int n_axes, const int64_t *axes, int *n, int64_t *result) {
  bool chosen[INTACT_MAX_RANK] = {false};
  for (int i = 0; listed && i < n_axes; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(context, node, "dim", axes[i], rank, &axis));
    if (rank > 0) chosen[axis] = true;
  }
  *n = 0;
  for (int k = 0; k < rank; k++) {
    bool goes = listed ? chosen[k] && (dims[k] == 1 || dims[k] < 0) : dims[k] == 1;
    if (!goes) result[(*n)++] = dims[k];
  }
  return INTACT_OK;
}

static bool is_listed(const intact_node *node) {
  return intact__attr(node, "dim")->present || (node->n_operands > 1 && node->operands[1] != NULL);
}

static intact_status squeeze_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  bool listed = is_listed(infer->node);
  int n = 0, n_axes = 0;
  int64_t dims[INTACT_MAX_RANK], axes[INTACT_MAX_ELEMENTS];
  if (listed) INTACT_TRY(intact__infer_list(infer, "dim", 1, &n_axes, axes));
  if (x->rank < 0 || n_axes < 0) return intact__infer_unranked(infer, x->dtype);
  bool symbols = false;
  for (int k = 0; k < x->rank; k++) symbols = symbols || x->dims[k] < 0;
  if (!listed && symbols) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(squeeze_dims(infer->context, infer->node, x->rank, x->dims, listed, n_axes, axes, &n, dims));
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status squeeze_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  bool listed = is_listed(call->node);
  int n = 0, n_axes = 0;
  int64_t dims[INTACT_MAX_RANK], axes[INTACT_MAX_ELEMENTS];
  if (listed) INTACT_TRY(intact__call_list(call, "dim", 1, &n_axes, axes));
  INTACT_TRY(squeeze_dims(call->context, call->node, x->rank, x->dims, listed, n_axes, axes, &n, dims));
  return intact__call_reshape(call, n, dims);
}

#define AXES_SCHEMA                                                                                            \
  SCHEMA(INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"dim_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}), \
         INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INTS("dim")))

MOVES_ROW(squeeze, "y = x without axes of length 1: all, or those of `dim`.", AXES_SCHEMA, INTACT_ATEN("squeeze"),
          INTACT_ATEN("squeeze.dim"), INTACT_ATEN("squeeze.dims"), INTACT_ATEN("squeeze_copy.dims"),
          /* axes_list: attribute axes or a constant operand 1 becomes attribute dim, another stays an operand */
          INTACT_ONNX_AS("Squeeze", "axes=dim", "axes_list"), INTACT_OPENVINO_AS("Squeeze", "allow_axis_skip=", "axes_list"))

static intact_status unsqueeze_dims(intact_context *context, const intact_node *node, int rank, const int64_t *dims,
                                    int n_axes, const int64_t *axes, int *n, int64_t *result) {
  bool added[INTACT_MAX_RANK] = {false};
  *n = rank + n_axes;
  if (*n > INTACT_MAX_RANK) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "unsqueeze '%s': the result has %d axes; at most %d are supported",
                node->name, *n, INTACT_MAX_RANK);
  }
  for (int i = 0; i < n_axes; i++) {
    int axis = 0;
    INTACT_TRY(intact__op_axis(context, node, "dim", axes[i], *n, &axis));
    if (added[axis]) {
      INTACT_FAIL(context, DUPLICATE, node->name, "unsqueeze '%s': dim names axis %d twice; each axis may stand once",
                  node->name, axis);
    }
    added[axis] = true;
  }
  for (int k = 0, from = 0; k < *n; k++) result[k] = added[k] ? 1 : dims[from++];
  return INTACT_OK;
}

static intact_status unsqueeze_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int n = 0, n_axes = 0;
  int64_t dims[INTACT_MAX_RANK], axes[INTACT_MAX_ELEMENTS];
  INTACT_TRY(intact__infer_list(infer, "dim", 1, &n_axes, axes));
  if (x->rank < 0 || n_axes < 0) return intact__infer_unranked(infer, x->dtype);
  INTACT_TRY(unsqueeze_dims(infer->context, infer->node, x->rank, x->dims, n_axes, axes, &n, dims));
  return intact__infer_result(infer, 0, x->dtype, n, dims);
}

static intact_status unsqueeze_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int n = 0, n_axes = 0;
  int64_t dims[INTACT_MAX_RANK], axes[INTACT_MAX_ELEMENTS];
  INTACT_TRY(intact__call_list(call, "dim", 1, &n_axes, axes));
  INTACT_TRY(unsqueeze_dims(call->context, call->node, x->rank, x->dims, n_axes, axes, &n, dims));
  return intact__call_reshape(call, n, dims);
}

MOVES_ROW(unsqueeze, "y = x with axes of length 1 put in at the places `dim` of the result.", AXES_SCHEMA,
          INTACT_ATEN("unsqueeze"), INTACT_ATEN("unsqueeze_copy"), INTACT_ONNX_AS("Unsqueeze", "axes=dim", "axes_list"),
          INTACT_OPENVINO_AS("Unsqueeze", "", "axes_list"))

/* ---- identity ---- */

static intact_status identity_infer(intact_infer *infer) {
  return intact__infer_like_first(infer);
}
static intact_status identity_eval(const intact_call *call) {
  return intact__call_reshape(call, call->operands[0]->rank, call->operands[0]->dims);
}

MOVES_ROW(identity, "y = x.", SCHEMA(INTACT_X), INTACT_ATEN("alias"), INTACT_ATEN("alias_copy"),
          INTACT_ATEN_AS("clone", "memory_format=", NULL), INTACT_ATEN_AS("contiguous", "memory_format=", NULL),
          INTACT_ATEN("lift_fresh_copy"), INTACT_ATEN("lift_fresh"), INTACT_ATEN("positive"), INTACT_ONNX("Identity"),
          /* dropout_off: of a trained network; the value itself is bound, no node is made */
          INTACT_ONNX_AS("Dropout", "", "dropout_off"))

static intact_status detach_infer(intact_infer *infer) {
  return intact__infer_like_first(infer);
}
static intact_status detach_eval(const intact_call *call) {
  return identity_eval(call);
}
const intact_op intact_op_detach = {
    .name = "detach",
    .doc = "y = x, through which no gradient flows.",
    .schema = {INTACT_X},
    .infer = detach_infer,
    .eval_f32 = detach_eval,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_SAME_AS},
    .int_layout = INTACT_INT_ROWS,
    .on_integers = true,
    .same_elements = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("detach"), INTACT_ATEN("detach_"), INTACT_ATEN("detach_copy")),
};
