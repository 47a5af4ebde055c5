/* SPDX-License-Identifier: Apache-2.0 */
/* The tables as text, row by row. */
#include "intact/tables.h"

#include <string.h>

#include "autograd/optimizer.h"
#include "autograd/scheduler.h"
#include "base/arena.h"
#include "base/text.h"
#include "graph/format.h"
#include "graph/op.h"
#include "graph/pass.h"
#include "graph/quantizer.h"
#include "kernels/kernel.h"
#include "quant/fake_quantizers.h"
#include "train/network.h"

typedef struct owned_table {
  intact_table table; /* first */
  intact_arena arena;
} owned_table;

static const char *join(intact_arena *arena, const char *a, const char *separator, const char *b) {
  return intact__arena_format(arena, "%s%s%s", a, *a && *b ? separator : "", b);
}

/* "Conv Gemm": the foreign names of one format. */
static const char *alias_names(intact_arena *arena, const intact_op *op, const char *format) {
  const char *names = "";
  for (const intact_alias *a = op->aliases; names && a && a->format; a++) {
    if (strcmp(a->format, format) != 0) continue;
    const size_t n = strlen(a->name);
    const char *at = names;
    bool there = false;
    while (!there && (at = strstr(at, a->name))) {
      there = (at == names || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ');
      at += n;
    }
    if (!there) names = join(arena, names, " ", a->name);
  }
  return names;
}

static const char *gradient_text(const intact_op *op) {
  if (op->grad == intact__grad_none) return "none";
  return op->grad == intact__grad_straight_through ? "straight-through" : "yes";
}

static void op_row(intact_arena *arena, int i, const char **cells) {
  const intact_op *op = intact__ops[i];
  cells[0] = op->name;
  cells[1] = op->lower_int ? "int" : "float";
  cells[2] = gradient_text(op);
  cells[3] = alias_names(arena, op, "onnx");
  cells[4] = alias_names(arena, op, "aten");
  cells[5] = alias_names(arena, op, "quantized");
  cells[6] = op->doc;
}

static void kernel_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  const intact_kernel_row *row = &intact__kernel_rows[i];
  cells[0] = row->family;
  cells[1] = row->name;
  cells[2] = intact_isa_text(row->isa);
  cells[3] = intact_isa_available(row->isa) ? "yes" : "no";
}

static void quantizer_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  const intact_quantizer *row = intact__quantizers[i];
  cells[0] = row->name;
  cells[1] = row->options;
  cells[2] = row->doc;
}

static void observer_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  const intact_observer *row = intact__observers[i];
  cells[0] = row->name;
  cells[1] = row->torch_name ? row->torch_name : "";
  cells[2] = row->options;
  cells[3] = row->per_channel ? "yes" : "no";
  cells[4] = row->merge ? "yes" : "no";
  cells[5] = row->doc;
}

static void pass_row(intact_arena *arena, int i, const char **cells) {
  const intact_pass *row = intact__passes[i];
  cells[0] = row->name;
  cells[1] = intact__arena_format(arena, "%s -> %s", intact_stage_text(row->needs), intact_stage_text(row->gives));
  cells[2] = row->numerics;
  cells[3] = row->precondition;
  cells[4] = row->doc;
}

static void format_row(intact_arena *arena, int i, const char **cells) {
  const intact_format *row = intact__formats[i];
  cells[0] = row->name;
  cells[1] = row->extensions;
  cells[2] = join(arena, row->import_graph ? "models" : "", ", ", row->read_tensors ? "tensors" : "");
  cells[3] = join(arena, row->export_graph ? "models" : "", ", ", row->write_tensors ? "tensors" : "");
  cells[4] = row->doc;
}

static void optimizer_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  cells[0] = intact__optimizers[i]->name;
  cells[1] = intact__optimizers[i]->options;
  cells[2] = intact__optimizers[i]->doc;
}

static void scheduler_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  cells[0] = intact__schedulers[i]->name;
  cells[1] = intact__schedulers[i]->options;
  cells[2] = intact__schedulers[i]->doc;
}

static void network_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  cells[0] = intact__networks[i]->name;
  cells[1] = intact__networks[i]->doc;
}

static void fake_quantizer_row(intact_arena *arena, int i, const char **cells) {
  (void)arena;
  const intact_fake_row *row = intact__fake_quantizers[i];
  cells[0] = row->name;
  cells[1] = row->torch_name ? row->torch_name : "";
  cells[2] = row->options;
  cells[3] = row->is_learned ? "yes" : "no";
  cells[4] = row->doc;
}

typedef struct source {
  const char *name;
  int n_columns;
  const char *columns[7];
  const int *n_rows;
  void (*row)(intact_arena *arena, int i, const char **cells); /* a NULL cell: no memory */
} source;

static const source sources[] = {
    {"ops", 7, {"name", "exec", "gradient", "onnx", "aten", "quantized", "doc"}, &intact__n_ops, op_row},
    {"kernels", 4, {"family", "name", "isa", "available"}, &intact__n_kernel_rows, kernel_row},
    {"quantizers", 3, {"name", "options", "doc"}, &intact__n_quantizers, quantizer_row},
    {"observers", 6, {"name", "torch", "options", "per_channel", "merges", "doc"}, &intact__n_observers, observer_row},
    {"fake_quantizers", 5, {"name", "torch", "options", "learned", "doc"}, &intact__n_fake_quantizers, fake_quantizer_row},
    {"optimizers", 3, {"name", "options", "doc"}, &intact__n_optimizers, optimizer_row},
    {"schedulers", 3, {"name", "options", "doc"}, &intact__n_schedulers, scheduler_row},
    {"networks", 2, {"name", "doc"}, &intact__n_networks, network_row},
    {"passes", 5, {"name", "stages", "numerics", "precondition", "doc"}, &intact__n_passes, pass_row},
    {"formats", 5, {"name", "extensions", "reads", "writes", "doc"}, &intact__n_formats, format_row},
};

intact_status intact_table_create(intact_context *context, const char *name, intact_table **table) {
  const source *from = NULL;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    if (strcmp(sources[i].name, name) == 0) from = &sources[i];
  if (!from) {
    INTACT_FAIL(context, WRONG_USE, "", "there is no table '%s': ops kernels quantizers observers fake_quantizers optimizers schedulers "
                "networks passes formats", name);
  }
  owned_table *t = intact__alloc_zeroed(context, 1, sizeof *t);
  if (!t) return intact__no_memory(context, sizeof *t);
  intact__arena_init(&t->arena, context);
  const size_t n_cells = (size_t)*from->n_rows * (size_t)from->n_columns;
  const char **cells = intact__arena_alloc(&t->arena, n_cells + 1, sizeof *cells);
  bool whole = cells != NULL;
  for (int i = 0; i < *from->n_rows && whole; i++) {
    const char **row = cells + i * from->n_columns;
    from->row(&t->arena, i, row);
    for (int k = 0; k < from->n_columns; k++) whole = whole && row[k];
  }
  t->table = (intact_table){from->name, from->n_columns, *from->n_rows, from->columns, cells};
  if (!whole) {
    intact_table_destroy(context, &t->table);
    return intact__no_memory(context, n_cells);
  }
  *table = &t->table;
  return INTACT_OK;
}

void intact_table_destroy(intact_context *context, intact_table *table) {
  if (!table) return;
  owned_table *t = (owned_table *)table;
  intact__arena_fini(&t->arena);
  intact__free(context, t);
}
