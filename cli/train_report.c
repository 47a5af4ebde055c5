/* SPDX-License-Identifier: Apache-2.0 */
/* What a training was like: JSON, and a page with curves that needs nothing but itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

json_t *cli_training_epochs(const intact_train_log *log) {
  json_t *list = json_array();
  for (int i = 0; i < log->n_epochs; i++) {
    const intact_train_epoch *e = &log->epochs[i];
    json_t *row = json_pack("{s:I}", "epoch", (json_int_t)e->epoch);
    json_object_set_new(row, "loss", cli_number(e->loss));
    json_object_set_new(row, "accuracy", cli_number(e->accuracy));
    if (!isnan(e->test_accuracy)) json_object_set_new(row, "test_accuracy", cli_number(e->test_accuracy));
    json_object_set_new(row, "lr", cli_number(e->lr));
    json_object_set_new(row, "seconds", cli_number(e->seconds));
    json_array_append_new(list, row);
  }
  return list;
}

static void write_log(FILE *out, const intact_train_log *log) {
  json_t *root = json_object(), *losses = json_array(), *events = json_array();
  for (int64_t i = 0; i < log->n_steps; i++) json_array_append_new(losses, cli_number((double)log->losses[i]));
  for (int i = 0; i < log->n_events; i++) json_array_append_new(events, json_string(log->events[i]));
  json_object_set_new(root, "epochs", cli_training_epochs(log));
  json_object_set_new(root, "losses", losses);
  json_object_set_new(root, "events", events);
  json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(root);
}

/* ---- the page ---- */
enum { WIDTH = 720, HEIGHT = 260, LEFT = 56, BOTTOM = 28, MAX_POINTS = 600 };

typedef struct curve {
  const char *name, *color;
  int n;
  double x[MAX_POINTS], y[MAX_POINTS];
} curve;

static void add_point(curve *k, double x, double y) {
  if (k->n == MAX_POINTS || !isfinite(y)) return;
  k->x[k->n] = x;
  k->y[k->n++] = y;
}

static void draw(FILE *out, const char *title, const char *unit, const char *x_unit, const curve *curves, int n, double x_max) {
  double low = INFINITY, high = -INFINITY;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < curves[i].n; k++) {
      low = fmin(low, curves[i].y[k]);
      high = fmax(high, curves[i].y[k]);
    }
  }
  if (!(high >= low)) return;
  if (high - low < 1e-9) high = low + 1e-9 + fabs(low) * 0.01;
  fprintf(out, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title, WIDTH, HEIGHT, title);
  for (int i = 0; i <= 4; i++) {
    const double value = low + (high - low) * i / 4, y = (HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 12) * i / 4.0;
    fprintf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" class=\"y\">%.4g</text>\n",
            LEFT, WIDTH, y, y, LEFT - 6, y + 4, value);
    fprintf(out, "<text x=\"%.1f\" y=\"%d\" class=\"x\">%.4g</text>\n", LEFT + (WIDTH - LEFT - 20) * i / 4.0, HEIGHT - 8, x_max * i / 4);
  }
  for (int i = 0; i < n; i++) {
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", curves[i].color);
    for (int k = 0; k < curves[i].n; k++) {
      fprintf(out, "%.1f,%.1f ", LEFT + (WIDTH - LEFT - 20) * (x_max > 0 ? curves[i].x[k] / x_max : 0),
              (HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 12) * (curves[i].y[k] - low) / (high - low));
    }
    fprintf(out, "\"/>\n");
  }
  fprintf(out, "</svg>\n<p>");
  for (int i = 0; i < n; i++) fprintf(out, "<span style=\"color:%s\">&#9632;</span> %s ", curves[i].color, curves[i].name);
  fprintf(out, "(%s, over %s)</p>\n", unit, x_unit);
}

/* The mean of the steps that fall on one point. */
static void thin_out(const intact_train_log *log, curve *k) {
  const int64_t per_point = log->n_steps / MAX_POINTS + 1;
  for (int64_t first = 0; first < log->n_steps; first += per_point) {
    const int64_t end = first + per_point < log->n_steps ? first + per_point : log->n_steps;
    double sum = 0;
    for (int64_t i = first; i < end; i++) sum += (double)log->losses[i];
    add_point(k, (double)end, sum / (double)(end - first));
  }
}

static void escape(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '<') fputs("&lt;", out);
    else if (*text == '&') fputs("&amp;", out);
    else fputc(*text, out);
  }
}

static void write_page(FILE *out, const intact_train_log *log) {
  curve *curves = calloc(2, sizeof *curves);
  if (!curves) return;
  fprintf(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Training</title>\n<style>\n"
               "body{font:15px/1.5 system-ui,sans-serif;max-width:%dpx;margin:2em auto;padding:0 1em;color:#222;background:#fff}\n"
               "svg{width:100%%;height:auto}.grid{stroke:#ddd}text{font-size:11px;fill:#666}.y{text-anchor:end}.x{text-anchor:middle}\n"
               "table{border-collapse:collapse}td,th{padding:2px 12px;text-align:right;border-bottom:1px solid #ddd}\n"
               "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}.grid{stroke:#333}text{fill:#999}}\n"
               "</style></head><body>\n<h1>Training</h1>\n", WIDTH);
  curves[0] = (curve){.name = "loss", .color = "#2a6fbb"};
  thin_out(log, &curves[0]);
  draw(out, "Loss", "mean of the batch", "steps", curves, 1, (double)log->n_steps);
  curves[0] = (curve){.name = "training samples", .color = "#2a6fbb"};
  curves[1] = (curve){.name = "test samples", .color = "#c2571a"};
  for (int i = 0; i < log->n_epochs; i++) {
    add_point(&curves[0], i + 1, log->epochs[i].accuracy);
    add_point(&curves[1], i + 1, log->epochs[i].test_accuracy);
  }
  draw(out, "Accuracy", "percent", "epochs", curves, curves[1].n ? 2 : 1, log->n_epochs);
  fprintf(out, "<h2>Epochs</h2>\n<table><tr><th>epoch<th>loss<th>accuracy %%<th>test %%<th>learning rate<th>seconds</tr>\n");
  for (int i = 0; i < log->n_epochs; i++) {
    const intact_train_epoch *e = &log->epochs[i];
    char test[32] = "";
    if (!isnan(e->test_accuracy)) snprintf(test, sizeof test, "%.2f", e->test_accuracy);
    fprintf(out, "<tr><td>%lld<td>%.5f<td>%.2f<td>%s<td>%.3g<td>%.2f</tr>\n", (long long)e->epoch, e->loss, e->accuracy, test, e->lr,
            e->seconds);
  }
  fprintf(out, "</table>\n");
  if (log->n_events) fprintf(out, "<h2>Events</h2>\n<ul>\n");
  for (int i = 0; i < log->n_events; i++) {
    fputs("<li>", out);
    escape(out, log->events[i]);
    fputs("</li>\n", out);
  }
  fprintf(out, "%s</body></html>\n", log->n_events ? "</ul>\n" : "");
  free(curves);
}

static int write_one(cli *c, const char *path, const intact_train_log *log, void (*write)(FILE *out, const intact_train_log *log)) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *memory = path ? open_memstream(&text, &bytes) : NULL;
  if (!path) return 0;
  if (memory) write(memory, log);
  const bool whole = memory && !ferror(memory), made = memory && fclose(memory) == 0 && whole && bytes > 0;
  const int code = made ? cli_write_file(c, path, text, bytes) : cli_file_failed(c, path, "there is no memory for it");
  free(text);
  return code;
}

int cli_training_write(cli *c, const intact_train_log *log) {
  if (c->silent) return 0;
  const int code = write_one(c, cli_get(c, "--log"), log, write_log);
  return code ? code : write_one(c, cli_get(c, "--report"), log, write_page);
}
