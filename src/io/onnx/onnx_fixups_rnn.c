/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-up of LSTM, GRU and RNN: weights cut per direction, gates in our order, results in ONNX's shape. */
#include <string.h>

#include "io/onnx/onnx_fixups.h"

enum { MOST_GATES = 4 };

typedef struct recurrent {
  intact_onnx_node *node;
  const char *op; /* our row */
  int gates, directions;
  int order[MOST_GATES]; /* our gate k is ONNX's order[k] */
  int64_t hidden;
  bool reversed, batch_first, reset_after;
} recurrent;

static intact_status refuse(const recurrent *r, const char *what) {
  INTACT_FAIL(r->node->context, UNSUPPORTED_OP, r->node->name, "cannot read node '%s' (%s): %s is not supported",
              r->node->name, r->node->op, what);
}

/* ---- attributes ---- */
static bool text_is(const ProtobufCBinaryData *bytes, const char *text) {
  return bytes->len == strlen(text) && strncmp((const char *)bytes->data, text, bytes->len) == 0;
}

/* The activations must be the default ones; Relu in all directions makes RNN the row rnn_relu. */
static intact_status read_activations(recurrent *r) {
  static const char *const defaults[3] = {"Sigmoid", "Tanh", "Tanh"};
  const Onnx__AttributeProto *attr = intact__onnx_attribute(r->node, "activations");
  if (attr == NULL || attr->n_strings == 0) return INTACT_OK;
  bool simple = strcmp(r->op, "rnn_tanh") == 0;
  size_t each = simple ? 1 : r->gates == 4 ? 3 : 2, n = attr->n_strings;
  if (n != each * (size_t)r->directions) return refuse(r, "a list of activations of this length");
  if (simple && text_is(&attr->strings[0], "Relu")) r->op = "rnn_relu";
  for (size_t i = 0; i < n; i++) {
    const char *want = !simple ? defaults[i % each] : strcmp(r->op, "rnn_relu") == 0 ? "Relu" : "Tanh";
    if (!text_is(&attr->strings[i], want)) return refuse(r, "another activation than the default");
  }
  return INTACT_OK;
}

static intact_status read_attributes(recurrent *r) {
  intact_onnx_node *node = r->node;
  const char *direction = NULL;
  int64_t input_forget, layout, before;
  double clip;
  int n_alpha, n_beta;
  const float *unused = NULL;
  INTACT_TRY(intact__onnx_attr_string(node, "direction", "forward", &direction));
  INTACT_TRY(intact__onnx_attr_int(node, "input_forget", 0, &input_forget));
  INTACT_TRY(intact__onnx_attr_int(node, "layout", 0, &layout));
  INTACT_TRY(intact__onnx_attr_int(node, "linear_before_reset", 0, &before));
  INTACT_TRY(intact__onnx_attr_float(node, "clip", 0, &clip));
  INTACT_TRY(intact__onnx_attr_floats(node, "activation_alpha", &n_alpha, &unused));
  INTACT_TRY(intact__onnx_attr_floats(node, "activation_beta", &n_beta, &unused));
  intact__onnx_ignore(node, "hidden_size,output_sequence");
  r->reversed = strcmp(direction, "reverse") == 0;
  r->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
  if (r->directions == 1 && !r->reversed && strcmp(direction, "forward") != 0) return refuse(r, "this direction");
  if (input_forget != 0) return refuse(r, "input_forget");
  if (clip != 0) return refuse(r, "clip");
  if (n_alpha > 0 || n_beta > 0) return refuse(r, "a parameter of an activation");
  r->batch_first = layout != 0;
  r->reset_after = before != 0;
  return read_activations(r);
}

static intact_status set_kind(recurrent *r) {
  static const int lstm[MOST_GATES] = {0, 2, 3, 1}, gru[MOST_GATES] = {1, 0, 2, 3}, plain[MOST_GATES] = {0, 1, 2, 3};
  bool is_lstm = strcmp(r->node->op, "LSTM") == 0, is_gru = strcmp(r->node->op, "GRU") == 0;
  r->op = is_lstm ? "lstm" : is_gru ? "gru" : "rnn_tanh";
  r->gates = is_lstm ? 4 : is_gru ? 3 : 1;
  memcpy(r->order, is_lstm ? lstm : is_gru ? gru : plain, sizeof r->order);
  return read_attributes(r);
}

/* ---- weights ---- */
/* Rows part*gates*hidden .. of direction d of a constant [directions, parts*gates*hidden, width?], gates in our order; also
   of one behind a dequantize node with one scale. */
static intact_status cut(const recurrent *r, const char *suffix, const intact_value *x, int d, int parts, int part,
                         intact_value **result) {
  intact_onnx_node *node = r->node;
  const intact_node *dequantize = intact__is_op(x->producer, "dequantize") ? x->producer : NULL;
  const intact_value *from = dequantize != NULL ? dequantize->operands[0] : x;
  bool usable = from->constant != NULL && (from->qparams == NULL || (dequantize != NULL && from->qparams->n == 1));
  if (!usable || intact_dtype_bits(from->dtype) < 8) return refuse(r, "a weight that is no constant (or has many scales)");
  int64_t rows = r->gates * r->hidden, width = from->rank == 3 ? from->dims[2] : 1;
  if (from->rank < 2 || from->rank > 3 || from->dims[0] != r->directions || from->dims[1] != parts * rows) {
    char text[160];
    INTACT_FAIL(node->context, SIZE_MISMATCH, node->name,
                "cannot read node '%s' (%s): '%s' has shape %s, %d directions of %lld rows are needed", node->name, node->op,
                x->name, intact__shape_text(from->rank, from->dims, text), r->directions, (long long)(parts * rows));
  }
  size_t block = (size_t)(r->hidden * width) * (size_t)intact_dtype_bits(from->dtype) / 8;
  int64_t dims[2] = {rows, width};
  intact_tensor *tensor = NULL;
  INTACT_TRY(intact_tensor_create(node->context, from->dtype, from->rank - 1, dims, &tensor));
  for (int k = 0; k < r->gates; k++) {
    size_t source = (size_t)((d * parts + part) * r->gates + r->order[k]);
    memcpy((char *)tensor->data + (size_t)k * block, (const char *)from->constant->data + source * block, block);
  }
  intact_value *constant = NULL;
  INTACT_TRY(intact__onnx_constant(node, suffix, tensor, from->qparams, &constant));
  if (dequantize != NULL) return intact__onnx_one(node, "dequantize", suffix, constant, NULL, result);
  *result = constant;
  return INTACT_OK;
}

static intact_status cut_all(const recurrent *r, intact_value **params, int *n) {
  intact_value *w = intact__onnx_input(r->node, 1), *weights = intact__onnx_input(r->node, 2);
  intact_value *b = intact__onnx_input(r->node, 3);
  *n = 0;
  for (int d = 0; d < r->directions; d++) {
    INTACT_TRY(cut(r, d == 0 ? "weight_ih" : "weight_ih_reverse", w, d, 1, 0, &params[(*n)++]));
    INTACT_TRY(cut(r, d == 0 ? "weight_hh" : "weight_hh_reverse", weights, d, 1, 0, &params[(*n)++]));
    if (b == NULL) continue;
    INTACT_TRY(cut(r, d == 0 ? "bias_ih" : "bias_ih_reverse", b, d, 2, 0, &params[(*n)++]));
    INTACT_TRY(cut(r, d == 0 ? "bias_hh" : "bias_hh_reverse", b, d, 2, 1, &params[(*n)++]));
  }
  return INTACT_OK;
}

/* sequence_lens changes nothing when every sequence has the full length. */
static intact_status check_lengths(const recurrent *r) {
  const intact_value *x = intact__onnx_input(r->node, 0);
  int n;
  const int64_t *lengths = NULL;
  if (intact__onnx_input(r->node, 4) == NULL) return INTACT_OK;
  INTACT_TRY(intact__onnx_known_ints(r->node, intact__onnx_input(r->node, 4), &n, &lengths));
  bool full = n >= 0 && x->rank == 3;
  for (int i = 0; full && i < n; i++) full = lengths[i] == x->dims[r->batch_first ? 1 : 0];
  return full ? INTACT_OK : refuse(r, "sequence_lens shorter than the input");
}

/* ---- around the node ---- */
static intact_status permute(const recurrent *r, const char *suffix, intact_value *x, int n, const int64_t *dims,
                             intact_value **result) {
  return intact__onnx_with_ints(r->node, "permute", "dims", suffix, x, n, dims, result);
}

static intact_status flip_time(const recurrent *r, const char *suffix, intact_value *x, intact_value **result) {
  const int64_t time[1] = {r->batch_first ? 1 : 0};
  return intact__onnx_with_ints(r->node, "flip", "dims", suffix, x, 1, time, result);
}

/* A state [N, directions, H] of layout 1 as [directions, N, H] and back. */
static intact_status turn_state(const recurrent *r, const char *suffix, intact_value *x, intact_value **result) {
  static const int64_t exchange[3] = {1, 0, 2};
  *result = x;
  return x == NULL || !r->batch_first ? INTACT_OK : permute(r, suffix, x, 3, exchange, result);
}

/* y [T, N, directions*H] (layout 1: [N, T, ...]) as Y [T, directions, N, H] ([N, T, directions, H]). */
static intact_status shape_result(const recurrent *r, intact_value *y, intact_value **result) {
  if (r->reversed) INTACT_TRY(flip_time(r, "forward", y, &y));
  const int64_t direction_axis[1] = {r->batch_first ? 2 : 1};
  if (r->directions == 1) return intact__onnx_with_ints(r->node, "unsqueeze", "dim", "y", y, 1, direction_axis, result);
  intact_node *apart = NULL;
  INTACT_TRY(intact__onnx_add(r->node, "unflatten", "apart", 1, &y, &apart));
  const int64_t sizes[2] = {r->directions, r->hidden};
  intact__attr_set_int(apart, "dim", 2);
  INTACT_TRY(intact__attr_set_ints(apart, "sizes", 2, sizes));
  INTACT_TRY(intact__node_infer(apart));
  *result = apart->results[0];
  static const int64_t order[4] = {0, 2, 1, 3};
  return r->batch_first ? INTACT_OK : permute(r, "y", *result, 4, order, result);
}

static intact_status make_rnn(const recurrent *r, int n_params, intact_value *const *params, intact_node **made) {
  intact_onnx_node *node = r->node;
  bool lstm = r->gates == 4;
  intact_value *operands[3 + 8] = {intact__onnx_input(node, 0)};
  int n = lstm ? 3 : 2;
  if (r->reversed) INTACT_TRY(flip_time(r, "reversed", operands[0], &operands[0]));
  INTACT_TRY(turn_state(r, "h0", intact__onnx_input(node, 5), &operands[1]));
  if (lstm) INTACT_TRY(turn_state(r, "c0", intact__onnx_input(node, 6), &operands[2]));
  for (int i = 0; i < n_params; i++) operands[n++] = params[i];
  INTACT_TRY(intact__onnx_add(node, r->op, "", n, operands, made));
  intact__attr_set_int(*made, "has_biases", intact__onnx_input(node, 3) != NULL);
  intact__attr_set_int(*made, "bidirectional", r->directions == 2);
  intact__attr_set_int(*made, "batch_first", r->batch_first);
  if (r->gates == 3) intact__attr_set_int(*made, "reset_after", r->reset_after);
  return intact__node_infer(*made);
}

static intact_status rnn(intact_onnx_node *node) {
  recurrent r = {.node = node};
  INTACT_TRY(set_kind(&r));
  const intact_value *x = intact__onnx_input(node, 0), *w = intact__onnx_input(node, 1),
                     *weights = intact__onnx_input(node, 2);
  if (x == NULL || w == NULL || weights == NULL || weights->rank != 3 || weights->dims[2] < 1) {
    INTACT_FAIL(node->context, MISSING_FIELD, node->name, "cannot read node '%s' (%s): X, W and R of rank 3 are needed",
                node->name, node->op);
  }
  r.hidden = weights->dims[2];
  if (intact__onnx_input(node, 7) != NULL) return refuse(&r, "P (peepholes)");
  INTACT_TRY(check_lengths(&r));
  intact_value *params[8] = {NULL}, *result = NULL;
  int n_params;
  intact_node *made = NULL;
  INTACT_TRY(cut_all(&r, params, &n_params));
  INTACT_TRY(make_rnn(&r, n_params, params, &made));
  if (intact__onnx_has_output(node, 0)) {
    INTACT_TRY(shape_result(&r, made->results[0], &result));
    INTACT_TRY(intact__onnx_bind(node, 0, result));
  }
  for (int i = 1; i < node->n_outputs && i < made->n_results; i++) {
    INTACT_TRY(turn_state(&r, i == 1 ? "hn" : "cn", made->results[i], &result));
    INTACT_TRY(intact__onnx_bind(node, i, result));
  }
  return INTACT_OK;
}

const intact_onnx_fixup intact__onnx_fixups_rnn[] = {
    INTACT_ONNX_FIXUP(rnn),
    INTACT_ONNX_FIXUPS_END,
};
