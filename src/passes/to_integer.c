/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize -> op [-> clamp] -> quantize becomes one node on integers, where the op has a kernel for it. */
#include <math.h>
#include <string.h>

#include "graph/pass.h"
#include "kernels/affine/affine.h"
#include "ops/ops.h"

/* What one node becomes, before it is tried. */
typedef struct attempt {
  intact_node *node;
  intact_node *clamp;    /* fused into the range; NULL: none */
  intact_value **before; /* operands as they were */
} attempt;

/* The integers behind a dequantized value; NULL: it is float. */
static intact_value *integers_of(const intact_value *value) {
  return value && intact__is_op(value->producer, "dequantize") ? value->producer->operands[0] : NULL;
}

static bool is_plain_float(const intact_value *value) { return value && value->dtype == INTACT_F32 && !value->qparams; }

static bool carries_data(const intact_node *node, int operand) {
  intact_role role = intact__operand_spec(node->op, operand)->role;
  return role == INTACT_ROLE_ACTIVATION || role == INTACT_ROLE_WEIGHT;
}

static bool moves_data(const intact_node *node) {
  return node->op->quant.result == INTACT_RESULT_SAME_AS && !node->op->quant.is_clamp;
}

/* The only reader of a float result: quantize, or a clamp that the op lets into its range and then quantize. */
static intact_node *quantizer_of(const intact_node *node, int result, intact_node **clamp) {
  *clamp = NULL;
  intact_node *reader = intact__value_single_user(node->results[result]);
  if (reader && reader->op->quant.is_clamp && node->op->quant.may_fuse_clamp && node->n_results == 1 &&
      reader->operands[0] == node->results[0]) {
    *clamp = reader;
    reader = intact__value_single_user(reader->results[0]);
  }
  return intact__is_op(reader, "quantize") ? reader : NULL;
}

static bool divides(const intact_node *quantize) { return strcmp(intact__attr_string(quantize, "rule"), "divide") == 0; }

static bool is_read(const intact_value *value) { return value->n_uses > 0 || value->is_output; }

/* A number that data movement fills in is one of the grid, or becomes one at once: all that read the result quantize it to the
   same grid, whatever their rule. */
static bool fill_fits(const intact_node *node) {
  double value;
  const intact_value *x = integers_of(node->operands[node->op->quant.same_as]);
  if (!moves_data(node) || !x || !node->op->quant.fill_value || !node->op->quant.fill_value(node, &value)) return true;
  const intact_qparams *q = x->qparams;
  if (q->n != 1 || isnan(value)) return false;
  intact_affine affine = intact__affine(q->scale[0], q->zero_point[0], q->quant_min, q->quant_max);
  int64_t code = intact__quantize_one((float)value, &affine);
  float back = intact__dequantize_one(code, q->scale[0], q->zero_point[0]);
  if (back >= (float)value && back <= (float)value) return true;
  affine.divide = true;
  if (node->results[0]->is_output || intact__quantize_one((float)value, &affine) != code) return false;
  for (const intact_use *use = node->results[0]->uses; use; use = use->next)
    if (!intact__is_op(use->node, "quantize") || !intact__qparams_equal(use->node->results[0]->qparams, q)) return false;
  return true;
}

/* Why the node can't be tried at all; NULL: it can. */
static const char *refusal(const intact_node *node) {
  intact_arena *arena = &node->graph->arena;
  if (node->n_bodies > 0) return "runs other graphs";
  if (!node->op->lower_int && !node->op->on_integers) return intact__arena_format(arena, "no integer kernel for %s", node->op->name);
  bool any = false;
  for (int i = 0; i < node->n_operands; i++) {
    if (!carries_data(node, i) || !is_plain_float(node->operands[i])) continue;
    if (!integers_of(node->operands[i])) return intact__arena_format(arena, "operand %s is float", intact__operand_spec(node->op, i)->name);
    any = true;
  }
  if (!any) return "no quantized operand";
  if (!fill_fits(node)) return "the number that it fills in is none of its operand's grid";
  if (moves_data(node)) return NULL;
  const intact_node *before = NULL;
  for (int r = 0; r < node->n_results; r++) {
    intact_node *clamp;
    if (!is_read(node->results[r]) || !is_plain_float(node->results[r])) continue;
    const intact_node *quantize = quantizer_of(node, r, &clamp);
    if (!quantize) return "the result is read as float";
    if (before && divides(before) != divides(quantize)) return "its results are quantized by different rules";
    before = quantize;
  }
  return NULL;
}

/* ---- bias ---- */

/* Scales x_scale * w_scale for a bias with as many elements as the weights have channels. */
static const intact_qparams *bias_qparams(const intact_node *node, const intact_tensor *bias) {
  const intact_quant_traits *traits = &node->op->quant;
  const intact_value *x = node->operands[traits->bias_of[0]], *w = node->operands[traits->bias_of[1]];
  if (!x || !w || !x->qparams || !w->qparams || x->qparams->n != 1) return NULL;
  int64_t n = w->qparams->n;
  int axis = -1;
  for (int i = 0; n > 1 && i < bias->rank; i++)
    if (bias->dims[i] == n) axis = i;
  if (n > 1 && (axis < 0 || bias->count != n)) return NULL;
  intact_arena *arena = &node->graph->arena;
  float *scale = intact__arena_alloc(arena, (size_t)n, sizeof *scale);
  int32_t *zero = intact__arena_alloc(arena, (size_t)n, sizeof *zero);
  if (!scale || !zero) return NULL;
  for (int64_t c = 0; c < n; c++) scale[c] = x->qparams->scale[0] * w->qparams->scale[c];
  return intact__qparams_create(arena, axis < 0 ? INTACT_PER_TENSOR_SYMMETRIC : INTACT_PER_CHANNEL_SYMMETRIC, INTACT_S32,
                                INT32_MIN, INT32_MAX, axis, n, scale, zero);
}

static bool same_scales(const intact_qparams *a, const intact_qparams *b) {
  if (a->n != b->n || a->dtype != b->dtype || memcmp(a->scale, b->scale, (size_t)a->n * sizeof *a->scale) != 0) return false;
  for (int64_t c = 0; c < a->n; c++)
    if (a->zero_point[c] != 0) return false;
  return true;
}

/* A bias that is float, or on another scale, is put on x_scale * w_scale; *why says when it does not fit s32. */
static intact_status set_bias(intact_node *node, int operand, const char **why) {
  intact_graph *graph = node->graph;
  intact_value *stored = integers_of(node->operands[operand]);
  const intact_tensor *constant = stored ? stored->constant : node->operands[operand]->constant;
  if (!constant) {
    *why = "the bias is not a constant";
    return INTACT_OK;
  }
  const intact_qparams *wanted = bias_qparams(node, constant);
  if (!wanted) {
    *why = "the bias does not fit the channels of the weights";
    return INTACT_OK;
  }
  if (stored && same_scales(stored->qparams, wanted)) {
    intact__node_set_operand(node, operand, stored);
    return INTACT_OK;
  }
  intact_tensor *real = NULL, *codes = NULL;
  if (stored)
    INTACT_TRY(intact__dequantize_tensor(constant, stored->qparams, &real));
  else
    INTACT_TRY(intact_tensor_cast(constant, INTACT_F32, &real));
  intact_status status = intact__tensor_create_raw(graph->context, INTACT_S32, real->rank, real->dims, &codes);
  for (int64_t i = 0; status == INTACT_OK && i < real->count; i++) {
    float scale = wanted->scale[wanted->n > 1 ? i : 0];
    double code = (double)intact__f32(real)[i] / (double)scale;
    if (!(code > -2147483648.5 && code < 2147483647.5)) *why = "the bias overflows int32 at scale x_scale * w_scale";
    ((int32_t *)codes->data)[i] = intact__quantize_bias(intact__f32(real)[i], scale);
  }
  intact_tensor_destroy(real);
  if (status != INTACT_OK || *why) {
    intact_tensor_destroy(codes);
    return status;
  }
  const char *name = intact__graph_fresh_name(graph, stored ? stored->name : node->operands[operand]->name);
  if (!name) {
    intact_tensor_destroy(codes);
    return intact__no_memory(graph->context, 0);
  }
  intact_value *value = NULL;
  INTACT_TRY(intact__graph_add_constant(graph, name, codes, wanted, &value));
  intact__node_set_operand(node, operand, value);
  return INTACT_OK;
}

static intact_status set_operands(const attempt *a, const char **why) {
  intact_node *node = a->node;
  for (int i = 0; i < node->n_operands; i++) {
    intact_value *integers = carries_data(node, i) ? integers_of(node->operands[i]) : NULL;
    if (integers) intact__node_set_operand(node, i, integers);
  }
  for (int i = 0; i < node->n_operands && !*why; i++)
    if (node->operands[i] && intact__operand_spec(node->op, i)->role == INTACT_ROLE_BIAS && node->operands[i]->dtype == INTACT_F32)
      INTACT_TRY(set_bias(node, i, why));
  return INTACT_OK;
}

/* ---- results ---- */

/* quantize(clamp(x, low, high)) = clamp(quantize(x), quantize(low), quantize(high)): rounding is monotone. */
static void narrow(intact_qparams *qparams, const intact_node *clamp, bool divides) {
  double low, high;
  clamp->op->quant.clamp_range(clamp, &low, &high);
  if (!(low <= high)) low = high;
  intact_affine affine = intact__affine(qparams->scale[0], qparams->zero_point[0], qparams->quant_min, qparams->quant_max);
  affine.divide = divides;
  int64_t bottom = intact__quantize_one((float)low, &affine), top = intact__quantize_one((float)high, &affine);
  qparams->quant_min = bottom;
  qparams->quant_max = top;
}

static intact_status set_results(const attempt *a) {
  intact_node *node = a->node;
  for (int r = 0; r < node->n_results; r++) {
    intact_value *result = node->results[r];
    if (!is_plain_float(result)) continue;
    intact_node *clamp, *quantize = quantizer_of(node, r, &clamp);
    const intact_qparams *qparams = quantize ? quantize->results[0]->qparams : NULL;
    if (moves_data(node) || !qparams) qparams = node->operands[node->op->quant.same_as]->qparams;
    intact_qparams *own = intact__qparams_copy(&node->graph->arena, qparams);
    if (!own) return intact__no_memory(node->graph->context, sizeof *own);
    if (quantize && !moves_data(node) && divides(quantize)) node->divides = true;
    if (clamp && !moves_data(node)) narrow(own, clamp, node->divides);
    INTACT_TRY(intact__value_set_qparams(node->graph, result, own));
  }
  return INTACT_OK;
}

/* The readers of a result go to the integers: quantize falls away, or reads what dequantize makes of them. */
static intact_status redirect_readers(const attempt *a, int r) {
  intact_node *node = a->node;
  intact_value *result = node->results[r];
  if (!is_read(result) || !result->qparams) return INTACT_OK;
  if (!moves_data(node)) {
    intact_node *reader = result->uses->node, *quantize = reader;
    if (a->clamp) {
      quantize = a->clamp->results[0]->uses->node;
      INTACT_TRY(intact__node_add_source(node, a->clamp->source));
    }
    intact__value_replace_uses(quantize->results[0], result);
    intact__node_remove(quantize);
    if (a->clamp) intact__node_remove(a->clamp);
    return INTACT_OK;
  }
  intact_node *dequantize = NULL;
  INTACT_TRY(intact__graph_add_node(node->graph, intact__find_op("dequantize"), NULL, 1, &result, 1, NULL, node->next,
                                    &dequantize));
  INTACT_TRY(intact__node_infer(dequantize));
  intact__value_replace_uses(result, dequantize->results[0]);
  intact__node_set_operand(dequantize, 0, result);
  return INTACT_OK;
}

static void take_back(const attempt *a) {
  a->node->divides = false;
  for (int i = 0; i < a->node->n_operands; i++) intact__node_set_operand(a->node, i, a->before[i]);
  for (int r = 0; r < a->node->n_results; r++) {
    intact_value *result = a->node->results[r];
    if (!result->qparams) continue;
    result->qparams = NULL;
    result->dtype = INTACT_F32;
  }
}

/* Data movement keeps integers as they are: all its data must lie on one grid. */
static bool on_one_grid(const intact_node *node) {
  const intact_qparams *first = NULL;
  for (int i = 0; i < node->n_operands; i++) {
    if (!carries_data(node, i) || !node->operands[i] || !node->operands[i]->qparams) continue;
    const intact_qparams *other = node->operands[i]->qparams;
    if (!first) first = other;
    if (other->n != 1 || other->dtype != first->dtype || other->zero_point[0] != first->zero_point[0] ||
        memcmp(other->scale, first->scale, sizeof *other->scale) != 0)
      return false;
  }
  return true;
}

static intact_status try_node(intact_node *node, const char **why, int64_t *changed) {
  *why = refusal(node);
  if (*why) return INTACT_OK;
  attempt a = {.node = node};
  quantizer_of(node, 0, &a.clamp);
  if (moves_data(node)) a.clamp = NULL;
  size_t n = (size_t)node->n_operands;
  a.before = intact__alloc(node->graph->context, n ? n : 1, sizeof *a.before);
  if (!a.before) return intact__no_memory(node->graph->context, n * sizeof *a.before);
  memcpy(a.before, node->operands, n * sizeof *a.before);
  intact_status status = set_operands(&a, why);
  if (status == INTACT_OK && !*why && moves_data(node) && !on_one_grid(node)) *why = "its operands have different qparams";
  if (status == INTACT_OK && !*why) status = set_results(&a);
  if (status == INTACT_OK && !*why && node->op->check_int) *why = node->op->check_int(node);
  if (status == INTACT_OK && *why) take_back(&a);
  for (int r = 0; status == INTACT_OK && !*why && r < node->n_results; r++) status = redirect_readers(&a, r);
  if (status == INTACT_OK && !*why) {
    ++*changed;
    status = intact__node_infer(node);
  }
  intact__free(node->graph->context, a.before);
  return status;
}

static bool is_border(const intact_node *node) {
  return intact__is_op(node, "quantize") || intact__is_op(node, "dequantize") || intact__is_op(node, "requantize") ||
         intact__is_op(node, "observe");
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (is_border(node) || node->op->quant.result == INTACT_RESULT_NONE) continue;
    if (!is_plain_float(node->results[0])) continue;
    const char *why = NULL;
    INTACT_TRY(try_node(node, &why, changed));
    node->why_float = why;
    next = node->next; /* a clamp or quantize that the node swallowed may have been the next one */
  }
  return INTACT_OK;
}

const intact_pass intact_pass_to_integer = {
    .name = "to_integer",
    .doc = "Turns dequantize -> op -> clamp -> quantize into one integer node, and moves dequantize below data movement",
    .precondition = "every data operand is dequantized, the result is read by one quantize (after at most one clamp that the op "
                    "lets in), the bias fits s32, and the op's kernel takes these types and settings",
    .needs = INTACT_STAGE_QDQ,
    .gives = INTACT_STAGE_INTEGER,
    .numerics = "kernels that accumulate integers may round one step differently from float arithmetic at ties; else exact",
    .run = run,
};
