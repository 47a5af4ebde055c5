/* SPDX-License-Identifier: Apache-2.0 */
/* The quantizer row, and what it writes: how each operand and result of a node is wanted. Rows live in src/quant/quantizers,
   listed in quantizers.def. */
#ifndef INTACT_GRAPH_QUANTIZER_H
#define INTACT_GRAPH_QUANTIZER_H

#include "graph/observer.h"

/* An edge: what flows into operand `slot` of node (slot >= 0), or result -1-slot of node (slot < 0). */
typedef struct intact_edge {
  intact_node *node;
  int slot;
} intact_edge;

static inline intact_edge intact__operand_edge(intact_node *node, int operand) { return (intact_edge){node, operand}; }
static inline intact_edge intact__result_edge(intact_node *node, int result) { return (intact_edge){node, -1 - result}; }
static inline intact_value *intact__edge_value(intact_edge edge) {
  return edge.slot >= 0 ? edge.node->operands[edge.slot] : edge.node->results[-1 - edge.slot];
}

typedef enum intact_wish_kind {
  INTACT_WISH_NONE,   /* nothing said: the producer decides */
  INTACT_WISH_FLOAT,  /* explicitly float */
  INTACT_WISH_OWN,    /* spec with its observer */
  INTACT_WISH_SHARED, /* the same qparams as `shared` */
  INTACT_WISH_FIXED,  /* spec's type and range, scale and zero_point given */
  INTACT_WISH_DERIVED /* spec's type and range; scale = product of the scales of `from`, zero point 0 (bias) */
} intact_wish_kind;

typedef struct intact_wish {
  intact_wish_kind kind;
  intact_quant_spec spec; /* own, fixed, derived */
  intact_edge shared;     /* shared */
  float fixed_scale;      /* fixed */
  int32_t fixed_zero_point;
  intact_edge from[2]; /* derived */
  bool passive;      /* shared: the values are among those seen at `shared` already, so they are not observed again */
  bool keep_integer; /* at the network's border: convert leaves no quantize (of an input) or dequantize (of an output) here */
} intact_wish;

/* node->annotation. An edge without a wish takes what its producer's result has; a wish on an operand edge that equals the
   wish of the producer's result or of another reader joins their group (implicit sharing) unless switched off. */
typedef struct intact_annotation {
  intact_wish *operands; /* n_operands */
  intact_wish *results;  /* n_results */
  bool no_implicit_sharing;
  const char *claimed_by; /* name of the quantizer */
} intact_annotation;

/* The annotation of a node, made (all NONE) in the graph's arena when there is none yet; NULL: no memory.
   (graph/annotation.c) */
intact_annotation *intact__node_annotate(intact_node *node, const char *claimed_by);
/* The wish that an edge stands for after following `shared`; NULL: no wish, or sharing that goes round in a circle. */
const intact_wish *intact__edge_wish(intact_edge edge);

/* What the caller wishes beyond a quantizer's own choices; see intact_quantize_options. */
typedef struct intact_quantizer_settings {
  const char *options;                    /* "name=value,..." of this quantizer; "" none */
  const intact_quant_spec *activation;    /* per tensor, with its observer */
  const intact_quant_spec *constant;      /* the same for constants read as activations: their exact range */
  const intact_quant_spec *weight;        /* per channel: the axis is still open; or per tensor */
  const intact_quant_spec *weight_tensor; /* for weights without a channel axis */
  bool io_integer;
} intact_quantizer_settings;

typedef struct intact_quantizer {
  const char *name; /* "default" */
  const char *doc;
  const char *options; /* "name=default,...": what it takes; "" none */
  /* Writes annotations on the nodes of one graph (the caller descends into bodies); leaves nodes alone that have one: first
     claim wins, and what stays float by the caller's wish was claimed before. */
  intact_status (*annotate)(intact_graph *graph, const intact_quantizer_settings *settings);
  /* Refuses graphs that the backend behind it can't take; NULL: takes all. */
  intact_status (*validate)(const intact_graph *graph, const intact_quantizer_settings *settings);
} intact_quantizer;

extern const intact_quantizer *const intact__quantizers[];
extern const int intact__n_quantizers;
const intact_quantizer *intact__find_quantizer(const char *name);

#endif
