/* SPDX-License-Identifier: Apache-2.0 */
/* The integer runtime: a program made from a graph once, run many times. */
#ifndef INTACT_RUN_H
#define INTACT_RUN_H

#include "intact/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct intact_program intact_program;

/* Plans a graph of any stage (a qdq graph is brought to the integer stage first if the build has the passes; the runtime half
   takes integer and float graphs). The program keeps a reference to nothing of `graph`. Shapes are planned at the first run
   for them and kept. */
INTACT_API intact_status intact_program_create(const intact_graph *graph, intact_program **program);
INTACT_API void intact_program_destroy(intact_program *program); /* takes NULL */
/* Runs on inputs in graph order; outputs[i] becomes owned by the caller. */
INTACT_API intact_status intact_program_run(intact_program *program, const intact_tensor *const *inputs, intact_tensor **outputs);
INTACT_API int intact_program_input_count(const intact_program *program);
INTACT_API int intact_program_output_count(const intact_program *program);
INTACT_API intact_value_info intact_program_input(const intact_program *program, int index);
INTACT_API intact_value_info intact_program_output(const intact_program *program, int index);
/* Reads an .intact file into a program: what an application needs. */
INTACT_API intact_status intact_program_load(intact_context *context, const char *path, intact_program **program);

/* What the last planned shape looks like, step by step. */
typedef struct intact_step_info {
  const char *name;   /* node */
  const char *op;
  const char *kernel; /* "" when float */
  bool integer;
  int64_t macs;
  double ms; /* of the last timed run */
} intact_step_info;
INTACT_API int intact_program_step_count(const intact_program *program);
INTACT_API intact_step_info intact_program_step(const intact_program *program, int index);
INTACT_API void intact_program_time_steps(intact_program *program, bool on);
INTACT_API size_t intact_program_arena_bytes(const intact_program *program);

#ifdef __cplusplus
}
#endif
#endif
