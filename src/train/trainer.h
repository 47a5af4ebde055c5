/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of a training. */
#ifndef INTACT_TRAIN_TRAINER_H
#define INTACT_TRAIN_TRAINER_H

#include <pthread.h>

#include "graph/graph.h"
#include "intact/train.h"

typedef struct intact_trainer {
  intact_context *context;
  intact_graph *graph;
  intact_data *data;
  const intact_tensor *labels;
  const intact_train_options *options;
  const intact_graph *teacher;   /* NULL: none */
  intact_context *outer;         /* where data and test data are at home; replicas take turns with it: */
  pthread_mutex_t *outer_lock;
  intact_qat_schedule qat; /* the options', with the step when learned qparams start to learn */
  int64_t samples, classes, steps_per_epoch;
  int rank, ranks; /* of the replicas on all processes */
  bool speaks;     /* the first replica of its process: it logs and shows progress */

  intact_trainable *trainable;
  intact_variable **inputs, **outputs; /* of the graph; NULL between steps */
  int n_learned;
  intact_variable **learned;           /* parameters that require gradients; not held */
  intact_tensor **gradients;           /* theirs in this step; NULL: none */
  intact_optimizer *optimizer;
  intact_scheduler *scheduler; /* NULL: none */
  intact_generator *generator; /* order of the samples */
  int64_t *order;              /* samples */

  /* Where the training is. */
  int64_t epoch, step_of_epoch, step;
  uint8_t epoch_start[INTACT_GENERATOR_STATE_BYTES]; /* the generator before the epoch's order was drawn */
  double loss_sum;                                   /* this epoch, over samples */
  int64_t correct, seen;
  intact_train_log log;
  size_t epochs_capacity, losses_capacity, events_capacity;
} intact_trainer;

/* checks.c: all that can be wrong beforehand. */
intact_status intact__train_check(intact_trainer *t);
/* The first element that is NaN or infinite; -1: there is none. */
int64_t intact__train_first_not_finite(const intact_tensor *tensor);
/* A failure that names the first parameter that is not finite. */
intact_status intact__train_check_parameters(const intact_trainer *t);
/* A failure that names the first fake quantization to which nothing finite has come. */
intact_status intact__train_check_observed(const intact_trainer *t);
/* The failure for a loss that is not finite: names the step and the first layer with such a value. */
intact_status intact__train_not_finite(intact_trainer *t, double loss);

/* train_step.c */
intact_status intact__train_step(intact_trainer *t);
/* Accuracy in percent of the graph as it is, over all of `data`. */
intact_status intact__train_accuracy(intact_trainer *t, intact_data *data, const intact_tensor *labels, double *accuracy);
/* Samples of the batch at hand that this rank takes, into samples[]. */
int64_t intact__train_share(const intact_trainer *t, int64_t *samples);

/* augment.c: shifts and mirrors pictures [n, channels, height, width]; sample i by draws that depend on seed, epoch and ids[i]. */
intact_status intact__augment(const intact_trainer *t, intact_tensor *pictures, const int64_t *ids);

/* stand_in.c: puts options->stand_in's values into the outputs of the step at hand. */
intact_status intact__train_stand_in(intact_trainer *t);

/* agreement.c: a failure when the replicas' networks differ. */
intact_status intact__train_check_agreement(const intact_trainer *t);
/* A failure when they were started with different options, or resumed from different places. */
intact_status intact__train_check_options_agree(const intact_trainer *t);

/* resume_options.c */
/* Lines "name = value" of all that must stay when a training goes on; the caller's (intact__free). */
intact_status intact__train_settings(const intact_trainer *t, char **settings);
/* A failure that names the first line which differs from those of a checkpoint. */
intact_status intact__train_compare_settings(const intact_trainer *t, const char *saved);

/* checkpoint.c */
/* Parameters, statistics and observers. */
intact_status intact__checkpoint_network(const intact_trainer *t, intact_tensor_set *set);
intact_status intact__checkpoint_write(intact_trainer *t);
/* *found false: there is none. */
intact_status intact__checkpoint_read(intact_trainer *t, bool *found);

/* trainer.c */
intact_status intact__train_event(intact_trainer *t, const char *format, ...) INTACT_PRINTF(2, 3);
intact_status intact__train_draw_order(intact_trainer *t);

#endif
