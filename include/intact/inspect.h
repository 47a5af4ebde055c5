/* SPDX-License-Identifier: Apache-2.0 */
/* What quantization cost: layer by layer and as a whole; accuracy; time. */
#ifndef INTACT_INSPECT_H
#define INTACT_INSPECT_H

#include "intact/data.h"
#include "intact/graph.h"
#include "intact/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum intact_engine {
  INTACT_ENGINE_INT,   /* the planned integer program */
  INTACT_ENGINE_FLOAT, /* node by node with the fast float kernels, quantize/dequantize simulated */
  INTACT_ENGINE_INTERP /* definitions only */
} intact_engine;

/* One layer (node of the float model that computes). NaN where a number does not apply. */
typedef struct intact_layer_report {
  const char *name, *op;
  bool integer;
  const char *why;      /* why float; "" for integer layers */
  double sqnr_here_db;  /* error made here: exact inputs fed to the quantized layer */
  double sqnr_acc_db;   /* error accumulated up to here */
  double cosine;        /* of the accumulated output against float */
  double max_abs;       /* largest accumulated difference */
  double clipped;       /* share of the float output outside of the quantized range, 0..1 */
  double range_low, range_high; /* of the quantized output */
  double bias_headroom; /* bits left of int32 for the largest |bias| code */
  double acc_headroom;  /* bits left of int32 for the largest possible |accumulator| */
  int64_t bytes;        /* of weights and bias as stored */
  int64_t macs;         /* per sample */
  double ms;            /* in the integer program, batch 1 */
} intact_layer_report;

typedef struct intact_output_report {
  const char *name;
  double sqnr_db, cosine, max_abs, max_steps; /* steps of the output's scale; NaN without one */
} intact_output_report;

typedef struct intact_report intact_report;
INTACT_API void intact_report_destroy(intact_report *report); /* takes NULL */
INTACT_API int intact_report_layer_count(const intact_report *report);
INTACT_API const intact_layer_report *intact_report_layer(const intact_report *report, int index);
INTACT_API int intact_report_output_count(const intact_report *report);
INTACT_API const intact_output_report *intact_report_output(const intact_report *report, int index);
/* What to change first, most useful first; sentences that name layers and options. */
INTACT_API int intact_report_advice_count(const intact_report *report);
INTACT_API const char *intact_report_advice(const intact_report *report, int index);

/* Compares two networks of the same inputs and outputs (or one network by two engines) over at most `samples` samples:
   layers are matched by the source names that survive every rewrite. */
INTACT_API intact_status intact_compare(const intact_graph *a, intact_engine engine_a, const intact_graph *b,
                                        intact_engine engine_b, intact_data *data, int64_t samples, intact_report **report);

typedef struct intact_evaluation {
  int64_t samples;
  double accuracy, top5; /* percent; NaN without labels */
  double seconds;
  double mean, std, min, max; /* of the first output */
} intact_evaluation;
/* `labels` (s64 [n]) may be NULL. */
INTACT_API intact_status intact_evaluate(const intact_graph *graph, intact_engine engine, intact_data *data,
                                         const intact_tensor *labels, int64_t batch, intact_evaluation *result);

typedef struct intact_timing {
  int runs;
  double ms_min, ms_median;
} intact_timing;
/* Times runs of one batch after two warm-ups; inputs in graph order. outputs may be NULL. */
INTACT_API intact_status intact_benchmark(const intact_graph *graph, intact_engine engine, const intact_tensor *const *inputs,
                                          int runs, intact_timing *timing, intact_tensor **outputs);

/* Facts of a graph: what `intact inspect` prints. */
typedef struct intact_graph_facts {
  int64_t nodes, parameters, macs, bytes; /* macs with symbolic dimensions as 1 */
} intact_graph_facts;
INTACT_API intact_status intact_graph_count_facts(const intact_graph *graph, intact_graph_facts *facts);

/* A node that computes in float, and why. */
typedef struct intact_float_node {
  const char *name, *op, *why;
} intact_float_node;
typedef struct intact_float_nodes {
  int n;
  const intact_float_node *nodes; /* in the graph's order */
} intact_float_nodes;
/* Of a float network: the nodes whose op has no integer kernel. Of a quantized one: those that the integer program runs in float. */
INTACT_API intact_status intact_float_nodes_create(const intact_graph *graph, intact_float_nodes **list);
INTACT_API void intact_float_nodes_destroy(intact_context *context, intact_float_nodes *list); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
