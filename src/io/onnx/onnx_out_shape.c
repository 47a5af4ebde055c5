/* SPDX-License-Identifier: Apache-2.0 */
/* Data movement and reductions in ONNX: lists become operands, axes are written without negative numbers where ONNX asks for
   it. */
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

static intact_status refuse_rank(intact_onnx_out *out, const intact_node *node) {
  return intact__onnx_out_refuse(out, node, "the rank of its input is not known");
}

static int64_t axis_of(int64_t axis, int rank) {
  return axis < 0 ? axis + rank : axis;
}

/* Operator `op` on x and a list of integers. */
static intact_status with_list(intact_onnx_out *out, const intact_node *node, const char *op, int n, const int64_t *list) {
  const char *x = NULL, *name = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "list", n, list, &name));
  return intact__onnx_out_last(out, node, op, x, name);
}

/* The same with the list attribute `name`, or with operand 1 where that stands instead; with neither x alone. */
static intact_status with_attr(intact_onnx_out *out, const intact_node *node, const char *op, const char *name) {
  const intact_attr *list = intact__attr(node, name);
  const char *x = NULL, *operand = NULL;
  if (list->present) return with_list(out, node, op, list->n, list->ints);
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (node->n_operands > 1 && node->operands[1] != NULL) INTACT_TRY(intact__onnx_out_name(out, node->operands[1], &operand));
  return intact__onnx_out_last(out, node, op, x, operand);
}

/* ---- reshapes ---- */
static intact_status write_reshape(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *shape = intact__attr(node, "shape");
  bool zero = false, allow = intact__attr_int(node, "allowzero") != 0;
  for (int i = 0; i < shape->n; i++) zero = zero || shape->ints[i] == 0;
  if (!shape->present) zero = true;
  const char *x = NULL, *list = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (shape->present) {
    INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "shape", shape->n, shape->ints, &list));
  } else {
    INTACT_TRY(intact__onnx_out_name(out, node->n_operands > 1 ? node->operands[1] : NULL, &list));
  }
  INTACT_TRY(intact__onnx_out_node(out, node, "Reshape", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, x));
  INTACT_TRY(intact__onnx_out_input(out, made, list));
  if (allow && zero) {
    intact__onnx_out_needs(out, 14);
    if (out->output->opset >= 14) INTACT_TRY(intact__onnx_out_int(out, made, "allowzero", 1));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* A reshape whose result has these dims: known ones as numbers, leading ones of the input as 0, one other as -1. */
static intact_status reshape_to(intact_onnx_out *out, const intact_node *node) {
  const intact_value *x = node->operands[0], *y = node->results[0];
  int64_t shape[INTACT_MAX_RANK];
  int open = 0;
  if (y->rank < 0 || x->rank < 0) return refuse_rank(out, node);
  for (int d = 0; d < y->rank; d++) {
    bool copied = d < x->rank && x->dims[d] == y->dims[d] && y->dims[d] < 0;
    shape[d] = copied ? 0 : y->dims[d] >= 0 ? y->dims[d] : -1;
    if (shape[d] == 0 && !copied) return intact__onnx_out_refuse(out, node, "its result is empty");
    open += shape[d] == -1;
  }
  if (open > 1) return intact__onnx_out_refuse(out, node, "several dimensions of its result are open");
  return with_list(out, node, "Reshape", y->rank, shape);
}

static intact_status write_squeeze(intact_onnx_out *out, const intact_node *node) {
  bool squeeze = strcmp(node->op->name, "squeeze") == 0;
  const intact_attr *dims = intact__attr(node, "dim");
  const intact_value *x = node->operands[0];
  if (!squeeze || !dims->present || x->rank < 0) return with_attr(out, node, squeeze ? "Squeeze" : "Unsqueeze", "dim");
  int64_t axes[INTACT_MAX_RANK]; /* ours skips axes that are longer than 1 */
  int n = 0;
  for (int i = 0; i < dims->n && n < INTACT_MAX_RANK; i++) {
    int64_t axis = axis_of(dims->ints[i], x->rank);
    if (axis >= 0 && axis < x->rank && (x->dims[axis] == 1 || x->dims[axis] < 0)) axes[n++] = axis;
  }
  if (n > 0) return with_list(out, node, "Squeeze", n, axes);
  const char *name = NULL;
  INTACT_TRY(intact__onnx_out_real(out, x, &name));
  return intact__onnx_out_last(out, node, "Identity", name, NULL);
}

static intact_status write_expand(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *size = intact__attr(node, "size");
  int64_t sizes[INTACT_MAX_RANK];
  if (!size->present || size->n > INTACT_MAX_RANK) return with_attr(out, node, "Expand", "size");
  for (int i = 0; i < size->n; i++) sizes[i] = size->ints[i] == -1 ? 1 : size->ints[i];
  return with_list(out, node, "Expand", size->n, sizes);
}

static intact_status write_repeat(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *repeats = intact__attr(node, "repeats");
  if (repeats->present && repeats->n != node->operands[0]->rank) {
    return intact__onnx_out_refuse(out, node, "ONNX's Tile takes one number for each axis");
  }
  return with_attr(out, node, "Tile", "repeats");
}

/* ---- orders ---- */
static intact_status write_transpose(intact_onnx_out *out, const intact_node *node) {
  bool exchange = strcmp(node->op->name, "transpose") == 0;
  int rank = node->operands[0]->rank;
  int64_t perm[INTACT_MAX_RANK];
  if (rank < 0 && !exchange && intact__attr(node, "dims")->present) rank = intact__attr(node, "dims")->n;
  if (rank < 0) return refuse_rank(out, node);
  for (int d = 0; d < rank; d++) perm[d] = exchange ? d : rank - 1 - d;
  if (exchange && rank > 0) {
    int64_t a = axis_of(intact__attr_int(node, "dim0"), rank), b = axis_of(intact__attr_int(node, "dim1"), rank);
    perm[a] = b;
    perm[b] = a;
  } else if (!exchange && intact__attr(node, "dims")->present) {
    const intact_attr *dims = intact__attr(node, "dims");
    for (int d = 0; d < rank && d < dims->n; d++) perm[d] = axis_of(dims->ints[d], rank);
  }
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Transpose", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_ints(out, made, "perm", rank, perm));
  return intact__onnx_out_result(out, made, node, 0);
}

/* Slice operands: starts, ends, axes, steps. */
static intact_status slice_operands(intact_onnx_out *out, const intact_node *node, int n, int64_t *const *lists) {
  static const char *const names[4] = {"starts", "ends", "axes", "steps"};
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Slice", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  for (int i = 0; i < 4; i++) {
    const char *name = NULL;
    INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, names[i], n, lists[i], &name));
    INTACT_TRY(intact__onnx_out_input(out, made, name));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_flip(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *dims = intact__attr(node, "dims");
  int64_t starts[INTACT_MAX_RANK], ends[INTACT_MAX_RANK], axes[INTACT_MAX_RANK], steps[INTACT_MAX_RANK];
  int rank = node->operands[0]->rank, n = dims->n;
  if (rank < 0 || n > INTACT_MAX_RANK) return refuse_rank(out, node);
  for (int i = 0; i < n; i++) {
    starts[i] = -1;
    ends[i] = INT64_MIN + 1;
    axes[i] = axis_of(dims->ints[i], rank);
    steps[i] = -1;
  }
  return slice_operands(out, node, n, (int64_t *const[]){starts, ends, axes, steps});
}

static int longest(int a, const intact_attr *attr) {
  return attr->present && attr->n > a ? attr->n : a;
}

static intact_status write_slice(intact_onnx_out *out, const intact_node *node) {
  static const char *const attrs[4] = {"start", "end", "dim", "step"}, *const names[4] = {"starts", "ends", "axes", "steps"};
  Onnx__NodeProto *made = NULL;
  int n = 0;
  for (int i = 0; i < 4; i++) n = longest(n, intact__attr(node, attrs[i]));
  if (n > INTACT_MAX_RANK) return refuse_rank(out, node);
  INTACT_TRY(intact__onnx_out_node(out, node, "Slice", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  for (int i = 0; i < 4; i++) {
    const intact_attr *attr = intact__attr(node, attrs[i]);
    const char *name = "";
    int64_t values[INTACT_MAX_RANK];
    bool operand = i + 1 < node->n_operands && node->operands[i + 1] != NULL;
    for (int k = 0; k < n; k++) {
      values[k] = attr->present && k < attr->n ? attr->ints[k] : i == 0 ? 0 : i == 1 ? INT64_MAX : i == 2 ? k : 1;
    }
    if (operand) {
      INTACT_TRY(intact__onnx_out_name(out, node->operands[i + 1], &name));
    } else if (attr->present || (i < 2 && n > 0)) {
      INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, names[i], n, values, &name));
    }
    if (name[0] == 0 && i < 2) return intact__onnx_out_refuse(out, node, "ONNX's Slice needs both bounds");
    INTACT_TRY(intact__onnx_out_input(out, made, name));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* Gather: with one index the axis goes away. */
static intact_status write_gather(intact_onnx_out *out, const intact_node *node) {
  bool one = strcmp(node->op->name, "select") == 0;
  Onnx__NodeProto *made = NULL;
  const char *index = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Gather", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  if (one && intact__attr(node, "index")->present) {
    intact_tensor *tensor = NULL;
    int64_t place = intact__attr_int(node, "index");
    INTACT_TRY(intact__tensor_from_s64(out->output->context, 0, NULL, &place, &tensor));
    intact_status status = intact__onnx_out_keep(out, node->name, "index", tensor, &index);
    intact_tensor_destroy(tensor);
    INTACT_TRY(status);
  } else {
    if (node->n_operands < 2) return intact__onnx_out_refuse(out, node, "its index is neither attribute nor operand");
    INTACT_TRY(intact__onnx_out_name(out, node->operands[1], &index));
  }
  INTACT_TRY(intact__onnx_out_input(out, made, index));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", intact__attr_int(node, "dim")));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- joining and cutting ---- */
static intact_status write_stack(intact_onnx_out *out, const intact_node *node) {
  const char *axes = NULL;
  Onnx__NodeProto *made = NULL;
  int64_t axis = intact__attr_int(node, "dim");
  if (node->operands[0]->rank < 0) return refuse_rank(out, node);
  axis = axis_of(axis, node->operands[0]->rank + 1);
  INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "axes", 1, &axis, &axes));
  INTACT_TRY(intact__onnx_out_node(out, node, "Concat", &made));
  for (int i = 0; i < node->n_operands; i++) {
    const char *x = NULL;
    INTACT_TRY(intact__onnx_out_real(out, node->operands[i], &x));
    INTACT_TRY(intact__onnx_out_step(out, node, "Unsqueeze", x, axes, "row", &x));
    INTACT_TRY(intact__onnx_out_input(out, made, x));
  }
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", axis));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_split(intact_onnx_out *out, const intact_node *node) {
  int64_t axis = intact__attr_int(node, "dim"),
          *sizes = intact__arena_alloc(&out->output->arena, (size_t)node->n_results, sizeof *sizes);
  if (sizes == NULL) return intact__no_memory(out->output->context, 1);
  if (node->results[0]->rank < 1) return refuse_rank(out, node);
  axis = axis_of(axis, node->results[0]->rank);
  for (int i = 0; i < node->n_results; i++) {
    sizes[i] = node->results[i]->dims[axis];
    if (sizes[i] < 0) return intact__onnx_out_refuse(out, node, "the sizes of its parts are not known");
  }
  const char *list = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "sizes", node->n_results, sizes, &list));
  INTACT_TRY(intact__onnx_out_node(out, node, "Split", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_input(out, made, list));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", axis));
  for (int i = 0; i < node->n_results; i++) INTACT_TRY(intact__onnx_out_result(out, made, node, i));
  return INTACT_OK;
}

/* Pairs from the last axis on as all begins, then all ends. */
static intact_status write_pad(intact_onnx_out *out, const intact_node *node) {
  bool constant = strcmp(node->op->name, "constant_pad_nd") == 0, reflect = strcmp(node->op->name, "reflection_pad") == 0;
  const intact_attr *list = intact__attr(node, constant ? "pad" : "padding");
  int rank = node->operands[0]->rank;
  int64_t pads[2 * INTACT_MAX_RANK] = {0};
  if (rank < 0) return refuse_rank(out, node);
  if (!list->present || list->n > 2 * rank) return intact__onnx_out_refuse(out, node, "its padding is no constant list");
  for (int i = 0; i + 1 < list->n; i += 2) {
    pads[rank - 1 - i / 2] = list->ints[i];
    pads[2 * rank - 1 - i / 2] = list->ints[i + 1];
  }
  if (!constant && !reflect && strcmp(node->op->name, "replication_pad") != 0) intact__onnx_out_needs(out, 19);
  const char *name = NULL, *value = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "pads", 2 * rank, pads, &name));
  INTACT_TRY(intact__onnx_out_node(out, node, "Pad", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_input(out, made, name));
  const char *mode = constant                                         ? "constant"
                     : reflect                                        ? "reflect"
                     : strcmp(node->op->name, "replication_pad") == 0 ? "edge"
                                                                      : "wrap";
  INTACT_TRY(intact__onnx_out_string(out, made, "mode", mode));
  bool is_float = node->operands[0]->dtype == INTACT_F32 || node->operands[0]->qparams != NULL;
  if (constant && node->n_operands > 2 && node->operands[2] != NULL) {
    INTACT_TRY(intact__onnx_out_operand(out, made, node, 2));
  } else if (constant && intact__attr_float(node, "value") != 0) {
    if (!is_float) return intact__onnx_out_refuse(out, node, "its value is no float");
    INTACT_TRY(intact__onnx_out_float_constant(out, node->name, "value", intact__attr_float(node, "value"), &value));
    INTACT_TRY(intact__onnx_out_input(out, made, value));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- reductions ---- */
static intact_status write_reduce(intact_onnx_out *out, const intact_node *node) {
  static const char *const names[][2] = {
      {"amax", "ReduceMax"},       {"amin", "ReduceMin"},  {"linalg_vector_norm", ""},
      {"log_sum", "ReduceLogSum"}, {"mean", "ReduceMean"}, {"logsumexp", "ReduceLogSumExp"},
      {"prod", "ReduceProd"},      {"sum", "ReduceSum"},   {"sum_square", "ReduceSumSquare"},
  };
  const char *op = "", *axes = NULL;
  for (int i = 0; i < INTACT_COUNT_OF(names); i++) {
    if (strcmp(names[i][0], node->op->name) == 0) op = names[i][1];
  }
  if (op[0] == 0) {
    double order = intact__attr_float(node, "ord");
    if (order != 1 && order != 2) return intact__onnx_out_refuse(out, node, "ONNX has norms of order 1 and 2 only");
    op = order == 1 ? "ReduceL1" : "ReduceL2";
  }
  const intact_attr *dims = intact__attr(node, "dim");
  bool operand = node->n_operands > 1 && node->operands[1] != NULL, sum = strcmp(op, "ReduceSum") == 0;
  Onnx__NodeProto *made = NULL;
  if (operand && !sum) intact__onnx_out_needs(out, 18);
  INTACT_TRY(intact__onnx_out_node(out, node, op, &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  if (operand) {
    INTACT_TRY(intact__onnx_out_name(out, node->operands[1], &axes));
    INTACT_TRY(intact__onnx_out_input(out, made, axes));
  } else if (dims->n > 0 && (sum || out->output->opset >= 18)) {
    INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "axes", dims->n, dims->ints, &axes));
    INTACT_TRY(intact__onnx_out_input(out, made, axes));
  } else if (dims->n > 0) {
    INTACT_TRY(intact__onnx_out_ints(out, made, "axes", dims->n, dims->ints));
  }
  INTACT_TRY(intact__onnx_out_int(out, made, "keepdims", intact__attr_int(node, "keepdim") != 0));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_arg(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  if (!intact__attr(node, "dim")->present) return intact__onnx_out_refuse(out, node, "ONNX's needs an axis");
  INTACT_TRY(intact__onnx_out_node(out, node, strcmp(node->op->name, "argmax") == 0 ? "ArgMax" : "ArgMin", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "axis", intact__attr_int(node, "dim")));
  INTACT_TRY(intact__onnx_out_int(out, made, "keepdims", intact__attr_int(node, "keepdim") != 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "select_last_index", intact__attr_int(node, "select_last_index") != 0));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- makers ---- */
static intact_status write_full(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *size = intact__attr(node, "size");
  const intact_value *y = node->results[0];
  intact_tensor *value = NULL;
  const char *list = NULL, *number = NULL;
  if (size->present) {
    INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "size", size->n, size->ints, &list));
  } else {
    if (node->n_operands < 1 || node->operands[0] == NULL)
      return intact__onnx_out_refuse(out, node, "its size is not there");
    INTACT_TRY(intact__onnx_out_name(out, node->operands[0], &list));
  }
  INTACT_TRY(intact_tensor_create(out->output->context, y->dtype, 0, NULL, &value));
  const intact_attr *given = intact__attr(node, "value");
  intact__tensor_set_f64(
      value, 0, given->tensor != NULL ? intact__tensor_get_f64(given->tensor, 0) : intact__attr_float(node, "fill_value"));
  intact_status status = intact__onnx_out_keep(out, node->name, "value", value, &number);
  intact_tensor_destroy(value);
  INTACT_TRY(status);
  return intact__onnx_out_last(out, node, "Expand", number, list);
}

static intact_status write_shape(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  const intact_attr *start = intact__attr(node, "start"), *end = intact__attr(node, "end");
  if (start->present || end->present) intact__onnx_out_needs(out, 15);
  INTACT_TRY(intact__onnx_out_node(out, node, "Shape", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  if (out->output->opset >= 15) {
    if (start->present) INTACT_TRY(intact__onnx_out_int(out, made, "start", start->i));
    if (end->present) INTACT_TRY(intact__onnx_out_int(out, made, "end", end->i));
  }
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_shuffle(intact_onnx_out *out, const intact_node *node) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "DepthToSpace", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_int(out, made, "blocksize", intact__attr_int(node, "upscale_factor")));
  INTACT_TRY(intact__onnx_out_string(out, made, "mode", "CRD"));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_identity(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  return intact__onnx_out_last(out, node, "Identity", x, NULL);
}

const intact_onnx_out_row intact__onnx_out_shape[] = {
    {"amax", write_reduce},
    {"amin", write_reduce},
    {"argmax", write_arg},
    {"argmin", write_arg},
    {"chunk", write_split},
    {"circular_pad", write_pad},
    {"constant_pad_nd", write_pad},
    {"detach", write_identity},
    {"expand", write_expand},
    {"flatten", reshape_to},
    {"flip", write_flip},
    {"full", write_full},
    {"identity", write_identity},
    {"index_select", write_gather},
    {"linalg_vector_norm", write_reduce},
    {"log_sum", write_reduce},
    {"logsumexp", write_reduce},
    {"mean", write_reduce},
    {"permute", write_transpose},
    {"pixel_shuffle", write_shuffle},
    {"prod", write_reduce},
    {"reflection_pad", write_pad},
    {"repeat", write_repeat},
    {"replication_pad", write_pad},
    {"reshape", write_reshape},
    {"select", write_gather},
    {"shape", write_shape},
    {"slice", write_slice},
    {"split", write_split},
    {"split_with_sizes", write_split},
    {"squeeze", write_squeeze},
    {"stack", write_stack},
    {"sum", write_reduce},
    {"sum_square", write_reduce},
    {"transpose", write_transpose},
    {"unflatten", reshape_to},
    {"unsqueeze", write_squeeze},
    {NULL, NULL},
};
