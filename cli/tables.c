/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that print a table. */
#include <string.h>

#include "cli.h"
#include "intact/tables.h"

static void print_table(const intact_table *table) {
  size_t width[16] = {0};
  for (int k = 0; k < table->n_columns; k++) {
    width[k] = strlen(table->columns[k]);
    for (int r = 0; r < table->n_rows; r++) {
      const size_t n = strlen(table->cells[r * table->n_columns + k]);
      if (n > width[k]) width[k] = n;
    }
  }
  for (int r = -1; r < table->n_rows; r++) {
    for (int k = 0; k < table->n_columns; k++) {
      const char *cell = r < 0 ? table->columns[k] : table->cells[r * table->n_columns + k];
      if (k + 1 < table->n_columns)
        printf("%-*s  ", (int)(width[k] < 40 ? width[k] : 40), cell);
      else
        printf("%s\n", cell);
    }
  }
}

static int run(cli *c) {
  intact_table *table;
  if (intact_table_create(c->context, c->verb->name, &table) != INTACT_OK) return cli_failed(c);
  if (c->json) {
    json_t *rows = json_array();
    for (int r = 0; r < table->n_rows; r++) {
      json_t *row = json_object();
      for (int k = 0; k < table->n_columns; k++)
        json_object_set_new(row, table->columns[k], json_string(table->cells[r * table->n_columns + k]));
      json_array_append_new(rows, row);
    }
    json_object_set_new(c->result, "rows", rows);
  } else {
    print_table(table);
  }
  intact_table_destroy(c->context, table);
  return CLI_DONE;
}

#define TABLE_VERB(table, text) \
  const intact_verb intact_verb_##table = {.name = #table, .arguments = "", .doc = text, .options = NULL, .run = run}

TABLE_VERB(ops, "Prints the table of ops: what each computes, its integer form, its foreign names.");
TABLE_VERB(kernels, "Prints the table of integer kernels and the instruction set of each.");
TABLE_VERB(quantizers, "Prints the table of quantizers and their options.");
TABLE_VERB(observers, "Prints the table of observers and their options.");
TABLE_VERB(fake_quantizers, "Prints the table of fake quantizers: the methods of quantization-aware training.");
TABLE_VERB(optimizers, "Prints the table of optimizers, their options and defaults.");
TABLE_VERB(schedulers, "Prints the table of learning-rate schedules, their options and defaults.");
TABLE_VERB(networks, "Prints the table of networks that can be trained from scratch.");
TABLE_VERB(passes, "Prints the table of graph passes, in their order, with their preconditions.");
TABLE_VERB(formats, "Prints the table of file formats: what is read and written.");
