/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what is quantized how: the caller's float nodes first, then one quantizer after the other. */
#include "quant/annotate.h"

#include <string.h>

#include "quant/settings.h"

/* ---- nodes that stay float ---- */

static bool matches(const char *pattern, const intact_node *node) {
  if (intact__glob(pattern, node->name) || strcmp(pattern, node->name) == 0) return true;
  char part[256];
  for (const char *at = node->source; at && *at;) {
    size_t length = strcspn(at, "+");
    if (length < sizeof part) {
      memcpy(part, at, length);
      part[length] = 0;
      if (intact__glob(pattern, part)) return true;
    }
    at += length + (at[length] != 0);
  }
  return node->module_path && *node->module_path && intact__glob(pattern, node->module_path);
}

static intact_status claim_float(intact_node *node) {
  intact_annotation *annotation = intact__node_annotate(node, INTACT_KEPT_FLOAT);
  if (!annotation) return intact__no_memory(node->graph->context, sizeof *annotation);
  for (int i = 0; i < node->n_operands; i++) annotation->operands[i].kind = INTACT_WISH_FLOAT;
  for (int i = 0; i < node->n_results; i++) annotation->results[i].kind = INTACT_WISH_FLOAT;
  return INTACT_OK;
}

static intact_status keep_float(intact_graph *graph, const char *pattern, int64_t *hits) {
  for (intact_node *node = graph->first; node; node = node->next) {
    if (matches(pattern, node)) {
      ++*hits;
      INTACT_TRY(claim_float(node));
    }
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(keep_float(node->bodies[b], pattern, hits));
  }
  return INTACT_OK;
}

/* ---- quantizers ---- */

static intact_status run_quantizer(intact_graph *graph, const intact_quantizer *row,
                                   const intact_quantizer_settings *settings) {
  if (row->validate) INTACT_TRY(row->validate(graph, settings));
  INTACT_TRY(row->annotate(graph, settings));
  for (intact_node *node = graph->first; node; node = node->next)
    for (int b = 0; b < node->n_bodies; b++) INTACT_TRY(run_quantizer(node->bodies[b], row, settings));
  return INTACT_OK;
}

/* One "NAME[:option[=value],...]". */
static intact_status run_named(intact_graph *graph, const char *text, size_t length, intact_quantizer_settings *settings) {
  char *copy = intact__arena_alloc(&graph->arena, length + 1, 1);
  if (!copy) return intact__no_memory(graph->context, length + 1);
  memcpy(copy, text, length);
  size_t name = strcspn(copy, ":");
  settings->options = copy[name] ? copy + name + 1 : "";
  copy[name] = 0;
  const intact_quantizer *row = intact__find_quantizer(copy);
  if (!row)
    INTACT_FAIL(graph->context, WRONG_USE, "", "there is no quantizer '%s'; `intact quantizers` lists them", copy);
  INTACT_TRY(intact__options_check(graph->context, row->name, row->options, settings->options));
  return run_quantizer(graph, row, settings);
}

static int64_t count_claimed(const intact_graph *graph) {
  int64_t claimed = 0;
  for (const intact_node *node = graph->first; node; node = node->next) {
    claimed += node->annotation && strcmp(node->annotation->claimed_by, INTACT_KEPT_FLOAT) != 0;
    for (int b = 0; b < node->n_bodies; b++) claimed += count_claimed(node->bodies[b]);
  }
  return claimed;
}

intact_status intact__annotate(intact_graph *graph, const intact_quantize_options *options, intact_note_list *notes) {
  intact_context *context = graph->context;
  if (graph->stage != INTACT_STAGE_FLOAT)
    INTACT_FAIL(context, WRONG_USE, graph->name, "the network is at stage %s: only float networks are quantized",
                intact_stage_text(graph->stage));
  intact_spec_set specs;
  INTACT_TRY(intact__spec_set(graph, options, &specs));
  for (int i = 0; i < options->n_keep_float; i++) {
    int64_t hits = 0;
    INTACT_TRY(keep_float(graph, options->keep_float[i], &hits));
    if (hits == 0)
      INTACT_FAIL(context, WRONG_USE, "", "no node is named '%s' (pattern of nodes to keep float); `intact inspect` lists them",
                  options->keep_float[i]);
    INTACT_TRY(intact__note(notes, "keep float %s: %lld nodes", options->keep_float[i], (long long)hits));
  }
  intact_quantizer_settings settings = {.activation = &specs.activation,
                                        .constant = &specs.constant,
                                        .weight = &specs.weight,
                                        .weight_tensor = &specs.weight_tensor,
                                        .io_integer = options->io_integer};
  const char *at = options->quantizer ? options->quantizer : "default";
  for (;; at++) {
    size_t length = strcspn(at, "+");
    INTACT_TRY(run_named(graph, at, length, &settings));
    at += length;
    if (!*at) break;
  }
  if (count_claimed(graph) == 0) INTACT_TRY(intact__note(notes, "nothing is quantized: no node has an integer kernel"));
  return INTACT_OK;
}

intact_status intact_annotate(intact_graph *graph, const intact_quantize_options *options) {
  intact_quantize_options defaults = intact_quantize_default_options();
  intact_note_list notes;
  intact__notes_init(&notes, graph->context);
  intact_status status = intact__annotate(graph, options ? options : &defaults, &notes);
  intact__notes_fini(&notes);
  return status;
}
