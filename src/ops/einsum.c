/* SPDX-License-Identifier: Apache-2.0 */
/* The row of sums of products written in index notation: einsum. */
#include <string.h>

#include "ops/common.h"

/* Labels are a letter's place (a-z, A-Z), or ELLIPSIS + k for the k-th axis from the right that "..." stands for. */
enum { LETTERS = 52, ELLIPSIS = LETTERS, LABELS = LETTERS + INTACT_MAX_RANK, MOST_OPERANDS = 8 };

typedef struct einsum_plan {
  int n; /* operands */
  int rank[MOST_OPERANDS], labels[MOST_OPERANDS][INTACT_MAX_RANK];
  int result_rank, result[INTACT_MAX_RANK];
  int64_t dims[LABELS]; /* length of each label */
  bool used[LABELS];
} einsum_plan;

typedef struct einsum_source {
  intact_context *context;
  const intact_node *node;
  const char *equation;
} einsum_source;

static intact_status refuse(const einsum_source *from, const char *rule) {
  INTACT_FAIL(from->context, INVALID_VALUE, from->node->name, "einsum '%s': equation '%s'; %s", from->node->name,
              from->equation, rule);
}

static int letter_label(char letter) {
  if (letter >= 'a' && letter <= 'z') return letter - 'a';
  return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 26 : -1;
}

/* Reads one term up to ',' or '-' or the end. rank < 0: of the result, "..." then stands for `wide` axes. */
static intact_status read_term(const einsum_source *from, const char **at, int rank, int wide, int *labels, int *n) {
  const char *text = *at;
  int letters = 0, dots = 0;
  for (; *text != 0 && *text != ',' && *text != '-'; text++) {
    letters += letter_label(*text) >= 0;
    dots += *text == '.';
    if (letter_label(*text) < 0 && *text != '.' && *text != ' ')
      return refuse(from, "only letters, '...', ',' and '->' may stand in it");
  }
  int filled = rank >= 0 ? rank - letters : wide;
  if (dots != 0 && (dots != 3 || strstr(*at, "...") == NULL)) return refuse(from, "'...' may stand once in a term");
  if (filled < 0 || (dots == 0 && rank >= 0 && filled != 0))
    return refuse(from, "a term must have a letter for each axis of its operand");
  *n = 0;
  for (; *at < text; (*at)++) {
    if (**at == '.') {
      if ((*at)[1] != '.' || (*at)[2] != '.') return refuse(from, "'...' may stand once in a term");
      *at += 2;
      for (int k = filled - 1; k >= 0; k--) {
        if (*n == INTACT_MAX_RANK) return refuse(from, "a term has too many axes");
        labels[(*n)++] = ELLIPSIS + k;
      }
    } else if (**at != ' ') {
      if (*n == INTACT_MAX_RANK) return refuse(from, "a term has too many axes");
      labels[(*n)++] = letter_label(**at);
    }
  }
  return INTACT_OK;
}

/* Without "->": the axes of "..." and then the letters that stand once, in the order of the alphabet, capitals first. */
static intact_status implicit_result(const einsum_source *from, einsum_plan *plan, int wide) {
  int count[LABELS] = {0};
  for (int i = 0; i < plan->n; i++) {
    for (int k = 0; k < plan->rank[i]; k++) count[plan->labels[i][k]]++;
  }
  for (int k = wide - 1; k >= 0; k--) plan->result[plan->result_rank++] = ELLIPSIS + k;
  for (int k = 0; k < LETTERS; k++) {
    int label = (k + 26) % LETTERS;
    if (count[label] != 1) continue;
    if (plan->result_rank == INTACT_MAX_RANK) return refuse(from, "the result has too many axes");
    plan->result[plan->result_rank++] = label;
  }
  return INTACT_OK;
}

static intact_status parse(const einsum_source *from, int n, const int *ranks, einsum_plan *plan) {
  const char *at = from->equation;
  int wide = 0;
  *plan = (einsum_plan){.n = n};
  if (n < 1 || n > MOST_OPERANDS) return refuse(from, "between 1 and 8 operands are supported");
  for (int i = 0; i < n; i++) {
    INTACT_TRY(read_term(from, &at, ranks[i], 0, plan->labels[i], &plan->rank[i]));
    for (int k = 0; k < plan->rank[i]; k++) {
      int label = plan->labels[i][k];
      plan->used[label] = true;
      if (label >= ELLIPSIS && label - ELLIPSIS + 1 > wide) wide = label - ELLIPSIS + 1;
    }
    if (i + 1 < n && *at++ != ',') return refuse(from, "it must have a term for each operand");
  }
  if (*at == 0) return implicit_result(from, plan, wide);
  if (at[0] != '-' || at[1] != '>') return refuse(from, "it must have a term for each operand and '->' before the result");
  at += 2;
  INTACT_TRY(read_term(from, &at, -1, wide, plan->result, &plan->result_rank));
  if (*at != 0) return refuse(from, "nothing may follow the result");
  for (int k = 0; k < plan->result_rank; k++) {
    if (!plan->used[plan->result[k]]) return refuse(from, "a letter of the result stands in no operand");
    for (int j = 0; j < k; j++) {
      if (plan->result[j] == plan->result[k]) return refuse(from, "a letter stands twice in the result");
    }
  }
  return INTACT_OK;
}

/* Joins axis lengths of one label: equal, or 1 broadcast ("..." and, as PyTorch does, letters). */
static bool join_label(intact_infer *infer, einsum_plan *plan, bool *seen, int label, int64_t dim) {
  int64_t have = seen[label] ? plan->dims[label] : 1;
  seen[label] = true;
  if (have == 1 || have == dim) {
    plan->dims[label] = dim;
  } else if (have < 0 && dim < 0) {
    plan->dims[label] = infer != NULL ? intact__infer_unknown_dim(infer) : -1;
  } else if (have < 0 && dim != 1) {
    plan->dims[label] = dim;
  } else if (have >= 0 && dim >= 0 && dim != 1) {
    return false;
  }
  return true;
}

static intact_status einsum_infer(intact_infer *infer) {
  const intact_node *node = infer->node;
  const einsum_source from = {infer->context, node, intact__attr_string(node, "equation")};
  einsum_plan plan;
  int ranks[MOST_OPERANDS] = {0};
  bool seen[LABELS] = {false};
  int64_t dims[INTACT_MAX_RANK];
  intact_dtype dtype = node->n_operands > 0 ? node->operands[0]->dtype : INTACT_F32;
  for (int i = 0; i < node->n_operands && i < MOST_OPERANDS; i++) {
    const intact_value *x = node->operands[i];
    if (!intact_dtype_is_float(x->dtype) || x->dtype != dtype) {
      INTACT_FAIL(infer->context, TYPE_MISMATCH, node->name, "einsum '%s': operand %d is %s; all must be of one float type",
                  node->name, i, intact_dtype_text(x->dtype));
    }
    if (x->rank < 0) return intact__infer_unranked(infer, dtype);
    ranks[i] = x->rank;
  }
  INTACT_TRY(parse(&from, node->n_operands, ranks, &plan));
  for (int i = 0; i < plan.n; i++) {
    for (int k = 0; k < plan.rank[i]; k++) {
      if (join_label(infer, &plan, seen, plan.labels[i][k], node->operands[i]->dims[k])) continue;
      return refuse(&from, "one letter stands for axes of different lengths");
    }
  }
  for (int k = 0; k < plan.result_rank; k++) dims[k] = plan.dims[plan.result[k]];
  return intact__infer_result(infer, 0, dtype, plan.result_rank, dims);
}

/* ---- loops: all labels in one walk, the summed ones last, so that a row sums into one element ---- */

typedef struct einsum_views {
  intact_view of[MOST_OPERANDS + 1]; /* operands, then the result; the same axes in all */
  int64_t count;
} einsum_views;

static intact_status open_views(const einsum_source *from, int n, const intact_tensor *const *x, einsum_plan *plan,
                                einsum_views *views) {
  int ranks[MOST_OPERANDS] = {0}, order[LABELS], n_order = 0;
  bool seen[LABELS] = {false}, placed[LABELS] = {false};
  int64_t dims[INTACT_MAX_RANK];
  for (int i = 0; i < n && i < MOST_OPERANDS; i++) ranks[i] = x[i]->rank;
  INTACT_TRY(parse(from, n, ranks, plan));
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < plan->rank[i]; k++) {
      if (!join_label(NULL, plan, seen, plan->labels[i][k], x[i]->dims[k]))
        return refuse(from, "one letter stands for axes of different lengths");
    }
  }
  for (int k = 0; k < plan->result_rank; k++) {
    dims[k] = plan->dims[plan->result[k]];
    order[n_order++] = plan->result[k];
    placed[plan->result[k]] = true;
  }
  for (int label = 0; label < LABELS; label++) {
    if (seen[label] && !placed[label]) order[n_order++] = label;
  }
  if (n_order > INTACT_VIEW_RANK) return refuse(from, "it has more than 16 letters");
  intact_view result = intact__view_dense(plan->result_rank, dims);
  *views = (einsum_views){.count = 1};
  for (int j = 0; j < n_order; j++) {
    int64_t length = plan->dims[order[j]];
    if (length != 0 && views->count > INT64_MAX / length) return refuse(from, "it has too many products");
    views->count *= length;
    for (int i = 0; i < n; i++) {
      intact_view dense = intact__view_of(x[i]);
      int64_t stride = 0;
      for (int k = 0; k < plan->rank[i]; k++)
        stride += plan->labels[i][k] == order[j] && dense.dims[k] != 1 ? dense.strides[k] : 0;
      intact__view_add_axis(&views->of[i], length, stride);
    }
    intact__view_add_axis(&views->of[n], length, j < plan->result_rank ? result.strides[j] : 0);
  }
  return INTACT_OK;
}

/* Offsets of all views at index; moves the index on. */
static void step_index(const einsum_views *views, int n, int64_t *index, int64_t *offset) {
  for (int k = views->of[0].rank - 1; k >= 0; k--) {
    for (int i = 0; i <= n; i++) offset[i] += views->of[i].strides[k];
    if (++index[k] < views->of[0].dims[k]) return;
    for (int i = 0; i <= n; i++) offset[i] -= index[k] * views->of[i].strides[k];
    index[k] = 0;
  }
}

static intact_status einsum_eval(const intact_call *call) {
  const einsum_source from = {call->context, call->node, intact__attr_string(call->node, "equation")};
  einsum_plan plan;
  einsum_views views;
  intact_tensor *y = NULL;
  int64_t index[INTACT_VIEW_RANK] = {0}, offset[MOST_OPERANDS + 1] = {0}, dims[INTACT_MAX_RANK];
  int n = call->n_operands;
  INTACT_TRY(open_views(&from, n, call->operands, &plan, &views));
  for (int k = 0; k < plan.result_rank; k++) dims[k] = plan.dims[plan.result[k]];
  INTACT_TRY(intact__call_result(call, 0, call->operands[0]->dtype, plan.result_rank, dims, &y));
  double *sum = intact__alloc_zeroed(call->context, (size_t)y->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(call->context, (size_t)y->count * sizeof *sum);
  for (int64_t at = 0; at < views.count; at++) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= intact__tensor_get_f64(call->operands[i], offset[i]);
    sum[offset[n]] += product;
    step_index(&views, n, index, offset);
  }
  for (int64_t i = 0; i < y->count; i++) intact__tensor_set_f64(y, i, sum[i]);
  intact__free(call->context, sum);
  return INTACT_OK;
}

/* d_operand = the same sum with dy in the operand's place. */
static intact_status grad_of_operand(intact_grad *grad, int which, const einsum_views *views) {
  int n = grad->n_operands;
  int64_t index[INTACT_VIEW_RANK] = {0}, offset[MOST_OPERANDS + 1] = {0};
  intact_tensor *dx = NULL;
  INTACT_TRY(intact__grad_operand(grad, which, &dx));
  double *sum = intact__alloc_zeroed(grad->context, (size_t)dx->count + 1, sizeof *sum);
  if (sum == NULL) return intact__no_memory(grad->context, (size_t)dx->count * sizeof *sum);
  for (int64_t at = 0; at < views->count; at++) {
    double product = (double)intact__f32(grad->d_results[0])[offset[n]];
    for (int i = 0; i < n; i++) product *= i == which ? 1 : intact__tensor_get_f64(grad->operands[i], offset[i]);
    sum[offset[which]] += product;
    step_index(views, n, index, offset);
  }
  for (int64_t i = 0; i < dx->count; i++) intact__f32(dx)[i] = (float)sum[i];
  intact__free(grad->context, sum);
  return INTACT_OK;
}

static intact_status einsum_grad(intact_grad *grad) {
  const einsum_source from = {grad->context, grad->node, intact__attr_string(grad->node, "equation")};
  einsum_plan plan;
  einsum_views views;
  if (grad->d_results[0] == NULL) return INTACT_OK;
  INTACT_TRY(open_views(&from, grad->n_operands, grad->operands, &plan, &views));
  for (int i = 0; i < grad->n_operands; i++) {
    if (grad->needed[i]) INTACT_TRY(grad_of_operand(grad, i, &views));
  }
  return INTACT_OK;
}

const intact_op intact_op_einsum = {
    .name = "einsum",
    .doc = "y = sum of products of the operands' elements, axes named by the letters of the equation (\"bij,bjk->bik\").",
    .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, INTACT_VARIADIC}), INTACT_RESULTS("y"),
               INTACT_ATTRS({.name = "equation", .type = INTACT_ATTR_STRING, .s = "", .required = true})},
    .infer = einsum_infer,
    .eval_f32 = einsum_eval,
    .grad = einsum_grad,
    .int_layout = INTACT_INT_ROWS,
    .aliases = INTACT_ALIASES(INTACT_ATEN_AS("einsum", "equation=equation,path=", NULL),
                              INTACT_ONNX_AS("Einsum", "equation=equation", NULL),
                              INTACT_OPENVINO_AS("Einsum", "equation=equation", NULL)),
};
