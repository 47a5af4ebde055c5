/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized operators of ONNX and com.microsoft that are another operator between dequantize and quantize. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

/* How the inputs are read, letter by letter: d a quantized input (x, scale, zero point), w the same with channels along the
   weight's axis, p a plain one, b an int32 bias (its scale is that of the first two inputs), y the output's scale and zero
   point (left out: float output); a * repeats the letter before it. */
typedef struct qoperator {
  const char *name, *base; /* base: the operator in the middle */
  int version;             /* of base: its attributes are written as in this opset */
  const char *inputs;
} qoperator;

static const qoperator qoperators[] = {
    {"QLinearConv", "Conv", 11, "dwyb"},
    {"QLinearMatMul", "MatMul", 13, "dwy"},
    {"com.microsoft::DequantizeLinear", "DequantizeLinear", 21, "ppp"},
    {"com.microsoft::QuantizeLinear", "QuantizeLinear", 21, "ppp"},
    {"com.microsoft::QGemm", "Gemm", 13, "dwby"},
    {"com.microsoft::QLinearAdd", "Add", 14, "ddy"},
    {"com.microsoft::QLinearAveragePool", "AveragePool", 11, "dy"},
    {"com.microsoft::QLinearConcat", "Concat", 13, "yd*"},
    {"com.microsoft::QLinearGlobalAveragePool", "GlobalAveragePool", 1, "dy"},
    {"com.microsoft::QLinearLeakyRelu", "LeakyRelu", 16, "dy"},
    {"com.microsoft::QLinearMul", "Mul", 14, "ddy"},
    {"com.microsoft::QLinearReduceMean", "ReduceMean", 13, "dy"},
    {"com.microsoft::QLinearSigmoid", "Sigmoid", 13, "dy"},
    {"com.microsoft::QLinearSoftmax", "Softmax", 13, "dy"},
    {"com.microsoft::QLinearWhere", "Where", 16, "pddy"},
};

static const qoperator *find(const char *op) {
  for (int i = 0; i < INTACT_COUNT_OF(qoperators); i++) {
    if (strcmp(qoperators[i].name, op) == 0) return &qoperators[i];
  }
  return NULL;
}

bool intact__onnx_is_qoperator(const char *op) {
  return find(op) != NULL;
}

/* The operator in the middle as a node with the same outputs and attributes. */
typedef struct middle {
  intact_onnx_node node;
  intact_value *first_scale, *second_scale;
  intact_value *y_scale, *y_zero_point;
  int at; /* input of the quantized operator read next */
} middle;

/* Channel axis of a weight's scales by the operator's meaning. */
static int64_t weight_axis(const char *base, const intact_value *weight, int64_t turned) {
  if (strcmp(base, "Conv") == 0) return 0;
  if (strcmp(base, "Gemm") == 0) return turned ? 0 : 1;
  return weight->rank > 0 ? weight->rank - 1 : 0;
}

static intact_status read_quantized(intact_onnx_node *node, middle *m, bool weight) {
  intact_value *x = intact__onnx_input(node, m->at), *scale = intact__onnx_input(node, m->at + 1);
  intact_value *zero_point = intact__onnx_input(node, m->at + 2), *real = NULL;
  int64_t turned, axis = 1;
  INTACT_TRY(intact__onnx_attr_int(&m->node, "transB", 0, &turned));
  if (weight && x != NULL) axis = weight_axis(m->node.op, x, turned);
  INTACT_TRY(intact__onnx_dequantize(node, "input", x, scale, zero_point, axis, 0, &real));
  if (m->first_scale == NULL) {
    m->first_scale = scale;
  } else if (m->second_scale == NULL) {
    m->second_scale = scale;
  }
  m->node.inputs[m->node.n_inputs++] = real;
  m->at += 3;
  return INTACT_OK;
}

/* The int32 bias means multiples of the product of the scales of the first two inputs. */
static intact_status read_bias(intact_onnx_node *node, middle *m) {
  intact_value *bias = intact__onnx_input(node, m->at++), *real = NULL;
  if (bias == NULL) return INTACT_OK;
  const intact_tensor *a = m->first_scale->constant, *b = m->second_scale->constant;
  if (a == NULL || b == NULL || a->count != 1) {
    INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
                "cannot read node '%s' (%s): with a bias its scales must be constants", node->name, node->op);
  }
  intact_tensor *product = NULL;
  intact_value *scale = NULL;
  int64_t n = b->count;
  INTACT_TRY(intact_tensor_create(node->context, INTACT_F32, n == 1 ? 0 : 1, &n, &product));
  for (int64_t i = 0; i < n; i++) {
    intact__f32(product)[i] = (float)intact__tensor_get_f64(a, 0) * (float)intact__tensor_get_f64(b, i);
  }
  INTACT_TRY(intact__onnx_constant(node, "bias_scale", product, NULL, &scale));
  INTACT_TRY(intact__onnx_dequantize(node, "bias", bias, scale, NULL, 0, 0, &real));
  m->node.inputs[m->node.n_inputs++] = real;
  return INTACT_OK;
}

static intact_status read_inputs(intact_onnx_node *node, const qoperator *q, middle *m) {
  for (const char *letter = q->inputs; *letter != 0; letter++) {
    char what = *letter;
    bool again = what == '*';
    if (again) what = letter[-1];
    if (again && m->at >= node->n_inputs) break;
    if (what == 'p') m->node.inputs[m->node.n_inputs++] = intact__onnx_input(node, m->at++);
    if (what == 'd' || what == 'w') INTACT_TRY(read_quantized(node, m, what == 'w'));
    if (what == 'b') INTACT_TRY(read_bias(node, m));
    if (what == 'y') {
      m->y_scale = intact__onnx_input(node, m->at);
      m->y_zero_point = intact__onnx_input(node, m->at + 1);
      m->at += 2;
    }
    if (again) letter--;
  }
  if (m->at >= node->n_inputs) return INTACT_OK;
  INTACT_FAIL(node->context, INVALID_VALUE, node->name, "cannot read node '%s' (%s): it has %d inputs, at most %d are known",
              node->name, node->op, node->n_inputs, m->at);
}

/* What the output is quantized with; its type is that of its zero point, or of the first input. */
static intact_status read_output(intact_onnx_node *node, middle *m) {
  if (m->y_scale == NULL) return INTACT_OK;
  const intact_value *x = intact__onnx_input(node, 0);
  intact_dtype dtype = m->y_zero_point != NULL ? m->y_zero_point->dtype : x->dtype;
  intact_value any = {.name = node->name, .rank = -1};
  INTACT_TRY(intact__onnx_qparams(node, m->y_scale, m->y_zero_point, dtype, 1, 0, &any, &m->node.requantize));
  if (m->node.requantize != NULL && m->node.requantize->n == 1) return INTACT_OK;
  INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name,
              "cannot read node '%s' (%s): scale and zero point of its output must be constants of one element", node->name,
              node->op);
}

static intact_status refuse_channels_last(intact_onnx_node *node) {
  int64_t channels_last;
  INTACT_TRY(intact__onnx_attr_int(node, "channels_last", 0, &channels_last));
  if (channels_last == 0) return INTACT_OK;
  INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): channels_last = 1 is not supported",
              node->name, node->op);
}

intact_status intact__onnx_import_qoperator(intact_onnx_node *node, bool *known) {
  const qoperator *q = find(node->op);
  *known = q != NULL;
  if (q == NULL) return INTACT_OK;
  middle m = {.node = *node};
  m.node.op = q->base;
  m.node.version = q->version;
  m.node.n_inputs = 0;
  m.node.inputs = intact__arena_alloc(&node->import->file->arena, (size_t)node->n_inputs + 4, sizeof *m.node.inputs);
  if (m.node.inputs == NULL) return intact__no_memory(node->context, (size_t)node->n_inputs * sizeof *m.node.inputs);
  INTACT_TRY(refuse_channels_last(node));
  int64_t opset;
  INTACT_TRY(intact__onnx_attr_int(node, "opset", q->version, &opset));
  if (opset >= 1 && opset <= INTACT_ONNX_OPSET_MAX) m.node.version = (int)opset;
  INTACT_TRY(read_inputs(node, q, &m));
  INTACT_TRY(read_output(node, &m));
  INTACT_TRY(intact__onnx_by_alias(&m.node));
  node->made = m.node.made;
  return INTACT_OK;
}
