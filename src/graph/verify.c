/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a graph and of its stage. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "graph/internal.h"

static bool is_per_tensor(intact_qscheme scheme) {
  return scheme == INTACT_PER_TENSOR_AFFINE || scheme == INTACT_PER_TENSOR_SYMMETRIC;
}

/* How many scales a value of this shape has; -1: can't be told (symbols), -2: does not fit. */
static int64_t expected_scales(const intact_qparams *q, int rank, const int64_t *dims) {
  if (is_per_tensor(q->scheme)) return 1;
  if (rank < 0) return -1;
  if (q->axis < 0 || q->axis >= rank) return -2;
  if (q->scheme != INTACT_PER_GROUP_AFFINE) return dims[q->axis] < 0 ? -1 : dims[q->axis];
  if (q->group < 1) return -2;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return -1;
    const int64_t blocks = i == q->axis ? dims[i] / q->group + (dims[i] % q->group != 0) : dims[i];
    if (__builtin_mul_overflow(n, blocks, &n)) return -2;
  }
  return n;
}

intact_status intact__check_qparams(intact_context *context, const char *where, const intact_qparams *q, int rank,
                                    const int64_t *dims) {
  if (!intact_dtype_is_integer(q->dtype))
    INTACT_FAIL(context, TYPE_MISMATCH, where, "qparams at %s have type %s: quantized values are stored in integers", where,
                intact_dtype_text(q->dtype));
  const int64_t low = intact_dtype_min(q->dtype), high = intact_dtype_max(q->dtype);
  if (q->quant_min > q->quant_max || q->quant_min < low || q->quant_max > high)
    INTACT_FAIL(context, INVALID_VALUE, where, "qparams at %s allow %lld..%lld: the range must be ordered and within %s", where,
                (long long)q->quant_min, (long long)q->quant_max, intact_dtype_text(q->dtype));
  const int64_t n = expected_scales(q, rank, dims);
  char shape[200];
  if (n == -2 || (n >= 0 && n != q->n))
    INTACT_FAIL(context, SIZE_MISMATCH, where,
                "qparams at %s (%s, axis %d, group %lld) have %lld scales, which does not fit shape %s: one per tensor, channel "
                "or block is needed",
                where, intact_qscheme_text(q->scheme), q->axis, (long long)q->group, (long long)q->n,
                intact__shape_text(rank < 0 ? 0 : rank, dims, shape));
  for (int64_t i = 0; q->real_zero_point != NULL && i < q->n; i++)
    if (!isfinite(q->real_zero_point[i]))
      INTACT_FAIL(context, INVALID_VALUE, where, "zero point %lld at %s is %g: it must be finite", (long long)i, where,
                  (double)q->real_zero_point[i]);
  for (int64_t i = 0; i < q->n; i++) {
    if (!(q->scale[i] > 0.0f) || isinf(q->scale[i]))
      INTACT_FAIL(context, INVALID_VALUE, where, "scale %lld at %s is %g: it must be finite and greater than 0", (long long)i,
                  where, (double)q->scale[i]);
    if (q->zero_point[i] < low || q->zero_point[i] > high)
      INTACT_FAIL(context, INVALID_VALUE, where, "zero point %lld at %s is %d: it must lie within [%lld, %lld] of %s",
                  (long long)i, where, q->zero_point[i], (long long)low, (long long)high, intact_dtype_text(q->dtype));
  }
  return INTACT_OK;
}

static bool is_quantize(const intact_node *node) {
  return intact__is_op(node, "quantize") || intact__is_op(node, "dequantize");
}

static intact_status check_stage(const intact_graph *graph, const intact_node *node) {
  const intact_stage stage = graph->stage;
  const char *const stage_text = intact_stage_text(stage);
  if (node->observation != NULL && stage != INTACT_STAGE_OBSERVED)
    INTACT_FAIL(graph->context, WRONG_USE, node->name, "node %s (%s) observes in a graph of stage %s: convert the graph first",
                node->name, node->op->name, stage_text);
  if (is_quantize(node) && stage < INTACT_STAGE_QDQ)
    INTACT_FAIL(graph->context, WRONG_USE, node->name, "node %s (%s) is in a graph of stage %s: it belongs to stage qdq or later",
                node->name, node->op->name, stage_text);
  for (int i = 0; i < node->n_results; i++) {
    if (node->results[i]->qparams == NULL) continue;
    if (stage < INTACT_STAGE_QDQ)
      INTACT_FAIL(graph->context, WRONG_USE, node->name, "value %s carries qparams in a graph of stage %s", node->results[i]->name,
                  stage_text);
    if (stage == INTACT_STAGE_QDQ && !node->op->on_integers)
      INTACT_FAIL(graph->context, WRONG_USE, node->name,
                  "value %s of node %s (%s) carries qparams: in stage qdq only quantize nodes and data movement make such values",
                  node->results[i]->name, node->name, node->op->name);
  }
  return INTACT_OK;
}

/* A value that a node may read at this point: an input, a constant, or a result of a node before it. */
static bool is_ready(const intact_graph *graph, const intact_value *value, const bool *computed) {
  if (value->graph != graph || graph->values[value->id] != value) return false;
  return value->is_input || value->constant != NULL || computed[value->id];
}

static intact_status check_node(const intact_graph *graph, const intact_node *node, const bool *computed) {
  intact_context *context = graph->context;
  const intact_schema *schema = &node->op->schema;
  for (int i = 0; i < node->n_operands || i < schema->n_operands; i++) {
    const intact_operand_spec *spec = intact__operand_spec(node->op, i);
    const intact_value *operand = i < node->n_operands ? node->operands[i] : NULL;
    if (operand == NULL) {
      if ((spec->flags & (INTACT_OPTIONAL | INTACT_VARIADIC)) != 0) continue;
      INTACT_FAIL(context, MISSING_FIELD, node->name, "node %s (%s) lacks operand %d, %s, which the op requires", node->name,
                  node->op->name, i, spec->name);
    }
    if (!is_ready(graph, operand, computed))
      INTACT_FAIL(context, CYCLE, node->name, "node %s (%s) reads value %s before it is computed: nodes stand in the order they run",
                  node->name, node->op->name, operand->name);
    if (node->uses[i].node != node || node->uses[i].operand != i)
      INTACT_FAIL(context, INTERNAL, node->name, "value %s does not know that node %s reads it", operand->name, node->name);
  }
  for (int i = 0; i < schema->n_attrs; i++)
    if (schema->attrs[i].required && !node->attrs[i].present)
      INTACT_FAIL(context, MISSING_FIELD, node->name, "node %s (%s) lacks attribute %s, which the op requires", node->name,
                  node->op->name, schema->attrs[i].name);
  if (node->n_results < 1 || (schema->n_results >= 0 && node->n_results > schema->n_results))
    INTACT_FAIL(context, INVALID_VALUE, node->name, "node %s (%s) has %d results: the op gives 1 to %d", node->name,
                node->op->name, node->n_results, schema->n_results);
  return check_stage(graph, node);
}

static bool uses_agree(const intact_value *value) {
  int n = 0;
  for (const intact_use *use = value->uses; use != NULL; use = use->next, n++)
    if (use->node->operands[use->operand] != value) return false;
  return n == value->n_uses;
}

static intact_status check_value(const intact_graph *graph, const intact_value *value) {
  intact_context *context = graph->context;
  if (value->rank > INTACT_MAX_RANK || (unsigned)value->dtype >= INTACT_DTYPE_COUNT)
    INTACT_FAIL(context, INTERNAL, value->name, "value %s has no valid type", value->name);
  if (value->producer == NULL && !value->is_input && value->constant == NULL)
    INTACT_FAIL(context, BAD_REFERENCE, value->name, "value %s is made by no node: it must be an input, a constant or a result",
                value->name);
  if (!uses_agree(value)) INTACT_FAIL(context, INTERNAL, value->name, "value %s does not know its readers", value->name);
  int64_t id;
  if (!intact__map_get(&graph->value_names, value->name, &id) || id != value->id)
    INTACT_FAIL(context, DUPLICATE, value->name, "value name %s is used twice", value->name);
  if (value->qparams == NULL) return INTACT_OK;
  if (value->qparams->dtype != value->dtype)
    INTACT_FAIL(context, TYPE_MISMATCH, value->name, "value %s is %s, its qparams are for %s: they must agree", value->name,
                intact_dtype_text(value->dtype), intact_dtype_text(value->qparams->dtype));
  return intact__check_qparams(context, value->name, value->qparams, value->rank, value->dims);
}

static intact_status check_graph(const intact_graph *graph, bool *computed) {
  intact_context *context = graph->context;
  intact_map names;
  intact__map_init(&names, context);
  intact_status status = INTACT_OK;
  for (size_t i = 0; i < graph->n_values; i++)
    if (graph->values[i] != NULL) INTACT_TRY_TO(done, check_value(graph, graph->values[i]));
  int64_t n = 0;
  for (const intact_node *node = graph->first; node != NULL; node = node->next, n++) {
    int64_t earlier;
    if (intact__map_get(&names, node->name, &earlier))
      INTACT_FAIL_TO(done, context, DUPLICATE, node->name, "node name %s is used twice", node->name);
    INTACT_TRY_TO(done, intact__map_set(&names, node->name, n));
    INTACT_TRY_TO(done, check_node(graph, node, computed));
    for (int i = 0; i < node->n_results; i++) computed[node->results[i]->id] = true;
    for (int i = 0; i < node->n_bodies; i++) INTACT_TRY_TO(done, intact_graph_verify(node->bodies[i]));
  }
  if (n != graph->n_nodes)
    INTACT_FAIL_TO(done, context, INTERNAL, graph->name, "graph %s counts %lld nodes, its list holds %lld", graph->name,
                   (long long)graph->n_nodes, (long long)n);
  for (int i = 0; i < graph->n_outputs; i++)
    if (!is_ready(graph, graph->outputs[i], computed) || !graph->outputs[i]->is_output)
      INTACT_FAIL_TO(done, context, BAD_REFERENCE, graph->outputs[i]->name, "output %s is computed by no node of the graph",
                     graph->outputs[i]->name);
  if (graph->n_outputs == 0)
    INTACT_FAIL_TO(done, context, MISSING_FIELD, graph->name, "graph %s has no outputs: at least one is needed", graph->name);
done:
  intact__map_fini(&names);
  return status;
}

intact_status intact_graph_verify(const intact_graph *graph) {
  bool *computed = intact__alloc_zeroed(graph->context, graph->n_values + 1, sizeof *computed);
  if (computed == NULL) return intact__no_memory(graph->context, graph->n_values + 1);
  const intact_status status = check_graph(graph, computed);
  intact__free(graph->context, computed);
  return status;
}
