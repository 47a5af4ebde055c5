/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of quantizers. */
#include <string.h>

#include "graph/quantizer.h"

#define INTACT_QUANTIZER(name) extern const intact_quantizer intact_quantizer_##name;
#include "quant/quantizers/quantizers.def"
#undef INTACT_QUANTIZER

const intact_quantizer *const intact__quantizers[] = {
#define INTACT_QUANTIZER(name) &intact_quantizer_##name,
#include "quant/quantizers/quantizers.def"
#undef INTACT_QUANTIZER
};
const int intact__n_quantizers = sizeof intact__quantizers / sizeof intact__quantizers[0];

const intact_quantizer *intact__find_quantizer(const char *name) {
  for (int i = 0; i < intact__n_quantizers; i++)
    if (strcmp(intact__quantizers[i]->name, name) == 0) return intact__quantizers[i];
  return NULL;
}
