/* SPDX-License-Identifier: Apache-2.0 */
/* Post-training quantization: annotate, prepare, calibrate, convert; and all of it in one call. */
#ifndef INTACT_QUANT_H
#define INTACT_QUANT_H

#include "intact/data.h"
#include "intact/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct intact_quantize_options {
  const char *quantizer;       /* "NAME[:option[=value],...]", several separated by '+', first claim wins; NULL: "default" */
  const char *observer;        /* of activations, "NAME[:option=value,...]"; NULL: the quantizer's own choice */
  const char *weight_observer; /* NULL: the quantizer's own choice */
  intact_dtype activations;    /* INTACT_U8 (default) or INTACT_S8 */
  bool weights_per_tensor;
  bool io_integer;             /* inputs and outputs stay quantized: no quantize at the ends */
  int n_keep_float;
  const char *const *keep_float; /* node names or patterns with * and ? that stay float */
  bool equalize;               /* cross-layer equalization where its precondition holds (default on) */
  bool bias_correction;        /* empirical bias correction (default on) */
  int64_t batch;               /* samples per calibration step (default 32) */
} intact_quantize_options;

INTACT_API intact_quantize_options intact_quantize_default_options(void);

/* Decides what is quantized how: annotates `graph` (float stage) in place. Every unsupported wish is found here. */
INTACT_API intact_status intact_annotate(intact_graph *graph, const intact_quantize_options *options);
/* Float stage with annotations -> observed stage, in place: observe nodes on the annotated edges. */
INTACT_API intact_status intact_prepare(intact_graph *graph);
/* Streams all of `data` through an observed graph; memory does not grow with the number of samples. */
INTACT_API intact_status intact_calibrate(intact_graph *graph, intact_data *data, int64_t batch);
/* Observed stage -> qdq stage, in place: weights become integers, biases s32 with checked headroom. */
INTACT_API intact_status intact_convert(intact_graph *graph);
/* qdq stage -> integer stage, in place, by the passes of passes.def; what has no integer kernel stays float with its reason. */
INTACT_API intact_status intact_to_integer(intact_graph *graph);

/* What quantize did besides the report's layers: one line each, e.g. "equalize conv_1 -> conv_2: ranges 536 -> 3.1". */
typedef struct intact_quantize_notes {
  int n;
  char **lines; /* released with intact_quantize_notes_destroy */
} intact_quantize_notes;
INTACT_API void intact_quantize_notes_destroy(intact_context *context, intact_quantize_notes *notes);

/* The whole way: copy, fold batch norms, equalize, annotate, prepare, calibrate, convert, correct biases. *result is a qdq
   graph owned by the caller; `model` is unchanged; notes may be NULL. */
INTACT_API intact_status intact_quantize(const intact_graph *model, intact_data *data, const intact_quantize_options *options,
                                         intact_graph **result, intact_quantize_notes *notes);
/* The same, and *reference is the float network that was quantized: `model` after folding and equalization, the same function,
   but layer by layer what *result can be compared with (equalization changes the scale of what is between two layers). */
INTACT_API intact_status intact_quantize_with_reference(const intact_graph *model, intact_data *data,
                                                        const intact_quantize_options *options, intact_graph **reference,
                                                        intact_graph **result, intact_quantize_notes *notes);

#ifdef __cplusplus
}
#endif
#endif
