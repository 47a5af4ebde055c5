/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules, each as a closed formula of the step. */
#include <math.h>
#include <string.h>

#include "autograd/scheduler.h"

#define PI 3.14159265358979323846
typedef intact_scheduler_options options;
typedef intact_schedule_point point;

static point rate(double lr) { return (point){lr, NAN}; }

static point at_step(const options *o, double start, int64_t step) {
  return rate(start * pow(o->gamma, (double)(step / o->step_size)));
}
static const char *check_step(const options *o) { return o->step_size >= 1 ? NULL : "step_size is at least 1"; }
const intact_scheduler_row intact__scheduler_step = {
    .name = "StepLR",
    .doc = "times gamma every step_size steps",
    .options = "gamma=0.1,step_size=1",
    .check = check_step,
    .at = at_step,
};

static int passed(const options *o, int64_t step) {
  int n = 0;
  while (n < o->n_milestones && o->milestones[n] <= step) n++;
  return n;
}
static const char *check_milestones(const options *o) {
  enum { MOST = sizeof o->milestones / sizeof *o->milestones };
  if (o->n_milestones < 0 || o->n_milestones > MOST) return "there are 0 to 16 milestones";
  for (int i = 1; i < o->n_milestones; i++) {
    if (o->milestones[i] < o->milestones[i - 1]) return "milestones go up";
  }
  return NULL;
}
static point at_multi_step(const options *o, double start, int64_t step) {
  return rate(start * pow(o->gamma, passed(o, step)));
}
const intact_scheduler_row intact__scheduler_multi_step = {
    .name = "MultiStepLR",
    .doc = "times gamma at every milestone",
    .options = "gamma=0.1,milestones=",
    .check = check_milestones,
    .at = at_multi_step,
};

static point at_exponential(const options *o, double start, int64_t step) {
  return rate(start * pow(o->gamma, (double)step));
}
const intact_scheduler_row intact__scheduler_exponential = {
    .name = "ExponentialLR",
    .doc = "times gamma at every step",
    .options = "gamma=0.95",
    .at = at_exponential,
};

/* A wave of period 2 T_max. */
static point at_cosine(const options *o, double start, int64_t step) {
  return rate(o->eta_min + (start - o->eta_min) * (1 + cos(PI * (double)step / (double)o->t_max)) / 2);
}
static const char *check_cosine(const options *o) { return o->t_max >= 1 ? NULL : "T_max is at least 1"; }
const intact_scheduler_row intact__scheduler_cosine = {
    .name = "CosineAnnealingLR",
    .doc = "a wave down to eta_min in T_max steps and up again",
    .options = "T_max=1,eta_min=0",
    .check = check_cosine,
    .at = at_cosine,
};

static point at_cosine_restarts(const options *o, double start, int64_t step) {
  int64_t length = o->t_0;
  if (o->t_mult == 1) {
    step %= length;
  } else {
    while (step >= length) {
      step -= length;
      length = length > INT64_MAX / o->t_mult ? INT64_MAX : length * o->t_mult;
    }
  }
  return rate(o->eta_min + (start - o->eta_min) * (1 + cos(PI * (double)step / (double)length)) / 2);
}
static const char *check_cosine_restarts(const options *o) {
  return o->t_0 >= 1 && o->t_mult >= 1 ? NULL : "T_0 and T_mult are at least 1";
}
const intact_scheduler_row intact__scheduler_cosine_restarts = {
    .name = "CosineAnnealingWarmRestarts",
    .doc = "half waves down to eta_min, each T_mult times as long as the one before",
    .options = "T_0=1,T_mult=1,eta_min=0",
    .check = check_cosine_restarts,
    .at = at_cosine_restarts,
};

static const char *check_iterations(const options *o) { return o->total_iters >= 1 ? NULL : "total_iters is at least 1"; }

static point at_linear(const options *o, double start, int64_t step) {
  const double done = (double)(step < o->total_iters ? step : o->total_iters) / (double)o->total_iters;
  return rate(start * (o->start_factor + (o->end_factor - o->start_factor) * done));
}
static const char *check_linear(const options *o) {
  if (!(o->start_factor > 0 && o->start_factor <= 1)) return "start_factor is above 0 and at most 1";
  if (!(o->end_factor >= 0 && o->end_factor <= 1)) return "end_factor is between 0 and 1";
  return check_iterations(o);
}
const intact_scheduler_row intact__scheduler_linear = {
    .name = "LinearLR",
    .doc = "from start_factor to end_factor times the rate",
    .options = "start_factor=0.3333333333333333,end_factor=1,total_iters=5",
    .check = check_linear,
    .at = at_linear,
};

/* As PyTorch's, which takes the factor back at step total_iters: never when that is 0. */
static point at_constant(const options *o, double start, int64_t step) {
  return rate(step < o->total_iters || o->total_iters == 0 ? start * o->factor : start);
}
static const char *check_constant(const options *o) {
  return o->factor >= 0 && o->factor <= 1 ? NULL : "factor is between 0 and 1";
}
const intact_scheduler_row intact__scheduler_constant = {
    .name = "ConstantLR",
    .doc = "factor times the rate until total_iters",
    .options = "factor=0.3333333333333333,total_iters=5",
    .check = check_constant,
    .at = at_constant,
};

static point at_polynomial(const options *o, double start, int64_t step) {
  const double done = (double)(step < o->total_iters ? step : o->total_iters) / (double)o->total_iters;
  return rate(start * pow(1 - done, o->power));
}
const intact_scheduler_row intact__scheduler_polynomial = {
    .name = "PolynomialLR",
    .doc = "falls to 0 as (1 - done)^power",
    .options = "total_iters=5,power=1",
    .check = check_iterations,
    .at = at_polynomial,
};

static point at_lambda(const options *o, double start, int64_t step) { return rate(start * o->lambda(o->user, step)); }
static const char *check_lambda(const options *o) { return o->lambda ? NULL : "a function (lambda) is needed"; }
const intact_scheduler_row intact__scheduler_lambda = {
    .name = "LambdaLR",
    .doc = "times a function of the step (in C only)",
    .options = "",
    .check = check_lambda,
    .at = at_lambda,
};

/* Of the two schedules that move the momentum. */
static const char *wrong_momentum(const options *o) {
  const bool good = o->base_momentum >= 0 && o->base_momentum < 1 && o->max_momentum >= 0 && o->max_momentum < 1;
  return good || !o->cycle_momentum ? NULL : "base_momentum and max_momentum are at least 0 and below 1";
}

/* Up to max_lr, down again, and on to nearly nothing; the momentum the other way round. */
static point at_one_cycle(const options *o, double start, int64_t step) {
  const double top = o->max_lr > 0 ? o->max_lr : start, low = top / o->div_factor, lowest = low / o->final_div_factor, last = (double)o->total_steps - 1;
  const double up = o->pct_start * (double)o->total_steps;
  const struct phase {
    double end, lr[2], momentum[2];
  } phases[3] = {{up - 1, {low, top}, {o->max_momentum, o->base_momentum}},
                 {o->three_phase ? 2 * up - 2 : last, {top, o->three_phase ? low : lowest}, {o->base_momentum, o->max_momentum}},
                 {last, {low, lowest}, {o->max_momentum, o->max_momentum}}};
  const int n = o->three_phase ? 3 : 2;
  int i = 0;
  while (i < n - 1 && (double)step > phases[i].end) i++;
  const double begin = i ? phases[i - 1].end : 0, length = phases[i].end - begin;
  const double done = length > 0 ? ((double)step - begin) / length : 1; /* a phase of one step is at its end */
  const double left = o->linear ? 1 - done : (1 + cos(PI * done)) / 2; /* share of the phase's start value */
  const struct phase *p = &phases[i];
  return (point){p->lr[1] + (p->lr[0] - p->lr[1]) * left,
                 o->cycle_momentum ? p->momentum[1] + (p->momentum[0] - p->momentum[1]) * left : NAN};
}
static const char *check_one_cycle(const options *o) {
  if (!(o->max_lr >= 0)) return "max_lr is above 0, or 0 for the learning rate that each group starts with";
  if (o->total_steps < 1) return "total_steps is at least 1";
  if (!(o->pct_start >= 0 && o->pct_start <= 1)) return "pct_start is between 0 and 1";
  if (wrong_momentum(o)) return wrong_momentum(o);
  return o->div_factor > 0 && o->final_div_factor > 0 ? NULL : "div_factor and final_div_factor are above 0";
}
const intact_scheduler_row intact__scheduler_one_cycle = {
    .name = "OneCycleLR",
    .doc = "up to max_lr (0: the rate), down, and on to nearly nothing; the momentum the other way round",
    .options = "max_lr=0,total_steps=0,pct_start=0.3,anneal_strategy=cos,cycle_momentum=true,base_momentum=0.85,"
               "max_momentum=0.95,div_factor=25,final_div_factor=10000,three_phase=false",
    .check = check_one_cycle,
    .at = at_one_cycle,
};

static point at_cyclic(const options *o, double start, int64_t step) {
  (void)start;
  const double up = (double)o->step_size_up, down = o->step_size_down ? (double)o->step_size_down : up, total = up + down;
  const double cycle = floor(1 + (double)step / total), x = 1 + (double)step / total - cycle, ratio = up / total;
  double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
  if (strcmp(o->mode, "triangular2") == 0) height /= pow(2, cycle - 1);
  if (strcmp(o->mode, "exp_range") == 0) height *= pow(o->gamma, (double)step);
  return (point){o->base_lr + (o->max_lr - o->base_lr) * height,
                 o->cycle_momentum ? o->max_momentum - (o->max_momentum - o->base_momentum) * height : NAN};
}
static const char *check_cyclic(const options *o) {
  if (o->step_size_up < 1 || o->step_size_down < 0) return "step_size_up is at least 1 and step_size_down not below 0";
  if (!(o->base_lr > 0) || !(o->max_lr >= o->base_lr)) return "base_lr is above 0 and max_lr not below it; give both";
  if (wrong_momentum(o)) return wrong_momentum(o);
  if (strcmp(o->mode, "triangular") == 0 || strcmp(o->mode, "triangular2") == 0 || strcmp(o->mode, "exp_range") == 0) return NULL;
  return "mode is triangular, triangular2 or exp_range";
}
const intact_scheduler_row intact__scheduler_cyclic = {
    .name = "CyclicLR",
    .doc = "up and down between base_lr and max_lr; the momentum the other way round",
    .options = "base_lr=0,max_lr=0,step_size_up=2000,step_size_down=0,mode=triangular,gamma=1,cycle_momentum=true,"
               "base_momentum=0.8,max_momentum=0.9",
    .check = check_cyclic,
    .at = at_cyclic,
};

/* Child i runs from milestone i-1 on, with a step count of its own. */
static point at_sequential(const options *o, double start, int64_t step) {
  const int i = passed(o, step);
  const intact_scheduler_row *row = intact__find_scheduler(o->children[i].name);
  return row->at(o->children[i].options, start, i ? step - o->milestones[i - 1] : step);
}
static const char *check_sequential(const options *o) {
  if (o->n_children < 1 || !o->children || o->n_milestones != o->n_children - 1) return "one milestone fewer than children";
  for (int i = 0; i < o->n_children; i++) {
    const intact_scheduler_child *child = &o->children[i];
    const intact_scheduler_row *row = child->name ? intact__find_scheduler(child->name) : NULL;
    if (!child->options) return "a child has no options; intact_scheduler_default_options gives them";
    if (!row || !row->at || row == &intact__scheduler_sequential) return "children are schedules that go by the step alone";
    const char *wrong = row->check ? row->check(child->options) : NULL;
    if (wrong) return wrong;
  }
  return check_milestones(o);
}
const intact_scheduler_row intact__scheduler_sequential = {
    .name = "SequentialLR",
    .doc = "other schedules one after the other, from milestone to milestone (in C only)",
    .options = "milestones=",
    .check = check_sequential,
    .at = at_sequential,
};

static const char *check_plateau(const options *o) {
  if (!(o->factor > 0 && o->factor < 1)) return "factor is between 0 and 1";
  if (strcmp(o->mode, "min") != 0 && strcmp(o->mode, "max") != 0) return "mode is min or max";
  return o->patience >= 0 && o->cooldown >= 0 ? NULL : "patience and cooldown are not below 0";
}
const intact_scheduler_row intact__scheduler_plateau = {
    .name = "ReduceLROnPlateau",
    .doc = "times factor when the metric has not got better for more than patience steps",
    .options = "mode=min,factor=0.1,patience=10,threshold=0.0001,threshold_mode=rel,cooldown=0,min_lr=0,eps=1e-8",
    .check = check_plateau,
};
