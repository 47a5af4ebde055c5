/* SPDX-License-Identifier: Apache-2.0 */
/* Quantization-aware training from the ground up: a linear layer is trained twice, plainly and with a weight that is rounded to 8 bits in
   every forward; then the second one becomes an integer layer that computes the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intact/init.h"
#include "intact/optim.h"
#include "intact/qat.h"
#include "intact/run.h"

enum { SAMPLES = 60, FEATURES = 4, STEPS = 120 };

static intact_context *context;

/* Ends the program with the library's message when a call fails. */
static void need(intact_status status) {
  if (status == INTACT_OK) return;
  fprintf(stderr, "%s: %s\n", intact_status_text(status), intact_context_message(context));
  exit(1);
}

static const float *floats(const intact_variable *v) { return intact_tensor_data(intact_variable_tensor(v)); }
static float *writable(const intact_variable *v) { return intact_tensor_mutable_data(intact_variable_tensor(v)); }

static intact_variable *variable(int rank, const int64_t *dims, bool trained) {
  intact_tensor *tensor;
  intact_variable *made;
  need(intact_tensor_create(context, INTACT_F32, rank, dims, &tensor));
  need(intact_variable_create(tensor, trained, &made));
  intact_tensor_destroy(tensor);
  return made;
}

static intact_variable *call(const char *op, const char *attributes, intact_variable *a, intact_variable *b) {
  intact_variable *result, *const operands[2] = {a, b};
  need(intact_variable_call(context, op, attributes, b ? 2 : 1, operands, 1, &result));
  return result;
}

/* The same, and the first operand is let go. */
static intact_variable *then(const char *op, const char *attributes, intact_variable *a, intact_variable *b) {
  intact_variable *result = call(op, attributes, a, b);
  intact_variable_release(a);
  return result;
}

/* ---- fake quantization ---- */

static float scale_of(const intact_variable *w, float levels) {
  const int64_t n = intact_tensor_count(intact_variable_tensor(w));
  const float *values = intact_tensor_data(intact_variable_tensor(w));
  float most = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(values[i]));
  return fmaxf(most / levels, 1e-8f);
}

/* w rounded to scale * integer. Rounding has gradient 0, so the difference to w is added as a constant: the gradient is that of w. */
static intact_variable *fake_quantize(intact_variable *w, const char *range, float levels) {
  intact_variable *scale = variable(0, NULL, false);
  writable(scale)[0] = scale_of(w, levels);
  intact_variable *q = then("clamp", range, then("round", NULL, call("div", NULL, w, scale), NULL), NULL);
  intact_variable *gap = then("sub", NULL, then("mul", NULL, q, scale), w), *fixed;
  need(intact_variable_detach(gap, &fixed));
  intact_variable *result = call("add", NULL, w, fixed);
  intact_variable_release(scale);
  intact_variable_release(gap);
  intact_variable_release(fixed);
  return result;
}

/* ---- training ---- */

typedef struct layer {
  intact_variable *weight, *bias;
  bool fake_quant;
} layer;

static intact_variable *forward(const layer *l, intact_variable *x) {
  intact_variable *weight = l->fake_quant ? fake_quantize(l->weight, "min=-127 max=127", 127) : intact_variable_retain(l->weight);
  intact_variable *result, *const operands[3] = {x, weight, l->bias};
  need(intact_variable_call(context, "linear", NULL, 3, operands, 1, &result));
  intact_variable_release(weight);
  return result;
}

static float step(const layer *l, intact_variable *x, intact_variable *y, intact_optimizer *optimizer) {
  intact_variable *loss = then("mse_loss", NULL, forward(l, x), y);
  const float value = floats(loss)[0];
  intact_variable_clear_gradient(l->weight);
  intact_variable_clear_gradient(l->bias);
  need(intact_variable_backward(loss, NULL, false));
  const intact_tensor *const gradients[2] = {intact_variable_gradient(l->weight), intact_variable_gradient(l->bias)};
  need(intact_optimizer_step(optimizer, gradients));
  intact_variable_release(loss);
  return value;
}

static layer train(intact_variable *x, intact_variable *y, bool fake_quant, float *loss) {
  layer l = {variable(2, (const int64_t[]){1, FEATURES}, true), variable(1, (const int64_t[]){1}, true), fake_quant};
  intact_tensor *const parameters[2] = {intact_variable_tensor(l.weight), intact_variable_tensor(l.bias)};
  intact_generator *generator;
  intact_optimizer *optimizer;
  intact_optimizer_options options;
  need(intact_generator_create(context, 7, &generator));
  need(intact_init_linear(generator, parameters[0], parameters[1]));
  need(intact_optimizer_default_options(context, "Adam", &options));
  options.lr = 0.05;
  need(intact_optimizer_create(context, "Adam", &options, &optimizer));
  need(intact_optimizer_add_group(optimizer, NULL, 2, parameters));
  for (int i = 0; i < STEPS; i++) *loss = step(&l, x, y, optimizer);
  intact_optimizer_destroy(optimizer);
  intact_generator_destroy(generator);
  return l;
}

/* y = 2 x0 - x1 + 0.5 */
static void make_samples(intact_variable **x, intact_variable **y) {
  intact_generator *generator;
  *x = variable(2, (const int64_t[]){SAMPLES, FEATURES}, false);
  *y = variable(2, (const int64_t[]){SAMPLES, 1}, false);
  need(intact_generator_create(context, 0, &generator));
  intact_random_normal_f32(generator, (int64_t)SAMPLES * FEATURES, 0, 1, writable(*x));
  for (int i = 0; i < SAMPLES; i++) writable(*y)[i] = 2.0f * floats(*x)[i * FEATURES] - floats(*x)[i * FEATURES + 1] + 0.5f;
  intact_generator_destroy(generator);
}

/* ---- the integer layer ---- */

/* The trained layer as a network in text form. */
static intact_graph *network_of(const layer *l) {
  char text[1024], weights[200] = "";
  intact_graph *graph;
  for (int i = 0; i < FEATURES; i++)
    snprintf(weights + strlen(weights), sizeof weights - strlen(weights), "%s%.9g", i ? ", " : "", (double)floats(l->weight)[i]);
  snprintf(text, sizeof text,
           "intact graph 1\nname \"tutorial\"\nstage float\nrequantize f32_rne\nsymbols N\ninput x: f32[N,%d]\n"
           "constant w: f32[1,%d]{%s}\nconstant b: f32[1]{%.9g}\ny: f32[N,1] = linear(x, w, b)\noutput y\n",
           FEATURES, FEATURES, weights, (double)floats(l->bias)[0]);
  need(intact_graph_parse(context, text, &graph));
  return graph;
}

/* Inputs and outputs get 8 bits too; then the same network runs fake-quantized in float, and in integers. */
static void compare_with_integers(const layer *l, intact_variable *x) {
  intact_graph *graph = network_of(l);
  intact_qat_options options = intact_qat_default_options();
  options.quantize.weights_per_tensor = true;
  need(intact_prepare_qat(graph, &options));
  intact_trainable *trainable;
  intact_variable *simulated;
  need(intact_trainable_create(graph, &trainable));
  need(intact_trainable_forward(trainable, &x, &simulated));
  intact_trainable_destroy(trainable);
  need(intact_convert(graph));
  need(intact_to_integer(graph));
  intact_program *program;
  intact_tensor *integer;
  const intact_tensor *input = intact_variable_tensor(x);
  need(intact_program_create(graph, &program));
  need(intact_program_run(program, &input, &integer));
  const float *a = intact_tensor_data(intact_variable_tensor(simulated)), *b = intact_tensor_data(integer);
  int equal = 0;
  for (int i = 0; i < SAMPLES; i++) equal += a[i] == b[i];
  printf("Integer outputs equal to the fake-quantized ones: %d of %d\n", equal, SAMPLES);
  intact_tensor_destroy(integer);
  intact_program_destroy(program);
  intact_variable_release(simulated);
  intact_graph_destroy(graph);
}

static void print_codes(const layer *l) {
  const float scale = scale_of(l->weight, 127);
  printf("Integer weights:");
  for (int i = 0; i < FEATURES; i++) printf(" %d", (int)nearbyintf(floats(l->weight)[i] / scale));
  printf(", scale %.6f\n", (double)scale);
}

static void five_levels(void) {
  intact_variable *w = variable(1, (const int64_t[]){4}, false);
  memcpy(writable(w), (const float[]){-0.30f, 0.10f, 0.55f, 0.90f}, 4 * sizeof(float));
  intact_variable *q = fake_quantize(w, "min=-2 max=2", 2);
  printf("Five levels:");
  for (int i = 0; i < 4; i++) printf(" %.2f", (double)floats(q)[i]);
  printf("\n");
  intact_variable_release(w);
  intact_variable_release(q);
}

static float mean_gap(const layer *a, const layer *b, intact_variable *x) {
  intact_variable *p = forward(a, x), *q = forward(b, x);
  intact_variable *gap = then("mean", NULL, then("abs", NULL, then("sub", NULL, p, q), NULL), NULL);
  const float value = floats(gap)[0];
  intact_variable_release(q);
  intact_variable_release(gap);
  return value;
}

int main(void) {
  intact_variable *x, *y;
  float plain_loss = 0, quantized_loss = 0;
  if (intact_context_create(NULL, &context) != INTACT_OK) return 2;
  make_samples(&x, &y);
  layer plain = train(x, y, false, &plain_loss), quantized = train(x, y, true, &quantized_loss);
  printf("Plain final loss: %.4f\n", (double)plain_loss);
  printf("Fake-quant final loss: %.4f\n", (double)quantized_loss);
  printf("Mean output gap: %.4f\n", (double)mean_gap(&plain, &quantized, x));
  print_codes(&quantized);
  compare_with_integers(&quantized, x);
  five_levels();
  intact_variable *const held[] = {x, y, plain.weight, plain.bias, quantized.weight, quantized.bias};
  for (int i = 0; i < 6; i++) intact_variable_release(held[i]);
  intact_context_destroy(context);
  return 0;
}
