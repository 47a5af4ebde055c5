/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of embeddings with 8-, 4- and 2-bit tables. A packed row holds its codes, low bits first, then scale and bias:
   float32 for 8 bits, float16 for 4 and 2; an element is q * scale + bias. */
#include <math.h>
#include <string.h>

#include "ops/quantized/quantized.h"

typedef struct packing {
  int bits, per_byte;
  int64_t tail; /* bytes of scale and bias */
} packing;

static intact_status packing_of(intact_context *context, const intact_node *node, packing *p) {
  const int64_t bits = intact__attr_int(node, "bits");
  if (bits != 8 && bits != 4 && bits != 2)
    INTACT_FAIL(context, INVALID_VALUE, node->name, "%s '%s': bits is %lld; it must be 8, 4 or 2", node->op->name,
                node->name, (long long)bits);
  *p = (packing){.bits = (int)bits, .per_byte = 8 / (int)bits, .tail = bits == 8 ? 8 : 4};
  return INTACT_OK;
}

static float half(float v) {
  return intact__f16_to_f32(intact__f32_to_f16(v));
}

static void write_tail(const packing *p, float scale, float bias, uint8_t *to) {
  if (p->bits == 8) {
    memcpy(to, &scale, 4);
    memcpy(to + 4, &bias, 4);
  } else {
    const uint16_t halves[2] = {intact__f32_to_f16(scale), intact__f32_to_f16(bias)};
    memcpy(to, halves, 4);
  }
}

static void read_tail(const packing *p, const uint8_t *from, float *scale, float *bias) {
  if (p->bits == 8) {
    memcpy(scale, from, 4);
    memcpy(bias, from + 4, 4);
  } else {
    uint16_t halves[2];
    memcpy(halves, from, 4);
    *scale = intact__f16_to_f32(halves[0]);
    *bias = intact__f16_to_f32(halves[1]);
  }
}

/* ---- prepack ---- */

static intact_status infer_prepack(intact_infer *infer) {
  const intact_node *node = infer->node;
  const intact_value *weight = node->operands[0];
  const intact_qparams *q = weight->qparams;
  packing p;
  char text[160];
  INTACT_TRY(packing_of(infer->context, node, &p));
  if (q != NULL ? q->axis != 0 || q->real_zero_point == NULL : weight->dtype != INTACT_F32)
    INTACT_FAIL(infer->context, TYPE_MISMATCH, node->name,
                "%s '%s': weight is %s%s; it must be f32, or quantized per channel along axis 0 with real zero points "
                "(per_channel_affine_float_qparams)",
                node->op->name, node->name, q != NULL ? "otherwise quantized " : "", intact_dtype_text(weight->dtype));
  if (weight->rank < 0) return intact__infer_unranked(infer, INTACT_U8);
  if (weight->rank != 2 || (weight->dims[1] > 0 && weight->dims[1] % p.per_byte != 0))
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s '%s': weight is %s; it must be [rows, columns], columns a multiple of %d", node->op->name, node->name,
                intact__shape_text(weight->rank, weight->dims, text), p.per_byte);
  const int64_t bytes = weight->dims[1] < 0 ? intact__infer_unknown_dim(infer) : weight->dims[1] / p.per_byte + p.tail;
  return intact__infer_result(infer, 0, INTACT_U8, 2, (const int64_t[]){weight->dims[0], bytes});
}

/* Lowest and highest value of a row, or what the search for the smallest error says. */
static intact_status range_of(const intact_call *call, const packing *p, const float *x, int64_t columns, float *low,
                              float *high) {
  *low = *high = columns > 0 ? x[0] : 0;
  for (int64_t i = 1; i < columns; i++) {
    *low = x[i] < *low ? x[i] : *low;
    *high = x[i] > *high ? x[i] : *high;
  }
  if (p->bits == 8 || columns == 0 || intact__attr_int(call->node, "optimized_qparams") == 0) return INTACT_OK;
  intact_twin twin;
  intact_tensor *row = NULL, *found[2] = {NULL, NULL};
  intact__twin_make(&twin, call->node, &intact_op_choose_qparams_optimized, 1);
  twin.node.n_results = 2;
  intact__attr_set_int(&twin.node, "numel", columns);
  intact__attr_set_int(&twin.node, "n_bins", intact__attr_int(call->node, "nbins"));
  intact__attr_set_int(&twin.node, "bit_width", p->bits);
  INTACT_TRY(intact_tensor_borrow(call->context, INTACT_F32, 1, &columns, x, &row));
  const intact_tensor *operand = row;
  const intact_status status = intact__twin_eval(call, &twin, 1, &operand, found);
  intact_tensor_destroy(row);
  INTACT_TRY(status);
  *high = intact__f32(found[0])[0];
  *low = intact__f32(found[1])[0];
  intact_tensor_destroy(found[0]);
  intact_tensor_destroy(found[1]);
  return INTACT_OK;
}

static void pack_codes(const packing *p, const float *x, int64_t columns, float bias, float inverse, uint8_t *to) {
  memset(to, 0, (size_t)(columns / p->per_byte));
  for (int64_t i = 0; i < columns; i++) {
    const int64_t code = intact__clamp_s64(intact__round_s64((double)((x[i] - bias) * inverse)), 0, (1 << p->bits) - 1);
    to[i / p->per_byte] |= (uint8_t)(code << (p->bits * (int)(i % p->per_byte)));
  }
}

static intact_status pack_row(const intact_call *call, const packing *p, const float *x, int64_t columns, uint8_t *to) {
  float low, high;
  INTACT_TRY(range_of(call, p, x, columns, &low, &high));
  if (p->bits == 8) {
    const float range = high - low;
    pack_codes(p, x, columns, low, 255.0f / (range + 1e-8f), to);
    write_tail(p, range / 255.0f, low, to + columns);
    return INTACT_OK;
  }
  low = half(low);
  const float range = high - low;
  float scale = range == 0.0f ? 1.0f : half(range / (float)((1 << p->bits) - 1)), inverse = 1.0f / scale;
  if (scale == 0.0f || isinf(inverse)) scale = inverse = 1.0f;
  pack_codes(p, x, columns, low, inverse, to);
  write_tail(p, scale, low, to + columns / p->per_byte);
  return INTACT_OK;
}

/* Codes as they are; bias = -zero point * scale. */
static void pack_quantized_row(const packing *p, const intact_tensor *w, const intact_qparams *q, int64_t row, uint8_t *to) {
  const int64_t columns = w->dims[1];
  memset(to, 0, (size_t)(columns / p->per_byte));
  for (int64_t i = 0; i < columns; i++) {
    const int64_t code = intact__tensor_get_s64(w, row * columns + i) & ((1 << p->bits) - 1);
    to[i / p->per_byte] |= (uint8_t)(code << (p->bits * (int)(i % p->per_byte)));
  }
  write_tail(p, q->scale[row], -1.0f * q->real_zero_point[row] * q->scale[row], to + columns / p->per_byte);
}

static intact_status eval_prepack(const intact_call *call) {
  const intact_tensor *w = call->operands[0];
  const intact_qparams *q = intact__operand_qparams(call->node, 0);
  const int64_t columns = w->dims[1];
  packing p;
  intact_tensor *y;
  INTACT_TRY(packing_of(call->context, call->node, &p));
  INTACT_TRY(intact__call_result(call, 0, INTACT_U8, 2, (const int64_t[]){w->dims[0], columns / p.per_byte + p.tail}, &y));
  for (int64_t row = 0; row < w->dims[0]; row++) {
    uint8_t *to = (uint8_t *)y->data + row * y->dims[1];
    if (q != NULL)
      pack_quantized_row(&p, w, q, row, to);
    else
      INTACT_TRY(pack_row(call, &p, intact__f32(w) + row * columns, columns, to));
  }
  return INTACT_OK;
}

#define BITS \
  { .name = "bits", .type = INTACT_ATTR_INT, .i = 8 }
#define FOR_BITS(before, after, map)                                  \
  INTACT_QUANTIZED("quantized::" before "byte" after, map "=bits:8"), \
      INTACT_QUANTIZED("quantized::" before "4bit" after, map "=bits:4")
#define PREPACK_MAP "optimized_qparams=optimized_qparams,nbins=nbins,ratio=ratio,"

const intact_op intact_op_quantized_embedding_bag_prepack = {
    .name = "quantized_embedding_bag_prepack",
    .doc =
        "Rows of a table as codes of 8, 4 or 2 bits with scale and bias behind them; by the row's range, a searched one "
        "(optimized_qparams), or the weight's own qparams.",
    .schema = {INTACT_OPERANDS({"weight", INTACT_ROLE_NONE, 0}), INTACT_RESULTS("packed"),
               INTACT_ATTRS(BITS, INTACT_BOOL_ATTR("optimized_qparams", 0), INTACT_INT_ATTR("nbins", 200),
                            INTACT_FLOAT_ATTR("ratio", 0.16))},
    .infer = infer_prepack,
    .eval_f32 = eval_prepack,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(FOR_BITS("embedding_bag_", "_prepack", PREPACK_MAP),
                              INTACT_QUANTIZED("quantized::embedding_bag_2bit_prepack", PREPACK_MAP "=bits:2")),
};

/* ---- unpack ---- */

static intact_status infer_table(intact_infer *infer, int64_t *columns) {
  const intact_node *node = infer->node;
  const intact_value *packed = node->operands[0];
  packing p;
  char text[160];
  INTACT_TRY(packing_of(infer->context, node, &p));
  if (packed->dtype != INTACT_U8 || (packed->rank >= 0 && packed->rank != 2) ||
      (packed->rank == 2 && packed->dims[1] >= 0 && packed->dims[1] < p.tail))
    INTACT_FAIL(infer->context, SIZE_MISMATCH, node->name,
                "%s '%s': packed is %s %s; it must be u8 [rows, bytes], the last %lld bytes scale and bias", node->op->name,
                node->name, intact_dtype_text(packed->dtype),
                packed->rank < 0 ? "" : intact__shape_text(packed->rank, packed->dims, text), (long long)p.tail);
  *columns = packed->rank < 0 || packed->dims[1] < 0 ? -1 : (packed->dims[1] - p.tail) * p.per_byte;
  return INTACT_OK;
}

static intact_status infer_unpack(intact_infer *infer) {
  int64_t columns;
  INTACT_TRY(infer_table(infer, &columns));
  if (infer->node->operands[0]->rank < 0) return intact__infer_unranked(infer, INTACT_F32);
  if (columns < 0) columns = intact__infer_unknown_dim(infer);
  return intact__infer_result(infer, 0, INTACT_F32, 2, (const int64_t[]){infer->node->operands[0]->dims[0], columns});
}

static intact_status unpack(const intact_call *call, intact_tensor **table) {
  const intact_tensor *packed = call->operands[0];
  packing p;
  INTACT_TRY(packing_of(call->context, call->node, &p));
  const int64_t bytes = packed->dims[1], columns = (bytes - p.tail) * p.per_byte;
  INTACT_TRY(intact__tensor_create_raw(call->context, INTACT_F32, 2, (const int64_t[]){packed->dims[0], columns}, table));
  for (int64_t row = 0; row < packed->dims[0]; row++) {
    const uint8_t *from = (const uint8_t *)packed->data + row * bytes;
    float scale, bias;
    read_tail(&p, from + bytes - p.tail, &scale, &bias);
    for (int64_t i = 0; i < columns; i++) {
      const int code = from[i / p.per_byte] >> (p.bits * (int)(i % p.per_byte)) & ((1 << p.bits) - 1);
      intact__f32(*table)[row * columns + i] = fmaf((float)code, scale, bias);
    }
  }
  return INTACT_OK;
}

static intact_status eval_unpack(const intact_call *call) {
  intact_tensor *table;
  INTACT_TRY(unpack(call, &table));
  return intact__give_result(call, 0, INTACT_F32, table);
}

#define PACKED \
  { "packed", INTACT_ROLE_NONE, 0 }

const intact_op intact_op_quantized_embedding_bag_unpack = {
    .name = "quantized_embedding_bag_unpack",
    .doc = "The real table of packed rows: fma(q, scale, bias).",
    .schema = {INTACT_OPERANDS(PACKED), INTACT_RESULTS("weight"), INTACT_ATTRS(BITS)},
    .infer = infer_unpack,
    .eval_f32 = eval_unpack,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(FOR_BITS("embedding_bag_", "_unpack", ""),
                              INTACT_QUANTIZED("quantized::embedding_bag_2bit_unpack", "=bits:2")),
};

/* ---- look-up: the float rows over the real table ---- */

static intact_status set_mode(intact_context *context, const intact_node *node, intact_twin *twin) {
  static const char *const modes[] = {"sum", "mean", "max"};
  const int64_t mode = intact__attr_int(node, "mode");
  if (mode < 0 || mode > 2)
    INTACT_FAIL(context, INVALID_VALUE, node->name, "%s '%s': mode is %lld; it must be 0 (sum), 1 (mean) or 2 (max)",
                node->op->name, node->name, (long long)mode);
  for (int i = 0; i < twin->node.op->schema.n_attrs; i++)
    if (strcmp(twin->node.op->schema.attrs[i].name, "mode") == 0) twin->attrs[i].s = modes[mode];
  return INTACT_OK;
}

static intact_status make_twin(intact_context *context, const intact_node *node, intact_twin *twin) {
  const bool bag = strcmp(node->op->name, "quantized_embedding_bag") == 0;
  intact__twin_make(twin, node, bag ? &intact_op_embedding_bag : &intact_op_embedding, node->op->schema.n_operands);
  return bag ? set_mode(context, node, twin) : INTACT_OK;
}

static intact_status infer_lookup(intact_infer *infer) {
  intact_twin twin;
  int64_t columns;
  INTACT_TRY(infer_table(infer, &columns));
  INTACT_TRY(make_twin(infer->context, infer->node, &twin));
  twin.values[0].dtype = INTACT_F32;
  if (twin.values[0].rank == 2) twin.values[0].dims[1] = columns < 0 ? intact__infer_unknown_dim(infer) : columns;
  intact_infer inner = {.context = infer->context, .node = &twin.node, .graph = infer->graph};
  return twin.node.op->infer(&inner);
}

static intact_status eval_lookup(const intact_call *call) {
  const int n = call->node->op->schema.n_operands;
  const intact_tensor *operands[4] = {NULL, NULL, NULL, NULL};
  intact_twin twin;
  intact_tensor *table, *y = NULL;
  INTACT_TRY(make_twin(call->context, call->node, &twin));
  INTACT_TRY(unpack(call, &table));
  for (int i = 1; i < n; i++) operands[i] = intact__operand(call, i);
  operands[0] = table;
  const intact_status status = intact__twin_eval(call, &twin, n, operands, &y);
  intact_tensor_destroy(table);
  INTACT_TRY(status);
  return intact__give_result(call, 0, INTACT_F32, y);
}

const intact_op intact_op_quantized_embedding = {
    .name = "quantized_embedding",
    .doc = "Rows of a packed table by index: fma(q, scale, bias).",
    .schema = {INTACT_OPERANDS(PACKED, {"indices", INTACT_ROLE_INDEX, 0}), INTACT_RESULTS("y"), INTACT_ATTRS(BITS)},
    .infer = infer_lookup,
    .eval_f32 = eval_lookup,
    INTACT_QUANTIZED_TRAITS,
    .aliases = INTACT_ALIASES(FOR_BITS("embedding_", "", "")),
};

#define BAG_MAP "mode=mode,include_last_offset=include_last_offset,"

const intact_op intact_op_quantized_embedding_bag = {
    .name = "quantized_embedding_bag",
    .doc = "Sums over bags of rows of a packed table, as embedding_bag; mode 0 sum, 1 mean, 2 max.",
    .schema = {INTACT_OPERANDS(PACKED, {"indices", INTACT_ROLE_INDEX, 0}, {"offsets", INTACT_ROLE_INDEX, INTACT_OPTIONAL},
                               {"per_sample_weights", INTACT_ROLE_NONE, INTACT_OPTIONAL}),
               INTACT_RESULTS("y"),
               INTACT_ATTRS(BITS, INTACT_INT_ATTR("mode", 0), INTACT_BOOL_ATTR("include_last_offset", 0))},
    .infer = infer_lookup,
    .eval_f32 = eval_lookup,
    INTACT_QUANTIZED_TRAITS,
    .aliases =
        INTACT_ALIASES(FOR_BITS("embedding_bag_", "", BAG_MAP), FOR_BITS("embedding_bag_", "_rowwise_offsets", BAG_MAP),
                       INTACT_QUANTIZED("quantized::embedding_bag_2bit_rowwise_offsets", BAG_MAP "=bits:2")),
};
