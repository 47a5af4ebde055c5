/* SPDX-License-Identifier: Apache-2.0 */
/* qparams from ONNX's scales and zero points, and values that carry them. */
#include <math.h>
#include <string.h>

#include "io/onnx/onnx_fixups.h"
#include "kernels/affine/affine.h"

/* ---- qparams ---- */
static intact_status check_scale(intact_onnx_node *node, const intact_value *scale) {
  for (int64_t i = 0; i < scale->constant->count; i++) {
    double number = intact__tensor_get_f64(scale->constant, i);
    if (number > 0 && !isinf((float)number) && (float)number > 0) continue;
    INTACT_FAIL(node->context, INVALID_VALUE, node->name,
                "cannot read node '%s' (%s): scale %lld of its initializer '%s' is %g; it must be finite and greater than 0",
                node->name, node->op, (long long)i, scale->name, number);
  }
  return INTACT_OK;
}

static intact_status check_zero_point(intact_onnx_node *node, const intact_value *scale, const intact_value *zero_point,
                                      intact_dtype dtype) {
  if (zero_point == NULL) return INTACT_OK;
  if (zero_point->dtype != dtype) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
                "cannot read node '%s' (%s): its zero point '%s' is %s, the quantized values are %s; they must agree",
                node->name, node->op, zero_point->name, intact_dtype_text(zero_point->dtype), intact_dtype_text(dtype));
  }
  if (zero_point->constant->count != scale->constant->count) {
    INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
                "cannot read node '%s' (%s): scale '%s' has %lld elements, zero point '%s' has %lld; they must agree",
                node->name, node->op, scale->name, (long long)scale->constant->count, zero_point->name,
                (long long)zero_point->constant->count);
  }
  for (int64_t i = 0; dtype == INTACT_S32 && i < zero_point->constant->count; i++) {
    if (intact__tensor_get_s64(zero_point->constant, i) == 0) continue;
    INTACT_FAIL(node->context, INVALID_VALUE, node->name,
                "cannot read node '%s' (%s): zero point '%s' of int32 values is %lld; it must be 0", node->name, node->op,
                zero_point->name, (long long)intact__tensor_get_s64(zero_point->constant, i));
  }
  return INTACT_OK;
}

/* Axis of the scales: -1 for one scale. Shapes must fit each other. */
static intact_status find_axis(intact_onnx_node *node, const intact_value *scale, int64_t axis, int64_t block,
                               const intact_value *like, int *found) {
  const intact_tensor *tensor = scale->constant;
  *found = -1;
  if (tensor->rank == 0 || (tensor->rank == 1 && tensor->count == 1 && block == 0)) return INTACT_OK;
  int rank = like->rank;
  if (axis < 0 && rank >= 0) axis += rank;
  bool fits =
      axis >= 0 && axis < (rank >= 0 ? rank : INTACT_MAX_RANK) && (block > 0 ? tensor->rank == rank : tensor->rank == 1);
  for (int d = 0; fits && d < rank; d++) {
    int64_t size = like->dims[d];
    if (size < 0) continue;
    if (block > 0) fits = tensor->dims[d] == (d == axis ? size / block + (size % block != 0) : size);
    if (block == 0 && d == axis) fits = tensor->count == size;
  }
  if (fits) {
    *found = (int)axis;
    return INTACT_OK;
  }
  char a[160], b[160];
  INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
              "cannot read node '%s' (%s): scale '%s' of shape %s does not fit '%s' of shape %s (axis %lld, block %lld)",
              node->name, node->op, scale->name, intact__shape_text(tensor->rank, tensor->dims, a), like->name,
              rank < 0 ? "unknown" : intact__shape_text(rank, like->dims, b), (long long)axis, (long long)block);
}

intact_status intact__onnx_qparams(intact_onnx_node *node, const intact_value *scale, const intact_value *zero_point,
                                   intact_dtype dtype, int64_t axis, int64_t block, const intact_value *like,
                                   const intact_qparams **qparams) {
  *qparams = NULL;
  if (scale == NULL) {
    INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): a scale is left out", node->name,
                node->op);
  }
  bool constant = scale->constant != NULL && (zero_point == NULL || zero_point->constant != NULL);
  if (!constant || !intact_dtype_is_integer(dtype)) return INTACT_OK;
  if (!intact_dtype_is_float(scale->dtype) || scale->constant->count < 1 || block < 0) {
    INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
                "cannot read node '%s' (%s): scale '%s' must hold floats, at least one; it has %lld of type %s", node->name,
                node->op, scale->name, (long long)scale->constant->count, intact_dtype_text(scale->dtype));
  }
  INTACT_TRY(check_scale(node, scale));
  INTACT_TRY(check_zero_point(node, scale, zero_point, dtype));
  int found;
  INTACT_TRY(find_axis(node, scale, axis, block, like, &found));
  int64_t n = scale->constant->count;
  intact_arena *arena = &node->import->file->arena;
  float *scales = intact__arena_alloc(arena, (size_t)n, sizeof *scales);
  int32_t *zeros = intact__arena_alloc(arena, (size_t)n, sizeof *zeros);
  if (scales == NULL || zeros == NULL) return intact__no_memory(node->context, (size_t)n * sizeof *scales);
  bool symmetric = intact_dtype_min(dtype) < 0;
  for (int64_t i = 0; i < n; i++) {
    scales[i] = (float)intact__tensor_get_f64(scale->constant, i);
    zeros[i] = zero_point == NULL ? 0 : (int32_t)intact__tensor_get_s64(zero_point->constant, i);
    symmetric = symmetric && zeros[i] == 0;
  }
  intact_qscheme scheme = symmetric ? INTACT_PER_TENSOR_SYMMETRIC : INTACT_PER_TENSOR_AFFINE;
  if (found >= 0) scheme = symmetric ? INTACT_PER_CHANNEL_SYMMETRIC : INTACT_PER_CHANNEL_AFFINE;
  if (found >= 0 && block > 0) scheme = INTACT_PER_GROUP_AFFINE;
  intact_qparams *made = intact__qparams_create(arena, scheme, dtype, intact_dtype_min(dtype), intact_dtype_max(dtype),
                                                found, n, scales, zeros);
  if (made == NULL) return intact__no_memory(node->context, (size_t)n * sizeof *scales);
  made->group = found >= 0 ? block : 0;
  *qparams = made;
  return INTACT_OK;
}

/* ---- carriers ---- */
/* Equal but for the range that is used of the type. */
static bool same_grid(const intact_qparams *a, const intact_qparams *b) {
  intact_qparams widened = *a;
  widened.quant_min = b->quant_min;
  widened.quant_max = b->quant_max;
  return intact__qparams_equal(&widened, b);
}

/* Symmetric codes that leave out the lowest number, as symmetric weights do, say so in their range. */
static intact_status narrow_range(intact_onnx_node *node, const intact_tensor *codes, const intact_qparams **qparams) {
  int64_t low = (*qparams)->quant_min;
  if (low >= 0 || (*qparams)->dtype == INTACT_S32 || (*qparams)->scheme == INTACT_PER_TENSOR_AFFINE ||
      (*qparams)->scheme == INTACT_PER_CHANNEL_AFFINE) {
    return INTACT_OK;
  }
  for (int64_t i = 0; i < codes->count; i++) {
    if (intact__tensor_get_s64(codes, i) == low) return INTACT_OK;
  }
  intact_qparams *narrow = intact__qparams_copy(&node->import->file->arena, *qparams);
  if (narrow == NULL) return intact__no_memory(node->context, sizeof *narrow);
  narrow->quant_min = low + 1;
  *qparams = narrow;
  return INTACT_OK;
}

static intact_status carry_constant(intact_onnx_node *node, intact_value *x, const intact_qparams *qparams,
                                    intact_value **carrier) {
  INTACT_TRY(narrow_range(node, x->constant, &qparams));
  if (x->qparams == NULL && x->n_uses == 0 && !x->is_output) {
    *carrier = x;
    return intact__value_set_qparams(node->graph, x, qparams);
  }
  intact_tensor *shared = NULL;
  INTACT_TRY(intact_tensor_share(x->constant, x->constant->rank, NULL, &shared));
  const char *name = intact__onnx_fresh_name(node->scope, x->name);
  if (name == NULL) {
    intact_tensor_destroy(shared);
    return intact__no_memory(node->context, strlen(x->name));
  }
  return intact__graph_add_constant(node->graph, name, shared, qparams, carrier);
}

intact_status intact__onnx_carry(intact_onnx_node *node, intact_value *x, const intact_qparams *qparams,
                                 intact_value **carrier) {
  *carrier = NULL;
  if (x->qparams != NULL && same_grid(x->qparams, qparams)) {
    *carrier = x;
    return INTACT_OK;
  }
  if (x->constant != NULL) return carry_constant(node, x, qparams, carrier);
  if (!x->is_input || x->qparams != NULL || x->n_uses > 0 || x->is_output || x->dtype != qparams->dtype) return INTACT_OK;
  *carrier = x;
  return intact__value_set_qparams(node->graph, x, qparams);
}

intact_status intact__onnx_quantize(intact_onnx_node *node, const char *suffix, intact_value *real,
                                    const intact_qparams *qparams, intact_value **codes) {
  intact_node *made = NULL;
  INTACT_TRY(intact__onnx_add(node, "quantize", suffix, 1, &real, &made));
  INTACT_TRY(intact__attr_set_string(made, "rule", "divide"));
  INTACT_TRY(intact__value_set_qparams(node->graph, made->results[0], qparams));
  INTACT_TRY(intact__node_infer(made));
  *codes = made->results[0];
  return INTACT_OK;
}

/* ---- arithmetic where there are no qparams ---- */
/* Codes of a value that carries qparams as whole floats: rne(x / scale) + zero point, exact for codes below 2^24. */
static intact_status codes_as_floats(intact_onnx_node *node, intact_value *x, intact_value **floats) {
  const intact_qparams *q = x->qparams;
  if (q->n != 1) {
    INTACT_FAIL(
        node->context, UNSUPPORTED_OP, node->name,
        "cannot read node '%s' (%s): it reads '%s', which is quantized per channel, with other qparams or as plain integers",
        node->name, node->op, x->name);
  }
  intact_value *real = NULL, *number = NULL;
  INTACT_TRY(intact__onnx_one(node, "dequantize", "real", x, NULL, &real));
  INTACT_TRY(intact__onnx_number(node, "old_scale", INTACT_F32, (double)q->scale[0], &number));
  INTACT_TRY(intact__onnx_one(node, "div", "steps", real, number, &real));
  INTACT_TRY(intact__onnx_one(node, "round", "whole", real, NULL, &real));
  INTACT_TRY(intact__onnx_number(node, "old_zero_point", INTACT_F32, q->zero_point[0], &number));
  return intact__onnx_one(node, "add", "code", real, number, floats);
}

/* A list of numbers along `axis` so that it broadcasts to rank dimensions. */
static intact_status along_axis(intact_onnx_node *node, const char *suffix, intact_value *x, int64_t axis, int rank,
                                intact_value **result) {
  *result = x;
  if (x->rank == 0 || (x->constant != NULL && x->constant->count == 1)) return INTACT_OK;
  if (axis < 0) axis += rank;
  if (x->rank != 1 || rank < 1 || axis < 0 || axis >= rank) {
    INTACT_FAIL(
        node->context, UNSUPPORTED_OP, node->name,
        "cannot read node '%s' (%s): '%s' must have rank 0 or 1, and what it scales a known rank, unless both are constants",
        node->name, node->op, x->name);
  }
  int64_t shape[INTACT_MAX_RANK] = {-1};
  int n = rank - (int)axis;
  for (int i = 1; i < n; i++) shape[i] = 1;
  return n == 1 ? INTACT_OK : intact__onnx_with_ints(node, "reshape", "shape", suffix, x, n, shape, result);
}

static intact_status dequantize_by_arithmetic(intact_onnx_node *node, intact_value *x, intact_value *scale,
                                              intact_value *zero_point, int64_t axis, int64_t block, intact_value **real) {
  int rank = x->rank;
  if (block > 0) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): scales per block must be constants",
                node->name, node->op);
  }
  if (x->qparams != NULL) {
    INTACT_TRY(codes_as_floats(node, x, real));
  } else {
    INTACT_TRY(intact__onnx_cast(node, "float", x, INTACT_F32, real));
  }
  if (zero_point != NULL && intact_dtype_is_integer(zero_point->dtype)) {
    INTACT_TRY(intact__onnx_cast(node, "zero_point", zero_point, INTACT_F32, &zero_point));
    INTACT_TRY(along_axis(node, "zero_points", zero_point, axis, rank, &zero_point));
    INTACT_TRY(intact__onnx_one(node, "sub", "centred", *real, zero_point, real));
  }
  INTACT_TRY(intact__onnx_cast(node, "scale", scale, INTACT_F32, &scale));
  INTACT_TRY(along_axis(node, "scales", scale, axis, rank, &scale));
  return intact__onnx_one(node, "mul", "real", *real, scale, real);
}

intact_status intact__onnx_dequantize(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value *scale,
                                      intact_value *zero_point, int64_t axis, int64_t block, intact_value **real) {
  if (x == NULL || scale == NULL) {
    INTACT_FAIL(node->context, MISSING_FIELD, node->name,
                "cannot read node '%s' (%s): a quantized input or its scale is left out", node->name, node->op);
  }
  const intact_qparams *qparams = NULL;
  intact_value *carrier = NULL;
  INTACT_TRY(intact__onnx_qparams(node, scale, zero_point, x->dtype, axis, block, x, &qparams));
  if (qparams != NULL) INTACT_TRY(intact__onnx_carry(node, x, qparams, &carrier));
  if (carrier != NULL) return intact__onnx_one(node, "dequantize", suffix, carrier, NULL, real);
  return dequantize_by_arithmetic(node, x, scale, zero_point, axis, block, real);
}

/* ---- inputs of other ops ---- */
/* A constant that carries qparams as plain integers: another constant over the same elements. */
static intact_status plain_constant(intact_onnx_node *node, const intact_value *x, intact_value **plain) {
  intact_tensor *shared = NULL;
  INTACT_TRY(intact_tensor_share(x->constant, x->constant->rank, NULL, &shared));
  const char *name = intact__onnx_fresh_name(node->scope, x->name);
  if (name == NULL) {
    intact_tensor_destroy(shared);
    return intact__no_memory(node->context, strlen(x->name));
  }
  return intact__graph_add_constant(node->graph, name, shared, NULL, plain);
}

/* Padding of integers fills in an integer, 0 when input 2 is left out: the number that it means. *known: false when the model
   computes it. */
static intact_status fill_as_real(intact_onnx_node *node, bool *known) {
  const intact_value *x = node->inputs[0], *fill = intact__onnx_input(node, 2);
  *known = true;
  if (node->row->quant.fill_value == NULL || x->qparams == NULL || x->constant != NULL || x->qparams->n != 1 || node->n_inputs < 2)
    return INTACT_OK;
  *known = fill == NULL || (fill->constant != NULL && fill->constant->count == 1);
  if (!*known) return INTACT_OK;
  int64_t code = fill == NULL ? 0 : intact__tensor_get_s64(fill->constant, 0);
  float real = intact__dequantize_one(code, x->qparams->scale[0], x->qparams->zero_point[0]);
  if (node->n_inputs == 2) node->n_inputs = 3; /* there is room for one more: see resolve_inputs */
  return intact__onnx_number(node, "fill", INTACT_F32, (double)real, &node->inputs[2]);
}

/* All integers that the node takes mean numbers of one grid; *grid: NULL when it takes none. */
static bool on_one_grid(const intact_onnx_node *node, const intact_qparams **grid) {
  *grid = NULL;
  for (int i = 0; i < node->n_inputs; i++) {
    const intact_value *x = node->inputs[i];
    if (x == NULL || x->qparams == NULL || x->constant != NULL) continue;
    if (x->qparams->n != 1 || (*grid != NULL && !same_grid(*grid, x->qparams))) return false;
    *grid = x->qparams;
  }
  for (int i = 0; *grid != NULL && i < node->n_inputs; i++) {
    const intact_value *x = node->inputs[i];
    if (x != NULL && x->dtype == (*grid)->dtype && (x->qparams == NULL || x->constant != NULL)) return false;
  }
  return true;
}

intact_status intact__onnx_plain_inputs(intact_onnx_node *node) {
  bool known = true;
  const intact_qparams *grid = NULL;
  if (node->n_inputs > 0 && node->inputs[0] != NULL) INTACT_TRY(fill_as_real(node, &known));
  bool passes = node->row->quant.result == INTACT_RESULT_SAME_AS && !node->row->quant.is_clamp && known && on_one_grid(node, &grid);
  for (int i = 0; i < node->n_inputs; i++) {
    intact_value *x = node->inputs[i];
    if (x == NULL || x->qparams == NULL) continue;
    if (x->constant != NULL) {
      INTACT_TRY(plain_constant(node, x, &node->inputs[i]));
      continue;
    }
    if (passes && (node->requantize == NULL || same_grid(node->requantize, grid))) {
      node->requantize = grid;
      INTACT_TRY(intact__onnx_one(node, "dequantize", "real", x, NULL, &node->inputs[i]));
      continue;
    }
    intact_value *floats = NULL;
    INTACT_TRY(codes_as_floats(node, x, &floats));
    INTACT_TRY(intact__onnx_cast(node, "plain", floats, x->qparams->dtype, &node->inputs[i]));
  }
  return INTACT_OK;
}
