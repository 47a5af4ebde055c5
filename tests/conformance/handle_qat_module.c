/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of qat_training that train one module or one tensor: qat_module.*, lsq_train, train_linear_regression. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/qat_lab.h"

/* ---- train_linear_regression ---- */

typedef struct regression {
  conf_case *c;
  intact_context *context;
  bool fake_quant;
  intact_variable *x, *y, *weight, *bias, *output; /* output: of the last forward */
  intact_tensor *scale;
} regression;

static intact_status weight_scale(regression *r) {
  const intact_tensor *w = intact_variable_tensor(r->weight);
  float most = 0;
  for (int64_t i = 0; i < w->count; i++) most = fmaxf(most, fabsf(intact__f32(w)[i]));
  const int64_t one = 1;
  intact_tensor_destroy(r->scale);
  r->scale = NULL;
  INTACT_TRY(intact_tensor_create(r->context, INTACT_F32, 1, &one, &r->scale));
  intact__f32(r->scale)[0] = fmaxf(most / (float)conf_attr_f64(r->c, "levels", 127), (float)conf_attr_f64(r->c, "scale_floor", 1e-8));
  return INTACT_OK;
}

/* w + (clamp(rne(w / s), -levels, levels) * s - w), the gradient of which is 1. */
static intact_status quantized_weight(regression *r, intact_variable **weight) {
  intact_variable *scale = NULL, *steps = NULL, *fixed = NULL;
  char range[60];
  const int64_t levels = conf_attr_int(r->c, "levels", 127);
  snprintf(range, sizeof range, "min=-%lld max=%lld", (long long)levels, (long long)levels);
  INTACT_TRY(weight_scale(r));
  INTACT_TRY(intact_variable_create(r->scale, false, &scale));
  intact_status status = qat_call(r->context, "div", NULL, r->weight, scale, &steps);
  if (status == INTACT_OK) status = qat_call(r->context, "round", NULL, steps, NULL, &steps);
  if (status == INTACT_OK) status = qat_call(r->context, "clamp", range, steps, NULL, &steps);
  if (status == INTACT_OK) status = qat_call(r->context, "mul", NULL, steps, scale, &steps);
  if (status == INTACT_OK) status = qat_call(r->context, "sub", NULL, steps, r->weight, &steps);
  if (status == INTACT_OK) status = intact_variable_detach(steps, &fixed);
  if (status == INTACT_OK) status = qat_call(r->context, "add", NULL, r->weight, fixed, weight);
  intact_variable_release(scale);
  intact_variable_release(steps);
  intact_variable_release(fixed);
  return status;
}

/* The loss; r->output is new. */
static intact_status regression_forward(regression *r, intact_variable **loss) {
  intact_variable *weight = NULL, *output = NULL;
  intact_status status = INTACT_OK;
  if (r->fake_quant)
    INTACT_TRY(quantized_weight(r, &weight));
  else
    weight = intact_variable_retain(r->weight);
  intact_variable *const operands[3] = {r->x, weight, r->bias};
  status = intact_variable_call(r->context, "linear", NULL, 3, operands, 1, &output);
  intact_variable_release(weight);
  if (status == INTACT_OK) status = qat_call(r->context, "mse_loss", NULL, output, r->y, loss);
  if (status == INTACT_OK) {
    intact_variable_release(r->output);
    r->output = intact_variable_retain(output);
  }
  intact_variable_release(output);
  return status;
}

static intact_status regression_results(regression *r) {
  conf_case *c = r->c;
  const intact_tensor *w = intact_variable_tensor(r->weight);
  INTACT_TRY(weight_scale(r));
  INTACT_TRY(qat_give_copy(c, w, "weight"));
  INTACT_TRY(qat_give_copy(c, intact_variable_tensor(r->bias), "bias"));
  INTACT_TRY(qat_give_copy(c, r->scale, "scale"));
  intact_tensor *codes;
  INTACT_TRY(intact_tensor_create(c->context, INTACT_S8, w->rank, w->dims, &codes));
  for (int64_t i = 0; i < w->count; i++) {
    const float q = nearbyintf(intact__f32(w)[i] / intact__f32(r->scale)[0]);
    intact__tensor_set_f64(codes, i, fmin(fmax((double)q, -127), 127));
  }
  INTACT_TRY(conf_result(c, codes, "weight_int"));
  intact_variable *loss = NULL;
  INTACT_TRY(regression_forward(r, &loss));
  intact_variable_release(loss);
  return qat_give_copy(c, intact_variable_tensor(r->output), "output");
}

static intact_status run_regression(regression *r, intact_optimizer **optimizer, qat_series *series) {
  conf_case *c = r->c;
  intact_tensor *const parameters[2] = {intact_variable_tensor(r->weight), intact_variable_tensor(r->bias)};
  const int64_t steps = conf_attr_int(c, "steps", 0), five = 5;
  intact_optimizer_options options;
  INTACT_TRY(intact_optimizer_default_options(c->context, "Adam", &options));
  options.lr = conf_attr_f64(c, "lr", 0.05);
  INTACT_TRY(intact_optimizer_create(c->context, "Adam", &options, optimizer));
  INTACT_TRY(intact_optimizer_add_group(*optimizer, NULL, 2, parameters));
  for (int64_t step = 1; step <= steps; step++) {
    intact_variable *loss = NULL;
    intact_variable_clear_gradient(r->weight);
    intact_variable_clear_gradient(r->bias);
    INTACT_TRY(regression_forward(r, &loss));
    intact_status status = intact_variable_backward(loss, NULL, false);
    if (status == INTACT_OK && step % 10 == 0)
      status = qat_series_put(c, &series[0], "loss_every_10", steps / 10, step / 10 - 1, intact_variable_tensor(loss));
    intact_variable_release(loss);
    INTACT_TRY(status);
    const intact_tensor *const gradients[2] = {intact_variable_gradient(r->weight), intact_variable_gradient(r->bias)};
    INTACT_TRY(intact_optimizer_step(*optimizer, gradients));
    if (step % 10 != 0) continue;
    intact_tensor *both;
    INTACT_TRY(intact_tensor_create(c->context, INTACT_F32, 1, &five, &both));
    memcpy(both->data, parameters[0]->data, 4 * sizeof(float));
    intact__f32(both)[4] = intact__f32(parameters[1])[0];
    status = qat_series_put(c, &series[1], "params_every_10", steps / 10, step / 10 - 1, both);
    intact_tensor_destroy(both);
    INTACT_TRY(status);
  }
  return regression_results(r);
}

intact_status conf_handle_regression(conf_case *c) {
  regression r = {.c = c, .context = c->context, .fake_quant = conf_attr_bool(c, "fake_quant_weight", false)};
  intact_optimizer *optimizer = NULL;
  qat_series series[2] = {{0}};
  intact_status status = qat_variable(conf_input(c, "x"), false, &r.x);
  if (status == INTACT_OK) status = qat_variable(conf_input(c, "y"), false, &r.y);
  if (status == INTACT_OK) status = qat_variable(conf_input(c, "weight"), true, &r.weight);
  if (status == INTACT_OK) status = qat_variable(conf_input(c, "bias"), true, &r.bias);
  if (status == INTACT_OK) status = run_regression(&r, &optimizer, series);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(series[i].tensor);
  intact_variable *const variables[] = {r.x, r.y, r.weight, r.bias, r.output};
  for (int i = 0; i < 5; i++) intact_variable_release(variables[i]);
  intact_tensor_destroy(r.scale);
  intact_optimizer_destroy(optimizer);
  return status;
}

intact_status conf_handle_mean_abs_difference(conf_case *c) {
  intact_variable *a = NULL, *b = NULL, *gap = NULL;
  INTACT_TRY(qat_variable(conf_input(c, "a"), false, &a));
  intact_status status = qat_variable(conf_input(c, "b"), false, &b);
  if (status == INTACT_OK) status = qat_call(c->context, "sub", NULL, a, b, &gap);
  if (status == INTACT_OK) status = qat_call(c->context, "abs", NULL, gap, NULL, &gap);
  if (status == INTACT_OK) status = qat_call(c->context, "mean", NULL, gap, NULL, &gap);
  if (status == INTACT_OK) status = qat_call(c->context, "reshape", "shape=[1]", gap, NULL, &gap);
  if (status == INTACT_OK) status = qat_give_copy(c, intact_variable_tensor(gap), "y");
  intact_variable_release(a);
  intact_variable_release(b);
  intact_variable_release(gap);
  return status;
}

/* ---- lsq_train ---- */

static intact_status make_lsq(conf_case *c, intact_graph **graph) {
  const intact_tensor *x = conf_input(c, "x"), *scale = conf_input(c, "scale0"), *zero = conf_input(c, "zero_point0");
  intact_quant_spec spec = {.dtype = conf_attr_int(c, "quant_min", 0) < 0 ? INTACT_S8 : INTACT_U8,
                            .quant_min = conf_attr_int(c, "quant_min", 0),
                            .quant_max = conf_attr_int(c, "quant_max", 0),
                            .axis = (int)conf_attr_int(c, "ch_axis", -1)};
  intact_qscheme_from_text(conf_attr_text(c, "qscheme", ""), &spec.scheme);
  spec.observer = intact__find_observer(spec.axis >= 0 ? "moving_average_per_channel_min_max" : "moving_average_min_max");
  const intact_fake_options options = {.kind = INTACT_FAKE_LEARNED, .use_grad_scaling = conf_attr_bool(c, "use_grad_scaling", true),
                                       .channels = spec.axis >= 0 ? scale->count : 0, .scale = 1};
  intact_observation *observation;
  intact_tensor *tensors[3] = {NULL};
  intact_value *values[3];
  intact_node *node = NULL;
  static const char *const names[3] = {"x", "scale", "zero_point"};
  INTACT_TRY(intact__graph_create(c->context, c->name, graph));
  INTACT_TRY(intact__observation_create(c->context, &spec, &observation));
  intact_status status = intact__fake_quantizer_create(observation, &options);
  if (status == INTACT_OK) status = intact__fake_quantizer_set_mode(observation, INTACT_FAKE_LEARN);
  for (int64_t i = 0; i < scale->count && status == INTACT_OK; i++) {
    intact__tensor_set_f64(observation->fake->scale, i, intact__tensor_get_f64(scale, i));
    intact__tensor_set_f64(observation->fake->zero_point, i, intact__tensor_get_f64(zero, i));
  }
  if (status == INTACT_OK) status = intact_tensor_copy(x, &tensors[0]);
  if (status == INTACT_OK) status = intact_tensor_share(observation->fake->scale, 0, NULL, &tensors[1]);
  if (status == INTACT_OK) status = intact_tensor_share(observation->fake->zero_point, 0, NULL, &tensors[2]);
  for (int i = 0; i < 3 && status == INTACT_OK; i++)
    status = intact__graph_add_constant(*graph, names[i], tensors[i], NULL, &values[i]);
  if (status == INTACT_OK)
    status = intact__graph_add_node(*graph, intact__find_op("fake_quantize"), "y", 3, values, 1, NULL, NULL, &node);
  if (status == INTACT_OK) node->observation = intact__observation_retain(observation);
  intact__observation_release(observation);
  (*graph)->stage = INTACT_STAGE_OBSERVED;
  if (status == INTACT_OK) status = intact__node_infer(node);
  return status == INTACT_OK ? intact__graph_set_outputs(*graph, 1, node->results) : status;
}

/* p -= rate * gradient. */
static void descend(const intact_variable *p, double rate) {
  float *to = intact_tensor_mutable_data(intact_variable_tensor(p));
  const intact_tensor *g = intact_variable_gradient(p);
  for (int64_t i = 0; g && i < g->count; i++) to[i] -= (float)rate * intact__f32(g)[i];
}

static intact_status lsq_step(conf_case *c, intact_trainable *t, intact_variable *target, int64_t step, qat_series *series) {
  intact_variable *y = NULL, *loss = NULL, *const p[3] = {qat_parameter(t, "x"), qat_parameter(t, "scale"), qat_parameter(t, "zero_point")};
  const int64_t steps = conf_attr_int(c, "steps", 0);
  intact_trainable_clear_gradients(t);
  INTACT_TRY(intact_trainable_forward(t, NULL, &y));
  intact_status status = qat_call(c->context, "mse_loss", NULL, y, target, &loss);
  if (status == INTACT_OK) status = intact_variable_backward(loss, NULL, false);
  if (status == INTACT_OK) status = qat_series_put(c, &series[0], "loss", steps, step, intact_variable_tensor(loss));
  if (status == INTACT_OK && step == 0) {
    status = qat_give_copy(c, intact_variable_tensor(y), "y0");
    static const char *const names[3] = {"grad0.x", "grad0.scale", "grad0.zero_point"};
    for (int i = 0; i < 3 && status == INTACT_OK; i++) status = qat_give_copy(c, intact_variable_gradient(p[i]), names[i]);
  }
  intact_variable_release(y);
  intact_variable_release(loss);
  INTACT_TRY(status);
  descend(p[0], conf_attr_f64(c, "lr_x", 0));
  descend(p[1], conf_attr_f64(c, "lr_scale", 0));
  if (conf_attr_bool(c, "learn_zero_point", true)) descend(p[2], conf_attr_f64(c, "lr_zero_point", 0));
  INTACT_TRY(qat_series_put(c, &series[1], "scale", steps, step, intact_variable_tensor(p[1])));
  return qat_series_put(c, &series[2], "zero_point", steps, step, intact_variable_tensor(p[2]));
}

intact_status conf_handle_lsq(conf_case *c) {
  intact_graph *graph = NULL;
  intact_trainable *t = NULL;
  intact_variable *target = NULL;
  qat_series series[3] = {{0}};
  intact_status status = make_lsq(c, &graph);
  if (status == INTACT_OK) status = intact_trainable_create(graph, &t);
  if (status == INTACT_OK) status = qat_variable(conf_input(c, "target"), false, &target);
  for (int64_t step = 0; step < conf_attr_int(c, "steps", 0) && status == INTACT_OK; step++) status = lsq_step(c, t, target, step, series);
  if (status == INTACT_OK) status = qat_give_copy(c, intact_variable_tensor(qat_parameter(t, "x")), "x_final");
  for (int i = 0; i < 3; i++) intact_tensor_destroy(series[i].tensor);
  intact_variable_release(target);
  intact_trainable_destroy(t);
  intact_graph_destroy(graph);
  return status;
}

/* ---- qat_module ---- */

static void annotate_weight(qat_net *net) {
  const intact_wish weight = qat_wish(net->c, "weight", INTACT_S8);
  qat_net_wish(net, "layer", 1, &weight);
}

static void build_module(conf_case *c, qat_net *net) {
  const char *class_name = strchr(c->op, '.') + 1;
  const bool linear = strncmp(class_name, "Linear", 6) == 0;
  const char *op = linear ? "linear" : strstr(class_name, "1d") ? "conv1d" : strstr(class_name, "3d") ? "conv3d" : "conv2d";
  char text[100], padding[40], norm[80];
  const long long p = conf_attr_int(c, "padding", 0);
  snprintf(padding, sizeof padding, "padding=[%lld]", p);
  snprintf(norm, sizeof norm, "eps=%.9g momentum=%.9g", conf_attr_f64(c, "eps", 1e-5), conf_attr_f64(c, "momentum", 0.1));
  qat_fake_text(c, "weight", text, sizeof text);
  qat_net_create(c, conf_input(c, "x.0"), net);
  qat_net_layer(net, op, "", linear ? NULL : padding);
  if (strstr(class_name, "Bn")) qat_net_norm(net, "", norm);
  if (strstr(class_name, "ReLU")) qat_net_unary(net, "relu", "relu", NULL);
  qat_net_prepare(net, annotate_weight, text, text);
}

typedef struct module {
  conf_case *c;
  qat_net net;
  intact_trainable *trainable;
  qat_series series[3];
} module;

/* PyTorch's statistics take NaN over, ours skip it: the scale of a channel whose weights are NaN. */
static intact_status put_scale(module *m, int64_t step, int64_t steps) {
  const intact_observation *o = qat_observation(&m->net, "layer", 1);
  const intact_variable *weight = qat_parameter(m->trainable, "weight");
  if (!o || !weight) return conf_fail(m->c, "expected a layer with a parameter 'weight' that is fake-quantized, got none");
  const intact_tensor *w = intact_variable_tensor(weight);
  intact_tensor *scale;
  INTACT_TRY(intact_tensor_copy(o->fake->scale, &scale));
  for (int64_t i = 0; i < scale->count; i++)
    if (isnan(intact__f32(w)[i * (w->count / scale->count)])) intact__f32(scale)[i] = NAN;
  const intact_status status = qat_series_put(m->c, &m->series[2], "weight_scale", steps, step, scale);
  intact_tensor_destroy(scale);
  return status;
}

static intact_status give_gradients(module *m, int64_t step) {
  for (int i = 0; i < intact_trainable_count(m->trainable); i++) {
    char name[100];
    snprintf(name, sizeof name, "grad.%lld.%s", (long long)step, intact_trainable_name(m->trainable, i));
    INTACT_TRY(qat_give_copy(m->c, intact_variable_gradient(intact_trainable_parameter(m->trainable, i)), name));
  }
  return INTACT_OK;
}

static intact_status give_step(module *m, int64_t step, const intact_variable *x, const intact_variable *y) {
  char name[100];
  snprintf(name, sizeof name, "y.%lld", (long long)step);
  INTACT_TRY(qat_give_copy(m->c, intact_variable_tensor(y), name));
  snprintf(name, sizeof name, "dx.%lld", (long long)step);
  INTACT_TRY(qat_give_copy(m->c, intact_variable_gradient(x), name));
  return give_gradients(m, step);
}

static intact_status module_step(module *m, int64_t step, int64_t steps) {
  conf_case *c = m->c;
  const intact_tensor *dy = conf_input(c, "dy.%lld", (long long)step);
  intact_variable *x = NULL, *y = NULL;
  if (conf_attr(c, "freeze_bn_at") && step == conf_attr_int(c, "freeze_bn_at", 0)) intact_trainable_freeze_batch_norm(m->trainable, true);
  intact_trainable_clear_gradients(m->trainable);
  INTACT_TRY(qat_variable(conf_input(c, "x.%lld", (long long)step), true, &x));
  intact_status status = intact_trainable_forward(m->trainable, &x, &y);
  if (status == INTACT_OK) status = put_scale(m, step, steps);
  if (status == INTACT_OK) status = intact_variable_backward(y, dy, false);
  if (status == INTACT_OK) status = give_step(m, step, x, y);
  const double batch = (double)intact_variable_tensor(x)->dims[0], rate = conf_attr_f64(c, "lr", 0) / batch;
  for (int i = 0; i < intact_trainable_count(m->trainable) && status == INTACT_OK; i++)
    descend(intact_trainable_parameter(m->trainable, i), rate);
  static const char *const statistics[2] = {"bn.running_mean", "bn.running_var"};
  for (int i = 0; i < 2 && status == INTACT_OK; i++) {
    const intact_value *value = intact__graph_find_value(m->net.graph, statistics[i]);
    if (value) status = qat_series_put(c, &m->series[i], statistics[i] + 3, steps, step, value->constant);
  }
  intact_variable_release(x);
  intact_variable_release(y);
  return status;
}

static intact_status run_module(module *m) {
  conf_case *c = m->c;
  const int64_t steps = conf_attr_int(c, "steps", 0);
  build_module(c, &m->net);
  INTACT_TRY(m->net.status);
  INTACT_TRY(intact_trainable_create(m->net.graph, &m->trainable));
  for (int64_t step = 0; step < steps; step++) INTACT_TRY(module_step(m, step, steps));
  for (int i = 0; i < intact_trainable_count(m->trainable); i++) {
    char name[100];
    snprintf(name, sizeof name, "final.%s", intact_trainable_name(m->trainable, i));
    INTACT_TRY(qat_give_copy(c, intact_variable_tensor(intact_trainable_parameter(m->trainable, i)), name));
  }
  intact_variable *x = NULL, *y = NULL;
  intact_trainable_freeze_batch_norm(m->trainable, true); /* and the observers stay on, as the reference's do when it evaluates */
  INTACT_TRY(qat_variable(conf_input(c, "x.0"), false, &x));
  intact_status status = intact_trainable_forward(m->trainable, &x, &y);
  if (status == INTACT_OK) status = qat_give_copy(c, intact_variable_tensor(y), "eval_y");
  intact_variable_release(x);
  intact_variable_release(y);
  return status;
}

intact_status conf_handle_qat_module(conf_case *c) {
  if (conf_attr_bool(c, "slow_path", false)) return conf_handle_qat_slow(c);
  module m = {.c = c};
  const intact_status status = run_module(&m);
  for (int i = 0; i < 3; i++) intact_tensor_destroy(m.series[i].tensor);
  intact_trainable_destroy(m.trainable);
  intact_graph_destroy(m.net.graph);
  return status;
}
