/* SPDX-License-Identifier: Apache-2.0 */
/* The fix-ups by name: what an alias row asks for when an ONNX operator is more than a renaming. */
#include "io/onnx/onnx_fixups.h"

#include <string.h>

static const intact_onnx_fixup *const families[] = {
    intact__onnx_fixups_composed, intact__onnx_fixups_control, intact__onnx_fixups_elementwise, intact__onnx_fixups_neural,
    intact__onnx_fixups_quantize, intact__onnx_fixups_rnn,     intact__onnx_fixups_shape,       intact__onnx_fixups_vision,
};

const intact_onnx_fixup *intact__onnx_find_fixup(const char *name) {
  for (int f = 0; f < INTACT_COUNT_OF(families); f++) {
    for (const intact_onnx_fixup *row = families[f]; row->name != NULL; row++) {
      if (strcmp(row->name, name) == 0) return row;
    }
  }
  return NULL;
}
