/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of qat_training that train whole networks: qat_train and lsq_net_train. */
#include <stdio.h>
#include <string.h>

#include "conformance/qat_lab.h"
#include "intact/quant.h"

enum { MAX_SERIES = 24 };

/* A training at work. */
typedef struct training {
  conf_case *c;
  qat_net net;
  intact_trainable *trainable;
  intact_optimizer *optimizer;
  intact_variable *x, *target;
  int64_t steps;
  qat_series series[MAX_SERIES];
  char names[MAX_SERIES][100];
  int n_series;
} training;

/* Where a fake quantizer of the case stands: its name there, and the edge of the network. */
typedef struct place {
  const char *name, *node;
  int operand;
} place;

static void training_fini(training *t) {
  for (int i = 0; i < MAX_SERIES; i++) intact_tensor_destroy(t->series[i].tensor);
  intact_variable_release(t->x);
  intact_variable_release(t->target);
  intact_optimizer_destroy(t->optimizer);
  intact_trainable_destroy(t->trainable);
  intact_graph_destroy(t->net.graph);
}

static intact_status put(training *t, const char *prefix, const char *name, int64_t step, const intact_tensor *row) {
  char full[100];
  int i = 0;
  snprintf(full, sizeof full, "%s%s", prefix, name);
  while (i < t->n_series && strcmp(t->names[i], full) != 0) i++;
  if (i == MAX_SERIES) return conf_fail(t->c, "expected at most %d series, got more", MAX_SERIES);
  if (i == t->n_series) strcpy(t->names[t->n_series++], full);
  return qat_series_put(t->c, &t->series[i], t->names[i], t->steps, step, row);
}

static intact_status put_qparams(training *t, const place *places, int n, int64_t step) {
  for (int i = 0; i < n; i++) {
    const intact_observation *o = qat_observation(&t->net, places[i].node, places[i].operand);
    if (!o || !o->fake) return conf_fail(t->c, "expected a fake quantizer %s, got none", places[i].name);
    INTACT_TRY(put(t, "scale.", places[i].name, step, o->fake->scale));
    INTACT_TRY(put(t, "zero_point.", places[i].name, step, o->fake->zero_point));
  }
  return INTACT_OK;
}

/* ---- parameters ---- */

/* The parameters in two groups: with their own learning rate those of fake quantizers. */
static intact_status add_group(training *t, bool learned, const intact_optimizer_options *options) {
  intact_tensor *tensors[64];
  int n = 0;
  for (int i = 0; i < intact_trainable_count(t->trainable) && n < 64; i++) {
    const char *name = intact_trainable_name(t->trainable, i);
    const bool is_learned = strstr(name, "_scale") != NULL || strstr(name, "_zero_point") != NULL;
    if (is_learned == learned) tensors[n++] = intact_variable_tensor(intact_trainable_parameter(t->trainable, i));
  }
  return n ? intact_optimizer_add_group(t->optimizer, options, n, tensors) : INTACT_OK;
}

static intact_status make_optimizer(training *t) {
  intact_optimizer_options options;
  intact_context *context = t->c->context;
  INTACT_TRY(intact_optimizer_default_options(context, "SGD", &options));
  options.lr = conf_attr_f64(t->c, "lr", 0.1);
  options.momentum = conf_attr_f64(t->c, "momentum", 0);
  options.weight_decay = conf_attr_f64(t->c, "weight_decay", 0);
  INTACT_TRY(intact_optimizer_create(context, "SGD", &options, &t->optimizer));
  INTACT_TRY(add_group(t, false, &options));
  options.lr = conf_attr_f64(t->c, "lr_qparams", options.lr);
  return add_group(t, true, &options);
}

/* In the optimizer's order: first the network's own parameters, then those of fake quantizers. */
static intact_status step_optimizer(training *t, bool learning) {
  const intact_tensor *gradients[64];
  int n = 0;
  for (int group = 0; group < 2; group++)
    for (int i = 0; i < intact_trainable_count(t->trainable) && n < 64; i++) {
      const char *name = intact_trainable_name(t->trainable, i);
      const bool is_learned = strstr(name, "_scale") != NULL || strstr(name, "_zero_point") != NULL;
      if (is_learned != (group == 1)) continue;
      gradients[n++] = is_learned && !learning ? NULL : intact_variable_gradient(intact_trainable_parameter(t->trainable, i));
    }
  return intact_optimizer_step(t->optimizer, gradients);
}

static intact_status give_parameters(training *t, const char *prefix, bool gradients) {
  for (int i = 0; i < intact_trainable_count(t->trainable); i++) {
    char name[120];
    const intact_variable *p = intact_trainable_parameter(t->trainable, i);
    snprintf(name, sizeof name, "%s%s", prefix, intact_trainable_name(t->trainable, i));
    INTACT_TRY(qat_give_copy(t->c, gradients ? intact_variable_gradient(p) : intact_variable_tensor(p), name));
  }
  return INTACT_OK;
}

/* ---- steps ---- */

static intact_status start(training *t) {
  const intact_tensor *x = conf_input(t->c, "x"), *target = conf_input(t->c, "target");
  INTACT_TRY(t->net.status);
  INTACT_TRY(qat_variable(x, false, &t->x));
  INTACT_TRY(qat_variable(target, false, &t->target));
  INTACT_TRY(intact_trainable_create(t->net.graph, &t->trainable));
  return make_optimizer(t);
}

/* Forward, loss, backward. */
static intact_status compute(training *t, int64_t step) {
  intact_context *context = t->c->context;
  intact_variable *y = NULL, *loss = NULL;
  intact_trainable_clear_gradients(t->trainable);
  INTACT_TRY(intact_trainable_forward(t->trainable, &t->x, &y));
  intact_status status = qat_call(context, "cross_entropy_loss", NULL, y, t->target, &loss);
  if (status == INTACT_OK) status = intact_variable_backward(loss, NULL, false);
  if (status == INTACT_OK) status = put(t, "", "loss", step, intact_variable_tensor(loss));
  intact_variable_release(y);
  intact_variable_release(loss);
  return status;
}

/* ---- lsq_net_train ---- */

static void annotate_lsq(qat_net *net) {
  const intact_wish activation = qat_wish(net->c, "activation", INTACT_U8), weight = qat_wish(net->c, "weight", INTACT_S8);
  qat_net_wish(net, "fc1", 0, &activation);
  qat_net_wish(net, "fc1", 1, &weight);
  qat_net_wish(net, "relu", -1, &activation);
  qat_net_wish(net, "fc2", 1, &weight);
}

static const place lsq_places[] = {{"a0", "fc1", 0}, {"w1", "fc1", 1}, {"a1", "relu", -1}, {"w2", "fc2", 1}};

static intact_status give_lsq_gradients(training *t, int64_t step) {
  static const char *const values[] = {"x", "fc1.weight", "relu", "fc2.weight"};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 2; k++) {
      char parameter[100], name[100];
      snprintf(parameter, sizeof parameter, "%s_%s", values[i], k ? "zero_point" : "scale");
      snprintf(name, sizeof name, "grad%lld.%s.%s", (long long)step, lsq_places[i].name, k ? "zero_point" : "scale");
      const intact_variable *p = qat_parameter(t->trainable, parameter);
      if (p) INTACT_TRY(qat_give_copy(t->c, intact_variable_gradient(p), name));
    }
  return INTACT_OK;
}

static intact_status run_lsq_net(training *t) {
  conf_case *c = t->c;
  char activation[100], weight[100];
  const int64_t learn_at = conf_attr_int(c, "enable_param_learning_at", 0);
  qat_fake_text(c, "activation", activation, sizeof activation);
  qat_fake_text(c, "weight", weight, sizeof weight);
  qat_net_create(c, conf_input(c, "x"), &t->net);
  qat_net_layer(&t->net, "linear", "fc1", NULL);
  qat_net_unary(&t->net, "relu", "relu", NULL);
  qat_net_layer(&t->net, "linear", "fc2", NULL);
  qat_net_prepare(&t->net, annotate_lsq, activation, weight);
  INTACT_TRY(start(t));
  for (int i = 0; i < 4; i++)
    qat_observation(&t->net, lsq_places[i].node, lsq_places[i].operand)->fake->use_grad_scaling = conf_attr_bool(c, "use_grad_scaling", true);
  for (int64_t step = 0; step < t->steps; step++) {
    if (step == learn_at) INTACT_TRY(intact__graph_set_fake_mode(t->net.graph, 3, INTACT_FAKE_LEARN));
    INTACT_TRY(compute(t, step));
    if (step == learn_at) INTACT_TRY(give_lsq_gradients(t, step));
    INTACT_TRY(step_optimizer(t, step >= learn_at));
    INTACT_TRY(put_qparams(t, lsq_places, 4, step));
  }
  return give_parameters(t, "final.", false);
}

intact_status conf_handle_lsq_net(conf_case *c) {
  training t = {.c = c, .steps = conf_attr_int(c, "steps", 0)};
  const intact_status status = run_lsq_net(&t);
  training_fini(&t);
  return status;
}

/* ---- qat_train ---- */

static void annotate_mlp(qat_net *net) {
  const intact_wish activation = qat_wish(net->c, "activation", INTACT_U8), weight = qat_wish(net->c, "weight", INTACT_S8);
  qat_net_wish(net, "fc1", 0, &activation);
  qat_net_wish(net, "fc1", 1, &weight);
  qat_net_wish(net, "relu", -1, &activation);
  qat_net_wish(net, "fc2", 1, &weight);
  qat_net_wish(net, "fc2", -1, &activation);
}

static void annotate_cnn(qat_net *net) {
  const intact_wish activation = qat_wish(net->c, "activation", INTACT_U8), weight = qat_wish(net->c, "weight", INTACT_S8);
  qat_net_wish(net, "conv1", 0, &activation);
  qat_net_wish(net, "conv1", 1, &weight);
  qat_net_wish(net, "relu", -1, &activation);
  qat_net_wish(net, "conv2", 1, &weight);
  qat_net_wish(net, "conv2", -1, &activation);
  qat_net_wish(net, "fc", 1, &weight);
  qat_net_wish(net, "fc", -1, &activation);
}

#define ACT ".activation_post_process"
#define WEIGHT ".weight_fake_quant"
static const place mlp_places[] = {{"quant" ACT, "fc1", 0},
                                   {"fc1" WEIGHT, "fc1", 1},
                                   {"fc1" ACT, "relu", -1},
                                   {"fc2" WEIGHT, "fc2", 1},
                                   {"fc2" ACT, "fc2", -1}};
static const place cnn_places[] = {{"quant" ACT, "conv1", 0}, {"conv1" WEIGHT, "conv1", 1}, {"conv1" ACT, "relu", -1},
                                   {"conv2" WEIGHT, "conv2", 1}, {"conv2" ACT, "conv2", -1}, {"fc" WEIGHT, "fc", 1},
                                   {"fc" ACT, "fc", -1}};

static void build_qat_net(training *t, bool cnn) {
  qat_net *net = &t->net;
  char text[100];
  qat_fake_text(t->c, "activation", text, sizeof text);
  qat_net_create(t->c, conf_input(t->c, "x"), net);
  if (cnn) {
    qat_net_layer(net, "conv2d", "conv1", "padding=[1,1]");
    qat_net_norm(net, "conv1", "eps=1e-5 momentum=0.1");
    qat_net_unary(net, "relu", "relu", NULL);
    qat_net_unary(net, "max_pool2d", "pool", "kernel_size=[2,2]");
    qat_net_layer(net, "conv2d", "conv2", "stride=[2,2]");
    qat_net_norm(net, "conv2", "eps=1e-5 momentum=0.1");
    qat_net_unary(net, "adaptive_avg_pool2d", "gap", "output_size=[1,1]");
    qat_net_unary(net, "flatten", "flatten", "start_dim=1");
    qat_net_layer(net, "linear", "fc", NULL);
  } else {
    qat_net_layer(net, "linear", "fc1", NULL);
    qat_net_unary(net, "relu", "relu", NULL);
    qat_net_layer(net, "linear", "fc2", NULL);
  }
  qat_net_prepare(net, cnn ? annotate_cnn : annotate_mlp, text, text);
}

/* Running statistics and the observers' states under the reference's names. */
static intact_status give_states(training *t, const place *places, int n) {
  static const char *const statistics[] = {"conv1.bn.running_mean", "conv1.bn.running_var", "conv2.bn.running_mean",
                                           "conv2.bn.running_var"};
  char name[150];
  for (int i = 0; i < 4; i++) {
    const intact_value *value = intact__graph_find_value(t->net.graph, statistics[i]);
    snprintf(name, sizeof name, "final.%s", statistics[i]);
    if (value) INTACT_TRY(qat_give_copy(t->c, value->constant, name));
  }
  for (int i = 0; i < n; i++) {
    intact_tensor_set *set;
    snprintf(name, sizeof name, "final.%s.", places[i].name);
    INTACT_TRY(intact_tensor_set_create(t->c->context, &set));
    intact_status status = intact__fake_quantizer_save(qat_observation(&t->net, places[i].node, places[i].operand), name, set);
    for (int64_t k = 0; k < intact_tensor_set_count(set) && status == INTACT_OK; k++)
      status = qat_give_copy(t->c, intact_tensor_set_get(set, k), intact_tensor_set_name(set, k));
    intact_tensor_set_destroy(set);
    INTACT_TRY(status);
  }
  return INTACT_OK;
}

static intact_status give_scales(conf_case *c, const char *module, const char *what, int64_t n, const float *scale) {
  double values[64];
  for (int64_t i = 0; i < n && i < 64; i++) values[i] = (double)scale[i];
  return conf_result_f64(c, INTACT_F64, 1, &n, values, "int.%s.%s", module, what);
}

/* The qparams behind a value of the q/dq network. */
static const intact_qparams *qparams_of(const intact_value *value) {
  if (!value) return NULL;
  if (intact__is_op(value->producer, "dequantize")) return value->producer->operands[0]->qparams;
  for (const intact_use *use = value->uses; use; use = use->next)
    if (intact__is_op(use->node, "quantize")) return use->node->results[0]->qparams;
  return NULL;
}

static intact_status give_integers(training *t, const char *module, const char *layer, const char *last) {
  const intact_node *node = intact__graph_find_node(t->net.graph, layer), *end = intact__graph_find_node(t->net.graph, last);
  const intact_value *weight = node ? node->operands[1] : NULL;
  const intact_qparams *w = qparams_of(weight), *y = end ? qparams_of(end->results[0]) : NULL;
  char name[100];
  if (!w || !y) return conf_fail(t->c, "expected integers of %s after conversion, got none", module);
  snprintf(name, sizeof name, "int.%s.weight", module);
  INTACT_TRY(qat_give_copy(t->c, weight->producer->operands[0]->constant, name));
  INTACT_TRY(give_scales(t->c, module, "weight_scales", w->n, w->scale));
  snprintf(name, sizeof name, "int.%s.bias", module);
  INTACT_TRY(qat_give_copy(t->c, node->n_operands > 2 && node->operands[2] ? node->operands[2]->constant : NULL, name));
  INTACT_TRY(give_scales(t->c, module, "scale", 1, y->scale));
  const int64_t zero = y->zero_point[0], one = 1;
  return conf_result_s64(t->c, INTACT_S64, 1, &one, &zero, "int.%s.zero_point", module);
}

/* The reference converts with the observers' ranges and formula, not with what the fake quantizers used last. */
static void forget_fakes(const intact_graph *graph) {
  for (const intact_node *node = graph->first; node; node = node->next) {
    if (!node->observation) continue;
    intact__fake_quantizer_destroy(graph->context, node->observation->fake);
    node->observation->fake = NULL;
  }
}

static intact_status convert(training *t, bool cnn) {
  intact_tensor *y = NULL;
  intact_trainable_destroy(t->trainable);
  t->trainable = NULL;
  forget_fakes(t->net.graph);
  INTACT_TRY(intact_convert(t->net.graph));
  INTACT_TRY(give_integers(t, cnn ? "conv1" : "fc1", cnn ? "conv1" : "fc1", "relu"));
  INTACT_TRY(give_integers(t, cnn ? "conv2" : "fc2", cnn ? "conv2" : "fc2", cnn ? "conv2" : "fc2"));
  if (cnn) INTACT_TRY(give_integers(t, "fc", "fc", "fc"));
  const intact_tensor *x = intact_variable_tensor(t->x);
  INTACT_TRY(intact_graph_interpret(t->net.graph, &x, false, &y));
  return conf_result(t->c, y, "int.output");
}

static intact_status run_qat(training *t) {
  conf_case *c = t->c;
  const bool cnn = strcmp(conf_attr_text(c, "model", ""), "cnn") == 0;
  const place *places = cnn ? cnn_places : mlp_places;
  const int n = cnn ? 7 : 5;
  build_qat_net(t, cnn);
  INTACT_TRY(start(t));
  for (int64_t step = 0; step < t->steps; step++) {
    if (step == conf_attr_int(c, "disable_observer_at", -1)) INTACT_TRY(intact__graph_set_fake_mode(t->net.graph, 3, INTACT_FAKE_FROZEN));
    if (step == conf_attr_int(c, "freeze_bn_at", -1)) intact_trainable_freeze_batch_norm(t->trainable, true);
    INTACT_TRY(compute(t, step));
    INTACT_TRY(put_qparams(t, places, n, step));
    if (step == 0) INTACT_TRY(give_parameters(t, "grad0.", true));
    INTACT_TRY(step_optimizer(t, false));
  }
  INTACT_TRY(give_parameters(t, "final.", false));
  INTACT_TRY(give_states(t, places, n));
  intact_variable *y = NULL;
  const int64_t observed_until = conf_attr_int(c, "disable_observer_at", t->steps);
  if (observed_until < t->steps)
    intact_trainable_set_training(t->trainable, false);
  else
    intact_trainable_freeze_batch_norm(t->trainable, true); /* observers that are on stay on, as the reference's do */
  INTACT_TRY(intact_trainable_forward(t->trainable, &t->x, &y));
  const intact_status status = qat_give_copy(c, intact_variable_tensor(y), "eval_output");
  intact_variable_release(y);
  INTACT_TRY(status);
  return convert(t, cnn);
}

intact_status conf_handle_qat(conf_case *c) {
  training t = {.c = c, .steps = conf_attr_int(c, "steps", 0)};
  const intact_status status = run_qat(&t);
  training_fini(&t);
  return status;
}
