/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, copying, interpreting, planning, running and writing when the heap ends at any request: no-memory, no leak. */
#include "support/scarce_heap.h"

#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "intact/io.h"
#include "run/program.h"

static const char text[] =
    "intact graph 1\n"
    "name \"net\"\n"
    "stage integer\n"
    "requantize f32_rne\n"
    "meta \"key\" \"value\"\n"
    "symbols N\n"
    "input x: f32[N,2,4,4]\n"
    "input c: bool[]\n"
    "constant w: s8[3,2,1,1]{1, -2, 3, -127, 5, 6} q{per_channel_symmetric -127..127 axis=0 n=3 scale=[0.5,0.1,0.2] zero=0}\n"
    "constant two: f32[1,3,1,1]{1, 2, 3}\n"
    "q: u8[N,2,4,4] q{per_tensor_affine 0..255 scale=0.02 zero=128} = quantize(x)\n"
    "a: u8[N,3,4,4] q{per_tensor_affine 0..255 scale=0.1 zero=3} = conv2d(q, w, _) .source=conv\n"
    "r: u8[N,3,4,4] q{per_tensor_affine 0..255 scale=0.1 zero=3} = relu(a)\n"
    "s: u8[N,3,4,4] q{per_tensor_affine 0..255 scale=0.00390625 zero=0} = softmax(r) dim=1\n"
    "d: f32[N,3,4,4] = dequantize(s)\n"
    "e: f32[N,3,4,4] = mul(d, two)\n"
    "y: f32[N,3,4,4] = if(c, e) .bodies=2\n"
    "  body \"then\"\n"
    "  input a: f32[N,3,4,4]\n"
    "  b: f32[N,3,4,4] = relu(a)\n"
    "  output b\n"
    "  end\n"
    "  body \"else\"\n"
    "  input a: f32[N,3,4,4]\n"
    "  b: f32[N,3,4,4] = neg(a)\n"
    "  output b\n"
    "  end\n"
    "output y\n"
    "output a\n";

static intact_status run_all(intact_context *context, const intact_graph *graph, const intact_tensor *const *inputs) {
  intact_program *program = NULL;
  intact_tensor *by_interp[2] = {NULL, NULL}, *by_run[2] = {NULL, NULL};
  intact_status status = intact_graph_interpret(graph, inputs, false, by_interp);
  if (status == INTACT_OK) status = intact_program_create(graph, &program);
  if (status == INTACT_OK) status = intact_program_run(program, inputs, by_run);
  for (int i = 0; i < 2 && status == INTACT_OK; i++)
    assert_memory_equal(by_interp[i]->data, by_run[i]->data, intact_tensor_bytes(by_run[i]));
  for (int i = 0; i < 2; i++) {
    intact_tensor_destroy(by_interp[i]);
    intact_tensor_destroy(by_run[i]);
  }
  intact_program_destroy(program);
  (void)context;
  return status;
}

static intact_status work(intact_context *context) {
  intact_graph *graph = NULL, *copy = NULL, *read = NULL;
  intact_tensor *inputs[2] = {NULL, NULL};
  char *printed = NULL, path[1200];
  snprintf(path, sizeof path, "%s/tests/%ld_heap.intact", INTACT_BINARY_DIR, (long)getpid());
  intact_status status = intact_graph_parse(context, text, &graph);
  if (status == INTACT_OK) status = intact_graph_print(graph, &printed);
  if (status == INTACT_OK) assert_string_equal(printed, text);
  if (status == INTACT_OK) status = intact_graph_copy(graph, &copy);
  if (status == INTACT_OK) status = intact_tensor_create(context, INTACT_F32, 4, (const int64_t[]){2, 2, 4, 4}, &inputs[0]);
  if (status == INTACT_OK) status = intact_tensor_create(context, INTACT_BOOL, 0, NULL, &inputs[1]);
  for (int64_t i = 0; status == INTACT_OK && i < inputs[0]->count; i++) intact__f32(inputs[0])[i] = (float)(i % 13) * 0.237f - 1;
  if (status == INTACT_OK) status = run_all(context, copy, (const intact_tensor *const *)inputs);
  if (status == INTACT_OK) status = intact_model_write(copy, path, NULL);
  assert_true(status == INTACT_OK || access(path, F_OK) != 0);
  if (status == INTACT_OK) status = intact_model_read(context, path, &read);
  unlink(path);
  intact_text_destroy(context, printed);
  for (int i = 0; i < 2; i++) intact_tensor_destroy(inputs[i]);
  intact_graph_destroy(read);
  intact_graph_destroy(copy);
  intact_graph_destroy(graph);
  return status;
}

static void test_every_request(void **state) {
  (void)state;
  intact_context_destroy(test_context(1)); /* skips where the CPU lacks the instruction set */
  heap h = {0};
  intact_context_options options = intact_context_default_options();
  options.threads = 1;
  options.allocator = (intact_allocator){&h, heap_allocate, heap_release};
  intact_context *context = NULL;
  assert_int_equal(intact_context_create(&options, &context), INTACT_OK);
  assert_ok(context, work(context));
  for (int64_t k = 1;; k++) {
    const int64_t limit = h.requests + k;
    h.refuse = limit;
    const intact_status status = work(context);
    h.refuse = 0;
    if (h.requests < limit) {
      print_message("%lld requests refused one by one\n", (long long)k - 1);
      break;
    }
    if (status != INTACT_OK && status != INTACT_NO_MEMORY) print_error("request %lld: %s\n", (long long)k, intact_context_message(context));
    assert_true(status == INTACT_OK || status == INTACT_NO_MEMORY);
    assert_true(k < 100000);
  }
  intact_context_destroy(context);
  assert_int_equal(h.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_request)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
