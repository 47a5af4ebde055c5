/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's options, checked and turned into specs. */
#include "quant/settings.h"

#include <string.h>

intact_quantize_options intact_quantize_default_options(void) {
  return (intact_quantize_options){
      .activations = INTACT_U8,
      .equalize = true,
      .bias_correction = true,
      .batch = 32,
  };
}

/* The option that starts at `at`: its name and value as lengths; returns where the next one starts, NULL at the end. */
static const char *next_option(const char *at, size_t *name, const char **value, size_t *value_length) {
  size_t length = strcspn(at, ",");
  const char *equals = memchr(at, '=', length);
  *name = equals ? (size_t)(equals - at) : length;
  *value = equals ? equals + 1 : at + length;
  *value_length = length - (size_t)(*value - at);
  return at[length] ? at + length + 1 : NULL;
}

bool intact__option_find(const char *options, const char *name, char *buffer, size_t bytes) {
  size_t wanted = strlen(name);
  for (const char *at = options; at && *at;) {
    size_t length, value_length;
    const char *value, *next = next_option(at, &length, &value, &value_length);
    if (length == wanted && memcmp(at, name, length) == 0) {
      if (value_length >= bytes) value_length = bytes - 1;
      memcpy(buffer, value, value_length);
      buffer[value_length] = 0;
      return true;
    }
    at = next;
  }
  return false;
}

intact_status intact__options_check(intact_context *context, const char *owner, const char *known, const char *given) {
  for (const char *at = given; at && *at;) {
    size_t length, value_length;
    const char *value, *next = next_option(at, &length, &value, &value_length);
    char name[64], ignored[64];
    if (length >= sizeof name) length = sizeof name - 1;
    memcpy(name, at, length);
    name[length] = 0;
    if (!intact__option_find(known, name, ignored, sizeof ignored))
      INTACT_FAIL(context, WRONG_USE, owner, "%s has no option '%s'; it takes: %s", owner, name, *known ? known : "none");
    at = next;
  }
  return INTACT_OK;
}

intact_status intact__observer_parse(intact_context *context, const char *text, const intact_observer **row,
                                     const char **options) {
  char name[64];
  size_t length = strcspn(text, ":");
  if (length < sizeof name) {
    memcpy(name, text, length);
    name[length] = 0;
    *row = intact__find_observer(name);
    *options = text[length] ? text + length + 1 : NULL;
    if (*row) return intact__options_check(context, (*row)->name, (*row)->options, *options);
  }
  INTACT_FAIL(context, WRONG_USE, "", "there is no observer '%.*s'; `intact observers` lists them", (int)length, text);
}

/* The observer of a spec: what the caller wishes, else the one named. */
static intact_status set_observer(intact_graph *graph, intact_quant_spec *spec, const char *wish, const char *otherwise) {
  const char *options = NULL;
  INTACT_TRY(intact__observer_parse(graph->context, wish ? wish : otherwise, &spec->observer, &options));
  if (options) {
    spec->options = intact__arena_strdup(&graph->arena, options);
    if (!spec->options) return intact__no_memory(graph->context, strlen(options) + 1);
  }
  /* The observer says whether it takes such a spec. */
  intact_observation *trial = NULL;
  INTACT_TRY(intact__observation_create(graph->context, spec, &trial));
  intact__observation_release(trial);
  return INTACT_OK;
}

intact_status intact__spec_set(intact_graph *graph, const intact_quantize_options *options, intact_spec_set *specs) {
  if (options->activations != INTACT_U8 && options->activations != INTACT_S8)
    INTACT_FAIL(graph->context, UNSUPPORTED_TYPE, "", "activations of type %s: the quantizer makes u8 and s8 ones",
                intact_dtype_text(options->activations));
  intact_quant_spec activation = {.dtype = options->activations, .scheme = INTACT_PER_TENSOR_AFFINE, .axis = -1};
  /* Weights lie on -127..127: the same grid on both sides of zero, and no pair of products of the integer kernels can leave
     the range that symmetric kernels of other runtimes assume. Scales may be tiny (PyTorch's observers stop at 2^-23): a channel
     of tiny weights keeps its 8 bits, and where a bias needs more, its scale is raised. */
  intact_quant_spec weight = {.dtype = INTACT_S8,
                              .quant_min = -127,
                              .quant_max = 127,
                              .scheme = INTACT_PER_CHANNEL_SYMMETRIC,
                              .axis = 0,
                              .eps = 0x1p-100};
  intact_quant_spec weight_tensor = weight;
  weight_tensor.scheme = INTACT_PER_TENSOR_SYMMETRIC;
  weight_tensor.axis = -1;
  specs->activation = specs->constant = activation;
  INTACT_TRY(set_observer(graph, &specs->activation, options->observer, "histogram"));
  INTACT_TRY(set_observer(graph, &specs->constant, NULL, "min_max"));
  bool per_tensor = options->weights_per_tensor;
  specs->weight = per_tensor ? weight_tensor : weight;
  INTACT_TRY(set_observer(graph, &specs->weight, options->weight_observer, per_tensor ? "min_max" : "per_channel_min_max"));
  specs->weight_tensor = weight_tensor;
  return set_observer(graph, &specs->weight_tensor, per_tensor ? options->weight_observer : NULL, "min_max");
}
