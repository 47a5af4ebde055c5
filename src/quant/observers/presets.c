/* SPDX-License-Identifier: Apache-2.0 */
/* Named observers and fake quantizers. */
#include "quant/observers/presets.h"

#include <string.h>

#include "quant/observers/observers.h"

enum { FAKE_NONE = -1, FAKE_OBSERVED = INTACT_FAKE_OBSERVED, FAKE_FUSED = INTACT_FAKE_FUSED };

#define CHANNEL_AXIS(scheme) (INTACT_##scheme == INTACT_PER_TENSOR_AFFINE || INTACT_##scheme == INTACT_PER_TENSOR_SYMMETRIC ? -1 : 0)

const intact_observer_preset intact__observer_presets[] = {
#define INTACT_PRESET(preset, row, type, qscheme, low, high, reduce, least, dynamic, text, kind) \
  {.name = #preset,                                                                              \
   .spec = {.dtype = INTACT_##type,                                                              \
            .quant_min = low,                                                                    \
            .quant_max = high,                                                                   \
            .scheme = INTACT_##qscheme,                                                          \
            .axis = CHANNEL_AXIS(qscheme),                                                       \
            .reduce_range = reduce,                                                              \
            .is_dynamic = dynamic,                                                               \
            .legacy_dtype = true,                                                                \
            .eps = least,                                                                        \
            .observer = &intact_observer_##row,                                                  \
            .options = text},                                                                    \
   .is_fake = FAKE_##kind != FAKE_NONE,                                                          \
   .fake = FAKE_##kind == FAKE_FUSED ? INTACT_FAKE_FUSED : INTACT_FAKE_OBSERVED},
#include "quant/observers/presets.def"
#undef INTACT_PRESET
};

const int intact__n_observer_presets = INTACT_COUNT_OF(intact__observer_presets);

const intact_observer_preset *intact__find_observer_preset(const char *name) {
  for (int i = 0; i < intact__n_observer_presets; i++)
    if (strcmp(intact__observer_presets[i].name, name) == 0) return &intact__observer_presets[i];
  return NULL;
}

intact_status intact__observer_preset_create(intact_context *context, const intact_observer_preset *preset,
                                             intact_observation **observation) {
  intact_observation *made;
  INTACT_TRY(intact__observation_create(context, &preset->spec, &made));
  if (preset->is_fake) {
    const intact_fake_options options = {.kind = preset->fake, .is_weight = preset->spec.dtype == INTACT_S8};
    intact_status status = intact__fake_quantizer_create(made, &options);
    if (status != INTACT_OK) {
      intact__observation_release(made);
      return status;
    }
  }
  *observation = made;
  return INTACT_OK;
}
