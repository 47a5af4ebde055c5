/* SPDX-License-Identifier: Apache-2.0 */
/* The text form: golden text, round trips, refusals. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "graph/text_form.h"
#include "ops/ops.h"

static intact_context *context;

static const char golden[] =
    "intact graph 1\n"
    "name \"net \\\"a\\\"\"\n"
    "stage integer\n"
    "requantize f32_rne\n"
    "meta \"producer\" \"a test\\x0a\"\n"
    "symbols N, \"batch size\"\n"
    "input x: u8[N,2,3,3] q{per_tensor_affine 0..255 scale=0.0078125 zero=128}\n"
    "input \"odd name\": f32[\"batch size\",4]\n"
    "constant w: s8[2,2,1,1]{1, -2, 3, -127} q{per_channel_symmetric -127..127 axis=0 n=2 scale=[0.5,0.1] zero=0}\n"
    "constant shift: f32[4]{0.1, -0, inf, 1.4013e-45}\n"
    "conv_1: u8[N,2,3,3] q{per_tensor_affine 128..255 scale=0.1 zero=128} = conv2d(x, w, _) stride=[1,1] .node=conv1 "
    ".source=conv1+relu1\n"
    "sum: f32[\"batch size\",4] = add(\"odd name\", shift) alpha=0.5 .float=\"no kernel\"\n"
    "y: f32[\"batch size\",4] = relu(sum)\n"
    "z: u8[N,2,3,3] q{per_tensor_affine 0..255 scale=0.1 zero=0} = relu(x) .rule=divide\n"
    "output conv_1\n"
    "output y\n"
    "output z\n";

static void round_trip(const char *text) {
  intact_graph *graph = NULL;
  char *again = NULL;
  assert_ok(context, intact_graph_parse(context, text, &graph));
  assert_ok(context, intact_graph_print(graph, &again));
  assert_string_equal(again, text);
  intact_text_destroy(context, again);
  intact_graph_destroy(graph);
}

static void test_golden(void **state) {
  (void)state;
  round_trip(golden);
}

static void test_meaning(void **state) {
  (void)state;
  intact_graph *graph = NULL;
  assert_ok(context, intact_graph_parse(context, golden, &graph));
  const intact_value *w = intact__graph_find_value(graph, "w"), *shift = intact__graph_find_value(graph, "shift");
  assert_int_equal(graph->stage, INTACT_STAGE_INTEGER);
  assert_string_equal(graph->name, "net \"a\"");
  assert_string_equal(graph->meta[1], "a test\n");
  assert_int_equal(((const int8_t *)w->constant->data)[3], -127);
  assert_true(w->qparams->scale[1] == 0.1f && w->qparams->zero_point[1] == 0);
  assert_true(signbit(intact__f32(shift->constant)[1]) && isinf(intact__f32(shift->constant)[2]));
  assert_true(intact__f32(shift->constant)[3] == 0x1p-149f);
  const intact_node *conv = intact__graph_find_node(graph, "conv1");
  assert_null(conv->operands[2]);
  assert_true(!conv->divides && intact__graph_find_value(graph, "z")->producer->divides);
  assert_int_equal(conv->results[0]->qparams->quant_min, 128);
  assert_string_equal(conv->source, "conv1+relu1");
  assert_string_equal(conv->next->why_float, "no kernel");
  intact_graph_destroy(graph);
}

/* Constants of every type and of many elements come back bit for bit. */
static void test_constants_of_every_type(void **state) {
  (void)state;
  uint64_t random = test_random_start();
  for (int dtype = 0; dtype < INTACT_DTYPE_COUNT; dtype++) {
    for (int64_t count = 0; count <= 200; count += 40) {
      intact_graph *graph = NULL, *back = NULL;
      intact_tensor *tensor = NULL;
      intact_value *value = NULL;
      char *text = NULL;
      assert_ok(context, intact__graph_create(context, "c", &graph));
      assert_ok(context, intact_tensor_create(context, (intact_dtype)dtype, 1, &count, &tensor));
      for (size_t i = 0; i < intact_tensor_bytes(tensor); i++)
        ((uint8_t *)tensor->data)[i] = (uint8_t)(dtype == INTACT_BOOL ? test_random(&random) & 1 : test_random(&random));
      assert_ok(context, intact__graph_add_constant(graph, "c", tensor, NULL, &value));
      assert_ok(context, intact__graph_set_outputs(graph, 1, &value));
      assert_ok(context, intact_graph_print(graph, &text));
      assert_ok(context, intact_graph_parse(context, text, &back));
      assert_int_equal(back->outputs[0]->dtype, dtype);
      assert_memory_equal(back->outputs[0]->constant->data, tensor->data, intact_tensor_bytes(tensor));
      intact_text_destroy(context, text);
      intact_graph_destroy(graph);
      intact_graph_destroy(back);
    }
  }
}

static void test_refusals(void **state) {
  (void)state;
  const char head[] = "intact graph 1\nname \"\"\nstage float\nrequantize f32_rne\n";
  const struct {
    const char *text;
    intact_status status;
  } cases[] = {
      {"", INTACT_MISSING_FIELD},
      {"input x: f32[2]\n", INTACT_MISSING_FIELD},
      {"input x: f32[2]\ninput x: f32[2]\noutput x\n", INTACT_DUPLICATE},
      {"input x: f33[2]\noutput x\n", INTACT_SYNTAX},
      {"input x: f32[2\noutput x\n", INTACT_SYNTAX},
      {"input x: f32[1,1,1,1,1,1,1,1,1]\noutput x\n", INTACT_SYNTAX},
      {"output x\n", INTACT_BAD_REFERENCE},
      {"input x: f32[2]\ny: f32[2] = relu(z)\noutput y\n", INTACT_BAD_REFERENCE},
      {"input x: f32[2]\ny: f32[2] = no_such_op(x)\noutput y\n", INTACT_UNSUPPORTED_OP},
      {"input x: f32[2]\ny: f32[3] = relu(x)\noutput y\n", INTACT_SIZE_MISMATCH},
      {"input x: f32[2]\ny: s32[2] = relu(x)\noutput y\n", INTACT_SIZE_MISMATCH},
      {"input x: f32[2]\ny: f32[2] = relu(x) slope=1\noutput y\n", INTACT_SYNTAX},
      {"input x: f32[2]\ny: f32[2] = relu(x, x)\noutput y\n", INTACT_INVALID_VALUE},
      {"input x: f32[2]\ny: f32[2] = relu(_)\noutput y\n", INTACT_MISSING_FIELD},
      {"input x: f32[2]\ny: f32[2] = relu(x) .bodies=99\noutput y\n", INTACT_OUT_OF_RANGE},
      {"input x: f32[2]\ny: f32[2] = relu(x) .bodies=1\noutput y\n", INTACT_SYNTAX},
      {"input x: f32[2]\ny: f32[2] = relu(x) .rule=nearest\noutput y\n", INTACT_SYNTAX},
      {"constant x: f32[3]{1, 2}\noutput x\n", INTACT_SIZE_MISMATCH},
      {"constant x: f32[1]{1, 2}\noutput x\n", INTACT_SIZE_MISMATCH},
      {"constant x: u8[1]{256}\noutput x\n", INTACT_OUT_OF_RANGE},
      {"constant x: u8[2]x\"0g01\"\noutput x\n", INTACT_SIZE_MISMATCH},
      {"constant x: u8[2]x\"00\"\noutput x\n", INTACT_SIZE_MISMATCH},
      {"constant x: f32[1000000000000]{1}\noutput x\n", INTACT_SIZE_MISMATCH},
      {"constant x: f32[4000000000,4000000000]{1}\noutput x\n", INTACT_OVERFLOW},
      {"constant x: f32[2]@0\noutput x\n", INTACT_MISSING_ENTRY},
      {"constant x: u8[1]{1} q{per_tensor_affine 0..255 scale=0 zero=0}\noutput x\n", INTACT_INVALID_VALUE},
      {"constant x: u8[1]{1} q{per_channel_affine 0..255 axis=0 n=999999999999 scale=1 zero=0}\noutput x\n", INTACT_OUT_OF_RANGE},
      {"constant x: u8[1]{1} q{per_tensor_affine 0..999 scale=1 zero=0}\noutput x\n", INTACT_INVALID_VALUE},
      {"stage\n", INTACT_SYNTAX},
      {"input \"x: f32[2]\n", INTACT_SYNTAX},
      {"input \"\": f32[2]\n", INTACT_INVALID_VALUE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[1024];
    intact_graph *graph = NULL;
    snprintf(text, sizeof text, "%s%s", head, cases[i].text);
    const intact_status status = intact_graph_parse(context, text, &graph);
    if (status != cases[i].status) print_error("case %zu: %s%s\n", i, cases[i].text, intact_context_message(context));
    assert_string_equal(intact_status_text(status), intact_status_text(cases[i].status));
    assert_null(graph);
  }
  intact_graph *graph = NULL;
  assert_fails(intact_graph_parse(context, "", &graph), INTACT_TRUNCATED);
  assert_fails(intact_graph_parse(context, "ONNX", &graph), INTACT_SYNTAX);
  assert_fails(intact_graph_parse(context, "intact graph 99\n", &graph), INTACT_UNSUPPORTED_VERSION);
}

/* Every prefix and every single changed byte is read or refused, nothing else. */
static void test_damaged_text(void **state) {
  (void)state;
  char text[sizeof golden];
  for (size_t length = 0; length < sizeof golden; length++) {
    intact_graph *graph = NULL;
    memcpy(text, golden, length);
    text[length] = 0;
    if (intact_graph_parse(context, text, &graph) == INTACT_OK) intact_graph_destroy(graph);
  }
  static const char bytes[] = " \"\\[]{}=,:.@_0x\n-9aq";
  for (size_t i = 0; i + 1 < sizeof golden; i++) {
    for (size_t k = 0; k + 1 < sizeof bytes; k++) {
      intact_graph *graph = NULL;
      memcpy(text, golden, sizeof golden);
      text[i] = bytes[k];
      if (intact_graph_parse(context, text, &graph) != INTACT_OK) continue;
      assert_ok(context, intact_graph_verify(graph));
      intact_graph_destroy(graph);
    }
  }
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),
      cmocka_unit_test(test_meaning),
      cmocka_unit_test(test_constants_of_every_type),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_damaged_text),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
