/* SPDX-License-Identifier: Apache-2.0 */
/* The update rules, one pass over a parameter each. g is the gradient with its sign (maximize) and weight decay. */
#include <math.h>
#include <stddef.h>

#include "autograd/optimizer.h"

/* Sign and decay of the gradient, as every rule but AdamW takes them. */
typedef struct gradient_rule {
  float sign, decay;
} gradient_rule;
static gradient_rule rule_of(const intact_optimizer_options *options) {
  return (gradient_rule){options->maximize ? -1.0f : 1.0f, (float)options->weight_decay};
}
static inline float effective(gradient_rule rule, float gradient, float parameter) {
  return rule.sign * gradient + rule.decay * parameter;
}

/* buffer = momentum buffer + (1 - dampening) g, at first g; nesterov: g + momentum buffer. */
static void step_sgd(const intact_optimizer_call *call) {
  const intact_optimizer_options *o = call->options;
  const gradient_rule rule = rule_of(o);
  const float lr = (float)o->lr, momentum = (float)o->momentum;
  float *restrict p = call->parameter, *restrict buffer = call->state[0];
  const float *restrict gradient = call->gradient;
  if (!buffer) {
    for (int64_t i = 0; i < call->n; i++) p[i] -= lr * effective(rule, gradient[i], p[i]);
    return;
  }
  const float keep = call->fresh ? 0 : momentum, take = call->fresh ? 1 : (float)(1 - o->dampening);
  const float ahead = o->nesterov ? momentum : 1, now = o->nesterov ? 1 : 0;
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]);
    buffer[i] = keep * buffer[i] + take * g;
    p[i] -= lr * (now * g + ahead * buffer[i]);
  }
}

static bool keeps_sgd(const intact_optimizer_options *options, int i) {
  (void)i;
  return options->momentum != 0;
}

const intact_optimizer_row intact__optimizer_sgd = {
    .name = "SGD",
    .doc = "p -= lr g, g by a momentum buffer",
    .options = "lr=0.001,momentum=0,dampening=0,weight_decay=0,nesterov=false,maximize=false",
    .states = {"momentum_buffer"},
    .keeps = keeps_sgd,
    .momentum = INTACT_MOMENTUM_MOMENTUM,
    .step = step_sgd,
};

/* m and v: moving averages of g and g^2; p -= lr/(1-beta1^t) m / (sqrt(v)/sqrt(1-beta2^t) + eps). */
static void adam(const intact_optimizer_call *call, gradient_rule rule, float shrink) {
  const intact_optimizer_options *o = call->options;
  const double correction1 = 1 - pow(o->beta1, (double)call->step), correction2 = 1 - pow(o->beta2, (double)call->step);
  const float rate = (float)(o->lr / correction1), root = (float)sqrt(correction2), eps = (float)o->eps;
  const float take1 = (float)(1 - o->beta1), beta2 = (float)o->beta2, take2 = (float)(1 - o->beta2);
  float *restrict p = call->parameter, *restrict m = call->state[0], *restrict v = call->state[1];
  float *restrict largest = call->state[2];
  const float *restrict gradient = call->gradient;
  if (!largest) {
    for (int64_t i = 0; i < call->n; i++) {
      const float g = effective(rule, gradient[i], p[i]);
      m[i] += take1 * (g - m[i]);
      v[i] = beta2 * v[i] + take2 * g * g;
      p[i] = p[i] * shrink - rate * (m[i] / (sqrtf(v[i]) / root + eps));
    }
    return;
  }
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]);
    m[i] += take1 * (g - m[i]);
    v[i] = beta2 * v[i] + take2 * g * g;
    largest[i] = v[i] > largest[i] ? v[i] : largest[i];
    p[i] = p[i] * shrink - rate * (m[i] / (sqrtf(largest[i]) / root + eps));
  }
}

static void step_adam(const intact_optimizer_call *call) { adam(call, rule_of(call->options), 1); }

/* The decay acts on the parameter alone. */
static void step_adamw(const intact_optimizer_call *call) {
  gradient_rule rule = rule_of(call->options);
  rule.decay = 0;
  adam(call, rule, (float)(1 - call->options->lr * call->options->weight_decay));
}

static bool keeps_adam(const intact_optimizer_options *options, int i) { return i < 2 || options->amsgrad; }

const intact_optimizer_row intact__optimizer_adam = {
    .name = "Adam",
    .doc = "moving averages of g and g^2; the decay is part of g",
    .options = "lr=0.001,beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0,amsgrad=false,maximize=false",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .keeps = keeps_adam,
    .momentum = INTACT_MOMENTUM_BETA1,
    .step = step_adam,
};

const intact_optimizer_row intact__optimizer_adamw = {
    .name = "AdamW",
    .doc = "Adam whose decay acts on the parameter alone",
    .options = "lr=0.001,beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0.01,amsgrad=false,maximize=false",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .keeps = keeps_adam,
    .momentum = INTACT_MOMENTUM_BETA1,
    .step = step_adamw,
};

/* u: decaying maximum of |g|; p -= lr/(1-beta1^t) m / u. */
static void step_adamax(const intact_optimizer_call *call) {
  const intact_optimizer_options *o = call->options;
  const gradient_rule rule = rule_of(o);
  const float rate = (float)(o->lr / (1 - pow(o->beta1, (double)call->step))), take = (float)(1 - o->beta1);
  const float beta2 = (float)o->beta2, eps = (float)o->eps;
  float *restrict p = call->parameter, *restrict m = call->state[0], *restrict u = call->state[1];
  const float *restrict gradient = call->gradient;
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]), old = beta2 * u[i], now = fabsf(g) + eps;
    m[i] += take * (g - m[i]);
    u[i] = old > now ? old : now;
    p[i] -= rate * (m[i] / u[i]);
  }
}

const intact_optimizer_row intact__optimizer_adamax = {
    .name = "Adamax",
    .doc = "Adam with the decaying maximum of |g| in place of the average of g^2",
    .options = "lr=0.002,beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0,maximize=false",
    .states = {"exp_avg", "exp_inf"},
    .momentum = INTACT_MOMENTUM_BETA1,
    .step = step_adamax,
};

/* s: moving average of g^2, minus the square of that of g when centered; p -= lr g / (sqrt(s) + eps), through a momentum buffer. */
static void step_rmsprop(const intact_optimizer_call *call) {
  const intact_optimizer_options *o = call->options;
  const gradient_rule rule = rule_of(o);
  const float lr = (float)o->lr, alpha = (float)o->alpha, take = (float)(1 - o->alpha), eps = (float)o->eps;
  const float momentum = (float)o->momentum;
  float *restrict p = call->parameter, *restrict s = call->state[0], *restrict mean = call->state[1];
  float *restrict buffer = call->state[2];
  const float *restrict gradient = call->gradient;
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]);
    float variance = s[i] = alpha * s[i] + take * g * g;
    if (mean) {
      mean[i] += take * (g - mean[i]);
      variance -= mean[i] * mean[i];
    }
    float move = g / (sqrtf(variance) + eps);
    if (buffer) move = buffer[i] = momentum * buffer[i] + move;
    p[i] -= lr * move;
  }
}

static bool keeps_rmsprop(const intact_optimizer_options *options, int i) {
  return i == 0 || (i == 1 && options->centered) || (i == 2 && options->momentum != 0);
}

const intact_optimizer_row intact__optimizer_rmsprop = {
    .name = "RMSprop",
    .doc = "g by the root of a moving average of g^2",
    .options = "lr=0.01,alpha=0.99,eps=1e-8,weight_decay=0,momentum=0,centered=false,maximize=false",
    .states = {"square_avg", "grad_avg", "momentum_buffer"},
    .keeps = keeps_rmsprop,
    .momentum = INTACT_MOMENTUM_MOMENTUM,
    .step = step_rmsprop,
};

/* s: sum of g^2; p -= lr/(1 + (t-1) lr_decay) g / (sqrt(s) + eps). */
static void step_adagrad(const intact_optimizer_call *call) {
  const intact_optimizer_options *o = call->options;
  const gradient_rule rule = rule_of(o);
  const float rate = (float)(o->lr / (1 + (double)(call->step - 1) * o->lr_decay)), eps = (float)o->eps;
  float *restrict p = call->parameter, *restrict s = call->state[0];
  const float *restrict gradient = call->gradient;
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]);
    s[i] += g * g;
    p[i] -= rate * (g / (sqrtf(s[i]) + eps));
  }
}

const intact_optimizer_row intact__optimizer_adagrad = {
    .name = "Adagrad",
    .doc = "g by the root of the sum of all g^2",
    .options = "lr=0.01,lr_decay=0,weight_decay=0,initial_accumulator_value=0,eps=1e-10,maximize=false",
    .states = {"sum"},
    .starts_at_accumulator = true,
    .step = step_adagrad,
};

/* s, d: moving averages of g^2 and of the squared moves; move = sqrt(d + eps) / sqrt(s + eps) g. */
static void step_adadelta(const intact_optimizer_call *call) {
  const intact_optimizer_options *o = call->options;
  const gradient_rule rule = rule_of(o);
  const float lr = (float)o->lr, rho = (float)o->rho, take = (float)(1 - o->rho), eps = (float)o->eps;
  float *restrict p = call->parameter, *restrict s = call->state[0], *restrict d = call->state[1];
  const float *restrict gradient = call->gradient;
  for (int64_t i = 0; i < call->n; i++) {
    const float g = effective(rule, gradient[i], p[i]);
    s[i] = rho * s[i] + take * g * g;
    const float move = sqrtf(d[i] + eps) / sqrtf(s[i] + eps) * g;
    d[i] = rho * d[i] + take * move * move;
    p[i] -= lr * move;
  }
}

const intact_optimizer_row intact__optimizer_adadelta = {
    .name = "Adadelta",
    .doc = "g by the ratio of two moving averages: of moves and of gradients",
    .options = "lr=1,rho=0.9,eps=1e-6,weight_decay=0,maximize=false",
    .states = {"square_avg", "acc_delta"},
    .step = step_adadelta,
};
