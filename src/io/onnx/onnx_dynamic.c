/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that quantize while running, products of plain integers, and weights packed by com.microsoft. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

static intact_status refuse(intact_onnx_node *node, const char *what) {
  INTACT_FAIL(node->context, UNSUPPORTED_OP, node->name, "cannot read node '%s' (%s): %s", node->name, node->op, what);
}

static intact_status need(intact_onnx_node *node, int n) {
  for (int i = 0; i < n; i++) {
    if (intact__onnx_input(node, i) != NULL) continue;
    INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): its input %d is left out", node->name,
                node->op, i);
  }
  return INTACT_OK;
}

/* ---- DynamicQuantizeLinear ---- */
typedef struct dynamic {
  intact_value *codes, *scale, *zero_point; /* codes: u8 */
  intact_value *centred;                    /* codes - zero point, in float32 */
} dynamic;

static intact_status extreme(intact_onnx_node *node, const char *op, const char *suffix, intact_value *x,
                             intact_value **result) {
  intact_node *made = NULL;
  INTACT_TRY(intact__onnx_add(node, op, suffix, 1, &x, &made));
  intact__attr_set_int(made, "keepdim", 0);
  INTACT_TRY(intact__node_infer(made));
  *result = made->results[0];
  return INTACT_OK;
}

/* The range of x widened to hold 0. */
static intact_status range_of(intact_onnx_node *node, intact_value *x, intact_value **low, intact_value **high) {
  intact_value *zero = NULL;
  INTACT_TRY(intact__onnx_number(node, "zero", INTACT_F32, 0, &zero));
  INTACT_TRY(extreme(node, "amin", "low", x, low));
  INTACT_TRY(intact__onnx_one(node, "minimum", "low0", *low, zero, low));
  INTACT_TRY(extreme(node, "amax", "high", x, high));
  return intact__onnx_one(node, "maximum", "high0", *high, zero, high);
}

static intact_status cut_to_u8(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value **result) {
  intact_node *clamp = NULL;
  INTACT_TRY(intact__onnx_add(node, "clamp", suffix, 1, &x, &clamp));
  intact__attr_set_float(clamp, "min", 0);
  intact__attr_set_float(clamp, "max", 255);
  INTACT_TRY(intact__node_infer(clamp));
  *result = clamp->results[0];
  return INTACT_OK;
}

/* scale = (max - min) / 255, 1 for a tensor of zeros; zero point = rne(-min / scale); codes = rne(x / scale) + zero point.
 */
static intact_status quantize_now(intact_onnx_node *node, intact_value *x, dynamic *d) {
  intact_value *low = NULL, *high = NULL, *steps = NULL, *zero = NULL, *span = NULL, *number = NULL;
  INTACT_TRY(range_of(node, x, &low, &high));
  INTACT_TRY(intact__onnx_one(node, "sub", "span", high, low, &span));
  INTACT_TRY(intact__onnx_number(node, "steps", INTACT_F32, 255, &number));
  INTACT_TRY(intact__onnx_one(node, "div", "raw_scale", span, number, &d->scale));
  INTACT_TRY(intact__onnx_number(node, "none", INTACT_F32, 0, &number));
  INTACT_TRY(intact__onnx_one(node, "eq", "is_zero", d->scale, number, &zero));
  INTACT_TRY(intact__onnx_number(node, "one", INTACT_F32, 1, &number));
  intact_value *choice[3] = {zero, number, d->scale};
  intact_node *where = NULL;
  INTACT_TRY(intact__onnx_add(node, "where", "scale", 3, choice, &where));
  INTACT_TRY(intact__node_infer(where));
  d->scale = where->results[0];
  INTACT_TRY(intact__onnx_one(node, "div", "offset", low, d->scale, &zero));
  INTACT_TRY(intact__onnx_one(node, "neg", "offset_up", zero, NULL, &zero));
  INTACT_TRY(cut_to_u8(node, "offset_cut", zero, &zero));
  INTACT_TRY(intact__onnx_one(node, "round", "zero_point", zero, NULL, &zero));
  INTACT_TRY(intact__onnx_one(node, "div", "x_steps", x, d->scale, &steps));
  INTACT_TRY(intact__onnx_one(node, "round", "x_whole", steps, NULL, &steps));
  INTACT_TRY(intact__onnx_one(node, "add", "x_code", steps, zero, &steps));
  INTACT_TRY(cut_to_u8(node, "code_cut", steps, &steps));
  INTACT_TRY(intact__onnx_one(node, "sub", "centred", steps, zero, &d->centred));
  INTACT_TRY(intact__onnx_cast(node, "codes", steps, INTACT_U8, &d->codes));
  return intact__onnx_cast(node, "zero_point_u8", zero, INTACT_U8, &d->zero_point);
}

static intact_status dynamic_quantize_linear(intact_onnx_node *node) {
  dynamic d;
  INTACT_TRY(need(node, 1));
  INTACT_TRY(quantize_now(node, node->inputs[0], &d));
  INTACT_TRY(intact__onnx_bind(node, 0, d.codes));
  INTACT_TRY(intact__onnx_bind(node, 1, d.scale));
  return intact__onnx_bind(node, 2, d.zero_point);
}

/* ---- products of integers ---- */
/* x - zero point in float32, where sums of products are exact up to 2^24 and rounded once above. A list of zero points lies
   along `axis` of x. A constant stays one. */
static intact_status centre(intact_onnx_node *node, const char *suffix, intact_value *x, intact_value *zero_point, int axis,
                            intact_value **result) {
  INTACT_TRY(intact__onnx_cast(node, suffix, x, INTACT_F32, result));
  if (zero_point == NULL) return INTACT_OK;
  INTACT_TRY(intact__onnx_cast(node, suffix, zero_point, INTACT_F32, &zero_point));
  if (zero_point->rank == 1 && axis >= 0 && x->rank > axis + 1 &&
      !(zero_point->constant != NULL && zero_point->constant->count == 1)) {
    int64_t shape[INTACT_MAX_RANK] = {-1};
    for (int i = 1; i < x->rank - axis; i++) shape[i] = 1;
    INTACT_TRY(
        intact__onnx_with_ints(node, "reshape", "shape", "zero_points", zero_point, x->rank - axis, shape, &zero_point));
  }
  if ((*result)->constant == NULL || zero_point->constant == NULL || zero_point->constant->count != 1) {
    return intact__onnx_one(node, "sub", "centred", *result, zero_point, result);
  }
  float zero = intact__f32(zero_point->constant)[0];
  if (zero == 0) return INTACT_OK;
  intact_tensor *moved = NULL;
  INTACT_TRY(intact_tensor_copy((*result)->constant, &moved));
  for (int64_t i = 0; i < moved->count; i++) intact__f32(moved)[i] -= zero;
  return intact__onnx_constant(node, "centred", moved, NULL, result);
}

static intact_status check_integer(intact_onnx_node *node, const intact_value *x) {
  if (intact_dtype_is_integer(x->dtype) && x->qparams == NULL) return INTACT_OK;
  INTACT_FAIL(node->context, TYPE_MISMATCH, node->name,
              "cannot read node '%s' (%s): '%s' is %s%s; plain integers are needed", node->name, node->op, x->name,
              x->qparams != NULL ? "quantized " : "", intact_dtype_text(x->dtype));
}

static intact_status matmul_integer(intact_onnx_node *node) {
  INTACT_TRY(need(node, 2));
  intact_value *a = node->inputs[0], *b = node->inputs[1], *pair[2];
  INTACT_TRY(check_integer(node, a));
  INTACT_TRY(check_integer(node, b));
  INTACT_TRY(centre(node, "a", a, intact__onnx_input(node, 2), a->rank - 2, &pair[0]));
  INTACT_TRY(centre(node, "b", b, intact__onnx_input(node, 3), -1, &pair[1]));
  intact_value *product = NULL;
  INTACT_TRY(intact__onnx_one(node, "matmul", "", pair[0], pair[1], &product));
  INTACT_TRY(intact__onnx_cast(node, "sum", product, INTACT_S32, &product));
  return intact__onnx_bind(node, 0, product);
}

/* The operator `base` on other inputs, with this node's attributes, its output cast to int32 where wanted. */
static intact_status run_base(intact_onnx_node *node, const char *base, int version, int n, intact_value **inputs) {
  intact_onnx_node middle = *node;
  middle.op = base;
  middle.version = version;
  middle.n_inputs = n;
  middle.inputs = inputs;
  middle.n_outputs = 0; /* what it gives is bound by the caller */
  INTACT_TRY(intact__onnx_by_alias(&middle));
  node->made = middle.made;
  return INTACT_OK;
}

static intact_status conv_integer(intact_onnx_node *node) {
  INTACT_TRY(need(node, 2));
  intact_value *inputs[2] = {NULL}, *sum = NULL;
  INTACT_TRY(check_integer(node, node->inputs[0]));
  INTACT_TRY(check_integer(node, node->inputs[1]));
  INTACT_TRY(centre(node, "x", node->inputs[0], intact__onnx_input(node, 2), -1, &inputs[0]));
  INTACT_TRY(centre(node, "w", node->inputs[1], intact__onnx_input(node, 3), 0, &inputs[1]));
  INTACT_TRY(run_base(node, "Conv", 11, 2, inputs));
  INTACT_TRY(intact__onnx_cast(node, "sum", node->made->results[0], INTACT_S32, &sum));
  node->made = NULL;
  return intact__onnx_bind(node, 0, sum);
}

/* ---- com.microsoft ---- */
static intact_status add_bias(intact_onnx_node *node, intact_value *product, intact_value *bias) {
  if (bias != NULL) INTACT_TRY(intact__onnx_one(node, "add", "biased", product, bias, &product));
  return intact__onnx_bind(node, 0, product);
}

static int64_t last_axis(const intact_value *x) {
  return x->rank > 0 ? x->rank - 1 : 0;
}

static intact_status matmul_integer_to_float(intact_onnx_node *node) {
  INTACT_TRY(need(node, 4));
  intact_value *a = NULL, *b = NULL, *product = NULL;
  INTACT_TRY(intact__onnx_dequantize(node, "a", node->inputs[0], node->inputs[2], intact__onnx_input(node, 4), 0, 0, &a));
  INTACT_TRY(intact__onnx_dequantize(node, "b", node->inputs[1], node->inputs[3], intact__onnx_input(node, 5),
                                     last_axis(node->inputs[1]), 0, &b));
  INTACT_TRY(intact__onnx_one(node, "matmul", "", a, b, &product));
  return add_bias(node, product, intact__onnx_input(node, 6));
}

static intact_status dynamic_quantize_matmul(intact_onnx_node *node) {
  INTACT_TRY(need(node, 3));
  dynamic d;
  intact_value *a = NULL, *b = NULL, *product = NULL;
  INTACT_TRY(quantize_now(node, node->inputs[0], &d));
  INTACT_TRY(intact__onnx_one(node, "mul", "a", d.centred, d.scale, &a));
  INTACT_TRY(intact__onnx_dequantize(node, "b", node->inputs[1], node->inputs[2], intact__onnx_input(node, 3),
                                     last_axis(node->inputs[1]), 0, &b));
  INTACT_TRY(intact__onnx_one(node, "matmul", "", a, b, &product));
  return add_bias(node, product, intact__onnx_input(node, 4));
}

/* ---- MatMulNBits ---- */
typedef struct packed {
  int64_t k, n, bits, block, blocks; /* blocks per row of k */
} packed;

static intact_status read_packed(intact_onnx_node *node, packed *p) {
  INTACT_TRY(intact__onnx_attr_int(node, "K", 0, &p->k));
  INTACT_TRY(intact__onnx_attr_int(node, "N", 0, &p->n));
  INTACT_TRY(intact__onnx_attr_int(node, "bits", 4, &p->bits));
  INTACT_TRY(intact__onnx_attr_int(node, "block_size", 0, &p->block));
  intact__onnx_ignore(node, "accuracy_level,weight_prepacked");
  bool sizes = p->k >= 1 && p->n >= 1 && p->block >= 1 && p->k <= INT32_MAX && p->n <= INT32_MAX && p->block <= INT32_MAX;
  bool bits = p->bits == 2 || p->bits == 4 || p->bits == 8;
  if (!sizes || !bits || p->block * p->bits % 8 != 0)
    return refuse(node, "K, N, bits or block_size has a value that is not supported");
  p->blocks = (p->k + p->block - 1) / p->block;
  const intact_tensor *w = node->inputs[1]->constant, *scales = node->inputs[2]->constant;
  if (w == NULL || scales == NULL) return refuse(node, "its weight and scales must be constants");
  if ((int64_t)intact_tensor_bytes(w) != p->n * p->blocks * (p->block * p->bits / 8) || scales->count != p->n * p->blocks) {
    INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
                "cannot read node '%s' (%s): weight '%s' (%zu bytes) or scales '%s' do not fit K, N and block_size",
                node->name, node->op, node->inputs[1]->name, intact_tensor_bytes(w), node->inputs[2]->name);
  }
  return INTACT_OK;
}

/* Code i of packed bytes whose rows start at whole bytes. */
static int64_t packed_code(const uint8_t *row, int64_t i, int64_t bits) {
  int64_t bit = i * bits;
  return row[bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

/* The weight as [N, K] codes of an unsigned type. */
static intact_status unpack_weight(intact_onnx_node *node, const packed *p, intact_dtype dtype, intact_tensor **codes) {
  const int64_t dims[2] = {p->n, p->k};
  INTACT_TRY(intact_tensor_create(node->context, dtype, 2, dims, codes));
  int64_t row_bytes = p->blocks * (p->block * p->bits / 8);
  const uint8_t *bytes = node->inputs[1]->constant->data;
  for (int64_t n = 0; n < p->n; n++) {
    for (int64_t k = 0; k < p->k; k++)
      intact__tensor_set_s64(*codes, n * p->k + k, packed_code(bytes + n * row_bytes, k, p->bits));
  }
  return INTACT_OK;
}

/* Zero points [N, blocks], packed with rows of whole bytes; left out they are half of the range. */
static intact_status unpack_zero_points(intact_onnx_node *node, const packed *p, intact_dtype dtype, intact_tensor **zeros) {
  const intact_value *given = intact__onnx_input(node, 3);
  const int64_t dims[2] = {p->n, p->blocks};
  int64_t row_bytes = (p->blocks * p->bits + 7) / 8;
  if (given != NULL &&
      (given->constant == NULL || given->dtype != INTACT_U8 || given->constant->count != p->n * row_bytes)) {
    return refuse(node, "its zero points must be a constant of packed uint8");
  }
  INTACT_TRY(intact_tensor_create(node->context, dtype, 2, dims, zeros));
  for (int64_t i = 0; i < p->n * p->blocks; i++) {
    int64_t zero = 1 << (p->bits - 1);
    if (given != NULL) {
      const uint8_t *row = (const uint8_t *)given->constant->data + i / p->blocks * row_bytes;
      zero = packed_code(row, i % p->blocks, p->bits);
    }
    intact__tensor_set_s64(*zeros, i, zero);
  }
  return INTACT_OK;
}

static intact_status matmul_nbits(intact_onnx_node *node) {
  INTACT_TRY(need(node, 3));
  packed p;
  INTACT_TRY(read_packed(node, &p));
  if (intact__onnx_input(node, 4) != NULL) return refuse(node, "g_idx is not supported");
  intact_dtype dtype = p.bits == 2 ? INTACT_U2 : p.bits == 4 ? INTACT_U4 : INTACT_U8;
  intact_tensor *tensor = NULL;
  intact_value *codes = NULL, *scales = NULL, *zeros = NULL,
               *operands[3] = {node->inputs[0], NULL, intact__onnx_input(node, 5)};
  INTACT_TRY(unpack_weight(node, &p, dtype, &tensor));
  INTACT_TRY(intact__onnx_constant(node, "weight", tensor, NULL, &codes));
  INTACT_TRY(unpack_zero_points(node, &p, dtype, &tensor));
  INTACT_TRY(intact__onnx_constant(node, "zero_point", tensor, NULL, &zeros));
  const int64_t dims[2] = {p.n, p.blocks};
  INTACT_TRY(intact_tensor_share(node->inputs[2]->constant, 2, dims, &tensor));
  INTACT_TRY(intact__onnx_constant(node, "scale", tensor, NULL, &scales));
  INTACT_TRY(intact__onnx_dequantize(node, "dequantized", codes, scales, zeros, 1, p.block, &operands[1]));
  intact_node *product = NULL;
  INTACT_TRY(intact__onnx_add(node, "linear", "", operands[2] == NULL ? 2 : 3, operands, &product));
  INTACT_TRY(intact__node_infer(product));
  return intact__onnx_bind(node, 0, product->results[0]);
}

/* ---- the table ---- */
static const struct {
  const char *op;
  intact_onnx_fixup_fn import;
} rows[] = {
    {"ConvInteger", conv_integer},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},
    {"com.microsoft::DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"com.microsoft::MatMulIntegerToFloat", matmul_integer_to_float},
    {"com.microsoft::MatMulNBits", matmul_nbits},
};

intact_status intact__onnx_import_dynamic(intact_onnx_node *node, bool *known) {
  *known = false;
  for (int i = 0; i < INTACT_COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, node->op) != 0) continue;
    *known = true;
    INTACT_TRY(rows[i].import(node));
    return intact__onnx_check_attributes(node);
  }
  return INTACT_OK;
}

bool intact__onnx_is_dynamic(const char *op) {
  for (int i = 0; i < INTACT_COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, op) == 0) return true;
  }
  return false;
}
