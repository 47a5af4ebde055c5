/* SPDX-License-Identifier: Apache-2.0 */
/* torch.ao's named observers and fake quantizers, as specs. */
#ifndef INTACT_QUANT_OBSERVERS_PRESETS_H
#define INTACT_QUANT_OBSERVERS_PRESETS_H

#include "graph/fake_quantizer.h"

typedef struct intact_observer_preset {
  const char *name; /* "default_weight_observer" */
  intact_quant_spec spec;
  bool is_fake;
  intact_fake_kind fake; /* of fake quantizers */
} intact_observer_preset;

extern const intact_observer_preset intact__observer_presets[];
extern const int intact__n_observer_presets;
const intact_observer_preset *intact__find_observer_preset(const char *name); /* NULL: there is none */
/* An observation of the preset, with its fake quantizer if it is one. */
intact_status intact__observer_preset_create(intact_context *context, const intact_observer_preset *preset,
                                             intact_observation **observation);

#endif
