/* SPDX-License-Identifier: Apache-2.0 */
/* The fake quantizer row: what is put on the values of a network for training, by name. */
#ifndef INTACT_QUANT_FAKE_QUANTIZERS_H
#define INTACT_QUANT_FAKE_QUANTIZERS_H

#include "graph/fake_quantizer.h"
#include "graph/quantizer.h"

typedef struct intact_fake_row {
  const char *name;
  const char *torch_name; /* NULL: ours alone */
  const char *doc;
  const char *options; /* "averaging_constant=0.01": of its observer */
  intact_fake_kind kind;
  bool is_learned;
  bool mean_start; /* see intact_fake_quantizer */
} intact_fake_row;

extern const intact_fake_row *const intact__fake_quantizers[];
extern const int intact__n_fake_quantizers;
const intact_fake_row *intact__find_fake_quantizer(const char *name); /* by either name; NULL: there is none */
/* "NAME[:options]": the row, and the options for its observer (NULL: none). */
intact_status intact__fake_quantizer_parse(intact_context *context, const char *text, const intact_fake_row **row,
                                           const char **options);

/* An observation by the wish, with the row's observer (the wish's type, range and scheme) and its fake quantizer. channels: how many the
   value has along the wish's axis, 1 per tensor. A fixed wish is fixed here too. */
intact_status intact__fake_observation(intact_context *context, const intact_wish *wish, const intact_fake_row *row, const char *options,
                                       bool is_weight, int64_t channels, intact_observation **observation);

#endif
