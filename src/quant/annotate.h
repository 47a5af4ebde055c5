/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of post-training quantization, as the one call that does all of them uses them. */
#ifndef INTACT_QUANT_ANNOTATE_H
#define INTACT_QUANT_ANNOTATE_H

#include "graph/quantizer.h"
#include "quant/notes.h"

intact_status intact__annotate(intact_graph *graph, const intact_quantize_options *options, intact_note_list *notes);
intact_status intact__prepare(intact_graph *graph, intact_note_list *notes);
intact_status intact__convert(intact_graph *graph, intact_note_list *notes);

/* claimed_by of nodes that stay float by the caller's wish; the reports show it as the reason. */
#define INTACT_KEPT_FLOAT "kept float by option"

#endif
