/* SPDX-License-Identifier: Apache-2.0 */
/* The IR: values, nodes, graphs. Everything of a graph lives in its arena; constants are counted tensors. */
#ifndef INTACT_GRAPH_GRAPH_H
#define INTACT_GRAPH_GRAPH_H

#include "base/text.h"
#include "graph/op.h"
#include "intact/graph.h"
#include "tensor/tensor.h"

/* A value: an input, a constant, or a result of a node. Its type is dtype + dims + qparams (a quantized value says what its
   integers mean). */
struct intact_value {
  const char *name; /* unique in the graph, never NULL */
  intact_dtype dtype;
  int rank;                      /* -1: unknown */
  int64_t dims[INTACT_MAX_RANK]; /* < 0: symbol */
  const intact_qparams *qparams; /* NULL: plain */
  intact_tensor *constant;       /* not NULL: a constant, and then producer is NULL */
  const int64_t *elements;       /* what is known of a small integer value's content (see op.h), NULL: nothing */
  int n_elements;
  intact_node *producer;         /* NULL: input or constant */
  int result;                    /* index among the producer's results */
  intact_use *uses, *last_use;   /* who reads it, in the order they came; graph outputs do not count here */
  int n_uses;                    /* length of uses */
  bool is_input, is_output;
  int32_t id; /* index in graph->values */
  intact_graph *graph;
};

struct intact_use {
  intact_node *node;
  int operand;
  intact_use *prev, *next;
};

/* One attribute's content; which member is valid follows from the schema's type. Aligned with op->schema.attrs. */
typedef struct intact_attr {
  bool present; /* false: the default of the schema holds (already filled in) */
  int64_t i;    /* int, bool, dtype */
  double f;
  const char *s;
  int n; /* ints, floats, strings */
  const int64_t *ints;
  const double *floats;
  const char *const *strings;
  intact_tensor *tensor; /* owned by the graph */
} intact_attr;

struct intact_node {
  const intact_op *op;
  const char *name;   /* unique in the graph */
  const char *source; /* names of the nodes of the imported model that this one stands for, "a+b"; survives every rewrite */
  const char *module_path, *module_type; /* "" unless the importer knows */
  int n_operands, n_results, n_bodies;
  intact_value **operands; /* NULL: optional operand left out */
  intact_value **results;
  intact_use *uses;   /* n_operands: the entries of the operands' use lists */
  intact_attr *attrs; /* op->schema.n_attrs */
  intact_graph **bodies;
  struct intact_observation *observation; /* observe, fake_quantize: counted, shared by the nodes of one group (observer.h) */
  struct intact_annotation *annotation;   /* how a quantizer wants this node (quantizer.h), in the arena; NULL: no wish */
  bool divides; /* of the integer stage: results are quantized by rule "divide" (x / scale), else by "reciprocal" */
  const char *why_float;   /* set by to_integer: why this node stays float; NULL if it does not */
  intact_node *prev, *next;
  intact_graph *graph;
};

struct intact_graph {
  intact_context *context;
  intact_arena arena;
  intact_stage stage;
  const char *name;
  intact_node *first, *last; /* topological order */
  int64_t n_nodes;
  intact_value **values; /* all values by id; removed ones are NULL */
  size_t n_values, values_capacity;
  intact_value **inputs, **outputs;
  int n_inputs, n_outputs;
  const char **symbols; /* symbol k is dim -1-k; a body uses those of the outermost graph */
  int n_symbols, symbols_capacity;
  const char *requantize; /* name of the requantize rule, "f32_rne" unless the model says otherwise */
  const char **meta;      /* n_meta pairs key, value kept from the file */
  int n_meta;
  intact_graph *parent; /* of a body */
  intact_map value_names, node_names, symbol_names; /* names in use; a value and a node may share one */
};

/* ---- build (graph/builder.c) ---- */
intact_status intact__graph_create(intact_context *context, const char *name, intact_graph **graph);
/* A name not in use yet: `base` itself, else base_1, base_2 ... (checked against all value and node names). NULL: no memory. */
const char *intact__graph_fresh_name(intact_graph *graph, const char *base);
intact_value *intact__graph_find_value(const intact_graph *graph, const char *name); /* NULL: there is none */
intact_node *intact__graph_find_node(const intact_graph *graph, const char *name);
/* Refuses a name that is no UTF-8 (invalid-value); `kind` says what it names. */
intact_status intact__check_name(intact_context *context, const char *kind, const char *name);
int64_t intact__graph_symbol(intact_graph *graph, const char *name); /* finds or adds; NULL name: a new unnamed one */
intact_status intact__graph_add_input(intact_graph *graph, const char *name, intact_dtype dtype, int rank,
                                      const int64_t *dims, intact_value **value);
/* Takes the tensor over, also on failure. qparams (may be NULL) is copied into the graph. */
intact_status intact__graph_add_constant(intact_graph *graph, const char *name, intact_tensor *tensor,
                                         const intact_qparams *qparams, intact_value **value);
intact_status intact__graph_set_outputs(intact_graph *graph, int n, intact_value *const *values);
/* Adds a node before `before` (NULL: at the end). Checks arity; attributes get their defaults; n_results values with fresh
   names (result_names may be NULL) and unknown type are made; call intact__node_infer when attributes are set. */
intact_status intact__graph_add_node(intact_graph *graph, const intact_op *op, const char *name, int n_operands,
                                     intact_value *const *operands, int n_results, const char *const *result_names,
                                     intact_node *before, intact_node **node);
/* A new empty body of the node; it sees its own inputs only, outer values come in as further operands of the node. */
intact_status intact__node_add_body(intact_node *node, const char *name, intact_graph **body);
/* Fills dtype, rank, dims of the results by op->infer (and, for quantize/dequantize and integer nodes, checks qparams). */
intact_status intact__node_infer(intact_node *node);
/* Infers the whole graph anew, in order, descending into bodies. */
intact_status intact__graph_infer(intact_graph *graph);
/* The tensors fit the graph's inputs: type, rank, known dims, one number per symbol. The refusal names the input. */
intact_status intact__graph_check_inputs(const intact_graph *graph, const intact_tensor *const *inputs);
/* A copy in a context with the same allocator: two threads may then work on the two. Constants share their elements. */
intact_status intact__graph_copy_to(const intact_graph *graph, intact_context *context, intact_graph **copy);
/* Copy with the shapes of `inputs`, all shapes inferred anew: what planning starts from. */
intact_status intact__graph_with_shapes(const intact_graph *graph, const intact_tensor *const *inputs, intact_graph **copy);

/* Keeps a pair of the file's metadata. */
intact_status intact__graph_add_meta(intact_graph *graph, const char *key, const char *value);

/* ---- attributes (graph/attr.c): by name; the name must be of the schema (assert) ---- */
int64_t intact__attr_int(const intact_node *node, const char *name);
double intact__attr_float(const intact_node *node, const char *name);
const char *intact__attr_string(const intact_node *node, const char *name);
const intact_attr *intact__attr(const intact_node *node, const char *name);
void intact__attr_set_int(intact_node *node, const char *name, int64_t value);
void intact__attr_set_float(intact_node *node, const char *name, double value);
intact_status intact__attr_set_string(intact_node *node, const char *name, const char *value);
intact_status intact__attr_set_ints(intact_node *node, const char *name, int n, const int64_t *values);
intact_status intact__attr_set_floats(intact_node *node, const char *name, int n, const double *values);
intact_status intact__attr_set_strings(intact_node *node, const char *name, int n, const char *const *values);
intact_status intact__attr_set_tensor(intact_node *node, const char *name, intact_tensor *tensor); /* takes it over */

/* ---- rewrite (graph/rewrite.c): keep uses, order and names right ---- */
void intact__node_set_operand(intact_node *node, int operand, intact_value *value);
/* Room for optional operands that were left out at the end: n_operands becomes at least n, new ones are NULL. */
intact_status intact__node_extend(intact_node *node, int n);
/* Also as graph output: then `by`, when it is a node's result and no output yet, takes over the name (they are swapped). */
void intact__value_replace_uses(intact_value *value, intact_value *by);
/* Room for results that the node was made without (schemas with a free number of them); infer the node after. */
intact_status intact__node_extend_results(intact_node *node, int n);
/* Drops results from the end, down to n, as far as nobody reads them. */
void intact__node_drop_results(intact_node *node, int n);
void intact__value_swap_names(intact_value *a, intact_value *b);
void intact__node_remove(intact_node *node); /* results must have no uses and be no outputs */
void intact__node_move_before(intact_node *node, intact_node *before);
/* Adds "+b" to the source of a. */
intact_status intact__node_add_source(intact_node *node, const char *source);
intact_status intact__value_set_qparams(intact_graph *graph, intact_value *value, const intact_qparams *qparams);
/* Removes nodes without effect and unused constants. */
void intact__graph_remove_dead(intact_graph *graph);

/* ---- match (graph/match.c) ---- */
/* The only reader of value, if exactly one node reads it once and it is no graph output; else NULL. */
intact_node *intact__value_single_user(const intact_value *value);
bool intact__is_op(const intact_node *node, const char *op_name); /* NULL node: false */
/* Matches a chain that starts at `first`: "conv2d|linear(?, !) -> batch_norm? -> relu". Each link is one op name or several with
   |, optionally operand marks in order (? anything, ! a constant, q a value with qparams, _ left out; operands without a mark
   are free), and a ? at the end of a link that may be missing. The next link reads result 0 of the one before as operand 0 and
   is its only reader. nodes[i] is the node of link i, NULL for a missing one. Returns the number of links, 0: no match. */
int intact__match(intact_node *first, const char *pattern, intact_node **nodes, int capacity);

/* ---- interp (graph/interp.c) ---- */
/* Called for each value as it is computed, in order: what observers and the numeric suite hang on. */
typedef intact_status (*intact_tap_fn)(void *user, const intact_value *value, const intact_tensor *tensor);
typedef struct intact_interp_options {
  bool fast;          /* eval_fast rows where there are any */
  intact_tap_fn tap;  /* NULL: none */
  void *tap_user;
  bool observe;       /* nodes with an observer update its state with operand 0 before they are evaluated */
  /* Runs the bodies of nodes; NULL: by interpretation with these options. */
  intact_status (*run_body)(void *user, const intact_graph *body, const intact_tensor *const *inputs, intact_tensor **outputs);
  void *run_body_user;
} intact_interp_options;
intact_status intact__interpret(const intact_graph *graph, const intact_tensor *const *inputs,
                                const intact_interp_options *options, intact_tensor **outputs);
/* The op's eval gets the stored integers of quantized operands: an on_integers row whose qparams agree (see op.h). */
bool intact__node_on_integers(const intact_node *node);
/* One node on given operands (NULL for those left out); a quantized operand is dequantized before eval, a quantized result
   quantized after, unless the op is declared to work on integers (op->on_integers). results[] become owned by the caller. */
intact_status intact__eval_node(const intact_node *node, const intact_tensor *const *operands, bool fast,
                                intact_tensor **results);
/* The same by options (fast, run_body; taps are the caller's business). */
intact_status intact__eval_node_with(const intact_node *node, const intact_tensor *const *operands,
                                     const intact_interp_options *options, intact_tensor **results);

#endif
