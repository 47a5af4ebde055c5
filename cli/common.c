/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that several verbs use: data options, engines, shapes, the printed report. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

const cli_option cli_data_options[] = {
    {"--data", "D", "samples: an IDX file, .npy, .npz, .safetensors, or a folder of these or of PNG/JPEG pictures"},
    {"--labels", "L", "labels of the samples: an IDX file, .npy or .safetensors"},
    {"--samples", "N", "use the first N samples (default: all)"},
    {"--batch", "N", "samples per step (default 32)"},
    {"--mean", "m[,m..]", "subtracted from u8/255 (or from float data), one value or one per channel"},
    {"--std", "s[,s..]", "then divided by, one value or one per channel"},
    {NULL, NULL, NULL}};

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t cli_peak_rss(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

bool cli_can_write(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
  struct stat info;
  const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  const bool can = folder && !is_folder && access(folder, W_OK | X_OK) == 0;
  free(folder);
  return can;
}

/* Devices and pipes can't be renamed onto. */
static bool is_special(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

int cli_write_file(cli *c, const char *path, const char *text, size_t bytes) {
  char beside[4096 + 32];
  const bool direct = is_special(path);
  snprintf(beside, sizeof beside, "%s.%ld.part", path, (long)getpid());
  FILE *out = direct ? fopen(path, "w") : fopen(beside, "wx");
  bool written = out && fwrite(text, 1, bytes, out) == bytes && fflush(out) == 0;
  int why = errno;
  if (out && fclose(out) != 0 && written) {
    written = false;
    why = errno;
  }
  if (written && !direct && rename(beside, path) != 0) {
    written = false;
    why = errno;
  }
  if (written) return 0;
  if (out && !direct) unlink(beside);
  return cli_file_failed(c, path, strerror(why));
}

int64_t cli_file_bytes(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

/* "0.485,0.456" into a heap array; NULL text gives none. */
static bool numbers(cli *c, const char *option, bool positive, double **values, int *count) {
  int n = 0;
  char **parts = cli_split(cli_get(c, option), &n);
  *values = malloc((size_t)(n ? n : 1) * sizeof **values);
  *count = n;
  bool good = parts && *values;
  for (int i = 0; i < n && good; i++) {
    char *end;
    (*values)[i] = strtod(parts[i], &end);
    good = *parts[i] && !*end && isfinite((*values)[i]) && !(positive && (*values)[i] <= 0);
    if (!good) cli_wrong_use(c, "%s has '%s'; %s numbers separated by commas are needed", option, parts[i], positive ? "positive" : "finite");
  }
  free(parts);
  return good;
}

intact_status cli_open_data(cli *c, const intact_graph *graph, const char *option, intact_data **data, bool *wrong_use) {
  intact_data_options options = {0};
  double *mean = NULL, *std = NULL;
  intact_status status = INTACT_WRONG_USE;
  *wrong_use = !cli_get(c, option);
  if (*wrong_use) {
    cli_wrong_use(c, "%s is needed: samples that look like those of real use", option);
    return status;
  }
  *wrong_use = !numbers(c, "--mean", false, &mean, &options.n_mean) || !numbers(c, "--std", true, &std, &options.n_std) ||
               !cli_int(c, "--samples", 0, 1, INT64_MAX, &options.samples);
  if (strcmp(option, "--data") != 0) options.samples = 0; /* held-out samples: all of them */
  if (!*wrong_use) {
    options.mean = mean;
    options.std = std;
    status = intact_data_open(c->context, cli_get(c, option), graph, &options, data);
  }
  free(mean);
  free(std);
  return status;
}

bool cli_engine(cli *c, const intact_graph *graph, intact_engine *engine) {
  const char *name = cli_get(c, "--engine");
  const intact_stage stage = intact_graph_stage(graph);
  *engine = stage == INTACT_STAGE_QDQ || stage == INTACT_STAGE_INTEGER ? INTACT_ENGINE_INT : INTACT_ENGINE_FLOAT;
  if (!name) return true;
  if (strcmp(name, "int") == 0) *engine = INTACT_ENGINE_INT;
  else if (strcmp(name, "float") == 0) *engine = INTACT_ENGINE_FLOAT;
  else if (strcmp(name, "interp") == 0) *engine = INTACT_ENGINE_INTERP;
  else {
    cli_wrong_use(c, "there is no engine '%s': int, float or interp", name);
    return false;
  }
  return true;
}

static bool one_of(cli *c, const char *option, const char *first, const char *second, bool *is_second) {
  const char *value = cli_get(c, option);
  *is_second = value && strcmp(value, second) == 0;
  if (!value || *is_second || strcmp(value, first) == 0) return true;
  cli_wrong_use(c, "%s is '%s': %s or %s", option, value, first, second);
  return false;
}

bool cli_quantize_options(cli *c, intact_quantize_options *options, char ***keep_float) {
  *options = intact_quantize_default_options();
  *keep_float = NULL;
  options->quantizer = cli_get(c, "--quantizer");
  options->observer = cli_get(c, "--observer");
  options->weight_observer = cli_get(c, "--weight-observer");
  bool s8;
  if (!one_of(c, "--activations", "u8", "s8", &s8) ||
      !one_of(c, "--weights", "per-channel", "per-tensor", &options->weights_per_tensor) ||
      !one_of(c, "--io", "float", "int", &options->io_integer) ||
      !cli_int(c, "--batch", options->batch, 1, 1 << 20, &options->batch))
    return false;
  if (s8) options->activations = INTACT_S8;
  if (cli_get(c, "--no-equalize")) options->equalize = false;
  if (cli_get(c, "--no-bias-correction")) options->bias_correction = false;
  *keep_float = cli_split(cli_get(c, "--keep-float"), &options->n_keep_float);
  union {
    char **from;
    const char *const *to;
  } cast = {*keep_float};
  options->keep_float = cast.to;
  return *keep_float != NULL;
}

const char *cli_shape(const intact_graph *graph, const intact_value_info *info, char *buffer, size_t bytes) {
  size_t used = 0;
  buffer[0] = 0;
  if (info->rank < 0) snprintf(buffer, bytes, "[...]");
  for (int i = 0; i < info->rank && used < bytes; i++) {
    const char *comma = i ? "," : "[";
    int n;
    if (info->dims[i] >= 0)
      n = snprintf(buffer + used, bytes - used, "%s%lld", comma, (long long)info->dims[i]);
    else
      n = snprintf(buffer + used, bytes - used, "%s%s", comma, intact_graph_symbol(graph, info->dims[i]));
    used += n > 0 ? (size_t)n : 0;
  }
  if (info->rank >= 0 && used < bytes) snprintf(buffer + used, bytes - used, "%s]", info->rank ? "" : "[");
  return buffer;
}

static void print_number(FILE *out, int width, const char *format, double value) {
  char text[48];
  if (isnan(value))
    snprintf(text, sizeof text, "-");
  else if (isinf(value))
    snprintf(text, sizeof text, value > 0 ? "exact" : "-inf");
  else
    snprintf(text, sizeof text, format, value);
  fprintf(out, "%*s", width, text);
}

static void print_layer(FILE *out, const intact_layer_report *l, int width) {
  char range[64] = "-";
  if (!isnan(l->range_low)) snprintf(range, sizeof range, "%.3g..%.3g", l->range_low, l->range_high);
  char plain[512];
  fprintf(out, "%-*.*s %-12.12s %-5s", width, width, cli_plain(l->name, plain, sizeof plain), l->op, l->integer ? "int" : "float");
  print_number(out, 8, "%.1f", l->sqnr_here_db);
  print_number(out, 8, "%.1f", l->sqnr_acc_db);
  print_number(out, 9, "%.5f", l->cosine);
  print_number(out, 9, "%.3g", l->max_abs);
  print_number(out, 8, "%.2f", 100 * l->clipped);
  fprintf(out, " %17s", range);
  print_number(out, 5, "%.0f", l->bias_headroom);
  print_number(out, 5, "%.0f", l->acc_headroom);
  fprintf(out, " %8lld %9lld", (long long)l->bytes, (long long)l->macs);
  print_number(out, 8, "%.3f", l->ms);
  fprintf(out, "%s%s\n", *l->why ? "  " : "", l->why);
}

void cli_print_report(const intact_report *report, FILE *out) {
  int width = 5;
  for (int i = 0; i < intact_report_layer_count(report); i++) {
    const int n = (int)strlen(intact_report_layer(report, i)->name);
    if (n > width) width = n;
  }
  if (width > 28) width = 28;
  fprintf(out, "%-*s %-12s %-5s%8s%8s%9s%9s%8s %17s%5s%5s %8s %9s%8s\n", width, "layer", "op", "exec", "here dB", "acc dB", "cosine",
          "max err", "clip %", "range", "b hr", "a hr", "bytes", "MACs", "ms");
  for (int i = 0; i < intact_report_layer_count(report); i++) print_layer(out, intact_report_layer(report, i), width);
  for (int i = 0; i < intact_report_output_count(report); i++) {
    const intact_output_report *o = intact_report_output(report, i);
    char plain[512];
    fprintf(out, "output %s:", cli_plain(o->name, plain, sizeof plain));
    print_number(out, 1, " %.1f dB", o->sqnr_db);
    print_number(out, 1, ", cosine %.6f", o->cosine);
    print_number(out, 1, ", max error %.4g", o->max_abs);
    if (!isnan(o->max_steps)) fprintf(out, " (%.3g steps)", o->max_steps);
    fputc('\n', out);
  }
  if (intact_report_advice_count(report)) fprintf(out, "what to change first:\n");
  for (int i = 0; i < intact_report_advice_count(report); i++) fprintf(out, "  %d. %s\n", i + 1, intact_report_advice(report, i));
}

json_t *cli_report_layers(const intact_report *report) {
  json_t *list = json_array();
  for (int i = 0; i < intact_report_layer_count(report); i++) {
    const intact_layer_report *l = intact_report_layer(report, i);
    json_t *row = json_pack("{s:s,s:s,s:s,s:s,s:I,s:I}", "name", l->name, "op", l->op, "exec", l->integer ? "int" : "float", "why",
                            l->why, "bytes", (json_int_t)l->bytes, "macs", (json_int_t)l->macs);
    json_object_set_new(row, "sqnr_here_db", cli_number(l->sqnr_here_db));
    json_object_set_new(row, "sqnr_acc_db", cli_number(l->sqnr_acc_db));
    json_object_set_new(row, "cosine", cli_number(l->cosine));
    json_object_set_new(row, "max_abs", cli_number(l->max_abs));
    json_object_set_new(row, "clipped", cli_number(l->clipped));
    json_object_set_new(row, "range", isnan(l->range_low) ? json_null() : json_pack("[f,f]", l->range_low, l->range_high));
    json_object_set_new(row, "bias_headroom", cli_number(l->bias_headroom));
    json_object_set_new(row, "acc_headroom", cli_number(l->acc_headroom));
    json_object_set_new(row, "ms", cli_number(l->ms));
    json_array_append_new(list, row);
  }
  return list;
}

json_t *cli_report_outputs(const intact_report *report) {
  json_t *list = json_array();
  for (int i = 0; i < intact_report_output_count(report); i++) {
    const intact_output_report *o = intact_report_output(report, i);
    json_t *row = json_pack("{s:s}", "name", o->name);
    json_object_set_new(row, "sqnr_db", cli_number(o->sqnr_db));
    json_object_set_new(row, "cosine", cli_number(o->cosine));
    json_object_set_new(row, "max_abs", cli_number(o->max_abs));
    json_object_set_new(row, "max_steps", cli_number(o->max_steps));
    json_array_append_new(list, row);
  }
  return list;
}

json_t *cli_report_advice(const intact_report *report) {
  json_t *list = json_array();
  for (int i = 0; i < intact_report_advice_count(report); i++)
    json_array_append_new(list, json_string(intact_report_advice(report, i)));
  return list;
}
