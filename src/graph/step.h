/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a program, and what an op's lower_int gets to fill it. */
#ifndef INTACT_GRAPH_STEP_H
#define INTACT_GRAPH_STEP_H

#include "graph/graph.h"

typedef struct intact_step intact_step;

typedef struct intact_step_call {
  intact_context *context;
  const intact_step *step;
  const void *const *in; /* per operand of the node; NULL for those left out and for constants that were packed */
  void *const *out;      /* per result */
  void *scratch;         /* step->scratch_bytes, 64-byte aligned; NULL when 0 */
} intact_step_call;

typedef intact_status (*intact_step_fn)(const intact_step_call *call);

struct intact_step {
  const intact_node *node; /* of the planned graph (concrete shapes) */
  const char *kernel;      /* name of the chosen kernel row, for reports; "" if none */
  intact_step_fn run;
  void *params; /* in the program's arena */
  size_t scratch_bytes;
  bool can_run_in_place; /* out[0] may be in[0] */
  uint64_t packed;       /* bit i: the constant operand i was packed into params, in[i] is not read */
  int64_t macs;
};

struct intact_lower {
  intact_context *context;
  intact_arena *arena; /* of the program: params and packed weights */
  const intact_node *node;
  const char *requantize;    /* rule name of the graph */
  uint32_t isa_set;          /* kernels may use these */
  /* The layout that the planner chose for this node (see int_layout). Values without qparams always lie in rows: quantize
     with channels_last reads rows and writes channels last, dequantize reads channels last and writes rows. Constants that
     in[] points to lie like the other operands; node->operands[i]->constant is in logical order always. */
  bool channels_last;
  intact_step *step;         /* to fill: kernel, run, params, scratch_bytes, can_run_in_place, macs */
};

/* Dims of a value in the physical order of the step: N, spatial..., C when channels_last, rank >= 3 and the value carries
   qparams. Returns the rank. */
int intact__physical_dims(const intact_lower *lower, const intact_value *value, int64_t *dims);
/* Physical axis of logical `axis` of a value of `rank`. */
int intact__physical_axis(const intact_lower *lower, int rank, int axis);

#endif
