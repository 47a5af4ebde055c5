/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: the verb row, parsed arguments, results as text or as one JSON object. */
#ifndef INTACT_CLI_CLI_H
#define INTACT_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "intact/base.h"
#include "intact/inspect.h"
#include "intact/io.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_WRONG_USE = 2 };

typedef struct cli_option {
  const char *name;     /* "--data" or "-o" */
  const char *argument; /* "D"; NULL: a flag */
  const char *doc;
} cli_option;

typedef struct cli cli;

typedef struct intact_verb {
  const char *name;
  const char *arguments; /* "MODEL", "A B", "[MODEL]": positional arguments; those in brackets may be left out */
  const char *doc;       /* one sentence */
  const cli_option *options; /* ended by a zero row */
  int (*run)(cli *c);
} intact_verb;

extern const intact_verb *const cli_verbs[]; /* ended by NULL */
extern const cli_option cli_common_options[];

enum { CLI_MAX_ARGUMENTS = 256 };

/* One call of the command. */
struct cli {
  const intact_verb *verb;
  intact_context *context;
  bool json, quiet;
  bool silent; /* one of several processes, and not the one that speaks */
  const char *positional[8];
  int n_positional;
  struct {
    const char *name, *value;
  } options[CLI_MAX_ARGUMENTS];
  int n_options;
  json_t *result;        /* filled by the verb; printed at the end when --json */
  json_t *config_values; /* texts of --config */
};

const intact_verb *cli_find_verb(const char *name); /* NULL: there is none */
/* The option of the verb, or common to all; NULL: there is none. */
const cli_option *cli_find_option(const intact_verb *verb, const char *name);
/* Reads --config; 0 or an exit code after a message. */
int cli_read_config(cli *c, const char *path);
/* The value of an option given (the last one counts), NULL if it was not; a flag gives "". */
const char *cli_get(const cli *c, const char *name);
/* Numbers of options: false after a message when the text is no number in low..high. */
bool cli_int(cli *c, const char *name, int64_t fallback, int64_t low, int64_t high, int64_t *value);
bool cli_double(cli *c, const char *name, double fallback, double low, double high, double *value);
/* Comma-separated parts of a text, as a NULL-ended array in one heap block (free it). NULL text gives an empty array. */
char **cli_split(const char *text, int *count);

/* Prints "intact VERB: message" (or the JSON error) and returns CLI_WRONG_USE. */
int cli_wrong_use(cli *c, const char *format, ...) INTACT_PRINTF(2, 3);
/* Reports the context's last error and returns CLI_FAILED. */
int cli_failed(cli *c);

/* Reports that a file can't be written and returns CLI_FAILED. */
int cli_file_failed(cli *c, const char *path, const char *why);

/* `text` for people and JSON: control characters and bytes that are no UTF-8 as \\xNN; returns the buffer. */
const char *cli_plain(const char *text, char *buffer, size_t bytes);
/* A number for JSON: null when it is not finite. */
json_t *cli_number(double value);

/* ---- pieces shared by verbs (cli/common.c) ---- */
/* The samples that `option` ("--data") names. */
intact_status cli_open_data(cli *c, const intact_graph *graph, const char *option, intact_data **data, bool *wrong_use);
bool cli_engine(cli *c, const intact_graph *graph, intact_engine *engine); /* false after a wrong-use message */
bool cli_quantize_options(cli *c, intact_quantize_options *options, char ***keep_float);
int64_t cli_peak_rss(void);
double cli_seconds(void); /* monotonic */
int64_t cli_file_bytes(const char *path);
/* A whole file or none: written beside and renamed. 0, or CLI_FAILED after a message. */
int cli_write_file(cli *c, const char *path, const char *text, size_t bytes);
bool cli_can_write(const char *path); /* its folder is there and takes files: what long work asks before it starts */
const char *cli_shape(const intact_graph *graph, const intact_value_info *info, char *buffer, size_t bytes);
void cli_print_report(const intact_report *report, FILE *out);
json_t *cli_report_layers(const intact_report *report);
json_t *cli_report_outputs(const intact_report *report);
json_t *cli_report_advice(const intact_report *report);

extern const cli_option cli_data_options[]; /* ended by a zero row: --data --labels --samples --batch --mean --std */

/* Help texts, also the source of the man page and of the completion (`intact help --man`, `--completion`). */
void cli_print_help(FILE *out, const intact_verb *verb);
int cli_print_man(FILE *out);
int cli_print_completion(FILE *out);

#endif
