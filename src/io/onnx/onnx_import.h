/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the ONNX importer: scopes, the node being imported, what a fix-up may use. */
#ifndef INTACT_IO_ONNX_ONNX_IMPORT_H
#define INTACT_IO_ONNX_ONNX_IMPORT_H

#include "graph/graph.h"
#include "io/onnx/onnx_file.h"

/* The opsets of ai.onnx that are read. 23 to 25 let operators take more types and bring new operators. */
enum { INTACT_ONNX_OPSET_MIN = 7, INTACT_ONNX_OPSET_MAX = 25 };

/* One import. */
typedef struct intact_onnx_import {
  intact_context *context;
  intact_onnx_file *file;
  intact_map functions; /* "domain::name" -> index in the model's functions */
  struct intact_onnx_defaults {
    size_t n;
    const Onnx__AttributeProto **attributes;
  } *defaults; /* per function: attributes that have a default */
  int64_t expanded;     /* nodes imported so far, those of inlined functions counted at each call */
} intact_onnx_import;

/* What stands behind a name: a value of the graph, or an initializer that nothing has read yet. */
typedef struct intact_onnx_binding {
  const char *name;
  intact_value *value;
  const Onnx__TensorProto *initializer;
  const Onnx__SparseTensorProto *sparse;
} intact_onnx_binding;

/* What intact_onnx_scope.reserved says of a name: what has it in the file, or was given it. */
enum { INTACT_ONNX_IS_VALUE = 1, INTACT_ONNX_IS_OUTPUT = 2, INTACT_ONNX_IS_NODE = 4 };

typedef struct intact_onnx_opsets {
  size_t n;
  Onnx__OperatorSetIdProto **imports;
} intact_onnx_opsets;

/* The names of a graph, of a body, or of one call of a function. */
typedef struct intact_onnx_scope {
  intact_onnx_import *import;
  intact_graph *graph; /* where nodes go */
  intact_map index;    /* name -> index in bindings */
  intact_onnx_binding *bindings;
  size_t n_bindings, capacity;
  struct intact_onnx_scope *outer; /* of a body: where its constants may come from; NULL elsewhere */
  intact_map reserved;             /* names that values of this scope have in the file: made-up names keep off them */
  int64_t fresh;                   /* counts made-up names */
  intact_onnx_opsets opsets;
  const char *prefix;          /* put before the names of a function's inside; "" elsewhere */
  int depth;                   /* of function calls and bodies */
  const Onnx__NodeProto *call; /* the function's caller: what attribute references mean */
  const Onnx__FunctionProto *function;
  size_t function_at; /* its index in the model */
  struct intact_onnx_scope *call_scope;
} intact_onnx_scope;

/* A node being imported. */
typedef struct intact_onnx_node {
  intact_onnx_import *import;
  intact_onnx_scope *scope;
  intact_context *context;
  intact_graph *graph;
  const Onnx__NodeProto *proto;
  const char *name; /* of the node, or of its first output: for messages and as the source */
  const char *op;   /* "Conv", "com.microsoft::QGemm" */
  int version;      /* of the op's domain */
  const intact_op *row;
  const intact_alias *alias;
  int n_inputs, n_outputs;
  intact_value **inputs;            /* NULL: left out */
  bool *taken;                      /* per attribute: somebody has looked at it */
  intact_node *made;                /* by intact__onnx_make */
  const intact_qparams *requantize; /* made's result 0 is to be quantized with these; NULL: it stays as it is */
} intact_onnx_node;

/* ---- for fix-ups ---- */
/* An input, NULL when left out or beyond the end. A constant or result that carries qparams is given as it is. */
intact_value *intact__onnx_input(const intact_onnx_node *node, int i);
/* The attribute of that name, references into a function's call followed; NULL: not there. It counts as understood. */
const Onnx__AttributeProto *intact__onnx_attribute(intact_onnx_node *node, const char *name);
/* The same by type, `absent` when not there; another type is refused (type-mismatch). */
intact_status intact__onnx_attr_int(intact_onnx_node *node, const char *name, int64_t absent, int64_t *value);
intact_status intact__onnx_attr_float(intact_onnx_node *node, const char *name, double absent, double *value);
intact_status intact__onnx_attr_string(intact_onnx_node *node, const char *name, const char *absent, const char **value);
/* *n = -1 when not there. */
intact_status intact__onnx_attr_ints(intact_onnx_node *node, const char *name, int *n, const int64_t **values);
intact_status intact__onnx_attr_floats(intact_onnx_node *node, const char *name, int *n, const float **values);
/* Marks attributes (comma-separated) as understood without looking. */
void intact__onnx_ignore(intact_onnx_node *node, const char *names);

/* The integers of a value that are known while importing: of a constant, or by shape arithmetic. *n = -1 when they are not
   all known; *values lives as long as the import. */
intact_status intact__onnx_known_ints(intact_onnx_node *node, const intact_value *value, int *n, const int64_t **values);
/* The number of a constant of one element; false when the value is NULL, no constant or longer. */
bool intact__onnx_known_float(const intact_value *value, double *number);

/* The node that stands for the ONNX node: row node->row, its results carry the names of the outputs, mapped attributes are
   set, it becomes node->made and is inferred after the fix-up. Operands are padded to the schema. */
intact_status intact__onnx_make(intact_onnx_node *node, int n_operands, intact_value *const *operands);
/* The same with another row; mapped attributes are those that the row's schema has. */
intact_status intact__onnx_make_row(intact_onnx_node *node, const intact_op *row, int n_operands,
                                    intact_value *const *operands);
/* A further node of row `op`, results named after `suffix`; the caller sets attributes and calls intact__node_infer. */
intact_status intact__onnx_add(intact_onnx_node *node, const char *op, const char *suffix, int n_operands,
                               intact_value *const *operands, intact_node **made);
/* A constant named after the node and `suffix`; takes the tensor over, also on failure. */
intact_status intact__onnx_constant(intact_onnx_node *node, const char *suffix, intact_tensor *tensor,
                                    const intact_qparams *qparams, intact_value **value);
/* The name of output `i` means `value` from here on (an output that is no result of node->made). */
intact_status intact__onnx_bind(intact_onnx_node *node, int i, intact_value *value);
/* Whether output i is asked for. */
bool intact__onnx_has_output(const intact_onnx_node *node, int i);
/* A name for a made-up value (or node) that no value (node) of the graph or the file has; it counts as taken from then on.
   NULL: no memory. */
const char *intact__onnx_fresh_name(intact_onnx_scope *scope, const char *base);
const char *intact__onnx_fresh_node_name(intact_onnx_scope *scope, const char *base);
/* Marks a name with one of the above. */
intact_status intact__onnx_reserve(intact_onnx_scope *scope, const char *name, int kind);

/* ---- rows by alias (onnx_node.c) ---- */
/* Runs the alias of node->op: fix-up or plain mapping, then inference, the quantize node of node->requantize, names. */
intact_status intact__onnx_by_alias(intact_onnx_node *node);

/* ---- attributes (onnx_attr.c) ---- */
/* Sets the attributes of `made` that the alias maps and its schema has. */
intact_status intact__onnx_map_attributes(intact_onnx_node *node, intact_node *made);
/* Refuses attributes that nobody looked at and the alias does not name. */
intact_status intact__onnx_check_attributes(intact_onnx_node *node);

/* ---- scopes (onnx_scope.c) ---- */
void intact__onnx_scope_init(intact_onnx_scope *scope, intact_onnx_import *import, intact_graph *graph);
void intact__onnx_scope_fini(intact_onnx_scope *scope);
intact_status intact__onnx_scope_add(intact_onnx_scope *scope, const intact_onnx_binding *binding);
intact_onnx_binding *intact__onnx_scope_find(const intact_onnx_scope *scope, const char *name);
/* The value behind a name, its initializer made a constant if that is what it is; `reader` is named when it is undefined. */
intact_status intact__onnx_scope_value(intact_onnx_scope *scope, const char *name, const char *reader, intact_value **value);
/* The version of a domain that the scope imports; 0: not imported. */
int intact__onnx_opset(const intact_onnx_opsets *opsets, const char *domain);

/* ---- graphs (onnx_graph.c) ---- */
/* Imports the nodes in an order in which every value is defined before it is read; `owner` names the graph in messages. */
intact_status intact__onnx_import_nodes(intact_onnx_scope *scope, size_t n, Onnx__NodeProto **nodes, const char *owner);
/* The inside of a graph into scope->graph: inputs (those of a body get the type of types[i] where the file states none),
   initializers, nodes, outputs. Captured names become further inputs. */
intact_status intact__onnx_import_graph(intact_onnx_scope *scope, const Onnx__GraphProto *proto, intact_value *const *types,
                                        int n_captured, intact_value *const *captured, const char *const *captured_names);
/* Names that subgraphs read of the scope around the node and that are no constants there, each once, in order of first
   reading: they become further operands of the node and further inputs of the bodies. The array lives as long as the import.
 */
intact_status intact__onnx_captures(intact_onnx_node *node, int n_graphs, const Onnx__GraphProto *const *graphs, int *n,
                                    const char *const **names);
/* The inside of a subgraph attribute into the empty `body`: its own inputs (types as stated in the file, else of `inputs`,
   which may be NULL), then the captured names as further inputs. */
intact_status intact__onnx_import_body(intact_onnx_node *node, const Onnx__GraphProto *proto, intact_graph *body,
                                       intact_value *const *inputs, int n_captured, const char *const *captured);
/* One node: function call, Constant, or by the alias rows (onnx_node.c). */
const char *intact__onnx_op_name(intact_onnx_import *import, const Onnx__NodeProto *proto); /* as intact_onnx_node.op */
bool intact__onnx_is_function(intact_onnx_import *import, const char *op);
intact_status intact__onnx_import_node(intact_onnx_scope *scope, const Onnx__NodeProto *proto);

/* ---- fix-ups (onnx_fixups.c) ---- */
typedef intact_status (*intact_onnx_fixup_fn)(intact_onnx_node *node);
typedef struct intact_onnx_fixup {
  const char *name;
  intact_onnx_fixup_fn import;
  bool takes_codes; /* knows what to do with inputs that carry qparams */
} intact_onnx_fixup;
const intact_onnx_fixup *intact__onnx_find_fixup(const char *name);

#endif
