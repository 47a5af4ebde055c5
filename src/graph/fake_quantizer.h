/* SPDX-License-Identifier: Apache-2.0 */
/* The FakeQuantize state machine: an observation that also simulates quantization, with qparams that are observed, learned or
   frozen. Hangs on node->observation of fake_quantize nodes and in eager modules; the nodes of one group share it. */
#ifndef INTACT_GRAPH_FAKE_QUANTIZER_H
#define INTACT_GRAPH_FAKE_QUANTIZER_H

#include "graph/observer.h"
#include "tensor/fake_quantize.h"

typedef enum intact_fake_kind {
  INTACT_FAKE_OBSERVED,     /* torch.ao FakeQuantize: qparams by the observer's rule, anew after every observed batch */
  INTACT_FAKE_FUSED,        /* FusedMovingAvgObsFakeQuantize: by the integer libraries' rule, anew at every forward */
  INTACT_FAKE_LEARNED,      /* torch.ao _LearnableFakeQuantize: scale kept >= float32 epsilon while it is not observed */
  INTACT_FAKE_LEARNED_FIRST, /* torchao LearnableFakeQuantize: qparams from the first batch, no lower bound */
  INTACT_FAKE_LEARNED_CLIP  /* as learned, but the scale's gradient is that of the bounds high * scale and low * scale alone (PACT) */
} intact_fake_kind;

/* What a forward does. Observing is the observation's !frozen. */
typedef enum intact_fake_mode {
  INTACT_FAKE_FLOAT,    /* nothing: y = x */
  INTACT_FAKE_OBSERVE,  /* statistics only: y = x */
  INTACT_FAKE_ESTIMATE, /* statistics, and quantized with what they say */
  INTACT_FAKE_FROZEN,   /* quantized, qparams stay */
  INTACT_FAKE_LEARN     /* quantized, scale and zero point have gradients (learned kinds only) */
} intact_fake_mode;

typedef struct intact_fake_quantizer {
  intact_fake_kind kind;
  bool is_weight; /* what switching by role goes by */
  bool fake_quant_enabled, learning_enabled, use_grad_scaling;
  bool mean_start;      /* learned: estimates are bounded by 2 mean|x| / sqrt(high - zero) (Esser et al., Learned Step Size Quantization) */
  const void *unclamped; /* elements of the last forward's x if none of them was clamped; compared, never read */
  bool dirty;           /* statistics have changed since the qparams were made */
  bool initialized;     /* a forward has quantized with the qparams below */
  bool stale;           /* observed since then while switched off */
  int64_t low, high;    /* integers that are used */
  int axis;             /* of per-channel qparams, -1 per tensor */
  /* The qparams last used in a forward, [n]: scale f32; zero_point s32, or f32 when learned or for float qparams. A learned
     pair may share its storage with the constants of a graph that are trained. */
  intact_tensor *scale, *zero_point;
} intact_fake_quantizer;

typedef struct intact_fake_options {
  intact_fake_kind kind;
  bool is_weight;
  bool mean_start;        /* learned: see above */
  bool use_grad_scaling;  /* learned: gradients times 1 / sqrt(elements * quant_max) */
  int64_t channels;       /* learned per channel: how many; else 0 */
  float scale, zero_point; /* learned: where they start */
} intact_fake_options;

/* Makes observation->fake (released with the observation). Starts in INTACT_FAKE_ESTIMATE. */
intact_status intact__fake_quantizer_create(intact_observation *observation, const intact_fake_options *options);
void intact__fake_quantizer_destroy(intact_context *context, intact_fake_quantizer *fake); /* takes NULL */
/* The same state on another observation of the same spec. */
intact_status intact__fake_quantizer_copy(const intact_observation *from, intact_observation *to);
/* Refuses learning where nothing is learned. */
intact_status intact__fake_quantizer_set_mode(intact_observation *observation, intact_fake_mode mode);
/* The switches of torch.ao one by one. Switching the observer of a learned_first on ends learning. */
void intact__fake_quantizer_switch(intact_observation *observation, bool observer, bool fake_quant);

/* y for x. `observe`: takes statistics first if the observation is not frozen (interp has done that already for nodes). */
intact_status intact__fake_quantizer_forward(intact_observation *observation, const intact_tensor *x, bool observe,
                                             intact_tensor **y);
/* Gradients with the qparams of the last forward. `over`: dx may take dy's place. d_scale and d_zero_point (both or neither may be NULL: not wanted) become
   NULL unless learning is on. */
intact_status intact__fake_quantizer_backward(intact_observation *observation, const intact_tensor *x, const intact_tensor *dy,
                                              bool over, intact_tensor **dx, intact_tensor **d_scale,
                                              intact_tensor **d_zero_point);
/* For rows that quantize what they compute, with the range at hand. Whether they can: per tensor and on; of the learned kinds those whose
   gradient asks for no more than x. */
bool intact__fake_quantizer_fuses(const intact_observation *observation);
/* Takes the range of x clamped to low..high unless frozen (batch NULL: nothing is observed), and gives what to quantize with. x itself is
   made only where learned scales start from its mean. */
intact_status intact__fake_quantizer_by_range(intact_observation *observation, const intact_min_max *batch, const intact_made_values *x,
                                              float low, float high, intact_affine *affine);
/* What the last forward quantized with. */
intact_affine intact__fake_quantizer_affine(const intact_observation *observation);

/* What is learned goes through this backward: of an x that is made anew, behind a clamp. The gradients of the pair become NULL unless
   learning is on. */
bool intact__fake_quantizer_is_learned(const intact_observation *observation);
intact_status intact__fake_quantizer_backward_made(const intact_observation *observation, const intact_made_values *x, const float *dy, float low,
                                                   float high, float *dx, intact_tensor **d_scale, intact_tensor **d_zero_point);

/* graph/fake_quantizer_clamp.c: y = fake_quantize(min(max(x, low), high)) where it fuses; f32 only. `observe`: the clamped range counts
   for the statistics, unless they are frozen. */
intact_status intact__fake_quantizer_forward_clamped(intact_observation *observation, const intact_tensor *x, float low, float high,
                                                     bool observe, intact_tensor **y);
/* dx = dy where x lies between the bounds and was not cut by the quantization, else 0; in dy's place with `over`. d_scale, d_zero_point:
   NULL where nothing is learned. */
intact_status intact__fake_quantizer_backward_clamped(const intact_observation *observation, const intact_tensor *x, const intact_tensor *dy,
                                                      float low, float high, bool over, intact_tensor **dx, intact_tensor **d_scale,
                                                      intact_tensor **d_zero_point);
/* Rounding is monotone: quantizing a clamped x is clamping q to what the bounds round to. */
intact_affine intact__affine_clamped(const intact_affine *affine, float low, float high);

/* The qparams last used in a forward: what convert takes, so that what was trained is what runs. */
intact_status intact__fake_quantizer_qparams(const intact_observation *observation, intact_arena *arena, intact_qparams **qparams);

/* Every fake_quantize node of a graph and its bodies. */
enum { INTACT_FAKE_ACTIVATIONS = 1, INTACT_FAKE_WEIGHTS = 2 };
intact_status intact__graph_set_fake_mode(intact_graph *graph, unsigned roles, intact_fake_mode mode);

/* State under PyTorch's names: scale, zero_point, fake_quant_enabled, observer_enabled (static_enabled and learning_enabled when
   learned), and the observer's below activation_post_process. */
intact_status intact__fake_quantizer_save(const intact_observation *observation, const char *prefix, intact_tensor_set *set);
intact_status intact__fake_quantizer_load(intact_observation *observation, const char *prefix, const intact_tensor_set *set);

#endif
