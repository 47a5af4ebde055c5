/* SPDX-License-Identifier: Apache-2.0 */
/* The table of fake quantizers. */
#include "quant/fake_quantizers.h"

#include <string.h>

#include "quant/settings.h"

#define AVERAGING "averaging_constant=0.01"

static const intact_fake_row fused = {
    .name = "fused",
    .torch_name = "FusedMovingAvgObsFakeQuantize",
    .doc = "moving average of the range, qparams by the integer libraries' rule at every forward; gradient 1 inside the range",
    .options = AVERAGING,
    .kind = INTACT_FAKE_FUSED,
};
static const intact_fake_row straight_through = {
    .name = "straight_through",
    .torch_name = "FakeQuantize",
    .doc = "moving average of the range, qparams by the observers' rule; gradient 1 inside the range",
    .options = AVERAGING,
    .kind = INTACT_FAKE_OBSERVED,
};
static const intact_fake_row learnable = {
    .name = "learnable",
    .torch_name = "_LearnableFakeQuantize",
    .doc = "learned scale and zero point, estimated by a moving average until learning starts; gradients times 1/sqrt(elements * quant_max)",
    .options = AVERAGING,
    .kind = INTACT_FAKE_LEARNED,
    .is_learned = true,
};
static const intact_fake_row lsq = {
    .name = "lsq",
    .torch_name = NULL,
    .doc = "learned step sizes: as learnable, but starting at no more than 2 mean|x| / sqrt(quant_max), which few levels need",
    .options = AVERAGING,
    .kind = INTACT_FAKE_LEARNED,
    .is_learned = true,
    .mean_start = true,
};
static const intact_fake_row pact = {
    .name = "pact",
    .torch_name = NULL,
    .doc = "learned clip: the scale follows from a bound that gets the gradients of what it cuts off",
    .options = AVERAGING,
    .kind = INTACT_FAKE_LEARNED_CLIP,
    .is_learned = true,
};

const intact_fake_row *const intact__fake_quantizers[] = {
#define INTACT_FAKE_QUANTIZER(name) &name,
#include "quant/fake_quantizers.def"
#undef INTACT_FAKE_QUANTIZER
};
const int intact__n_fake_quantizers = INTACT_COUNT_OF(intact__fake_quantizers);

const intact_fake_row *intact__find_fake_quantizer(const char *name) {
  for (int i = 0; i < intact__n_fake_quantizers; i++) {
    const intact_fake_row *row = intact__fake_quantizers[i];
    if (strcmp(row->name, name) == 0 || (row->torch_name && strcmp(row->torch_name, name) == 0)) return row;
  }
  return NULL;
}

intact_status intact__fake_quantizer_parse(intact_context *context, const char *text, const intact_fake_row **row,
                                           const char **options) {
  char name[64];
  const size_t length = strcspn(text, ":");
  if (length < sizeof name) {
    memcpy(name, text, length);
    name[length] = 0;
    *row = intact__find_fake_quantizer(name);
    *options = text[length] ? text + length + 1 : NULL;
    if (*row) return intact__options_check(context, (*row)->name, (*row)->options, *options);
  }
  INTACT_FAIL(context, WRONG_USE, "", "there is no fake quantizer '%.*s'; there are: fused, learnable, lsq, pact, straight_through", (int)length,
              text);
}

static bool per_channel(intact_qscheme scheme) {
  return scheme != INTACT_PER_TENSOR_AFFINE && scheme != INTACT_PER_TENSOR_SYMMETRIC;
}

intact_status intact__fake_observation(intact_context *context, const intact_wish *wish, const intact_fake_row *row, const char *options,
                                       bool is_weight, int64_t channels, intact_observation **observation) {
  intact_quant_spec spec = wish->spec;
  const bool fixed = wish->kind == INTACT_WISH_FIXED, channelwise = per_channel(spec.scheme);
  if (!fixed) {
    spec.observer = intact__find_observer(channelwise ? "moving_average_per_channel_min_max" : "moving_average_min_max");
    spec.options = options;
  }
  intact_observation *made;
  INTACT_TRY(intact__observation_create(context, &spec, &made));
  made->fixed_scale = fixed ? wish->fixed_scale : 1.0f;
  made->fixed_zero_point = wish->fixed_zero_point;
  const bool learned = row->is_learned && !fixed;
  const intact_fake_options fake = {.kind = fixed ? INTACT_FAKE_OBSERVED : row->kind,
                                    .is_weight = is_weight,
                                    .use_grad_scaling = true,
                                    .mean_start = row->mean_start,
                                    .channels = learned && channelwise ? channels : 0,
                                    .scale = 1.0f};
  intact_status status = intact__fake_quantizer_create(made, &fake);
  if (status != INTACT_OK) {
    intact__observation_release(made);
    return status;
  }
  *observation = made;
  return INTACT_OK;
}
