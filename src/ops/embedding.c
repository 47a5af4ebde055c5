/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of table look-up: embedding, embedding_bag, one_hot. */
#include <math.h>
#include <string.h>

#include "ops/layer.h"

static intact_status check_table(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *weight = node->operands[0], *indices = node->operands[1];
  char text[160];
  INTACT_TRY(intact__infer_float(infer, 0));
  if (weight->rank >= 0 && weight->rank != 2) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "%s: weight is %s; it must be [rows, columns]", node->op->name,
                intact__shape_text(weight->rank, weight->dims, text));
  }
  if (!intact_dtype_is_integer(indices->dtype)) {
    INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "%s: indices are %s; they must be integers", node->op->name,
                intact_dtype_text(indices->dtype));
  }
  return INTACT_OK;
}

/* All indices lie within the table; read as `indices` in messages. */
static intact_status check_indices(intact_context *context, const intact_node *node, const intact_tensor *indices,
                                   int64_t rows) {
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t row = intact__tensor_get_s64(indices, i);
    if (row >= 0 && row < rows) continue;
    INTACT_FAIL(context, OUT_OF_RANGE, node->name, "%s: index %lld is %lld; it must lie in 0..%lld", node->op->name,
                (long long)i, (long long)row, (long long)rows - 1);
  }
  return INTACT_OK;
}

/* ---- embedding ---- */

static intact_status infer_embedding(intact_infer *infer) {
  const intact_value *weight = infer->node->operands[0], *indices = infer->node->operands[1];
  INTACT_TRY(check_table(infer));
  if (weight->rank < 0 || indices->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  int64_t dims[INTACT_MAX_RANK + 1];
  memcpy(dims, indices->dims, (size_t)indices->rank * sizeof(int64_t));
  dims[indices->rank] = weight->dims[1];
  return intact__infer_result(infer, 0, INTACT_F32, indices->rank + 1, dims);
}

static intact_status eval_embedding(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  const intact_tensor *weight = call->operands[0], *indices = call->operands[1];
  INTACT_TRY(check_indices(call->context, call->node, indices, weight->dims[0]));
  int64_t columns = weight->dims[1];
  for (int64_t i = 0; i < indices->count; i++) {
    const float *row = intact__f32(weight) + intact__tensor_get_s64(indices, i) * columns;
    memcpy(intact__f32(y) + i * columns, row, (size_t)columns * sizeof(float));
  }
  return INTACT_OK;
}

/* Rows' gradients are summed; that of padding_idx is 0; scale_grad_by_freq divides a row by how often it was read. */
static intact_status grad_embedding(intact_grad *grad) {
  if (grad->d_results[0] == NULL || !intact__wants(grad, 0)) return INTACT_OK;
  const intact_tensor *indices = grad->operands[1];
  intact_tensor *d;
  INTACT_TRY(intact__grad_operand(grad, 0, &d));
  int64_t rows = d->dims[0], columns = d->dims[1], padding = intact__attr_int(grad->node, "padding_idx");
  bool by_frequency = intact__attr_int(grad->node, "scale_grad_by_freq") != 0;
  double *sums = intact__alloc_zeroed(grad->context, (size_t)(rows * (columns + 1)) + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(grad->context, (size_t)(rows * (columns + 1)) * sizeof(double));
  double *counts = sums + rows * columns;
  for (int64_t i = 0; i < indices->count; i++) {
    int64_t row = intact__tensor_get_s64(indices, i);
    if (row == padding) continue;
    counts[row]++;
    for (int64_t c = 0; c < columns; c++) sums[row * columns + c] += intact__f32(grad->d_results[0])[i * columns + c];
  }
  for (int64_t i = 0; i < rows * columns; i++) {
    double count = by_frequency && counts[i / columns] > 0 ? counts[i / columns] : 1;
    intact__f32(d)[i] = (float)(sums[i] / count);
  }
  intact__free(grad->context, sums);
  return INTACT_OK;
}

static int table_axis(const intact_node *node, int *groups) {
  (void)node;
  *groups = 1;
  return 0;
}

const intact_op intact_op_embedding = {
    .name = "embedding",
    .doc = "Rows of weight [rows, columns] at indices.",
    .schema = {INTACT_OPERANDS({"weight", INTACT_ROLE_WEIGHT, 0}, {"indices", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INT_ATTR("padding_idx", -1), INTACT_BOOL_ATTR("scale_grad_by_freq", 0),
                            INTACT_BOOL_ATTR("sparse", 0))},
    .infer = infer_embedding,
    .eval_f32 = eval_embedding,
    .grad = grad_embedding,
    .quant = {.result = INTACT_RESULT_OWN, .no_quantize = true, .weight_axis = table_axis},
    .int_layout = INTACT_INT_ROWS,
    .aliases = INTACT_ALIASES(INTACT_ATEN("embedding")),
};

/* ---- embedding_bag ---- */

enum { BAG_WEIGHT, BAG_INDICES, BAG_OFFSETS, BAG_FACTORS };
typedef enum bag_mode { BAG_SUM, BAG_MEAN, BAG_MAX, BAG_UNKNOWN } bag_mode;

static bag_mode mode_of(const intact_node *node) {
  static const char *const names[] = {"sum", "mean", "max"};
  const char *text = intact__attr_string(node, "mode");
  for (int i = 0; i < 3; i++) {
    if (text != NULL && strcmp(text, names[i]) == 0) return (bag_mode)i;
  }
  return BAG_UNKNOWN;
}

static intact_status infer_embedding_bag(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *weight = node->operands[BAG_WEIGHT], *indices = node->operands[BAG_INDICES];
  const intact_value *offsets = intact__infer_operand(infer, BAG_OFFSETS),
                     *factors = intact__infer_operand(infer, BAG_FACTORS);
  INTACT_TRY(check_table(infer));
  INTACT_TRY(intact__infer_float(infer, BAG_FACTORS));
  bag_mode mode = mode_of(node);
  if (mode == BAG_UNKNOWN || (factors != NULL && mode != BAG_SUM)) {
    INTACT_FAIL(infer->context, INVALID_VALUE, node->name,
                "embedding_bag: mode is \"%s\"; it must be sum, mean or max, and sum with per_sample_weights",
                intact__attr_string(node, "mode"));
  }
  if (weight->rank < 0 || indices->rank < 0 || (offsets != NULL && offsets->rank < 0)) {
    return intact__infer_unranked(infer, INTACT_F32);
  }
  bool fits = offsets != NULL ? indices->rank == 1 && offsets->rank == 1 && intact_dtype_is_integer(offsets->dtype)
                              : indices->rank == 2;
  bool last = intact__attr_int(node, "include_last_offset") != 0;
  if (fits && offsets != NULL && last) fits = offsets->dims[0] != 0;
  if (fits && factors != NULL && factors->rank >= 0) {
    int64_t agreed;
    fits = factors->rank == indices->rank;
    for (int d = 0; fits && d < factors->rank; d++) fits = intact__dims_agree(factors->dims[d], indices->dims[d], &agreed);
  }
  if (!fits) {
    char a[160];
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "embedding_bag: indices are %s; they must be a vector with a vector of offsets, or [bags, n] without; "
                "per_sample_weights are shaped as the indices",
                intact__shape_text(indices->rank, indices->dims, a));
  }
  int64_t bags = offsets == NULL ? indices->dims[0] : offsets->dims[0];
  if (offsets != NULL && last) bags = bags < 0 ? intact__infer_unknown_dim(infer) : bags - 1;
  return intact__infer_result(infer, 0, INTACT_F32, 2, (const int64_t[]){bags, weight->dims[1]});
}

typedef struct bags {
  const intact_tensor *weight, *indices, *offsets;
  const float *factors;
  int64_t count, columns, padding;
  bag_mode mode;
} bags;

static bags bags_of(const intact_node *node, int n, const intact_tensor *const *operands, const intact_tensor *y) {
  bags b = {.weight = operands[BAG_WEIGHT], .indices = operands[BAG_INDICES]};
  b.offsets = n > BAG_OFFSETS ? operands[BAG_OFFSETS] : NULL;
  b.factors = n > BAG_FACTORS && operands[BAG_FACTORS] != NULL ? intact__f32(operands[BAG_FACTORS]) : NULL;
  b.count = y->dims[0];
  b.columns = y->dims[1];
  b.padding = intact__attr_int(node, "padding_idx");
  b.mode = mode_of(node);
  return b;
}

/* Indices first..end-1 make bag i. */
static void bag_range(const bags *b, int64_t i, int64_t *first, int64_t *end) {
  if (b->offsets == NULL) {
    *first = i * b->indices->dims[1];
    *end = *first + b->indices->dims[1];
    return;
  }
  *first = intact__tensor_get_s64(b->offsets, i);
  *end = i + 1 < b->offsets->count ? intact__tensor_get_s64(b->offsets, i + 1) : b->indices->count;
}

static intact_status check_bags(intact_context *context, const intact_node *node, const bags *b) {
  INTACT_TRY(check_indices(context, node, b->indices, b->weight->dims[0]));
  for (int64_t i = 0; i < b->count; i++) {
    int64_t first, end;
    bag_range(b, i, &first, &end);
    if (first < 0 || end < first || end > b->indices->count || (i == 0 && first != 0)) {
      INTACT_FAIL(context, OUT_OF_RANGE, node->name,
                  "embedding_bag: bag %lld is indices %lld..%lld of %lld; offsets must start at 0 and never fall",
                  (long long)i, (long long)first, (long long)end, (long long)b->indices->count);
    }
  }
  return INTACT_OK;
}

static int64_t row_of(const bags *b, int64_t index) {
  return intact__tensor_get_s64(b->indices, index);
}

/* Position in indices of the largest element of a column (the first of equal ones); -1: empty bag. */
static int64_t find_largest(const bags *b, int64_t first, int64_t end, int64_t column) {
  int64_t best = -1;
  float max = 0;
  for (int64_t j = first; j < end; j++) {
    if (row_of(b, j) == b->padding) continue;
    float v = intact__f32(b->weight)[row_of(b, j) * b->columns + column];
    if (best < 0 || v > max) {
      best = j;
      max = v;
    }
  }
  return best;
}

static double members(const bags *b, int64_t first, int64_t end) {
  double n = 0;
  for (int64_t j = first; j < end; j++) n += row_of(b, j) != b->padding;
  return n;
}

static intact_status eval_embedding_bag(const intact_call *call) {
  intact_tensor *y;
  INTACT_TRY(intact__call_begin(call, &y));
  bags b = bags_of(call->node, call->n_operands, call->operands, y);
  INTACT_TRY(check_bags(call->context, call->node, &b));
  for (int64_t i = 0; i < b.count; i++) {
    int64_t first, end;
    bag_range(&b, i, &first, &end);
    double n = members(&b, first, end);
    for (int64_t c = 0; c < b.columns; c++) {
      double sum = 0;
      if (b.mode == BAG_MAX) {
        int64_t best = find_largest(&b, first, end, c);
        sum = best < 0 ? 0 : intact__f32(b.weight)[row_of(&b, best) * b.columns + c];
      }
      for (int64_t j = first; j < end && b.mode != BAG_MAX; j++) {
        if (row_of(&b, j) == b.padding) continue;
        sum += (double)intact__f32(b.weight)[row_of(&b, j) * b.columns + c] * (b.factors != NULL ? b.factors[j] : 1);
      }
      intact__f32(y)[i * b.columns + c] = (float)(b.mode == BAG_MEAN && n > 0 ? sum / n : sum);
    }
  }
  return INTACT_OK;
}

static void back_bag(const bags *b, int64_t i, const float *dy, double *sums, float *d_factors) {
  int64_t first, end;
  bag_range(b, i, &first, &end);
  double n = members(b, first, end), share = b->mode == BAG_MEAN && n > 0 ? 1 / n : 1;
  for (int64_t c = 0; c < b->columns && b->mode == BAG_MAX; c++) {
    int64_t best = find_largest(b, first, end, c);
    if (best >= 0) sums[row_of(b, best) * b->columns + c] += dy[c];
  }
  for (int64_t j = first; j < end && b->mode != BAG_MAX; j++) {
    double dot = 0;
    if (row_of(b, j) == b->padding) continue;
    for (int64_t c = 0; c < b->columns; c++) {
      sums[row_of(b, j) * b->columns + c] += dy[c] * share * (b->factors != NULL ? b->factors[j] : 1);
      dot += (double)dy[c] * intact__f32(b->weight)[row_of(b, j) * b->columns + c];
    }
    if (d_factors != NULL) d_factors[j] = (float)dot;
  }
}

static intact_status grad_embedding_bag(intact_grad *grad) {
  const intact_tensor *dy = grad->d_results[0];
  if (dy == NULL) return INTACT_OK;
  bags b = bags_of(grad->node, grad->n_operands, grad->operands, dy);
  intact_tensor *d_factors = NULL, *d = NULL;
  if (intact__wants(grad, BAG_FACTORS)) INTACT_TRY(intact__grad_operand(grad, BAG_FACTORS, &d_factors));
  if (intact__wants(grad, BAG_WEIGHT)) INTACT_TRY(intact__grad_operand(grad, BAG_WEIGHT, &d));
  size_t count = (size_t)b.weight->count;
  double *sums = intact__alloc_zeroed(grad->context, count + 1, sizeof(double));
  if (sums == NULL) return intact__no_memory(grad->context, count * sizeof(double));
  for (int64_t i = 0; i < b.count; i++) {
    back_bag(&b, i, intact__f32(dy) + i * b.columns, sums, d_factors != NULL ? intact__f32(d_factors) : NULL);
  }
  for (size_t i = 0; d != NULL && i < count; i++) intact__f32(d)[i] = (float)sums[i];
  intact__free(grad->context, sums);
  return INTACT_OK;
}

const intact_op intact_op_embedding_bag = {
    .name = "embedding_bag",
    .doc =
        "Sum, mean or maximum over bags of rows of weight; bag i is indices offsets[i]..offsets[i+1]; an empty bag gives 0.",
    .schema = {INTACT_OPERANDS({"weight", INTACT_ROLE_WEIGHT, 0}, {"indices", INTACT_ROLE_INDEX, 0},
                               {"offsets", INTACT_ROLE_INDEX, INTACT_OPTIONAL},
                               {"per_sample_weights", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_STRING_ATTR("mode", "sum"), INTACT_BOOL_ATTR("include_last_offset", 0),
                            INTACT_INT_ATTR("padding_idx", -1))},
    .infer = infer_embedding_bag,
    .eval_f32 = eval_embedding_bag,
    .grad = grad_embedding_bag,
    .quant = {.result = INTACT_RESULT_OWN, .no_quantize = true, .weight_axis = table_axis},
    .int_layout = INTACT_INT_ROWS,
    /* aten fix-up embedding_bag: mode 0 sum, 1 mean, 2 max; only the first of the four results may be read. */
    .aliases = INTACT_ALIASES(INTACT_ATEN_AS("embedding_bag", NULL, "embedding_bag"),
                              INTACT_ATEN_AS("embedding_bag.padding_idx", NULL, "embedding_bag")),
};

/* ---- one_hot ---- */

static intact_status infer_one_hot(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *x = node->operands[0];
  int64_t classes = intact__attr_int(node, "num_classes");
  if (!intact_dtype_is_integer(x->dtype)) {
    INTACT_FAIL(infer->context, UNSUPPORTED_TYPE, node->name, "one_hot: x is %s; it must hold integers",
                intact_dtype_text(x->dtype));
  }
  if ((classes < 1 && classes != -1) || classes > INT32_MAX) {
    INTACT_FAIL(infer->context, OUT_OF_RANGE, node->name,
                "one_hot: num_classes is %lld; it must be at least 1, or -1 for one more than the largest element", (long long)classes);
  }
  if (x->rank < 0) return intact__infer_unranked(infer, INTACT_S64);
  if (x->rank == INTACT_MAX_RANK) {
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name, "one_hot: x has rank %d; there is no room for another dimension", x->rank);
  }
  int64_t dims[INTACT_MAX_RANK + 1];
  memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
  dims[x->rank] = classes == -1 ? intact__infer_unknown_dim(infer) : classes;
  return intact__infer_result(infer, 0, INTACT_S64, x->rank + 1, dims);
}

/* One more than the largest element. */
static intact_status count_classes(const intact_call *call, int64_t *classes) {
  const intact_tensor *x = call->operands[0];
  int64_t most = -1;
  for (int64_t i = 0; i < x->count; i++) {
    const int64_t class = intact__tensor_get_s64(x, i);
    most = class > most ? class : most;
  }
  if (most < 0 || most >= INT32_MAX) {
    INTACT_FAIL(call->context, OUT_OF_RANGE, call->node->name, "one_hot: the largest of %lld elements is %lld; num_classes must be given",
                (long long)x->count, (long long)most);
  }
  *classes = most + 1;
  return INTACT_OK;
}

static intact_status eval_one_hot(const intact_call *call) {
  const intact_tensor *x = call->operands[0];
  int64_t classes = intact__attr_int(call->node, "num_classes"), dims[INTACT_MAX_RANK + 1];
  intact_tensor *y;
  if (classes == -1) INTACT_TRY(count_classes(call, &classes));
  INTACT_TRY(check_indices(call->context, call->node, x, classes));
  memcpy(dims, x->dims, (size_t)x->rank * sizeof(int64_t));
  dims[x->rank] = classes;
  INTACT_TRY(intact__call_result(call, 0, INTACT_S64, x->rank + 1, dims, &y));
  int64_t *to = y->data;
  for (int64_t i = 0; i < y->count; i++) to[i] = intact__tensor_get_s64(call->operands[0], i / classes) == i % classes;
  return INTACT_OK;
}

const intact_op intact_op_one_hot = {
    .name = "one_hot",
    .doc = "1 at position x of a new last dimension of num_classes (-1: one more than the largest x), else 0.",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"),
               INTACT_ATTRS(INTACT_INT_ATTR("num_classes", -1))},
    .infer = infer_one_hot,
    .eval_f32 = eval_one_hot,
    .grad = intact__grad_none,
    .quant = {.result = INTACT_RESULT_NONE, .no_quantize = true},
    .int_layout = INTACT_INT_ROWS,
    /* onnx fix-up one_hot: depth must be constant; values [off, on] are a multiplication and an addition, then a cast to
       their type; axis other than the last is a permute; negative indices have depth added. */
    .aliases = INTACT_ALIASES(INTACT_ATEN("one_hot"), INTACT_ONNX_AS("OneHot", "axis=", "one_hot")),
};
