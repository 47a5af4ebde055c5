/* SPDX-License-Identifier: Apache-2.0 */
/* Post-training quantization in one call. */
#include "graph/pass.h"
#include "quant/annotate.h"
#include "quant/bias_correction.h"
#include "quant/equalize.h"

typedef struct quantization {
  const intact_quantize_options *options;
  intact_data *data;
  intact_note_list notes;
  intact_graph *reference, *result;
} quantization;

static intact_status quantize(quantization *q, const intact_graph *model) {
  const intact_quantize_options *options = q->options;
  INTACT_TRY(intact_graph_copy(model, &q->reference));
  if (model->stage == INTACT_STAGE_FLOAT) INTACT_TRY(intact__run_passes(q->reference, INTACT_STAGE_FLOAT, INTACT_STAGE_FLOAT));
  INTACT_TRY(intact__annotate(q->reference, options, &q->notes));
  if (options->equalize) INTACT_TRY(intact__equalize(q->reference, q->data, options->batch, &q->notes));
  INTACT_TRY(intact_graph_copy(q->reference, &q->result));
  INTACT_TRY(intact__prepare(q->result, &q->notes));
  INTACT_TRY(intact_calibrate(q->result, q->data, options->batch));
  INTACT_TRY(intact__convert(q->result, &q->notes));
  if (options->bias_correction) INTACT_TRY(intact__correct_biases(q->result, q->reference, q->data, &q->notes));
  return intact_graph_verify(q->result);
}

intact_status intact_quantize_with_reference(const intact_graph *model, intact_data *data,
                                             const intact_quantize_options *options, intact_graph **reference,
                                             intact_graph **result, intact_quantize_notes *notes) {
  intact_quantize_options defaults = intact_quantize_default_options();
  quantization q = {.options = options ? options : &defaults, .data = data};
  intact__notes_init(&q.notes, model->context);
  intact_status status = quantize(&q, model);
  if (status == INTACT_OK) {
    *result = q.result;
    q.result = NULL;
    if (reference) {
      *reference = q.reference;
      q.reference = NULL;
    }
    if (notes) intact__notes_take(&q.notes, notes);
  }
  intact_graph_destroy(q.reference);
  intact_graph_destroy(q.result);
  intact__notes_fini(&q.notes);
  return status;
}

intact_status intact_quantize(const intact_graph *model, intact_data *data, const intact_quantize_options *options,
                              intact_graph **result, intact_quantize_notes *notes) {
  return intact_quantize_with_reference(model, data, options, NULL, result, notes);
}
