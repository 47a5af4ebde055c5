/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of published reports on their whole way: ONNX file, quantize, integers, ONNX again. */
#include "support/lab.h"

#include "support/onnx_lab.h"

#include "intact/run.h"

static intact_context *context;

static intact_quantize_options plain_options(void) {
  intact_quantize_options options = intact_quantize_default_options();
  options.equalize = options.bias_correction = false;
  options.observer = "min_max";
  return options;
}

static intact_graph *quantize(const intact_graph *graph, const intact_tensor *samples, const intact_quantize_options *options) {
  intact_graph *result;
  intact_data *data = lab_data(graph, samples);
  assert_ok(context, intact_quantize(graph, data, options, &result, NULL));
  intact_data_close(data);
  return result;
}

static intact_tensor *run_program(const intact_graph *graph, const intact_tensor *x) {
  intact_program *program;
  intact_tensor *outputs[8] = {NULL};
  assert_ok(context, intact_program_create(graph, &program));
  assert_ok(context, intact_program_run(program, &x, outputs));
  intact_program_destroy(program);
  for (int i = 1; i < graph->n_outputs; i++) intact_tensor_destroy(outputs[i]);
  return outputs[0];
}

static intact_graph *through_onnx(const intact_graph *graph) {
  char path[] = "/tmp/intact_again_XXXXXX.onnx";
  intact_graph *again;
  int file = mkstemps(path, 5);
  assert_true(file >= 0);
  close(file);
  assert_ok(context, intact_model_write(graph, path, NULL));
  assert_ok(context, intact_model_read(context, path, &again));
  unlink(path);
  return again;
}

/* Quantized, as a program, and written and read again: output 0 follows the float network to `db`. The quantized network. */
static intact_graph *expect_follows(onnx_lab *o, const intact_quantize_options *options, const intact_tensor *x, double db) {
  intact_graph *graph = onnx_lab_read(o), *q = quantize(graph, x, options), *again = through_onnx(q);
  intact_tensor *exact = lab_run(graph, x), *simulated = lab_run(q, x), *integer = run_program(q, x), *read = run_program(again, x);
  const intact_tensor *const all[] = {simulated, integer, read};
  for (int i = 0; i < 3; i++) {
    double sqnr = lab_sqnr(exact, all[i]);
    if (sqnr < db) print_error("%s: result %d has %.1f dB, %.1f wanted\n", graph->outputs[0]->name, i, sqnr, db);
    assert_true(sqnr >= db);
  }
  intact_tensor_destroy(exact);
  intact_tensor_destroy(simulated);
  intact_tensor_destroy(integer);
  intact_tensor_destroy(read);
  intact_graph_destroy(graph);
  intact_graph_destroy(again);
  onnx_lab_close(o);
  return q;
}

static void random_values(onnx_lab *o, const char *name, intact_dtype dtype, double size, int rank, const int64_t *dims) {
  static uint64_t random = 7;
  double values[4096];
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  assert_true(n <= 4096);
  for (int64_t i = 0; i < n; i++) values[i] = size * (double)test_uniform(&random, -1, 1);
  onnx_lab_initializer(o, name, dtype, rank, dims, values);
}

static intact_tensor *random_samples(int rank, const int64_t *dims) {
  lab l = {.context = context, .random = test_random_start()};
  return lab_random(&l, -1, 1, rank, dims);
}

static const intact_node *node_of(const intact_graph *graph, const char *op) {
  for (const intact_node *node = graph->first; node; node = node->next)
    if (intact__is_op(node, op)) return node;
  print_error("no %s\n", op);
  fail();
  return NULL;
}

/* P59, onnxruntime 19694: the channels of a transposed convolution 3 -> 64 lie along axis 1 of its weight: 64 scales. (It runs in
   float, and says so.) */
static void transposed_convolution(void **state) {
  (void)state;
  static double w[3 * 64 * 9], scales[64];
  uint64_t random = test_random_start();
  for (int i = 0; i < 3 * 64 * 9; i++) w[i] = (int)(test_random(&random) % 255) - 127;
  for (int i = 0; i < 64; i++) scales[i] = (double)test_uniform(&random, 0.001f, 0.01f);
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 3, 32, 32));
  onnx_lab_initializer(&o, "w", INTACT_S8, ONNX_DIMS(3, 64, 3, 3), w);
  onnx_lab_initializer(&o, "s", INTACT_F32, ONNX_DIMS(64), scales);
  random_values(&o, "b", INTACT_F32, 0.3, ONNX_DIMS(64));
  onnx_lab_pair(&o, "xd", "x", INTACT_U8, 1.0 / 128, 128);
  onnx_lab_node(&o, "wd", "DequantizeLinear", "w s", "axis=1");
  onnx_lab_node(&o, "y", "ConvTranspose", "xd wd b", "kernel_shape=[3,3] pads=[1,1,1,1]");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_graph *graph = onnx_lab_read(&o), *again = through_onnx(graph);
  onnx_lab_close(&o);
  const intact_node *node = node_of(graph, "conv_transpose2d");
  int groups = 0;
  assert_int_equal(node->op->quant.weight_axis(node, &groups), 1);
  assert_int_equal(groups, 1);
  assert_int_equal(lab_operand_qparams(node, 1)->n, 64);
  assert_int_equal(lab_operand_qparams(node_of(again, "conv_transpose2d"), 1)->axis, 1);
  /* one pixel in the middle: 9 taps of 3 channels */
  intact_tensor *x = random_samples(ONNX_DIMS(1, 3, 32, 32)), *y = run_program(graph, x);
  for (int c = 0; c < 64; c++) {
    double sum = (double)intact__f32(node->operands[2]->constant)[c];
    for (int k = 0; k < 27; k++) {
      int in = k / 9, row = 10 + 1 - k / 3 % 3, column = 12 + 1 - k % 3;
      double code = nearbyint((double)intact__f32(x)[(in * 32 + row) * 32 + column] * 128);
      sum += fmin(fmax(code, -128), 127) / 128 * w[(in * 64 + c) * 9 + k % 9] * scales[c];
    }
    assert_true(fabs((double)intact__f32(y)[(c * 32 + 10) * 32 + 12] - sum) < 1e-4);
  }
  assert_ok(context, intact_to_integer(graph));
  assert_non_null(strstr(node_of(graph, "conv_transpose2d")->why_float, "no integer kernel"));
  intact_tensor_destroy(x);
  intact_tensor_destroy(y);
  intact_graph_destroy(graph);
  intact_graph_destroy(again);
}

/* P61, onnxruntime 25890: Gemm with transB 1 and 0; the scales lie along the outputs. */
static void gemm_layouts(void **state) {
  (void)state;
  for (int turned = 0; turned < 2; turned++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(-1, 12));
    const int64_t dims[] = {turned ? 7 : 12, turned ? 12 : 7};
    random_values(&o, "w", INTACT_F32, 0.3, 2, dims);
    random_values(&o, "b", INTACT_F32, 0.3, ONNX_DIMS(7));
    onnx_lab_node(&o, "y", "Gemm", "x w b", turned ? "transB=1" : "");
    onnx_lab_output(&o, "y", INTACT_F32);
    intact_tensor *x = random_samples(ONNX_DIMS(16, 12));
    intact_quantize_options options = plain_options();
    intact_graph *q = expect_follows(&o, &options, x, 35);
    assert_ok(context, intact_to_integer(q));
    for (const intact_node *node = q->first; node; node = node->next) {
      for (int i = 1; i < node->n_operands && node->op->quant.weight_axis; i++) {
        const intact_value *w = node->operands[i];
        if (!w || !w->constant || w->dtype != INTACT_S8) continue;
        assert_int_equal(w->qparams->n, 7);
        assert_int_equal(w->dims[w->qparams->axis], 7);
      }
    }
    intact_graph_destroy(q);
    intact_tensor_destroy(x);
  }
}

/* P62, onnxruntime 25489: a weight of rank 3 is quantized or stays float; the network runs in both cases. */
static void matmul_rank_3(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(2, 3, 12));
  random_values(&o, "w", INTACT_F32, 0.3, ONNX_DIMS(2, 12, 5));
  onnx_lab_node(&o, "y", "MatMul", "x w", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(2, 3, 12));
  intact_quantize_options options = plain_options();
  intact_graph_destroy(expect_follows(&o, &options, x, 35));
  intact_tensor_destroy(x);
}

/* P64, onnxruntime 24705: a bias 'b' that two convolutions share, beside an activation that is called 'b0' and others that are
   called as made-up names might be. */
static void colliding_names(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 4, 5, 5));
  random_values(&o, "w", INTACT_F32, 0.4, ONNX_DIMS(4, 4, 1, 1));
  random_values(&o, "b", INTACT_F32, 0.4, ONNX_DIMS(4));
  onnx_lab_node(&o, "b0", "Conv", "x w b", "");
  onnx_lab_node(&o, "b_quantized", "Sigmoid", "b0", "");
  onnx_lab_node(&o, "w_quantized", "Conv", "b_quantized w b", "");
  onnx_lab_node(&o, "x_quantize", "Relu", "w_quantized", "");
  onnx_lab_node(&o, "y", "Conv", "x_quantize w b", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(1, 4, 5, 5));
  intact_quantize_options options = plain_options();
  intact_graph *q = expect_follows(&o, &options, x, 25);
  assert_ok(context, intact_graph_verify(q));
  intact_graph_destroy(q);
  intact_tensor_destroy(x);
}

/* P65, onnxruntime 28326: two dequantize nodes on one weight and one scale. */
static void shared_initializers(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 2));
  onnx_lab_initializer(&o, "w", INTACT_S8, ONNX_DIMS(2, 2), ONNX_VALUES(10, -20, 30, 40));
  onnx_lab_initializer(&o, "s", INTACT_F32, ONNX_DIMS(1), ONNX_VALUES(0.125));
  onnx_lab_node(&o, "w1", "DequantizeLinear", "w s", "");
  onnx_lab_node(&o, "w2", "DequantizeLinear", "w s", "");
  onnx_lab_pair(&o, "xd", "x", INTACT_U8, 0.25, 8);
  onnx_lab_node(&o, "m", "MatMul", "xd w1", "");
  onnx_lab_pair(&o, "md", "m", INTACT_U8, 0.5, 100);
  onnx_lab_node(&o, "n", "MatMul", "md w2", "");
  onnx_lab_pair(&o, "y", "n", INTACT_S8, 2, 0);
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_graph *graph = onnx_lab_read(&o);
  onnx_lab_close(&o);
  /* x = 1, -2: m = 1*1.25 - 2*3.75, -1*2.5 - 2*5 = -6.25 -> -6 (half to even), -12.5; n = -6*1.25 - 12.5*3.75, 6*2.5 - 12.5*5
     = -54.375 -> -54, -47.5 -> -48 */
  intact_tensor *x, *got;
  const float values[] = {1, -2};
  const int64_t dims[] = {1, 2};
  assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 2, dims, values, &x));
  for (int engine = 0; engine < 2; engine++) {
    got = engine ? run_program(graph, x) : lab_run(graph, x);
    assert_true(intact__f32(got)[0] == -54 && intact__f32(got)[1] == -48);
    intact_tensor_destroy(got);
  }
  assert_ok(context, intact_to_integer(graph));
  assert_int_equal(lab_count(graph, "dequantize"), 1);
  intact_tensor_destroy(x);
  intact_graph_destroy(graph);
}

/* P66, onnxruntime 11242: a concatenation of one. P67, model-optimization 1053: of two ranges, -1 and -128 as zero points.
   P68, executorch 19836: transposes keep the integers. */
static void concatenations(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 4, 5, 5));
  random_values(&o, "w", INTACT_F32, 0.4, ONNX_DIMS(4, 4, 1, 1));
  onnx_lab_node(&o, "a", "Conv", "x w", "");
  onnx_lab_node(&o, "one", "Concat", "a", "axis=1");
  onnx_lab_node(&o, "t", "Transpose", "one", "perm=[0,1,3,2]");
  onnx_lab_node(&o, "s", "Sigmoid", "a", "");
  onnx_lab_node(&o, "two", "Concat", "t s", "axis=1");
  random_values(&o, "v", INTACT_F32, 0.4, ONNX_DIMS(3, 8, 1, 1));
  onnx_lab_node(&o, "y", "Conv", "two v", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(1, 4, 5, 5));
  intact_quantize_options options = plain_options();
  intact_graph *q = expect_follows(&o, &options, x, 25);
  assert_ok(context, intact_to_integer(q));
  for (const intact_node *node = q->first; node; node = node->next) assert_null(node->why_float);
  intact_graph_destroy(q);
  intact_tensor_destroy(x);
}

/* P70, onnxruntime 17944: weights in Constant nodes are weights, also where their numbers lie in another file. */
static void weights_in_constant_nodes(void **state) {
  (void)state;
  char folder[] = "/tmp/intact_constants_XXXXXX", path[64], data[64];
  double w[24], b[4];
  uint64_t random = test_random_start();
  for (int i = 0; i < 24; i++) w[i] = (double)test_uniform(&random, -1, 1);
  for (int i = 0; i < 4; i++) b[i] = (double)test_uniform(&random, -1, 1);
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/m.onnx", folder);
  snprintf(data, sizeof data, "%s/m.bin", folder);
  char *texts[3];
  intact_tensor *x = random_samples(ONNX_DIMS(8, 6));
  for (int form = 0; form < 3; form++) {
    onnx_lab o;
    onnx_lab_open(&o, context, 13);
    onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(8, 6));
    if (form == 0) {
      onnx_lab_initializer(&o, "w", INTACT_F32, ONNX_DIMS(6, 4), w), onnx_lab_initializer(&o, "b", INTACT_F32, ONNX_DIMS(4), b);
    } else {
      onnx_lab_constant(&o, "w", INTACT_F32, ONNX_DIMS(6, 4), w), onnx_lab_constant(&o, "b", INTACT_F32, ONNX_DIMS(4), b);
    }
    if (form == 2) {
      Onnx__TensorProto *proto = o.nodes[0]->attribute[0]->t;
      Onnx__StringStringEntryProto *entry = intact__arena_alloc(&o.arena, 1, sizeof *entry);
      FILE *file = fopen(data, "wb");
      assert_non_null(file);
      assert_int_equal(fwrite(proto->raw_data.data, 1, proto->raw_data.len, file), proto->raw_data.len);
      fclose(file);
      onnx__string_string_entry_proto__init(entry);
      entry->key = intact__arena_strdup(&o.arena, "location"), entry->value = intact__arena_strdup(&o.arena, "m.bin");
      proto->external_data = intact__arena_alloc(&o.arena, 1, sizeof entry);
      proto->external_data[proto->n_external_data++] = entry;
      proto->has_data_location = 1, proto->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
      proto->has_raw_data = 0;
    }
    onnx_lab_node(&o, "y", "Gemm", "x w b", "");
    onnx_lab_output(&o, "y", INTACT_F32);
    onnx_lab_write(&o, path);
    intact_graph *graph, *q;
    assert_ok(context, intact_model_read(context, path, &graph));
    intact_quantize_options options = plain_options();
    q = quantize(graph, x, &options);
    assert_ok(context, intact_graph_print(q, &texts[form]));
    intact_graph_destroy(q);
    intact_graph_destroy(graph);
    onnx_lab_close(&o);
    unlink(path);
  }
  unlink(data), rmdir(folder);
  for (int form = 1; form < 3; form++) assert_string_equal(texts[0], texts[form]);
  for (int form = 0; form < 3; form++) intact_text_destroy(context, texts[form]);
  intact_tensor_destroy(x);
}

/* P71, nncf 1816: weights of -127..127 come back from a file with the same codes, scales and range. */
static void narrow_weights(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 4, 5, 5));
  random_values(&o, "w", INTACT_F32, 0.4, ONNX_DIMS(6, 4, 3, 3));
  onnx_lab_node(&o, "y", "Conv", "x w", "pads=[1,1,1,1]");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(1, 4, 5, 5));
  intact_quantize_options options = plain_options();
  intact_graph *q = expect_follows(&o, &options, x, 35), *again = through_onnx(q);
  const intact_value *before = node_of(q, "conv2d")->operands[1]->producer->operands[0];
  const intact_value *after = node_of(again, "conv2d")->operands[1]->producer->operands[0];
  assert_int_equal(before->qparams->quant_min, -127);
  assert_true(intact__qparams_equal(before->qparams, after->qparams));
  assert_memory_equal(before->constant->data, after->constant->data, (size_t)before->constant->count);
  intact_graph_destroy(q);
  intact_graph_destroy(again);
  intact_tensor_destroy(x);
}

/* P60, onnxruntime 21793: per-channel scales of axis 0 go to axis 3 with Unsqueeze [0, 1, 2]. P13, onnxruntime 17718: the axis
   that is left out is 1, and sizes that do not fit it are an error that names all of it. */
static void moved_axis(void **state) {
  (void)state;
  onnx_lab o;
  intact_graph *graph;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 2, 3, 4));
  onnx_lab_initializer(&o, "c", INTACT_S8, ONNX_DIMS(4), ONNX_VALUES(100, -50, 25, 4));
  onnx_lab_initializer(&o, "s", INTACT_F32, ONNX_DIMS(4), ONNX_VALUES(0.01, 0.02, 0.04, 0.25));
  onnx_lab_initializer(&o, "axes", INTACT_S64, ONNX_DIMS(3), ONNX_VALUES(0, 1, 2));
  onnx_lab_node(&o, "d", "DequantizeLinear", "c s", "axis=0");
  onnx_lab_node(&o, "u", "Unsqueeze", "d axes", "");
  onnx_lab_node(&o, "y", "Mul", "x u", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  graph = onnx_lab_read(&o);
  onnx_lab_close(&o);
  assert_ok(context, intact_to_integer(graph));
  const intact_value *moved = node_of(graph, "mul")->operands[1];
  assert_true(intact__is_op(moved->producer, "dequantize"));
  assert_int_equal(moved->producer->operands[0]->qparams->axis, 3);
  intact_tensor *x = random_samples(ONNX_DIMS(1, 2, 3, 4)), *got = lab_run(graph, x);
  static const float factors[] = {1, -1, 1, 1};
  for (int i = 0; i < 24; i++) assert_true(fabsf(intact__f32(got)[i] - intact__f32(x)[i] * factors[i % 4]) < 1e-6f);
  intact_tensor_destroy(x);
  intact_tensor_destroy(got);
  intact_graph_destroy(graph);

  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 3, 5, 5));
  onnx_lab_initializer(&o, "kernel", INTACT_S8, ONNX_DIMS(4, 3, 1, 1), ONNX_VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  onnx_lab_initializer(&o, "scales", INTACT_F32, ONNX_DIMS(4), ONNX_VALUES(1, 1, 1, 1));
  onnx_lab_node(&o, "real", "DequantizeLinear", "kernel scales", "");
  onnx_lab_node(&o, "y", "Conv", "x real", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  assert_fails(onnx_lab_try(&o, &graph), INTACT_SIZE_MISMATCH);
  static const char *const parts[] = {"real_node", "'scales'", "'kernel'", "[4]", "[4,3,1,1]", "axis 1"};
  for (int i = 0; i < 6; i++) {
    if (!strstr(intact_context_message(context), parts[i])) print_error("%s\n", intact_context_message(context));
    assert_non_null(strstr(intact_context_message(context), parts[i]));
  }
  onnx_lab_close(&o);
}

/* P17, coremltools 2851: half weights, channels of magnitude 1e-5, 1e-6 and 0: no scale of 0, no channel lost, none made up. */
static void small_half_channels(void **state) {
  (void)state;
  static const double sizes[] = {0.5, 1e-5, 1e-6, 0};
  double w[4 * 6];
  for (int i = 0; i < 24; i++) w[i] = sizes[i / 6] * (i % 2 ? -1 : 1) * (1 + i % 3) / 3;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(8, 6));
  onnx_lab_initializer(&o, "w16", INTACT_F16, ONNX_DIMS(4, 6), w);
  onnx_lab_node(&o, "w", "Cast", "w16", "to=1");
  onnx_lab_node(&o, "y", "Gemm", "x w", "transB=1");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(8, 6)), *back;
  intact_quantize_options options = plain_options();
  intact_graph *q = expect_follows(&o, &options, x, 35);
  const intact_value *weights = node_of(q, "linear")->operands[1]->producer->operands[0];
  assert_ok(context, intact__dequantize_tensor(weights->constant, weights->qparams, &back));
  for (int i = 0; i < 24; i++) {
    double real = (double)intact__f16_to_f32(intact__f32_to_f16((float)w[i])), step = (double)weights->qparams->scale[i / 6];
    assert_true(step > 0 && fabs((double)intact__f32(back)[i] - real) <= step * 0.501);
    if (i < 18) assert_true(fabs((double)intact__f32(back)[i] - real) <= fabs(real) * 0.05);
  }
  intact_tensor_destroy(back);
  intact_tensor_destroy(x);
  intact_graph_destroy(q);
}

/* P57 and P58, onnxruntime 22020 and 25278: biases beyond int32 at the scale of x and w, with a scale for each channel and with
   one for all, on the way to integers too. */
static void large_biases(void **state) {
  (void)state;
  for (int per_tensor = 0; per_tensor < 2; per_tensor++)
    for (int s8 = 0; s8 < 2; s8++) {
      onnx_lab o;
      onnx_lab_open(&o, context, 13);
      onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(2, 2, 1, 1));
      onnx_lab_initializer(&o, "w", INTACT_F32, ONNX_DIMS(2, 2, 1, 1), ONNX_VALUES(1e-7, -1e-7, 0.5e-7, 1e-7));
      onnx_lab_initializer(&o, "b", INTACT_F32, ONNX_DIMS(2), ONNX_VALUES(5, -4.5));
      onnx_lab_node(&o, "y", "Conv", "x w b", "");
      onnx_lab_output(&o, "y", INTACT_F32);
      intact_quantize_options options = plain_options();
      options.weights_per_tensor = per_tensor;
      options.activations = s8 ? INTACT_S8 : INTACT_U8;
      const float samples[] = {-63, 64, 10, -10};
      intact_tensor *x;
      assert_ok(context, intact_tensor_borrow(context, INTACT_F32, 4, (const int64_t[]){2, 2, 1, 1}, samples, &x));
      intact_graph *q = expect_follows(&o, &options, x, 45);
      assert_ok(context, intact_to_integer(q));
      const intact_node *conv = node_of(q, "conv2d");
      assert_null(conv->why_float);
      const intact_qparams *scales = conv->operands[2]->qparams;
      const int32_t *codes = conv->operands[2]->constant->data;
      assert_float_equal(codes[0] * (double)scales->scale[0], 5, 1e-6);
      assert_float_equal(codes[1] * (double)scales->scale[scales->n - 1], -4.5, 1e-6);
      intact_tensor_destroy(x);
      intact_graph_destroy(q);
    }
}

/* Padding with a number has a range of its own: -3 beside values of 0..1 is not clipped to 0. */
static void padding_outside_of_the_range(void **state) {
  (void)state;
  onnx_lab o;
  onnx_lab_open(&o, context, 13);
  onnx_lab_input(&o, "x", INTACT_F32, ONNX_DIMS(1, 4, 5, 5));
  onnx_lab_initializer(&o, "pads", INTACT_S64, ONNX_DIMS(8), ONNX_VALUES(0, 0, 1, 1, 0, 0, 1, 1));
  onnx_lab_number(&o, "fill", INTACT_F32, -3);
  random_values(&o, "w", INTACT_F32, 0.4, ONNX_DIMS(4, 4, 1, 1));
  onnx_lab_node(&o, "a", "Conv", "x w", "");
  onnx_lab_node(&o, "r", "Relu", "a", "");
  onnx_lab_node(&o, "p", "Pad", "r pads fill", "");
  onnx_lab_node(&o, "y", "Conv", "p w", "");
  onnx_lab_output(&o, "y", INTACT_F32);
  intact_tensor *x = random_samples(ONNX_DIMS(1, 4, 5, 5));
  intact_quantize_options options = plain_options();
  intact_graph_destroy(expect_follows(&o, &options, x, 30));
  intact_tensor_destroy(x);
}

int main(void) {
  context = test_context(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposed_convolution), cmocka_unit_test(gemm_layouts),
      cmocka_unit_test(matmul_rank_3),          cmocka_unit_test(colliding_names),
      cmocka_unit_test(shared_initializers),    cmocka_unit_test(concatenations),
      cmocka_unit_test(weights_in_constant_nodes), cmocka_unit_test(narrow_weights),
      cmocka_unit_test(moved_axis),             cmocka_unit_test(small_half_channels),
      cmocka_unit_test(large_biases),           cmocka_unit_test(padding_outside_of_the_range),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  intact_context_destroy(context);
  return failed;
}
