/* SPDX-License-Identifier: Apache-2.0 */
/* Handler of the suite random: calls as they are written, default initialisations, loader orders, generator state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "conformance/conformance.h"
#include "intact/init.h"

enum { MAX_VALUES = 4096 };

/* One call: its text and the shape that it gives. */
typedef struct draw {
  conf_case *c;
  intact_generator *generator;
  const char *text;
  intact_tensor *tensor; /* result */
} draw;

/* ---- reading the text ---- */
static int64_t read_integer(const char **at) {
  char *end;
  int64_t value = strtoll(*at, &end, 10);
  if (strncmp(end, "**", 2) == 0) {
    const int64_t base = value, power = strtoll(end + 2, &end, 10);
    value = 1;
    for (int64_t i = 0; i < power; i++) value *= base;
  }
  *at = end;
  return value;
}

/* Numbers after `key` up to the closing parenthesis or a word. */
static int numbers_after(const char *text, const char *key, double *out, int capacity) {
  const char *at = strstr(text, key);
  int n = 0;
  if (!at) return 0;
  for (at += strlen(key); *at && *at != ')' && n < capacity;) {
    if (strchr(" ,([", *at)) {
      at++;
      continue;
    }
    char *end;
    out[n] = strtod(at, &end);
    if (end == at) break;
    if (strncmp(end, "**", 2) == 0) out[n] = (double)read_integer(&at), end = NULL;
    if (end) at = end;
    n++;
  }
  return n;
}

static intact_status make(draw *d, intact_dtype dtype, int rank, const double *sizes) {
  int64_t dims[INTACT_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = (int64_t)sizes[i];
  return intact_tensor_create(d->c->context, dtype, rank, dims, &d->tensor);
}

static float *floats(draw *d) { return intact_tensor_mutable_data(d->tensor); }
static int64_t count(const draw *d) { return d->tensor->count; }

/* ---- calls ---- */
static intact_status call_randn(draw *d) {
  double sizes[INTACT_MAX_RANK];
  const int rank = numbers_after(d->text, "randn(", sizes, INTACT_MAX_RANK);
  const bool wide = strstr(d->text, "float64") != NULL;
  INTACT_TRY(make(d, wide ? INTACT_F64 : INTACT_F32, rank, sizes));
  if (wide) {
    intact_random_normal_f64(d->generator, count(d), 0, 1, intact_tensor_mutable_data(d->tensor));
  } else {
    intact_random_normal_f32(d->generator, count(d), 0, 1, floats(d));
  }
  return INTACT_OK;
}

static intact_status call_rand(draw *d) {
  double sizes[INTACT_MAX_RANK];
  const int rank = numbers_after(d->text, "rand(", sizes, INTACT_MAX_RANK);
  const bool wide = strstr(d->text, "float64") != NULL;
  INTACT_TRY(make(d, wide ? INTACT_F64 : INTACT_F32, rank, sizes));
  if (wide) {
    intact_random_uniform_f64(d->generator, count(d), 0, 1, intact_tensor_mutable_data(d->tensor));
  } else {
    intact_random_uniform_f32(d->generator, count(d), 0, 1, floats(d));
  }
  return INTACT_OK;
}

static intact_status set_integers(draw *d, const int64_t *values) {
  for (int64_t i = 0; i < count(d); i++) intact__tensor_set_s64(d->tensor, i, values[i]);
  return INTACT_OK;
}

static intact_status call_randint(draw *d) {
  double n[3];
  int64_t values[MAX_VALUES];
  if (numbers_after(d->text, "randint(", n, 3) != 3) return conf_skip(d->c, d->text);
  const intact_dtype dtype =
      strstr(d->text, "uint8") ? INTACT_U8 : strstr(d->text, "int32") ? INTACT_S32 : INTACT_S64;
  INTACT_TRY(make(d, dtype, 1, n + 2));
  INTACT_TRY(intact_random_integers(d->generator, count(d), (int64_t)n[0], (int64_t)n[1], values));
  return set_integers(d, values);
}

/* empty(n[, type]).random_([low,] high) */
static intact_status call_random(draw *d) {
  double sizes[1], bounds[2];
  int64_t values[MAX_VALUES];
  numbers_after(d->text, "empty(", sizes, 1);
  const int n = numbers_after(d->text, "random_(", bounds, 2);
  const bool narrow = strstr(d->text, "int32") != NULL;
  INTACT_TRY(make(d, narrow ? INTACT_S32 : strstr(d->text, "int64") ? INTACT_S64 : INTACT_F32, 1, sizes));
  if (n > 0) {
    INTACT_TRY(intact_random_integers(d->generator, count(d), n == 2 ? (int64_t)bounds[0] : 0, (int64_t)bounds[n - 1], values));
  } else {
    for (int64_t i = 0; i < count(d); i++) {
      if (d->tensor->dtype == INTACT_F32) /* whole numbers that float32 holds */
        values[i] = (int64_t)(intact_generator_bits32(d->generator) % ((1u << 24) + 1));
      else
        values[i] = narrow ? (int64_t)(intact_generator_bits32(d->generator) & INT32_MAX)
                           : (int64_t)(intact_generator_bits64(d->generator) & INT64_MAX);
    }
  }
  return set_integers(d, values);
}

static intact_status call_randperm(draw *d) {
  double n[1];
  numbers_after(d->text, "randperm(", n, 1);
  INTACT_TRY(make(d, INTACT_S64, 1, n));
  intact_random_permutation(d->generator, count(d), intact_tensor_mutable_data(d->tensor));
  return INTACT_OK;
}

static intact_status call_bernoulli(draw *d) {
  double n[2], p[1];
  if (numbers_after(d->text, "bernoulli(full(", n, 2) == 2) {
    float chances[MAX_VALUES];
    INTACT_TRY(make(d, INTACT_F32, 1, n));
    for (int64_t i = 0; i < count(d); i++) chances[i] = (float)n[1];
    intact_random_bernoulli_each(d->generator, count(d), chances, floats(d));
    return INTACT_OK;
  }
  numbers_after(d->text, "empty(", n, 1);
  numbers_after(d->text, "bernoulli_(", p, 1);
  INTACT_TRY(make(d, INTACT_F32, 1, n));
  intact_random_bernoulli(d->generator, count(d), p[0], floats(d));
  return INTACT_OK;
}

static intact_status call_normal(draw *d) {
  double sizes[2] = {0}, parameters[2] = {0, 1};
  if (strstr(d->text, "mean=tensor(0..3), std=1")) {
    sizes[0] = 4;
    INTACT_TRY(make(d, INTACT_F32, 1, sizes));
    intact_random_normal_f32(d->generator, 4, 0, 1, floats(d));
    for (int i = 0; i < 4; i++) floats(d)[i] += (float)i;
    return INTACT_OK;
  }
  int rank = numbers_after(d->text, "empty(", sizes, 2);
  if (strstr(d->text, "not contiguous")) { /* element by element, in memory order */
    const bool transposed = rank == 2;
    const double dims[2] = {transposed ? sizes[1] : sizes[0] / 2, sizes[0]};
    INTACT_TRY(make(d, INTACT_F32, rank, dims));
    const int64_t rows = transposed ? d->tensor->dims[0] : 1, columns = count(d) / rows;
    for (int64_t i = 0; i < count(d); i++) {
      floats(d)[i % rows * columns + i / rows] = (float)intact_random_normal_pair(d->generator, 0, 1);
    }
    return INTACT_OK;
  }
  numbers_after(d->text, "normal_(", parameters, 2);
  INTACT_TRY(make(d, INTACT_F32, rank, sizes));
  return intact_init_normal(d->generator, d->tensor, parameters[0], parameters[1]);
}

static intact_status call_uniform(draw *d) {
  double sizes[1], bounds[2];
  numbers_after(d->text, "empty(", sizes, 1);
  numbers_after(d->text, "uniform_(", bounds, 2);
  INTACT_TRY(make(d, INTACT_F32, 1, sizes));
  return intact_init_uniform(d->generator, d->tensor, bounds[0], bounds[1]);
}

static intact_status call_exponential(draw *d) {
  double sizes[1], rate[1];
  numbers_after(d->text, "empty(", sizes, 1);
  numbers_after(d->text, "exponential_(", rate, 1);
  INTACT_TRY(make(d, INTACT_F32, 1, sizes));
  intact_random_exponential(d->generator, count(d), rate[0], floats(d));
  return INTACT_OK;
}

static intact_status call_multinomial(draw *d) {
  const float weights[] = {0.1f, 0.2f, 0.3f, 0.4f};
  double n[1];
  if (numbers_after(d->text, "multinomial([.1,.2,.3,.4],", n, 1) != 1) return conf_skip(d->c, d->text);
  INTACT_TRY(make(d, INTACT_S64, 1, n));
  return intact_random_multinomial(d->generator, 4, weights, count(d), strstr(d->text, "replacement=True") != NULL,
                                   intact_tensor_mutable_data(d->tensor));
}

static intact_status call_dropout(draw *d) {
  double n[1], p[1];
  numbers_after(d->text, "ones(", n, 1);
  numbers_after(strchr(d->text, ')') + 1, ",", p, 1);
  INTACT_TRY(make(d, INTACT_F32, 1, n));
  intact_random_dropout(d->generator, count(d), p[0], floats(d));
  return INTACT_OK;
}

/* init.*: the shape stands at the end of the case's name, "init-0-4x2x3x3". */
static intact_status call_init(draw *d) {
  double sizes[INTACT_MAX_RANK], gain;
  int rank = 0;
  for (const char *at = strrchr(d->c->name, '-') + 1; *at && rank < INTACT_MAX_RANK;) {
    sizes[rank++] = (double)read_integer(&at);
    if (*at == 'x') at++;
  }
  INTACT_TRY(make(d, INTACT_F32, rank, sizes));
  const char *call = d->text + strlen("init.");
  const bool relu = strstr(call, "relu") != NULL;
  INTACT_TRY(intact_init_gain(d->c->context, relu ? "relu" : "leaky_relu", 2.2360679774997896, &gain));
  const intact_fan fan = strstr(call, "fan_out") ? INTACT_FAN_OUT : INTACT_FAN_IN;
  if (strncmp(call, "kaiming_uniform_", 16) == 0) return intact_init_kaiming_uniform(d->generator, d->tensor, gain, fan);
  if (strncmp(call, "kaiming_normal_", 15) == 0) return intact_init_kaiming_normal(d->generator, d->tensor, gain, fan);
  INTACT_TRY(intact_init_gain(d->c->context, strstr(call, "tanh") ? "tanh" : "linear", 0, &gain));
  if (strncmp(call, "xavier_uniform_", 15) == 0) return intact_init_xavier_uniform(d->generator, d->tensor, gain);
  if (strncmp(call, "xavier_normal_", 14) == 0) return intact_init_xavier_normal(d->generator, d->tensor, gain);
  if (strncmp(call, "trunc_normal_(0, 1, -2, 2)", 26) == 0) {
    return intact_init_truncated_normal(d->generator, d->tensor, 0, 1, -2, 2);
  }
  return conf_skip(d->c, d->text);
}

static const struct {
  const char *part;
  intact_status (*call)(draw *d);
} calls[] = {{"init.", call_init},         {"randn(", call_randn},         {"randint(", call_randint},
             {"randperm(", call_randperm}, {"multinomial(", call_multinomial}, {"dropout(", call_dropout},
             {"bernoulli", call_bernoulli}, {"exponential_(", call_exponential}, {"uniform_(", call_uniform},
             {"random_(", call_random},    {"normal", call_normal},        {"rand(", call_rand}};

intact_status conf_handle_random(conf_case *c) {
  draw d = {.c = c};
  INTACT_TRY(intact_generator_create(c->context, (uint64_t)conf_attr_int(c, "seed", 0), &d.generator));
  intact_status status = INTACT_OK;
  size_t i;
  const json_t *text;
  json_array_foreach(conf_attr(c, "calls"), i, text) {
    d.text = json_string_value(text);
    d.tensor = NULL;
    size_t k = 0;
    while (k < sizeof calls / sizeof calls[0] && !strstr(d.text, calls[k].part)) k++;
    status = k < sizeof calls / sizeof calls[0] ? calls[k].call(&d) : conf_skip(c, d.text);
    if (status != INTACT_OK || !d.tensor) break;
    status = conf_result(c, d.tensor, "y%d", (int)i);
    if (status != INTACT_OK) break;
  }
  intact_generator_destroy(d.generator);
  return status;
}

/* ---- default_init ---- */
enum { MAX_PARAMETERS = 64 };
typedef struct module {
  conf_case *c;
  intact_generator *generator;
  int n;
  intact_tensor *made[MAX_PARAMETERS]; /* shapes as expected, in the order of the case */
  const char *names[MAX_PARAMETERS];
} module;

static intact_tensor *parameter(const module *m, const char *format, const char *prefix) {
  char name[80];
  snprintf(name, sizeof name, "%s%s", prefix, format);
  for (int i = 0; i < m->n; i++) {
    if (strcmp(m->names[i], name) == 0) return m->made[i];
  }
  return NULL;
}

static intact_status init_module(module *m, const char *text, const char *prefix) {
  intact_tensor *weight = parameter(m, "weight", prefix), *bias = parameter(m, "bias", prefix);
  double n[2] = {0, -1};
  if (strncmp(text, "Linear(", 7) == 0 || strncmp(text, "Conv", 4) == 0) return intact_init_linear(m->generator, weight, bias);
  if (strncmp(text, "Bilinear(", 9) == 0) return intact_init_bilinear(m->generator, weight, bias);
  static const char *const norms[] = {"BatchNorm", "LayerNorm(", "GroupNorm(", "InstanceNorm", "RMSNorm("};
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
    if (strncmp(text, norms[i], strlen(norms[i])) == 0) return weight ? intact_init_norm(weight, bias) : INTACT_OK;
  if (strncmp(text, "PReLU(", 6) == 0) return intact_init_constant(weight, 0.25);
  if (strncmp(text, "Embedding", 9) == 0) {
    n[0] = -1;
    numbers_after(text, "padding_idx=", n, 1);
    return intact_init_embedding(m->generator, weight, (int64_t)n[0]);
  }
  if (strncmp(text, "LSTM", 4) == 0 || strncmp(text, "GRU", 3) == 0 || strncmp(text, "RNN", 3) == 0) {
    intact_tensor *own[MAX_PARAMETERS];
    int n_own = 0;
    numbers_after(text, "(", n, 2);
    for (int i = 0; i < m->n; i++)
      if (strncmp(m->names[i], prefix, strlen(prefix)) == 0) own[n_own++] = m->made[i];
    return intact_init_recurrent(m->generator, (int64_t)n[1], n_own, own);
  }
  if (strncmp(text, "MultiheadAttention(", 19) == 0) {
    return intact_init_attention(m->generator, parameter(m, "in_proj_weight", ""), parameter(m, "in_proj_bias", ""),
                                 parameter(m, "out_proj.weight", ""), parameter(m, "out_proj.bias", ""));
  }
  if (strncmp(text, "ReLU(", 5) == 0) return INTACT_OK;
  return conf_skip(m->c, text);
}

static intact_status init_all(module *m, const char *text) {
  if (strncmp(text, "Sequential(", 11) != 0) return init_module(m, text, "");
  for (const char *at = strstr(text, "  ("); at; at = strstr(at, "  (")) {
    char prefix[16] = "";
    snprintf(prefix, sizeof prefix, "%d.", atoi(at + 3));
    at = strstr(at, "): ") + 3;
    INTACT_TRY(init_module(m, at, prefix));
  }
  return INTACT_OK;
}

intact_status conf_handle_default_init(conf_case *c) {
  module m = {.c = c};
  const char *name;
  json_t *key;
  json_object_foreach(json_object_get(c->json, "expect"), name, key) {
    const intact_tensor *want = conf_tensor(c, json_string_value(key));
    if (!want || strcmp(name, "next_rand") == 0 || m.n == MAX_PARAMETERS) continue;
    m.names[m.n] = name;
    INTACT_TRY(intact_tensor_create(c->context, INTACT_F32, want->rank, want->dims, &m.made[m.n]));
    INTACT_TRY(conf_result(c, m.made[m.n++], "%s", name));
  }
  INTACT_TRY(intact_generator_create(c->context, (uint64_t)conf_attr_int(c, "seed", 0), &m.generator));
  intact_status status = init_all(&m, conf_attr_text(c, "module", ""));
  intact_tensor *next = NULL;
  const int64_t two = 2;
  if (status == INTACT_OK) status = intact_tensor_create(c->context, INTACT_F32, 1, &two, &next);
  if (status == INTACT_OK) {
    intact_random_uniform_f32(m.generator, two, 0, 1, intact_tensor_mutable_data(next));
    status = conf_result(c, next, "next_rand");
  }
  intact_generator_destroy(m.generator);
  return status;
}

/* ---- loader and state ---- */
intact_status conf_handle_loader(conf_case *c) {
  const int64_t n = conf_attr_int(c, "n", 0), epochs = conf_attr_int(c, "epochs", 1), all = n * epochs;
  const bool own = strcmp(conf_attr_text(c, "generator", "default"), "default") != 0;
  intact_generator *generator, *sampler = NULL;
  intact_tensor *order = NULL;
  INTACT_TRY(intact_generator_create(c->context, (uint64_t)conf_attr_int(c, "seed", 0), &generator));
  intact_status status = intact_generator_create(c->context, 0, &sampler);
  if (status == INTACT_OK) status = intact_tensor_create(c->context, INTACT_S64, 1, &all, &order);
  for (int64_t e = 0; status == INTACT_OK && e < epochs; e++) {
    int64_t *out = (int64_t *)intact_tensor_mutable_data(order) + e * n;
    if (own) {
      intact_random_epoch_order(generator, n, out);
    } else { /* the sampler gets a generator of its own, seeded from the default one */
      intact_generator_bits64(generator);
      intact_generator_seed(sampler, intact_generator_bits64(generator) & INT64_MAX);
      intact_random_permutation(sampler, n, out);
    }
  }
  intact_generator_destroy(sampler);
  intact_generator_destroy(generator);
  return status == INTACT_OK ? conf_result(c, order, "order") : status;
}

intact_status conf_handle_generator_state(conf_case *c) {
  intact_generator *generator, *other = NULL;
  intact_tensor *state = NULL;
  float values[3], again;
  const int64_t bytes = INTACT_GENERATOR_STATE_BYTES;
  INTACT_TRY(intact_generator_create(c->context, (uint64_t)conf_attr_int(c, "seed", 0), &generator));
  intact_random_normal_f32(generator, 3, 0, 1, values);
  intact_status status = intact_tensor_create(c->context, INTACT_U8, 1, &bytes, &state);
  if (status == INTACT_OK) status = intact_generator_create(c->context, 0, &other);
  if (status == INTACT_OK) {
    intact_generator_get_state(generator, intact_tensor_mutable_data(state));
    status = intact_generator_set_state(other, intact_tensor_data(state));
  }
  if (status == INTACT_OK) {
    intact_random_normal_f32(generator, 1, 0, 1, values);
    intact_random_normal_f32(other, 1, 0, 1, &again);
    if (values[0] != again) conf_fail(c, "expected %g from the restored state, got %g", (double)values[0], (double)again);
  }
  intact_generator_destroy(other);
  intact_generator_destroy(generator);
  return status == INTACT_OK ? conf_result(c, state, "state") : status;
}
