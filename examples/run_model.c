/* SPDX-License-Identifier: Apache-2.0 */
/* Runs an .intact file once on zeros (open sizes as 1) and prints the first numbers of every output. */
#include <stdio.h>

#include "intact/run.h"

static int failed(intact_context *context) {
  fprintf(stderr, "%s: %s\n", intact_status_text(intact_context_status(context)), intact_context_message(context));
  return 1;
}

int main(int argc, char **argv) {
  intact_context *context;
  intact_program *program;
  intact_tensor *inputs[16], *outputs[16];
  if (argc != 2 || intact_context_create(NULL, &context) != INTACT_OK) return 2;
  if (intact_program_load(context, argv[1], &program) != INTACT_OK) return failed(context);
  const int n_in = intact_program_input_count(program), n_out = intact_program_output_count(program);
  if (n_in > 16 || n_out > 16) return 2;
  for (int i = 0; i < n_in; i++) {
    intact_value_info info = intact_program_input(program, i);
    for (int k = 0; k < info.rank; k++) info.dims[k] = info.dims[k] < 0 ? 1 : info.dims[k];
    if (intact_tensor_create(context, info.dtype, info.rank < 0 ? 0 : info.rank, info.dims, &inputs[i]) != INTACT_OK) return failed(context);
  }
  if (intact_program_run(program, (const intact_tensor *const *)inputs, outputs) != INTACT_OK) return failed(context);
  for (int i = 0; i < n_out; i++) {
    intact_tensor *out;
    if (intact_tensor_cast(outputs[i], INTACT_F32, &out) != INTACT_OK) return failed(context);
    printf("%s:", intact_program_output(program, i).name);
    for (int64_t k = 0; k < 10 && k < intact_tensor_count(out); k++) printf(" %g", (double)((const float *)intact_tensor_data(out))[k]);
    printf("\n");
    intact_tensor_destroy(out);
    intact_tensor_destroy(outputs[i]);
  }
  for (int i = 0; i < n_in; i++) intact_tensor_destroy(inputs[i]);
  intact_program_destroy(program);
  intact_context_destroy(context);
  return 0;
}
