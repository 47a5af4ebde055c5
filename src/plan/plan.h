/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: a graph with concrete shapes as steps over buffers. */
#ifndef INTACT_PLAN_PLAN_H
#define INTACT_PLAN_PLAN_H

#include "graph/step.h"

typedef enum intact_place {
  INTACT_PLACE_INPUT,    /* the caller's tensor `index` */
  INTACT_PLACE_CONSTANT, /* `data` */
  INTACT_PLACE_ARENA,    /* offset in the activation arena */
  INTACT_PLACE_OUTPUT,   /* the new tensor of output `index` */
  INTACT_PLACE_DYNAMIC   /* a tensor of its own, made by the step; its shape is known only then */
} intact_place;

typedef struct intact_buffer {
  intact_place place;
  int index; /* input, output */
  void *data;
  size_t bytes, offset;
  int first, last; /* steps; last = n_steps: read after the last step */
} intact_buffer;

typedef enum intact_step_kind {
  INTACT_STEP_INTEGER, /* the row's lower_int made it */
  INTACT_STEP_FLOAT,   /* the row's eval on tensors over the buffers */
  INTACT_STEP_DYNAMIC, /* the row's eval on tensors of their own */
  INTACT_STEP_RELAYOUT /* rows <-> channels last */
} intact_step_kind;

typedef struct intact_planned_step {
  intact_step step;
  intact_step_kind kind;
  const char *name, *op; /* for reports */
  int n_in, n_out;
  int *in_buffers, *out_buffers; /* -1: none */
  int scratch_buffer;            /* -1: none */
  const void **in;               /* addresses for the run that goes on */
  void **out;
  void *scratch;
  double ms; /* of the last timed run */
} intact_planned_step;

/* How a value lies: the buffer of its rows, that of its channels-last form; -1: there is none. */
typedef struct intact_home {
  int rows, channels_last;
} intact_home;

/* After step `after` (-1: before the first) the value can be looked at, in the form that its step made. */
typedef struct intact_look {
  int after, buffer;
  bool channels_last;
  const intact_value *value;
} intact_look;

typedef struct intact_plan {
  intact_context *context;
  intact_arena arena;  /* params, packed weights, this plan's lists */
  intact_graph *graph; /* concrete shapes; owned */
  int n_steps, n_buffers, n_looks;
  intact_planned_step *steps;
  intact_buffer *buffers;
  intact_look *looks;
  intact_home *homes; /* by value id */
  int *outputs;       /* buffer of output j */
  size_t arena_bytes; /* of the activation arena */
} intact_plan;

/* Plans `graph` (float, qdq or integer stage) for the shapes of `inputs`. Constants are referred to, packed weights are made. */
intact_status intact__plan_create(const intact_graph *graph, const intact_tensor *const *inputs, intact_plan **plan);
void intact__plan_destroy(intact_plan *plan); /* takes NULL */

/* plan/ready_graph.c: makes the graph what steps can be made of: shape arithmetic and constant parts become constants, what has no
   integer kernel stands between dequantize and quantize nodes. */
intact_status intact__plan_prepare(intact_graph *graph);
/* Whether the planner lowers the node by its row; `why` says why not (static text). */
bool intact__plan_is_integer(const intact_node *node, const char **why);
/* A shape in it is known only when it runs. */
bool intact__plan_is_dynamic(const intact_node *node);

/* plan/layout.c: channels last or rows for each node of a prepared graph, by position in the node list. */
intact_status intact__plan_layouts(const intact_graph *graph, bool *channels_last);
/* Rows and channels last are the same bytes. */
bool intact__orders_agree(const intact_value *value);

/* plan/steps.c: the functions behind the steps that no row lowers. */
intact_status intact__run_float_step(const intact_step_call *call);
/* params of a relayout: [outer][n][m] -> [outer][m][n] elements of `size` bytes. */
typedef struct intact_relayout {
  int64_t outer, n, m;
  size_t size;
} intact_relayout;
void intact__relayout(const intact_relayout *shape, const void *from, void *to);
intact_status intact__run_relayout_step(const intact_step_call *call);
/* The relayout of a value's data; false when its type has elements smaller than a byte. */
bool intact__relayout_of(const intact_value *value, bool to_channels_last, intact_relayout *shape);

#endif
