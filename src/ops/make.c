/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that make tensors out of shapes and numbers: shape, sym_size, numel, cast, full, full_like, arange. */
#include <math.h>
#include <string.h>

#include "ops/move.h"

#define NO_RANGE \
  { .result = INTACT_RESULT_NONE, .no_quantize = true }

/* ---- shape ---- */

/* Axes start..end of the shape, bounds as in Python's slices. */
static void shape_part(const intact_node *node, int rank, int *first, int *n) {
  const intact_attr *end = intact__attr(node, "end");
  int64_t from = intact__attr_int(node, "start"), to = end->present ? end->i : rank;
  if (from < 0) from = from < -rank ? 0 : from + rank;
  if (to < 0) to = to < -rank ? 0 : to + rank;
  from = from > rank ? rank : from;
  to = to > rank ? rank : to;
  *first = (int)from;
  *n = to > from ? (int)(to - from) : 0;
}

static intact_status shape_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int first = 0, n = 0;
  int64_t dims[1], elements[INTACT_MAX_RANK];
  if (x->rank < 0) {
    dims[0] = intact__infer_unknown_dim(infer);
    return intact__infer_result(infer, 0, INTACT_S64, 1, dims);
  }
  shape_part(infer->node, x->rank, &first, &n);
  for (int k = 0; k < n; k++) elements[k] = intact__element_from_dim(x->dims[first + k]);
  dims[0] = n;
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_S64, 1, dims));
  return intact__infer_set_elements(infer, 0, n, elements);
}

static intact_status shape_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int first = 0, n = 0;
  int64_t dims[1];
  intact_tensor *y = NULL;
  shape_part(call->node, x->rank, &first, &n);
  dims[0] = n;
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, 1, dims, &y));
  for (int k = 0; k < n; k++) ((int64_t *)y->data)[k] = x->dims[first + k];
  return INTACT_OK;
}

const intact_op intact_op_shape = {
    .name = "shape",
    .doc = "y = the dimensions start..end of x.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INT("start", 0), INTACT_A_INT_OR_NONE("end"))},
    .infer = shape_infer,
    .eval_f32 = shape_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("size"), INTACT_ONNX_AS("Shape", "start=start,end=end", NULL),
                              INTACT_OPENVINO_AS("ShapeOf", "output_type=", NULL)),
};

static intact_status sym_size_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int axis = 0;
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_S64, 0, NULL));
  if (x->rank < 0) return INTACT_OK;
  INTACT_TRY(intact__op_axis(infer->context, infer->node, "dim", intact__attr_int(infer->node, "dim"), x->rank, &axis));
  int64_t element = x->rank == 0 ? 1 : intact__element_from_dim(x->dims[axis]);
  return intact__infer_set_elements(infer, 0, 1, &element);
}

static intact_status sym_size_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int axis = 0;
  intact_tensor *y = NULL;
  INTACT_TRY(intact__op_axis(call->context, call->node, "dim", intact__attr_int(call->node, "dim"), x->rank, &axis));
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, 0, NULL, &y));
  *(int64_t *)y->data = x->rank == 0 ? 1 : x->dims[axis];
  return INTACT_OK;
}

const intact_op intact_op_sym_size = {
    .name = "sym_size",
    .doc = "y = dimension dim of x, as a number.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"), INTACT_ATTRS(INTACT_A_INT("dim", 0))},
    .infer = sym_size_infer,
    .eval_f32 = sym_size_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("sym_size"), INTACT_ATEN("sym_size.int"), INTACT_ATEN("size.int")),
};

static intact_status numel_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  int64_t count = 1;
  INTACT_TRY(intact__infer_result(infer, 0, INTACT_S64, 0, NULL));
  for (int k = 0; k < x->rank; k++) {
    if (x->dims[k] < 0 || (x->dims[k] != 0 && count > INT64_MAX / x->dims[k])) return INTACT_OK;
    count *= x->dims[k];
  }
  return x->rank < 0 ? INTACT_OK : intact__infer_set_elements(infer, 0, 1, &count);
}

static intact_status numel_eval(const intact_call *call) {
  intact_tensor *y = NULL;
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, 0, NULL, &y));
  *(int64_t *)y->data = call->operands[0]->count;
  return INTACT_OK;
}

const intact_op intact_op_numel = {
    .name = "numel",
    .doc = "y = number of elements of x.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y")},
    .infer = numel_infer,
    .eval_f32 = numel_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .on_integers = true,
    .aliases = INTACT_ALIASES(INTACT_ATEN("numel"), INTACT_ATEN("sym_numel"), INTACT_ONNX("Size")),
};

/* ---- cast ---- */

static intact_dtype wanted_dtype(const intact_node *node, intact_dtype otherwise) {
  const intact_attr *dtype = intact__attr(node, "dtype");
  return dtype->present ? (intact_dtype)dtype->i : otherwise;
}

static intact_status cast_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0], *like = intact__infer_operand(infer, 1);
  return intact__infer_result(infer, 0, wanted_dtype(infer->node, like != NULL ? like->dtype : x->dtype), x->rank, x->dims);
}

static bool is_float8(intact_dtype dtype) { return intact_dtype_is_float(dtype) && intact_dtype_bits(dtype) == 8; }

static intact_status cast_eval(const intact_call *call) {
  const intact_tensor *like = intact__operand(call, 1);
  intact_dtype dtype = wanted_dtype(call->node, like != NULL ? like->dtype : call->operands[0]->dtype);
  intact_tensor *y = NULL;
  INTACT_TRY(intact__as_dtype(call->operands[0], dtype, &y));
  if (is_float8(dtype) && intact__attr_int(call->node, "saturate") != 0) {
    for (int64_t i = 0; i < y->count; i++) {
      const float x = (float)intact__tensor_get_f64(call->operands[0], i);
      ((uint8_t *)y->data)[i] = intact__f32_to_f8(dtype, x, true);
    }
  }
  return intact__give_result(call, 0, dtype, y);
}

/* Gradients are float32: the element's own slope is 1. */
static intact_status cast_grad(intact_grad *grad) {
  intact_tensor *dx = NULL;
  if (grad->d_results[0] == NULL || !grad->needed[0]) return INTACT_OK;
  INTACT_TRY(intact__grad_operand(grad, 0, &dx));
  if (dx->count > 0) memcpy(dx->data, grad->d_results[0]->data, intact_tensor_bytes(dx));
  return INTACT_OK;
}

const intact_op intact_op_cast = {
    .name = "cast",
    .doc =
        "y = x in another element type (of attribute dtype, else of operand like); to integers cut towards 0 and saturated, to "
        "float8 saturated (saturate = false: infinity or NaN, as torch casts).",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, {"like", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_DTYPE_OR_NONE("dtype"), {.name = "saturate", .type = INTACT_ATTR_BOOL, .i = 1})},
    .infer = cast_infer,
    .eval_f32 = cast_eval,
    .grad = cast_grad,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .int_layout = INTACT_INT_ANY,
    /* in all of these the device, layout and memory arguments mean nothing here */
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("to", "dtype=dtype,non_blocking=,copy=,memory_format=", NULL),
        INTACT_ATEN_AS("to.dtype", "dtype=dtype,non_blocking=,copy=,memory_format=", NULL),
        INTACT_ATEN_AS("to.dtype_layout",
                       "dtype=dtype,layout=,device=,pin_memory=,non_blocking=,copy=,memory_format=", NULL),
        INTACT_ATEN_AS("to.device", "device=,dtype=dtype,non_blocking=,copy=,memory_format=", NULL),
        INTACT_ATEN_AS("_to_copy", "dtype=dtype,layout=,device=,pin_memory=,non_blocking=,memory_format=", NULL),
        INTACT_ATEN("type_as"), INTACT_ATEN_AS("to.other", "non_blocking=,copy=,memory_format=", NULL),
        INTACT_ONNX_AS("Cast", "to=dtype,saturate=saturate", NULL), INTACT_ONNX_AS("CastLike", "saturate=saturate", NULL),
        INTACT_OPENVINO_AS("Convert", "destination_type=dtype", NULL)),
};

/* ---- full ---- */

static intact_status full_dims(intact_context *context, const intact_node *node, int n, const int64_t *sizes, bool symbols,
                               int64_t *dims) {
  for (int k = 0; k < n && k < INTACT_MAX_RANK; k++) {
    dims[k] = symbols ? intact__dim_from_element(sizes[k]) : sizes[k];
    if (sizes[k] >= 0 || (symbols && intact__element_is_symbol(sizes[k]))) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': size holds %lld; dimensions must not be negative",
                node->op->name, node->name, (long long)sizes[k]);
  }
  if (n > INTACT_MAX_RANK) {
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s '%s': size has %d entries; at most %d axes are supported",
                node->op->name, node->name, n, INTACT_MAX_RANK);
  }
  return INTACT_OK;
}

/* The type by attribute, else the one in which fill_value was given as a tensor, else float32. */
static intact_dtype full_dtype(const intact_node *node) {
  const intact_attr *value = intact__attr(node, "value");
  return wanted_dtype(node, value->tensor != NULL ? value->tensor->dtype : INTACT_F32);
}

static intact_status fill(const intact_node *node, intact_tensor *y) {
  const intact_attr *value = intact__attr(node, "value");
  bool exact = value->tensor != NULL && !intact_dtype_is_float(value->tensor->dtype) && !intact_dtype_is_float(y->dtype);
  double real = value->tensor != NULL ? intact__tensor_get_f64(value->tensor, 0) : intact__attr_float(node, "fill_value");
  for (int64_t i = 0; i < y->count; i++) {
    if (exact) {
      intact__tensor_set_s64(y, i, intact__tensor_get_s64(value->tensor, 0));
    } else {
      intact__tensor_set_f64(y, i, real);
    }
  }
  return INTACT_OK;
}

static intact_status check_value(intact_context *context, const intact_node *node) {
  const intact_attr *value = intact__attr(node, "value");
  if (value->tensor == NULL || value->tensor->count == 1) return INTACT_OK;
  INTACT_FAIL(context, SIZE_MISMATCH, node->name, "%s '%s': value has %lld elements; it must have one", node->op->name,
              node->name, (long long)value->tensor->count);
}

static intact_status full_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *size = intact__infer_operand(infer, 0);
  int n = 0;
  int64_t sizes[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  INTACT_TRY(check_value(infer->context, node));
  INTACT_TRY(intact__infer_list(infer, "size", 0, &n, sizes));
  if (n < 0 && (size->rank != 1 || size->dims[0] < 0 || size->dims[0] > INTACT_MAX_RANK)) {
    return intact__infer_unranked(infer, full_dtype(node));
  }
  if (n < 0) {
    for (int k = 0; k < (int)size->dims[0]; k++) dims[k] = intact__infer_unknown_dim(infer);
    return intact__infer_result(infer, 0, full_dtype(node), (int)size->dims[0], dims);
  }
  INTACT_TRY(full_dims(infer->context, node, n, sizes, infer->graph != NULL, dims));
  return intact__infer_result(infer, 0, full_dtype(node), n, dims);
}

static intact_status full_eval(const intact_call *call) {
  int n = 0;
  int64_t sizes[INTACT_MAX_ELEMENTS], dims[INTACT_MAX_RANK];
  intact_tensor *y = NULL;
  INTACT_TRY(check_value(call->context, call->node));
  INTACT_TRY(intact__call_list(call, "size", 0, &n, sizes));
  INTACT_TRY(full_dims(call->context, call->node, n, sizes, false, dims));
  INTACT_TRY(intact__call_result(call, 0, full_dtype(call->node), n, dims, &y));
  return fill(call->node, y);
}

#define VALUE_ATTRS                                                                                   \
  INTACT_A_FLOAT("fill_value", 0.0), {.name = "value", .type = INTACT_ATTR_TENSOR, .nullable = true}, \
      INTACT_A_DTYPE_OR_NONE("dtype")
#define FACTORY "size=size,fill_value=fill_value,dtype=dtype,layout=,device=,pin_memory=,memory_format="
#define FACTORY_LIKE "fill_value=fill_value,dtype=dtype,layout=,device=,pin_memory=,memory_format="

const intact_op intact_op_full = {
    .name = "full",
    .doc = "y = a tensor of the given size, each element the number fill_value (or the one element of the tensor value).",
    .schema = {INTACT_OPERANDS({"size_value", INTACT_ROLE_INDEX, INTACT_OPTIONAL}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_INTS("size"), VALUE_ATTRS)},
    .infer = full_infer,
    .eval_f32 = full_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .aliases =
        INTACT_ALIASES(INTACT_ATEN_AS("full", FACTORY, NULL), INTACT_ATEN_AS("zeros", FACTORY, NULL),
                       INTACT_ATEN_AS("empty.memory_format", FACTORY, NULL),
                       /* fill_one: fill_value = 1 */
                       INTACT_ATEN_AS("ones", FACTORY, "fill_one"),
                       /* constant_size: value has type and number (default float32 0); constant operand 0 becomes size */
                       INTACT_ONNX_AS("ConstantOfShape", "value=value", "constant_size")),
};

static intact_status full_like_infer(intact_infer *infer) {
  const intact_value *x = infer->node->operands[0];
  INTACT_TRY(check_value(infer->context, infer->node));
  return intact__infer_result(infer, 0, wanted_dtype(infer->node, x->dtype), x->rank, x->dims);
}

static intact_status full_like_eval(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  intact_tensor *y = NULL;
  INTACT_TRY(check_value(call->context, call->node));
  INTACT_TRY(intact__call_result(call, 0, wanted_dtype(call->node, x->dtype), x->rank, x->dims, &y));
  return fill(call->node, y);
}

const intact_op intact_op_full_like = {
    .name = "full_like",
    .doc = "y = a tensor of x's shape, each element fill_value.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("y"), INTACT_ATTRS(VALUE_ATTRS)},
    .infer = full_like_infer,
    .eval_f32 = full_like_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("full_like", FACTORY_LIKE, NULL), INTACT_ATEN_AS("zeros_like", FACTORY_LIKE, NULL),
        INTACT_ATEN_AS("empty_like", FACTORY_LIKE, NULL), INTACT_ATEN_AS("ones_like", FACTORY_LIKE, "fill_one")),
};

/* ---- arange ---- */

/* start, end, step as numbers; *real when they are float. Operands stand before attributes. */
typedef struct arange_numbers {
  double real[3];
  int64_t integer[3];
  bool is_real;
} arange_numbers;

static intact_status arange_count(intact_context *context, const intact_node *node, const arange_numbers *numbers,
                                  int64_t *count) {
  double step = numbers->real[2], steps = ceil((numbers->real[1] - numbers->real[0]) / step);
  if (!numbers->is_real && numbers->integer[2] != 0) {
    double span = (double)numbers->integer[1] - (double)numbers->integer[0];
    steps = ceil(span / (double)numbers->integer[2]);
  }
  if (step == 0 || !(steps < 9e18)) {
    INTACT_FAIL(context, INVALID_VALUE, node->name,
                "arange '%s': from %g to %g in steps of %g; the step must not be 0 and the count "
                "must be finite",
                node->name, numbers->real[0], numbers->real[1], step);
  }
  *count = steps > 0 ? (int64_t)steps : 0;
  return INTACT_OK;
}

static void attr_numbers(const intact_node *node, arange_numbers *numbers) {
  const char *names[] = {"start", "end", "step"};
  numbers->is_real = false;
  for (int i = 0; i < 3; i++) {
    double value = intact__attr_float(node, names[i]);
    bool whole = fabs(value) <= 9007199254740992.0 && value == floor(value);
    numbers->real[i] = value;
    numbers->integer[i] = whole ? (int64_t)value : 0;
    numbers->is_real = numbers->is_real || !whole;
  }
}

static intact_status arange_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  arange_numbers numbers;
  bool known = true;
  int64_t dims[1] = {0};
  attr_numbers(node, &numbers);
  intact_dtype dtype = numbers.is_real ? INTACT_F32 : INTACT_S64;
  for (int i = 0; i < node->n_operands; i++) {
    const intact_value *value = node->operands[i];
    if (value == NULL) continue;
    dtype = value->dtype;
    bool symbol = value->elements == NULL || value->n_elements != 1 ||
                  (infer->graph != NULL && intact__element_is_symbol(value->elements[0]));
    known = known && !symbol;
    if (symbol) continue;
    numbers.integer[i] = value->elements[0];
    numbers.real[i] = (double)value->elements[0];
    numbers.is_real = false;
  }
  if (known) INTACT_TRY(arange_count(infer->context, node, &numbers, &dims[0]));
  if (!known) dims[0] = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, wanted_dtype(node, dtype), 1, dims);
}

static intact_status arange_eval(const intact_call *call) {
  arange_numbers numbers;
  int64_t dims[1] = {0};
  intact_tensor *y = NULL;
  attr_numbers(call->node, &numbers);
  intact_dtype dtype = numbers.is_real ? INTACT_F32 : INTACT_S64;
  for (int i = 0; i < call->n_operands && i < 3; i++) {
    const intact_tensor *x = call->operands[i];
    if (x == NULL) continue;
    if (x->count != 1) {
      INTACT_FAIL(call->context, SIZE_MISMATCH, call->node->name,
                  "arange '%s': operand %d has %lld elements; it must have one", call->node->name, i, (long long)x->count);
    }
    dtype = x->dtype;
    numbers.is_real = intact_dtype_is_float(dtype);
    numbers.real[i] = intact__tensor_get_f64(x, 0);
    numbers.integer[i] = numbers.is_real ? 0 : intact__tensor_get_s64(x, 0);
  }
  INTACT_TRY(arange_count(call->context, call->node, &numbers, &dims[0]));
  INTACT_TRY(intact__call_result(call, 0, wanted_dtype(call->node, dtype), 1, dims, &y));
  for (int64_t i = 0; i < dims[0]; i++) {
    if (numbers.is_real) {
      intact__tensor_set_f64(y, i, numbers.real[0] + (double)i * numbers.real[2]);
    } else {
      intact__tensor_set_s64(y, i, (int64_t)((uint64_t)numbers.integer[0] + (uint64_t)i * (uint64_t)numbers.integer[2]));
    }
  }
  return INTACT_OK;
}

const intact_op intact_op_arange = {
    .name = "arange",
    .doc = "y = start, start + step, ... below end; operands stand before the attributes.",
    .schema = {INTACT_OPERANDS({"start_value", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"end_value", INTACT_ROLE_NONE, INTACT_OPTIONAL},
                               {"step_value", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_A_FLOAT("start", 0.0), INTACT_A_FLOAT("end", 0.0), INTACT_A_FLOAT("step", 1.0),
                            INTACT_A_DTYPE_OR_NONE("dtype"))},
    .infer = arange_infer,
    .eval_f32 = arange_eval,
    .grad = intact__grad_none,
    .quant = NO_RANGE,
    .aliases = INTACT_ALIASES(
        INTACT_ATEN_AS("arange", "end=end,dtype=dtype,layout=,device=,pin_memory=", NULL),
        INTACT_ATEN_AS("arange.start", "start=start,end=end,dtype=dtype,layout=,device=,pin_memory=", NULL),
        INTACT_ATEN_AS("arange.start_step", "start=start,end=end,step=step,dtype=dtype,layout=,device=,pin_memory=", NULL),
        INTACT_ONNX("Range"), INTACT_OPENVINO_AS("Range", "output_type=dtype", NULL)),
};
