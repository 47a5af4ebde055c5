/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that drive intact, as text: ops, kernels, quantizers, observers, what training takes, passes, formats. */
#ifndef INTACT_TABLES_H
#define INTACT_TABLES_H

#include "intact/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct intact_table {
  const char *name;
  int n_columns, n_rows;
  const char *const *columns; /* n_columns headings */
  const char *const *cells;   /* n_rows * n_columns, row by row */
} intact_table;

/* Makes the table called "ops", "kernels", "quantizers", "observers", "fake_quantizers", "optimizers", "schedulers", "networks", "passes"
   or "formats". Owned by the caller. */
INTACT_API intact_status intact_table_create(intact_context *context, const char *name, intact_table **table);
INTACT_API void intact_table_destroy(intact_context *context, intact_table *table); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
