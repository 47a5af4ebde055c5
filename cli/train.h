/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of intact train: its options, the loop's log as a page and as JSON. */
#ifndef INTACT_CLI_TRAIN_H
#define INTACT_CLI_TRAIN_H

#include "cli.h"
#include "intact/train.h"

extern const cli_option cli_train_options[]; /* ended by a zero row */

enum { CLI_MAX_BITS = 64 };

/* The options as the library takes them, and the memory that they point to. */
typedef struct cli_training {
  intact_train_options options;
  intact_optimizer_options optimizer;
  intact_scheduler_options schedule;
  char optimizer_name[32], schedule_name[40];
  char **kept; /* texts of the schedule's options */
  intact_qat_options qat;
  intact_qat_bits bits[CLI_MAX_BITS + 2];
  int n_bits;
  char **lists[2], **keep_float;
  char method[100];
} cli_training;

/* Reads all options of the loop; 0, or an exit code after a message. Release with cli_training_free, also after a failure. */
int cli_training_read(cli *c, cli_training *training);
/* The options of quantization-aware training of `graph`: its first and last layer keep 8 bits. */
const intact_qat_options *cli_training_qat(cli_training *training, const intact_graph *graph);
void cli_training_free(cli_training *training);

/* Writes --report and --log; 0, or an exit code after a message. */
int cli_training_write(cli *c, const intact_train_log *log);
json_t *cli_training_epochs(const intact_train_log *log);

#endif
