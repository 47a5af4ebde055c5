/* SPDX-License-Identifier: Apache-2.0 */
/* A product with constant weights and the bias added to it become one linear node. */
#include "graph/pass.h"
#include "ops/ops.h"

typedef struct place {
  intact_node *product, *add;
  intact_value *weight, *bias; /* [in, out] and [.., out] */
} place;

/* The constant behind a value, dequantize looked through; NULL: none. */
static const intact_tensor *constant_of(const intact_value *value) {
  if (value && intact__is_op(value->producer, "dequantize")) value = value->producer->operands[0];
  return value ? value->constant : NULL;
}

/* Weights [in, out] that are quantized, if they are, as a whole or per output. */
static bool is_weight(const intact_value *value) {
  const intact_tensor *tensor = constant_of(value);
  if (!tensor || tensor->rank != 2 || value->dtype != INTACT_F32) return false;
  if (value->constant) return true;
  const intact_qparams *q = value->producer->operands[0]->qparams;
  return q->n == 1 || (q->axis == 1 && q->group <= 0);
}

/* One number per output, [out] or [1, .., 1, out]. */
static bool is_bias(const intact_value *value, int64_t outputs, int rank) {
  const intact_tensor *tensor = constant_of(value);
  return tensor && value->dtype == INTACT_F32 && tensor->rank >= 1 && tensor->rank <= rank && tensor->count == outputs &&
         tensor->dims[tensor->rank - 1] == outputs && (tensor->rank == 1 || value->constant);
}

static bool find_place(intact_node *add, place *found) {
  const double one = 1.0;
  if (!intact__is_op(add, "add") || add->annotation) return false;
  const double alpha = intact__attr_float(add, "alpha");
  if (alpha < one || alpha > one) return false;
  for (int i = 0; i < 2; i++) {
    const intact_value *sum = add->operands[i];
    intact_node *product = sum->producer;
    if (!intact__is_op(product, "matmul") || product->annotation || intact__value_single_user(sum) != add) continue;
    intact_value *weight = product->operands[1], *bias = add->operands[1 - i];
    if (product->operands[0]->dtype != INTACT_F32 || product->operands[0]->rank < 1 || !is_weight(weight)) continue;
    if (!is_bias(bias, constant_of(weight)->dims[1], sum->rank)) continue;
    *found = (place){product, add, weight, bias};
    return true;
  }
  return false;
}

static intact_status add_movement(intact_node *before, const char *op, const char *attribute, intact_value *value, int n,
                                  const int64_t *ints, intact_value **moved) {
  intact_node *made;
  INTACT_TRY(intact__graph_add_node(before->graph, intact__find_op(op), NULL, 1, &value, 1, NULL, before, &made));
  INTACT_TRY(intact__attr_set_ints(made, attribute, n, ints));
  INTACT_TRY(intact__node_infer(made));
  *moved = made->results[0];
  return INTACT_OK;
}

static intact_status fuse(place *p) {
  static const int64_t turned[] = {1, 0};
  intact_graph *graph = p->add->graph;
  const int64_t outputs = constant_of(p->weight)->dims[1];
  intact_value *operands[3] = {p->product->operands[0]};
  INTACT_TRY(add_movement(p->add, "permute", "dims", p->weight, 2, turned, &operands[1]));
  operands[2] = p->bias;
  if (p->bias->rank > 1) INTACT_TRY(add_movement(p->add, "reshape", "shape", p->bias, 1, &outputs, &operands[2]));
  intact_node *linear;
  INTACT_TRY(intact__graph_add_node(graph, intact__find_op("linear"), NULL, 3, operands, 1, NULL, p->add, &linear));
  linear->name = p->product->name; /* which goes */
  linear->source = p->product->source;
  linear->module_path = p->product->module_path;
  linear->module_type = p->product->module_type;
  INTACT_TRY(intact__node_add_source(linear, p->add->source));
  INTACT_TRY(intact__node_infer(linear));
  intact__value_replace_uses(p->add->results[0], linear->results[0]);
  intact__node_remove(p->add);
  intact__node_remove(p->product);
  return INTACT_OK;
}

static intact_status run(intact_graph *graph, int64_t *changed) {
  for (intact_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    place p;
    if (!find_place(node, &p)) continue;
    INTACT_TRY(fuse(&p));
    ++*changed;
  }
  return INTACT_OK;
}

#define PRECONDITION "the product is read by the addition only; the weights have two axes and the bias one number per output, both " \
                     "constant; addition without a factor"
#define NUMERICS "float rounding: the bias is added before the products, not after them"

const intact_pass intact_pass_fuse_matmul_bias = {
    .name = "fuse_matmul_bias",
    .doc = "Makes one linear node of a product with constant weights and the bias added to it",
    .precondition = PRECONDITION,
    .needs = INTACT_STAGE_FLOAT,
    .gives = INTACT_STAGE_FLOAT,
    .numerics = NUMERICS,
    .run = run,
};

/* A file holds a linear over more than two axes as product and addition. */
const intact_pass intact_pass_fuse_quantized_matmul_bias = {
    .name = "fuse_quantized_matmul_bias",
    .doc = "The same in a quantized network, where nothing is quantized between the two",
    .precondition = PRECONDITION "; weights quantized as a whole or per output",
    .needs = INTACT_STAGE_QDQ,
    .gives = INTACT_STAGE_QDQ,
    .numerics = NUMERICS,
    .run = run,
};
