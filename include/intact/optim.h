/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers, learning-rate schedules and gradient clipping: PyTorch's torch.optim by name. They know tensors, not the tape. */
#ifndef INTACT_OPTIM_H
#define INTACT_OPTIM_H

#include "intact/io.h"
#include "intact/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ---- */
/* Fields that an optimizer does not have are ignored by it. */
typedef struct intact_optimizer_options {
  double lr, weight_decay;
  double momentum, dampening;           /* SGD, RMSprop (momentum) */
  double beta1, beta2, eps;             /* Adam, AdamW, Adamax; eps also RMSprop, Adagrad, Adadelta */
  double alpha, rho;                    /* RMSprop; Adadelta */
  double lr_decay, initial_accumulator; /* Adagrad */
  bool nesterov;                        /* SGD */
  bool amsgrad;                         /* Adam, AdamW */
  bool centered;                        /* RMSprop */
  bool maximize;
} intact_optimizer_options;

/* The defaults of optimizer `name`: "SGD" "Adam" "AdamW" "RMSprop" "Adagrad" "Adadelta" "Adamax" (any case). */
INTACT_API intact_status intact_optimizer_default_options(intact_context *context, const char *name,
                                                          intact_optimizer_options *options);
/* Sets the option called `name` (the names above; initial_accumulator_value for initial_accumulator) from text. */
INTACT_API intact_status intact_optimizer_set_option(intact_context *context, intact_optimizer_options *options,
                                                     const char *name, const char *value);

/* Whether optimizer `name` (any case) goes by the option; false when there is no such optimizer. */
INTACT_API bool intact_optimizer_has_option(const char *name, const char *option);

typedef struct intact_optimizer intact_optimizer;
/* options NULL: the defaults. */
INTACT_API intact_status intact_optimizer_create(intact_context *context, const char *name,
                                                 const intact_optimizer_options *options, intact_optimizer **optimizer);
INTACT_API void intact_optimizer_destroy(intact_optimizer *optimizer); /* takes NULL */
/* A group of parameters (float32; they stay the caller's and must outlive the optimizer) with options of its own; options NULL:
   those of create. */
INTACT_API intact_status intact_optimizer_add_group(intact_optimizer *optimizer, const intact_optimizer_options *options, int n,
                                                    intact_tensor *const *parameters);
INTACT_API int intact_optimizer_group_count(const intact_optimizer *optimizer);
INTACT_API int intact_optimizer_parameter_count(const intact_optimizer *optimizer);
/* The options that the next step uses; schedules change lr and momentum (beta1) here. */
INTACT_API intact_optimizer_options *intact_optimizer_group_options(intact_optimizer *optimizer, int group);
/* gradients[i] belongs to parameter i, groups one after the other; where it is NULL the parameter and its state stay. Checked
   before anything changes. */
INTACT_API intact_status intact_optimizer_step(intact_optimizer *optimizer, const intact_tensor *const *gradients);
/* State as named tensors "<prefix><state>.<parameter>", "<prefix><optimizer>.step" and "<prefix>lr" ...; loading makes the next steps
   the same to the bit, and refuses the state of another optimizer. */
INTACT_API intact_status intact_optimizer_save(const intact_optimizer *optimizer, const char *prefix, intact_tensor_set *set);
INTACT_API intact_status intact_optimizer_load(intact_optimizer *optimizer, const char *prefix, const intact_tensor_set *set);

/* ---- schedules ---- */
typedef struct intact_scheduler_options {
  double gamma;                 /* StepLR MultiStepLR ExponentialLR CyclicLR(exp_range) */
  int64_t step_size;            /* StepLR */
  int n_milestones;             /* MultiStepLR; SequentialLR: first step of children 1, 2 ... */
  int64_t milestones[16];
  int64_t t_max;                /* CosineAnnealingLR */
  double eta_min;               /* CosineAnnealingLR CosineAnnealingWarmRestarts */
  int64_t t_0, t_mult;          /* CosineAnnealingWarmRestarts */
  double start_factor, end_factor, factor; /* LinearLR; ConstantLR ReduceLROnPlateau */
  int64_t total_iters;          /* LinearLR ConstantLR PolynomialLR */
  double power;                 /* PolynomialLR */
  double (*lambda)(void *user, int64_t step); /* LambdaLR: factor of the start value */
  void *user;
  double max_lr, pct_start, div_factor, final_div_factor; /* OneCycleLR (max_lr 0: each group's own rate); max_lr also CyclicLR */
  int64_t total_steps;
  bool three_phase, linear;     /* OneCycleLR: linear instead of cosine */
  bool cycle_momentum;          /* OneCycleLR CyclicLR */
  double base_momentum, max_momentum;
  double base_lr;               /* CyclicLR */
  int64_t step_size_up, step_size_down; /* CyclicLR; down 0: as up */
  const char *mode;             /* CyclicLR "triangular" "triangular2" "exp_range"; ReduceLROnPlateau "min" "max" */
  bool absolute;                /* ReduceLROnPlateau: threshold_mode "abs" */
  double threshold, min_lr, eps;
  int64_t patience, cooldown;
  int n_children;               /* SequentialLR */
  const struct intact_scheduler_child *children;
} intact_scheduler_options;
typedef struct intact_scheduler_child {
  const char *name;
  const intact_scheduler_options *options;
} intact_scheduler_child;

/* The defaults of schedule `name`: "StepLR" "MultiStepLR" "ExponentialLR" "CosineAnnealingLR" "CosineAnnealingWarmRestarts"
   "LinearLR" "ConstantLR" "PolynomialLR" "LambdaLR" "OneCycleLR" "CyclicLR" "SequentialLR" "ReduceLROnPlateau" (any case). */
INTACT_API intact_status intact_scheduler_default_options(intact_context *context, const char *name,
                                                          intact_scheduler_options *options);
/* Whether schedule `name` (any case) goes by the option; false when there is no such schedule. */
INTACT_API bool intact_scheduler_has_option(const char *name, const char *option);
/* Sets an option from text, by PyTorch's name ("T_max", "milestones" as "3;7", "anneal_strategy", "threshold_mode" ...). Text that
   is kept (mode) must stay alive. */
INTACT_API intact_status intact_scheduler_set_option(intact_context *context, intact_scheduler_options *options, const char *name,
                                                     const char *value);

typedef struct intact_scheduler intact_scheduler;
/* Takes the groups' learning rates as start values and sets those of step 0. The optimizer must outlive the schedule. */
INTACT_API intact_status intact_scheduler_create(intact_optimizer *optimizer, const char *name,
                                                 const intact_scheduler_options *options, intact_scheduler **scheduler);
INTACT_API void intact_scheduler_destroy(intact_scheduler *scheduler); /* takes NULL */
/* Goes to the next step; `metric` is what ReduceLROnPlateau watches. Fails past the end of OneCycleLR. */
INTACT_API intact_status intact_scheduler_step(intact_scheduler *scheduler, double metric);
INTACT_API intact_status intact_scheduler_save(const intact_scheduler *scheduler, const char *prefix, intact_tensor_set *set);
INTACT_API intact_status intact_scheduler_load(intact_scheduler *scheduler, const char *prefix, const intact_tensor_set *set);

/* ---- clipping ---- */
/* Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm over all elements of all of them (norm_type > 0, inf: the largest
   magnitude); NULL entries count for nothing. total_norm may be NULL. A norm that is not finite is refused and nothing changes. */
INTACT_API intact_status intact_clip_grad_norm(intact_context *context, int n, intact_tensor *const *gradients, double max_norm,
                                               double norm_type, double *total_norm);
INTACT_API intact_status intact_clip_grad_value(intact_context *context, int n, intact_tensor *const *gradients, double limit);

#ifdef __cplusplus
}
#endif
#endif
