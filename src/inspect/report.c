/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a report, and what to change first. */
#include "inspect/report.h"

#include <math.h>

void intact_report_destroy(intact_report *report) {
  if (!report) return;
  intact__arena_fini(&report->arena);
  intact__free(report->context, report);
}

int intact_report_layer_count(const intact_report *report) { return report->n_layers; }
const intact_layer_report *intact_report_layer(const intact_report *report, int index) { return &report->layers[index]; }
int intact_report_output_count(const intact_report *report) { return report->n_outputs; }
const intact_output_report *intact_report_output(const intact_report *report, int index) { return &report->outputs[index]; }
int intact_report_advice_count(const intact_report *report) { return report->n_advice; }
const char *intact_report_advice(const intact_report *report, int index) { return report->advice[index]; }

enum { MAX_ADVICE = 8 };
static const double POOR_DB = 25, CLIPPED_SHARE = 0.005, FLOAT_SHARE = 0.05;

static bool say(intact_report *report, const char *text) {
  if (!text) return false;
  if (report->n_advice < MAX_ADVICE) report->advice[report->n_advice++] = text;
  return true;
}

/* The integer layer with the lowest SQNR here that was not named yet. */
static int worst_layer(const intact_report *report, const bool *named) {
  int worst = -1;
  for (int i = 0; i < report->n_layers; i++) {
    const intact_layer_report *l = &report->layers[i];
    if (named[i] || !l->integer || !(l->sqnr_here_db < POOR_DB)) continue;
    if (worst < 0 || l->sqnr_here_db < report->layers[worst].sqnr_here_db) worst = i;
  }
  return worst;
}

static bool advise_layer(intact_report *report, const intact_layer_report *l, int64_t macs) {
  if (l->integer && l->acc_headroom < 0) /* what was quantized here has room by construction, other files may not */
    return say(report, intact__arena_format(&report->arena, "%s: its int32 accumulator can overflow by %.1f bits; keep it float with "
                                            "--keep-float '%s'", l->name, -l->acc_headroom, l->name));
  if (!l->integer && l->macs > 0 && (double)l->macs >= FLOAT_SHARE * (double)macs)
    return say(report, intact__arena_format(&report->arena, "%s stays float (%s) with %.0f %% of the multiply-accumulates", l->name,
                                            l->why, 100 * (double)l->macs / (double)macs));
  return true;
}

intact_status intact__report_advise(intact_report *report) {
  intact_context *context = report->context;
  int64_t macs = 0;
  bool quantized = false; /* of a float network nothing is advised */
  report->advice = intact__arena_alloc(&report->arena, MAX_ADVICE, sizeof *report->advice);
  bool *named = intact__arena_alloc(&report->arena, (size_t)report->n_layers + 1, sizeof *named);
  if (!report->advice || !named) return intact__no_memory(context, MAX_ADVICE);
  for (int i = 0; i < report->n_layers; i++) {
    macs += report->layers[i].macs;
    quantized = quantized || report->layers[i].integer;
  }
  for (int i = 0; i < report->n_layers && quantized; i++)
    if (!advise_layer(report, &report->layers[i], macs ? macs : 1)) return intact__no_memory(context, 1);
  for (int k = 0; k < 3; k++) {
    const int worst = worst_layer(report, named);
    if (worst < 0) break;
    named[worst] = true;
    const intact_layer_report *l = &report->layers[worst];
    const char *text;
    if (l->clipped > CLIPPED_SHARE)
      text = intact__arena_format(&report->arena, "%s loses most here (%.1f dB) and %.2f %% of its values are clipped: widen its range "
                                  "with --observer min_max, or --keep-float '%s'", l->name, l->sqnr_here_db, 100 * l->clipped, l->name);
    else
      text = intact__arena_format(&report->arena, "%s loses most here (%.1f dB at a range of %.3g..%.3g): its values fill the range "
                                  "badly; try --keep-float '%s'", l->name, l->sqnr_here_db, l->range_low, l->range_high, l->name);
    if (!say(report, text)) return intact__no_memory(context, 1);
  }
  return INTACT_OK;
}
