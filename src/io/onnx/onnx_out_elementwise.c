/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops that ONNX writes in another form than its alias says. */
#include <math.h>
#include <string.h>

#include "io/onnx/onnx_export.h"
#include "io/onnx/onnx_file.h"

intact_status intact__onnx_out_step(intact_onnx_out *out, const intact_node *source, const char *op, const char *a,
                                    const char *b, const char *suffix, const char **result) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, NULL, op, &made));
  INTACT_TRY(intact__onnx_out_input(out, made, a));
  if (b != NULL) INTACT_TRY(intact__onnx_out_input(out, made, b));
  *result = intact__onnx_out_fresh(out, source->name, suffix);
  if (*result == NULL) return intact__no_memory(out->output->context, 1);
  return intact__onnx_out_output(out, made, *result);
}

intact_status intact__onnx_out_last(intact_onnx_out *out, const intact_node *source, const char *op, const char *a,
                                    const char *b) {
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, source, op, &made));
  INTACT_TRY(intact__onnx_out_input(out, made, a));
  if (b != NULL) INTACT_TRY(intact__onnx_out_input(out, made, b));
  return intact__onnx_out_result(out, made, source, 0);
}

/* A number of the type of operand 0 (float32 where that carries qparams). */
static intact_status number(intact_onnx_out *out, const intact_node *node, const char *suffix, double value,
                            const char **name) {
  const intact_value *x = node->operands[0];
  intact_dtype dtype = x->qparams != NULL ? INTACT_F32 : x->dtype;
  if (dtype == INTACT_F32) return intact__onnx_out_float_constant(out, node->name, suffix, value, name);
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact_tensor_create(out->output->context, dtype, 0, NULL, &tensor));
  intact__tensor_set_f64(tensor, 0, value);
  intact_status status = intact__onnx_out_keep(out, node->name, suffix, tensor, name);
  intact_tensor_destroy(tensor);
  return status;
}

static const intact_attr *find_attr(const intact_node *node, const char *name) {
  for (int i = 0; i < node->op->schema.n_attrs; i++) {
    if (strcmp(node->op->schema.attrs[i].name, name) == 0) return &node->attrs[i];
  }
  return NULL;
}

/* Both operands' names; the second may be the scalar attribute `other` (`exponent` of pow). */
static intact_status two_operands(intact_onnx_out *out, const intact_node *node, const char **a, const char **b) {
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], a));
  if (node->n_operands > 1 && node->operands[1] != NULL) return intact__onnx_out_real(out, node->operands[1], b);
  const intact_attr *scalar = find_attr(node, "other");
  if (scalar == NULL) scalar = find_attr(node, "exponent");
  return number(out, node, "other", scalar == NULL ? 0 : scalar->f, b);
}

static intact_status write_binary(intact_onnx_out *out, const intact_node *node) {
  static const char *const names[][2] = {
      {"add", "Add"},           {"sub", "Sub"},         {"mul", "Mul"},       {"maximum", "Max"},     {"minimum", "Min"},
      {"pow", "Pow"},           {"eq", "Equal"},        {"lt", "Less"},       {"le", "LessOrEqual"},  {"gt", "Greater"},
      {"ge", "GreaterOrEqual"}, {"logical_and", "And"}, {"logical_or", "Or"}, {"logical_xor", "Xor"},
  };
  const char *a = NULL, *b = NULL, *op = NULL;
  for (int i = 0; i < INTACT_COUNT_OF(names); i++) {
    if (strcmp(names[i][0], node->op->name) == 0) op = names[i][1];
  }
  INTACT_TRY(two_operands(out, node, &a, &b));
  const intact_attr *alpha = find_attr(node, "alpha");
  if (alpha != NULL && alpha->f != 1) {
    const char *factor = NULL;
    INTACT_TRY(number(out, node, "alpha", alpha->f, &factor));
    INTACT_TRY(intact__onnx_out_step(out, node, "Mul", b, factor, "scaled", &b));
  }
  return intact__onnx_out_last(out, node, op, a, b);
}

/* y = b - alpha a. */
static intact_status write_rsub(intact_onnx_out *out, const intact_node *node) {
  const char *a = NULL, *b = NULL, *factor = NULL;
  INTACT_TRY(two_operands(out, node, &a, &b));
  double alpha = intact__attr_float(node, "alpha");
  if (alpha != 1) {
    INTACT_TRY(number(out, node, "alpha", alpha, &factor));
    INTACT_TRY(intact__onnx_out_step(out, node, "Mul", a, factor, "scaled", &a));
  }
  return intact__onnx_out_last(out, node, "Sub", b, a);
}

static intact_status write_div(intact_onnx_out *out, const intact_node *node) {
  const char *a = NULL, *b = NULL, *quotient = NULL;
  const char *mode = intact__attr_string(node, "rounding_mode");
  bool trunc = strcmp(mode, "trunc") == 0, floor = strcmp(mode, "floor") == 0;
  bool whole = intact_dtype_is_integer(node->operands[0]->dtype) && node->operands[0]->qparams == NULL;
  if ((trunc && !whole) || (floor && whole)) return intact__onnx_out_refuse(out, node, "ONNX's Div does not round this way");
  if (!trunc && whole) return intact__onnx_out_refuse(out, node, "ONNX's Div of integers cuts; cast them to float first");
  INTACT_TRY(two_operands(out, node, &a, &b));
  if (!floor) return intact__onnx_out_last(out, node, "Div", a, b);
  INTACT_TRY(intact__onnx_out_step(out, node, "Div", a, b, "quotient", &quotient));
  return intact__onnx_out_last(out, node, "Floor", quotient, NULL);
}

static intact_status write_ne(intact_onnx_out *out, const intact_node *node) {
  const char *a = NULL, *b = NULL, *equal = NULL;
  INTACT_TRY(two_operands(out, node, &a, &b));
  INTACT_TRY(intact__onnx_out_step(out, node, "Equal", a, b, "equal", &equal));
  return intact__onnx_out_last(out, node, "Not", equal, NULL);
}

static intact_status write_mod(intact_onnx_out *out, const intact_node *node) {
  bool fmod_kind = strcmp(node->op->name, "fmod") == 0;
  bool whole = intact_dtype_is_integer(node->operands[0]->dtype);
  if (!fmod_kind && !whole) return intact__onnx_out_refuse(out, node, "ONNX's Mod of floats has the dividend's sign only");
  const char *a = NULL, *b = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(two_operands(out, node, &a, &b));
  INTACT_TRY(intact__onnx_out_node(out, node, "Mod", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, a));
  INTACT_TRY(intact__onnx_out_input(out, made, b));
  INTACT_TRY(intact__onnx_out_int(out, made, "fmod", fmod_kind));
  return intact__onnx_out_result(out, made, node, 0);
}

static intact_status write_shift(intact_onnx_out *out, const intact_node *node) {
  bool left = strcmp(node->op->name, "bitwise_left_shift") == 0;
  const char *a = NULL, *b = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(two_operands(out, node, &a, &b));
  INTACT_TRY(intact__onnx_out_node(out, node, "BitShift", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, a));
  INTACT_TRY(intact__onnx_out_input(out, made, b));
  INTACT_TRY(intact__onnx_out_string(out, made, "direction", left ? "LEFT" : "RIGHT"));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- clamps ---- */
static intact_status write_clamp(intact_onnx_out *out, const intact_node *node) {
  double low = 0, high = 0;
  const char *x = NULL, *min = "", *max = "";
  Onnx__NodeProto *made = NULL;
  node->op->quant.clamp_range(node, &low, &high);
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (!isinf(low)) INTACT_TRY(number(out, node, "min", low, &min));
  if (!isinf(high)) INTACT_TRY(number(out, node, "max", high, &max));
  INTACT_TRY(intact__onnx_out_node(out, node, "Clip", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, x));
  if (min[0] != 0 || max[0] != 0) INTACT_TRY(intact__onnx_out_input(out, made, min));
  if (max[0] != 0) INTACT_TRY(intact__onnx_out_input(out, made, max));
  return intact__onnx_out_result(out, made, node, 0);
}

/* ---- compositions ---- */
/* x op(x): silu = x * sigmoid(x), square = x * x. */
static intact_status write_silu(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL, *gate = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(intact__onnx_out_step(out, node, "Sigmoid", x, NULL, "gate", &gate));
  return intact__onnx_out_last(out, node, "Mul", x, gate);
}

static intact_status write_square(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  return intact__onnx_out_last(out, node, "Mul", x, x);
}

static intact_status write_rsqrt(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL, *root = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(intact__onnx_out_step(out, node, "Sqrt", x, NULL, "root", &root));
  return intact__onnx_out_last(out, node, "Reciprocal", root, NULL);
}

/* log(1 / (1 + exp(-x))) = -softplus(-x). */
static intact_status write_log_sigmoid(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(intact__onnx_out_step(out, node, "Neg", x, NULL, "negated", &x));
  INTACT_TRY(intact__onnx_out_step(out, node, "Softplus", x, NULL, "soft", &x));
  return intact__onnx_out_last(out, node, "Neg", x, NULL);
}

/* A softplus of beta = 1; the threshold only changes how it is computed. */
static intact_status write_softplus(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL;
  if (intact__attr_float(node, "beta") != 1) return intact__onnx_out_refuse(out, node, "ONNX's Softplus has beta 1 only");
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  return intact__onnx_out_last(out, node, "Softplus", x, NULL);
}

/* An absent bias is lambd here and 0 in ONNX. */
static intact_status write_softshrink(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *bias = intact__attr(node, "bias");
  const double lambd = intact__attr_float(node, "lambd");
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_node(out, node, "Shrink", &made));
  INTACT_TRY(intact__onnx_out_operand(out, made, node, 0));
  INTACT_TRY(intact__onnx_out_float(out, made, "lambd", lambd));
  INTACT_TRY(intact__onnx_out_float(out, made, "bias", bias->present ? bias->f : lambd));
  return intact__onnx_out_result(out, made, node, 0);
}

/* The row of another base: log2, log10. */
static intact_status write_log_base(intact_onnx_out *out, const intact_node *node) {
  const char *x = NULL, *base = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  INTACT_TRY(intact__onnx_out_step(out, node, "Log", x, NULL, "ln", &x));
  INTACT_TRY(number(out, node, "base", strcmp(node->op->name, "log2") == 0 ? log(2) : log(10), &base));
  return intact__onnx_out_last(out, node, "Div", x, base);
}

/* Slopes per channel lie along axis 1; ONNX lines shapes up at the end. */
static intact_status write_prelu(intact_onnx_out *out, const intact_node *node) {
  const intact_value *x = node->operands[0], *w = node->operands[1];
  const char *names[2] = {NULL, NULL};
  INTACT_TRY(intact__onnx_out_real(out, x, &names[0]));
  INTACT_TRY(intact__onnx_out_real(out, w, &names[1]));
  bool spread = w->rank == 1 && w->dims[0] != 1 && x->rank != 2;
  if (spread && x->rank < 2) return intact__onnx_out_refuse(out, node, "its input has no known rank of 2 or more");
  if (spread) {
    int64_t shape[INTACT_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
    const char *list = NULL;
    INTACT_TRY(intact__onnx_out_ints_constant(out, node->name, "slope_shape", x->rank - 1, shape, &list));
    INTACT_TRY(intact__onnx_out_step(out, node, "Reshape", names[1], list, "slope", &names[1]));
  }
  return intact__onnx_out_last(out, node, "PRelu", names[0], names[1]);
}

static intact_status write_cast(intact_onnx_out *out, const intact_node *node) {
  const intact_attr *dtype = intact__attr(node, "dtype");
  const char *x = NULL, *like = NULL;
  Onnx__NodeProto *made = NULL;
  INTACT_TRY(intact__onnx_out_real(out, node->operands[0], &x));
  if (!dtype->present && node->n_operands > 1 && node->operands[1] != NULL) {
    INTACT_TRY(intact__onnx_out_name(out, node->operands[1], &like));
    intact__onnx_out_needs(out, 15);
    return intact__onnx_out_last(out, node, "CastLike", x, like);
  }
  for (int i = 0; i < 2; i++) {
    intact_dtype type = i == 0 ? node->operands[0]->dtype : node->results[0]->dtype;
    if (intact_dtype_is_float(type) && intact_dtype_bits(type) == 8) intact__onnx_out_needs(out, 19);
    if (intact_dtype_bits(type) < 8) intact__onnx_out_needs(out, INTACT_ONNX_OPSET_WIDE);
  }
  INTACT_TRY(intact__onnx_out_node(out, node, "Cast", &made));
  INTACT_TRY(intact__onnx_out_input(out, made, x));
  INTACT_TRY(intact__onnx_out_int(out, made, "to", intact__onnx_dtype_number(node->results[0]->dtype)));
  return intact__onnx_out_result(out, made, node, 0);
}

const intact_onnx_out_row intact__onnx_out_elementwise[] = {
    {"add", write_binary},
    {"bitwise_left_shift", write_shift},
    {"bitwise_right_shift", write_shift},
    {"cast", write_cast},
    {"clamp", write_clamp},
    {"div", write_div},
    {"eq", write_binary},
    {"fmod", write_mod},
    {"ge", write_binary},
    {"gt", write_binary},
    {"hardtanh", write_clamp},
    {"le", write_binary},
    {"log10", write_log_base},
    {"log2", write_log_base},
    {"log_sigmoid", write_log_sigmoid},
    {"logical_and", write_binary},
    {"logical_or", write_binary},
    {"logical_xor", write_binary},
    {"lt", write_binary},
    {"maximum", write_binary},
    {"minimum", write_binary},
    {"mul", write_binary},
    {"ne", write_ne},
    {"pow", write_binary},
    {"prelu", write_prelu},
    {"relu6", write_clamp},
    {"remainder", write_mod},
    {"rsqrt", write_rsqrt},
    {"rsub", write_rsub},
    {"silu", write_silu},
    {"softplus", write_softplus},
    {"softshrink", write_softshrink},
    {"square", write_square},
    {"sub", write_binary},
    {NULL, NULL},
};
