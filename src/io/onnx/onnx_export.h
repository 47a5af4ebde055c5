/* SPDX-License-Identifier: Apache-2.0 */
/* Writing graphs as ONNX: the graph being written, and what an op's own export function may use. */
#ifndef INTACT_IO_ONNX_ONNX_EXPORT_H
#define INTACT_IO_ONNX_ONNX_EXPORT_H

#include <onnx/onnx.pb-c.h>

#include "graph/graph.h"

/* Lowest opset that is written (per-channel QDQ), and the one that 16- and 4-bit types and blocks need. */
enum { INTACT_ONNX_OPSET_BASE = 13, INTACT_ONNX_OPSET_WIDE = 21, INTACT_ONNX_OPSET_LAST = 22 };

/* Writes a float, qdq or integer graph (integers become quantize/dequantize again). The same graph gives the same bytes.
   style: NULL, or "external" for weights in a file beside the model whatever their size. */
intact_status intact__onnx_export(const intact_graph *graph, const char *path, const char *style);

/* One file being made. */
typedef struct intact_onnx_output {
  intact_context *context;
  intact_arena arena;
  int opset;           /* being written */
  int needed;          /* the highest that a node written so far asks for */
  bool microsoft;      /* an operator of com.microsoft was written */
  intact_map used;     /* names of values of all graphs: those of a body must not be those of the graph around */
  int64_t fresh;       /* counts made-up names */
  intact_text missing; /* nodes that cannot be written, "name (op): why; ..." */
  int64_t n_missing;
} intact_onnx_output;

/* The initializers of a value's qparams; zero_point NULL: there is none. */
typedef struct intact_onnx_scale {
  const char *scale, *zero_point;
} intact_onnx_scale;

/* One graph or body being made. */
typedef struct intact_onnx_out {
  intact_onnx_output *output;
  const struct intact_onnx_out *outer; /* of a body; NULL for the model's graph */
  const intact_graph *graph;
  int n_own; /* of a body: inputs that the written graph has too; the others are outer values */
  Onnx__GraphProto *proto;
  const char **names;        /* by value id */
  intact_onnx_scale *scales; /* by value id */
  bool *written;             /* by value id: constants that are initializers already */
  const char **real_names;   /* by value id of codes: the dequantized value */
} intact_onnx_out;

/* Gives every value of out->graph its name: its own, unless a graph around uses that. */
intact_status intact__onnx_out_begin(intact_onnx_out *out);
/* The name of a value in the file, its constant written on first use. Codes keep their integers. NULL value: "". */
intact_status intact__onnx_out_name(intact_onnx_out *out, const intact_value *value, const char **name);
/* The same of its real numbers: a DequantizeLinear is put before where the value carries qparams. */
intact_status intact__onnx_out_real(intact_onnx_out *out, const intact_value *value, const char **name);
/* A name not used yet that starts with `base`; NULL: no memory. */
const char *intact__onnx_out_fresh(intact_onnx_out *out, const char *base, const char *suffix);

/* A node of ONNX operator `op` ("Conv", "com.microsoft::X"), named after `source` (NULL: no name). Its inputs are added
   first; it takes its place in the graph with its first output, behind what its inputs needed. */
intact_status intact__onnx_out_node(intact_onnx_out *out, const intact_node *source, const char *op, Onnx__NodeProto **node);
intact_status intact__onnx_out_input(intact_onnx_out *out, Onnx__NodeProto *node, const char *name);
intact_status intact__onnx_out_output(intact_onnx_out *out, Onnx__NodeProto *node, const char *name);
/* Operand i of the source as next input (its real numbers); "" when left out. */
intact_status intact__onnx_out_operand(intact_onnx_out *out, Onnx__NodeProto *node, const intact_node *source, int i);
/* Result i of the source as next output; a quantize node follows where it carries qparams. */
intact_status intact__onnx_out_result(intact_onnx_out *out, Onnx__NodeProto *node, const intact_node *source, int i);
intact_status intact__onnx_out_int(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int64_t value);
intact_status intact__onnx_out_float(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, double value);
intact_status intact__onnx_out_string(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, const char *value);
intact_status intact__onnx_out_strings(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int n,
                                       const char *const *values);
intact_status intact__onnx_out_ints(intact_onnx_out *out, Onnx__NodeProto *node, const char *name, int n,
                                    const int64_t *values);

/* A node of one or two (b not NULL) inputs with an output of its own, named after the source and `suffix`. */
intact_status intact__onnx_out_step(intact_onnx_out *out, const intact_node *source, const char *op, const char *a,
                                    const char *b, const char *suffix, const char **result);
/* The same whose output is result 0 of the source. */
intact_status intact__onnx_out_last(intact_onnx_out *out, const intact_node *source, const char *op, const char *a,
                                    const char *b);

intact_status intact__onnx_out_graph_attribute(intact_onnx_out *out, Onnx__NodeProto *node, const char *name,
                                               Onnx__GraphProto *graph);

/* Initializers; *name is what nodes read. */
intact_status intact__onnx_out_tensor(intact_onnx_out *out, const char *base, const char *suffix,
                                      const intact_tensor *tensor, const char **name);
/* The same of a tensor that does not live as long as the file is made. */
intact_status intact__onnx_out_keep(intact_onnx_out *out, const char *base, const char *suffix, const intact_tensor *tensor,
                                    const char **name);
intact_status intact__onnx_out_ints_constant(intact_onnx_out *out, const char *base, const char *suffix, int n,
                                             const int64_t *values, const char **name);
intact_status intact__onnx_out_float_constant(intact_onnx_out *out, const char *base, const char *suffix, double value,
                                              const char **name);

/* The file needs this opset at least. */
void intact__onnx_out_needs(intact_onnx_out *out, int opset);
/* Notes that the node cannot be written, and why; all are reported at the end. Returns INTACT_OK. */
intact_status intact__onnx_out_refuse(intact_onnx_out *out, const intact_node *node, const char *why);

/* A node by the alias of its row: one operator, mapped attributes. */
intact_status intact__onnx_out_by_alias(intact_onnx_out *out, const intact_node *node, const intact_alias *alias);
/* Ops that are more than that, by name; each array ends with a row without a name. */
typedef intact_status (*intact_onnx_out_fn)(intact_onnx_out *out, const intact_node *node);
typedef struct intact_onnx_out_row {
  const char *op;
  intact_onnx_out_fn write;
} intact_onnx_out_row;
extern const intact_onnx_out_row intact__onnx_out_control[];
extern const intact_onnx_out_row intact__onnx_out_elementwise[];
extern const intact_onnx_out_row intact__onnx_out_neural[];
extern const intact_onnx_out_row intact__onnx_out_quantized[];
extern const intact_onnx_out_row intact__onnx_out_recurrent[];
extern const intact_onnx_out_row intact__onnx_out_shape[];
extern const intact_onnx_out_row intact__onnx_out_vision[];

/* ---- quantized values (onnx_out_quantize.c) ---- */
/* DequantizeLinear of a value that carries qparams into an output named `real`. */
intact_status intact__onnx_out_dequantize(intact_onnx_out *out, const intact_node *source, const intact_value *codes,
                                          const char *real);
/* The same of an initializer with qparams of its own; *real is the new output, named after `base`. */
intact_status intact__onnx_out_dequantize_as(intact_onnx_out *out, const char *codes, const intact_qparams *qparams,
                                             const char *base, const char **real);
/* QuantizeLinear of `real` into a value that carries qparams, with a Clip before it where the range is narrower than the
 * type. */
intact_status intact__onnx_out_quantize(intact_onnx_out *out, const intact_node *source, const char *real,
                                        const intact_value *codes);

/* Writes the graph's nodes, inputs and outputs into out->proto, after intact__onnx_out_begin. */
intact_status intact__onnx_out_graph(intact_onnx_out *out);

#endif
