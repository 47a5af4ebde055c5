/* SPDX-License-Identifier: Apache-2.0 */
/* Inside view of a report: layers, outputs, advice in one arena. */
#ifndef INTACT_INSPECT_REPORT_H
#define INTACT_INSPECT_REPORT_H

#include "base/arena.h"
#include "intact/inspect.h"

struct intact_report {
  intact_context *context;
  intact_arena arena;
  intact_layer_report *layers;
  int n_layers;
  intact_output_report *outputs;
  int n_outputs;
  const char **advice;
  int n_advice;
};

/* Writes report->advice from its layers and outputs. */
intact_status intact__report_advise(intact_report *report);

#endif
