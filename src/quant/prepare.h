/* SPDX-License-Identifier: Apache-2.0 */
/* Observing an annotated graph, for calibration or for training. */
#ifndef INTACT_QUANT_PREPARE_H
#define INTACT_QUANT_PREPARE_H

#include "quant/annotate.h"
#include "quant/fake_quantizers.h"
#include "quant/groups.h"

/* Which fake quantizers training puts where; options of their observers (NULL: none). */
typedef struct intact_fake_plan {
  const intact_fake_row *activation, *weight;
  const char *activation_options, *weight_options;
} intact_fake_plan;

/* Annotated float graph -> observed graph with fake_quantize nodes. */
intact_status intact__prepare_for_training(intact_graph *graph, const intact_fake_plan *fakes, intact_note_list *notes);

#endif
