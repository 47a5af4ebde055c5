/* SPDX-License-Identifier: Apache-2.0 */
/* Training a network on labelled samples: loop, schedules, checkpoints that resume to the same bits. */
#ifndef INTACT_TRAIN_H
#define INTACT_TRAIN_H

#include "intact/autograd.h"
#include "intact/data.h"
#include "intact/init.h"
#include "intact/optim.h"
#include "intact/qat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network of the table ("mlp" "cnn" "resnet8" "mobilenet") with batch norms and fresh parameters drawn from `generator`: stage
   float, input x f32[N,1,28,28], output logits. */
INTACT_API intact_status intact_network_create(intact_context *context, const char *name, intact_generator *generator,
                                               intact_graph **graph);
/* Fills the graph's constants with the tensors of the same names of a file (a state dict as .safetensors): all of them, and nothing
   else (counters of batches apart). On failure nothing has changed. */
INTACT_API intact_status intact_weights_load(intact_graph *graph, const char *path);

enum { INTACT_MAX_REPLICAS = 256 };

/* Makes outputs[i] for the inputs, f32 and of the shapes of the graph's own outputs; the caller's. Replicas call it at the same time,
   each with a graph, and a context, of its own. */
typedef intact_status (*intact_stand_in)(void *user, const intact_graph *graph, const intact_tensor *const *inputs,
                                         intact_tensor **outputs);

typedef struct intact_train_options {
  const char *optimizer;                           /* NULL: AdamW */
  const intact_optimizer_options *optimizer_options; /* NULL: the optimizer's defaults */
  const char *schedule;                            /* NULL: the learning rate stays */
  const intact_scheduler_options *schedule_options; /* NULL: the schedule's defaults. Fields that must fit the training and are 0
                                                       (total_steps, T_max, total_iters) are filled in */
  bool schedule_by_epoch;   /* the schedule goes on with every epoch, not with every step */
  int64_t epochs;           /* default 1 */
  int64_t batch;            /* samples per step over all processes, default 32 */
  int replicas;             /* parts that a batch is split into, default 2. Sums over a batch are made part by part, so that one process
                               and any number of processes that divides this give the same bits. At least as many as processes; 0:
                               just that. A batch with fewer samples than replicas is split over the processes alone */
  uint64_t seed;            /* of the order of the samples */
  double label_smoothing;
  double clip_norm;         /* gradients are scaled down to this norm; 0: not */
  int augment_shift;        /* pictures are shifted by up to so many pixels in each direction; 0: not */
  bool augment_flip;        /* half of the pictures are mirrored */

  const intact_graph *teacher;       /* NULL: none. Its first output for the same inputs is what is imitated */
  double distill_weight;             /* share of the teacher in the loss, default 0.5 */
  double distill_temperature;        /* default 2 */

  intact_data *test;                 /* NULL: none. Accuracy after every epoch */
  const intact_tensor *test_labels;

  const char *checkpoint;            /* folder; NULL: none. Holds checkpoint.safetensors after every epoch */
  int64_t checkpoint_steps;          /* and after so many steps; 0: only after epochs */
  bool resume;                       /* from the checkpoint, if there is one */

  intact_qat_schedule qat;           /* when things change (steps are counted over all epochs). learn_at < 0: learned scales start to
                                        learn after a twentieth of the first epoch */
  intact_stand_in stand_in;          /* NULL: none. From qat.fake_quantize_at on, what loss and accuracy see instead of the network's
                                        outputs; gradients go on as if those were its own */
  void *stand_in_user;
  bool simulate_integers;            /* intact_train_for_integers: the integer program of the moment stands in, bit for bit */
  double qparams_lr;                 /* learning rate of learned scales and zero points, as a share of the others'; default 0.1 */
} intact_train_options;

INTACT_API intact_train_options intact_train_default_options(void);

typedef struct intact_train_epoch {
  int64_t epoch;             /* the first is 1 */
  double loss, accuracy;     /* means over the epoch's samples as they were trained on; percent */
  double test_accuracy;      /* percent; NaN without test samples */
  double lr;                 /* at its last step */
  double seconds;
} intact_train_epoch;

typedef struct intact_train_log {
  int n_epochs;
  intact_train_epoch *epochs;
  int64_t n_steps;
  float *losses;             /* of every step */
  int n_events;
  char **events;             /* "step 120: observers frozen" */
} intact_train_log;
INTACT_API void intact_train_log_destroy(intact_context *context, intact_train_log *log);

/* Trains the parameters of `graph` (stage float, or observed after prepare_qat) in place on all of `data`: cross entropy between its
   first output [samples, classes] and the labels (s64 [n]), or a mixture with a teacher. Everything that can be wrong is found
   before the first step: labels out of range, operations without a gradient, a batch larger than the data, options. A loss that is
   not finite ends the training with the step and the first layer with such a value; the last checkpoint stays. options NULL: the
   defaults; log NULL: none is wanted. */
INTACT_API intact_status intact_train(intact_graph *graph, intact_data *data, const intact_tensor *labels,
                                      const intact_train_options *options, intact_train_log *log);

/* What training for integers has made, and whether the integer program computes what was trained. */
typedef struct intact_train_outcome {
  intact_graph *qdq;      /* the network to write; the caller's */
  double max_abs;         /* largest difference between an output of the trained network and the integer program's */
  double max_steps;       /* in steps of the output's scale; NaN when the output has none */
  int64_t compared, differing; /* elements of the outputs */
} intact_train_outcome;
/* Quantization-aware training of a float network in one call: cross-layer equalization (if qat->quantize.equalize; batch norms stay),
   fake quantization put in (qat NULL: the defaults), intact_train, conversion, and the comparison over `data`. `graph` is left at
   stage observed, with the trained parameters. */
INTACT_API intact_status intact_train_for_integers(intact_graph *graph, intact_data *data, const intact_tensor *labels,
                                                   const intact_train_options *options, const intact_qat_options *qat,
                                                   intact_train_log *log, intact_train_outcome *outcome);
/* Names of the first and the last layer of a float network with weights (an operand of that role that is a constant), which keep 8 bits by
   custom; they belong to `graph`. NULL when there is none. */
INTACT_API void intact_train_border_layers(const intact_graph *graph, const char **first, const char **last);

#ifdef __cplusplus
}
#endif
#endif
