/* SPDX-License-Identifier: Apache-2.0 */
/* Planned programs against the interpreter. */
#include "run/net.h"

#include "run/program.h"

static intact_context *context;

/* conv 3x3 -> relu6-like range, depthwise, skip connection, pool, hardswish, 1x1 conv: an integer middle between floats. */
static net make_network(void) {
  net n = net_create(context, INTACT_STAGE_INTEGER);
  const int64_t dims[] = {intact__graph_symbol(n.graph, "N"), 3, 9, 7};
  intact_value *x = net_input(&n, "x", 4, dims);
  intact_value *q = net_quantize(&n, x, 0.02f, 120);
  intact_value *a = net_conv(&n, q, 8, 3, 1, 1, 0.05f, 10);
  intact_value *b = net_conv(&n, a, 8, 3, 1, 8, 0.04f, 128);
  intact_value *c = net_binary(&n, &intact_op_add, a, b, 0.06f, 90);
  intact_value *d = net_max_pool(&n, c);
  intact_value *e = net_unary(&n, &intact_op_hardswish, d, 0.05f, 20);
  intact_value *f = net_conv(&n, e, 5, 1, 1, 1, -0.08f, 3);
  intact_value *y = net_dequantize(&n, f);
  net_outputs(&n, 2, (intact_value *[]){y, f});
  return n;
}

static void destroy_all(int n, intact_tensor **tensors) {
  for (int i = 0; i < n; i++) intact_tensor_destroy(tensors[i]);
}

/* How many codes or floats differ; fails when one differs by more than a step. */
static int64_t differences(const intact_tensor *a, const intact_tensor *b, double step) {
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->count, b->count);
  assert_true(intact__shape_equal(a->rank, a->dims, b->rank, b->dims));
  int64_t n = 0;
  for (int64_t i = 0; i < a->count; i++) {
    const double gap = fabs(intact__tensor_get_f64(a, i) - intact__tensor_get_f64(b, i));
    assert_true(gap <= step * 1.001);
    n += gap != 0;
  }
  return n;
}

typedef struct seen {
  int n;
  const intact_graph *graph;
  intact_tensor *tensors[64];
  const char *names[64];
} seen;

static intact_status keep(void *user, const intact_value *value, const intact_tensor *tensor) {
  seen *s = user;
  assert_true(s->n < 64);
  s->names[s->n] = value->name;
  return intact_tensor_copy(tensor, &s->tensors[s->n++]);
}

static void test_agrees_with_interp(void **state) {
  (void)state;
  net n = make_network();
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  for (int64_t batch = 1; batch <= 3; batch++) {
    intact_tensor *x = net_random_tensor(&n, 4, (const int64_t[]){batch, 3, 9, 7}, -2.5f, 2.5f), *expected[2], *got[2];
    const intact_tensor *inputs[] = {x};
    assert_ok(context, intact_graph_interpret(n.graph, inputs, false, expected));
    assert_ok(context, intact_program_run(program, inputs, got));
    assert_int_equal(got[1]->dtype, INTACT_S8);
    assert_true(differences(expected[0], got[0], 0.08) <= got[0]->count / 50);
    assert_true(differences(expected[1], got[1], 1) <= got[1]->count / 50);
    destroy_all(2, expected);
    destroy_all(2, got);
    intact_tensor_destroy(x);
  }
  int integer = 0;
  for (int i = 0; i < intact_program_step_count(program); i++) integer += intact_program_step(program, i).integer;
  assert_int_equal(integer, intact_program_step_count(program));
  assert_true(intact_program_arena_bytes(program) > 0);
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

/* Every value, seen in logical order, as the interpreter sees it. */
static void test_taps(void **state) {
  (void)state;
  net n = make_network();
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  intact_tensor *x = net_random_tensor(&n, 4, (const int64_t[]){2, 3, 9, 7}, -2.5f, 2.5f), *out[2];
  const intact_tensor *inputs[] = {x};
  seen by_interp = {0}, by_run = {0};
  const intact_interp_options options = {.tap = keep, .tap_user = &by_interp};
  assert_ok(context, intact__interpret(n.graph, inputs, &options, out));
  destroy_all(2, out);
  assert_ok(context, intact__program_run_tapped(program, inputs, keep, &by_run, out));
  destroy_all(2, out);
  assert_int_equal(by_interp.n, by_run.n);
  for (int i = 0; i < by_run.n; i++) {
    const double step = by_run.tensors[i]->dtype == INTACT_F32 ? 0.08 : 2;
    assert_true(differences(by_interp.tensors[i], by_run.tensors[i], step) <= by_run.tensors[i]->count / 20);
  }
  destroy_all(by_interp.n, by_interp.tensors);
  destroy_all(by_run.n, by_run.tensors);
  intact_tensor_destroy(x);
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

/* Same bits with any number of threads. */
static void test_threads(void **state) {
  (void)state;
  intact_tensor *results[3];
  for (int threads = 1; threads <= 3; threads++) {
    intact_context *own = test_context(threads);
    intact_context *shared = context;
    context = own;
    net n = make_network();
    intact_program *program;
    assert_ok(context, intact_program_create(n.graph, &program));
    intact_tensor *x = net_random_tensor(&n, 4, (const int64_t[]){5, 3, 9, 7}, -2.5f, 2.5f), *out[2];
    assert_ok(context, intact_program_run(program, (const intact_tensor *[]){x}, out));
    context = shared;
    assert_ok(context, intact_tensor_create(context, INTACT_F32, out[0]->rank, out[0]->dims, &results[threads - 1]));
    memcpy(results[threads - 1]->data, out[0]->data, intact_tensor_bytes(out[0]));
    destroy_all(2, out);
    intact_tensor_destroy(x);
    intact_program_destroy(program);
    intact_graph_destroy(n.graph);
    intact_context_destroy(own);
  }
  for (int i = 1; i < 3; i++)
    assert_memory_equal(results[0]->data, results[i]->data, intact_tensor_bytes(results[0]));
  destroy_all(3, results);
}

/* A float graph runs by the float definitions; an output that is an input and one given twice are copied or shared. */
static void test_float_graph_and_odd_outputs(void **state) {
  (void)state;
  net n = net_create(context, INTACT_STAGE_FLOAT);
  intact_value *x = net_input(&n, "x", 2, (const int64_t[]){2, 3});
  intact_value *y = net_unary(&n, &intact_op_relu, x, 0, 0);
  intact_value *z = net_binary(&n, &intact_op_add, y, x, 0, 0);
  net_outputs(&n, 4, (intact_value *[]){z, x, y, z});
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  intact_tensor *in = net_random_tensor(&n, 2, (const int64_t[]){2, 3}, -1, 1), *out[4];
  assert_ok(context, intact_program_run(program, (const intact_tensor *[]){in}, out));
  for (int64_t i = 0; i < 6; i++) {
    const float v = intact__f32(in)[i], r = v > 0 ? v : 0;
    assert_true(intact__f32(out[0])[i] == r + v && intact__f32(out[1])[i] == v && intact__f32(out[2])[i] == r);
    assert_true(intact__f32(out[3])[i] == r + v);
  }
  assert_ptr_not_equal(out[1]->data, in->data);
  assert_string_equal(intact_program_output(program, 0).name, z->name);
  assert_int_equal(intact_program_input_count(program), 1);
  destroy_all(4, out);
  intact_tensor_destroy(in);
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

/* An op without an integer kernel stands between dequantize and quantize; the values keep their names. */
static void test_float_among_integers(void **state) {
  (void)state;
  net n = net_create(context, INTACT_STAGE_INTEGER);
  intact_value *x = net_input(&n, "x", 2, (const int64_t[]){4, 6});
  intact_value *q = net_quantize(&n, x, 0.03f, 128);
  intact_value *s = net_unary(&n, &intact_op_softmax, q, 1.0f / 256, 0);
  intact_value *t = net_unary(&n, &intact_op_relu, s, 1.0f / 256, 0);
  net_outputs(&n, 1, (intact_value *[]){net_dequantize(&n, t)});
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  intact_tensor *in = net_random_tensor(&n, 2, (const int64_t[]){4, 6}, -3, 3), *expected, *got;
  const intact_tensor *inputs[] = {in};
  seen by_run = {0};
  assert_ok(context, intact_graph_interpret(n.graph, inputs, false, &expected));
  assert_ok(context, intact__program_run_tapped(program, inputs, keep, &by_run, &got));
  assert_true(differences(expected, got, 0) == 0);
  bool found = false;
  for (int i = 0; i < by_run.n; i++) found = found || (strcmp(by_run.names[i], s->name) == 0 && by_run.tensors[i]->dtype == INTACT_U8);
  assert_true(found);
  destroy_all(by_run.n, by_run.tensors);
  intact_tensor_destroy(expected);
  intact_tensor_destroy(got);
  intact_tensor_destroy(in);
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

static const char control_flow[] =
    "intact graph 1\n"
    "name \"control\"\n"
    "stage integer\n"
    "requantize f32_rne\n"
    "symbols N\n"
    "input c: bool[]\n"
    "input x: f32[N,2]\n"
    "input times: s64[]\n"
    "constant yes: bool[]{1}\n"
    "q: u8[N,2] q{per_tensor_affine 0..255 scale=0.03 zero=128} = quantize(x)\n"
    "y: f32[N,2] = if(c, q) .bodies=2\n"
    "  body \"then\"\n"
    "  input a: f32[N,2]\n"
    "  constant w: s8[2,2]{10, -20, 30, 40} q{per_tensor_symmetric -127..127 scale=0.02 zero=0}\n"
    "  qa: u8[N,2] q{per_tensor_affine 0..255 scale=0.03 zero=128} = quantize(a)\n"
    "  l: u8[N,2] q{per_tensor_affine 0..255 scale=0.05 zero=100} = linear(qa, w, _)\n"
    "  b: f32[N,2] = dequantize(l)\n"
    "  output b\n"
    "  end\n"
    "  body \"else\"\n"
    "  input a: f32[N,2]\n"
    "  b: f32[N,2] = neg(a)\n"
    "  output b\n"
    "  end\n"
    "z: f32[N,2] = loop(times, yes, y) carried=1 .bodies=1\n"
    "  body \"round\"\n"
    "  input i: s64[]\n"
    "  input go: bool[]\n"
    "  input v: f32[N,2]\n"
    "  w: f32[N,2] = add(v, v)\n"
    "  output go\n"
    "  output w\n"
    "  end\n"
    "r: f32[N,2] = relu(z)\n"
    "output r\n"
    "output z\n";

/* Branches and loops: bodies run as programs of their own. */
static void test_control_flow(void **state) {
  (void)state;
  net n = net_create(context, INTACT_STAGE_FLOAT);
  intact_graph *graph = NULL;
  intact_program *program;
  assert_ok(context, intact_graph_parse(context, control_flow, &graph));
  assert_ok(context, intact_program_create(graph, &program));
  for (int round = 0; round < 6; round++) {
    const int64_t times = round % 4;
    const uint8_t condition = round % 2;
    intact_tensor *inputs[3], *expected[2], *got[2];
    assert_ok(context, intact_tensor_borrow(context, INTACT_BOOL, 0, NULL, &condition, &inputs[0]));
    inputs[1] = net_random_tensor(&n, 2, (const int64_t[]){1 + round / 2, 2}, -2, 2);
    assert_ok(context, intact_tensor_borrow(context, INTACT_S64, 0, NULL, &times, &inputs[2]));
    assert_ok(context, intact_graph_interpret(graph, (const intact_tensor *const *)inputs, false, expected));
    assert_ok(context, intact_program_run(program, (const intact_tensor *const *)inputs, got));
    for (int i = 0; i < 2; i++) assert_true(differences(expected[i], got[i], 0) == 0);
    destroy_all(2, expected);
    destroy_all(2, got);
    destroy_all(3, inputs);
  }
  intact_program_destroy(program);
  intact_graph_destroy(graph);
  intact_graph_destroy(n.graph);
}

/* nonzero gives as many rows as the data have: what follows takes its shape from the run. */
static void test_shapes_that_depend_on_data(void **state) {
  (void)state;
  net n = net_create(context, INTACT_STAGE_FLOAT);
  intact_value *x = net_input(&n, "x", 1, (const int64_t[]){5});
  intact_value *r = net_unary(&n, &intact_op_relu, x, 0, 0);
  intact_value *z = net_unary(&n, &intact_op_nonzero, r, 0, 0);
  intact_value *w = net_binary(&n, &intact_op_add, z, z, 0, 0);
  net_outputs(&n, 2, (intact_value *[]){w, r});
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  const float cases[][5] = {{1, -1, 2, 0, 3}, {-1, -1, -1, -1, -1}, {1, 1, 1, 1, 1}};
  const int64_t rows[] = {3, 0, 5};
  for (int i = 0; i < 3; i++) {
    intact_tensor *in, *out[2];
    assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 1, (const int64_t[]){5}, cases[i], &in));
    assert_ok(context, intact_program_run(program, (const intact_tensor *[]){in}, out));
    assert_int_equal(out[0]->dims[0], rows[i]);
    if (i == 0) assert_int_equal(intact__tensor_get_s64(out[0], 2), 8);
    destroy_all(2, out);
    intact_tensor_destroy(in);
  }
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

static void test_refusals(void **state) {
  (void)state;
  net n = make_network();
  intact_program *program;
  intact_tensor *out[2] = {NULL, NULL};
  assert_ok(context, intact_program_create(n.graph, &program));
  intact_tensor *x = net_random_tensor(&n, 4, (const int64_t[]){1, 4, 9, 7}, -1, 1);
  assert_fails(intact_program_run(program, (const intact_tensor *[]){x}, out), INTACT_SIZE_MISMATCH);
  assert_string_equal(intact_context_where(context), "x");
  assert_null(out[0]);
  intact_tensor_destroy(x);
  intact_program_destroy(program);
  n.graph->stage = INTACT_STAGE_OBSERVED;
  assert_int_not_equal(intact_program_create(n.graph, &program), INTACT_OK);
  intact_graph_destroy(n.graph);
}

/* Steps write over operands that nobody reads any more. */
static void test_memory_is_shared(void **state) {
  (void)state;
  net n = net_create(context, INTACT_STAGE_INTEGER);
  intact_value *x = net_input(&n, "x", 4, (const int64_t[]){1, 16, 32, 32});
  intact_value *q = net_quantize(&n, x, 0.02f, 120);
  for (int i = 0; i < 6; i++) q = net_conv(&n, q, 16, 1, 1, 1, 0.05f, 100);
  net_outputs(&n, 1, (intact_value *[]){net_dequantize(&n, q)});
  intact_program *program;
  assert_ok(context, intact_program_create(n.graph, &program));
  intact_tensor *in = net_random_tensor(&n, 4, (const int64_t[]){1, 16, 32, 32}, -1, 1), *out;
  assert_ok(context, intact_program_run(program, (const intact_tensor *[]){in}, &out));
  const intact_plan *plan = intact__program_plan(program);
  size_t scratch = 0;
  for (int s = 0; s < plan->n_steps; s++)
    if (plan->steps[s].step.scratch_bytes > scratch) scratch = plan->steps[s].step.scratch_bytes;
  assert_true(intact_program_arena_bytes(program) <= 2 * 16 * 32 * 32 + scratch + 64);
  intact_tensor_destroy(out);
  intact_tensor_destroy(in);
  intact_program_destroy(program);
  intact_graph_destroy(n.graph);
}

int main(void) {
  context = test_context(2);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agrees_with_interp),
      cmocka_unit_test(test_taps),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_float_graph_and_odd_outputs),
      cmocka_unit_test(test_float_among_integers),
      cmocka_unit_test(test_control_flow),
      cmocka_unit_test(test_shapes_that_depend_on_data),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_memory_is_shared),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
