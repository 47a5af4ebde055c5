/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's options, checked and turned into specs. */
#ifndef INTACT_QUANT_SETTINGS_H
#define INTACT_QUANT_SETTINGS_H

#include "graph/quantizer.h"
#include "intact/quant.h"

/* Value of `name` in "a=1,b=2,c" as text into buffer ("" for an option without =); false when it is not there. */
bool intact__option_find(const char *options, const char *name, char *buffer, size_t bytes);
/* Every option of `given` must be named in `known` ("name=default,..."). */
intact_status intact__options_check(intact_context *context, const char *owner, const char *known, const char *given);

/* "NAME[:options]" of an observer: the row, and where the options start (NULL: none). */
intact_status intact__observer_parse(intact_context *context, const char *text, const intact_observer **row,
                                     const char **options);

typedef struct intact_spec_set {
  intact_quant_spec activation, constant, weight, weight_tensor;
} intact_spec_set;
/* Specs of the options; texts are copied into the graph's arena. Refuses types and observers that don't go together. */
intact_status intact__spec_set(intact_graph *graph, const intact_quantize_options *options, intact_spec_set *specs);

#endif
