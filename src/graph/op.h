/* SPDX-License-Identifier: Apache-2.0 */
/* The op row: all that is known about an op, in one place. Rows live in src/ops, one file per op or tight family, and are
   listed in src/ops/ops.def. A node holds `const intact_op *`; files store the name. */
#ifndef INTACT_GRAPH_OP_H
#define INTACT_GRAPH_OP_H

#include "intact/graph.h"
#include "tensor/tensor.h"

typedef struct intact_value intact_value;
typedef struct intact_node intact_node;
typedef struct intact_use intact_use;
typedef struct intact_op intact_op;
typedef struct intact_lower intact_lower; /* graph/step.h */

/* ---- schema ---- */
typedef enum intact_role {
  INTACT_ROLE_ACTIVATION, /* quantized per tensor */
  INTACT_ROLE_WEIGHT,     /* quantized per channel along traits.weight_axis when constant */
  INTACT_ROLE_BIAS,       /* s32, scale = scale(operand bias_of[0]) * scale(operand bias_of[1]) */
  INTACT_ROLE_INDEX,      /* integers that mean positions or sizes */
  INTACT_ROLE_NONE        /* stays as it is: parameters of norms, masks, scales ... */
} intact_role;

enum { INTACT_OPTIONAL = 1, INTACT_VARIADIC = 2 /* last operand only: zero or more */ };

typedef struct intact_operand_spec {
  const char *name;
  intact_role role;
  unsigned flags;
} intact_operand_spec;

typedef enum intact_attr_type {
  INTACT_ATTR_INT,
  INTACT_ATTR_FLOAT,
  INTACT_ATTR_BOOL,
  INTACT_ATTR_STRING,
  INTACT_ATTR_INTS,
  INTACT_ATTR_FLOATS,
  INTACT_ATTR_STRINGS,
  INTACT_ATTR_DTYPE,
  INTACT_ATTR_TENSOR
} intact_attr_type;

typedef struct intact_attr_spec {
  const char *name; /* the aten argument's name */
  intact_attr_type type;
  bool required;
  bool nullable;    /* may be absent without a default (aten None): present = false */
  int64_t i;        /* default of int, bool, dtype; of every element of ints */
  double f;         /* default of float */
  const char *s;    /* default of string */
  int n;            /* default length of ints (elements all i), 0: empty */
} intact_attr_spec;

typedef struct intact_schema {
  int n_operands;
  const intact_operand_spec *operands;
  int n_results; /* -1: as many as the node was made with */
  const char *const *results;
  int n_attrs;
  const intact_attr_spec *attrs;
} intact_schema;

/* .schema = {INTACT_OPERANDS({"x", INTACT_ROLE_ACTIVATION, 0}, ...), INTACT_RESULTS("y"), INTACT_ATTRS({...}, ...)} */
#define INTACT_COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define INTACT_OPERANDS(...)                                                     \
  .n_operands = INTACT_COUNT_OF(((const intact_operand_spec[]){__VA_ARGS__})),   \
  .operands = (const intact_operand_spec[]) { __VA_ARGS__ }
#define INTACT_RESULTS(...)                                                \
  .n_results = INTACT_COUNT_OF(((const char *const[]){__VA_ARGS__})),      \
  .results = (const char *const[]) { __VA_ARGS__ }
#define INTACT_ATTRS(...)                                                  \
  .n_attrs = INTACT_COUNT_OF(((const intact_attr_spec[]){__VA_ARGS__})),   \
  .attrs = (const intact_attr_spec[]) { __VA_ARGS__ }

/* ---- inference ---- */
/* What infer may look at: node->operands[i]->{dtype,rank,dims,constant,elements}, attributes. It sets the results' dtype, rank
   and dims (symbols allowed; intact__infer_unknown_dim gives a fresh symbol). Refusals name the node, the shapes and the rule.
   Quantized operands of ops that are not on_integers are shown as f32; the driver puts the type of a result's qparams after.
   Interp calls infer again on the actual shapes before every eval, so eval need not repeat its checks.
   A row with bodies sets the types of the bodies' inputs, calls intact__graph_infer on them and takes the outputs' types. */
typedef struct intact_infer {
  intact_context *context;
  intact_node *node;
  intact_graph *graph; /* where symbols are made; NULL: all shapes are actual ones */
} intact_infer;
int64_t intact__infer_unknown_dim(intact_infer *infer);
/* Shape arithmetic: value->elements is what is known of a small integer value of rank 0 or 1 (at most INTACT_MAX_ELEMENTS):
   plain integers, or a symbol written as an element. The driver evaluates ops on known elements (and data movement on symbols)
   by itself; only a row that makes elements out of shapes (shape) sets them. */
enum { INTACT_MAX_ELEMENTS = 64 };
intact_status intact__infer_set_elements(intact_infer *infer, int result, int n, const int64_t *elements);
static inline bool intact__element_is_symbol(int64_t element) { return element < INT64_MIN + INT32_MAX; }
static inline int64_t intact__element_from_dim(int64_t dim) { return dim >= 0 ? dim : INT64_MIN + (-1 - dim); }
static inline int64_t intact__dim_from_element(int64_t element) {
  return intact__element_is_symbol(element) ? -1 - (element - INT64_MIN) : element;
}

/* ---- evaluation ---- */
typedef struct intact_call {
  intact_context *context;
  const intact_node *node; /* attributes, name for messages, bodies */
  int n_operands, n_results;
  const intact_tensor *const *operands; /* NULL: left out */
  intact_tensor **results;              /* NULL at first, or a tensor to write into when the caller planned its memory */
  const struct intact_interp_options *options; /* how bodies are run; NULL: by the definitions */
} intact_call;
/* The tensor to write result i into: the caller's if one is there (shape and dtype must agree), else a new one. */
intact_status intact__call_result(const intact_call *call, int i, intact_dtype dtype, int rank, const int64_t *dims,
                                  intact_tensor **tensor);
/* Runs body `body` of the node; as many inputs and outputs as the body has; outputs become owned by the caller. A body sees its
   own inputs only: what it reads of the graph around it comes in as further operands of the node. */
intact_status intact__call_body(const intact_call *call, int body, const intact_tensor *const *inputs, intact_tensor **outputs);

/* ---- gradient ---- */
/* Vector-Jacobian product. d_results[i] is NULL where nothing flows in. For each operand with needed[i], the op creates
   d_operands[i] (float32, the operand's shape, by intact__grad_operand); it may leave NULL to mean zero. */
typedef struct intact_grad {
  intact_context *context;
  const intact_node *node;
  int n_operands, n_results;
  const intact_tensor *const *operands;
  const intact_tensor *const *results;
  const intact_tensor *const *d_results;
  const bool *needed;
  bool may_overwrite; /* d_results that have no other holder */
  intact_tensor **d_operands;
} intact_grad;
intact_status intact__grad_operand(intact_grad *grad, int i, intact_tensor **tensor); /* zeroed, shape of operand i */
intact_status intact__grad_operand_raw(intact_grad *grad, int i, intact_tensor **tensor); /* for rows that write every element */
/* The same over the gradient of result r where that has the shape of operand i and nobody reads it later: each of its elements must
   be read before the one of d_operands[i] in its place is written. */
intact_status intact__grad_operand_over(intact_grad *grad, int i, int r, intact_tensor **tensor);
/* Gives d (may be NULL), as many float32 elements as operand i has, to operand i if it is wanted; else releases it. */
intact_status intact__grad_give(intact_grad *grad, int i, intact_tensor *d);
void intact__grad_forget(intact_grad *grad); /* starts anew: what was made is released */
/* Markers for rows: not differentiable (stops the walk); the gradient of result 0 goes to operand 0 unchanged. */
intact_status intact__grad_none(intact_grad *grad);
intact_status intact__grad_straight_through(intact_grad *grad);

/* ---- quantization traits ---- */
typedef enum intact_result_rule {
  INTACT_RESULT_OWN,     /* ranges of its own */
  INTACT_RESULT_SAME_AS, /* of operand same_as; with share_operands all activation operands share too (concat, maximum) */
  INTACT_RESULT_FIXED,   /* fixed_scale, fixed_zero_point (for u8; s8 subtracts 128) */
  INTACT_RESULT_NONE     /* never quantized (indices, booleans, losses) */
} intact_result_rule;

typedef struct intact_quant_traits {
  intact_result_rule result;
  int same_as;
  bool share_operands;
  float fixed_scale;
  int32_t fixed_zero_point;
  int bias_of[2];          /* operands whose scales make the bias scale */
  bool may_fuse_clamp;     /* a following relu / clip can go into the quantized result's range */
  bool is_clamp;           /* relu, relu6, hardtanh, clamp: monotone cut of the range, see clamp_range */
  bool no_quantize;        /* the default quantizer leaves the op alone (shape arithmetic, comparisons, losses ...) */
  /* Channel axis of the weight operand by the op's meaning (output channel); -1: per tensor only. NULL: -1. For grouped
     transposed convolution the channels lie as groups x axis length: *groups is set (1 otherwise). */
  int (*weight_axis)(const intact_node *node, int *groups);
  /* For is_clamp rows: real bounds, -inf / inf when open. */
  void (*clamp_range)(const intact_node *node, double *low, double *high);
  /* For data movement that puts a number of its own beside the elements (padding): false when it is 0 or there is none. */
  bool (*fill_value)(const intact_node *node, double *value);
  /* x -> y(x) per element with no other input than attributes: can become a 256-entry table. */
  bool is_unary_map;
  /* y(s x) = s y(x) for s > 0 that differs by channel, as long as no element of y mixes channels: pooling, means, leaky relu.
     Data movement and clamps to 0..inf need not say it. */
  bool is_homogeneous;
} intact_quant_traits;

/* Physical order of the integer kernels' operands. CHANNELS_LAST: rank >= 3 data lie N, spatial..., C. */
typedef enum intact_int_layout {
  INTACT_INT_ROWS,          /* logical row-major order */
  INTACT_INT_CHANNELS_LAST, /* the activation operand(s) and result 0 */
  INTACT_INT_ANY            /* any order, the same for all operands of the result's rank */
} intact_int_layout;

/* ---- foreign names ---- */
typedef struct intact_alias {
  const char *format; /* "onnx", "aten", "openvino"; "quantized": PyTorch's operators on quantized tensors, before "aten" */
  const char *name;   /* "Conv", "com.microsoft::QLinearAdd", "aten::conv2d" */
  int since, until;   /* versions (ONNX opsets), 0: no bound */
  const char *attrs;  /* "strides=stride,group=groups": foreign=ours; a foreign attribute that is not listed is refused
                         unless the fix-up takes it or it is listed with nothing behind the =. "=ours:value" sets an attribute;
                         "foreign=@scale", "@zero_point", "@dtype", "=@relu:1": qparams of the results (ops/quantized) */
  const char *fixup;  /* named function in io/<format>/<format>_fixups.c, NULL: the mapping is all */
} intact_alias;

struct intact_op {
  const char *name; /* "conv2d" */
  const char *doc;  /* one sentence; the formula if there is one */
  intact_schema schema;
  intact_status (*infer)(intact_infer *infer);
  intact_status (*eval_f32)(const intact_call *call);  /* plain loops: the definition. Handles the integer and bool types
                                                           that make sense for the op as well (data movement: all types) */
  intact_status (*eval_fast)(const intact_call *call); /* optional, the same within the stated tolerance; full build only */
  intact_status (*grad)(intact_grad *grad);            /* never NULL */
  intact_status (*grad_fast)(intact_grad *grad);       /* optional, the same within the stated tolerance; full build only */
  intact_quant_traits quant;
  intact_int_layout int_layout;
  /* Why lower_int can't do this integer-form node (static text), NULL if it can. NULL function: never. */
  const char *(*check_int)(const intact_node *node);
  intact_status (*lower_int)(intact_lower *lower); /* NULL: float fallback */
  int64_t (*macs)(const intact_node *node);        /* NULL: 0. Multiply-accumulates with concrete shapes (symbols count as 1) */
  bool on_integers;    /* eval_f32 wants the quantized operands' stored integers (quantize, dequantize, data movement that
                          keeps qparams: there only while operands and result have equal qparams, else float between) */
  bool has_effect;     /* never removed as dead */
  bool same_elements;  /* result 0 holds operand 0's elements in the same row-major order (reshape, squeeze, identity): the
                          planner makes it an alias where qparams agree */
  const intact_alias *aliases; /* ended by a zero row; NULL: none */
};

/* What the schema says of operand i; the last entry stands for all operands of a variadic one. */
static inline const intact_operand_spec *intact__operand_spec(const intact_op *op, int i) {
  return &op->schema.operands[i < op->schema.n_operands ? i : op->schema.n_operands - 1];
}

/* The first operand with that role; -1: none. */
static inline int intact__operand_with_role(const intact_op *op, intact_role role) {
  for (int i = 0; i < op->schema.n_operands; i++)
    if (op->schema.operands[i].role == role) return i;
  return -1;
}

/* Adjust a source file's row: #define order is name, doc, schema, infer, eval, grad, quant, lowering, aliases. */

/* ---- registry (ops/ops.h): find and iterate; rows in ops.def order ---- */
extern const intact_op *const intact__ops[];
extern const int intact__n_ops;
const intact_op *intact__find_op(const char *name);
/* Row and alias for a foreign name at a version; NULL when the table holds none. */
const intact_op *intact__find_alias(const char *format, const char *name, int version, const intact_alias **alias);

#endif
