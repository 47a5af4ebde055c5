/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization-aware training: fake quantization in a network, its switches, and the way back to integers (intact_convert). */
#ifndef INTACT_QAT_H
#define INTACT_QAT_H

#include "intact/autograd.h"
#include "intact/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Other widths than the rest: layers whose node names match the pattern (* and ?). Of each kind the first match that names one
   counts. */
typedef struct intact_qat_bits {
  const char *pattern;
  int activation_bits, weight_bits; /* 2 to 8, 0: as the rest */
} intact_qat_bits;

typedef struct intact_qat_options {
  intact_quantize_options quantize;  /* quantizer, types, what stays float; observers and bias_correction do not apply; equalize: intact_train_for_integers */
  const char *fake_quantizer;        /* "NAME[:option=value,...]" of activations, a row of fake_quantizers.def; NULL: "fused" */
  const char *weight_fake_quantizer; /* the same of weights; NULL: "fused:averaging_constant=1" */
  int activation_bits, weight_bits;  /* 2 to 8; 0: 8 */
  int n_bits;
  const intact_qat_bits *bits;
  bool keep_batch_norm; /* leave batch norms as they are instead of folding them into the layers before */
} intact_qat_options;
INTACT_API intact_qat_options intact_qat_default_options(void);

/* Float network -> observed one that can be trained, in place: annotates it (unless that was done before), puts fake quantization on
   weights and activations, and folds each batch norm into the layer before it in such a way that both are trained on (no division by
   the norm's weight: a 0 there is harmless). After training, intact_convert gives the q/dq network with the numbers that were
   trained. options NULL: the defaults. */
INTACT_API intact_status intact_prepare_qat(intact_graph *graph, const intact_qat_options *options);

/* What fake quantization does in a forward. */
typedef enum intact_qat_mode {
  INTACT_QAT_FLOAT,    /* nothing */
  INTACT_QAT_OBSERVE,  /* statistics only */
  INTACT_QAT_ESTIMATE, /* statistics, and quantized with what they say: the state at first */
  INTACT_QAT_FROZEN,   /* quantized, scale and zero point stay */
  INTACT_QAT_LEARN     /* quantized, learned scales and zero points get gradients; others are frozen */
} intact_qat_mode;
enum { INTACT_QAT_ACTIVATIONS = 1, INTACT_QAT_WEIGHTS = 2 };
INTACT_API intact_status intact_qat_set_mode(intact_graph *graph, unsigned roles, intact_qat_mode mode);

/* When things change while training, by the number of the step that is about to be done; negative: never. */
typedef struct intact_qat_schedule {
  int64_t fake_quantize_at;    /* before: statistics only */
  int64_t freeze_observers_at;
  int64_t learn_at;            /* learned scales and zero points: estimated before */
  int64_t freeze_batch_norm_at;
} intact_qat_schedule;
INTACT_API intact_qat_schedule intact_qat_default_schedule(void); /* fake quantization from step 0, nothing is frozen */
/* Brings the network into the state that the schedule says for `step`. */
INTACT_API intact_status intact_qat_apply_schedule(intact_graph *graph, intact_trainable *trainable,
                                                   const intact_qat_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
