/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of qat_module cases with slow_path: the batch statistics come from a second, float convolution, so that nothing is divided by
   the norm's weight. Composed of calls on the tape. */
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "conformance/qat_lab.h"
#include "ops/ops.h"

enum { W, BIAS, GAMMA, BETA, PARAMETERS, MAX_VALUES = 64 };
static const char *const names[PARAMETERS] = {"weight", "bias", "bn.weight", "bn.bias"};

typedef struct slow_module {
  conf_case *c;
  intact_context *context;
  intact_status status; /* of the calls so far; later ones do nothing */
  intact_variable *parameters[PARAMETERS], *mean, *var; /* mean, var: the running ones */
  intact_graph *fake; /* holds fake_quantize alone */
  intact_node *fake_node;
  intact_variable *values[MAX_VALUES]; /* of this step */
  int n_values;
  const char *layer; /* its op */
  char pads[40], channel_shape[40], reduced[40];
  qat_series series[3];
} slow_module;

static intact_variable *keep(slow_module *m, intact_variable *value) {
  if (m->status != INTACT_OK || m->n_values == MAX_VALUES) {
    intact_variable_release(value);
    return NULL;
  }
  return m->values[m->n_values++] = value;
}

static void drop_values(slow_module *m) {
  while (m->n_values > 0) intact_variable_release(m->values[--m->n_values]);
}

static intact_variable *call(slow_module *m, const char *op, const char *attributes, intact_variable *a, intact_variable *b) {
  intact_variable *result = NULL;
  if (m->status == INTACT_OK) m->status = qat_call(m->context, op, attributes, a, b, &result);
  return keep(m, result);
}

/* sqrt(x + eps) */
static intact_variable *deviation(slow_module *m, intact_variable *var) {
  intact_tensor *eps;
  intact_variable *variable = NULL;
  if (m->status != INTACT_OK) return NULL;
  m->status = intact__tensor_scalar_f32(m->context, (float)conf_attr_f64(m->c, "eps", 1e-5), &eps);
  if (m->status == INTACT_OK) m->status = intact_variable_create(eps, false, &variable);
  intact_tensor_destroy(eps);
  return call(m, "sqrt", NULL, call(m, "add", NULL, var, keep(m, variable)), NULL);
}

/* [C] against [N,C,...] */
static intact_variable *per_channel(slow_module *m, intact_variable *v) { return call(m, "reshape", m->channel_shape, v, NULL); }

static void update_statistics(slow_module *m, intact_variable *conv) {
  intact_variable *results[3] = {NULL};
  char attributes[120];
  intact_grad_set_enabled(m->context, false);
  if (m->parameters[BIAS]) conv = call(m, "add", NULL, conv, per_channel(m, m->parameters[BIAS]));
  snprintf(attributes, sizeof attributes, "training=true momentum=%.9g eps=%.9g", conf_attr_f64(m->c, "momentum", 0.1),
           conf_attr_f64(m->c, "eps", 1e-5));
  intact_variable *const operands[5] = {conv, m->parameters[GAMMA], m->parameters[BETA], m->mean, m->var};
  if (m->status == INTACT_OK) m->status = intact_variable_call(m->context, "batch_norm", attributes, 5, operands, 3, results);
  intact_grad_set_enabled(m->context, true);
  if (m->status != INTACT_OK) return;
  intact_variable_release(results[0]);
  intact_variable_release(m->mean);
  intact_variable_release(m->var);
  m->mean = results[1];
  m->var = results[2];
}

static intact_variable *fake_weight(slow_module *m) {
  char attributes[80];
  intact_variable *folded = NULL, *result = NULL;
  snprintf(attributes, sizeof attributes, "divide=true eps=%.9g", conf_attr_f64(m->c, "eps", 1e-5));
  intact_variable *const operands[3] = {m->parameters[W], m->parameters[GAMMA], m->var};
  if (m->status == INTACT_OK) m->status = intact_variable_call(m->context, "fold_weight", attributes, 3, operands, 1, &folded);
  folded = keep(m, folded);
  if (m->status == INTACT_OK) m->status = intact__observation_update(m->fake_node->observation, intact_variable_tensor(folded));
  if (m->status == INTACT_OK) {
    const intact_tensor *const tensors[1] = {intact_variable_tensor(folded)};
    m->status = intact__tape_call(m->fake_node, tensors, &folded, 1, &result);
  }
  return keep(m, result);
}

static intact_variable *forward(slow_module *m, intact_variable *x, bool training) {
  intact_variable *mean, *dev, *const *p = m->parameters, *conv = NULL, *y;
  if (training) {
    conv = call(m, m->layer, m->pads, x, p[W]);
    update_statistics(m, conv);
  }
  y = call(m, m->layer, m->pads, x, fake_weight(m));
  if (training) {
    mean = call(m, "mean", m->reduced, conv, NULL);
    intact_variable *gap = call(m, "sub", NULL, conv, mean);
    dev = deviation(m, call(m, "mean", m->reduced, call(m, "mul", NULL, gap, gap), NULL));
    y = call(m, "mul", NULL, y, call(m, "div", NULL, deviation(m, per_channel(m, m->var)), dev));
  } else {
    mean = per_channel(m, p[BIAS] ? call(m, "sub", NULL, m->mean, p[BIAS]) : m->mean);
    dev = deviation(m, per_channel(m, m->var));
  }
  intact_variable *part = call(m, "div", NULL, call(m, "mul", NULL, per_channel(m, p[GAMMA]), mean), dev);
  y = call(m, "add", NULL, y, call(m, "sub", NULL, per_channel(m, p[BETA]), part));
  if (p[BIAS]) y = call(m, "add", NULL, y, per_channel(m, call(m, "sub", NULL, p[BIAS], p[BIAS]))); /* the bias takes part, with 0 */
  return strstr(m->c->op, "ReLU") ? call(m, "relu", NULL, y, NULL) : y;
}

static intact_status give_step(slow_module *m, int64_t step, const intact_variable *x, const intact_variable *y) {
  char name[100];
  snprintf(name, sizeof name, "y.%lld", (long long)step);
  INTACT_TRY(qat_give_copy(m->c, intact_variable_tensor(y), name));
  snprintf(name, sizeof name, "dx.%lld", (long long)step);
  INTACT_TRY(qat_give_copy(m->c, intact_variable_gradient(x), name));
  for (int i = 0; i < PARAMETERS; i++) {
    snprintf(name, sizeof name, "grad.%lld.%s", (long long)step, names[i]);
    if (m->parameters[i]) INTACT_TRY(qat_give_copy(m->c, intact_variable_gradient(m->parameters[i]), name));
  }
  return INTACT_OK;
}

static intact_status take_step(slow_module *m, int64_t step, int64_t steps) {
  conf_case *c = m->c;
  intact_variable *x = NULL;
  const bool training = !conf_attr(c, "freeze_bn_at") || step < conf_attr_int(c, "freeze_bn_at", 0);
  for (int i = 0; i < PARAMETERS; i++)
    if (m->parameters[i]) intact_variable_clear_gradient(m->parameters[i]);
  INTACT_TRY(qat_variable(conf_input(c, "x.%lld", (long long)step), true, &x));
  x = keep(m, x);
  const intact_variable *y = forward(m, x, training);
  INTACT_TRY(m->status);
  INTACT_TRY(intact_variable_backward(m->values[m->n_values - 1], conf_input(c, "dy.%lld", (long long)step), false));
  INTACT_TRY(give_step(m, step, x, y));
  const float rate = (float)(conf_attr_f64(c, "lr", 0) / (double)intact_variable_tensor(x)->dims[0]);
  for (int i = 0; i < PARAMETERS; i++) {
    const intact_tensor *g = m->parameters[i] ? intact_variable_gradient(m->parameters[i]) : NULL;
    float *to = g ? intact_tensor_mutable_data(intact_variable_tensor(m->parameters[i])) : NULL;
    for (int64_t k = 0; g && k < g->count; k++) to[k] -= rate * intact__f32(g)[k];
  }
  INTACT_TRY(qat_series_put(c, &m->series[0], "running_mean", steps, step, intact_variable_tensor(m->mean)));
  INTACT_TRY(qat_series_put(c, &m->series[1], "running_var", steps, step, intact_variable_tensor(m->var)));
  return qat_series_put(c, &m->series[2], "weight_scale", steps, step, m->fake_node->observation->fake->scale);
}

static intact_status make_fake(slow_module *m) {
  const intact_tensor *w = conf_input(m->c, "init.weight");
  const intact_fake_row *row;
  const char *options;
  char text[100];
  intact_value *value;
  const intact_wish wish = qat_wish(m->c, "weight", INTACT_S8);
  qat_fake_text(m->c, "weight", text, sizeof text);
  INTACT_TRY(intact__graph_create(m->context, "fake", &m->fake));
  INTACT_TRY(intact__graph_add_input(m->fake, "w", INTACT_F32, w->rank, w->dims, &value));
  INTACT_TRY(intact__graph_add_node(m->fake, intact__find_op("fake_quantize"), "fake", 1, &value, 1, NULL, NULL, &m->fake_node));
  INTACT_TRY(intact__fake_quantizer_parse(m->context, text, &row, &options));
  return intact__fake_observation(m->context, &wish, row, options, true, w->dims[0], &m->fake_node->observation);
}

/* The layer by the weight's rank, and the attributes that go with it. */
static void choose_layer(slow_module *m) {
  static const char *const layers[] = {"linear", "conv1d", "conv2d", "conv3d"};
  const intact_tensor *w = conf_input(m->c, "init.weight");
  const int spatial = w && w->rank >= 2 && w->rank <= 5 ? w->rank - 2 : 0;
  m->layer = layers[spatial];
  if (spatial > 0) snprintf(m->pads, sizeof m->pads, "padding=[%lld]", (long long)conf_attr_int(m->c, "padding", 0));
  snprintf(m->channel_shape, sizeof m->channel_shape, "shape=[1,-1%.*s]", 2 * spatial, ",1,1,1");
  snprintf(m->reduced, sizeof m->reduced, "dim=[0%.*s] keepdim=true", 2 * spatial, ",2,3,4");
}

static intact_status run(slow_module *m) {
  conf_case *c = m->c;
  const int64_t steps = conf_attr_int(c, "steps", 0);
  choose_layer(m);
  for (int i = 0; i < PARAMETERS; i++) {
    const intact_tensor *start = conf_input(c, "init.%s", names[i]);
    if (start) INTACT_TRY(qat_variable(start, true, &m->parameters[i]));
  }
  INTACT_TRY(qat_variable(conf_input(c, "init.bn.running_mean"), false, &m->mean));
  INTACT_TRY(qat_variable(conf_input(c, "init.bn.running_var"), false, &m->var));
  INTACT_TRY(make_fake(m));
  for (int64_t step = 0; step < steps; step++) {
    INTACT_TRY(take_step(m, step, steps));
    drop_values(m);
  }
  for (int i = 0; i < PARAMETERS; i++) {
    char name[100];
    snprintf(name, sizeof name, "final.%s", names[i]);
    if (m->parameters[i]) INTACT_TRY(qat_give_copy(c, intact_variable_tensor(m->parameters[i]), name));
  }
  intact_variable *x = NULL;
  INTACT_TRY(qat_variable(conf_input(c, "x.0"), false, &x));
  const intact_variable *y = forward(m, keep(m, x), false);
  INTACT_TRY(m->status);
  return qat_give_copy(c, intact_variable_tensor(y), "eval_y");
}

intact_status conf_handle_qat_slow(conf_case *c) {
  slow_module m = {.c = c, .context = c->context};
  const intact_status status = run(&m);
  drop_values(&m);
  for (int i = 0; i < 3; i++) intact_tensor_destroy(m.series[i].tensor);
  for (int i = 0; i < PARAMETERS; i++) intact_variable_release(m.parameters[i]);
  intact_variable_release(m.mean);
  intact_variable_release(m.var);
  intact_graph_destroy(m.fake);
  return status;
}
